// SPDX-License-Identifier: MIT
/* rows.c - get_rows and set_rows: rows picked by ids that lie on the device. */
#include "emit.h"

ingot_status ingot_emit_get_rows(struct ingot_emitter *em, const struct ingot_call *call) {
    struct ingot_get_rows_args args = {ingot_arg(call->src[0]), ingot_arg(call->src[1]), ingot_arg(call->dst)};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_GET_ROWS, call->src[0]->type, 0, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(call->dst), 1, &args, sizeof args);
}

ingot_status ingot_emit_set_rows(struct ingot_emitter *em, const struct ingot_call *call) {
    struct ingot_set_rows_args args = {ingot_arg(call->src[0]), ingot_arg(call->src[1]), ingot_arg(call->dst),
                                       (int32_t)ingot_type_size(call->src[1]->type), 0};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_SET_ROWS, call->dst->type, 0, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(call->src[0]), 1, &args, sizeof args);
}
