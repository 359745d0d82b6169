// SPDX-License-Identifier: MIT
/* tensor.c - the facts of types and the geometry of tensors, in checked 63-bit arithmetic. */
#include "base.h"

#include <inttypes.h>
#include <stdio.h>

struct type_info {
    const char *name;
    int32_t block, bytes;
};
static const struct type_info types[] = {
#define INGOT_TYPE_INFO(ENUM, name, block, bytes) [INGOT_TYPE_##ENUM] = {name, block, bytes},
#include "generated/types.inc"
#undef INGOT_TYPE_INFO
};

static const struct type_info *info_of(ingot_type type) {
    static const struct type_info none = {"?", 0, 0};
    const size_t i = (size_t)type;

    return i < sizeof types / sizeof *types && types[i].name ? &types[i] : &none;
}

int64_t ingot_type_block(ingot_type type) {
    return info_of(type)->block;
}

size_t ingot_type_size(ingot_type type) {
    return (size_t)info_of(type)->bytes;
}

const char *ingot_type_name(ingot_type type) {
    return info_of(type)->name;
}

const char *ingot_op_name(ingot_op op) {
    static const char *const names[INGOT_OP_COUNT] = {
        [INGOT_OP_NONE] = "none",
        [INGOT_OP_GET_ROWS] = "get_rows",
        [INGOT_OP_SET_ROWS] = "set_rows",
        [INGOT_OP_CPY] = "cpy",
        [INGOT_OP_ADD] = "add",
        [INGOT_OP_MUL] = "mul",
        [INGOT_OP_RMS_NORM] = "rms_norm",
        [INGOT_OP_ROPE] = "rope",
        [INGOT_OP_SILU] = "silu",
        [INGOT_OP_RELU] = "relu",
        [INGOT_OP_GELU] = "gelu",
        [INGOT_OP_GELU_ERF] = "gelu_erf",
        [INGOT_OP_GELU_QUICK] = "gelu_quick",
        [INGOT_OP_GLU] = "glu",
        [INGOT_OP_SOFT_MAX] = "soft_max",
        [INGOT_OP_MUL_MAT] = "mul_mat",
        [INGOT_OP_MUL_MAT_ID] = "mul_mat_id",
        [INGOT_OP_ATTENTION] = "attention",
    };
    const size_t i = (size_t)op;

    return i < INGOT_OP_COUNT && names[i] ? names[i] : "?";
}

bool ingot_mul_size(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool ingot_add_size(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

bool ingot_is_block_type(ingot_type type) {
    return ingot_type_block(type) > 1;
}

size_t ingot_type_alignment(ingot_type type) {
    size_t size = ingot_type_size(type);

    if (!ingot_is_block_type(type)) return size;
    return size % 2 == 0 ? 2 : 1; /* no field of a block format needs more than its f16 scale */
}

bool ingot_is_float_type(ingot_type type) {
    return type == INGOT_TYPE_F32 || type == INGOT_TYPE_F16 || type == INGOT_TYPE_BF16;
}

ingot_status ingot_tensor_init(ingot_tensor *t, ingot_type type, int n_dims, const int64_t *ne, void *data) {
    const int64_t block = ingot_type_block(type);
    int64_t stride = (int64_t)ingot_type_size(type);

    if (!t || !ne) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_tensor_init: %s is NULL", t ? "ne" : "t");
    if (block == 0) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_tensor_init: %d is no tensor type", (int)type);
    if (n_dims < 1 || n_dims > 4) {
        return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_tensor_init: %d dimensions, expected 1..4", n_dims);
    }
    for (int i = 0; i < n_dims; i++) {
        if (ne[i] < 0) {
            return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_tensor_init: ne[%d] is negative: %" PRId64, i, ne[i]);
        }
    }
    if (ne[0] % block != 0) {
        return ingot_fail(NULL, INGOT_ERR_INVALID,
                          "ingot_tensor_init: ne[0] = %" PRId64 " is no multiple of %s's block of %" PRId64, ne[0],
                          ingot_type_name(type), block);
    }
    *t = (ingot_tensor){.type = type, .data = data};
    for (int i = 0; i < 4; i++) {
        t->ne[i] = i < n_dims ? ne[i] : 1;
        t->nb[i] = (size_t)stride;
        if (!ingot_mul_size(stride, i == 0 ? t->ne[0] / block : t->ne[i], &stride)) {
            *t = (ingot_tensor){.type = type};
            return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_tensor_init: the size does not fit in 63 bits");
        }
    }
    return INGOT_OK;
}

/* Bytes from the first to one past the last byte of the first `dims` dimensions; INT64_MAX if that does not fit or the
 * tensor is none.  Not for empty tensors. */
static int64_t span(const ingot_tensor *t, int dims) {
    const int64_t block = ingot_type_block(t->type);
    int64_t bytes = (int64_t)ingot_type_size(t->type), part;

    if (block == 0) return INT64_MAX;
    for (int i = 0; i < dims; i++) {
        const int64_t n = i == 0 ? (t->ne[0] - 1) / block + 1 : t->ne[i];
        if (n == 1) continue;
        if (t->nb[i] > INT64_MAX || !ingot_mul_size(n - 1, (int64_t)t->nb[i], &part) ||
            !ingot_add_size(bytes, part, &bytes)) {
            return INT64_MAX;
        }
    }
    return bytes;
}

bool ingot_is_empty(const ingot_tensor *t) {
    return t->ne[0] <= 0 || t->ne[1] <= 0 || t->ne[2] <= 0 || t->ne[3] <= 0;
}

size_t ingot_tensor_size(const ingot_tensor *t) {
    return !t || ingot_is_empty(t) ? 0 : (size_t)span(t, 4);
}

int64_t ingot_tensor_elements(const ingot_tensor *t) {
    int64_t n = 1;

    if (!t || ingot_is_empty(t)) return 0;
    for (int i = 0; i < 4; i++) {
        if (!ingot_mul_size(n, t->ne[i], &n)) return INT64_MAX;
    }
    return n;
}

bool ingot_same_shape(const ingot_tensor *a, const ingot_tensor *b) {
    return a->ne[0] == b->ne[0] && a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3];
}

bool ingot_is_contiguous(const ingot_tensor *t) {
    const int64_t block = ingot_type_block(t->type);
    int64_t stride = (int64_t)ingot_type_size(t->type);

    if (block == 0) return false;
    if (ingot_is_empty(t)) return true;
    for (int i = 0; i < 4; i++) {
        const int64_t n = i == 0 ? t->ne[0] / block : t->ne[i];
        if (n != 1 && t->nb[i] != (size_t)stride) return false; /* the stride of a dimension of 1 is never used */
        if (!ingot_mul_size(stride, n, &stride)) return false;
    }
    return true;
}

/* True if every stride of dimensions `from`..3 that counts is a multiple of `pitch`. */
static bool steps_by(const ingot_tensor *t, int from, size_t pitch) {
    for (int i = from; i < 4; i++) {
        if (t->ne[i] > 1 && t->nb[i] % pitch != 0) return false;
    }
    return true;
}

/* Seen modulo a pitch that both step by, each tensor occupies one interval: true if those are apart. */
static bool apart_modulo(const ingot_tensor *a, const ingot_tensor *b, int inner, size_t pitch) {
    const uintptr_t at = (uintptr_t)a->data, bt = (uintptr_t)b->data;
    uintptr_t distance;

    if (pitch == 0 || !steps_by(a, inner, pitch) || !steps_by(b, inner, pitch)) return false;
    distance = at <= bt ? (bt - at) % pitch : (pitch - (at - bt) % pitch) % pitch;
    return distance >= (size_t)span(a, inner) && (size_t)span(b, inner) <= pitch - distance;
}

bool ingot_overlap(const ingot_tensor *a, const ingot_tensor *b) {
    const uintptr_t at = (uintptr_t)a->data, bt = (uintptr_t)b->data;
    const size_t size_a = ingot_tensor_size(a), size_b = ingot_tensor_size(b);

    if (size_a == 0 || size_b == 0) return false;
    if (at <= bt ? bt - at >= size_a : at - bt >= size_b) return false;
    for (int i = 1; i < 4; i++) { /* the ranges meet; do the rows? */
        if (a->ne[i] > 1 && apart_modulo(a, b, i, a->nb[i])) return false;
        if (b->ne[i] > 1 && apart_modulo(a, b, i, b->nb[i])) return false;
    }
    return true;
}

const char *ingot_describe(const ingot_tensor *t, char text[96]) {
    snprintf(text, 96, "%s [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", ingot_type_name(t->type), t->ne[0],
             t->ne[1], t->ne[2], t->ne[3]);
    return text;
}
