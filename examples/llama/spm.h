// SPDX-License-Identifier: MIT
//
// SentencePiece-style encoding (tokenizer.ggml.model "llama"): characters are joined in the order
// of the joined token's score; what is no token in the end becomes byte tokens. A space is
// written U+2581.
#ifndef LLAMA_SPM_H
#define LLAMA_SPM_H

#include "merge.h"
#include "vocab.h"

struct spm {
    int32_t byte_id[256]; // the tokens "<0x00>" .. "<0xFF>", -1 where there is none
    int32_t unknown;      // -1: none
};

// Needs scores in *v. `unknown` stands for a byte that has no token; -1: such a byte is dropped.
bool spm_load(struct spm *p, const struct vocab *v, int32_t unknown, struct err *err);

// Appends the tokens of s[0..n), with a space put in front if `prefix`. Adds to *dropped the bytes
// that no token stands for.
bool spm_encode(const struct spm *p, const struct vocab *v, struct merger *m, const char *s, size_t n, bool prefix,
                struct ids *out, size_t *dropped, struct err *err);

// Appends the bytes that token `id` stands for.
bool spm_decode(const struct spm *p, const struct vocab *v, int32_t id, struct bytes *out, struct err *err);

#endif
