// SPDX-License-Identifier: MIT
/* test_dequant.c - decoding against the PyPI package `gguf`: what make_golden.py wrote into INGOT_GOLDEN_DIR must come
 * out of CPY and GET_ROWS bit for bit in f32, and rounded to nearest even in f16 and bf16; every code of each format, in
 * f32. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "check.h"
#include "golden_blocks.h"

/* The largest number of blocks in a row, up to 8, that divides all of them. */
static int64_t row_blocks(const struct golden *g) {
    for (int64_t n = 8; n > 1; n--)
        if (g->blocks % n == 0) return n;
    return 1;
}

static struct tensor *table_of(ingot_type type, const struct golden *g, const struct layout *how) {
    const int64_t n = row_blocks(g), rows = g->blocks / n;
    struct tensor *t = tensor_new(type, n * g->per_block, rows, 1, 1, how);
    for (int64_t r = 0; r < rows; r++)
        memcpy(tensor_at(t, 0, r, 0, 0), g->raw + (size_t)(r * n) * ingot_type_size(type),
               (size_t)n * ingot_type_size(type));
    tensor_upload(t);
    return t;
}

static uint32_t bits_at(const unsigned char *p, ingot_type type) {
    uint32_t bits = 0;
    memcpy(&bits, p, ingot_type_size(type));
    return bits;
}

static uint32_t expected_bits(float value, ingot_type type) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return type == INGOT_TYPE_F16 ? check_f32_to_f16(value) : type == INGOT_TYPE_BF16 ? check_f32_to_bf16(value) : bits;
}

/* Element e of the result must have the bits of value e; any NaN does for a NaN. */
static void same_bits(const struct tensor *got, const struct golden *g, const int64_t *order, const char *what) {
    const int64_t k = got->t.ne[0];
    for (int64_t r = 0; r < got->t.ne[1]; r++)
        for (int64_t i = 0; i < k; i++) {
            const float value = g->values[(order ? order[r] : r) * k + i];
            const uint32_t bits = bits_at(tensor_at(got, i, r, 0, 0), got->t.type);
            if (bits == expected_bits(value, got->t.type)) continue;
            if (isnan(value) && isnan(tensor_get(got, i, r, 0, 0))) continue;
            check_fail("%s to %s: row %lld, element %lld: %08x, expected %08x (%.9g)", what, check_shape(&got->t),
                       (long long)r, (long long)i, bits, expected_bits(value, got->t.type), (double)value);
        }
}

static void decode(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const ingot_type to[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
    const struct layout gapped = {{1, 0, 0, 0}, {0, 1, 2, 3}, 2};
    const struct golden *g = golden_of(type);
    for (int strided = 0; strided < 2; strided++) {
        struct tensor *table = table_of(type, g, strided ? &gapped : NULL);
        for (int i = 0; i < 3; i++) {
            struct tensor *out = tensor_new(to[i], table->t.ne[0], table->t.ne[1], 1, 1, NULL);
            ingot_node node = {.op = INGOT_OP_CPY, .dst = out->t, .src = {&table->t}};
            tensor_upload(out);
            CHECK_OK(ingot_compute(check_context(), &node));
            tensor_download(out);
            same_bits(out, g, NULL, "cpy");
        }
        /* Rows in reverse order. */
        const int64_t rows = table->t.ne[1];
        struct tensor *ids = tensor_new(INGOT_TYPE_I32, rows, 1, 1, 1, NULL),
                      *out = tensor_new(INGOT_TYPE_F32, table->t.ne[0], rows, 1, 1, NULL);
        int64_t *order = check_alloc((size_t)rows * sizeof *order);
        for (int64_t r = 0; r < rows; r++) tensor_set(ids, r, 0, 0, 0, (double)(order[r] = rows - 1 - r));
        ingot_node node = {.op = INGOT_OP_GET_ROWS, .dst = out->t, .src = {&table->t, &ids->t}};
        tensor_upload(ids), tensor_upload(out);
        CHECK_OK(ingot_compute(check_context(), &node));
        tensor_download(out);
        same_bits(out, g, order, "get_rows");
    }
}

static void every_code(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    struct golden g = golden_exhaustive(type);
    struct tensor *table = table_of(type, &g, NULL);
    struct tensor *out = tensor_new(INGOT_TYPE_F32, table->t.ne[0], table->t.ne[1], 1, 1, NULL);
    ingot_node node = {.op = INGOT_OP_CPY, .dst = out->t, .src = {&table->t}};
    tensor_fill(out, 1.0); /* no NaN, which some patterns are */
    tensor_upload(out);
    CHECK_OK(ingot_compute(check_context(), &node));
    tensor_download(out);
    same_bits(out, &g, NULL, "cpy");
    golden_free(&g);
}

static void same_values(ingot_type type, const struct golden *g) {
    double values[256];
    for (int64_t b = 0; b < g->blocks; b++) {
        check_decode_block(type, g->raw + (size_t)b * ingot_type_size(type), values);
        for (int64_t i = 0; i < g->per_block; i++)
            if ((float)values[i] != g->values[b * g->per_block + i])
                check_fail("%s: block %lld, element %lld: %.9g, expected %.9g", ingot_type_name(type), (long long)b,
                           (long long)i, values[i], (double)g->values[b * g->per_block + i]);
    }
}

/* The decoder that the other tests' references stand on must agree with the package as well. */
static void reference_decoder(void **state) {
    (void)state;
    for (int number = 0; number < CHECK_TYPES; number++) {
        const ingot_type type = (ingot_type)number;
        if (!check_is_block(type) || !check_has_decoder(type)) continue;
        struct golden every = golden_exhaustive(type);
        same_values(type, golden_of(type));
        same_values(type, &every);
        golden_free(&every);
    }
}

int main(void) {
    static ingot_type types[CHECK_TYPES];
    static char names[2 * CHECK_TYPES][32];
    static struct CMUnitTest tests[2 * CHECK_TYPES];
    const size_t all = check_types(types);
    size_t count = 0;
    tests[count++] = (struct CMUnitTest)CHECK_TEST(reference_decoder);
    for (size_t t = 3; t < all; t++, count++) {
        snprintf(names[count], sizeof names[count], "decode_%s", ingot_type_name(types[t]));
        tests[count] = (struct CMUnitTest){names[count], decode, NULL, check_teardown, &types[t]};
    }
    for (size_t t = 0; t < all; t++) { /* f32 has no codes */
        if (types[t] == INGOT_TYPE_F32) continue;
        snprintf(names[count], sizeof names[count], "every_code_%s", ingot_type_name(types[t]));
        tests[count] = (struct CMUnitTest){names[count], every_code, NULL, check_teardown, &types[t]};
        count++;
    }
    return check_main("dequant", tests, count);
}
