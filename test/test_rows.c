// SPDX-License-Identifier: MIT
/* test_rows.c - GET_ROWS, SET_ROWS and CPY through ingot_compute against float64: types, shapes, strides, ids of no row,
 * row counts above 65535, and the cases of field reports that name an input (R numbers). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "cases.h"

static ingot_type all_types[CHECK_TYPES]; /* three plain ones, then the block formats of the build */
static size_t type_count;

/* =================================================== Get rows ===================================================== */

static void ids_random(struct tensor *ids, int64_t rows) {
    for (int64_t i2 = 0; i2 < ids->t.ne[2]; i2++)
        for (int64_t i1 = 0; i1 < ids->t.ne[1]; i1++)
            for (int64_t i0 = 0; i0 < ids->t.ne[0]; i0++)
                tensor_set(ids, i0, i1, i2, 0, (double)check_range(0, rows - 1));
}

static void get_rows_types(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int64_t k = 256; k <= 512; k += 256)
            for (size_t l = PACKED; l <= SWAPPED; l++) {
                struct tensor *table = random_new(all_types[t], k, 9, 2, 3, l);
                struct tensor *ids = new (INGOT_TYPE_I32, 5, 2, 3, 1, l);
                ids_random(ids, 9);
                tensor_set(ids, 0, 0, 0, 0, 8);
                tensor_set(ids, 1, 0, 0, 0, 0);
                struct op_case c = op2(INGOT_OP_GET_ROWS, new (INGOT_TYPE_F32, k, 5, 2, 3, l), table, ids);
                case_check(&c, EXACT);
                check_release();
            }
}

static void get_rows_odd(void **state) {
    (void)state;
    /* Single blocks and rows of odd length; transposed tables of plain types. */
    for (size_t t = 0; t < type_count; t++) {
        const ingot_type type = all_types[t];
        const int64_t block = ingot_type_block(type);
        for (int64_t k = block; k <= 3 * block; k += block) {
            struct tensor *ids = new (INGOT_TYPE_I32, 3, 1, 1, 1, TRANSPOSED);
            tensor_set(ids, 0, 0, 0, 0, 2), tensor_set(ids, 1, 0, 0, 0, 0), tensor_set(ids, 2, 0, 0, 0, 2);
            struct op_case c = op2(INGOT_OP_GET_ROWS, new (INGOT_TYPE_F32, k, 3, 1, 1, SHIFTED),
                                   random_new(type, k, 3, 1, 1, block == 1 ? TRANSPOSED : GAPPED), ids);
            case_check(&c, EXACT);
        }
        check_release();
    }
}

static void get_rows_bad_ids(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++) {
        struct tensor *ids = new (INGOT_TYPE_I32, 6, 1, 1, 1, PACKED);
        const double bad[6] = {-1, 3, 4, 2147483647.0, -2147483648.0, 0};
        for (int i = 0; i < 6; i++) tensor_set(ids, i, 0, 0, 0, bad[i]);
        struct op_case c = op2(INGOT_OP_GET_ROWS, new (INGOT_TYPE_F32, 256, 6, 1, 1, PACKED),
                               random_new(all_types[t], 256, 4, 1, 1, PACKED), ids);
        case_check(&c, EXACT); /* the reference has NaN in rows 0, 2, 3, 4 */
        /* That is not the poison: the same with a result full of zeros. */
        tensor_fill(c.dst, 0.0);
        case_check(&c, EXACT);
        check_release();
    }
}

static double mod10(int64_t e) {
    return (double)(e % 10);
}

static void get_rows_many_R14(void **state) {
    (void)state;
    struct tensor *ids = new (INGOT_TYPE_I32, 70000, 1, 1, 1, PACKED);
    tensor_fill_by(ids, mod10);
    struct op_case c = op2(INGOT_OP_GET_ROWS, new (INGOT_TYPE_F32, 16, 70000, 1, 1, PACKED),
                           random_new(INGOT_TYPE_F32, 16, 10, 1, 1, PACKED), ids);
    case_check(&c, EXACT);
    check_release();
    ids = new (INGOT_TYPE_I32, 3, 300, 300, 1, PACKED);
    ids_random(ids, 2);
    c = op2(INGOT_OP_GET_ROWS, new (INGOT_TYPE_F32, 2, 3, 300, 300, PACKED),
            random_new(INGOT_TYPE_F16, 2, 2, 300, 300, PACKED), ids);
    case_check(&c, EXACT);
}

/* =================================================== Set rows ===================================================== */

/* ids become distinct: the first entries of a random permutation of 0..rows-1, for each matrix. */
static void ids_distinct(struct tensor *ids, int64_t rows) {
    int64_t *order = check_alloc((size_t)rows * sizeof *order);
    for (int64_t i2 = 0; i2 < ids->t.ne[2]; i2++)
        for (int64_t i1 = 0; i1 < ids->t.ne[1]; i1++) {
            for (int64_t i = 0; i < rows; i++) order[i] = i;
            for (int64_t i = 0; i < ids->t.ne[0]; i++) {
                int64_t j = check_range(i, rows - 1), chosen = order[j];
                order[j] = order[i];
                order[i] = chosen;
                tensor_set(ids, i, i1, i2, 0, (double)chosen);
            }
        }
}

static void set_rows_types(void **state) {
    (void)state;
    const ingot_type id_types[] = {INGOT_TYPE_I32, INGOT_TYPE_I64};
    for (size_t t = 0; t < COUNT(floats); t++)
        for (size_t it = 0; it < COUNT(id_types); it++)
            for (size_t l = 0; l < COUNT(layouts); l++)
                for (int64_t k = 1; k <= 65; k = k * 4 + (k == 16)) {
                    struct tensor *dst = random_new(floats[t], k, 11, 4, 3, l);
                    struct tensor *ids = new (id_types[it], 5, 2, l == PACKED ? 3 : 1, 1, l);
                    ids_distinct(ids, 11);
                    struct op_case c = op2(INGOT_OP_SET_ROWS, dst, random_new(INGOT_TYPE_F32, k, 5, 4, 3, l), ids);
                    case_check(&c, EXACT);
                    check_release();
                }
}

static void set_rows_bad_ids(void **state) {
    (void)state;
    const ingot_type id_types[] = {INGOT_TYPE_I32, INGOT_TYPE_I64};
    for (size_t it = 0; it < COUNT(id_types); it++) {
        struct tensor *ids = new (id_types[it], 5, 1, 1, 1, PACKED);
        const double bad[5] = {-1, 3, 4, it ? 4294967296.0 : 2147483647.0, it ? -4294967295.0 : -2147483648.0};
        for (int i = 0; i < 5; i++) tensor_set(ids, i, 0, 0, 0, bad[i]);
        struct op_case c = op2(INGOT_OP_SET_ROWS, random_new(INGOT_TYPE_F16, 32, 4, 1, 1, PACKED),
                               random_new(INGOT_TYPE_F32, 32, 5, 1, 1, PACKED), ids);
        case_check(&c, EXACT); /* only row 3 changes */
    }
}

static void set_rows_narrow_R67(void **state) {
    (void)state;
    const int times = check_device().simt ? 3 : 100;
    for (int64_t k = 1; k <= 3; k++) {
        struct tensor *ids = new (INGOT_TYPE_I64, 512, 512, 1, 1, PACKED);
        ids_distinct(ids, 600);
        struct op_case c = op2(INGOT_OP_SET_ROWS, random_new(INGOT_TYPE_F16, k, 600, 512, 1, PACKED),
                               random_new(INGOT_TYPE_F32, k, 512, 512, 1, PACKED), ids);
        double *ref = case_reference(&c);
        unsigned char *old = check_alloc(c.dst->bytes);
        memcpy(old, c.dst->host, c.dst->bytes);
        tensor_upload(c.src[0]), tensor_upload(c.src[1]);
        ingot_node node = case_node(&c);
        for (int i = 0; i < times; i++) {
            memcpy(c.dst->host, old, c.dst->bytes);
            tensor_upload(c.dst);
            CHECK_OK(ingot_compute(check_context(), &node));
            tensor_download(c.dst);
            double *got = tensor_values(c.dst);
            for (int64_t e = 0; e < ingot_tensor_elements(&c.dst->t); e++)
                if (got[e] != check_round(INGOT_TYPE_F16, ref[e]))
                    check_fail("width %d, run %d: element %lld is %g, expected %g", (int)k, i, (long long)e, got[e],
                               ref[e]);
        }
        check_release();
    }
}

/* ===================================================== Copy ======================================================= */

static void cpy_plain(void **state) {
    (void)state;
    for (size_t from = 0; from < COUNT(floats); from++)
        for (size_t to = 0; to < COUNT(floats); to++)
            for (size_t ls = 0; ls < COUNT(layouts); ls++)
                for (size_t ld = 0; ld < COUNT(layouts); ld++) {
                    struct tensor *src = new (floats[from], 37, 5, 3, 2, ls);
                    tensor_fill_wild(src); /* overflow to infinity, denormals, ties */
                    tensor_set(src, 0, 0, 0, 0, 65519.99);
                    tensor_set(src, 1, 0, 0, 0, 65520.0);
                    tensor_set(src, 2, 0, 0, 0, 1.0 + 0x1p-11);
                    tensor_set(src, 3, 0, 0, 0, 1.0 + 3 * 0x1p-11);
                    tensor_set(src, 4, 0, 0, 0, 0x1p-25);
                    tensor_set(src, 5, 0, 0, 0, 3 * 0x1p-25);
                    tensor_set(src, 6, 0, 0, 0, INFINITY);
                    tensor_set(src, 7, 0, 0, 0, NAN);
                    tensor_set(src, 8, 0, 0, 0, 1.0 + 0x1p-8);
                    tensor_set(src, 9, 0, 0, 0, 3.4e38);
                    struct op_case c = op2(INGOT_OP_CPY, new (floats[to], 37, 5, 3, 2, ld), src, NULL);
                    case_check(&c, EXACT);
                    tensor_fill(c.dst, 0.0); /* so that the poison is not taken for the NaN */
                    case_check(&c, EXACT);
                    check_release();
                }
}

static void cpy_reshaped(void **state) {
    (void)state;
    const int64_t shapes[][4] = {{24, 5, 3, 2}, {720, 1, 1, 1}, {1, 720, 1, 1},
                                 {5, 3, 2, 24}, {2, 3, 4, 30},  {48, 15, 1, 1}};
    for (size_t from = 0; from < COUNT(shapes); from++)
        for (size_t to = 0; to < COUNT(shapes); to++)
            for (size_t l = 0; l < COUNT(layouts); l++) {
                const int64_t *a = shapes[from], *b = shapes[to];
                struct op_case c =
                    op2(INGOT_OP_CPY, new (floats[to % 3], b[0], b[1], b[2], b[3], l),
                        random_new(floats[from % 3], a[0], a[1], a[2], a[3], (l + from) % COUNT(layouts)), NULL);
                case_check(&c, EXACT);
                check_release();
            }
}

static void cpy_blocks(void **state) {
    (void)state;
    for (size_t t = 3; t < type_count; t++)
        for (size_t to = 0; to < COUNT(floats); to++)
            for (size_t l = 0; l < COUNT(layouts); l++) {
                struct tensor *src =
                    new (all_types[t], 3 * ingot_type_block(all_types[t]), 5, 3, 2, l == TRANSPOSED ? GAPPED : l);
                tensor_fill_wild(src);
                struct op_case c = op2(INGOT_OP_CPY, new (floats[to], src->t.ne[0], 5, 3, 2, l), src, NULL);
                case_check(&c, EXACT);
                check_release();
            }
}

static void cpy_many_rows_R13(void **state) {
    (void)state;
    struct tensor *src = tensor_new(INGOT_TYPE_Q8_0, 64, 70000, 2, 1, &(struct layout){{0, 5, 0, 0}, {0, 1, 2, 3}, 0});
    for (int64_t i2 = 0; i2 < 2; i2++)
        for (int64_t i1 = 0; i1 < 70000; i1++)
            for (int64_t b = 0; b < 2; b++) {
                unsigned char *block = tensor_at(src, b, i1, i2, 0);
                check_ones_block(INGOT_TYPE_Q8_0, block);
                memset(block + 2, (int)(i1 % 100), 32);
            }
    struct op_case c = op2(INGOT_OP_CPY, tensor_new(INGOT_TYPE_F16, 64, 70000, 2, 1, NULL), src, NULL);
    case_check(&c, EXACT);
    check_release();
    /* The same for plain types with strides, and for rows of one element. */
    c = op2(INGOT_OP_CPY, new (INGOT_TYPE_F16, 2, 70000, 2, 1, GAPPED),
            random_new(INGOT_TYPE_F32, 2, 70000, 2, 1, SWAPPED), NULL);
    case_check(&c, EXACT);
    c = op2(INGOT_OP_CPY, new (INGOT_TYPE_F32, 1, 3, 2, 70000, PACKED),
            random_new(INGOT_TYPE_BF16, 1, 3, 2, 70000, GAPPED), NULL);
    case_check(&c, EXACT);
}

static void cpy_overflow_R56(void **state) {
    (void)state;
    for (size_t to = 0; to < COUNT(floats); to++) {
        struct tensor *src = tensor_new(INGOT_TYPE_Q8_0, 32, 1, 1, 1, NULL);
        unsigned char *b = tensor_at(src, 0, 0, 0, 0);
        b[0] = 0x00, b[1] = 0x64; /* 1024 in f16 */
        memset(b + 2, 127, 32);
        struct op_case c = op2(INGOT_OP_CPY, tensor_new(floats[to], 32, 1, 1, 1, NULL), src, NULL);
        case_check(&c, EXACT);
        double got = tensor_get(c.dst, 31, 0, 0, 0);
        assert_true(floats[to] == INGOT_TYPE_F16 ? isinf(got) && got > 0 : got == 130048.0);
    }
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(get_rows_types),      CHECK_TEST(get_rows_odd),      CHECK_TEST(get_rows_bad_ids),
        CHECK_TEST(get_rows_many_R14),   CHECK_TEST(set_rows_types),    CHECK_TEST(set_rows_bad_ids),
        CHECK_TEST(set_rows_narrow_R67), CHECK_TEST(cpy_plain),         CHECK_TEST(cpy_reshaped),
        CHECK_TEST(cpy_blocks),          CHECK_TEST(cpy_many_rows_R13), CHECK_TEST(cpy_overflow_R56),
    };
    return check_main("rows", tests, COUNT(tests));
}
