// SPDX-License-Identifier: MIT
//
// Cuts text into the pieces inside which byte-pair merges happen. Each rule is the regular
// expression that a vocabulary was trained with, written out as code over code point classes, so
// that no regex engine is needed and the time is linear in the text.
#ifndef LLAMA_PRETOKENIZE_H
#define LLAMA_PRETOKENIZE_H

#include "util.h"

struct pre_rule;

// The rule that `tokenizer.ggml.pre` names, or NULL.
const struct pre_rule *pre_find(const char *name, uint64_t n);

// The names that pre_find knows, for an error text.
const char *pre_names(void);

// Whether a piece that is itself a token is taken whole, before any merge (llama-bpe).
bool pre_takes_whole(const struct pre_rule *rule);

// Calls sink for each piece of s[0..n), in order; together they are the text. A byte that is no
// UTF-8 counts as a code point that is neither letter, number nor space. Stops and returns false
// when sink does.
typedef bool (*pre_sink)(void *arg, const char *s, size_t n);
bool pre_split(const struct pre_rule *rule, const char *s, size_t n, pre_sink sink, void *arg);

#endif
