// SPDX-License-Identifier: MIT
/* test_glu.c - gated linear units: every kind on every float type, layout and form, element by element over the range of
 * f32, and what becomes of NaN, infinities and clamps. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { KINDS = INGOT_GLU_GEGLU_QUICK + 1 };
static const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
static const struct layout layouts[] = {{{0}, {0}, 0},
                                        {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
                                        {{1, 0, 2, 0}, {0, 2, 1, 3}, 0},
                                        {{1, 2, 0, 0}, {1, 0, 2, 3}, 0},
                                        {{1, 0, 0, 0}, {0, 1, 2, 3}, 4}};

static struct tensor *random_new(ingot_type type, int64_t n, size_t l) {
    struct layout how = layouts[l];
    if (how.offset) how.offset = ingot_type_size(type);
    struct tensor *t = tensor_new(type, n, 3, 2, 2, &how);
    tensor_fill_random(t, -8.0, 8.0);
    return t;
}

static void every_form(void **state) {
    (void)state;
    const int64_t n[] = {1, 31, 64, 257};
    int kind = 0;
    for (size_t t = 0; t < COUNT(floats); t++)
        for (size_t i = 0; i < COUNT(n); i++)
            for (size_t l = 0; l < COUNT(layouts); l++)
                for (int form = 0; form < 4; form++, kind++) { /* two sources; in place on gate, on up; split */
                    struct tensor *gate = random_new(floats[t], form == 3 ? 2 * n[i] : n[i], l), *up = NULL;
                    if (form < 3) up = random_new(floats[t], n[i], form == 2 ? l : (l + 1) % COUNT(layouts));
                    struct tensor *dst = form == 1   ? gate
                                         : form == 2 ? up
                                                     : random_new(floats[t], n[i], (l + i) % COUNT(layouts));
                    struct op_case c = {.op = INGOT_OP_GLU, .dst = dst, .src = {gate, up}};
                    c.node.params.glu = (ingot_glu_params){(ingot_glu_kind)(kind % KINDS), 1.702f, 3.0f};
                    if (dst != gate && dst != up) tensor_poison(dst);
                    case_check(&c, 1e-10);
                    check_release();
                }
}

/* Runs one kind on pairs of f32; the results live until the test ends. */
static const double *run(ingot_glu_params params, struct tensor *gate, struct tensor *up) {
    struct tensor *dst = tensor_new(INGOT_TYPE_F32, gate->t.ne[0], 1, 1, 1, NULL);
    struct op_case c = {.op = INGOT_OP_GLU, .dst = dst, .src = {gate, up}, .node.params.glu = params};
    ingot_node node = case_node(&c);
    tensor_upload(gate), tensor_upload(up), tensor_upload(dst);
    CHECK_OK(ingot_compute(check_context(), &node));
    tensor_download(dst);
    return tensor_values(dst);
}

/* Each element by itself: where an activation is tiny, its digits are right all the same.  An exponential of u has the
 * error of u as its relative one. */
static void every_element(void **state) {
    (void)state;
    enum { N = 20000 };
    struct tensor *gate = tensor_new(INGOT_TYPE_F32, N, 1, 1, 1, NULL),
                  *up = tensor_new(INGOT_TYPE_F32, N, 1, 1, 1, NULL);
    for (int64_t i = 0; i < N; i++) {
        const double x = i % 4 == 0   ? check_uniform(-14.0, 14.0)
                         : i % 4 == 1 ? check_uniform(-1.0, 1.0)
                         : i % 4 == 2 ? check_uniform(-60.0, 60.0)
                                      : (check_range(0, 1) ? 1.0 : -1.0) * exp2(check_uniform(-100.0, 100.0));
        tensor_set(gate, i, 0, 0, 0, x);
        tensor_set(up, i, 0, 0, 0, check_uniform(0.5, 2.0) * (check_range(0, 1) ? 1.0 : -1.0));
    }
    for (int kind = 0; kind < KINDS; kind++) {
        const ingot_glu_params p = {(ingot_glu_kind)kind, 1.702f, 7.0f};
        const double *out = run(p, gate, up), steep[KINDS] = {0.0, 1.6, 0.0, 1.702, 0.0, 1.702};
        for (int64_t i = 0; i < N; i++) {
            const double x = tensor_get(gate, i, 0, 0, 0), y = tensor_get(up, i, 0, 0, 0), ref = ref_glu(&p, x, y);
            const double u = steep[kind] * fabs(x) * (kind == INGOT_GLU_GEGLU ? 1.0 + 0.045 * x * x : 1.0);
            /* e^u ends at 2^128 */
            const double bound =
                fabs(ref) * (8e-7 + 2e-7 * fmin(u, 110.0)) + fabs(x) * (fabs(y) + 1.0) * 0x1p-127 + 0x1p-147;
            if (!(fabs(out[i] - ref) <= bound))
                check_fail("kind %d of gate %.9g and up %.9g: %.9g, expected %.9g within %.2g", kind, x, y, out[i], ref,
                           bound);
        }
    }
}

/* The functions of the gate alone: what a GLU with 1 as its other half gives, bit for bit, each by its own builder. */
static void functions_alone(void **state) {
    (void)state;
    enum { N = 1000 };
    struct tensor *x = tensor_new(INGOT_TYPE_F32, N, 1, 1, 1, NULL),
                  *one = tensor_new(INGOT_TYPE_F32, N, 1, 1, 1, NULL),
                  *y = tensor_new(INGOT_TYPE_F32, N, 1, 1, 1, NULL);
    ingot_tensor *(*const builders[])(ingot_graph *, ingot_tensor *) = {ingot_silu, ingot_relu, ingot_gelu,
                                                                        ingot_gelu_erf, ingot_gelu_quick};
    const ingot_glu_kind kinds[] = {INGOT_GLU_SWIGLU, INGOT_GLU_REGLU, INGOT_GLU_GEGLU, INGOT_GLU_GEGLU_ERF,
                                    INGOT_GLU_GEGLU_QUICK};
    const char *const names[] = {"silu", "relu", "gelu", "gelu_erf", "gelu_quick"};
    tensor_fill_random(x, -20.0, 20.0), tensor_fill(one, 1.0);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const double *expected = run((ingot_glu_params){.kind = kinds[i]}, x, one);
        ingot_graph *g = NULL;
        assert_string_equal(ingot_op_name((ingot_op)(INGOT_OP_SILU + i)), names[i]);
        tensor_poison(y), tensor_upload(y);
        CHECK_OK(ingot_graph_create(check_context(), &g));
        ingot_cpy(g, builders[i](g, ingot_leaf(g, &x->t)), ingot_leaf(g, &y->t));
        CHECK_OK(ingot_graph_plan(g, NULL, NULL));
        CHECK_OK(ingot_graph_run(g));
        check_result(y, expected, 0.0, names[i]);
        ingot_graph_destroy(g);
    }
}

static void special_values(void **state) {
    (void)state;
    const double gates[] = {0.0, -0.0, NAN, 1.0, 3e38, -3e38, INFINITY, -5.0, 5.0, 5.0, 0x1p-149},
                 ups[] = {1.0, 1.0, 1.0, NAN, 1.0, 1.0, 1.0, 2.0, -9.0, 9.0, 1.0};
    struct tensor *gate = tensor_new(INGOT_TYPE_F32, COUNT(gates), 1, 1, 1, NULL),
                  *up = tensor_new(INGOT_TYPE_F32, COUNT(ups), 1, 1, 1, NULL);
    for (size_t i = 0; i < COUNT(gates); i++)
        tensor_set(gate, (int64_t)i, 0, 0, 0, gates[i]), tensor_set(up, (int64_t)i, 0, 0, 0, ups[i]);
    for (int kind = 0; kind < KINDS; kind++) {
        const bool clamps = kind == INGOT_GLU_SWIGLU_OAI;
        const double *out = run((ingot_glu_params){(ingot_glu_kind)kind, 1.0f, 4.0f}, gate, up);
        assert_true(out[0] == 0.0 && out[1] == 0.0);
        assert_true(isnan(out[2]) && isnan(out[3]));
        assert_true(out[5] == 0.0); /* far below 0, without NaN on the way */
        if (clamps) {
            const double full = 4.0 / (1.0 + exp(-4.0)); /* what any gate above the limit gives */
            assert_true(fabs(out[4] / full - 2.0) < 1e-6 && out[6] == out[4]);
            assert_true(fabs(out[8] / full + 3.0) < 1e-6 && fabs(out[9] / full - 5.0) < 1e-6);
            assert_true(fabs(out[7] / (3.0 * -5.0 / (1.0 + exp(5.0))) - 1.0) < 1e-6); /* a gate below -limit is kept */
        } else {
            assert_true(out[4] == (double)3e38f && out[6] == INFINITY);
        }
        assert_true(out[10] >= 0.0 && out[10] <= 0x1p-148);
        const double *free_of = run((ingot_glu_params){(ingot_glu_kind)kind, 1.0f, INFINITY}, gate, up);
        if (clamps) assert_true(free_of[4] == (double)3e38f * 2.0 || free_of[4] == INFINITY);
        if (!clamps) /* alpha and limit are of one kind only */
            for (size_t i = 0; i < COUNT(gates); i++)
                assert_true(out[i] == free_of[i] || (isnan(out[i]) && isnan(free_of[i])));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_form),
        CHECK_TEST(every_element),
        CHECK_TEST(functions_alone),
        CHECK_TEST(special_values),
    };
    return check_main("glu", tests, COUNT(tests));
}
