// SPDX-License-Identifier: MIT
//
// A model's weights on the device, all in one buffer. Matrices that multiply the same vector and have the same type
// lie back to back, so that one product serves them:
//
//   | attn_norm | q k v | o | ffn_norm | gate up | down |  ...  each group at a multiple of 256 bytes
#ifndef LLAMA_WEIGHTS_H
#define LLAMA_WEIGHTS_H

#include "hparams.h"

enum { MOST_PARTS = 3 };

// Matrices for one input. Part p is rows [row[p], row[p] + rows[p]) of mat[mat_of[p]]; neighbours of one type share a
// mat, so with one type n_mats is 1.
struct bundle {
    int n_parts, n_mats;
    ingot_tensor mat[MOST_PARTS];
    int mat_of[MOST_PARTS];
    int64_t row[MOST_PARTS], rows[MOST_PARTS];
};

struct layer {
    ingot_tensor attn_norm, ffn_norm, o, down;
    struct bundle qkv, gate_up;
};

struct weights {
    ingot_buffer *buffer;
    struct layer *layers;
    ingot_tensor embd, out_norm, head; // head is embd where the file has no output.weight
    ingot_tensor rope_factors;         // data NULL: none
    uint64_t bytes, bytes_per_token;   // on the device; read to generate one token
};

// Told the bytes uploaded so far and in total.
typedef void (*load_progress)(void *arg, uint64_t done, uint64_t total);

// Checks every tensor's shape and type, then uploads. Synchronises. A tensor of the file that is no part of the model
// is an error: to leave it out would change the results. On failure *w is empty. progress may be NULL.
bool weights_load(struct weights *w, const struct hparams *hp, const struct gguf *g, ingot_context *ctx,
                  load_progress progress, void *arg, struct err *err);
void weights_free(struct weights *w);

// Turns a status into true, or false with `what`, the status and the context's text in err.
bool status_ok(const ingot_context *ctx, ingot_status status, const char *what, struct err *err);

#endif
