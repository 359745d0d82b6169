// SPDX-License-Identifier: MIT
//
// The token table of a GGUF file: texts, types, scores, and the way back from text to id. Texts
// stay in the file's mapping, which must outlive the table.
#ifndef LLAMA_VOCAB_H
#define LLAMA_VOCAB_H

#include "gguf.h"

enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE,
};

struct vocab {
    int32_t n;
    struct gguf_str *text;
    uint8_t *type;
    float *score;  // NULL when the file has none
    int32_t *slot; // open addressing, -1 is free
    uint64_t mask;
};

// Reads tokenizer.ggml.tokens, token_type and scores. On failure *v is empty.
bool vocab_load(struct vocab *v, const struct gguf *g, struct err *err);
void vocab_free(struct vocab *v);

// Id of the token with this text, -1 when there is none; of equal texts the first.
int32_t vocab_find(const struct vocab *v, const char *s, uint64_t n);

// A well-spread 64-bit hash of bytes.
uint64_t hash_bytes(const char *s, uint64_t n);
uint64_t hash_u64(uint64_t x);

#endif
