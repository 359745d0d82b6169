#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares src/simt/include/cuda_runtime_api.h with the toolkit's, where one is installed: every
# enumerator and flag must have the same value, every function the same type.
#   test/simt/check_headers.sh [TOOLKIT_INCLUDE_DIR]
toolkit=${1:-/usr/local/cuda/include}
ours=src/simt/include
[ -f "$toolkit/cuda_runtime_api.h" ] || { echo "no toolkit at $toolkit: not checked"; exit 0; }
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
api=$ours/cuda_runtime_api.h
{
    printf '#include <stdio.h>\n#include <cuda_runtime_api.h>\nint main(void)\n{\n'
    grep -oE '\bcuda[A-Z][A-Za-z0-9]* = ' "$api" | sed 's/ = $//' | sort -u | sed 's/.*/printf("& %lld\\n", (long long)&);/'
    grep -oE '^#define cuda[A-Z][A-Za-z]* 0x' "$api" | awk '{print $2}' | sort -u | sed 's/.*/printf("& %lld\\n", (long long)&);/'
    printf 'return 0;\n}\n'
} >"$tmp/values.c"
for side in ours toolkit; do
    eval dir=\$$side
    gcc -I"$dir" "$tmp/values.c" -o "$tmp/values" && "$tmp/values" >"$tmp/$side" || exit 1
done
diff "$tmp/ours" "$tmp/toolkit" || { echo "values differ"; exit 1; }
# The runtime's definitions must agree with the toolkit's declarations.
{
    printf '#include <cuda_runtime_api.h>\n'
    grep -oE '^(cudaError_t|const char \*)[ ]?cuda[A-Za-z0-9]+\(' "$api" | sed -E 's/.*(cuda[A-Za-z0-9]+)\($/\1/; /^cudaError_t$/d' | sort -u >"$tmp/names"
    sed 's/.*/static const void *const p_& __attribute__((unused)) = (const void *)\&&;/' "$tmp/names"
} >"$tmp/names.c"
gcc -fsyntax-only -I"$toolkit" "$tmp/names.c" || exit 1
for f in src/simt/rt_*.cpp; do
    g++ -std=c++17 -fsyntax-only -w -I. -I"$toolkit" "$f" 2>"$tmp/log" || { grep -E 'error' "$tmp/log" | head; exit 1; }
done
echo "$(wc -l <"$tmp/ours") values and $(wc -l <"$tmp/names") functions agree with the toolkit"
