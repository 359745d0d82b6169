// SPDX-License-Identifier: MIT
/* attention.c - attention over a cache of keys and values. */
#include "emit.h"

ingot_status ingot_emit_attention(struct ingot_emitter *em, const struct ingot_call *call) {
    const ingot_tensor *q = call->src[0], *k = call->src[1], *len = call->src[3];
    struct ingot_attention_args args = {.q = ingot_arg(q),
                                        .k = ingot_arg(k),
                                        .v = ingot_arg(call->src[2]),
                                        .dst = ingot_arg(call->dst),
                                        .scale = call->params.params.attention.scale,
                                        .causal = call->params.params.attention.causal != 0};
    const struct ingot_kernel *kernel = ingot_find(em->ctx->table, INGOT_FAMILY_ATTN, k->type, q->ne[0]);

    if (kernel == NULL) return ingot_no_kernel(em, INGOT_FAMILY_ATTN, k->type, q->ne[0]);
    if (len != NULL) {
        args.kv_len = len->data;
        args.len_nb0 = len->ne[0] > 1 ? (int64_t)len->nb[0] : 0;
    }
    if (call->want_q8_out) args.q8 = call->q8_out;
    return ingot_emit_kernel(em, kernel, ingot_rows(q), 1, &args, sizeof args);
}
