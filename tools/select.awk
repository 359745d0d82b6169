# SPDX-License-Identifier: MIT
# select.awk - from every kernel row to the rows of one build.
#
# Reads generated/kernels.inc, rows INGOT_KERNEL(family, type, tile, arch, serves, threads, smem, unit, symbol).
# Writes `inc`, the selected rows, and `mk`, make variables: CU (the files) and GENCODE_<symbol> (what nvcc compiles
# each for).  A row is compiled for the chips in `archs` whose class it serves, and to the PTX levels in `ptx` that
# would choose it.  Plain types are always kept: activations and copies need them.
function class(chip) { return chip == "90a" ? 90 : chip == "75" ? 75 : 80 }
function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
BEGIN {
    n_archs = split(archs, arch_list, " "); n_ptx = split(ptx, ptx_list, " ")
    split(quants, q, " "); for (i in q) want_quant[toupper(q[i])] = 1
    split(ops, o, " "); for (i in o) want_op[toupper(o[i])] = 1
    simt = archs == "simt"
    for (i = 1; i <= n_archs && !simt; i++) known_level("ARCHS", arch_list[i])
    for (i = 1; i <= n_ptx; i++) known_level("PTX", ptx_list[i])
    if (n_archs + n_ptx == 0) { print "ARCHS and PTX are empty: nothing to compile for" > "/dev/stderr"; bad = 1 }
    printf "// Selected from generated/kernels.inc: QUANTS=%s OPS=%s\n", quants, ops > inc
    printf "" > mk
    all = ""
    for (i = 1; i <= n_archs; i++) if (!simt) all = all gencode(arch_list[i])
    for (i = 1; i <= n_ptx; i++) all = all ptxcode(ptx_list[i])
    print "GENCODE_all := " all > mk
}
function known_level(name, level) {
    if (level ~ /^(7[5-9]|8[0-9]|9[0-9]|1[0-9][0-9])[af]?$/) return
    print name ": \"" level "\" is no chip that CUDA 13 compiles for, expected 75, 80, 90a and the like" > "/dev/stderr"; bad = 1
}
function names(known,    w, text) { for (w in known) text = text " " tolower(w); return text }
function gencode(chip) { return " -gencode arch=compute_" chip ",code=sm_" chip }
function ptxcode(level) { return " -gencode arch=compute_" level ",code=compute_" level }
/^ *INGOT_KERNEL\(/ {
    line = $0; sub(/^ *INGOT_KERNEL\(/, "", line); sub(/\).*$/, "", line)
    split(line, f, ",")
    for (i in f) f[i] = trim(f[i])
    family = f[1]; type = f[2]; arch = f[4] + 0; serves = f[5]; symbol = f[9]
    known_quant[type] = 1; known_op[family] = 1
    if (quants != "all" && type !~ /^(F32|F16|BF16|I8|I32)$/ && !(type in want_quant)) next
    if (ops != "all" && !(family in want_op)) next
    code = ""
    for (i = 1; i <= n_archs && !simt; i++) if (serves ~ ("CLASS_" class(arch_list[i]))) code = code gencode(arch_list[i])
    for (i = 1; i <= n_ptx; i++) {
        c = class(ptx_list[i])
        if (arch == c || (arch < c && serves ~ ("CLASS_" c))) code = code ptxcode(ptx_list[i])
    }
    if (!simt && code == "") next
    print $0 > inc
    print "CU += generated/" tolower(family) "/" symbol ".cu" > mk
    if (!simt) print "GENCODE_" symbol " :=" code > mk
}
END {
    for (w in want_quant) if (w != "ALL" && !(w in known_quant)) { print "QUANTS: no kernel of type " tolower(w) "; there are:" names(known_quant) > "/dev/stderr"; bad = 1 }
    for (w in want_op) if (w != "ALL" && !(w in known_op)) { print "OPS: no kernel family " tolower(w) "; there are:" names(known_op) > "/dev/stderr"; bad = 1 }
    exit bad
}
