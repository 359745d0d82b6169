// SPDX-License-Identifier: MIT
//
// Byte-level byte-pair encoding (tokenizer.ggml.model "gpt2"). Token texts are written in an
// alphabet that stands for bytes: printable Latin-1 for itself, the other bytes as U+0100 on.
#ifndef LLAMA_BPE_H
#define LLAMA_BPE_H

#include "merge.h"
#include "pretokenize.h"
#include "vocab.h"

struct bpe_merge {
    uint64_t pair; // left id << 32 | right id
    int32_t rank, id;
};

struct bpe {
    const struct pre_rule *pre;
    struct bpe_merge *merges; // open addressing, rank -1 is free
    uint64_t mask;
    int32_t byte_id[256]; // -1: the vocabulary lacks this byte
};

// Reads tokenizer.ggml.pre and merges. On failure *b is empty.
bool bpe_load(struct bpe *b, const struct vocab *v, const struct gguf *g, struct err *err);
void bpe_free(struct bpe *b);

// Appends the tokens of s[0..n) to *out and adds to *dropped the bytes that the vocabulary has no
// token for; such a byte is left out before merging.
bool bpe_encode(const struct bpe *b, const struct vocab *v, struct merger *m, const char *s, size_t n, struct ids *out,
                size_t *dropped, struct err *err);

// Appends the bytes that a token's text stands for.
bool bpe_decode(struct gguf_str text, struct bytes *out, struct err *err);

#endif
