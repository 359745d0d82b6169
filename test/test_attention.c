// SPDX-License-Identifier: MIT
/* test_attention.c - ATTENTION through ingot_compute against float64: head sizes, groups, lengths, causal masks, and the
 * cases of field reports that name an input (R numbers). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "cases.h"

/* ================================================== Attention ===================================================== */

static struct op_case attention_case(int64_t d, int64_t n_q, int64_t heads, int64_t groups, int64_t keys,
                                     int64_t batches, size_t layout) {
    struct op_case c = {.op = INGOT_OP_ATTENTION};
    c.src[0] = random_new(INGOT_TYPE_F32, d, n_q, heads, batches, layout);
    c.src[1] = random_new(INGOT_TYPE_F16, d, keys, groups, batches, (layout * 2) % COUNT(layouts));
    c.src[2] = random_new(INGOT_TYPE_F16, d, keys, groups, batches, (layout * 3) % COUNT(layouts));
    c.dst = new (INGOT_TYPE_F32, d, heads, n_q, batches, (layout + 1) % COUNT(layouts));
    c.node.params.attention.scale = (float)(1.0 / sqrt((double)d));
    return c;
}

/* Operands are given as f16 and f32, sums are f32; exp in f32. */
static const double ATTENTION_BOUND = 1e-6;

static void attention_heads(void **state) {
    (void)state;
    const int64_t d[] = {1, 7, 8, 40, 64, 72, 80, 96, 128, 160, 256};
    const int64_t heads_groups[][2] = {{1, 1}, {4, 4}, {2, 1}, {3, 1}, {9, 3}, {8, 2}, {16, 1}};
    for (size_t i = 0; i < COUNT(d); i++)
        for (size_t h = 0; h < COUNT(heads_groups); h++)
            for (int causal = 0; causal < 2; causal++) {
                struct op_case c = attention_case(d[i], 1 + (int64_t)h % 4, heads_groups[h][0], heads_groups[h][1], 37,
                                                  2, (i + h) % COUNT(layouts));
                c.node.params.attention.causal = causal;
                case_check(&c, ATTENTION_BOUND);
                check_release();
            }
}

static void attention_lengths_R64(void **state) {
    (void)state;
    /* V constant 1 gives 1 for any number of keys; behind K and V lies NaN. */
    const int64_t keys[] = {1, 2, 31, 32, 33, 63, 64, 65, 77, 255, 257, 383};
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int64_t n_q = 1; n_q <= 5; n_q += 2) {
            struct op_case c = attention_case(64, n_q, 3, 1, keys[i], 1, PACKED);
            case_check(&c, ATTENTION_BOUND);
            tensor_fill_ones(c.src[2]);
            tensor_poison(c.dst);
            case_check(&c, 1e-10);
            check_release();
        }
}

static void attention_device_length(void **state) {
    (void)state;
    /* Keys beyond the length are NaN and must not be read into the result. */
    const double lengths[] = {0, 1, 5, 32, 33, 49, 50, 60, -3};
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (int per_batch = 0; per_batch < 2; per_batch++)
            for (int causal = 0; causal < 2; causal++) {
                struct op_case c = attention_case(64, 4, 6, 2, 50, 2, PACKED);
                c.src[3] = tensor_new(INGOT_TYPE_I32, per_batch ? 2 : 1, 1, 1, 1, NULL);
                tensor_set(c.src[3], 0, 0, 0, 0, lengths[i]);
                if (per_batch) tensor_set(c.src[3], 1, 0, 0, 0, lengths[(i + 3) % COUNT(lengths)]);
                for (int64_t b = 0; b < 2; b++)
                    for (int64_t j = (int64_t)fmax(0, tensor_get(c.src[3], per_batch ? b : 0, 0, 0, 0)); j < 50; j++)
                        for (int64_t g = 0; g < 2; g++)
                            for (int64_t e = 0; e < 64; e++) {
                                tensor_set(c.src[1], e, j, g, b, NAN);
                                tensor_set(c.src[2], e, j, g, b, NAN);
                            }
                c.node.params.attention.causal = causal;
                case_check(&c, ATTENTION_BOUND);
                check_release();
            }
}

static void attention_causal(void **state) {
    (void)state;
    /* Prompt of its own length, prompt behind a cache, more queries than keys (the first see nothing and give 0). */
    const int64_t n_q_keys[][2] = {{1, 1}, {7, 7}, {33, 33}, {5, 40}, {64, 65}, {9, 4}};
    for (size_t i = 0; i < COUNT(n_q_keys); i++) {
        struct op_case c = attention_case(64, n_q_keys[i][0], 2, 1, n_q_keys[i][1], 1, PACKED);
        c.node.params.attention.causal = 1;
        case_check(&c, ATTENTION_BOUND);
        for (int64_t q = 0; q < n_q_keys[i][0] - n_q_keys[i][1]; q++)
            for (int64_t e = 0; e < 64; e++) assert_true(tensor_get(c.dst, e, 1, q, 0) == 0.0);
        check_release();
    }
}

static void attention_sums_R50(void **state) {
    (void)state;
    const double values[] = {2, 32, 1000};
    const bool simt = check_device().simt;
    for (size_t i = 0; i < COUNT(values); i++)
        for (int64_t n_q = 1; n_q <= (simt ? 1 : 64); n_q += 63) {
            struct op_case c = attention_case(64, n_q, 1, 1, simt ? 16384 : 65536, 1, PACKED);
            tensor_fill(c.src[0], 0.0);
            tensor_fill(c.src[2], values[i]);
            tensor_upload(c.src[0]), tensor_upload(c.src[1]), tensor_upload(c.src[2]), tensor_upload(c.dst);
            ingot_node node = case_node(&c);
            CHECK_OK(ingot_compute(check_context(), &node));
            double *ref = check_alloc((size_t)(64 * n_q) * sizeof *ref);
            for (int64_t e = 0; e < 64 * n_q; e++) ref[e] = values[i];
            check_result(c.dst, ref, 1e-6, "equal keys");
            check_release();
        }
}

static void attention_large_scores_R51(void **state) {
    (void)state;
    struct op_case c = attention_case(128, 1, 1, 1, 2, 1, PACKED);
    tensor_fill(c.src[0], 64.0);
    for (int64_t e = 0; e < 128; e++) {
        tensor_set(c.src[1], e, 0, 0, 0, 64.0);
        tensor_set(c.src[1], e, 1, 0, 0, 63.0);
    }
    case_check(&c, 1e-10);
    for (int64_t e = 0; e < 128; e++) assert_true(tensor_get(c.dst, e, 0, 0, 0) == tensor_get(c.src[2], e, 0, 0, 0));
}

static void attention_low_scores_R52(void **state) {
    (void)state;
    struct op_case c = attention_case(128, 1, 1, 1, 1, 1, PACKED);
    tensor_fill(c.src[0], 64.0);
    tensor_fill(c.src[1], -64.0);
    tensor_fill(c.src[2], 1.0);
    c.node.params.attention.scale = 1.0f; /* raw score -524288 */
    case_check(&c, EXACT);
    assert_true(tensor_get(c.dst, 127, 0, 0, 0) == 1.0);
}

static void attention_many_rows(void **state) {
    (void)state;
    struct op_case c = attention_case(8, 3, 2, 1, 2, 12000, PACKED); /* 72000 rows */
    case_check(&c, ATTENTION_BOUND);
}

static void attention_repeated_R65(void **state) {
    (void)state;
    struct op_case c = attention_case(64, 3, 6, 2, 301, 1, PACKED);
    case_repeat(&c, REPEATS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(attention_heads),          CHECK_TEST(attention_lengths_R64), CHECK_TEST(attention_device_length),
        CHECK_TEST(attention_causal),         CHECK_TEST(attention_sums_R50),    CHECK_TEST(attention_large_scores_R51),
        CHECK_TEST(attention_low_scores_R52), CHECK_TEST(attention_many_rows),   CHECK_TEST(attention_repeated_R65),
    };
    return check_main("attention", tests, COUNT(tests));
}
