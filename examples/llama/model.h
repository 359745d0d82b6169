// SPDX-License-Identifier: MIT
//
// A llama model on one device: weights, cache and the passes over it. The caller adds tokens and gets logits.
#ifndef LLAMA_MODEL_H
#define LLAMA_MODEL_H

#include "forward.h"

struct model;

struct model_options {
    int device;
    int64_t n_ctx;   // positions the cache holds; 0: MODEL_DEFAULT_CTX, or fewer if the model was trained with fewer
    int64_t batch;   // prompt tokens of one pass; 0: MODEL_BATCH, or MODEL_BATCH_SIMT on the SIMT host
    ingot_prec prec; // of every product with a weight
    load_progress progress;
    void *progress_arg;
};

// The SIMT host is slow enough for small passes to be worth it: up to 8 columns are one mat-vec kernel.
enum { MODEL_DEFAULT_CTX = 2048, MODEL_BATCH = 512, MODEL_BATCH_SIMT = 8 };

// Loads everything and plans the one-token pass; the file may be closed afterwards. NULL with err set on failure.
struct model *model_open(const struct gguf *g, const struct model_options *options, struct err *err);

// Accepts NULL.
void model_close(struct model *m);

// Runs the tokens at the next positions. *logits (NULL: not wanted) are those after the last one, n_vocab of them,
// valid until the next call. Synchronises. Fails, with nothing changed, when n < 1, a token is out of range or the
// context has no room.
bool model_eval(struct model *m, const int32_t *tokens, int64_t n, const float **logits, struct err *err);

// Positions in use; forgetting all of them.
int64_t model_past(const struct model *m);
void model_forget(struct model *m);

const struct hparams *model_hparams(const struct model *m);
const ingot_device *model_device(const struct model *m);
int64_t model_n_ctx(const struct model *m);
// Launches of a one-token pass.
int model_launches(const struct model *m);
// Bytes of weights on the device, and of those read to generate one token.
uint64_t model_bytes(const struct model *m);
uint64_t model_bytes_per_token(const struct model *m);

#endif
