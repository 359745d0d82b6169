// SPDX-License-Identifier: MIT
/* test_quantize_rows.c - CPY and SET_ROWS into block formats, byte for byte what the package `gguf` makes of the same
 * numbers (make_rounded.py's golden vectors), from every float type, with any strides, views and ids; and the sources of
 * SET_ROWS that become f32 on the way. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"
#include "rounded.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
static ingot_type formats[ROUNDED_TYPES];
static int format_count;

/* Packed, gaps everywhere, rows and matrices swapped, elements of a row apart, one element or block behind an aligned
 * address.  Blocks of a row lie side by side, so a block format takes gaps for the fourth. */
static const struct layout layouts[] = {
    {{0}, {0}, 0},
    {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
    {{1, 0, 2, 0}, {0, 2, 1, 3}, 0},
    {{1, 2, 0, 0}, {1, 0, 2, 3}, 0},
    {{1, 0, 0, 0}, {0, 1, 2, 3}, 1},
};
enum { PACKED, GAPPED, SWAPPED, TRANSPOSED, SHIFTED, LAYOUTS };

static struct tensor *new (ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t which) {
    struct layout l = layouts[which == TRANSPOSED && check_is_block(type) ? GAPPED : which];
    l.offset *= ingot_type_size(type);
    return tensor_new(type, ne0, ne1, ne2, ne3, &l);
}

static struct tensor *new_ids(ingot_type type, int64_t n, int64_t b, int64_t c, int64_t rows, size_t which) {
    struct tensor *ids = new (type, n, b, c, 1, which);
    for (int64_t i2 = 0; i2 < c; i2++)
        for (int64_t i1 = 0; i1 < b; i1++) {
            const int64_t first = check_range(0, rows - 1), step = rows % 2 ? 2 : 1; /* distinct for odd rows */
            for (int64_t i = 0; i < n; i++) tensor_set(ids, i, i1, i2, 0, (double)((first + i * step) % rows));
        }
    return ids;
}

/* Runs src into dst (by ids) and compares the whole buffer; sources stay as they are. */
static void check_rounding(struct tensor *src, struct tensor *ids, struct tensor *dst, bool in_order) {
    struct op_case c = {.op = ids ? INGOT_OP_SET_ROWS : INGOT_OP_CPY, .dst = dst, .src = {src, ids}};
    unsigned char *image = rounded_rows(src, ids, dst, in_order);
    const char *text = case_text(&c);
    ingot_node node = case_node(&c);
    tensor_upload(src), tensor_upload(dst);
    if (ids) tensor_upload(ids);
    if (ingot_supports(check_context(), &node) != INGOT_OK) check_fail("%s: %s", text, ingot_error(check_context()));
    if (ingot_compute(check_context(), &node) != INGOT_OK) check_fail("%s: %s", text, ingot_error(check_context()));
    rounded_check(dst, image, text);
    check_unchanged(src, text);
    if (ids) check_unchanged(ids, text);
}

/* Every golden block, also as rows of one block and as a row of all. */
static void every_block(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t count = rounded_count(type);
    for (size_t s = 0; s < COUNT(floats); s++) {
        const int64_t shapes[][2] = {{count, 1}, {1, count}, {7, (count + 6) / 7}};
        for (size_t i = 0; i < COUNT(shapes); i++) {
            const int64_t k = 32 * shapes[i][0], n = shapes[i][1];
            check_rounding(new (floats[s], k, n, 1, 1, PACKED), NULL, new (type, k, n, 1, 1, i), true);
            check_release();
        }
    }
}

static void copies(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t blocks[] = {1, 2, 3, 5, 18};
    for (size_t s = 0; s < COUNT(floats); s++)
        for (size_t ls = 0; ls < LAYOUTS; ls++)
            for (size_t ld = 0; ld < LAYOUTS; ld++) {
                const int64_t k = 32 * blocks[(ls + ld + s) % COUNT(blocks)];
                check_rounding(new (floats[s], k, 5, 3, 2, ls), NULL, new (type, k, 5, 3, 2, ld), false);
                check_release();
            }
}

static void reshaped_copies(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t from[][4] = {{960, 2, 1, 1}, {5, 3, 64, 2}, {1, 1920, 1, 1}, {10, 4, 6, 8}},
                  to[][4] = {{32, 60, 1, 1}, {96, 5, 2, 2}, {1920, 1, 1, 1}};
    for (size_t s = 0; s < COUNT(floats); s++)
        for (size_t i = 0; i < COUNT(from); i++)
            for (size_t j = 0; j < COUNT(to); j++)
                for (size_t l = 0; l < LAYOUTS; l++) {
                    const int64_t *a = from[i], *b = to[j];
                    check_rounding(new (floats[s], a[0], a[1], a[2], a[3], l), NULL,
                                   new (type, b[0], b[1], b[2], b[3], (l + i) % LAYOUTS), false);
                    check_release();
                }
}

static void rows_by_id(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const ingot_type id_types[] = {INGOT_TYPE_I32, INGOT_TYPE_I64};
    const int64_t blocks[] = {1, 3, 2, 5, 18};
    for (size_t s = 0; s < COUNT(floats); s++)
        for (size_t t = 0; t < 2; t++)
            for (size_t ls = 0; ls < LAYOUTS; ls++)
                for (size_t ld = 0; ld < LAYOUTS; ld++) {
                    const int64_t k = 32 * blocks[(ls + ld) % COUNT(blocks)];
                    check_rounding(new (floats[s], k, 5, 4, 3, ls),
                                   new_ids(id_types[t], 5, 2, ls == PACKED ? 3 : 1, 11, ld),
                                   new (type, k, 11, 4, 3, ld), false);
                    check_release();
                }
}

static void bad_ids(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    for (int wide = 0; wide < 2; wide++) {
        struct tensor *ids = tensor_new(wide ? INGOT_TYPE_I64 : INGOT_TYPE_I32, 6, 1, 1, 1, NULL);
        const double bad[6] = {-1, 3, 4, wide ? 4294967296.0 : 2147483647.0, wide ? -0x1p63 : -2147483648.0, 0};
        for (int i = 0; i < 6; i++) tensor_set(ids, i, 0, 0, 0, bad[i]);
        check_rounding(tensor_new(INGOT_TYPE_F32, 96, 6, 1, 1, NULL), ids, tensor_new(type, 96, 4, 1, 1, NULL), false);
    }
}

static void many_rows(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    if (!check_device().simt || type == INGOT_TYPE_Q8_0) { /* one format will do where it takes seconds */
        check_rounding(tensor_new(INGOT_TYPE_F32, 32, 65537, 1, 1, NULL), NULL, new (type, 32, 65537, 1, 1, GAPPED),
                       false);
        check_release();
    }
    check_rounding(new (INGOT_TYPE_F16, 32, 3, 1, 2049, GAPPED), new_ids(INGOT_TYPE_I32, 3, 1, 1, 5, PACKED),
                   tensor_new(type, 32, 5, 1, 2049, NULL), false);
}

static void nothing(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    check_rounding(tensor_new(INGOT_TYPE_F32, 0, 5, 1, 1, NULL), NULL, tensor_new(type, 0, 5, 1, 1, NULL), false);
    check_rounding(tensor_new(INGOT_TYPE_F16, 64, 0, 2, 1, NULL), NULL, tensor_new(type, 64, 0, 2, 1, NULL), false);
    check_rounding(tensor_new(INGOT_TYPE_F32, 64, 0, 1, 1, NULL), tensor_new(INGOT_TYPE_I32, 0, 1, 1, 1, NULL),
                   tensor_new(type, 64, 3, 1, 1, NULL), false);
}

/* In a graph: a cast, and rows set in a part of a cache that starts at a block in the middle of its rows. */
static void in_a_graph(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const size_t size = ingot_type_size(type);
    struct tensor *x = new (INGOT_TYPE_F32, 96, 3, 2, 1, SWAPPED), *ids = new_ids(INGOT_TYPE_I64, 3, 1, 1, 5, PACKED);
    struct tensor *cache = tensor_new(type, 5 * 32, 5, 2, 1, NULL), *cast = tensor_new(type, 96, 3, 2, 1, NULL);
    struct tensor part = *cache; /* blocks 1 .. 3 of each row */
    part.first += size;
    part.t.ne[0] = 96;
    part.t.data = (char *)cache->t.data + size;
    unsigned char *image = rounded_rows(x, ids, &part, true), *cast_image = rounded_rows(x, NULL, cast, true);
    tensor_upload(x), tensor_upload(ids), tensor_upload(cache), tensor_upload(cast);
    ingot_graph *g = NULL;
    CHECK_OK(ingot_graph_create(check_context(), &g));
    ingot_tensor *leaf = ingot_leaf(g, &cache->t), *rows = ingot_leaf(g, &x->t);
    ingot_tensor *view = ingot_view(g, leaf, 3, part.t.ne, part.t.nb, size);
    ingot_set_rows(g, view, rows, ingot_leaf(g, &ids->t));
    ingot_cpy(g, ingot_cast(g, rows, type), ingot_leaf(g, &cast->t));
    CHECK_OK(ingot_graph_plan(g, NULL, NULL));
    for (int run = 0; run < 3; run++) { /* at once, recorded, replayed */
        tensor_poison(cache), tensor_poison(cast);
        tensor_upload(cache), tensor_upload(cast);
        CHECK_OK(ingot_graph_run(g));
        rounded_check(&part, image, "set_rows in a view");
        rounded_check(cast, cast_image, "cast");
    }
    ingot_graph_destroy(g);
}

/* ---- SET_ROWS into plain types from whatever is not f32 */

static void set_rows_sources(void **state) {
    (void)state;
    ingot_type types[CHECK_TYPES];
    const size_t count = check_types(types);
    for (size_t t = 0; t < count; t++)
        for (size_t d = 0; d < COUNT(floats); d++)
            for (size_t l = 0; l < LAYOUTS; l++) {
                const int64_t block = ingot_type_block(types[t]),
                              k = block > 1 ? (1 + (int64_t)l % 3) * block : 33 + (int64_t)l;
                struct tensor *src = new (types[t], k, 5, 4, 3, l);
                struct op_case c = {.op = INGOT_OP_SET_ROWS,
                                    .dst = new (floats[d], k, 11, 4, 3, (l + d) % LAYOUTS),
                                    .src = {src, new_ids(INGOT_TYPE_I32, 5, 2, 1, 11, l)}};
                tensor_fill_wild(src);
                tensor_fill_random(c.dst, -2.0, 2.0);
                case_check(&c, 0.0);
                check_release();
            }
}

/* ---- what is not done, and what the text says */

static void refused(ingot_op op, ingot_type from, ingot_type to, ingot_status expected, const char *text) {
    ingot_tensor src, dst, ids;
    CHECK_OK(ingot_tensor_init(&src, from, 2, (int64_t[]){256, 3}, NULL));
    CHECK_OK(ingot_tensor_init(&dst, to, 2, (int64_t[]){256, 3}, NULL));
    CHECK_OK(ingot_tensor_init(&ids, INGOT_TYPE_I32, 1, (int64_t[]){3}, NULL));
    ingot_node node = {.op = op, .dst = dst, .src = {&src, op == INGOT_OP_SET_ROWS ? &ids : NULL}};
    CHECK_STATUS(ingot_supports(check_context(), &node), expected);
    if (!strstr(ingot_error(check_context()), text))
        check_fail("the text is \"%s\", expected \"%s\" in it", ingot_error(check_context()), text);
}

static void refusals(void **state) {
    (void)state;
    const ingot_op both[] = {INGOT_OP_CPY, INGOT_OP_SET_ROWS};
    const char *const expected = "no kernel rounds to dst q8_K [256,3,1,1], expected one of f32 f16 bf16";
    for (int i = 0; i < 2; i++) {
        refused(both[i], INGOT_TYPE_F32, INGOT_TYPE_Q8_K, INGOT_ERR_UNSUPPORTED, expected);
        refused(both[i], INGOT_TYPE_BF16, INGOT_TYPE_Q8_K, INGOT_ERR_UNSUPPORTED, expected);
        for (int t = 0; t < format_count; t++)
            refused(both[i], INGOT_TYPE_F16, INGOT_TYPE_IQ2_XXS, INGOT_ERR_UNSUPPORTED, ingot_type_name(formats[t]));
        refused(both[i], INGOT_TYPE_Q8_0, INGOT_TYPE_Q4_0, INGOT_ERR_INVALID, "f32, f16 or bf16 for src[0] q8_0");
    }
    refused(INGOT_OP_SET_ROWS, INGOT_TYPE_Q8_0, INGOT_TYPE_Q8_0, INGOT_ERR_INVALID, "f32, f16 or bf16 for src[0] q8_0");
    refused(INGOT_OP_SET_ROWS, INGOT_TYPE_I32, INGOT_TYPE_F32, INGOT_ERR_INVALID,
            "expected f32 or f16 or bf16 or a block format");
    refused(INGOT_OP_CPY, INGOT_TYPE_I32, INGOT_TYPE_F32, INGOT_ERR_INVALID,
            "has type f32, expected i32 for src[0] i32");
    refused(INGOT_OP_CPY, INGOT_TYPE_F32, INGOT_TYPE_F64, INGOT_ERR_INVALID,
            "expected f32, f16, bf16 or a block format");
    refused(INGOT_OP_CPY, INGOT_TYPE_I64, INGOT_TYPE_Q8_0, INGOT_ERR_INVALID, "expected i64");
}

int main(void) {
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } each[] = {{"every_block", every_block}, {"copies", copies},        {"reshaped_copies", reshaped_copies},
                {"rows_by_id", rows_by_id},   {"bad_ids", bad_ids},      {"many_rows", many_rows},
                {"nothing", nothing},         {"in_a_graph", in_a_graph}};
    static char names[ROUNDED_TYPES * COUNT(each)][48];
    struct CMUnitTest tests[ROUNDED_TYPES * COUNT(each) + 2];
    size_t count = 0;
    format_count = rounded_types(formats);
    for (int t = 0; t < format_count; t++)
        for (size_t i = 0; i < COUNT(each); i++, count++) {
            snprintf(names[count], sizeof names[count], "%s_%s", each[i].name, ingot_type_name(formats[t]));
            tests[count] = (struct CMUnitTest){names[count], each[i].run, NULL, check_teardown, &formats[t]};
        }
    tests[count++] = (struct CMUnitTest)CHECK_TEST(set_rows_sources);
    tests[count++] = (struct CMUnitTest)CHECK_TEST(refusals);
    return check_main("quantize_rows", tests, count);
}
