// SPDX-License-Identifier: MIT
/* rope.c - rotary positions.  What depends on params alone is computed here, once per launch. */
#include "emit.h"

#include <math.h>

/* The pair (counted in elements) that turns `rotations` times over the trained context. */
static double corr_dim(const ingot_rope_params *p, double rotations) {
    const double two_pi = 6.283185307179586;

    return p->n_dims * log(p->n_ctx_orig / (rotations * two_pi)) / (2.0 * log(p->freq_base));
}

/* YaRN: pairs below corr_low keep their frequency, pairs above corr_high are interpolated, between them a ramp. */
static void set_yarn(struct ingot_rope_args *args, const ingot_rope_params *p) {
    if (p->ext_factor == 0.0f) return;
    args->corr_low = (float)fmax(0.0, floor(corr_dim(p, p->beta_fast)));
    args->corr_high = (float)fmin(p->n_dims - 1, ceil(corr_dim(p, p->beta_slow)));
    args->magnitude = (float)(p->attn_factor * (1.0 + 0.1 * log(1.0 / p->freq_scale)));
}

/* freq_base^(-2 * 2^j / n_dims) for every j, each as two floats. */
static void set_powers(struct ingot_rope_args *args, const ingot_rope_params *p) {
    for (int j = 0; j < INGOT_ROPE_POWERS; j++) {
        double power = pow(p->freq_base, -2.0 * (double)(1 << j) / p->n_dims);
        args->power[j].hi = (float)power;
        args->power[j].lo = (float)(power - args->power[j].hi);
    }
}

ingot_status ingot_emit_rope(struct ingot_emitter *em, const struct ingot_call *call) {
    const ingot_rope_params *p = &call->params.params.rope;
    const ingot_tensor *x = call->src[0], *pos = call->src[1];
    struct ingot_rope_args args = {.x = ingot_arg(x),
                                   .dst = ingot_arg(call->dst),
                                   .pos = pos->data,
                                   .pos_nb0 = (int64_t)pos->nb[0],
                                   .n_dims = p->n_dims,
                                   .pair = p->mode == INGOT_ROPE_NEOX,
                                   .freq_scale = p->freq_scale,
                                   .ext_factor = p->ext_factor,
                                   .magnitude = p->attn_factor};
    const struct ingot_kernel *kernel;
    const void *factors;
    ingot_status st = INGOT_OK;

    if (p->n_dims > 2 << INGOT_ROPE_POWERS)
        return ingot_fail(em->ctx, INGOT_ERR_UNSUPPORTED, "rope: n_dims is %d, expected %d at most", (int)p->n_dims,
                          2 << INGOT_ROPE_POWERS);
    INGOT_TRY(ingot_need_kernel(em, INGOT_FAMILY_ROPE, x->type, 0, &kernel), st, done);
    INGOT_TRY(ingot_emit_vector(em, call->src[2], &factors), st, done);
    args.factors = factors;
    set_powers(&args, p);
    set_yarn(&args, p);
    INGOT_TRY(ingot_emit_kernel(em, kernel, ingot_tensor_elements(x), 1, &args, sizeof args), st, done);
done:
    return st;
}
