/* SPDX-License-Identifier: MIT
 *
 * twofloat.cuh - about 46 bits out of pairs of f32, for angles: pos * freq with pos up to 10^6 and more
 * needs its place within a turn to 10^-7, and f64 is 32 or 64 times slower on most chips. A value is
 * hi + lo with |lo| at most half a unit of hi's last place. The _rn forms keep the compiler from fusing
 * what must be rounded on its own.
 */
#ifndef INGOT_TWOFLOAT_CUH
#define INGOT_TWOFLOAT_CUH

#include "src/device/device.cuh"
#include "src/kernels/args.h"

/* hi + lo for |hi| >= |lo|, and for any two numbers. */
INGOT_DEV struct ingot_two_float two_join(float hi, float lo) {
    const float s = __fadd_rn(hi, lo);
    const struct ingot_two_float r = {s, __fadd_rn(lo, -__fadd_rn(s, -hi))};
    return r;
}
INGOT_DEV struct ingot_two_float two_sum(float x, float y) {
    const float s = __fadd_rn(x, y), t = __fadd_rn(s, -x);
    const struct ingot_two_float r = {s, __fadd_rn(__fadd_rn(x, -__fadd_rn(s, -t)), __fadd_rn(y, -t))};
    return r;
}
INGOT_DEV struct ingot_two_float two_mul(struct ingot_two_float x, struct ingot_two_float y) {
    const float p = __fmul_rn(x.hi, y.hi);
    return two_join(p, fmaf(x.hi, y.lo, fmaf(x.lo, y.hi, fmaf(x.hi, y.hi, -p))));
}
INGOT_DEV struct ingot_two_float two_div(struct ingot_two_float x, float y) {
    const float q = __fdiv_rn(x.hi, y);
    return two_join(q, __fdiv_rn(__fadd_rn(fmaf(-q, y, x.hi), x.lo), y));
}
/* Exact. */
INGOT_DEV struct ingot_two_float two_from_int(int32_t i) {
    const float hi = (float)i; /* 2^31 - 1 becomes 2^31, which is no int32 */
    const struct ingot_two_float r = {hi, (float)((int64_t)i - (int64_t)hi)};
    return r;
}

/* Sine and cosine of `x` radians, to 1e-7. The whole turns are taken off x / 2 pi exactly, then the
 * quarter turns; what is left is at most pi/4, where the polynomials (Chebyshev fits) hold. */
INGOT_DEV void two_sin_cos(struct ingot_two_float x, float *sine, float *cosine) {
    const struct ingot_two_float per_turn = {0.15915493667125702f, 6.4206382432985265e-9f};
    const struct ingot_two_float turns = two_mul(x, per_turn);
    float t = __fadd_rn(__fadd_rn(turns.hi, -rintf(turns.hi)), __fadd_rn(turns.lo, -rintf(turns.lo)));
    t = __fadd_rn(t, -rintf(t));
    const float quarter = rintf(t * 4.0f);
    const float r = fmaf(-0.25f, quarter, t) * 6.2831854820251465f, z = r * r;
    const float s = fmaf(r * z, fmaf(z, fmaf(z, -1.9587950e-4f, 8.3327489e-3f), -1.6666664e-1f), r);
    const float c = fmaf(z * z, fmaf(z, fmaf(z, 2.4549272e-5f, -1.3888313e-3f), 4.1666664e-2f), fmaf(z, -0.5f, 1.0f));
    const int q = __float2int_rn(quarter) & 3;
    const float a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = q & 2 ? -a : a;
    *cosine = (q + 1) & 2 ? -b : b;
}

#endif
