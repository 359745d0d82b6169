/* SPDX-License-Identifier: MIT
 *
 * mmv.cuh - what the mat-vec kernels share around their products: which matrix a block works on, and what becomes of a
 * finished sum. struct ingot_mmv_args says what the arguments mean.
 */
#ifndef INGOT_MMV_CUH
#define INGOT_MMV_CUH

#include "src/device/device.cuh"
#include "src/device/glu.cuh"
#include "src/kernels/args.h"

/* One matrix of dst: its weights, its first column of activations, where its results go and what is added to them. */
struct mmv_matrix {
    const uint8_t *w, *w2; /* w is NULL where the expert's id is out of range, w2 also where there is one matrix */
    const int8_t  *qs;     /* of its first column of activations */
    const struct ingot_q8_scale *scales;
    float         *dst;
    const float   *add[2];
};

/* The matrix of number `index`. With ids it waits for the launch before this one. Divisions, multiplications and rarely
 * used arguments take long when a launch is new: a product of one matrix has none of them. */
INGOT_DEV struct mmv_matrix mmv_matrix_at(const struct ingot_mmv_args &a, uint32_t index) {
    struct mmv_matrix mat = {(const uint8_t *)a.w, NULL, a.q8.qs, a.q8.scales, a.dst, {NULL, NULL}};
    if (a.shape.flags & INGOT_MMV_PAIR) mat.w2 = (const uint8_t *)a.w2;
    if (a.shape.flags & INGOT_MMV_ADD) {
        INGOT_UNROLL
        for (int t = 0; t < 2; t++) mat.add[t] = a.add[t].data;
    }
    if (!(a.shape.flags & INGOT_MMV_MANY)) return mat;
    const uint32_t i3 = index / (uint32_t)a.ne2, i2 = index - i3 * (uint32_t)a.ne2;
    int64_t offset, column = index;
    bool valid = true;
    if (a.ids) {
        ingot_pdl_wait();
        const int64_t id = *(const int32_t *)((const uint8_t *)a.ids + i2 * a.ids_nb0 + i3 * a.ids_nb1);
        valid = id >= 0 && id < a.experts;
        offset = id * a.w_nb2;
        column = (int64_t)i3 * a.x_ne2 + i2 % (uint32_t)a.x_ne2;
    } else {
        offset = i2 / (uint32_t)a.ratio2 * a.w_nb2 + i3 / (uint32_t)a.ratio3 * a.w_nb3;
    }
    mat.qs += column * a.n * a.k;
    mat.scales += column * a.n * (a.k / 32);
    mat.w = valid ? mat.w + offset : NULL;
    if (mat.w2) mat.w2 = valid ? mat.w2 + offset : NULL;
    mat.dst = (float *)((uint8_t *)mat.dst + i2 * a.dst_nb2 + i3 * a.dst_nb3);
    INGOT_UNROLL
    for (int t = 0; t < 2; t++)
        if (mat.add[t]) mat.add[t] = (const float *)((const uint8_t *)mat.add[t] + i2 * a.add[t].nb2 + i3 * a.add[t].nb3);
    return mat;
}

INGOT_DEV float mmv_added(const struct ingot_mmv_args &a, const struct mmv_matrix &mat, int t, int64_t i, int64_t j, float y) {
    return mat.add[t] ? y + *(const float *)((const uint8_t *)(mat.add[t] + i) + j * a.add[t].nb1) : y;
}

INGOT_DEV void mmv_store(const struct ingot_mmv_args &a, const struct mmv_matrix &mat, int64_t i, int64_t j, float y) {
    *(float *)((uint8_t *)(mat.dst + i) + j * a.dst_nb1) = y;
}

/* dst(i, j) = y and what is added to it. */
INGOT_DEV void mmv_put(const struct ingot_mmv_args &a, const struct mmv_matrix &mat, int64_t i, int64_t j, float y) {
    if (a.shape.flags & INGOT_MMV_ADD) y = mmv_added(a, mat, 1, i, j, mmv_added(a, mat, 0, i, j, y));
    mmv_store(a, mat, i, j, y);
}
/* dst(i, j) = GLU of the gate y and of up, each with what is added to it. */
INGOT_DEV void mmv_put_pair(const struct ingot_mmv_args &a, const struct mmv_matrix &mat, int64_t i, int64_t j, float y,
                            float up) {
    y = mmv_added(a, mat, 0, i, j, y);
    up = mmv_added(a, mat, 1, i, j, up);
    mmv_store(a, mat, i, j, glu(a.glu, y, up, a.glu_alpha, a.glu_limit));
}

#endif
