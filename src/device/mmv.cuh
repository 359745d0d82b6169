/* SPDX-License-Identifier: MIT
 *
 * mmv.cuh - what the mat-vec kernels share: which matrix a block multiplies with, which column of activations, and
 * where a result goes. struct ingot_mmv_args (args.h) says what they mean.
 */
#ifndef INGOT_MMV_CUH
#define INGOT_MMV_CUH

#include "src/device/device.cuh"
#include "src/device/glu.cuh"
#include "src/kernels/args.h"

/* Bytes from w (and from w2) to the matrix of (i2, i3); -1 if the id there chooses none. */
INGOT_DEV int64_t mmv_matrix(const struct ingot_mmv_args &a, uint32_t i2, uint32_t i3) {
    if (!a.ids) return i2 / (uint32_t)a.ratio2 * a.w_nb2 + i3 / (uint32_t)a.ratio3 * a.w_nb3;
    const int32_t id = *(const int32_t *)((const uint8_t *)a.ids + i2 * a.ids_nb0 + i3 * a.ids_nb1);
    return id >= 0 && id < a.experts ? id * a.w_nb2 : -1;
}

/* The matrix of x along dimension 2 that goes with i2 of dst. */
INGOT_DEV uint32_t mmv_x_matrix(const struct ingot_mmv_args &a, uint32_t i2) {
    return a.ids ? i2 % (uint32_t)a.x_ne2 : i2;
}

INGOT_DEV float mmv_add(const struct ingot_mmv_add &add, int64_t i, int64_t j, int64_t i2, int64_t i3, float y) {
    if (!add.data) return y;
    return y + *(const float *)((const uint8_t *)(add.data + i) + j * add.nb1 + i2 * add.nb2 + i3 * add.nb3);
}

INGOT_DEV void mmv_store(const struct ingot_mmv_args &a, int64_t i, int64_t j, int64_t i2, int64_t i3, float y) {
    *(float *)((uint8_t *)(a.dst + i) + j * a.dst_nb1 + i2 * a.dst_nb2 + i3 * a.dst_nb3) = y;
}

/* With a second matrix rows come in pairs: row 2i is row i of w, row 2i + 1 is row i of w2. So the loops over rows stay
 * what they are, and a pair's sums are of one block. */
struct mmv_rows {
    const uint8_t *matrix; /* of w */
    int64_t nb1, second;   /* `second` bytes further that of w2 */
    int64_t last;
    int pair;              /* 1: in pairs */
};
/* Of no matrix: the first one's, which nobody reads (it may be empty, and w NULL). */
INGOT_DEV struct mmv_rows mmv_rows_of(const struct ingot_mmv_args &a, int64_t offset) {
    const int pair = a.w2 ? 1 : 0;
    return {(const uint8_t *)a.w + (offset > 0 ? offset : 0), a.w_nb1,
            pair ? (int64_t)((uintptr_t)a.w2 - (uintptr_t)a.w) : 0, (a.m << pair) - 1, pair};
}
/* Row r; past the last one the last. */
INGOT_DEV const uint8_t *mmv_row(const struct mmv_rows &rows, int64_t r) {
    r = r < rows.last ? r : rows.last;
    return rows.matrix + (r >> rows.pair) * rows.nb1 + (r & rows.pair ? rows.second : 0);
}

/* One matrix: dst(i, j) = y + what is added, unless the row or the column is past the end. */
INGOT_DEV void mmv_put(const struct ingot_mmv_args &a, int64_t i, int64_t j, int64_t i2, int64_t i3, float y) {
    if (i >= a.m || j >= a.n) return;
    y = mmv_add(a.add[0], i, j, i2, i3, y);
    mmv_store(a, i, j, i2, i3, mmv_add(a.add[1], i, j, i2, i3, y));
}

/* Two: dst(i, j) = glu(y + add[0], y2 + add[1]). */
INGOT_DEV void mmv_put_glu(const struct ingot_mmv_args &a, int64_t i, int64_t j, int64_t i2, int64_t i3, float y,
                           float y2) {
    if (i >= a.m || j >= a.n) return;
    y = mmv_add(a.add[0], i, j, i2, i3, y);
    y2 = mmv_add(a.add[1], i, j, i2, i3, y2);
    mmv_store(a, i, j, i2, i3, glu(a.glu, y, y2, a.glu_alpha, a.glu_limit));
}

#endif
