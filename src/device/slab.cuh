/* SPDX-License-Identifier: MIT
 *
 * slab.cuh - what the tensor-core mat-vec kernels and the slab_dot of each format share.
 *
 * A slab is 256 columns of k. A warp multiplies 16 rows of it with 8 columns of activations by int8 mma: lane l holds
 * parts of weight rows g and g + 8 (g = l / 4) and of the sums of activation columns 2t and 2t + 1 (t = l % 4). In each
 * block of 32 a lane's share of a row is two words: elements 4t..4t+3 and 16+4t..16+4t+3, for weights and activations
 * alike, so the same activations serve every format. (Formats in X_WORDS of gen/rows.py take two other words.)
 */
#ifndef INGOT_SLAB_CUH
#define INGOT_SLAB_CUH

#include "src/device/device.cuh"

/* A lane's activations of a slab. Indices are constants: the struct lives in registers. */
struct slab_x {
    uint32_t q[8][2]; /* block i of column g: elements 4t.., elements 16+4t.. (X_WORDS) */
    float    d[8][2]; /* its scale, for columns 2t and 2t + 1 */
    float    s[8][2]; /* scale times sum of the block's bytes, for columns 2t and 2t + 1 */
};

/* y += d0 (row g) or d1 (row g + 8) times the scales of columns 2t, 2t + 1 times the sums of one block. */
INGOT_DEV void slab_add(float (&y)[4], const int32_t (&c)[4], float d0, float d1, const float (&dx)[2]) {
    y[0] = fmaf(d0 * dx[0], (float)c[0], y[0]);
    y[1] = fmaf(d0 * dx[1], (float)c[1], y[1]);
    y[2] = fmaf(d1 * dx[0], (float)c[2], y[2]);
    y[3] = fmaf(d1 * dx[1], (float)c[3], y[3]);
}

/* Four bytes at a 2-byte aligned address of shared memory, by whole words: up to two bytes on either side are read too. */
INGOT_DEV uint32_t slab_word(const uint8_t *p) {
    const uint32_t odd = (uint32_t)(uintptr_t)p & 2u;
    return prmt(ld_4(p - odd), ld_4(p - odd + 4), odd ? 0x5432u : 0x3210u);
}

#endif
