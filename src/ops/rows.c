// SPDX-License-Identifier: MIT
/* rows.c - get_rows and set_rows: rows picked by ids that lie on the device. */
#include "emit.h"
#include "rules.h"

#include <stdio.h>

ingot_status ingot_emit_get_rows(struct ingot_emitter *em, const struct ingot_call *call) {
    struct ingot_get_rows_args args = {ingot_arg(call->src[0]), ingot_arg(call->src[1]), ingot_arg(call->dst)};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_GET_ROWS, call->src[0]->type, 0, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(call->dst), 1, &args, sizeof args);
}

/* No kernel writes the type: says which ones have one. */
static ingot_status cannot_write(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst) {
    const struct ingot_call *call = em->call;
    char text[256], a[96];
    size_t at = 0;

    for (int i = 0; i < ingot_kernel_count && at < 200; i++) {
        const struct ingot_kernel *k = &ingot_kernels[i];
        if (k->family == INGOT_FAMILY_SET_ROWS && k->tile == INGOT_TYPE_F32 &&
            ingot_find_exact(em->ctx->table, INGOT_FAMILY_SET_ROWS, (ingot_type)k->type, INGOT_TYPE_F32) == k)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "",
                                   ingot_type_name((ingot_type)k->type));
    }
    if (at == 0) return ingot_no_kernel(em, INGOT_FAMILY_SET_ROWS, dst->type, (int64_t)src->type);
    return ingot_fail(em->ctx, INGOT_ERR_UNSUPPORTED, "%s of %s: no kernel rounds to dst %s, expected one of %s",
                      ingot_call_name(call->op), ingot_type_name(call->src[0]->type), ingot_describe(dst, a), text);
}

ingot_status ingot_emit_rows(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *ids,
                             const ingot_tensor *dst) {
    const struct ingot_table *table = em->ctx->table;
    const struct ingot_kernel *kernel = ingot_find_exact(table, INGOT_FAMILY_SET_ROWS, dst->type, (int64_t)src->type);
    struct ingot_set_rows_args args;
    ingot_tensor wide = *src;
    ingot_status st = INGOT_OK;

    if (kernel == NULL) {
        kernel = ingot_find_exact(table, INGOT_FAMILY_SET_ROWS, dst->type, INGOT_TYPE_F32);
        if (kernel == NULL) return cannot_write(em, src, dst);
        INGOT_TRY(ingot_emit_contiguous(em, src, INGOT_TYPE_F32, &wide), st, done);
    }
    args = (struct ingot_set_rows_args){ingot_arg(&wide), ingot_arg(ids), ingot_arg(dst),
                                        ids != NULL ? (int32_t)ingot_type_size(ids->type) : 0, 0};
    st = ingot_emit_kernel(em, kernel, ingot_tensor_elements(src), 1, &args, sizeof args);
done:
    return st;
}

ingot_status ingot_emit_set_rows(struct ingot_emitter *em, const struct ingot_call *call) {
    return ingot_emit_rows(em, call->src[0], call->src[1], call->dst);
}
