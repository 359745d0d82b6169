// SPDX-License-Identifier: MIT
/* copy.c - cpy, and the conversions that other ops need on the way. */
#include "emit.h"

const struct ingot_kernel *ingot_find_copy(const ingot_context *ctx, ingot_type src, ingot_type dst) {
    enum ingot_family family = ingot_is_block_type(src) ? INGOT_FAMILY_DEQUANT : INGOT_FAMILY_COPY;

    return ingot_find_exact(ctx->table, family, src, (int64_t)dst);
}

ingot_status ingot_emit_copy(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst) {
    const struct ingot_kernel *kernel = ingot_find_copy(em->ctx, src->type, dst->type);
    bool blocks = ingot_is_block_type(src->type);
    struct ingot_copy_args copy = {ingot_arg(src), ingot_arg(dst)};
    struct ingot_dequant_args dequant = {copy.src, copy.dst};
    int64_t groups = ingot_rows(dst) * (dst->ne[0] / 8); /* of 8 in a row */

    if (kernel == NULL)
        return ingot_no_kernel(em, blocks ? INGOT_FAMILY_DEQUANT : INGOT_FAMILY_COPY, src->type, (int64_t)dst->type);
    if (blocks) return ingot_emit_kernel(em, kernel, groups, 1, &dequant, sizeof dequant);
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(dst), 1, &copy, sizeof copy);
}

ingot_status ingot_emit_contiguous(struct ingot_emitter *em, const ingot_tensor *src, ingot_type type,
                                   ingot_tensor *out) {
    ingot_status st = INGOT_OK;

    *out = ingot_like(src, type);
    INGOT_TRY(em->scratch(em, (size_t)ingot_tensor_elements(out) * ingot_type_size(type), &out->data), st, done);
    INGOT_TRY(ingot_emit_copy(em, src, out), st, done);
done:
    return st;
}

ingot_status ingot_emit_vector(struct ingot_emitter *em, const ingot_tensor *src, const void **out) {
    ingot_tensor dense;
    ingot_status st;

    *out = src != NULL ? src->data : NULL;
    if (src == NULL || src->ne[0] <= 1 || src->nb[0] == ingot_type_size(src->type)) return INGOT_OK;
    st = ingot_emit_contiguous(em, src, src->type, &dense);
    *out = dense.data;
    return st;
}

ingot_status ingot_emit_cpy(struct ingot_emitter *em, const struct ingot_call *call) {
    return ingot_emit_copy(em, call->src[0], call->dst);
}
