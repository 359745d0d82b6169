// SPDX-License-Identifier: MIT
//
// Reader of GGUF version 2 and 3 files, little-endian. The file is mapped, never copied, and is
// checked as a whole when it is opened: after gguf_open every string, array and tensor that these
// functions hand out lies inside the file.
//
//   magic "GGUF" | version u32 | tensor count u64 | key count u64
//   key count    x { key string | type u32 | value }
//   tensor count x { name string | n_dims u32 | ne u64[n_dims] | type u32 | offset u64 }
//   padding to general.alignment (32 unless the file says otherwise)
//   tensor data, each tensor at its offset from here
//
//   string = length u64 | bytes, no end mark        array = type u32 | count u64 | values
#ifndef LLAMA_GGUF_H
#define LLAMA_GGUF_H

#include "util.h"

struct gguf;

// Bytes in the file; not zero-terminated.
struct gguf_str {
    const char *s;
    uint64_t n;
};

// `type` has the numbers of GGUF, which are those of ingot. Unused dimensions are 1.
struct gguf_tensor {
    struct gguf_str name;
    uint32_t type;
    int n_dims;
    int64_t ne[4];
    const void *data;
    uint64_t bytes;
};

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES,
};

// What a getter does when the key is not there: leave *out as it was and succeed, or fail.
enum gguf_need { GGUF_OPTIONAL, GGUF_REQUIRED };

// An array value. Fixed-size elements lie packed at `data` (little-endian, perhaps unaligned).
struct gguf_array {
    enum gguf_type type;
    uint64_t count;
    const unsigned char *data;
};

// Maps and checks a file. NULL with err set on any fault. Close with gguf_close.
struct gguf *gguf_open(const char *path, struct err *err);

// The same over bytes that the caller keeps alive and unchanged until gguf_close.
struct gguf *gguf_parse(const void *bytes, uint64_t n, struct err *err);

// Accepts NULL.
void gguf_close(struct gguf *g);

uint32_t gguf_version(const struct gguf *g);
uint64_t gguf_file_bytes(const struct gguf *g);

// Tensors in file order; the pointers live as long as g. gguf_find_tensor gives NULL when there
// is none of that name.
uint64_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

bool gguf_has(const struct gguf *g, const char *key);

// Typed getters: true with *out set, or with *out untouched when an optional key is missing. False
// when a required key is missing or the value has another type. gguf_get_uint takes every integer
// type and refuses negative values and those above `max`; gguf_get_f64 takes both float types.
bool gguf_get_uint(const struct gguf *g, const char *key, enum gguf_need need, uint64_t max, uint64_t *out,
                   struct err *err);
bool gguf_get_f64(const struct gguf *g, const char *key, enum gguf_need need, double *out, struct err *err);
bool gguf_get_bool(const struct gguf *g, const char *key, enum gguf_need need, bool *out, struct err *err);
bool gguf_get_str(const struct gguf *g, const char *key, enum gguf_need need, struct gguf_str *out, struct err *err);
bool gguf_get_array(const struct gguf *g, const char *key, enum gguf_need need, enum gguf_type type,
                    struct gguf_array *out, struct err *err);

// Walks an array of strings: the next one, advancing *at, which starts at a->data. Not to be
// called more than a->count times.
struct gguf_str gguf_next_str(const unsigned char **at);

// Whether s is the zero-terminated text.
bool gguf_str_is(struct gguf_str s, const char *text);

#endif
