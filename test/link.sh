#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# link.sh ARCHIVE FOLDER - the archive as an appliance meets it.  Environment: CC, LIBS (what follows -lingot on the
# link line), SIMT=1 for the SIMT host's archive.
#
#   a plain C program links with LIBS alone, without a C++ runtime, and runs
#   every global symbol the archive defines has the library's prefix (the SIMT host also stands in for the runtime)
#   nothing is left undefined that a C program has no business with: driver functions, abort, the C++ runtime
set -u
archive=$1 folder=$2
cc=${CC:-cc} libs=${LIBS:-} simt=${SIMT:-0} failed=0
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"

bad() { echo "link: $*"; failed=1; }
# report TEXT LIST : fails if the list is not empty
report() { [ -z "$2" ] || { bad "$1:"; printf '%s\n' "$2" | sort -u | head -20 | sed 's/^/    /'; }; }

# ---- the program
case " $libs " in *stdc++*|*" -lcuda "*) bad "the link line has what it must not need: $libs" ;; esac
# shellcheck disable=SC2086
if "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$here/include" "$here/test/test_link.c" "$archive" $libs -o "$folder/test_link"; then
    "$folder/test_link" || bad "test_link failed with exit code $?"
    needed=$(readelf -d "$folder/test_link" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    report "shared libraries that an appliance may not have" "$(grep -E 'stdc\+\+|libcuda\.so|libgomp' <<<"$needed")"
else
    bad "a plain C program does not link"
fi

# ---- the symbols
defined=$(nm -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 {print $3}' | sort -u)
undefined=$(nm -u "$archive" 2>/dev/null | awk '$1 == "U" {print $2}' | sort -u)
[ "$(grep -c '^ingot_' <<<"$defined")" -gt 50 ] || bad "only $(grep -c '^ingot_' <<<"$defined") symbols of the library found in $archive"
allowed='^ingot_'
[ "$simt" = 1 ] && allowed='^(ingot_|simt_|cuda|__cuda)'
report "defined symbols without the prefix" "$(grep -vE "$allowed" <<<"$defined")"
outside=$(comm -23 <(printf '%s\n' "$undefined") <(printf '%s\n' "$defined"))
report "undefined driver functions" "$(grep -E '^cu[A-Z]' <<<"$outside")"
report "undefined symbols of a C++ runtime" "$(grep -E '^(_Z|__cxa_|__gxx_|_Unwind_|__dynamic_cast)' <<<"$outside")"

# abort and its like: in the library's own objects none, nor in those of nvcc.  The SIMT machine, a checking tool, ends
# the program at a fault it has found; that is outside ingot's objects.
ends='^(abort|exit|_exit|_Exit|quick_exit|__assert_fail|__assert|raise|kill)$'
ends_of() { # object file names with such a symbol
    nm -A -u "$archive" 2>/dev/null | awk -v ends="$ends" '$NF ~ ends {n = split($1, part, ":"); print part[n - 1] " " $NF}' | sort -u
}
if [ "$simt" = 1 ]; then
    own=$(cd "$here" && for f in src/base src/memory src/kernels src/ops src/graph; do ls $f/*.c; done | xargs -n1 basename | sed 's/\.c$/.o/' | sort -u)
    found=$(ends_of | while read -r object symbol; do grep -qx "$object" <<<"$own" && echo "$object $symbol"; done)
else
    found=$(ends_of)
fi
report "calls that end the program" "$found"

[ $failed = 0 ] && echo "link: $(wc -l <<<"$defined") defined symbols, $(wc -l <<<"$outside") from outside"
exit $failed
