/* SPDX-License-Identifier: MIT
 *
 * glu.cuh - gated linear units: the one definition that GLU and the gated products share, so that a fused product gives
 * bit for bit what the product and a GLU would give. Exactly rounded steps only: the same bits on every chip and on the
 * CPU.
 */
#ifndef INGOT_GLU_CUH
#define INGOT_GLU_CUH

#include "src/device/device.cuh"
#include "src/kernels/args.h"

/* x times the normal distribution's integral up to x: GELU by the error function, as x/2 (1 + erf(x / sqrt 2)), but
 * without the cancellation below 0. The tail Q(z) from z on is Hastings' form (Abramowitz and Stegun 7.1.25 to 7.1.28),
 * exp(-z^2/2) times a polynomial of t = 1/(1 + pz), with more terms than theirs: p and the coefficients are a minimax
 * fit of the relative error, 4.8e-8 for all z up to 14.5, from where on Q is below half the smallest float. */
INGOT_DEV float gelu_erf(float x) {
    const float z = fminf(fabsf(x), 16.0f), half = 0.5f * z;
    const float square = __fmul_rn(half, z), rest = fmaf(half, z, -square); /* z^2/2 in two parts */
    const float t = 1.0f / fmaf(0.23f, z, 1.0f);
    float q = -0.07848399132490158f;
    q = fmaf(q, t, 0.29049810767173767f);
    q = fmaf(q, t, -0.27830934524536133f);
    q = fmaf(q, t, 0.30169355869293213f);
    q = fmaf(q, t, -0.033082831650972366f);
    q = fmaf(q, t, 0.11958860605955124f);
    q = fmaf(q, t, 0.08574219048023224f);
    q = fmaf(q, t, 0.09238164871931076f);
    q = fmaf(q, t, -2.797057641146239e-05f);
    const float e = exp_f32(-square);
    q *= fmaf(-rest, e, e);
    return __fmul_rn(x, x < 0.0f ? q : 1.0f - q);
}

/* act(x) * y, `kind` an ingot_glu_kind. All but two are x * sigmoid(u): GELU's tanh form too, as (1 + tanh v) / 2 is
 * sigmoid(2v). `alpha` and `limit` are SWIGLU_OAI's. A NaN stays one. */
INGOT_DEV float glu(int kind, float x, float y, float alpha, float limit) {
    if (kind == INGOT_ARG_REGLU) return x <= 0.0f ? 0.0f : x * y;
    if (kind == INGOT_ARG_GEGLU_ERF) return gelu_erf(x) * y;
    float u = x;
    if (kind == INGOT_ARG_GEGLU) u = 1.5957691216057308f * (x * fmaf(0.044715f * x, x, 1.0f)); /* sqrt(8 / pi) */
    if (kind == INGOT_ARG_GEGLU_QUICK) u = 1.702f * x;
    if (kind == INGOT_ARG_SWIGLU_OAI) {
        x = x > limit ? limit : x;
        y = (y > limit ? limit : y < -limit ? -limit : y) + 1.0f;
        u = alpha * x;
    }
    return x / (1.0f + exp_f32(-u)) * y;
}

#endif
