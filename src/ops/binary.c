// SPDX-License-Identifier: MIT
/* binary.c - add and mul, with the second operand repeated. */
#include "emit.h"

ingot_status ingot_emit_binary(struct ingot_emitter *em, const struct ingot_call *call) {
    enum ingot_family family = call->op == INGOT_OP_ADD ? INGOT_FAMILY_ADD : INGOT_FAMILY_MUL;
    const ingot_tensor *a = call->src[0], *b = call->src[1];
    struct ingot_binary_args args = {ingot_arg(a), ingot_arg(b), ingot_arg(call->dst)};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, family, a->type, (int64_t)b->type, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(call->dst), 1, &args, sizeof args);
}
