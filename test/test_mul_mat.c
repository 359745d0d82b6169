// SPDX-License-Identifier: MIT
/* test_mul_mat.c - MUL_MAT through ingot_compute against float64: types, shapes, strides, batches, odd alignment, and
 * the cases of field reports that name an input (R numbers). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "cases.h"

static ingot_type all_types[CHECK_TYPES]; /* three plain ones, then the block formats of the build */
static size_t type_count;

/* =================================================== Mul mat ====================================================== */

static struct op_case mul_mat_case(struct tensor *a, struct tensor *b, ingot_prec prec, size_t layout) {
    struct op_case c =
        op2(INGOT_OP_MUL_MAT, new (INGOT_TYPE_F32, a->t.ne[1], b->t.ne[1], b->t.ne[2], b->t.ne[3], layout), a, b);
    c.node.params.mul_mat.prec = prec;
    return c;
}

/* B of numbers that A's type, if it is a narrow float, holds: rounding B then changes nothing. */
static struct tensor *b_for(ingot_type a, ingot_type type, int64_t k, int64_t n, int64_t b, int64_t c, size_t layout) {
    struct tensor *t = random_new(type, k, n, b, c, layout);
    if (a != INGOT_TYPE_F16 && a != INGOT_TYPE_BF16) return t;
    for (int64_t i3 = 0; i3 < c; i3++)
        for (int64_t i2 = 0; i2 < b; i2++)
            for (int64_t i1 = 0; i1 < n; i1++)
                for (int64_t i0 = 0; i0 < k; i0++)
                    tensor_set(t, i0, i1, i2, i3, check_round(a, tensor_get(t, i0, i1, i2, i3)));
    return t;
}

static double mul_mat_bound(ingot_type a, ingot_prec prec) {
    return check_is_block(a) && prec == INGOT_PREC_DEFAULT ? Q8_ACTIVATIONS : F32_SUMS;
}

/* A multiple of the type's block near k. */
static int64_t whole_blocks(ingot_type type, int64_t k) {
    const int64_t block = ingot_type_block(type);
    return (k + block - 1) / block * block;
}

static const int64_t columns[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 33};

static void mul_mat_types(void **state) {
    (void)state;
    const ingot_prec precs[] = {INGOT_PREC_DEFAULT, INGOT_PREC_F32};
    for (size_t t = 0; t < type_count; t++) {
        for (size_t i = 0; i < COUNT(columns); i++)
            for (size_t p = 0; p < 2; p++) {
                const int64_t k = whole_blocks(all_types[t], 576);
                struct tensor *a = random_new(all_types[t], k, 33, 1, 1, PACKED);
                struct op_case c =
                    mul_mat_case(a, b_for(all_types[t], INGOT_TYPE_F32, k, columns[i], 1, 1, PACKED), precs[p], PACKED);
                case_check(&c, mul_mat_bound(all_types[t], precs[p]));
                check_release();
            }
    }
}

static void mul_mat_k(void **state) {
    (void)state;
    /* One block, odd numbers of blocks, odd k of plain types. */
    const int64_t k[] = {1, 3, 31, 32, 33, 64, 96, 160, 255, 256, 384, 512, 768, 1600};
    for (size_t t = 0; t < type_count; t++) {
        for (size_t i = 0; i < COUNT(k); i++)
            for (int64_t n = 1; n <= 11; n += 5) {
                if (k[i] % ingot_type_block(all_types[t])) continue;
                struct tensor *a = random_new(all_types[t], k[i], 7, 1, 1, PACKED);
                struct op_case c = mul_mat_case(a, b_for(all_types[t], INGOT_TYPE_F32, k[i], n, 1, 1, PACKED),
                                                INGOT_PREC_DEFAULT, PACKED);
                case_check(&c, mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT));
                check_release();
            }
    }
}

static void mul_mat_rows_R34(void **state) {
    (void)state;
    const int64_t m[] = {1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 129};
    for (size_t t = 0; t < type_count; t++) {
        for (size_t i = 0; i < COUNT(m); i++)
            for (int64_t n = 1; n <= 16; n *= 4) {
                struct tensor *a = tensor_new(all_types[t], 1024, m[i], 1, 1, NULL),
                              *b = tensor_new(INGOT_TYPE_F32, 1024, n, 1, 1, NULL);
                tensor_fill_ones(a);
                tensor_fill(b, 127.0); /* rounds exactly to 8 bits, and fits every float type */
                struct op_case c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, PACKED);
                tensor_fill(c.dst, 7.0);
                case_check(&c, 1e-6);
                assert_true(fabs(tensor_get(c.dst, m[i] - 1, n - 1, 0, 0) - 130048.0) <= 130.0);
                check_release();
            }
    }
}

static void mul_mat_batches_R47(void **state) {
    (void)state;
    /* A's dimensions 2, 3 and B's: ratios 1, 2, 3 and 1, 2; strides everywhere. */
    const int64_t batches[][4] = {{1, 1, 2, 4}, {2, 1, 2, 2}, {2, 2, 4, 4}, {1, 2, 3, 2}, {3, 1, 3, 1}, {2, 2, 6, 2}};
    for (size_t t = 0; t < type_count; t++) {
        for (size_t s = 0; s < COUNT(batches); s++)
            for (int64_t n = 1; n <= 11; n += 5)
                for (int gapped = 0; gapped < 2; gapped++) {
                    const int64_t *q = batches[s], k = whole_blocks(all_types[t], 64);
                    struct tensor *a = random_new(all_types[t], k, 9, q[0], q[1], gapped ? GAPPED : PACKED);
                    struct tensor *b = b_for(all_types[t], INGOT_TYPE_F32, k, n, q[2], q[3], gapped ? SWAPPED : PACKED);
                    struct op_case c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, gapped ? GAPPED : PACKED);
                    case_check(&c, mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT));
                    check_release();
                }
    }
    struct op_case c =
        mul_mat_case(random_new(INGOT_TYPE_F16, 64, 48, 1, 1, PACKED),
                     b_for(INGOT_TYPE_F16, INGOT_TYPE_F32, 64, 2, 4, 1, PACKED), INGOT_PREC_DEFAULT, PACKED);
    case_check(&c, F32_SUMS);
}

static void mul_mat_sliced_weights_R40(void **state) {
    (void)state;
    /* Rows cut out of a parent twice as wide, and of odd numbers of blocks. */
    for (size_t t = 0; t < type_count; t++) {
        const int64_t block = ingot_type_block(all_types[t]), k = whole_blocks(all_types[t], 320);
        for (int64_t gap = 1; gap <= k / block; gap += k / block - 1)
            for (size_t i = 0; i < 3; i++) {
                const int64_t n = (const int64_t[]){1, 5, 64}[i];
                struct tensor *a =
                    tensor_new(all_types[t], k, 19, 2, 1, &(struct layout){{gap, 1, 0, 0}, {0, 1, 2, 3}, 0});
                tensor_fill_random(a, -2.0, 2.0);
                struct op_case c = mul_mat_case(a, b_for(all_types[t], INGOT_TYPE_F32, k, n, 2, 1, PACKED),
                                                INGOT_PREC_DEFAULT, PACKED);
                case_check(&c, mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT));
                check_release();
                if (block == k) break;
            }
    }
}

static void mul_mat_odd_strides_R45(void **state) {
    (void)state;
    const int64_t n[] = {1, 4, 16};
    for (size_t t = 0; t < COUNT(floats); t++)
        for (int64_t gap = 1; gap <= 3; gap += 2)
            for (size_t i = 0; i < COUNT(n); i++)
                for (int odd_k = 0; odd_k < 2; odd_k++) {
                    const int64_t k = odd_k ? 63 : 64;
                    struct tensor *a =
                        tensor_new(floats[t], k, 8, 1, 1,
                                   &(struct layout){{gap, 0, 0, 0}, {0, 1, 2, 3}, ingot_type_size(floats[t])});
                    tensor_fill_random(a, -2.0, 2.0);
                    struct op_case c = mul_mat_case(a, b_for(floats[t], INGOT_TYPE_F32, k, n[i], 1, 1, SHIFTED),
                                                    INGOT_PREC_DEFAULT, SHIFTED);
                    case_check(&c, F32_SUMS);
                    check_release();
                }
}

static void mul_mat_odd_addresses(void **state) {
    (void)state;
    /* Block formats promise an alignment of 2 bytes (of 1 for none of those here). */
    for (size_t t = 3; t < type_count; t++)
        for (size_t offset = 2; offset <= 14; offset += 4)
            for (int64_t n = 1; n <= 9; n += 4) {
                const int64_t k = 3 * ingot_type_block(all_types[t]);
                struct tensor *a = tensor_new(all_types[t], k, 5, 1, 1, &(struct layout){{0}, {0}, offset});
                tensor_fill_random(a, 0, 0);
                struct op_case c =
                    mul_mat_case(a, random_new(INGOT_TYPE_F32, k, n, 1, 1, SHIFTED), INGOT_PREC_DEFAULT, SHIFTED);
                case_check(&c, Q8_ACTIVATIONS);
                check_release();
            }
}

static void mul_mat_padded_b_R48(void **state) {
    (void)state;
    /* B in rows of k + 8, of each float type, against a dense copy: the same bits. */
    for (size_t t = 0; t < type_count; t++)
        for (size_t bt = 0; bt < COUNT(floats); bt++)
            for (int64_t n = 1; n <= 16; n += 5) {
                const int64_t k = whole_blocks(all_types[t], 128);
                struct tensor *a = random_new(all_types[t], k, 21, 1, 1, PACKED);
                struct tensor *padded =
                    tensor_new(floats[bt], k, n, 1, 1, &(struct layout){{8, 0, 0, 0}, {0, 1, 2, 3}, 0});
                struct tensor *dense = b_for(all_types[t], floats[bt], k, n, 1, 1, PACKED);
                for (int64_t j = 0; j < n; j++)
                    for (int64_t i = 0; i < k; i++) tensor_set(padded, i, j, 0, 0, tensor_get(dense, i, j, 0, 0));
                /* bf16 values may not fit f16 as A's type, nor the reverse: a looser bound where B is rounded. */
                double bound =
                    floats[bt] != INGOT_TYPE_F32 && !check_is_block(all_types[t]) && all_types[t] != floats[bt]
                        ? 1e-5
                        : mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT);
                struct op_case c = mul_mat_case(a, dense, INGOT_PREC_DEFAULT, PACKED),
                               d = mul_mat_case(a, padded, INGOT_PREC_DEFAULT, PACKED);
                case_check(&c, bound);
                case_check(&d, bound);
                assert_memory_equal(c.dst->host, d.dst->host, c.dst->bytes);
                check_release();
            }
}

static void mul_mat_transposed_b(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 11; n += 5) {
            const int64_t k = whole_blocks(all_types[t], 96);
            struct tensor *a = random_new(all_types[t], k, 5, 2, 1, PACKED);
            struct op_case c = mul_mat_case(a, b_for(all_types[t], INGOT_TYPE_F32, k, n, 2, 3, TRANSPOSED),
                                            INGOT_PREC_DEFAULT, SWAPPED);
            case_check(&c, mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT));
            check_release();
        }
}

static void mul_mat_unrounded_b(void **state) {
    (void)state;
    /* f16 and bf16 weights with activations that their type does not hold. */
    for (size_t t = 1; t < COUNT(floats); t++)
        for (size_t i = 0; i < COUNT(columns); i++) {
            struct op_case c =
                mul_mat_case(random_new(floats[t], 260, 35, 1, 1, PACKED),
                             random_new(INGOT_TYPE_F32, 260, columns[i], 1, 1, PACKED), INGOT_PREC_DEFAULT, PACKED);
            case_check(&c, floats[t] == INGOT_TYPE_F16 ? 1e-6 : 1e-5);
            c = mul_mat_case(c.src[0], c.src[1], INGOT_PREC_F32, PACKED);
            case_check(&c, F32_SUMS);
            check_release();
        }
}

static void mul_mat_poisoned_ends_R27(void **state) {
    (void)state;
    /* k mod 256 = 128: what lies behind A and B is NaN (the guards), and must not matter. */
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 40; n += 13) {
            const int64_t k = ingot_type_block(all_types[t]) == 256 ? 768 : 384;
            struct tensor *a = tensor_new(all_types[t], k, 3, 1, 1, NULL),
                          *b = tensor_new(INGOT_TYPE_F32, k, n, 1, 1, NULL);
            tensor_fill_ones(a), tensor_fill_ones(b);
            struct op_case c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, PACKED);
            case_check(&c, 1e-6); /* 0.1 % of the value */
            check_release();
        }
}

static void mul_mat_range_R57(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 12; n += 11) {
        struct tensor *a = tensor_new(INGOT_TYPE_Q8_0, 32, 1, 1, 1, NULL),
                      *b = tensor_new(INGOT_TYPE_F32, 32, n, 1, 1, NULL);
        unsigned char *block = tensor_at(a, 0, 0, 0, 0);
        block[0] = 0x00, block[1] = 0x54; /* 64 in f16 */
        memset(block + 2, 127, 32);
        tensor_fill_ones(b);
        struct op_case c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, PACKED);
        case_check(&c, 1e-6);
        assert_true(fabs(tensor_get(c.dst, 0, n - 1, 0, 0) - 260096.0) <= 260.0);
    }
}

static void mul_mat_zero_column(void **state) {
    (void)state;
    /* A column of zeros has no scale: the result is 0, not NaN; a block of zeros beside others likewise. */
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 2; n <= 10; n += 8) {
            const int64_t k = 512;
            struct tensor *b = b_for(all_types[t], INGOT_TYPE_F32, k, n, 1, 1, PACKED);
            for (int64_t i = 0; i < k; i++) {
                tensor_set(b, i, 0, 0, 0, 0.0);
                if (i / 32 == 3) tensor_set(b, i, 1, 0, 0, 0.0);
            }
            struct op_case c =
                mul_mat_case(random_new(all_types[t], k, 6, 1, 1, PACKED), b, INGOT_PREC_DEFAULT, PACKED);
            case_check(&c, mul_mat_bound(all_types[t], INGOT_PREC_DEFAULT));
            for (int64_t i = 0; i < 6; i++) assert_true(tensor_get(c.dst, i, 0, 0, 0) == 0.0);
            check_release();
        }
}

static void mul_mat_many_columns_R16(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1024, 66}, {67000, 1}};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct tensor *a = random_new(INGOT_TYPE_Q8_0, 32, check_device().simt ? 3 : 32, 1, 1, PACKED);
        struct op_case c = mul_mat_case(a, random_new(INGOT_TYPE_F32, 32, shapes[s][0], shapes[s][1], 1, PACKED),
                                        INGOT_PREC_DEFAULT, PACKED);
        case_check(&c, Q8_ACTIVATIONS);
        check_release();
    }
    /* One column each of many matrices: the mat-vec path. */
    struct op_case c = mul_mat_case(random_new(INGOT_TYPE_Q8_0, 32, 2, 1, 1, PACKED),
                                    random_new(INGOT_TYPE_F32, 32, 1, 300, 230, PACKED), INGOT_PREC_DEFAULT, PACKED);
    case_check(&c, Q8_ACTIVATIONS);
}

static void mul_mat_many_batches_R17(void **state) {
    (void)state;
    const bool simt = check_device().simt;
    const int64_t k = simt ? 4 : 64, m = simt ? 2 : 8, n = simt ? 2 : 8;
    struct tensor *a = tensor_new(INGOT_TYPE_F16, k, m, 65538, 1, NULL),
                  *b = tensor_new(INGOT_TYPE_F32, k, n, 65538, 1, NULL);
    tensor_fill_ones(a), tensor_fill_ones(b);
    struct op_case c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, PACKED);
    case_check(&c, EXACT);
    check_release();
    a = tensor_new(INGOT_TYPE_F16, k, m, 65538, 1, NULL), b = tensor_new(INGOT_TYPE_F32, k, 9, 65538, 1, NULL);
    tensor_fill_ones(a), tensor_fill_ones(b);
    c = mul_mat_case(a, b, INGOT_PREC_DEFAULT, PACKED);
    case_check(&c, EXACT);
}

static void mul_mat_unaligned_gemm_R113(void **state) {
    (void)state;
    const int64_t s[] = {1, 3, 63, 65};
    for (size_t t = 0; t < COUNT(floats); t++)
        for (size_t m = 0; m < COUNT(s); m++)
            for (size_t n = 0; n < COUNT(s); n++)
                for (size_t k = 0; k < COUNT(s); k++) {
                    struct op_case c = mul_mat_case(random_new(floats[t], s[k], s[m], 1, 1, PACKED),
                                                    b_for(floats[t], INGOT_TYPE_F32, s[k], s[n], 1, 1, PACKED),
                                                    INGOT_PREC_DEFAULT, PACKED);
                    case_check(&c, F32_SUMS);
                    check_release();
                }
}

static void mul_mat_repeated_R65(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 17; n += 8) {
            const int64_t k = whole_blocks(all_types[t], 576);
            struct op_case c = mul_mat_case(random_new(all_types[t], k, 67, 1, 1, PACKED),
                                            random_new(INGOT_TYPE_F32, k, n, 1, 1, PACKED), INGOT_PREC_DEFAULT, PACKED);
            case_repeat(&c, REPEATS);
            check_release();
        }
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(mul_mat_types),
        CHECK_TEST(mul_mat_k),
        CHECK_TEST(mul_mat_rows_R34),
        CHECK_TEST(mul_mat_batches_R47),
        CHECK_TEST(mul_mat_sliced_weights_R40),
        CHECK_TEST(mul_mat_odd_strides_R45),
        CHECK_TEST(mul_mat_odd_addresses),
        CHECK_TEST(mul_mat_padded_b_R48),
        CHECK_TEST(mul_mat_transposed_b),
        CHECK_TEST(mul_mat_unrounded_b),
        CHECK_TEST(mul_mat_poisoned_ends_R27),
        CHECK_TEST(mul_mat_range_R57),
        CHECK_TEST(mul_mat_zero_column),
        CHECK_TEST(mul_mat_many_columns_R16),
        CHECK_TEST(mul_mat_many_batches_R17),
        CHECK_TEST(mul_mat_unaligned_gemm_R113),
        CHECK_TEST(mul_mat_repeated_R65),
    };
    return check_main("mul_mat", tests, COUNT(tests));
}
