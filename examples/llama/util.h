// SPDX-License-Identifier: MIT
//
// What every file of the demo shares: an error text, a growable byte buffer and arithmetic that
// notices overflow. A function that can fail takes a `struct err *`, writes there what was wrong
// and what was expected, and returns false (or NULL); only main() turns that into an exit code.
#ifndef LLAMA_UTIL_H
#define LLAMA_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err {
    char text[512];
};

// Writes the text and returns false, so that a check reads `return err_set(err, ...)`. A longer text
// is cut. err may be NULL: the text is dropped.
bool err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Puts "prefix: " in front of the text that err already has. Returns false.
bool err_in(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum { QUOTED_BYTES = 80 };

// Copies s[0..n) into buf between quotes for an error text: control and non-ASCII bytes as \xNN,
// long strings cut with "...". Returns buf.
const char *quoted(char buf[QUOTED_BYTES], const char *s, uint64_t n);

// Growable bytes. All zero is an empty buffer; bytes_free returns it to that state.
struct bytes {
    char *p;
    size_t n, cap;
};

// Appends n bytes. False (with err set) only when memory is out; the buffer is then unchanged.
bool bytes_add(struct bytes *b, const void *p, size_t n, struct err *err);
void bytes_free(struct bytes *b);

// Growable array of token ids, with the same rules.
struct ids {
    int32_t *p;
    size_t n, cap;
};

bool ids_add(struct ids *b, int32_t id, struct err *err);
void ids_free(struct ids *b);

// *out = a * b, a + b. False on overflow of 64 bits, *out is then not to be used.
static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

// Allocates n * size zeroed bytes (at least one). NULL with err set when that overflows or memory
// is out; `what` names the thing in the text.
void *new_array(uint64_t n, uint64_t size, const char *what, struct err *err);

#endif
