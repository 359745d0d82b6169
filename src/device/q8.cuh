/* SPDX-License-Identifier: MIT
 *
 * q8.cuh - how activations are rounded to 8 bits: the one definition that QUANTIZE and every kernel
 * with a q8 output share, so that a fused producer gives bit for bit what QUANTIZE would give.
 * The layout is struct ingot_arg_q8 of src/kernels/args.h.
 */
#ifndef INGOT_Q8_CUH
#define INGOT_Q8_CUH

#include "src/device/device.cuh"
#include "src/kernels/args.h"

/* Eight neighbouring lanes hold one block of 32, lane l its elements 4l..4l+3. Returns the lane's four
 * bytes, element 4l lowest, and the block's scale on all eight lanes. Called by the whole warp; groups
 * that hold nothing pass zeros.
 *
 * x/d is a true division: a product with 1/d would round differently now and then. In the subnormal
 * range amax/127 may be rounded down so far that a quotient passes 127: hence the clamp. A NaN or an
 * infinity makes a quotient NaN; the sum carries it, and the block's scale becomes NaN. */
INGOT_DEV uint32_t q8_round_4(const float (&x)[4], struct ingot_q8_scale *scale) {
    const float amax = group_max<8>(fmaxf(fmaxf(fabsf(x[0]), fabsf(x[1])), fmaxf(fabsf(x[2]), fabsf(x[3]))));
    const float d = amax / 127.0f;
    const float divisor = d > 0.0f ? d : 1.0f;
    uint32_t bytes = 0;
    float sum = 0.0f;
    INGOT_UNROLL
    for (int e = 0; e < 4; e++) {
        const float r = rintf(x[e] / divisor);
        const float q = r > 127.0f ? 127.0f : r < -127.0f ? -127.0f : r;
        sum += q;
        bytes |= (uint32_t)(__float2int_rn(q) & 255) << (8 * e);
    }
    sum = group_sum<8>(sum); /* whole numbers below 2^24: exact in any order */
    scale->d = sum == sum ? d : sum;
    scale->s = d * sum;
    return bytes;
}

/* Rounds a quad and stores it. `at` is the index of its first element in the q8 array (a multiple of 4;
 * quads of one block lie on eight neighbouring lanes); `valid` lanes store. Called by the whole warp. */
INGOT_DEV void q8_store_4(const struct ingot_arg_q8 &q8, int64_t at, const float (&x)[4], bool valid) {
    struct ingot_q8_scale scale;
    const uint32_t bytes = q8_round_4(x, &scale);
    if (!valid) return;
    st_4(q8.qs + at, bytes);
    if (at % 32 == 0) q8.scales[at / 32] = scale;
}

#endif
