#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the SIMT tests of one build in every mode that changes what they see.
#   test/simt/run.sh BUILD_DIR plain|address,undefined|thread
# Closes with "N runs, M failed"; the programs print cmocka's own counts.
dir=$1 runs=0 failed=0
one() { # one "ENVIRONMENT" PROGRAM
    runs=$((runs + 1))
    if env $1 timeout 120 "$dir/$2" >"$dir/log" 2>&1; then
        printf '%-52s %-16s %s\n' "${1:-default}" "$2" "$(grep -E 'PASSED' "$dir/log" | head -n 1)"
    else
        failed=$((failed + 1))
        printf '%-52s %-16s FAILED\n' "${1:-default}" "$2"
        grep -vE 'RUN  |   OK ' "$dir/log" | head -n 40
    fi
}
case $2 in
plain) set -- "" "INGOT_SIMT_ORDER=rev INGOT_SIMT_ASYNC=early" "INGOT_SIMT_ORDER=rand:7 INGOT_SIMT_FILL=1" \
    "INGOT_SIMT_STRICT=1 INGOT_SIMT_FILL=1" "INGOT_SIMT_THREADS=1" "INGOT_SIMT_THREADS=4" "INGOT_SIMT_DEVICES=3" \
    "INGOT_SIMT_LAZY=1 INGOT_SIMT_DEVICES=3" "INGOT_SIMT_GUARD=1 INGOT_SIMT_DEVICES=2" "INGOT_SIMT_CC=75" ;;
thread) set -- "" ;;
*) set -- "" "INGOT_SIMT_ORDER=rand:3 INGOT_SIMT_LAZY=1" ;;
esac
for e; do
    one "$e" test_semantics
    one "$e" test_runtime
done
one "" test_faults
echo "$runs runs, $failed failed"
[ $failed = 0 ]
