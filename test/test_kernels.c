// SPDX-License-Identifier: MIT
/* test_kernels.c - one test per row of the kernel table, named by its symbol (drive.h says how a row is tested); the
 * drivers of copies and of products have files of their own. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "drive.h"

/* ================================================ Activations ===================================================== */

static void drive_quantize(const struct ingot_kernel *row) {
    const int64_t k[] = {32, 64, 96, 576, 4128};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++) {
            const int64_t n = i % 2 ? 3 : 1, columns = n * 3 * 2;
            struct tensor *x = filled((ingot_type)row->type, k[i], n, 3, 2, how[l]);
            for (int64_t e = 0; e < 32; e++) {
                tensor_set(x, e, 0, 0, 0, 0.0);                                   /* no scale */
                tensor_set(x, e, 0, 1, 0, (double)(e % 9 - 4) * (e ? 0.5 : 127)); /* ties */
                tensor_set(x, e, 0, 2, 0, check_uniform(-6e4, 6e4));              /* large */
                tensor_set(x, e, 0, 0, 1,
                           check_uniform(-1, 1) * (row->type == INGOT_TYPE_F16 ? 1e-6 : 1e-25)); /* small */
                tensor_set(x, e, 0, 1, 1, e == 31 ? -127.0 : (double)e - 15.5);
            }
            struct q8 q = q8_new(k[i], columns);
            struct op_case c = {.op = INGOT_OP_CPY, .src = {x}}; /* op: for the text only */
            upload_all(&c);
            emit(&c, INGOT_OP_QUANTIZE, &(struct extras){.q8_out = q.arg, .no_dst = true});
            q8_check(q, tensor_values(x), k[i], columns, case_text(&c));
            check_unchanged(x, case_text(&c));
            next_case();
        }
}

static void drive_rms_norm(const struct ingot_kernel *row) {
    const int64_t k[] = {1, 31, 32, 33, 96, 576, 1536, 4096, 4128, 5003, 9216};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    (void)row;
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++) {
            struct op_case c = {.op = INGOT_OP_RMS_NORM, .src = {filled(INGOT_TYPE_F32, k[i], 3, 2, 1, how[l])}};
            c.node.params.rms_norm.eps = 1e-5f;
            c.dst = tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 1, how[(l + i) % 4]);
            check_row(&c, F32_SUMS);
            /* Multiplied with a row. */
            struct tensor *weight = filled(INGOT_TYPE_F32, k[i], 1, 1, 1, NULL);
            double *ref = case_reference(&c);
            for (int64_t e = 0; e < k[i] * 6; e++) ref[e] *= tensor_get(weight, e % k[i], 0, 0, 0);
            tensor_upload(weight);
            tensor_poison(c.dst);
            upload_all(&c);
            emit(&c, (int)c.op, &(struct extras){.mul = weight});
            check_result(c.dst, ref, F32_SUMS, "norm times a row");
            check_unchanged(weight, "norm times a row");
            if (k[i] % 32 == 0) {
                tensor_poison(c.dst);
                check_with_q8(&c, F32_SUMS, ref, (struct extras){.mul = weight}, k[i]);
                tensor_poison(c.dst);
                check_with_q8(&c, F32_SUMS, case_reference(&c), (struct extras){0}, k[i]);
            }
            next_case();
        }
}

/* =============================================== Element-wise ===================================================== */

static void drive_binary(const struct ingot_kernel *row) {
    const int64_t n[] = {1, 7, 8, 32, 65, 1030},
                  b[][4] = {{0, 5, 4, 2}, {0, 1, 1, 1}, {1, 1, 1, 1}, {1, 5, 2, 1}, {0, 5, 1, 2}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t s = 0; s < COUNT(b); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const size_t l = i + s;
                struct op_case c = {.op = row->family == INGOT_FAMILY_ADD ? INGOT_OP_ADD : INGOT_OP_MUL};
                c.src[0] = filled(type, n[i], 5, 4, 2, how[l % 4]);
                c.src[1] = filled((ingot_type)row->tile, b[s][0] ? b[s][0] : n[i], b[s][1], b[s][2], b[s][3],
                                  how[(l + 1) % 4]);
                c.dst = in_place ? c.src[0] : tensor_new(type, n[i], 5, 4, 2, how[(l / 2) % 4]);
                check_row(&c, type == INGOT_TYPE_F32 ? EXACT : 1e-4);
                next_case();
            }
}

static void drive_unary(const struct ingot_kernel *row) {
    const int64_t n[] = {1, 7, 8, 33, 64, 1030};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < 4; l++) {
            struct tensor *x = tensor_new((ingot_type)row->type, n[i], 5, 3, 2, how[l]);
            tensor_fill_random(x, -15.0, 15.0);
            tensor_set(x, 0, 0, 0, 0, -200.0), tensor_set(x, 0, 1, 0, 0, 200.0);
            struct op_case c = {.op = (ingot_op)(INGOT_OP_SILU + (i + l) % 5), .src = {x}};
            c.dst = i % 2 ? x : tensor_new((ingot_type)row->type, n[i], 5, 3, 2, how[(l + i) % 4]);
            check_row(&c, F32_SUMS);
            next_case();
        }
}

static void drive_glu(const struct ingot_kernel *row) {
    int kind = 0;
    const int64_t n[] = {1, 7, 32, 33, 64, 1536};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < 4; l++)
            for (int split = 0; split < 2; split++) {
                struct op_case c = {.op = INGOT_OP_GLU,
                                    .src = {filled(type, split ? 2 * n[i] : n[i], 3, 2, 2, how[l])}};
                if (!split) c.src[1] = filled(type, n[i], 3, 2, 2, how[(l + 1) % 4]);
                c.node.params.glu = (ingot_glu_params){(ingot_glu_kind)(kind++ % 6), 1.702f, 1.5f};
                c.dst = tensor_new(type, n[i], 3, 2, 2, how[(l + i) % 4]);
                check_row(&c, F32_SUMS);
                if (type == INGOT_TYPE_F32 && n[i] % 32 == 0) {
                    tensor_poison(c.dst);
                    check_with_q8(&c, F32_SUMS, case_reference(&c), (struct extras){0}, n[i]);
                }
                next_case();
            }
}

static void drive_rope(const struct ingot_kernel *row) {
    const int d[][2] = {{2, 2}, {33, 20}, {64, 64}, {128, 64}, {80, 80}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(d); i++)
        for (size_t l = 0; l < 4; l++)
            for (int variant = 0; variant < 4; variant++) {
                struct op_case c = {.op = INGOT_OP_ROPE, .src = {filled(type, d[i][0], 3, 4, 2, how[l])}};
                c.src[1] = tensor_new(INGOT_TYPE_I32, 4, 1, 1, 1, how[l]);
                tensor_fill_random(c.src[1], 0.0, 90.0);
                if (variant == 3) {
                    c.src[2] = tensor_new(INGOT_TYPE_F32, d[i][1] / 2, 1, 1, 1, NULL);
                    tensor_fill_random(c.src[2], 1.0, 4.0);
                }
                c.node.params.rope = (ingot_rope_params){.mode = variant % 2 ? INGOT_ROPE_NEOX : INGOT_ROPE_NORMAL,
                                                         .n_dims = d[i][1],
                                                         .n_ctx_orig = 2048,
                                                         .freq_base = 10000.0f,
                                                         .freq_scale = variant == 2 ? 0.25f : 1.0f,
                                                         .ext_factor = variant == 2 ? 1.0f : 0.0f,
                                                         .attn_factor = variant == 1 ? 1.25f : 1.0f,
                                                         .beta_fast = 32.0f,
                                                         .beta_slow = 1.0f};
                c.dst = l % 2 ? c.src[0] : tensor_new(type, d[i][0], 3, 4, 2, how[(l + i) % 4]);
                check_row(&c, F32_SUMS);
                next_case();
            }
}

static void drive_soft_max(const struct ingot_kernel *row) {
    const int64_t k[] = {1, 3, 32, 33, 577, 1030, 5001};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++)
            for (int masked = row->tile != INGOT_TYPE_F32; masked < 2; masked++) {
                struct op_case c = {.op = INGOT_OP_SOFT_MAX,
                                    .src = {tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 2, how[l])}};
                tensor_fill_random(c.src[0], -30.0, 30.0);
                if (masked) {
                    c.src[1] = tensor_new((ingot_type)row->tile, k[i], 3 + (int64_t)(l % 2), 1 + (int64_t)(i % 2), 1,
                                          how[(l + 1) % 4]);
                    tensor_fill_random(c.src[1], -4.0, 0.0);
                    for (int64_t e = 0; e < k[i]; e++)
                        tensor_set(c.src[1], e, 1, 0, 0, -INFINITY); /* a row with nothing left */
                    tensor_set(c.src[1], k[i] - 1, 0, 0, 0, -INFINITY);
                    tensor_set(c.src[1], 0, 0, 0, 0, 0.0);
                }
                c.node.params.soft_max.scale = 0.37f;
                c.dst = i % 2 ? c.src[0] : tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 2, how[(l + 2) % 4]);
                check_row(&c, F32_SUMS);
                next_case();
            }
}

/* ================================================= Attention ====================================================== */

static void drive_attention(const struct ingot_kernel *row) {
    const int64_t head = row->tile, d[] = {head, head - 8, head / 2 + 8, 8, head - 1};
    const int64_t keys[] = {1, 31, 33, 65, 257}, heads[][2] = {{1, 1}, {2, 1}, {6, 2}, {9, 3}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(d); i++)
        for (size_t s = 0; s < COUNT(keys); s++) {
            const int64_t *h = heads[(i + s) % COUNT(heads)], n_q = 1 + (int64_t)(s % 3);
            struct op_case c = {.op = INGOT_OP_ATTENTION};
            c.src[0] = filled(INGOT_TYPE_F32, d[i], n_q, h[0], 2, how[s % 4]);
            c.src[1] = filled((ingot_type)row->type, d[i], keys[s], h[1], 2, how[(s + i) % 4]);
            c.src[2] = filled((ingot_type)row->type, d[i], keys[s], h[1], 2, how[i % 4]);
            c.dst = tensor_new(INGOT_TYPE_F32, d[i], h[0], n_q, 2, how[(s + 1) % 4]);
            c.node.params.attention.scale = (float)(1.0 / sqrt((double)d[i]));
            c.node.params.attention.causal = (int)((i + s) % 2);
            if (s % 2) {
                c.src[3] = tensor_new(INGOT_TYPE_I32, i % 2 ? 2 : 1, 1, 1, 1, NULL);
                tensor_fill_random(c.src[3], 0.0, (double)keys[s] + 3.0);
            }
            check_row(&c, 1e-6);
            if (d[i] % 32 == 0) { /* column (i, b) holds all heads: rows of dst are h*d long */
                tensor_poison(c.dst);
                check_with_q8(&c, 1e-6, case_reference(&c), (struct extras){0}, d[i] * h[0]);
            }
            next_case();
        }
}

/* ================================================== The table ===================================================== */

static driver *const drivers[INGOT_FAMILY_COUNT] = {
    [INGOT_FAMILY_DEQUANT] = drive_dequant,
    [INGOT_FAMILY_COPY] = drive_copy,
    [INGOT_FAMILY_MOVE] = drive_move,
    [INGOT_FAMILY_QUANTIZE] = drive_quantize,
    [INGOT_FAMILY_MMVQ] = drive_mmvq,
    [INGOT_FAMILY_MMVF] = drive_mmvf,
    [INGOT_FAMILY_MMVQ_RING] = drive_stream,
    [INGOT_FAMILY_MMVQ_MMA] = drive_stream,
    [INGOT_FAMILY_MMQ] = drive_mmq,
    [INGOT_FAMILY_MMVF_RING] = drive_mmvf_ring,
    [INGOT_FAMILY_MMVF_WIDE] = drive_mmvf_wide,
    [INGOT_FAMILY_GET_ROWS] = drive_get_rows,
    [INGOT_FAMILY_SET_ROWS] = drive_set_rows,
    [INGOT_FAMILY_ADD] = drive_binary,
    [INGOT_FAMILY_MUL] = drive_binary,
    [INGOT_FAMILY_RMS_NORM] = drive_rms_norm,
    [INGOT_FAMILY_ROPE] = drive_rope,
    [INGOT_FAMILY_UNARY] = drive_unary,
    [INGOT_FAMILY_GLU] = drive_glu,
    [INGOT_FAMILY_SOFT_MAX] = drive_soft_max,
    [INGOT_FAMILY_ATTN] = drive_attention,
};

static void test_row(void **state) {
    const struct ingot_kernel *row = *state;
    if (!drivers[row->family])
        check_fail("%s: family %s has no driver", row->symbol, ingot_family_name((enum ingot_family)row->family));
    if (!only_begin(row)) {
        print_message("%s: this device has no code for it\n", row->symbol);
        skip();
    }
    drivers[row->family](row);
}

int main(void) {
    struct CMUnitTest *tests = calloc((size_t)ingot_kernel_count + 1, sizeof *tests);
    if (!tests) return 1;
    for (int i = 0; i < ingot_kernel_count; i++)
        tests[i] = (struct CMUnitTest){ingot_kernels[i].symbol, test_row, NULL, only_end, (void *)&ingot_kernels[i]};
    if (ingot_kernel_count == 0) fprintf(stderr, "the build has no kernels\n");
    int failed = ingot_kernel_count ? check_main("kernels", tests, (size_t)ingot_kernel_count) : 1;
    free(tests);
    return failed;
}
