// SPDX-License-Identifier: MIT
/* test_mul_mat_id.c - products by chosen experts: every type, one row of activations for all experts or one for each,
 * strides, ids that choose nothing, many tokens, and ids that change between the runs of a graph. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const double F32_SUMS = 1e-10, Q8_ACTIVATIONS = 5e-4;
static ingot_type all_types[CHECK_TYPES];
static size_t type_count;

static const struct layout packed = {{0}, {0}, 0}, gapped = {{1, 1, 1, 0}, {0, 1, 2, 3}, 0},
                           swapped = {{1, 0, 2, 0}, {0, 2, 1, 3}, 0}, transposed = {{1, 2, 0, 0}, {1, 0, 2, 3}, 0};

static struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, const struct layout *how) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, 1, how);
    tensor_fill_random(t, -2.0, 2.0);
    return t;
}

/* A [k,m,experts], B [k,s,tokens], ids [used,tokens], each id one of the experts'. */
struct shape {
    int64_t k, m, experts, s, used, tokens;
};

static struct op_case new_case(ingot_type a, ingot_type b, const struct shape *s, const struct layout *for_a,
                               const struct layout *for_rest) {
    struct op_case c = {.op = INGOT_OP_MUL_MAT_ID};
    c.src[0] = random_new(a, s->k, s->m, s->experts, for_a);
    c.src[1] = random_new(b, s->k, s->s, s->tokens, for_rest);
    c.src[2] = tensor_new(INGOT_TYPE_I32, s->used, s->tokens, 1, 1, for_rest);
    for (int64_t t = 0; t < s->tokens; t++)
        for (int64_t e = 0; e < s->used; e++)
            tensor_set(c.src[2], e, t, 0, 0, s->experts ? (double)check_range(0, s->experts - 1) : 0.0);
    c.dst = tensor_new(INGOT_TYPE_F32, s->m, s->used, s->tokens, 1, for_rest);
    return c;
}

static double bound_of(const struct op_case *c) {
    const bool exact = c->node.params.mul_mat.prec == INGOT_PREC_F32;
    return check_is_block(c->src[0]->t.type) && !exact ? Q8_ACTIVATIONS : F32_SUMS;
}

static void every_type(void **state) {
    (void)state;
    const struct layout *layouts[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t t = 0; t < type_count; t++) {
        const ingot_type type = all_types[t];
        const int64_t block = ingot_type_block(type), plain = block == 1;
        const struct shape shapes[] = {
            {plain ? 257 : block, 33, 5, 1, 2, 1}, {plain ? 64 : 3 * block, 17, 8, 2, 2, 3},
            {plain ? 2051 : 2304, 7, 3, 1, 6, 2},  {plain ? 96 : 2 * block, 1, 1, 3, 3, 9},
            {plain ? 32 : block, 40, 60, 2, 8, 5},
        };
        for (size_t i = 0; i < COUNT(shapes); i++)
            for (size_t l = 0; l < COUNT(layouts); l++) {
                const ingot_type b = (ingot_type[]){INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16}[(i + l) % 3];
                const struct layout *for_a = layouts[l == 3 && !plain ? 1 : l];
                struct op_case c = new_case(type, b, &shapes[i], for_a, layouts[(l + i) % 4]);
                if (i == 1) c.node.params.mul_mat.prec = INGOT_PREC_F32;
                case_check(&c, bound_of(&c));
                check_release();
            }
    }
}

/* Ids outside the experts' numbers give NaN and read nothing: an address made of them would lie far outside. */
static void ids_that_choose_nothing(void **state) {
    (void)state;
    const double bad[] = {-1.0, 4.0, 5.0, INT32_MIN, INT32_MAX, 1 << 30};
    for (size_t t = 0; t < type_count; t++)
        for (size_t i = 0; i < COUNT(bad); i++) {
            const struct shape s = {check_is_block(all_types[t]) ? 512 : 100, 35, 4, i % 2 ? 3 : 1, 3, 2};
            struct op_case c = new_case(all_types[t], INGOT_TYPE_F32, &s, &packed, &gapped);
            tensor_set(c.src[2], (int64_t)i % 3, 1, 0, 0, bad[i]);
            tensor_fill(c.dst, 1.0); /* so that NaN is written, not left */
            case_check(&c, bound_of(&c));
            check_release();
        }
}

/* Bit for bit what MUL_MAT gives for each pair of an expert and a column. */
static void the_same_bits_as_mul_mat(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++) {
        const struct shape s = {768, 37, 6, 2, 4, 3};
        struct op_case c = new_case(all_types[t], INGOT_TYPE_F32, &s, &packed, &packed);
        struct tensor *one = tensor_new(INGOT_TYPE_F32, s.m, 1, 1, 1, NULL);
        for (int i = 0; i < 3; i++) tensor_upload(c.src[i]);
        tensor_upload(c.dst);
        ingot_node node = case_node(&c);
        CHECK_OK(ingot_compute(check_context(), &node));
        tensor_download(c.dst);
        for (int64_t token = 0; token < s.tokens; token++)
            for (int64_t e = 0; e < s.used; e++) {
                ingot_tensor w = c.src[0]->t, x = c.src[1]->t;
                w.data = (char *)w.data + (size_t)tensor_get(c.src[2], e, token, 0, 0) * w.nb[2], w.ne[2] = 1;
                x.data = (char *)x.data + (size_t)(e % s.s) * x.nb[1] + (size_t)token * x.nb[2];
                x.ne[1] = x.ne[2] = 1;
                tensor_poison(one), tensor_upload(one);
                ingot_node single = {.op = INGOT_OP_MUL_MAT, .dst = one->t, .src = {&w, &x}};
                CHECK_OK(ingot_compute(check_context(), &single));
                tensor_download(one);
                if (memcmp(tensor_at(one, 0, 0, 0, 0), tensor_at(c.dst, 0, e, token, 0), (size_t)s.m * 4) != 0)
                    check_fail("%s: expert %d of token %d is not what mul_mat gives", case_text(&c), (int)e,
                               (int)token);
            }
        check_release();
    }
}

static void many_tokens(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++) {
        const struct shape s = {check_is_block(all_types[t]) ? 256 : 40, 19, 7, t % 2 ? 4 : 1, 4, 131};
        struct op_case c = new_case(all_types[t], INGOT_TYPE_F32, &s, &packed, &packed);
        case_check(&c, bound_of(&c));
        check_release();
    }
}

static void edges(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++) {
        /* k of 0: sums of nothing, but NaN where nothing is chosen; no experts at all: NaN */
        struct op_case c = new_case(all_types[t], INGOT_TYPE_F32, &(struct shape){0, 5, 3, 1, 2, 2}, &packed, &packed);
        tensor_set(c.src[2], 1, 1, 0, 0, 3.0);
        tensor_fill(c.dst, 1.0);
        case_check(&c, F32_SUMS);
        c = new_case(all_types[t], INGOT_TYPE_F32, &(struct shape){256, 5, 0, 1, 2, 2}, &packed, &packed);
        tensor_fill(c.dst, 1.0);
        case_check(&c, F32_SUMS);
        /* no tokens, no experts used, no rows: nothing is written */
        const struct shape none[] = {{256, 5, 3, 1, 2, 0}, {256, 5, 3, 0, 0, 2}, {256, 0, 3, 1, 2, 2}};
        for (size_t i = 0; i < COUNT(none); i++) {
            c = new_case(all_types[t], INGOT_TYPE_F32, &none[i], &packed, &packed);
            case_check(&c, F32_SUMS);
        }
        check_release();
    }
}

/* The host never looks at ids: a planned graph follows those that lie there when it runs, replays included. */
static void ids_of_each_run(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++) {
        const struct shape s = {256, 21, 9, 1, 3, 2};
        struct op_case c = new_case(all_types[t], INGOT_TYPE_F32, &s, &packed, &packed);
        ingot_graph *g = NULL;
        for (int i = 0; i < 3; i++) tensor_upload(c.src[i]);
        CHECK_OK(ingot_graph_create(check_context(), &g));
        ingot_tensor *y = ingot_mul_mat_id(g, ingot_weight(g, &c.src[0]->t), ingot_leaf(g, &c.src[1]->t),
                                           ingot_leaf(g, &c.src[2]->t), INGOT_PREC_DEFAULT);
        assert_true(y && y->ne[0] == s.m && y->ne[1] == s.used && y->ne[2] == s.tokens && y->ne[3] == 1);
        ingot_cpy(g, y, ingot_leaf(g, &c.dst->t));
        CHECK_OK(ingot_graph_plan(g, NULL, NULL));
        for (int run = 0; run < 5; run++) {
            for (int64_t i = 0; i < s.used * s.tokens; i++)
                tensor_set(c.src[2], i % s.used, i / s.used, 0, 0,
                           (double)check_range(run == 3 ? -1 : 0, s.experts - 1));
            tensor_upload(c.src[2]);
            tensor_fill(c.dst, 1.0), tensor_upload(c.dst);
            CHECK_OK(ingot_graph_run(g));
            const double *ref = case_reference(&c);
            check_result(c.dst, ref, bound_of(&c) * case_cancellation(&c, ref), case_text(&c));
        }
        ingot_graph_destroy(g);
        check_release();
    }
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_type),
        CHECK_TEST(ids_that_choose_nothing),
        CHECK_TEST(the_same_bits_as_mul_mat),
        CHECK_TEST(many_tokens),
        CHECK_TEST(edges),
        CHECK_TEST(ids_of_each_run),
    };
    return check_main("mul_mat_id", tests, COUNT(tests));
}
