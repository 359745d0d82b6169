// SPDX-License-Identifier: MIT
//
// Text to tokens and back, from what the GGUF file says about its own vocabulary. Two models are
// known: "gpt2" (byte-level BPE) and "llama" (SentencePiece with scores); others are refused by
// name. The file must stay open as long as the tokenizer.
#ifndef LLAMA_TOKENIZER_H
#define LLAMA_TOKENIZER_H

#include "gguf.h"

struct tokenizer;

// NULL with err set when the model or pre-tokeniser is not known, or the vocabulary is missing or
// inconsistent.
struct tokenizer *tok_create(const struct gguf *g, struct err *err);

// Accepts NULL.
void tok_free(struct tokenizer *t);

int32_t tok_count(const struct tokenizer *t);

// Id of the token with exactly this text, -1 when there is none.
int32_t tok_find(const struct tokenizer *t, const char *text);

// Whether the token ends a text or a turn: the file's eos and eot, and control tokens with one of
// the usual names.
bool tok_is_end(const struct tokenizer *t, int32_t id);

enum tok_flags {
    TOK_SPECIAL = 1, // the texts of control tokens become those tokens
    TOK_BOS = 2,     // begin with the bos token, if the file asks for that
};

// Appends the tokens of s[0..n) to *out; any bytes are legal. User-defined tokens are recognised
// always, control tokens only with TOK_SPECIAL. *dropped is set to the number of bytes for which
// the vocabulary has no token (NULL: not wanted). On failure *out may have grown.
bool tok_encode(struct tokenizer *t, const char *s, size_t n, unsigned flags, struct ids *out, size_t *dropped,
                struct err *err);

// Appends the bytes that a token stands for, which may be part of a UTF-8 sequence (utf8_push puts
// them together). Control tokens give nothing, or their name with TOK_SPECIAL.
bool tok_decode(const struct tokenizer *t, int32_t id, unsigned flags, struct bytes *out, struct err *err);

#endif
