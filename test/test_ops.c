// SPDX-License-Identifier: MIT
/* test_ops.c - the ops on elements and rows through ingot_compute against float64: shapes, strides, broadcast, in place,
 * row counts above 65535, the cases of field reports that name an input (R numbers); every op on empty tensors. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "cases.h"

/* =================================================== Add, mul ===================================================== */

static const ingot_op binary_ops[] = {INGOT_OP_ADD, INGOT_OP_MUL};
static const ingot_type binary_types[][2] = {{INGOT_TYPE_F32, INGOT_TYPE_F32},
                                             {INGOT_TYPE_F16, INGOT_TYPE_F16},
                                             {INGOT_TYPE_BF16, INGOT_TYPE_BF16},
                                             {INGOT_TYPE_F16, INGOT_TYPE_F32},
                                             {INGOT_TYPE_BF16, INGOT_TYPE_F32}};

/* f32 results are exact; narrow ones may round twice. */
static double binary_bound(ingot_type type) {
    return type == INGOT_TYPE_F32 ? EXACT : 1e-4;
}

static void binary_broadcast(void **state) {
    (void)state;
    const int64_t b[][4] = {{36, 6, 4, 2}, {36, 1, 1, 1}, {1, 1, 1, 1},  {1, 6, 1, 1}, {36, 6, 1, 2},
                            {12, 3, 2, 1}, {1, 1, 4, 1},  {18, 6, 4, 2}, {36, 2, 4, 1}};
    for (size_t o = 0; o < COUNT(binary_ops); o++)
        for (size_t t = 0; t < COUNT(binary_types); t++)
            for (size_t s = 0; s < COUNT(b); s++) {
                struct op_case c = op2(binary_ops[o], new (binary_types[t][0], 36, 6, 4, 2, PACKED),
                                       random_new(binary_types[t][0], 36, 6, 4, 2, PACKED),
                                       random_new(binary_types[t][1], b[s][0], b[s][1], b[s][2], b[s][3], PACKED));
                case_check(&c, binary_bound(binary_types[t][0]));
                check_release();
            }
}

static void binary_layouts(void **state) {
    (void)state;
    const int64_t n0[] = {1, 7, 32, 65};
    for (size_t o = 0; o < COUNT(binary_ops); o++)
        for (size_t t = 0; t < COUNT(binary_types); t++)
            for (size_t la = 0; la < COUNT(layouts); la++)
                for (size_t lb = 0; lb < COUNT(layouts); lb++) {
                    const int64_t n = n0[(la + lb) % 4];
                    struct op_case c =
                        op2(binary_ops[o], new (binary_types[t][0], n, 5, 4, 3, (la + lb) % COUNT(layouts)),
                            random_new(binary_types[t][0], n, 5, 4, 3, la),
                            random_new(binary_types[t][1], n, 5, lb % 2 ? 2 : 4, 3, lb));
                    case_check(&c, binary_bound(binary_types[t][0]));
                    check_release();
                }
}

static void binary_in_place(void **state) {
    (void)state;
    for (size_t o = 0; o < COUNT(binary_ops); o++)
        for (size_t t = 0; t < COUNT(binary_types); t++)
            for (size_t l = 0; l < COUNT(layouts); l++) {
                struct tensor *a = random_new(binary_types[t][0], 33, 5, 2, 3, l);
                struct op_case c = op2(binary_ops[o], a, a, random_new(binary_types[t][1], 33, 1, 2, 1, l));
                case_check(&c, binary_bound(binary_types[t][0]));
                check_release();
            }
}

static double plus_one(int64_t e) {
    return (double)(e + 1);
}

static void mul_scalar_R43(void **state) {
    (void)state;
    struct tensor *a = tensor_new(INGOT_TYPE_F32, 4, 3, 1, 1, &(struct layout){{2, 0, 0, 0}, {0, 1, 2, 3}, 0});
    struct tensor *b = tensor_new(INGOT_TYPE_F32, 1, 1, 1, 1, NULL);
    tensor_fill_by(a, plus_one);
    tensor_fill(b, 2.0);
    struct op_case c = op2(INGOT_OP_MUL, tensor_new(INGOT_TYPE_F32, 4, 3, 1, 1, NULL), a, b);
    case_check(&c, EXACT);
    assert_true(tensor_get(c.dst, 3, 2, 0, 0) == 24.0);
}

static void binary_many_rows(void **state) {
    (void)state;
    const int64_t shapes[][4] = {{2, 70000, 1, 1}, {1, 3, 70000, 1}, {1, 2, 1, 70000}, {3, 70001, 2, 1}};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        const int64_t *n = shapes[s];
        struct op_case c = op2(INGOT_OP_ADD, new (INGOT_TYPE_F32, n[0], n[1], n[2], n[3], GAPPED),
                               random_new(INGOT_TYPE_F32, n[0], n[1], n[2], n[3], PACKED),
                               random_new(INGOT_TYPE_F32, 1, n[1], n[2], n[3], PACKED));
        case_check(&c, EXACT);
        check_release();
    }
}

/* =================================================== RMS norm ===================================================== */

static struct op_case norm_case(struct tensor *dst, struct tensor *x, float eps) {
    struct op_case c = op2(INGOT_OP_RMS_NORM, dst, x, NULL);
    c.node.params.rms_norm.eps = eps;
    return c;
}

static void rms_norm_shapes(void **state) {
    (void)state;
    const int64_t n[] = {1, 2, 31, 32, 33, 127, 576, 1023, 1536, 4097};
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < COUNT(layouts); l++) {
            struct op_case c = norm_case(new (INGOT_TYPE_F32, n[i], 3, 2, 2, (l + i) % COUNT(layouts)),
                                         random_new(INGOT_TYPE_F32, n[i], 3, 2, 2, l), 1e-5f);
            case_check(&c, F32_SUMS);
            struct tensor *x = random_new(INGOT_TYPE_F32, n[i], 3, 2, 2, l);
            c = norm_case(x, x, 0.5f);
            case_check(&c, F32_SUMS);
            check_release();
        }
}

static void rms_norm_values(void **state) {
    (void)state;
    /* A row of zeros stays zero with eps > 0; large and tiny rows keep their precision. */
    struct tensor *x = tensor_new(INGOT_TYPE_F32, 100, 4, 1, 1, NULL);
    for (int64_t i = 0; i < 100; i++) {
        tensor_set(x, i, 0, 0, 0, 0.0);
        tensor_set(x, i, 1, 0, 0, check_uniform(-1e15, 1e15));
        tensor_set(x, i, 2, 0, 0, check_uniform(-1e-15, 1e-15));
        tensor_set(x, i, 3, 0, 0, i == 57 ? 1e10 : 1e-10);
    }
    struct op_case c = norm_case(tensor_new(INGOT_TYPE_F32, 100, 4, 1, 1, NULL), x, 1e-35f);
    case_check(&c, F32_SUMS);
    for (int64_t i = 0; i < 100; i++) assert_true(tensor_get(c.dst, i, 0, 0, 0) == 0.0);
    /* More rows than a grid dimension holds. */
    c = norm_case(new (INGOT_TYPE_F32, 3, 70000, 2, 1, GAPPED), random_new(INGOT_TYPE_F32, 3, 70000, 2, 1, PACKED),
                  1e-6f);
    case_check(&c, F32_SUMS);
}

/* ===================================================== Rope ======================================================= */

static const ingot_rope_params rope_plain = {INGOT_ROPE_NORMAL, 0, 2048, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f};

static struct op_case rope_case(struct tensor *dst, struct tensor *x, int64_t positions, double furthest, int n_dims) {
    struct op_case c = op2(INGOT_OP_ROPE, dst, x, tensor_new(INGOT_TYPE_I32, positions, 1, 1, 1, NULL));
    tensor_fill_random(c.src[1], 0.0, furthest);
    c.node.params.rope = rope_plain;
    c.node.params.rope.n_dims = n_dims;
    return c;
}

static void rope_modes(void **state) {
    (void)state;
    const ingot_rope_mode modes[] = {INGOT_ROPE_NORMAL, INGOT_ROPE_NEOX};
    const ingot_type types[] = {INGOT_TYPE_F32, INGOT_TYPE_F16};
    const int d_and_dims[][2] = {{64, 64}, {64, 32}, {128, 128}, {80, 20}, {10, 6}, {2, 2}, {33, 32}, {256, 256}};
    for (size_t m = 0; m < 2; m++)
        for (size_t t = 0; t < 2; t++)
            for (size_t i = 0; i < COUNT(d_and_dims); i++)
                for (size_t l = 0; l < COUNT(layouts); l++) {
                    const int64_t d = d_and_dims[i][0];
                    struct tensor *x = random_new(types[t], d, 3, 5, 2, l);
                    struct tensor *dst =
                        l % 2 ? x : new (types[t], d, 3, 5, 2, (l + i) % COUNT(layouts)); /* odd: in place */
                    struct op_case c = rope_case(dst, x, 5, 60.0, d_and_dims[i][1]);
                    c.node.params.rope.mode = modes[m];
                    case_check(&c, F32_SUMS);
                    check_release();
                }
}

static void rope_scaling(void **state) {
    (void)state;
    for (int variant = 0; variant < 6; variant++)
        for (int neox = 0; neox < 2; neox++) {
            struct op_case c = rope_case(tensor_new(INGOT_TYPE_F32, 96, 2, 7, 1, NULL),
                                         random_new(INGOT_TYPE_F32, 96, 2, 7, 1, PACKED), 7, 200.0, 96);
            ingot_rope_params *p = &c.node.params.rope;
            p->mode = neox ? INGOT_ROPE_NEOX : INGOT_ROPE_NORMAL;
            if (variant == 1) p->freq_scale = 0.25f;
            if (variant == 2) p->freq_base = 500000.0f, p->attn_factor = 1.5f;
            if (variant == 3) p->freq_scale = 0.125f, p->ext_factor = 1.0f;
            if (variant == 4)
                p->freq_scale = 0.25f, p->ext_factor = 0.5f, p->beta_fast = 16.0f, p->beta_slow = 2.0f,
                p->n_ctx_orig = 4096;
            if (variant == 5) {
                c.src[2] = tensor_new(INGOT_TYPE_F32, 48, 1, 1, 1, NULL);
                tensor_fill_random(c.src[2], 1.0, 8.0);
            }
            case_check(&c, F32_SUMS);
            check_release();
        }
}

static void rope_far(void **state) {
    (void)state;
    /* At position 100000 an f32 angle is good to 0.01 rad: the bound says no more than that. */
    struct op_case c = rope_case(tensor_new(INGOT_TYPE_F32, 128, 2, 9, 1, NULL),
                                 random_new(INGOT_TYPE_F32, 128, 2, 9, 1, PACKED), 9, 100000.0, 128);
    case_check(&c, 1e-4);
    tensor_fill(c.src[1], 0.0); /* position 0 turns nothing */
    tensor_poison(c.dst);
    case_check(&c, EXACT);
}

static void rope_slice_R42(void **state) {
    (void)state;
    /* Q out of a merged QKV row: 4 heads of 64, row stride 3*256; against a dense copy, bit for bit. */
    for (int neox = 0; neox < 2; neox++) {
        struct tensor *view =
            tensor_new(INGOT_TYPE_F32, 64, 4, 6, 1, &(struct layout){{0, 512, 0, 0}, {0, 1, 2, 3}, 0});
        struct tensor *dense = tensor_new(INGOT_TYPE_F32, 64, 4, 6, 1, NULL);
        tensor_fill_random(view, -1.0, 1.0);
        for (int64_t n = 0; n < 6; n++)
            for (int64_t h = 0; h < 4; h++)
                for (int64_t i = 0; i < 64; i++) tensor_set(dense, i, h, n, 0, tensor_get(view, i, h, n, 0));
        struct op_case a = rope_case(tensor_new(INGOT_TYPE_F32, 64, 4, 6, 1, NULL), dense, 6, 50.0, 64);
        a.node.params.rope.mode = neox ? INGOT_ROPE_NEOX : INGOT_ROPE_NORMAL;
        struct op_case b = a;
        b.src[0] = view;
        b.dst = tensor_new(INGOT_TYPE_F32, 64, 4, 6, 1, &(struct layout){{0, 64, 0, 0}, {0, 1, 2, 3}, 0});
        case_check(&a, F32_SUMS);
        case_check(&b, F32_SUMS);
        struct op_case in_place = a;
        in_place.src[0] = in_place.dst = view;
        case_check(&in_place, F32_SUMS);
        const double *x = tensor_values(a.dst), *y = tensor_values(b.dst), *z = tensor_values(view);
        assert_memory_equal(x, y, 64 * 4 * 6 * sizeof *x);
        assert_memory_equal(x, z, 64 * 4 * 6 * sizeof *x);
    }
}

static void rope_many_rows(void **state) {
    (void)state;
    struct op_case c = rope_case(tensor_new(INGOT_TYPE_F32, 2, 2, 70000, 1, NULL),
                                 random_new(INGOT_TYPE_F32, 2, 2, 70000, 1, PACKED), 70000, 60.0, 2);
    case_check(&c, F32_SUMS);
}

/* ================================================= Silu, relu, gelu =============================================== */

static void unary_all(void **state) {
    (void)state;
    int op = 0;
    const int64_t n[] = {1, 31, 64, 257};
    for (size_t t = 0; t < COUNT(floats); t++)
        for (size_t i = 0; i < COUNT(n); i++)
            for (size_t l = 0; l < COUNT(layouts); l++, op = (op + 1) % 5) {
                struct tensor *x = new (floats[t], n[i], 3, 2, 2, l);
                tensor_fill_random(x, -12.0, 12.0);
                tensor_set(x, 0, 0, 0, 0, -100.0);
                tensor_set(x, 0, 1, 0, 0, 200.0);
                tensor_set(x, 0, 2, 0, 0, 0.0);
                struct op_case c = op2((ingot_op)(INGOT_OP_SILU + op),
                                       i % 2 ? x : new (floats[t], n[i], 3, 2, 2, (l + i) % COUNT(layouts)), x, NULL);
                case_check(&c, F32_SUMS);
                check_release();
            }
    struct op_case c = op2(INGOT_OP_SILU, tensor_new(INGOT_TYPE_F32, 1, 70000, 2, 1, NULL),
                           random_new(INGOT_TYPE_F32, 1, 70000, 2, 1, GAPPED), NULL);
    case_check(&c, F32_SUMS);
}

/* =================================================== Soft max ===================================================== */

static struct op_case soft_max_case(struct tensor *dst, struct tensor *x, struct tensor *mask, float scale) {
    struct op_case c = op2(INGOT_OP_SOFT_MAX, dst, x, mask);
    c.node.params.soft_max.scale = scale;
    return c;
}

static void mask_random(struct tensor *mask) {
    tensor_fill_random(mask, -3.0, 0.0);
    for (int64_t i1 = 0; i1 < mask->t.ne[1]; i1++)
        for (int64_t i0 = 0; i0 < mask->t.ne[0]; i0++)
            if (check_range(0, 2) == 0 || i1 == 2) tensor_set(mask, i0, i1, 0, 0, -INFINITY); /* row 2: nothing left */
}

static void soft_max_shapes(void **state) {
    (void)state;
    const int64_t n[] = {1, 3, 31, 32, 33, 100, 1000, 5000};
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < COUNT(layouts); l++)
            for (int m = 0; m < 3; m++) { /* no mask, f32, f16 */
                struct tensor *x = new (INGOT_TYPE_F32, n[i], 4, 2, 2, l), *mask = NULL;
                tensor_fill_random(x, -20.0, 20.0);
                if (m) {
                    mask = new (m == 1 ? INGOT_TYPE_F32 : INGOT_TYPE_F16, n[i], 4 + (int64_t)(l % 3), l % 2 ? 2 : 1,
                                i % 2 ? 2 : 1, (l + 1) % COUNT(layouts));
                    mask_random(mask);
                }
                struct op_case c =
                    soft_max_case(i % 2 ? x : new (INGOT_TYPE_F32, n[i], 4, 2, 2, (l + 2) % COUNT(layouts)), x, mask,
                                  (float)check_uniform(0.1, 1.0));
                case_check(&c, F32_SUMS);
                if (m)
                    for (int64_t e = 0; e < n[i]; e++) assert_true(tensor_get(c.dst, e, 2, 0, 0) == 0.0);
                check_release();
            }
}

static void soft_max_range(void **state) {
    (void)state;
    /* Large scores do not overflow; scores far below zero are not taken for masked. */
    struct tensor *x = tensor_new(INGOT_TYPE_F32, 40, 3, 1, 1, NULL);
    for (int64_t i = 0; i < 40; i++) {
        tensor_set(x, i, 0, 0, 0, 30000.0 + (double)i);
        tensor_set(x, i, 1, 0, 0, -500000.0 - (double)(i % 3));
        tensor_set(x, i, 2, 0, 0, -1e30);
    }
    struct op_case c = soft_max_case(tensor_new(INGOT_TYPE_F32, 40, 3, 1, 1, NULL), x, NULL, 1.0f);
    case_check(&c, F32_SUMS);
    c = soft_max_case(tensor_new(INGOT_TYPE_F32, 2, 70000, 2, 1, NULL),
                      random_new(INGOT_TYPE_F32, 2, 70000, 2, 1, GAPPED), NULL, 0.5f);
    case_check(&c, F32_SUMS);
}

/* ============================================= Empty, repeated, failed ============================================ */

/* Each op on shapes without elements: success, nothing written, the next call works. */
static void empty_tensors(void **state) {
    (void)state;
    struct tensor *(*t)(ingot_type, int64_t, int64_t, int64_t, int64_t, const struct layout *) = tensor_new;
    const ingot_type F = INGOT_TYPE_F32, H = INGOT_TYPE_F16, I = INGOT_TYPE_I32, Q = INGOT_TYPE_Q4_0;
    struct op_case cases[] = {
        {.op = INGOT_OP_GET_ROWS,
         .dst = t(F, 32, 0, 1, 1, NULL),
         .src = {t(Q, 32, 4, 1, 1, NULL), t(I, 0, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_SET_ROWS,
         .dst = t(F, 32, 4, 1, 1, NULL),
         .src = {t(F, 32, 0, 1, 1, NULL), t(I, 0, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_CPY, .dst = t(F, 32, 0, 1, 1, NULL), .src = {t(Q, 32, 0, 1, 1, NULL)}},
        {.op = INGOT_OP_CPY, .dst = t(H, 0, 5, 1, 1, NULL), .src = {t(F, 0, 5, 1, 1, NULL)}},
        {.op = INGOT_OP_ADD, .dst = t(F, 5, 0, 1, 1, NULL), .src = {t(F, 5, 0, 1, 1, NULL), t(F, 5, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_MUL, .dst = t(F, 0, 3, 1, 1, NULL), .src = {t(F, 0, 3, 1, 1, NULL), t(F, 1, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_RMS_NORM, .dst = t(F, 32, 0, 1, 1, NULL), .src = {t(F, 32, 0, 1, 1, NULL)}},
        {.op = INGOT_OP_ROPE, .dst = t(F, 32, 2, 0, 1, NULL), .src = {t(F, 32, 2, 0, 1, NULL), t(I, 0, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_SILU, .dst = t(F, 0, 1, 1, 1, NULL), .src = {t(F, 0, 1, 1, 1, NULL)}},
        {.op = INGOT_OP_GLU, .dst = t(F, 4, 0, 1, 1, NULL), .src = {t(F, 8, 0, 1, 1, NULL)}},
        {.op = INGOT_OP_SOFT_MAX, .dst = t(F, 4, 4, 0, 1, NULL), .src = {t(F, 4, 4, 0, 1, NULL)}},
        {.op = INGOT_OP_MUL_MAT,
         .dst = t(F, 4, 0, 1, 1, NULL),
         .src = {t(Q, 32, 4, 1, 1, NULL), t(F, 32, 0, 1, 1, NULL)}},
        {.op = INGOT_OP_MUL_MAT,
         .dst = t(F, 0, 9, 1, 1, NULL),
         .src = {t(H, 32, 0, 1, 1, NULL), t(F, 32, 9, 1, 1, NULL)}},
        {.op = INGOT_OP_ATTENTION,
         .dst = t(F, 8, 2, 0, 1, NULL),
         .src = {t(F, 8, 0, 2, 1, NULL), t(H, 8, 3, 1, 1, NULL), t(H, 8, 3, 1, 1, NULL)}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct op_case *c = &cases[i];
        if (c->op == INGOT_OP_ROPE) c->node.params.rope = rope_plain, c->node.params.rope.n_dims = 32;
        if (c->op == INGOT_OP_ATTENTION) c->node.params.attention.scale = 1.0f;
        if (c->op == INGOT_OP_SOFT_MAX) c->node.params.soft_max.scale = 1.0f;
        tensor_upload(c->dst);
        ingot_node node = case_node(c);
        if (ingot_compute(check_context(), &node) != INGOT_OK)
            check_fail("%s: %s", case_text(c), ingot_error(check_context()));
        check_unchanged(c->dst, case_text(c));
        assert_int_equal(ingot_supports(check_context(), &node), INGOT_OK);
        /* Empty tensors need no memory. */
        node.dst.data = ingot_tensor_elements(&node.dst) ? node.dst.data : NULL;
        if (ingot_compute(check_context(), &node) != INGOT_OK)
            check_fail("%s, null data: %s", case_text(c), ingot_error(check_context()));
    }
    CHECK_OK(ingot_synchronize(check_context()));
    struct op_case c = op2(INGOT_OP_ADD, tensor_new(F, 5, 1, 1, 1, NULL), random_new(F, 5, 1, 1, 1, PACKED),
                           random_new(F, 5, 1, 1, 1, PACKED));
    case_check(&c, EXACT);
}

static void repeated_runs_R65(void **state) {
    (void)state;
    struct op_case c = norm_case(tensor_new(INGOT_TYPE_F32, 1536, 3, 1, 1, NULL),
                                 random_new(INGOT_TYPE_F32, 1536, 3, 1, 1, PACKED), 1e-5f);
    case_repeat(&c, REPEATS);
    c = soft_max_case(tensor_new(INGOT_TYPE_F32, 1001, 3, 1, 1, NULL),
                      random_new(INGOT_TYPE_F32, 1001, 3, 1, 1, PACKED), NULL, 1.0f);
    case_repeat(&c, REPEATS);
    c = rope_case(tensor_new(INGOT_TYPE_F32, 64, 3, 5, 1, NULL), random_new(INGOT_TYPE_F32, 64, 3, 5, 1, PACKED), 5,
                  900.0, 64);
    case_repeat(&c, REPEATS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(binary_broadcast), CHECK_TEST(binary_layouts),    CHECK_TEST(binary_in_place),
        CHECK_TEST(mul_scalar_R43),   CHECK_TEST(binary_many_rows),  CHECK_TEST(rms_norm_shapes),
        CHECK_TEST(rms_norm_values),  CHECK_TEST(rope_modes),        CHECK_TEST(rope_scaling),
        CHECK_TEST(rope_far),         CHECK_TEST(rope_slice_R42),    CHECK_TEST(rope_many_rows),
        CHECK_TEST(unary_all),        CHECK_TEST(soft_max_shapes),   CHECK_TEST(soft_max_range),
        CHECK_TEST(empty_tensors),    CHECK_TEST(repeated_runs_R65),
    };
    return check_main("ops", tests, COUNT(tests));
}
