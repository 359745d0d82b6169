// SPDX-License-Identifier: MIT
/* test_ops.c - every public op through ingot_compute against float64: shapes, strides, broadcast, in place, empty
 * tensors, row counts above 65535, odd alignment, and the cases of field reports that name an input (R numbers). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Bounds of NMSE. */
static const double EXACT = 0.0, F32_SUMS = 1e-10, Q8_ACTIVATIONS = 5e-4;

static const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
static ingot_type all_types[CHECK_TYPES]; /* three plain ones, then the block formats of the build */
static size_t type_count;

/* Memory layouts that every op must honour: packed, gaps everywhere, rows and matrices swapped, transposed (elements of
 * a row apart), an address that is aligned to one element only. */
static const struct layout layouts[] = {
    {{0}, {0}, 0},
    {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
    {{1, 0, 2, 0}, {0, 2, 1, 3}, 0},
    {{1, 2, 0, 0}, {1, 0, 2, 3}, 0},
    {{1, 0, 0, 0}, {0, 1, 2, 3}, 4},
};
enum { PACKED, GAPPED, SWAPPED, TRANSPOSED, SHIFTED };

/* The layout with an offset of one element for a narrower type. */
static struct layout layout_for(ingot_type type, size_t which) {
    struct layout l = layouts[which];
    if (l.offset) l.offset = ingot_type_size(type);
    return l;
}

static struct tensor *new (ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t which) {
    struct layout l = layout_for(type, which);
    return tensor_new(type, ne0, ne1, ne2, ne3, &l);
}

static struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t which) {
    struct tensor *t = new (type, ne0, ne1, ne2, ne3, which);
    tensor_fill_random(t, -2.0, 2.0);
    return t;
}

static struct op_case op2(ingot_op op, struct tensor *dst, struct tensor *a, struct tensor *b) {
    return (struct op_case){.op = op, .dst = dst, .src = {a, b}};
}

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
    enum { TIMES = 20 };
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 17; n += 8) {
            const int64_t k = whole_blocks(all_types[t], 576);
            struct op_case c = mul_mat_case(random_new(all_types[t], k, 67, 1, 1, PACKED),
                                            random_new(INGOT_TYPE_F32, k, n, 1, 1, PACKED), INGOT_PREC_DEFAULT, PACKED);
            case_repeat(&c, TIMES);
            check_release();
        }
    struct op_case c = attention_case(64, 3, 6, 2, 301, 1, PACKED);
    case_repeat(&c, TIMES);
    c = norm_case(tensor_new(INGOT_TYPE_F32, 1536, 3, 1, 1, NULL), random_new(INGOT_TYPE_F32, 1536, 3, 1, 1, PACKED),
                  1e-5f);
    case_repeat(&c, TIMES);
    c = soft_max_case(tensor_new(INGOT_TYPE_F32, 1001, 3, 1, 1, NULL),
                      random_new(INGOT_TYPE_F32, 1001, 3, 1, 1, PACKED), NULL, 1.0f);
    case_repeat(&c, TIMES);
    c = rope_case(tensor_new(INGOT_TYPE_F32, 64, 3, 5, 1, NULL), random_new(INGOT_TYPE_F32, 64, 3, 5, 1, PACKED), 5,
                  900.0, 64);
    case_repeat(&c, TIMES);
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(get_rows_types),
        CHECK_TEST(get_rows_odd),
        CHECK_TEST(get_rows_bad_ids),
        CHECK_TEST(get_rows_many_R14),
        CHECK_TEST(set_rows_types),
        CHECK_TEST(set_rows_bad_ids),
        CHECK_TEST(set_rows_narrow_R67),
        CHECK_TEST(cpy_plain),
        CHECK_TEST(cpy_reshaped),
        CHECK_TEST(cpy_blocks),
        CHECK_TEST(cpy_many_rows_R13),
        CHECK_TEST(cpy_overflow_R56),
        CHECK_TEST(binary_broadcast),
        CHECK_TEST(binary_layouts),
        CHECK_TEST(binary_in_place),
        CHECK_TEST(mul_scalar_R43),
        CHECK_TEST(binary_many_rows),
        CHECK_TEST(rms_norm_shapes),
        CHECK_TEST(rms_norm_values),
        CHECK_TEST(rope_modes),
        CHECK_TEST(rope_scaling),
        CHECK_TEST(rope_far),
        CHECK_TEST(rope_slice_R42),
        CHECK_TEST(rope_many_rows),
        CHECK_TEST(unary_all),
        CHECK_TEST(soft_max_shapes),
        CHECK_TEST(soft_max_range),
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
        CHECK_TEST(attention_heads),
        CHECK_TEST(attention_lengths_R64),
        CHECK_TEST(attention_device_length),
        CHECK_TEST(attention_causal),
        CHECK_TEST(attention_sums_R50),
        CHECK_TEST(attention_large_scores_R51),
        CHECK_TEST(attention_low_scores_R52),
        CHECK_TEST(attention_many_rows),
        CHECK_TEST(empty_tensors),
        CHECK_TEST(repeated_runs_R65),
    };
    return check_main("ops", tests, COUNT(tests));
}
