/* SPDX-License-Identifier: MIT
 *
 * encode.cuh - what the formats' encode macros share: a block of 32 numbers on eight neighbouring lanes.
 *
 * Lane l of the eight holds elements 4 l .. 4 l + 3, so that a warp reads four blocks as whole lines.
 * Every function here is called by the whole warp; lanes without a block bring zeros and store nothing.
 *
 * Formats are rounded as the package `gguf` rounds them (gguf.quants.quantize), bit for bit: every
 * operation is one f32 operation, rounded. Where that casts an infinity or a NaN to an integer, which C
 * leaves open, the level is 0.
 */
#ifndef INGOT_ENCODE_CUH
#define INGOT_ENCODE_CUH

#include "src/device/device.cuh"

/* This lane among the eight. */
INGOT_DEV int block_lane(void) { return (int)(threadIdx.x & 7); }

/* ---- extremes: an element of the block, the same on all eight lanes ------------------------------ */

/* The first of the elements whose rank is highest. */
INGOT_DEV float first_highest(const float (&x)[4], const uint32_t (&rank)[4]) {
    uint64_t best = 0;
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) {
        const uint64_t key = (uint64_t)rank[e] << 32 | (uint32_t)(31 - (4 * block_lane() + e));
        best = key > best ? key : best;
    }
    INGOT_UNROLL
    for (int o = 4; o > 0; o >>= 1) {
        const uint64_t other = __shfl_xor_sync(INGOT_FULL_MASK, best, o);
        best = other > best ? other : best;
    }
    const int at = 31 - (int)(best & 31);
    const float low = at & 1 ? x[1] : x[0], high = at & 1 ? x[3] : x[2];
    return __shfl_sync(INGOT_FULL_MASK, at & 2 ? high : low, at / 4, 8);
}

/* Numbers in the order of floats. Both zeros are equal; a NaN is above all. */
INGOT_DEV uint32_t rank_of(float x) {
    const uint32_t bits = __float_as_uint(x), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0xffffffffu;
    return size == 0 ? 0x80000000u : bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The largest magnitude, with its sign; of equals the first; a NaN if there is one. */
INGOT_DEV float farthest(const float (&x)[4]) {
    uint32_t rank[4];
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) rank[e] = __float_as_uint(x[e]) & 0x7fffffffu;
    return first_highest(x, rank);
}
/* The greatest and the least; of equal zeros the first; a NaN if there is one. */
INGOT_DEV float greatest(const float (&x)[4]) {
    uint32_t rank[4];
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) rank[e] = rank_of(x[e]);
    return first_highest(x, rank);
}
INGOT_DEV float least(const float (&x)[4]) {
    uint32_t rank[4];
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) rank[e] = rank_of(-x[e]);
    return first_highest(x, rank);
}

/* The sums of a and of b over the block in the order of its elements, each addition rounded. */
INGOT_DEV void sums_in_order(const float (&a)[4], const float (&b)[4], float *sum_a, float *sum_b) {
    float s = 0.0f, t = 0.0f;
    for (int lane = 0; lane < 8; lane++) {
        INGOT_UNROLL
        for (int e = 0; e < 4; e++) {
            s += a[e];
            t += b[e];
        }
        s = __shfl_sync(INGOT_FULL_MASK, s, lane, 8);
        t = __shfl_sync(INGOT_FULL_MASK, t, lane, 8);
    }
    *sum_a = s;
    *sum_b = t;
}

/* ---- levels -------------------------------------------------------------------------------------- */

/* 1 / d, or 0 for a scale of 0. */
INGOT_DEV float inverse_of(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

/* v without its fraction; levels are far below 256. */
INGOT_DEV int whole(float v) { return fabsf(v) < 256.0f ? __float2int_rz(v) : 0; }

/* The lane's four levels as bytes: (x - zero) times `inverse`, plus `half`, without its fraction, at most `most`. */
INGOT_DEV uint32_t levels_of(const float (&x)[4], float zero, float inverse, float half, int most) {
    uint32_t q = 0;
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) q |= (uint32_t)min(whole((x[e] - zero) * inverse + half), most) << 8 * e;
    return q;
}

/* ---- stores -------------------------------------------------------------------------------------- */

/* Low nibbles of the levels: byte i of the sixteen at qs has element i in its low half, 16 + i in its high one. */
INGOT_DEV void st_nibbles(uint8_t *qs, bool valid, uint32_t q) {
    const uint32_t high = __shfl_xor_sync(INGOT_FULL_MASK, q, 4);
    if (valid && block_lane() < 4) st_4_a2(qs + 4 * block_lane(), (q & 0x0f0f0f0fu) | (high & 0x0f0f0f0fu) << 4);
}

/* Fifth bits of the levels: bit i of the four bytes at qh is element i's. The factor brings bits 0, 8, 16 and 24
 * to bits 24 .. 27. */
INGOT_DEV void st_fifth(uint8_t *qh, bool valid, uint32_t q) {
    uint32_t bits = ((q >> 4 & 0x01010101u) * 0x01020408u >> 24 & 15) << 4 * block_lane();
    INGOT_UNROLL
    for (int o = 4; o > 0; o >>= 1) bits |= __shfl_xor_sync(INGOT_FULL_MASK, bits, o);
    if (valid && block_lane() == 0) st_4_a2(qh, bits);
}

/* A number of the block's head as f16, to nearest even. */
INGOT_DEV void st_half(uint8_t *p, bool valid, float v) {
    if (valid && block_lane() == 0) st_2(p, f2h(v));
}

#endif
