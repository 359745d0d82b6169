/* SPDX-License-Identifier: MIT
 *
 * slab.cuh - what the tensor-core mat-vec kernels and the slab_dot of each format share.
 *
 * A slab is 256 columns of k. A warp multiplies 16 rows of it with 8 columns of activations by int8 mma: lane l holds
 * parts of weight rows g and g + 8 (g = l / 4) and of the sums of activation columns 2t and 2t + 1 (t = l % 4). In each
 * block of 32 a lane's share of a row is two words: elements 4t..4t+3 and 16+4t..16+4t+3, for weights and activations
 * alike, so the same activations serve every format.
 */
#ifndef INGOT_SLAB_CUH
#define INGOT_SLAB_CUH

#include "src/device/device.cuh"

/* A lane's activations of a slab. Indices are constants: the struct lives in registers. */
struct slab_x {
    uint32_t q[8][2]; /* block i of column g: elements 4t.., elements 16+4t.., or another order of slab_x_ below */
    float    d[8][2]; /* its scale, for columns 2t and 2t + 1 */
    float    s[8][2]; /* scale times sum of the block's bytes, for columns 2t and 2t + 1 */
};

/* A lane's eight elements of the block of 32 at p, in the order that X_ORDERS (gen/rows.py) has for the format. */
INGOT_DEV void slab_x_plain(uint32_t (&q)[2], const uint8_t *p, int t) {
    q[0] = ld_4(p + 4 * t);
    q[1] = ld_4(p + 16 + 4 * t);
}
/* Elements 8t..8t+7: a lane has whole entries of eight. */
INGOT_DEV void slab_x_pairs(uint32_t (&q)[2], const uint8_t *p, int t) {
    q[0] = ld_4(p + 8 * t);
    q[1] = ld_4(p + 8 * t + 4);
}
/* Nibbles of bytes: 4t, 16+4t, 4t+1, 17+4t, then 4t+2, 18+4t, 4t+3, 19+4t. */
INGOT_DEV void slab_x_nibbles(uint32_t (&q)[2], const uint8_t *p, int t) {
    const uint32_t low = ld_4(p + 4 * t), high = ld_4(p + 16 + 4 * t);
    q[0] = prmt(low, high, 0x5140);
    q[1] = prmt(low, high, 0x7362);
}
/* The same where each 16 elements are 8 bytes: 2t, 8+2t, 2t+1, 9+2t of both. */
INGOT_DEV void slab_x_nibbles_16(uint32_t (&q)[2], const uint8_t *p, int t) {
    INGOT_UNROLL
    for (int e = 0; e < 2; e++)
        q[e] = prmt(ld_4(p + 16 * e + t / 2 * 4), ld_4(p + 16 * e + 8 + t / 2 * 4), t % 2 ? 0x7362 : 0x5140);
}

/* y += d0 (row g) or d1 (row g + 8) times the scales of columns 2t, 2t + 1 times the sums of one block, which are below
 * 2^22 and began with INGOT_I22. */
INGOT_DEV void slab_add(float (&y)[4], const int32_t (&c)[4], float d0, float d1, const float (&dx)[2]) {
    y[0] = fmaf(d0 * dx[0], i22_f32(c[0]), y[0]);
    y[1] = fmaf(d0 * dx[1], i22_f32(c[1]), y[1]);
    y[2] = fmaf(d1 * dx[0], i22_f32(c[2]), y[2]);
    y[3] = fmaf(d1 * dx[1], i22_f32(c[3]), y[3]);
}

/* z += the scales of columns 2t, 2t + 1 times what the format's scales have been multiplied into. */
INGOT_DEV void slab_add_f32(float (&z)[4], const float (&c)[4], const float (&dx)[2]) {
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) z[i] = fmaf(dx[i % 2], c[i], z[i]);
}

/* z += the scales of columns 2t, 2t + 1 times whole numbers, which the format's own scales have been multiplied into. */
INGOT_DEV void slab_add_whole(float (&z)[4], const int32_t (&c)[4], const float (&dx)[2]) {
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) z[i] = fmaf(dx[i % 2], (float)c[i], z[i]);
}

/* The same for sums below 2^22 that began with INGOT_I22. */
INGOT_DEV void slab_add_i22(float (&z)[4], const int32_t (&c)[4], const float (&dx)[2]) {
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) z[i] = fmaf(dx[i % 2], i22_f32(c[i]), z[i]);
}

/* y += m0 (row g) or m1 (row g + 8) times the scaled sums of one block's activations. */
INGOT_DEV void slab_minima(float (&y)[4], float m0, float m1, const float (&s)[2]) {
    y[0] = fmaf(m0, s[0], y[0]);
    y[1] = fmaf(m0, s[1], y[1]);
    y[2] = fmaf(m1, s[0], y[2]);
    y[3] = fmaf(m1, s[1], y[3]);
}

/* Four bytes at a 2-byte aligned address of shared memory, by whole words: up to two bytes on either side are read too. */
INGOT_DEV uint32_t slab_word(const uint8_t *p) {
    const uint32_t odd = (uint32_t)(uintptr_t)p & 2u;
    return prmt(ld_4(p - odd), ld_4(p - odd + 4), odd ? 0x5432u : 0x3210u);
}

#endif
