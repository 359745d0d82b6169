// SPDX-License-Identifier: MIT
//
// The GGUF reader: maps the file, walks the header once with every bound checked, and keeps an
// index of keys and tensors sorted by name. Contracts and the file layout are in gguf.h. Errors
// give the byte offset at which the fault lies.
#define _POSIX_C_SOURCE 200809L
#include "gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../include/ingot.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the reader copies fields as they lie");

enum {
    MAX_DIMS = 4,
    MAX_NESTING = 8,       // arrays in arrays; bounds the recursion of skip_array
    MIN_KEY_BYTES = 13,    // empty key, type, one byte of value
    MIN_TENSOR_BYTES = 32, // empty name, n_dims, one dimension, type, offset
    DEFAULT_ALIGNMENT = 32,
};

struct key {
    struct gguf_str name;
    uint32_t type;
    struct gguf_array array;    // when type is GGUF_ARRAY
    const unsigned char *value; // otherwise
};

struct gguf {
    const unsigned char *bytes;
    uint64_t size;
    void *map; // what to unmap, NULL when the caller owns the bytes
    uint32_t version;
    uint64_t n_keys, n_tensors;
    struct key *keys;             // sorted by name
    struct gguf_tensor *tensors;  // file order
    struct gguf_tensor **by_name; // sorted by name
};

// A read position in the file. Only take() moves it.
struct reader {
    const unsigned char *bytes;
    uint64_t size, at;
    struct err *err;
};

static const uint8_t type_bytes[GGUF_N_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

static const char *const type_names[GGUF_N_TYPES] = {
    [GGUF_U8] = "u8",   [GGUF_I8] = "i8",   [GGUF_U16] = "u16",   [GGUF_I16] = "i16",       [GGUF_U32] = "u32",
    [GGUF_I32] = "i32", [GGUF_F32] = "f32", [GGUF_BOOL] = "bool", [GGUF_STRING] = "string", [GGUF_ARRAY] = "array",
    [GGUF_U64] = "u64", [GGUF_I64] = "i64", [GGUF_F64] = "f64",
};

// The next n bytes, or NULL with an error that names `what`.
static const unsigned char *take(struct reader *r, uint64_t n, const char *what) {
    if (n > r->size - r->at) {
        err_set(r->err, "truncated at byte %" PRIu64 ": %s needs %" PRIu64 " bytes, %" PRIu64 " are left", r->at, what,
                n, r->size - r->at);
        return NULL;
    }
    const unsigned char *p = r->bytes + r->at;
    r->at += n;
    return p;
}

static bool take_u32(struct reader *r, uint32_t *out, const char *what) {
    const unsigned char *p = take(r, sizeof *out, what);
    if (p) memcpy(out, p, sizeof *out);
    return p != NULL;
}

static bool take_u64(struct reader *r, uint64_t *out, const char *what) {
    const unsigned char *p = take(r, sizeof *out, what);
    if (p) memcpy(out, p, sizeof *out);
    return p != NULL;
}

static bool take_str(struct reader *r, struct gguf_str *out, const char *what) {
    uint64_t n;
    if (!take_u64(r, &n, what)) return false;
    const unsigned char *p = take(r, n, what);
    if (!p) return false;
    *out = (struct gguf_str){(const char *)p, n};
    return true;
}

static bool check_type(struct reader *r, uint32_t type) {
    if (type < GGUF_N_TYPES) return true;
    return err_set(r->err, "byte %" PRIu64 ": value type %" PRIu32 " is unknown, expected 0 to %d", r->at - 4, type,
                   GGUF_N_TYPES - 1);
}

// A bool that is neither 0 nor 1 would be undefined behaviour for whoever reads it as one.
static bool check_bools(struct reader *r, const unsigned char *p, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1)
            return err_set(r->err, "byte %" PRIu64 ": a bool is %d, expected 0 or 1", (uint64_t)(p + i - r->bytes),
                           p[i]);
    return true;
}

// Reads an array's head into *out and steps over its elements.
static bool skip_array(struct reader *r, struct gguf_array *out, int depth) {
    uint32_t type;
    uint64_t count, bytes;
    if (!take_u32(r, &type, "an array's element type") || !check_type(r, type) ||
        !take_u64(r, &count, "an array's count"))
        return false;
    *out = (struct gguf_array){(enum gguf_type)type, count, r->bytes + r->at};
    // The least an element takes: a string has its length, an array its type and count.
    uint64_t least = type == GGUF_STRING ? 8 : type == GGUF_ARRAY ? 12 : type_bytes[type];
    if (!mul_u64(count, least, &bytes) || bytes > r->size - r->at)
        return err_set(r->err,
                       "byte %" PRIu64 ": an array of %" PRIu64 " x %s needs more than the %" PRIu64
                       " bytes that are left",
                       r->at - 8, count, type_names[type], r->size - r->at);
    if (type == GGUF_ARRAY && depth + 1 > MAX_NESTING)
        return err_set(r->err, "byte %" PRIu64 ": arrays nested deeper than %d levels", r->at - 12, MAX_NESTING);
    if (type != GGUF_STRING && type != GGUF_ARRAY) {
        const unsigned char *p = take(r, bytes, "an array");
        return p && (type != GGUF_BOOL || check_bools(r, p, count));
    }
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_str s;
        struct gguf_array a;
        if (type == GGUF_STRING ? !take_str(r, &s, "a string of an array") : !skip_array(r, &a, depth + 1))
            return false;
    }
    return true;
}

static bool read_key(struct reader *r, struct key *key) {
    if (!take_str(r, &key->name, "a key") || !take_u32(r, &key->type, "a value type") || !check_type(r, key->type))
        return false;
    key->value = r->bytes + r->at;
    if (key->type == GGUF_ARRAY) return skip_array(r, &key->array, 1);
    if (key->type == GGUF_STRING) {
        struct gguf_str s;
        return take_str(r, &s, "a string value");
    }
    const unsigned char *p = take(r, type_bytes[key->type], "a value");
    return p && (key->type != GGUF_BOOL || check_bools(r, p, 1));
}

static int compare_str(struct gguf_str a, struct gguf_str b) {
    int c = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int compare_keys(const void *a, const void *b) {
    return compare_str(((const struct key *)a)->name, ((const struct key *)b)->name);
}

static int compare_tensors(const void *a, const void *b) {
    return compare_str((*(struct gguf_tensor *const *)a)->name, (*(struct gguf_tensor *const *)b)->name);
}

static bool read_keys(struct reader *r, struct gguf *g) {
    char q[QUOTED_BYTES];
    if (g->n_keys > (r->size - r->at) / MIN_KEY_BYTES)
        return err_set(r->err, "byte 16: %" PRIu64 " keys cannot lie in the %" PRIu64 " bytes that follow", g->n_keys,
                       r->size - r->at);
    g->keys = new_array(g->n_keys, sizeof *g->keys, "the keys", r->err);
    if (!g->keys) return false;
    for (uint64_t i = 0; i < g->n_keys; i++)
        if (!read_key(r, &g->keys[i])) {
            struct gguf_str name = g->keys[i].name;
            return name.s ? err_in(r->err, "key %s", quoted(q, name.s, name.n))
                          : err_in(r->err, "key %" PRIu64 " of %" PRIu64, i, g->n_keys);
        }
    qsort(g->keys, g->n_keys, sizeof *g->keys, compare_keys);
    for (uint64_t i = 1; i < g->n_keys; i++)
        if (compare_keys(&g->keys[i - 1], &g->keys[i]) == 0)
            return err_set(r->err, "key %s is there twice", quoted(q, g->keys[i].name.s, g->keys[i].name.n));
    return true;
}

// Reads one tensor's entry and works out its size; `*offset` is from the start of the data.
static bool read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset) {
    uint32_t n_dims;
    uint64_t at = r->at, count = 1, bytes;
    if (!take_str(r, &t->name, "a tensor's name")) return false;
    at = r->at;
    if (!take_u32(r, &n_dims, "a tensor's number of dimensions")) return false;
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return err_set(r->err, "byte %" PRIu64 ": %" PRIu32 " dimensions, expected 1 to %d", at, n_dims, MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < MAX_DIMS; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims && !take_u64(r, &ne, "a tensor's dimension")) return false;
        if (ne == 0 || ne > INT64_MAX)
            return err_set(r->err, "byte %" PRIu64 ": dimension %d is %" PRId64 ", expected 1 or more", r->at - 8, i,
                           (int64_t)ne);
        if (!mul_u64(count, ne, &count) || count > INT64_MAX)
            return err_set(r->err, "byte %" PRIu64 ": the number of elements overflows 64 bits", r->at - 8);
        t->ne[i] = (int64_t)ne;
    }
    at = r->at;
    if (!take_u32(r, &t->type, "a tensor's type")) return false;
    // A number above any type must not become a negative enum on its way into the library.
    int64_t block = t->type > INT16_MAX ? 0 : (int64_t)ingot_type_block((ingot_type)t->type);
    int64_t block_bytes = block > 0 ? (int64_t)ingot_type_size((ingot_type)t->type) : 0;
    if (block <= 0 || block_bytes <= 0)
        return err_set(r->err,
                       "byte %" PRIu64 ": tensor type %" PRIu32 " is unknown, expected one "
                       "of the formats that the library names",
                       at, t->type);
    if (t->ne[0] % block)
        return err_set(r->err,
                       "byte %" PRIu64 ": rows of %" PRId64 " elements, expected a multiple "
                       "of the block size %" PRId64 " of type %" PRIu32,
                       at, t->ne[0], block, t->type);
    if (!mul_u64(count / (uint64_t)block, (uint64_t)block_bytes, &bytes) || bytes > INT64_MAX)
        return err_set(r->err, "byte %" PRIu64 ": the tensor's size overflows 64 bits", at);
    t->bytes = bytes;
    return take_u64(r, offset, "a tensor's offset");
}

static bool read_tensors(struct reader *r, struct gguf *g) {
    char q[QUOTED_BYTES];
    if (g->n_tensors > (r->size - r->at) / MIN_TENSOR_BYTES)
        return err_set(r->err, "byte 8: %" PRIu64 " tensors cannot lie in the %" PRIu64 " bytes that follow the keys",
                       g->n_tensors, r->size - r->at);
    g->tensors = new_array(g->n_tensors, sizeof *g->tensors, "the tensors", r->err);
    g->by_name = new_array(g->n_tensors, sizeof *g->by_name, "the tensors", r->err);
    if (!g->tensors || !g->by_name) return false;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = g->by_name[i] = &g->tensors[i];
        uint64_t offset = 0;
        if (!read_tensor(r, t, &offset))
            return t->name.s ? err_in(r->err, "tensor %s", quoted(q, t->name.s, t->name.n))
                             : err_in(r->err, "tensor %" PRIu64 " of %" PRIu64, i, g->n_tensors);
        // Until the start of the data is known, `data` carries the offset.
        t->data = (const void *)(uintptr_t)offset;
    }
    qsort(g->by_name, g->n_tensors, sizeof *g->by_name, compare_tensors);
    for (uint64_t i = 1; i < g->n_tensors; i++)
        if (compare_tensors(&g->by_name[i - 1], &g->by_name[i]) == 0)
            return err_set(r->err, "tensor %s is there twice", quoted(q, g->by_name[i]->name.s, g->by_name[i]->name.n));
    return true;
}

_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "an offset is kept in a pointer for a while");

// Turns offsets into pointers once the start of the tensor data is known.
static bool place_tensors(struct reader *r, struct gguf *g) {
    char q[QUOTED_BYTES];
    uint64_t alignment = DEFAULT_ALIGNMENT, start;
    if (!gguf_get_uint(g, "general.alignment", GGUF_OPTIONAL, UINT32_MAX, &alignment, r->err)) return false;
    if (alignment == 0 || (alignment & (alignment - 1)))
        return err_set(r->err, "general.alignment is %" PRIu64 ", expected a power of two", alignment);
    if (g->n_tensors == 0) return true;
    start = (r->at + alignment - 1) & ~(alignment - 1); // both far below 2^63
    if (start > r->size)
        return err_set(r->err, "truncated: tensor data starts at byte %" PRIu64 ", the file has %" PRIu64, start,
                       r->size);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        uint64_t offset = (uint64_t)(uintptr_t)t->data, end;
        const char *name = quoted(q, t->name.s, t->name.n);
        if (offset & (alignment - 1))
            return err_set(r->err, "tensor %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu64, name,
                           offset, alignment);
        if (!add_u64(offset, t->bytes, &end) || end > r->size - start)
            return err_set(r->err,
                           "tensor %s: %" PRIu64 " bytes at offset %" PRIu64 " go past the end: %" PRIu64
                           " bytes of data from byte %" PRIu64 " are in the file",
                           name, t->bytes, offset, r->size - start, start);
        t->data = r->bytes + start + offset;
    }
    return true;
}

static bool read_head(struct reader *r, struct gguf *g) {
    const unsigned char *magic = take(r, 4, "the magic");
    if (!magic) return false;
    if (memcmp(magic, "GGUF", 4)) {
        char q[QUOTED_BYTES];
        if (memcmp(magic, "FUGG", 4) == 0) return err_set(r->err, "a big-endian file, expected a little-endian one");
        return err_set(r->err, "magic is %s, expected \"GGUF\"", quoted(q, (const char *)magic, 4));
    }
    if (!take_u32(r, &g->version, "the version")) return false;
    if (g->version != 2 && g->version != 3) {
        uint32_t swapped = __builtin_bswap32(g->version);
        if (swapped >= 1 && swapped <= 3)
            return err_set(r->err, "a big-endian file (version %" PRIu32 " byte-swapped), expected a little-endian one",
                           swapped);
        return err_set(r->err, "GGUF version %" PRIu32 ", expected 2 or 3", g->version);
    }
    return take_u64(r, &g->n_tensors, "the tensor count") && take_u64(r, &g->n_keys, "the key count");
}

struct gguf *gguf_parse(const void *bytes, uint64_t n, struct err *err) {
    struct gguf *g = new_array(1, sizeof *g, "the file's index", err);
    if (!g) return NULL;
    g->bytes = bytes;
    g->size = n;
    struct reader r = {bytes, n, 0, err};
    if (read_head(&r, g) && read_keys(&r, g) && read_tensors(&r, g) && place_tensors(&r, g)) return g;
    gguf_close(g);
    return NULL;
}

struct gguf *gguf_open(const char *path, struct err *err) {
    struct gguf *g = NULL;
    void *map = MAP_FAILED;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        err_set(err, "%s: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        err_set(err, "%s: %s, expected a GGUF file", path,
                S_ISREG(st.st_mode) ? "an empty file" : "not a regular file");
        goto done;
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        err_set(err, "%s: cannot be mapped: %s", path, strerror(errno));
        goto done;
    }
    g = gguf_parse(map, (uint64_t)st.st_size, err);
    if (g) g->map = map;
    else err_in(err, "%s", path);
done:
    if (!g && map != MAP_FAILED) munmap(map, (size_t)st.st_size);
    if (fd >= 0) close(fd);
    return g;
}

void gguf_close(struct gguf *g) {
    if (!g) return;
    if (g->map) munmap(g->map, (size_t)g->size);
    free(g->keys);
    free(g->tensors);
    free(g->by_name);
    free(g);
}

uint32_t gguf_version(const struct gguf *g) {
    return g->version;
}

uint64_t gguf_file_bytes(const struct gguf *g) {
    return g->size;
}

uint64_t gguf_n_tensors(const struct gguf *g) {
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i) {
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name) {
    struct gguf_tensor want = {.name = {name, strlen(name)}}, *p = &want;
    struct gguf_tensor **hit = bsearch(&p, g->by_name, g->n_tensors, sizeof *g->by_name, compare_tensors);
    return hit ? *hit : NULL;
}

static const struct key *find_key(const struct gguf *g, const char *name) {
    struct key want = {.name = {name, strlen(name)}};
    return bsearch(&want, g->keys, g->n_keys, sizeof *g->keys, compare_keys);
}

bool gguf_has(const struct gguf *g, const char *key) {
    return find_key(g, key) != NULL;
}

// The answer of a getter whose key is not there.
static bool missing(const char *name, enum gguf_need need, struct err *err) {
    return need == GGUF_OPTIONAL || err_set(err, "key \"%s\" is missing", name);
}

static bool wrong_type(const struct key *key, const char *name, const char *want, struct err *err) {
    return err_set(err, "key \"%s\" has type %s, expected %s", name, type_names[key->type], want);
}

// An integer of any type, sign-extended; *negative tells how to read the result.
static bool read_int(const struct key *key, uint64_t *out, bool *negative) {
    uint64_t raw = 0;
    bool is_signed = key->type == GGUF_I8 || key->type == GGUF_I16 || key->type == GGUF_I32 || key->type == GGUF_I64;
    if (!is_signed && key->type != GGUF_U8 && key->type != GGUF_U16 && key->type != GGUF_U32 && key->type != GGUF_U64)
        return false;
    memcpy(&raw, key->value, type_bytes[key->type]);
    int unused = 64 - 8 * type_bytes[key->type];
    *negative = is_signed && (raw >> (63 - unused)) & 1;
    if (*negative && unused) raw |= ~UINT64_C(0) << (64 - unused);
    *out = raw;
    return true;
}

bool gguf_get_uint(const struct gguf *g, const char *name, enum gguf_need need, uint64_t max, uint64_t *out,
                   struct err *err) {
    const struct key *key = find_key(g, name);
    uint64_t v;
    bool negative;
    if (!key) return missing(name, need, err);
    if (!read_int(key, &v, &negative)) return wrong_type(key, name, "an integer", err);
    if (negative) return err_set(err, "key \"%s\" is %" PRId64 ", expected 0 to %" PRIu64, name, (int64_t)v, max);
    if (v > max) return err_set(err, "key \"%s\" is %" PRIu64 ", expected 0 to %" PRIu64, name, v, max);
    *out = v;
    return true;
}

bool gguf_get_f64(const struct gguf *g, const char *name, enum gguf_need need, double *out, struct err *err) {
    const struct key *key = find_key(g, name);
    float f;
    if (!key) return missing(name, need, err);
    if (key->type == GGUF_F64) {
        memcpy(out, key->value, sizeof *out);
        return true;
    }
    if (key->type != GGUF_F32) return wrong_type(key, name, "a float", err);
    memcpy(&f, key->value, sizeof f);
    *out = (double)f;
    return true;
}

bool gguf_get_bool(const struct gguf *g, const char *name, enum gguf_need need, bool *out, struct err *err) {
    const struct key *key = find_key(g, name);
    if (!key) return missing(name, need, err);
    if (key->type != GGUF_BOOL) return wrong_type(key, name, "a bool", err);
    *out = key->value[0] != 0;
    return true;
}

bool gguf_get_str(const struct gguf *g, const char *name, enum gguf_need need, struct gguf_str *out, struct err *err) {
    const struct key *key = find_key(g, name);
    if (!key) return missing(name, need, err);
    if (key->type != GGUF_STRING) return wrong_type(key, name, "a string", err);
    const unsigned char *at = key->value;
    *out = gguf_next_str(&at);
    return true;
}

bool gguf_get_array(const struct gguf *g, const char *name, enum gguf_need need, enum gguf_type type,
                    struct gguf_array *out, struct err *err) {
    const struct key *key = find_key(g, name);
    if (!key) return missing(name, need, err);
    if (key->type != GGUF_ARRAY) return wrong_type(key, name, "an array", err);
    if (key->array.type != type)
        return err_set(err, "key \"%s\" is an array of %s, expected one of %s", name, type_names[key->array.type],
                       type_names[type]);
    *out = key->array;
    return true;
}

struct gguf_str gguf_next_str(const unsigned char **at) {
    uint64_t n;
    memcpy(&n, *at, sizeof n);
    struct gguf_str s = {(const char *)*at + sizeof n, n};
    *at += sizeof n + n;
    return s;
}

bool gguf_str_is(struct gguf_str s, const char *text) {
    return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}
