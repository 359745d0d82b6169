// SPDX-License-Identifier: MIT
//
// Writes GGUF pieces into memory for the tests. Out of memory ends the test program.
#ifndef TEST_LLAMA_GGUF_WRITER_H
#define TEST_LLAMA_GGUF_WRITER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/llama/gguf.h"

static inline void put(struct bytes *b, const void *p, size_t n) {
    assert_true(bytes_add(b, p, n, NULL));
}

static inline void put_u32(struct bytes *b, uint32_t v) {
    put(b, &v, 4);
}

static inline void put_u64(struct bytes *b, uint64_t v) {
    put(b, &v, 8);
}

static inline void put_strn(struct bytes *b, const char *s, size_t n) {
    put_u64(b, n);
    put(b, s, n);
}

static inline void put_str(struct bytes *b, const char *s) {
    put_strn(b, s, strlen(s));
}

static inline void put_head(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t keys) {
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, keys);
}

static inline void put_key(struct bytes *b, const char *key, enum gguf_type type) {
    put_str(b, key);
    put_u32(b, (uint32_t)type);
}

static inline void put_key_u32(struct bytes *b, const char *key, uint32_t v) {
    put_key(b, key, GGUF_U32);
    put_u32(b, v);
}

static inline void put_key_bool(struct bytes *b, const char *key, int v) {
    put_key(b, key, GGUF_BOOL);
    char c = (char)v;
    put(b, &c, 1);
}

static inline void put_key_str(struct bytes *b, const char *key, const char *v) {
    put_key(b, key, GGUF_STRING);
    put_str(b, v);
}

static inline void put_array(struct bytes *b, enum gguf_type type, uint64_t count) {
    put_u32(b, (uint32_t)type);
    put_u64(b, count);
}

static inline void put_tensor(struct bytes *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
                              uint64_t offset) {
    put_str(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put_u64(b, ne[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void pad_to(struct bytes *b, size_t alignment) {
    while (b->n % alignment) put(b, "", 1);
}

// Splitmix64, for reproducible test data.
static inline uint64_t random_u64(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
