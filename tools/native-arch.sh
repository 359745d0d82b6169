#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the chips of this machine's GPUs as make's ARCHS wants them ("90a"); fails where there is no NVIDIA driver.
command -v nvidia-smi >/dev/null 2>&1 || { echo "native-arch: no NVIDIA driver on this machine" >&2; exit 1; }
caps=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d .) || exit 1
[ -n "$caps" ] || { echo "native-arch: the driver reports no GPU" >&2; exit 1; }
out=""
for c in $caps; do [ "$c" = 90 ] && c=90a; out="$out $c"; done
echo $out
