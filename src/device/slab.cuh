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

/* n columns of a slab's activations in shared memory: 256 bytes each, then 64 bytes of scales with sums each. A line of 128
 * bytes is a line of global memory, its 16-byte pieces in another order for each column: asynchronous copies come in as few
 * requests as lines, and what a warp reads together lies in different banks. */
enum { SLAB_X_BYTES = 256, SLAB_X_SCALES = 64 };

/* Where piece `piece` (0..15) of a column lies, and of its scales piece 0..3, two blocks each. */
INGOT_DEV int slab_x_piece(int column, int piece) {
    return column * SLAB_X_BYTES + piece / 8 * 128 + (piece % 8 ^ (column * 2 % 8 + column / 4)) * 16;
}
INGOT_DEV int slab_x_scale(int column, int piece) { return column * SLAB_X_SCALES + (piece ^ column / 2) * 16; }

/* Where a lane finds its activations in n columns; those past the last repeat it. Later pieces of a line are at these
 * places xor a multiple of 16. */
struct slab_x_place {
    int rows, column, scales[2], t; /* rows: its row for ldmatrix; column: of column g the pieces that t is in */
};
INGOT_DEV struct slab_x_place slab_x_place_of(int lane, int n) {
    const int t = lane % 4, last = n - 1;
    return {slab_x_piece(min(lane % 8, last), lane / 8), slab_x_piece(min(lane / 4, last), 0),
            {n * SLAB_X_BYTES + slab_x_scale(min(2 * t, last), 0), n * SLAB_X_BYTES + slab_x_scale(min(2 * t + 1, last), 0)},
            t};
}

INGOT_DEV void slab_x_scales(struct slab_x &x, const uint8_t *columns, const struct slab_x_place &at) {
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) {
        INGOT_UNROLL
        for (int c = 0; c < 2; c++) {
            const uint4 v = ld_16(columns + (at.scales[c] ^ i * 16));
            x.d[2 * i][c] = __uint_as_float(v.x);
            x.s[2 * i][c] = __uint_as_float(v.y);
            x.d[2 * i + 1][c] = __uint_as_float(v.z);
            x.s[2 * i + 1][c] = __uint_as_float(v.w);
        }
    }
}

/* A lane's activations in the order that X_ORDERS (gen/rows.py) has for the format. Elements 4t.. and 16+4t..: */
INGOT_DEV void slab_x_plain(struct slab_x &x, const uint8_t *columns, const struct slab_x_place &at) {
    INGOT_UNROLL
    for (int i = 0; i < 8; i += 2) {
        uint32_t r[4];
        ldmatrix_x4(r, columns + (at.rows ^ i % 4 * 32) + i / 4 * 128);
        x.q[i][0] = r[0];
        x.q[i][1] = r[1];
        x.q[i + 1][0] = r[2];
        x.q[i + 1][1] = r[3];
    }
    slab_x_scales(x, columns, at);
}
/* Elements 8t..8t+7: a lane has whole entries of eight. */
INGOT_DEV void slab_x_pairs(struct slab_x &x, const uint8_t *columns, const struct slab_x_place &at) {
    INGOT_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint2 v = ld_8(columns + (at.column ^ (i % 4 * 32 + at.t / 2 * 16)) + i / 4 * 128 + at.t % 2 * 8);
        x.q[i][0] = v.x;
        x.q[i][1] = v.y;
    }
    slab_x_scales(x, columns, at);
}
/* Nibbles of bytes: 4t, 16+4t, 4t+1, 17+4t, then 4t+2, 18+4t, 4t+3, 19+4t. */
INGOT_DEV void slab_x_nibbles(struct slab_x &x, const uint8_t *columns, const struct slab_x_place &at) {
    slab_x_plain(x, columns, at);
    INGOT_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t low = x.q[i][0], high = x.q[i][1];
        x.q[i][0] = prmt(low, high, 0x5140);
        x.q[i][1] = prmt(low, high, 0x7362);
    }
}
/* The same where each 16 elements are 8 bytes: 2t, 8+2t, 2t+1, 9+2t of both. */
INGOT_DEV void slab_x_nibbles_16(struct slab_x &x, const uint8_t *columns, const struct slab_x_place &at) {
    INGOT_UNROLL
    for (int i = 0; i < 8; i++) {
        INGOT_UNROLL
        for (int e = 0; e < 2; e++) {
            const uint8_t *p = columns + (at.column ^ (i % 4 * 32 + e * 16)) + i / 4 * 128 + at.t / 2 * 4;
            x.q[i][e] = prmt(ld_4(p), ld_4(p + 8), at.t % 2 ? 0x7362 : 0x5140);
        }
    }
    slab_x_scales(x, columns, at);
}

/* A sum of the warps' parts, 128 floats apart, in their order. */
INGOT_DEV float slab_sum(const float *part, int warps) {
    float y = part[0];
    INGOT_ROLLED
    for (int w = 1; w < warps; w++) y += part[w * 128];
    return y;
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
