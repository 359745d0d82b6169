// SPDX-License-Identifier: MIT
/* emit.h - what the ops share on the way from a checked call to commands. */
#ifndef INGOT_EMIT_H
#define INGOT_EMIT_H

#include "ops.h"

/* One function per op.  The call is checked and its result is not empty. */
typedef ingot_status ingot_emit_fn(struct ingot_emitter *em, const struct ingot_call *call);
ingot_emit_fn ingot_emit_get_rows, ingot_emit_set_rows, ingot_emit_cpy, ingot_emit_binary, ingot_emit_rms_norm,
    ingot_emit_rope, ingot_emit_unary, ingot_emit_glu, ingot_emit_soft_max, ingot_emit_mul_mat, ingot_emit_attention,
    ingot_emit_quantize;

/* The row for exactly `tile`.  INGOT_ERR_UNSUPPORTED with a text that says what is missing, and why. */
ingot_status ingot_need_kernel(struct ingot_emitter *em, enum ingot_family family, ingot_type type, int64_t tile,
                               const struct ingot_kernel **out);
/* The failure of a look-up that gave NULL. */
ingot_status ingot_no_kernel(struct ingot_emitter *em, enum ingot_family family, ingot_type type, int64_t tile);

/* Pushes a launch of ceil(items / unit) * groups blocks and logs it; nothing if that is none.  What an item is, the
 * comments on the families in gen/rows.py say. */
ingot_status ingot_emit_kernel(struct ingot_emitter *em, const struct ingot_kernel *kernel, int64_t items,
                               int64_t groups, const void *args, size_t bytes);
/* Pushes a launch whose grid is known, and logs it.  More blocks than CUDA allows are INGOT_ERR_UNSUPPORTED. */
ingot_status ingot_emit_grid(struct ingot_emitter *em, const struct ingot_kernel *kernel, struct ingot_grid grid,
                             const void *args, size_t bytes);
ingot_status ingot_emit_gemm(struct ingot_emitter *em, const struct ingot_gemm *gemm);

/* dst = src, element by element in ne order: MOVE of a type to itself, COPY between plain types, DEQUANT from a block
 * format, SET_ROWS to one. */
ingot_status ingot_emit_copy(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *dst);
/* The same into contiguous scratch of `type`, described in *out. */
ingot_status ingot_emit_contiguous(struct ingot_emitter *em, const ingot_tensor *src, ingot_type type,
                                   ingot_tensor *out);
/* *out = a vector's data if its elements are dense, else a dense copy's.  NULL gives NULL. */
ingot_status ingot_emit_vector(struct ingot_emitter *em, const ingot_tensor *src, const void **out);
/* Rows of src become those of dst that `ids` name (NULL, block formats only: the same).  What no kernel reads as it is
 * becomes f32 in scratch first. */
ingot_status ingot_emit_rows(struct ingot_emitter *em, const ingot_tensor *src, const ingot_tensor *ids,
                             const ingot_tensor *dst);
/* A row that ingot_emit_copy would take, or NULL. */
const struct ingot_kernel *ingot_find_copy(const ingot_context *ctx, ingot_type src, ingot_type dst);
ingot_status ingot_emit_q8(struct ingot_emitter *em, const ingot_tensor *src, struct ingot_arg_q8 q8);

/* A tensor as a kernel sees it; NULL gives null data and zeros. */
struct ingot_arg_tensor ingot_arg(const ingot_tensor *t);
/* Contiguous tensor of this type with src's shape, without data. */
ingot_tensor ingot_like(const ingot_tensor *src, ingot_type type);
/* Rows of dimension 0. */
int64_t ingot_rows(const ingot_tensor *t);

#endif
