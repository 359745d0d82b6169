// SPDX-License-Identifier: MIT
/* copy.c - cpy, and the copies and conversions that other ops need on the way. */
#include "emit.h"

/* Memory without gaps, seen in the shape of another tensor with as many elements. */
static ingot_tensor seen_as(const ingot_tensor *t, const ingot_tensor *shape) {
    ingot_tensor view = ingot_like(shape, t->type);

    view.data = t->data;
    return view;
}

/* ---- A type to itself: bits.  Tensors are counted in units, blocks or elements, then in pieces of units or rows. */

static struct ingot_arg_tensor in_units(const ingot_tensor *t) {
    struct ingot_arg_tensor arg = ingot_arg(t);

    arg.ne[0] /= ingot_type_block(t->type);
    if (arg.ne[0] == 1) arg.nb[0] = (int64_t)ingot_type_size(t->type);
    return arg;
}

/* Two tensors of one shape: dimensions through which both step as through one become one. */
static void fold(struct ingot_arg_tensor *a, struct ingot_arg_tensor *b) {
    int last = 0;

    for (int i = 1; i < 4; i++) {
        const int64_t n = a->ne[i];
        if (n == 1) continue;
        if (a->nb[i] != a->ne[last] * a->nb[last] || b->nb[i] != a->ne[last] * b->nb[last]) {
            last++;
            a->ne[last] = 1;
            a->nb[last] = a->nb[i];
            b->nb[last] = b->nb[i];
        }
        a->ne[last] *= n;
    }
    for (int i = 0; i < 4; i++) b->ne[i] = a->ne[i] = i > last ? 1 : a->ne[i];
}

/* What the pieces of unbroken rows must divide: address, strides, bytes of a row.  Only its low bits mean something. */
static uint64_t steps_of(const struct ingot_arg_tensor *t) {
    uint64_t bits = (uintptr_t)t->data | (uint64_t)(t->ne[0] * t->nb[0]);

    for (int i = 1; i < 4; i++)
        if (t->ne[i] != 1) bits |= (uint64_t)t->nb[i];
    return bits;
}

static void cut(struct ingot_arg_tensor *t, int64_t piece) {
    t->ne[0] = t->ne[0] * t->nb[0] / piece;
    t->nb[0] = piece;
}

static ingot_status emit_move(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst) {
    ingot_tensor from = *src, to = *dst;
    const int64_t size = (int64_t)ingot_type_size(src->type);
    int64_t piece = size, bytes = ingot_tensor_elements(dst) / ingot_type_block(dst->type) * size;
    const struct ingot_kernel *kernel;
    struct ingot_move_args args;
    ingot_status st;

    if (!ingot_same_shape(src, dst)) {
        if (ingot_is_contiguous(src)) from = seen_as(src, dst);
        else if (ingot_is_contiguous(dst)) to = seen_as(dst, src);
    }
    args = (struct ingot_move_args){in_units(&from), in_units(&to)};
    if (ingot_same_shape(&from, &to)) fold(&args.src, &args.dst);
    if (args.src.nb[0] == size && args.dst.nb[0] == size) {
        const uint64_t bits = steps_of(&args.src) | steps_of(&args.dst) | 16;
        piece = (int64_t)(bits & (~bits + 1)); /* the lowest bit: the widest piece that divides all */
        cut(&args.src, piece);
        cut(&args.dst, piece);
    }
    st = ingot_need_kernel(em, INGOT_FAMILY_MOVE, INGOT_TYPE_I8, piece, &kernel);
    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, bytes / piece, 1, &args, sizeof args);
}

/* ---- Between types. */

const struct ingot_kernel *ingot_find_copy(const ingot_context *ctx, ingot_type src, ingot_type dst) {
    if (src == dst) return ingot_find_exact(ctx->table, INGOT_FAMILY_MOVE, INGOT_TYPE_I8, 1);
    if (ingot_is_block_type(dst)) return ingot_find_exact(ctx->table, INGOT_FAMILY_SET_ROWS, dst, (int64_t)src);
    return ingot_find_exact(ctx->table, ingot_is_block_type(src) ? INGOT_FAMILY_DEQUANT : INGOT_FAMILY_COPY, src,
                            (int64_t)dst);
}

/* A block format and a plain type in another shape: the plain side, which has no blocks to keep whole, takes the shape
 * of the other one; through scratch if there are gaps in it. */
static ingot_status emit_reshaped(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst) {
    bool decodes = ingot_is_block_type(src->type);
    ingot_tensor dense = decodes ? *dst : *src, view;
    ingot_status st = INGOT_OK;

    if (decodes && ingot_is_contiguous(dst)) {
        view = seen_as(dst, src);
        return ingot_emit_copy(em, src, &view);
    }
    if (decodes || !ingot_is_contiguous(src)) INGOT_TRY(ingot_emit_contiguous(em, src, dense.type, &dense), st, done);
    view = decodes ? dense : seen_as(&dense, dst);
    INGOT_TRY(ingot_emit_copy(em, &view, dst), st, done);
done:
    return st;
}

ingot_status ingot_emit_copy(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst) {
    const struct ingot_kernel *kernel = ingot_find_copy(em->ctx, src->type, dst->type);
    bool decodes = ingot_is_block_type(src->type), encodes = ingot_is_block_type(dst->type);
    struct ingot_copy_args copy = {ingot_arg(src), ingot_arg(dst)};
    struct ingot_dequant_args dequant = {copy.src, copy.dst};
    int64_t groups = ingot_rows(dst) * (dst->ne[0] / 8); /* of 8 in a row */

    if (src->type == dst->type) return emit_move(em, src, dst);
    if ((decodes || encodes) && !ingot_same_shape(src, dst)) return emit_reshaped(em, src, dst);
    if (encodes) return ingot_emit_rows(em, src, NULL, dst);
    if (kernel == NULL)
        return ingot_no_kernel(em, decodes ? INGOT_FAMILY_DEQUANT : INGOT_FAMILY_COPY, src->type, (int64_t)dst->type);
    if (decodes) return ingot_emit_kernel(em, kernel, groups, 1, &dequant, sizeof dequant);
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
