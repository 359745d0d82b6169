// SPDX-License-Identifier: MIT
/* test_dequant.c - decoding against the PyPI package `gguf`: what make_golden.py wrote into INGOT_GOLDEN_DIR must come
 * out of CPY and GET_ROWS bit for bit in f32, and rounded to nearest even in f16 and bf16.
 *
 * A file <type>.golden, little endian: "INGOTGV1", u32 type, u32 blocks, the raw blocks, then their f32 values. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "check.h"

struct golden {
    int64_t blocks, per_block;
    unsigned char *raw;
    float *values;
};

static struct golden read_golden(ingot_type type) {
    const char *folder = getenv("INGOT_GOLDEN_DIR");
    char path[1024];
    if (!folder || !*folder) check_fail("INGOT_GOLDEN_DIR is not set: run  make_golden.py DIR  and set it to DIR");
    snprintf(path, sizeof path, "%s/%s.golden", folder, ingot_type_name(type));
    FILE *f = fopen(path, "rb");
    if (!f) check_fail("%s cannot be opened", path);
    unsigned char head[16];
    if (fread(head, 1, 16, f) != 16 || memcmp(head, "INGOTGV1", 8) != 0)
        check_fail("%s is no file of golden vectors", path);
    uint32_t number, blocks;
    memcpy(&number, head + 8, 4);
    memcpy(&blocks, head + 12, 4);
    if (number != (uint32_t)type || blocks == 0) check_fail("%s: type %u with %u blocks", path, number, blocks);
    struct golden g = {.blocks = blocks, .per_block = ingot_type_block(type)};
    const size_t raw = blocks * ingot_type_size(type), count = blocks * (size_t)g.per_block;
    g.raw = check_alloc(raw);
    g.values = check_alloc(count * sizeof *g.values);
    if (fread(g.raw, 1, raw, f) != raw || fread(g.values, 4, count, f) != count || fgetc(f) != EOF)
        check_fail("%s has the wrong length", path);
    fclose(f);
    return g;
}

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

/* Element e of the result must have the bits of value e. */
static void same_bits(const struct tensor *got, const struct golden *g, const int64_t *order, const char *what) {
    const int64_t k = got->t.ne[0];
    for (int64_t r = 0; r < got->t.ne[1]; r++)
        for (int64_t i = 0; i < k; i++) {
            const float value = g->values[(order ? order[r] : r) * k + i];
            const unsigned char *p = tensor_at(got, i, r, 0, 0);
            uint32_t bits, expected;
            uint16_t half, narrow;
            memcpy(&expected, &value, 4);
            if (got->t.type == INGOT_TYPE_F32) {
                memcpy(&bits, p, 4);
                if (bits != expected)
                    check_fail("%s to %s: row %lld, element %lld: %08x, expected %08x (%.9g)", what,
                               check_shape(&got->t), (long long)r, (long long)i, bits, expected, value);
                continue;
            }
            memcpy(&half, p, 2);
            narrow = got->t.type == INGOT_TYPE_F16 ? check_f32_to_f16(value) : check_f32_to_bf16(value);
            if (half != narrow)
                check_fail("%s to %s: row %lld, element %lld: %04x, expected %04x (%.9g)", what, check_shape(&got->t),
                           (long long)r, (long long)i, half, narrow, value);
        }
}

static void decode(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const ingot_type to[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
    const struct layout gapped = {{1, 0, 0, 0}, {0, 1, 2, 3}, 2};
    struct golden g;
    if (!check_in_build(type)) {
        print_message("%s is not in this build\n", ingot_type_name(type));
        skip();
    }
    g = read_golden(type);
    for (int strided = 0; strided < 2; strided++) {
        struct tensor *table = table_of(type, &g, strided ? &gapped : NULL);
        for (int i = 0; i < 3; i++) {
            struct tensor *out = tensor_new(to[i], table->t.ne[0], table->t.ne[1], 1, 1, NULL);
            ingot_node node = {.op = INGOT_OP_CPY, .dst = out->t, .src = {&table->t}};
            tensor_upload(out);
            CHECK_OK(ingot_compute(check_context(), &node));
            tensor_download(out);
            same_bits(out, &g, NULL, "cpy");
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
        same_bits(out, &g, order, "get_rows");
    }
}

/* The decoder that the other tests' references stand on must agree with the package as well. */
static void reference_decoder(void **state) {
    (void)state;
    double values[256];
    for (const ingot_type *type = check_block_types; (int)*type >= 0; type++) {
        struct golden g = read_golden(*type);
        for (int64_t b = 0; b < g.blocks; b++) {
            check_decode_block(*type, g.raw + (size_t)b * ingot_type_size(*type), values);
            for (int64_t i = 0; i < g.per_block; i++)
                if ((float)values[i] != g.values[b * g.per_block + i])
                    check_fail("%s: block %lld, element %lld: %.9g, expected %.9g", ingot_type_name(*type),
                               (long long)b, (long long)i, values[i], g.values[b * g.per_block + i]);
        }
        check_release();
    }
}

int main(void) {
    enum { MAX = 32 };
    struct CMUnitTest tests[MAX] = {CHECK_TEST(reference_decoder)};
    static char names[MAX][32];
    size_t count = 1;
    for (const ingot_type *type = check_block_types; (int)*type >= 0 && count < MAX; type++, count++) {
        snprintf(names[count], sizeof names[count], "decode_%s", ingot_type_name(*type));
        tests[count] = (struct CMUnitTest){names[count], decode, NULL, check_teardown, (void *)type};
    }
    return check_main("dequant", tests, count);
}
