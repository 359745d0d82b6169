/* SPDX-License-Identifier: MIT
 *
 * mmv_stream.cuh - what the streaming mat-vec kernels share around their products: which matrix a block works on, and what
 * becomes of a finished sum. mmv.cuh says the same for blocks that find everything themselves; here a product of one matrix
 * reads as few arguments as it can.
 */
#ifndef INGOT_MMV_STREAM_CUH
#define INGOT_MMV_STREAM_CUH

#include "src/device/mmv.cuh"

/* One matrix of dst: its weights, its first column of activations, where its results go and what is added to them. */
struct stream_matrix {
    const uint8_t *w, *w2; /* w is NULL where the expert's id is out of range, w2 also where there is one matrix */
    const int8_t  *qs;     /* of its first column of activations: MMVQ */
    const struct ingot_q8_scale *scales;
    const uint8_t *x;      /* likewise: MMVF */
    float         *dst;
    const float   *add[2];
};

/* The part of the result that this block makes: a run of rows of one matrix. */
struct stream_rows {
    uint32_t index; /* of the matrix */
    int      first, count;
};
INGOT_DEV struct stream_rows stream_rows_of(const struct ingot_mmv_args &a) {
    const uint32_t index = a.shape.flags & INGOT_MMV_MANY ? blockIdx.x / (uint32_t)a.shape.blocks : 0;
    const int block = (int)(blockIdx.x - index * (uint32_t)a.shape.blocks);
    const int first = (block * a.shape.share + min(block, a.shape.rest)) * a.shape.grain;
    const int count = (a.shape.share + (block < a.shape.rest)) * a.shape.grain;
    return {index, first, min(count, (int)a.m - first)};
}

/* The matrix of number `index`. With ids it waits for the launch before this one. Divisions, multiplications and rarely
 * used arguments take long when a launch is new: a product of one matrix has none of them. */
INGOT_DEV struct stream_matrix stream_matrix_at(const struct ingot_mmv_args &a, uint32_t index) {
    struct stream_matrix mat = {(const uint8_t *)a.w, NULL, a.q8.qs, a.q8.scales, (const uint8_t *)a.x, a.dst, {NULL, NULL}};
    if (a.shape.flags & INGOT_MMV_PAIR) mat.w2 = (const uint8_t *)a.w2;
    if (a.shape.flags & INGOT_MMV_ADD) {
        INGOT_UNROLL
        for (int t = 0; t < 2; t++) mat.add[t] = a.add[t].data;
    }
    if (!(a.shape.flags & INGOT_MMV_MANY)) return mat;
    const uint32_t i3 = index / (uint32_t)a.ne2, i2 = index - i3 * (uint32_t)a.ne2;
    if (a.ids) ingot_pdl_wait();
    const int64_t offset = mmv_matrix(a, i2, i3), column = i3 * a.x_ne2 + mmv_x_matrix(a, i2);
    const bool valid = offset >= 0;
    mat.qs += column * a.n * a.k;
    mat.scales += column * a.n * (a.k / 32);
    mat.x += mmv_x_matrix(a, i2) * a.x_nb2 + i3 * a.x_nb3;
    mat.w = valid ? mat.w + offset : NULL;
    if (mat.w2) mat.w2 = valid ? mat.w2 + offset : NULL;
    mat.dst = (float *)((uint8_t *)mat.dst + i2 * a.dst_nb2 + i3 * a.dst_nb3);
    INGOT_UNROLL
    for (int t = 0; t < 2; t++)
        if (mat.add[t]) mat.add[t] = (const float *)((const uint8_t *)mat.add[t] + i2 * a.add[t].nb2 + i3 * a.add[t].nb3);
    return mat;
}

INGOT_DEV float stream_added(const struct ingot_mmv_args &a, const struct stream_matrix &mat, int t, int64_t i, int64_t j, float y) {
    return mat.add[t] ? y + *(const float *)((const uint8_t *)(mat.add[t] + i) + j * a.add[t].nb1) : y;
}

INGOT_DEV void stream_store(const struct ingot_mmv_args &a, const struct stream_matrix &mat, int64_t i, int64_t j, float y) {
    *(float *)((uint8_t *)(mat.dst + i) + j * a.dst_nb1) = y;
}

/* dst(i, j) = y and what is added to it. */
INGOT_DEV void stream_put(const struct ingot_mmv_args &a, const struct stream_matrix &mat, int64_t i, int64_t j, float y) {
    if (a.shape.flags & INGOT_MMV_ADD) y = stream_added(a, mat, 1, i, j, stream_added(a, mat, 0, i, j, y));
    stream_store(a, mat, i, j, y);
}
/* The rows of a column that no expert makes. By the whole block. */
INGOT_DEV void stream_put_none(const struct ingot_mmv_args &a, const struct stream_matrix &mat, int row0, int rows) {
    for (int r = (int)threadIdx.x; r < rows; r += (int)blockDim.x) stream_put(a, mat, row0 + r, 0, NAN);
}
/* dst(i, j) = GLU of the gate y and of up, each with what is added to it. */
INGOT_DEV void stream_put_pair(const struct ingot_mmv_args &a, const struct stream_matrix &mat, int64_t i, int64_t j, float y,
                               float up) {
    y = stream_added(a, mat, 0, i, j, y);
    up = stream_added(a, mat, 1, i, j, up);
    stream_store(a, mat, i, j, glu(a.glu, y, up, a.glu_alpha, a.glu_limit));
}

INGOT_DEV void stream_ask_rows(uint8_t *slot, uint64_t *full, const uint8_t *src, int64_t nb1, int count, uint32_t bytes,
                               uint32_t stride) {
    if (bytes == nb1) { /* rows follow one another without a gap */
        bulk_g2s(slot, src, (uint32_t)count * bytes, full);
        return;
    }
    INGOT_ROLLED
    for (; count > 0; count--, src += nb1, slot += stride) bulk_g2s(slot, src, bytes, full);
}
/* Asks for `count` rows of a warp's slice, `nb1` apart from src on, `stride` apart in the slot; of two matrices for as many
 * from src2 on, `half` bytes further in the slot. One lane does it. */
INGOT_DEV void stream_ask(uint8_t *slot, uint64_t *full, const uint8_t *src, const uint8_t *src2, int64_t nb1, int count,
                          uint32_t bytes, uint32_t stride, uint32_t half, int pair) {
    mbar_arrive_expect(full, (uint32_t)count * bytes << pair);
    stream_ask_rows(slot, full, src, nb1, count, bytes, stride);
    if (pair) stream_ask_rows(slot + half, full, src2, nb1, count, bytes, stride);
}

/* A row's sum of the slices of its `across` warps, in their order. */
INGOT_DEV float stream_sum(const float *part, int across) {
    float y = part[0];
    INGOT_ROLLED
    for (int t = 1; t < across; t++) y += part[t];
    return y;
}

#endif
