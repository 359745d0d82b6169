// SPDX-License-Identifier: MIT
//
// The numbers that shape a llama model, from the metadata of its file.
#ifndef LLAMA_HPARAMS_H
#define LLAMA_HPARAMS_H

#include "../../include/ingot.h"
#include "gguf.h"

struct hparams {
    int64_t n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_ctx_train;
    float rms_eps;
    ingot_rope_params rope;
};

// Fills *hp. False with err set when the architecture is another one (named in the text), a key is missing or out of
// range, or the numbers contradict each other. Tensor shapes are checked when weights are loaded.
bool hparams_load(struct hparams *hp, const struct gguf *g, struct err *err);

#endif
