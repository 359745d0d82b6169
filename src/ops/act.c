// SPDX-License-Identifier: MIT
/* act.c - activation functions and the gated linear units. */
#include "emit.h"

_Static_assert((int)INGOT_ARG_REGLU == INGOT_GLU_REGLU && (int)INGOT_ARG_GEGLU == INGOT_GLU_GEGLU &&
                   (int)INGOT_ARG_SWIGLU == INGOT_GLU_SWIGLU && (int)INGOT_ARG_SWIGLU_OAI == INGOT_GLU_SWIGLU_OAI &&
                   (int)INGOT_ARG_GEGLU_ERF == INGOT_GLU_GEGLU_ERF &&
                   (int)INGOT_ARG_GEGLU_QUICK == INGOT_GLU_GEGLU_QUICK,
               "kernels and callers mean the same kinds");

/* The kind of GLU whose function of the gate the op is. */
static const ingot_glu_kind kinds[INGOT_OP_COUNT] = {
    [INGOT_OP_SILU] = INGOT_GLU_SWIGLU,
    [INGOT_OP_RELU] = INGOT_GLU_REGLU,
    [INGOT_OP_GELU] = INGOT_GLU_GEGLU,
    [INGOT_OP_GELU_ERF] = INGOT_GLU_GEGLU_ERF,
    [INGOT_OP_GELU_QUICK] = INGOT_GLU_GEGLU_QUICK,
};

ingot_status ingot_emit_unary(struct ingot_emitter *em, const struct ingot_call *call) {
    struct ingot_unary_args args = {ingot_arg(call->src[0]), ingot_arg(call->dst), kinds[call->op], 0};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_UNARY, call->src[0]->type, 0, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(call->dst), 1, &args, sizeof args);
}

ingot_status ingot_emit_glu(struct ingot_emitter *em, const struct ingot_call *call) {
    ingot_tensor gate = *call->src[0], up = gate;
    const ingot_glu_params *params = &call->params.params.glu;
    struct ingot_glu_args args = {
        .dst = ingot_arg(call->dst), .kind = params->kind, .alpha = params->alpha, .limit = params->limit};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_GLU, gate.type, 0, &kernel);

    if (st != INGOT_OK) return st;
    if (call->src[1] != NULL) {
        up = *call->src[1];
    } else { /* the two halves of each row */
        gate.ne[0] /= 2;
        up.ne[0] = gate.ne[0];
        up.data = (void *)((uintptr_t)up.data + (size_t)gate.ne[0] * gate.nb[0]);
    }
    args.gate = ingot_arg(&gate);
    args.up = ingot_arg(&up);
    if (call->want_q8_out) args.q8 = call->q8_out;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(&gate), 1, &args, sizeof args);
}
