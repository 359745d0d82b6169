#!/bin/sh
# SPDX-License-Identifier: MIT
# size.sh LIB - what each part of the archive costs: bytes per kernel family and per type (object file sizes).
set -eu
ar tv "$1" | awk '
    { bytes = $3; name = $NF; total += bytes
      if (name !~ /^ingot_/) { host += bytes; next }
      sub(/\.o$/, "", name); sub(/^ingot_/, "", name)
      # family: everything before the type
      if (match(name, /_(iq[0-9]_[a-z]+|q[0-9]_[0-9K]|tq[0-9]_0|mxfp4|nvfp4|bf16|f16|f32|i8|i32)(_|$)/)) {
          family = substr(name, 1, RSTART - 1); type = substr(name, RSTART + 1, RLENGTH - 1); sub(/_$/, "", type)
      } else { family = name; type = "-" }
      fam[family] += bytes; nfam[family]++; typ[type] += bytes; ntyp[type]++ }
    END {
      for (f in fam) printf "family %-12s %10d bytes  %4d kernels\n", f, fam[f], nfam[f] | "sort -k3 -nr"
      close("sort -k3 -nr")
      for (t in typ) printf "type   %-12s %10d bytes  %4d kernels\n", t, typ[t], ntyp[t] | "sort -k3 -nr"
      close("sort -k3 -nr")
      printf "host code           %10d bytes\ntotal               %10d bytes\n", host, total }'
