// SPDX-License-Identifier: MIT
//
// A conversation with a model: prompts go in, text comes out as it is generated, and time is kept.
#ifndef LLAMA_SESSION_H
#define LLAMA_SESSION_H

#include <signal.h>

#include "chat.h"
#include "model.h"
#include "options.h"

struct session {
    const struct options *o;
    struct model *model;
    struct tokenizer *tok;
    struct sampler *sampler;
    struct chat chat;
    bool is_chat;
    const volatile sig_atomic_t *stop; // set by a signal: end cleanly
    int64_t prompt_tokens, generated;  // generated: one-token passes
    double prompt_seconds, generate_seconds;
};

// What -p, --tokens and -i ask for. False with err set on failure; the figures are then still valid.
bool session_run(struct session *s, struct err *err);

// Runs --tokens one at a time through the one-token pass and writes the logits after each to the file of --logits. On
// failure the file is removed.
bool session_write_logits(struct session *s, struct err *err);

// Prints the figures to standard error: tokens per second for prompt and generation, microseconds per token, and the
// floor, weight bytes read per token over the device's bandwidth, where the library tells that.
void session_report(const struct session *s);

#endif
