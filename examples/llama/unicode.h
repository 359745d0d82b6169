// SPDX-License-Identifier: MIT
//
// UTF-8 and the few properties of code points that tokenizers ask for.
#ifndef LLAMA_UNICODE_H
#define LLAMA_UNICODE_H

#include "util.h"

enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_PUNCT, UNICODE_SPACE };

// Letter, number and punctuation are the general categories L, N and P; space is White_Space.
// Anything that is no code point is UNICODE_OTHER.
enum unicode_class unicode_class_of(uint32_t cp);

// What utf8_decode gives for a byte that begins no well-formed sequence.
#define UTF8_BAD UINT32_C(0xffffffff)

// Decodes the sequence at s (n >= 1 bytes are there) and returns its length. An ill-formed byte
// has length 1 and *cp = UTF8_BAD: over-long forms, surrogates, cut sequences, above U+10FFFF.
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);

// Writes cp (a scalar value) to out and returns the length, 1 to 4.
size_t utf8_encode(uint32_t cp, char out[4]);

// Text that arrives in pieces cut anywhere: a sequence is held back until it is complete. All zero
// is the start.
struct utf8_stream {
    char held[4];
    size_t n;
};

// Appends to *out what is complete after s[0..n). Each byte that can be part of no sequence comes
// out as U+FFFD.
bool utf8_push(struct utf8_stream *u, const char *s, size_t n, struct bytes *out, struct err *err);

// At the end: bytes still held come out as one U+FFFD.
bool utf8_flush(struct utf8_stream *u, struct bytes *out, struct err *err);

#endif
