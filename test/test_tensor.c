// SPDX-License-Identifier: MIT
/* test_tensor.c - the facts of types, the names of ops, the geometry of tensors. */
#include "../src/base/base.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), INGOT_OK)
#define FAILS(call, status) assert_int_equal((call), (status))
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void types_are_those_of_gguf(void **state) {
    static const struct {
        int number;
        const char *name;
        int64_t block;
        size_t bytes;
    } facts[] = {
        {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},      {3, "q4_1", 32, 20},
        {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},      {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},
        {10, "q2_K", 256, 84},    {11, "q3_K", 256, 110},   {12, "q4_K", 256, 144},   {13, "q5_K", 256, 176},
        {14, "q6_K", 256, 210},   {15, "q8_K", 256, 292},   {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},
        {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},   {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},
        {22, "iq2_s", 256, 82},   {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
        {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},        {29, "iq1_m", 256, 56},
        {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},
        {40, "nvfp4", 64, 36},
    };
    size_t next = 0;

    (void)state;
    for (int number = -2; number < 200; number++) {
        const ingot_type type = (ingot_type)number;
        if (next < COUNT(facts) && facts[next].number == number) {
            assert_string_equal(ingot_type_name(type), facts[next].name);
            assert_int_equal(ingot_type_block(type), facts[next].block);
            assert_int_equal(ingot_type_size(type), facts[next].bytes);
            next++;
        } else {
            assert_string_equal(ingot_type_name(type), "?");
            assert_int_equal(ingot_type_block(type), 0);
            assert_int_equal(ingot_type_size(type), 0);
        }
    }
    assert_int_equal(next, COUNT(facts));
    assert_string_equal(ingot_type_name((ingot_type)INT_MAX), "?");
    assert_string_equal(ingot_type_name((ingot_type)INT_MIN), "?");
}

static void ops_have_names(void **state) {
    (void)state;
    for (int op = 0; op < INGOT_OP_COUNT; op++) assert_string_not_equal(ingot_op_name((ingot_op)op), "?");
    assert_string_equal(ingot_op_name(INGOT_OP_MUL_MAT), "mul_mat");
    assert_string_equal(ingot_op_name(INGOT_OP_COUNT), "?");
    assert_string_equal(ingot_op_name((ingot_op)-1), "?");
}

static void tensors_are_checked(void **state) {
    ingot_tensor t;
    const int64_t wraps[] = {1 << 20, (int64_t)1 << 42}, negative[] = {-1, 4}, empty[] = {0, 4}, odd[] = {100};
    const int64_t good[] = {512, 3, 2, 5}, most[] = {((int64_t)1 << 61) - 1}, over[] = {(int64_t)1 << 61};
    const int64_t late[] = {4, 4, 4, -1};
    char text[96];

    (void)state;
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 2, wraps, NULL), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(NULL), "63 bits"));
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 2, negative, NULL), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(NULL), "ne[0] is negative"));
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 4, late, NULL), INGOT_ERR_INVALID);
    OK(ingot_tensor_init(&t, INGOT_TYPE_F32, 2, empty, NULL));
    assert_true(ingot_is_empty(&t));
    assert_int_equal(ingot_tensor_size(&t), 0);
    assert_int_equal(ingot_tensor_elements(&t), 0);
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_Q4_K, 1, odd, NULL), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(NULL), "256"));
    FAILS(ingot_tensor_init(NULL, INGOT_TYPE_F32, 1, good, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 1, NULL, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 0, good, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 5, good, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_tensor_init(&t, (ingot_type)4, 1, good, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_tensor_init(&t, (ingot_type)-1, 1, good, NULL), INGOT_ERR_INVALID);
    OK(ingot_tensor_init(&t, INGOT_TYPE_F32, 1, most, NULL));
    FAILS(ingot_tensor_init(&t, INGOT_TYPE_F32, 1, over, NULL), INGOT_ERR_INVALID);

    OK(ingot_tensor_init(&t, INGOT_TYPE_Q4_K, 4, good, &t));
    assert_int_equal(t.nb[0], 144);
    assert_int_equal(t.nb[1], 288);
    assert_int_equal(t.nb[2], 3 * 288);
    assert_int_equal(t.nb[3], 6 * 288);
    assert_ptr_equal(t.data, &t);
    assert_int_equal(ingot_tensor_size(&t), 30 * 288);
    assert_int_equal(ingot_tensor_elements(&t), 512 * 30);
    assert_true(ingot_is_contiguous(&t));
    assert_string_equal(ingot_describe(&t, text), "q4_K [512,3,2,5]");
    t.ne[0] = t.ne[1] = t.ne[2] = t.ne[3] = INT64_MIN;
    assert_true(strlen(ingot_describe(&t, text)) < 96);
}

static void sizes_follow_strides(void **state) {
    ingot_tensor t;
    const int64_t ne[] = {8, 4, 1, 2};

    (void)state;
    OK(ingot_tensor_init(&t, INGOT_TYPE_F32, 4, ne, NULL));
    t.nb[1] = 100;   /* rows with gaps */
    t.nb[2] = 12345; /* of a dimension of 1: never used */
    t.nb[3] = 1000;
    assert_int_equal(ingot_tensor_size(&t), 32 + 3 * 100 + 1000);
    assert_false(ingot_is_contiguous(&t));
    t.nb[1] = 0; /* one row repeated */
    t.nb[3] = 0;
    assert_int_equal(ingot_tensor_size(&t), 32);
    t.nb[3] = SIZE_MAX;
    assert_int_equal(ingot_tensor_size(&t), INT64_MAX);
    t.nb[3] = INT64_MAX - 16;
    assert_int_equal(ingot_tensor_size(&t), INT64_MAX);
    t.ne[1] = -4;
    assert_int_equal(ingot_tensor_size(&t), 0);
    assert_int_equal(ingot_tensor_size(NULL), 0);
    assert_int_equal(ingot_tensor_elements(NULL), 0);
    t.ne[0] = t.ne[1] = t.ne[2] = t.ne[3] = (int64_t)1 << 40;
    assert_int_equal(ingot_tensor_elements(&t), INT64_MAX);
}

static unsigned next(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Small tensors in one arena: the answer against a byte map. */
static void overlap_agrees_with_a_byte_map(void **state) {
    static char arena[4096];
    unsigned seed = 7;
    int apart = 0, met = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        ingot_tensor t[2];
        bool map[2][4096] = {{false}}, meet = false;
        const size_t pitch = 4 * (1 + next(&seed) % 16);
        for (int k = 0; k < 2; k++) {
            t[k] = (ingot_tensor){.type = INGOT_TYPE_F32, .data = arena + 4 * (next(&seed) % 64)};
            for (int i = 0; i < 4; i++) t[k].ne[i] = next(&seed) % 16 == 0 ? 0 : 1 + next(&seed) % 4;
            t[k].nb[0] = 4;
            t[k].nb[1] = next(&seed) % 4 ? pitch : 4 * (next(&seed) % 16);
            t[k].nb[2] = next(&seed) % 4 ? 4 * pitch : 4 * (next(&seed) % 64);
            t[k].nb[3] = next(&seed) % 4 ? 2 * pitch : 4 * (next(&seed) % 64);
            for (int64_t e = 0; e < ingot_tensor_elements(&t[k]); e++) {
                const int64_t i0 = e % t[k].ne[0], i1 = e / t[k].ne[0] % t[k].ne[1];
                const int64_t i2 = e / t[k].ne[0] / t[k].ne[1] % t[k].ne[2];
                const int64_t i3 = e / t[k].ne[0] / t[k].ne[1] / t[k].ne[2];
                const size_t at = (size_t)((char *)t[k].data - arena) + (size_t)i0 * 4 + (size_t)i1 * t[k].nb[1] +
                                  (size_t)i2 * t[k].nb[2] + (size_t)i3 * t[k].nb[3];
                for (size_t b = 0; b < 4; b++) map[k][at + b] = true;
            }
        }
        for (size_t b = 0; b < sizeof arena; b++) meet = meet || (map[0][b] && map[1][b]);
        assert_int_equal(ingot_overlap(&t[0], &t[1]), ingot_overlap(&t[1], &t[0]));
        if (meet) assert_true(ingot_overlap(&t[0], &t[1]));
        meet ? met++ : apart++;
    }
    assert_true(met > 1000 && apart > 1000);
}

static void interleaved_views_are_apart(void **state) {
    static char qkv[4 * 96 * 5];
    const int64_t wide[] = {64, 5}, narrow[] = {16, 5};
    ingot_tensor q, k, v;

    (void)state;
    OK(ingot_tensor_init(&q, INGOT_TYPE_F32, 2, wide, qkv));
    OK(ingot_tensor_init(&k, INGOT_TYPE_F32, 2, narrow, qkv + 4 * 64));
    OK(ingot_tensor_init(&v, INGOT_TYPE_F32, 2, narrow, qkv + 4 * 80));
    q.nb[1] = k.nb[1] = v.nb[1] = 4 * 96;
    assert_false(ingot_overlap(&q, &k));
    assert_false(ingot_overlap(&k, &q));
    assert_false(ingot_overlap(&k, &v));
    assert_true(ingot_overlap(&q, &q));
    k.data = qkv + 4 * 63;
    assert_true(ingot_overlap(&q, &k));
    assert_true(ingot_overlap(&k, &q));
    v.data = qkv + 4 * 81; /* its rows reach into q's next */
    assert_true(ingot_overlap(&q, &v));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_those_of_gguf),
        cmocka_unit_test(ops_have_names),
        cmocka_unit_test(tensors_are_checked),
        cmocka_unit_test(sizes_follow_strides),
        cmocka_unit_test(overlap_agrees_with_a_byte_map),
        cmocka_unit_test(interleaved_views_are_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
