// SPDX-License-Identifier: MIT
//
// One forward pass as a planned graph. A step is built once for a number of tokens; which tokens, at which positions
// and how many keys are valid is data in the input buffer, so a step serves every call with that many tokens.
//
//   input buffer, i32:  tokens[n] | positions[n] | valid keys[1]
#ifndef LLAMA_FORWARD_H
#define LLAMA_FORWARD_H

#include "weights.h"

// Keys and values of all positions so far: for each layer an f16 matrix of n_ctx rows each. Row p belongs to position
// p, so the positions serve as row numbers too. The two are one tensor, so that one set_rows can fill both.
struct kv_cache {
    ingot_buffer *buffer;
    ingot_tensor *kv; // for each layer [head_dim * n_head_kv, n_ctx, 2]: keys, then values
    int64_t n_ctx;
};

struct step {
    int64_t n; // tokens of a run; 0: not built
    ingot_graph *graph;
    ingot_buffer *arena;
    size_t logits_at; // where in the arena the last token's logits are
    ingot_plan_info info;
};

// Allocates and clears the cache. On failure *c is empty.
bool kv_create(struct kv_cache *c, const struct hparams *hp, int64_t n_ctx, ingot_context *ctx, struct err *err);
void kv_free(struct kv_cache *c);

// Bytes of the cache for n_ctx positions.
uint64_t kv_bytes(const struct hparams *hp, int64_t n_ctx);

// Builds and plans the pass over n tokens that reads `input` (at least 4 * (2 * n + 1) bytes); `prec` is that of the
// products with weights. The buffers must outlive the step. On failure *s is empty.
bool step_build(struct step *s, const struct hparams *hp, const struct weights *w, const struct kv_cache *c,
                ingot_buffer *input, int64_t n, ingot_prec prec, ingot_context *ctx, struct err *err);
void step_free(struct step *s);

#endif
