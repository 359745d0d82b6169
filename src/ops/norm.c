// SPDX-License-Identifier: MIT
/* norm.c - rms_norm, with the product and the rounding that fusion may add. */
#include "emit.h"

ingot_status ingot_emit_rms_norm(struct ingot_emitter *em, const struct ingot_call *call) {
    const ingot_tensor *src = call->src[0];
    struct ingot_rms_norm_args args = {.src = ingot_arg(src),
                                       .dst = ingot_arg(call->dst),
                                       .mul = ingot_arg(call->mul),
                                       .eps = call->params.params.rms_norm.eps};
    const struct ingot_kernel *kernel;
    const void *mul;
    ingot_status st = INGOT_OK;

    INGOT_TRY(ingot_need_kernel(em, INGOT_FAMILY_RMS_NORM, src->type, 0, &kernel), st, done);
    INGOT_TRY(ingot_emit_vector(em, call->mul, &mul), st, done);
    args.mul.data = (void *)(uintptr_t)mul;
    args.mul.nb[0] = (int64_t)ingot_type_size(INGOT_TYPE_F32);
    if (call->want_q8_out) args.q8 = call->q8_out;
    INGOT_TRY(ingot_emit_kernel(em, kernel, ingot_rows(src), 1, &args, sizeof args), st, done);
done:
    return st;
}
