// SPDX-License-Identifier: MIT
/* rounded.c - see rounded.h. */
#define _POSIX_C_SOURCE 200809L
#include "rounded.h"

#include <math.h>

struct rounded {
    int64_t blocks;
    int halves;    /* f16 at the head of a block */
    float *values; /* [blocks][32] */
    unsigned char *raw;
    bool *exact[CHECK_TYPES]; /* per plain type: which blocks it holds exactly */
};

static const ingot_type written[ROUNDED_TYPES] = {INGOT_TYPE_Q4_0, INGOT_TYPE_Q4_1, INGOT_TYPE_Q5_0,
                                                  INGOT_TYPE_Q5_1, INGOT_TYPE_Q8_0, INGOT_TYPE_IQ4_NL};

bool is_rounded_type(ingot_type type) {
    for (int i = 0; i < ROUNDED_TYPES; i++)
        if (written[i] == type) return true;
    return false;
}

int rounded_types(ingot_type types[ROUNDED_TYPES]) {
    int count = 0;
    for (int i = 0; i < ROUNDED_TYPES; i++)
        if (check_in_build(written[i])) types[count++] = written[i];
    return count;
}

static void *keep(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) check_fail("out of host memory: %zu bytes", bytes);
    return p;
}

static struct rounded *rounded_of(ingot_type type) {
    static struct rounded read[CHECK_TYPES]; /* until the program ends */
    struct rounded *r = &read[type];
    const char *folder = getenv("INGOT_GOLDEN_DIR");
    unsigned char head[20];
    char path[1024];
    uint32_t number, blocks, halves;
    if (r->raw) return r;
    if (!folder || !*folder)
        check_fail("%s.rounded is needed and INGOT_GOLDEN_DIR is not set: run  make_rounded.py DIR  and set it to DIR",
                   ingot_type_name(type));
    snprintf(path, sizeof path, "%s/%s.rounded", folder, ingot_type_name(type));
    FILE *f = fopen(path, "rb");
    if (!f) check_fail("%s cannot be opened: make_rounded.py writes it", path);
    if (fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, "INGOTRV1", 8) != 0)
        check_fail("%s is no file of rounded blocks", path);
    memcpy(&number, head + 8, 4), memcpy(&blocks, head + 12, 4), memcpy(&halves, head + 16, 4);
    if (number != (uint32_t)type || blocks == 0 || halves > 2) check_fail("%s: type %u", path, number);
    const size_t bytes = blocks * ingot_type_size(type);
    unsigned char *raw = keep(bytes);
    r->blocks = blocks, r->halves = (int)halves;
    r->values = keep((size_t)blocks * 32 * sizeof *r->values);
    if (fread(r->values, 128, blocks, f) != blocks || fread(raw, 1, bytes, f) != bytes || fgetc(f) != EOF)
        check_fail("%s has the wrong length", path);
    fclose(f);
    r->raw = raw;
    return r;
}

int64_t rounded_count(ingot_type type) {
    return rounded_of(type)->blocks;
}

static bool holds(ingot_type type, const float *x) {
    for (int e = 0; e < 32; e++)
        if (type != INGOT_TYPE_F32 && !(check_round(type, x[e]) == (double)x[e])) return false;
    return true;
}

static const bool *exact_in(struct rounded *r, ingot_type type) {
    bool *exact = r->exact[type];
    int64_t count = 0;
    if (exact) return exact;
    exact = keep((size_t)r->blocks * sizeof *exact);
    for (int64_t b = 0; b < r->blocks; b++) count += exact[b] = holds(type, r->values + 32 * b);
    if (count < r->blocks / 20)
        check_fail("only %lld of the golden blocks hold numbers of %s", (long long)count, ingot_type_name(type));
    return r->exact[type] = exact;
}

/* The coordinates of number i of a shape in ne order. */
static void locate(int64_t i, const int64_t ne[4], int64_t at[4]) {
    for (int d = 0; d < 4; d++) {
        at[d] = i % ne[d];
        i /= ne[d];
    }
}

unsigned char *rounded_rows(struct tensor *src, const struct tensor *ids, const struct tensor *dst, bool in_order) {
    const ingot_type type = dst->t.type;
    const size_t size = ingot_type_size(type);
    struct rounded *r = rounded_of(type);
    const bool *exact = exact_in(r, src->t.type);
    unsigned char *image = check_alloc(dst->bytes);
    int64_t chosen = -1;
    memcpy(image, dst->host, dst->bytes);
    for (int64_t n = 0; n < ingot_tensor_elements(&src->t) / 32; n++) {
        const int64_t *ne = dst->t.ne, blocks[4] = {ne[0] / 32, ne[1], ne[2], ne[3]};
        int64_t at[4];
        do chosen = in_order ? (chosen + 1) % r->blocks : check_range(0, r->blocks - 1);
        while (!exact[chosen]);
        for (int e = 0; e < 32; e++) {
            locate(n * 32 + e, src->t.ne, at);
            tensor_set(src, at[0], at[1], at[2], at[3], (double)r->values[chosen * 32 + e]);
        }
        if (ids) { /* `at` still is the block's last element */
            at[0] /= 32;
            at[1] = (int64_t)tensor_get(ids, at[1], at[2] % ids->t.ne[1], at[3] % ids->t.ne[2], 0);
            if (at[1] < 0 || at[1] >= ne[1]) continue;
        } else {
            locate(n, blocks, at);
        }
        memcpy(image + (tensor_at(dst, at[0], at[1], at[2], at[3]) - dst->host), r->raw + (size_t)chosen * size, size);
    }
    return image;
}

static bool is_nan_half(const unsigned char *p) {
    return (p[1] & 0x7c) == 0x7c && ((p[1] & 3) | p[0]) != 0;
}

void rounded_check(struct tensor *dst, unsigned char *image, const char *what) {
    const int64_t *ne = dst->t.ne, blocks[4] = {ne[0] / 32, ne[1], ne[2], ne[3]};
    const size_t size = ingot_type_size(dst->t.type);
    const struct rounded *r = rounded_of(dst->t.type);
    tensor_download(dst);
    for (int64_t n = 0; n < ingot_tensor_elements(&dst->t) / 32; n++) {
        int64_t at[4];
        locate(n, blocks, at);
        unsigned char *got = tensor_at(dst, at[0], at[1], at[2], at[3]), *wanted = image + (got - dst->host);
        for (int h = 0; h < 2 * r->halves; h += 2)
            if (is_nan_half(got + h) && is_nan_half(wanted + h)) memcpy(wanted + h, got + h, 2);
        for (size_t i = 0; i < size; i++)
            if (got[i] != wanted[i])
                check_fail("%s dst %s: block (%lld,%lld,%lld,%lld), byte %zu: %02x, expected %02x", what,
                           check_shape(&dst->t), (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3],
                           i, got[i], wanted[i]);
    }
    for (size_t i = 0; i < dst->bytes; i++)
        if (dst->host[i] != image[i])
            check_fail("%s dst %s: byte %lld from the first block is outside the tensor and was changed from %02x to "
                       "%02x",
                       what, check_shape(&dst->t), (long long)i - (long long)dst->first, image[i], dst->host[i]);
}
