// SPDX-License-Identifier: MIT
/* soft_max.c - softmax over rows, with a scale and a mask. */
#include "emit.h"

ingot_status ingot_emit_soft_max(struct ingot_emitter *em, const struct ingot_call *call) {
    const ingot_tensor *src = call->src[0], *mask = call->src[1];
    ingot_type mask_type = mask != NULL ? mask->type : INGOT_TYPE_F32;
    struct ingot_soft_max_args args = {.src = ingot_arg(src),
                                       .mask = ingot_arg(mask),
                                       .dst = ingot_arg(call->dst),
                                       .scale = call->params.params.soft_max.scale};
    const struct ingot_kernel *kernel;
    ingot_status st;

    st = ingot_need_kernel(em, INGOT_FAMILY_SOFT_MAX, src->type, (int64_t)mask_type, &kernel);
    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_rows(src), 1, &args, sizeof args);
}
