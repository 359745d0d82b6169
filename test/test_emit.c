// SPDX-License-Identifier: MIT
/* test_emit.c - what the planner asks of the ops beyond the public calls: products, sums and roundings that fusion adds
 * give the bits of the separate ops, one launch serves what can be one launch, and a plan made without data asks for
 * the scratch that the run takes. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "../src/ops/ops.h"
#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const ingot_type F32 = INGOT_TYPE_F32, F16 = INGOT_TYPE_F16;

/* Launches at once like ingot_compute, and keeps count. */
struct counter {
    struct ingot_emitter em;
    void *blocks[8];
    int block_count, launches, gemms;
    size_t bytes;
    int64_t grid;       /* of the last launch */
    const char *symbol; /* likewise */
};

static ingot_status count_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    struct counter *c = (struct counter *)em;
    c->bytes += bytes;
    *out = (void *)(uintptr_t)256;
    if (em->dry) return INGOT_OK;
    assert_true(c->block_count < COUNT(c->blocks));
    const ingot_status st = ingot_pool_alloc(em->ctx, em->ctx->pool, bytes, out);
    if (st == INGOT_OK) c->blocks[c->block_count++] = *out;
    return st;
}

static ingot_status count_push(struct ingot_emitter *em, const struct ingot_command *command) {
    struct counter *c = (struct counter *)em;
    if (command->kind == INGOT_COMMAND_GEMM) {
        c->gemms++;
    } else {
        c->launches++;
        c->grid = command->grid.blocks;
        c->symbol = command->kernel->symbol;
    }
    return em->dry ? INGOT_OK : ingot_run_command(em->ctx, command);
}

static struct counter emit(const struct ingot_call *call, bool dry) {
    struct counter c = {.em = {.ctx = check_context(), .dry = dry, .scratch = count_scratch, .push = count_push}};
    CHECK_OK(ingot_emit(&c.em, call));
    while (c.block_count > 0) ingot_pool_free(check_context()->pool, c.blocks[--c.block_count]);
    return c;
}

static struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, ne3, NULL);
    tensor_fill_random(t, -2.0, 2.0);
    tensor_upload(t);
    return t;
}

static struct tensor *result_new(int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    struct tensor *t = tensor_new(F32, ne0, ne1, ne2, ne3, NULL);
    tensor_upload(t);
    return t;
}

/* A tensor of bytes with room for x's q8 columns. */
static struct tensor *q8_new(const struct tensor *x) {
    struct tensor *t = tensor_new(INGOT_TYPE_I8, (int64_t)ingot_q8_bytes(&x->t), 1, 1, 1, NULL);
    tensor_upload(t);
    return t;
}

static void same_bytes(struct tensor *a, struct tensor *b, const char *what) {
    tensor_download(a), tensor_download(b);
    const size_t bytes = ingot_tensor_size(&a->t);
    assert_int_equal(bytes, ingot_tensor_size(&b->t));
    if (memcmp(tensor_at(a, 0, 0, 0, 0), tensor_at(b, 0, 0, 0, 0), bytes) != 0)
        check_fail("%s: the bytes differ", what);
}

/* The call, also rounding to q8, with dst and without, against the call followed by QUANTIZE. */
static void check_q8_out(struct ingot_call call, int64_t k, int64_t ne1, int64_t ne2, int64_t ne3) {
    const char *name = ingot_op_name((ingot_op)call.op);
    struct tensor *plain = result_new(k, ne1, ne2, ne3), *fused = result_new(k, ne1, ne2, ne3);
    struct tensor *q8[3] = {q8_new(plain), q8_new(plain), q8_new(plain)};
    struct ingot_call quantize = {.op = INGOT_OP_QUANTIZE, .src = {&plain->t}, .want_q8_out = true};

    call.dst = &plain->t;
    emit(&call, false);
    quantize.q8_out = ingot_q8_at(q8[0]->t.data, &plain->t);
    emit(&quantize, false);
    call.want_q8_out = true;
    call.dst = &fused->t;
    call.q8_out = ingot_q8_at(q8[1]->t.data, &plain->t);
    assert_int_equal(emit(&call, false).launches, 1);
    call.dst = NULL;
    call.q8_out = ingot_q8_at(q8[2]->t.data, &plain->t);
    assert_int_equal(emit(&call, false).launches, 1);
    same_bytes(plain, fused, name);
    same_bytes(q8[0], q8[1], name);
    same_bytes(q8[0], q8[2], name);
}

static void results_rounded_on_the_way(void **state) {
    (void)state;
    for (int64_t k = 32; k <= 1184; k = k * 3 - 32) {
        struct tensor *x = random_new(F32, k, 5, 2, 3), *up = random_new(F32, k, 5, 2, 3),
                      *mul = random_new(F32, k, 1, 1, 1);
        struct tensor *halves = random_new(F32, 2 * k, 3, 1, 1);
        struct ingot_call norm = {.op = INGOT_OP_RMS_NORM, .src = {&x->t}},
                          glu = {.op = INGOT_OP_GLU, .src = {&x->t, &up->t}};
        struct ingot_call split = {.op = INGOT_OP_GLU, .src = {&halves->t}};
        check_q8_out(norm, k, 5, 2, 3);
        norm.mul = &mul->t;
        check_q8_out(norm, k, 5, 2, 3);
        check_q8_out(glu, k, 5, 2, 3);
        check_q8_out(split, k, 3, 1, 1);
        check_release();
    }
    for (int64_t d = 32; d <= 256; d *= 2) {
        struct tensor *q = random_new(F32, d, 3, 6, 2), *k = random_new(F16, d, 9, 2, 2),
                      *v = random_new(F16, d, 9, 2, 2);
        struct ingot_call attention = {.op = INGOT_OP_ATTENTION, .src = {&q->t, &k->t, &v->t}};
        attention.params.params.attention = (ingot_attention_params){0.1f, 1};
        check_q8_out(attention, d, 6, 3, 2);
        check_release();
    }
}

static void norm_times_a_row(void **state) {
    (void)state;
    const struct layout gapped = {.gap = {0}, .order = {1, 0, 2, 3}};
    for (int64_t k = 1; k <= 5000; k = k * 4 + 3) {
        struct tensor *x = random_new(F32, k, 4, 1, 1), *y = result_new(k, 4, 1, 1);
        struct tensor *rows = tensor_new(F32, k, 3, 1, 1, &gapped); /* its rows have gaps between their elements */
        tensor_fill_random(rows, -2.0, 2.0);
        tensor_upload(rows);
        ingot_tensor mul = rows->t;
        mul.ne[1] = 1;
        double *ref = tensor_values(x), *row = tensor_values(rows);
        for (int64_t j = 0; j < 4; j++) {
            double sum = 0.0;
            for (int64_t i = 0; i < k; i++) sum += ref[j * k + i] * ref[j * k + i];
            for (int64_t i = 0; i < k; i++) ref[j * k + i] *= row[i] / sqrt(sum / (double)k + 1e-6f);
        }
        struct ingot_call call = {.op = INGOT_OP_RMS_NORM, .dst = &y->t, .src = {&x->t}, .mul = &mul};
        call.params.params.rms_norm.eps = 1e-6f;
        emit(&call, false);
        check_result(y, ref, 1e-10, "rms_norm times a row");
        check_release();
    }
}

/* Product and sum of the same bits as alone; the sum also in place. */
static void products_with_sums(void **state) {
    (void)state;
    ingot_type types[CHECK_TYPES];
    const int type_count = (int)check_types(types);
    for (int t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 8; n += n == 1 ? 2 : 5) {
            struct tensor *a = random_new(types[t], 256, 19, 2, 1), *b = random_new(F32, 256, n, 2, 1);
            struct tensor *add = random_new(F32, 19, n, 2, 1), *y = result_new(19, n, 2, 1),
                          *z = result_new(19, n, 2, 1);
            struct tensor *q8 = q8_new(b);
            ingot_tensor no_floats = b->t;
            struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .dst = &y->t, .src = {&a->t, &b->t}};
            assert_true(ingot_mul_mat_takes_add(check_context(), &call, &add->t));
            emit(&call, false);
            tensor_download(y);
            double *ref = tensor_values(y), *more = tensor_values(add);
            for (int64_t i = 0; i < 19 * n * 2; i++) ref[i] = (double)((float)ref[i] + (float)more[i]);
            call.add[0] = &add->t;
            call.dst = &z->t;
            emit(&call, false);
            check_result(z, ref, 0.0, "product and sum");
            if (ingot_mul_mat_wants_q8(check_context(), &call)) {
                struct ingot_call quantize = {.op = INGOT_OP_QUANTIZE,
                                              .src = {&b->t},
                                              .want_q8_out = true,
                                              .q8_out = ingot_q8_at(q8->t.data, &b->t)};
                emit(&quantize, false);
                no_floats.data = NULL;
                call.src[1] = &no_floats;
                call.have_q8_in = true;
                call.q8_in = quantize.q8_out;
                assert_int_equal(emit(&call, false).launches, 1);
                check_result(z, ref, 0.0, "product of rounded columns and sum");
            }
            call.dst = &add->t;
            emit(&call, false);
            check_result(add, ref, 0.0, "product added in place");
            check_release();
        }
}

/* A repeated over dimensions 2 and 3 is one matrix with more columns. */
static void repeats_are_folded(void **state) {
    (void)state;
    struct {
        int64_t a2, a3, n, b2, b3;
        int tile;
    } cases[] = {{1, 1, 2, 4, 1, 8}, {1, 1, 1, 2, 1, 2}, {1, 1, 1, 2, 2, 4},
                 {2, 1, 1, 8, 1, 4}, {2, 1, 3, 2, 1, 4}, {1, 1, 1, 1, 7, 8}};
    for (int i = 0; i < COUNT(cases); i++) {
        struct tensor *a = random_new(F16, 64, 16, cases[i].a2, cases[i].a3),
                      *b = random_new(F32, 64, cases[i].n, cases[i].b2, cases[i].b3);
        struct tensor *y = result_new(16, cases[i].n, cases[i].b2, cases[i].b3);
        struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .dst = &y->t, .src = {&a->t, &b->t}};
        const struct counter c = emit(&call, false);
        char tile[32];
        snprintf(tile, sizeof tile, "ingot_mmvf_f16_n%d_", cases[i].tile);
        if (c.launches != 1 || strncmp(c.symbol, tile, strlen(tile)) != 0 || c.grid != cases[i].a2 * cases[i].a3)
            check_fail("case %d: %d launches, the last %s with %d blocks; expected one of %s", i, c.launches, c.symbol,
                       (int)c.grid, tile);
        check_release();
    }
}

/* The planner measures scratch without data, then binds. */
static void scratch_does_not_depend_on_data(void **state) {
    (void)state;
    ingot_type a_types[CHECK_TYPES];
    const int a_count = (int)check_types(a_types);
    const ingot_type b_types[] = {F32, F16, INGOT_TYPE_BF16};
    const struct layout layouts[] = {
        {{0}, {0}, 0}, {{1, 1, 1, 0}, {0, 1, 2, 3}, 4}, {{0}, {1, 0, 2, 3}, 0}, {{0}, {0, 2, 1, 3}, 0}};
    for (int t = 0; t < a_count * COUNT(b_types) * 2; t++)
        for (int l = 0; l < COUNT(layouts) * COUNT(layouts); l++)
            for (int64_t n = 1; n <= 12; n += 11) {
                const ingot_type a_type = a_types[t / 2 / COUNT(b_types)], b_type = b_types[t / 2 % COUNT(b_types)];
                const struct layout *other = &layouts[l % COUNT(layouts)], *for_a = &layouts[l / COUNT(layouts)];
                if (check_is_block(a_type) && for_a->order[0] == 1) continue;
                struct tensor *a = tensor_new(a_type, 256, 4, 2, 1, for_a),
                              *b = tensor_new(b_type, 256, n, 4, 1, other);
                struct tensor *y = tensor_new(F32, 4, n, 4, 1, other);
                tensor_fill_random(a, -1.0, 1.0), tensor_fill_random(b, -1.0, 1.0);
                tensor_upload(a), tensor_upload(b), tensor_upload(y);
                struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .dst = &y->t, .src = {&a->t, &b->t}};
                call.params.params.mul_mat.prec = (ingot_prec)(t % 2);
                const struct counter bound = emit(&call, false);
                ingot_tensor bare[3] = {a->t, b->t, y->t};
                for (int i = 0; i < 3; i++) bare[i].data = NULL;
                call.src[0] = &bare[0], call.src[1] = &bare[1], call.dst = &bare[2];
                const struct counter dry = emit(&call, true);
                if (dry.bytes != bound.bytes || dry.launches != bound.launches || dry.gemms != bound.gemms)
                    check_fail(
                        "%s x %s, n=%d, layouts %d: %zu bytes, %d launches dry; %zu bytes, %d launches with data",
                        ingot_type_name(a_type), ingot_type_name(b_type), (int)n, l, dry.bytes, dry.launches,
                        bound.bytes, bound.launches);
                check_release();
            }
}

/* Where cuBLASLt is there: how many GEMMs a batched product takes. */
static void gemms_are_batched(void **state) {
    (void)state;
    if (check_context()->blas == NULL) skip();
    struct {
        int64_t a2, a3, b2, b3;
        int gemms;
    } cases[] = {{1, 1, 1, 1, 1}, {4, 1, 4, 1, 1}, {1, 1, 4, 3, 1}, {4, 3, 4, 3, 1},
                 {2, 1, 8, 1, 1}, {2, 1, 2, 3, 3}, {1, 3, 1, 3, 1}};
    for (int i = 0; i < COUNT(cases); i++) {
        struct tensor *a = random_new(F16, 64, 16, cases[i].a2, cases[i].a3),
                      *b = random_new(F16, 64, 24, cases[i].b2, cases[i].b3);
        struct tensor *y = result_new(16, 24, cases[i].b2, cases[i].b3);
        struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .dst = &y->t, .src = {&a->t, &b->t}};
        const struct counter c = emit(&call, false);
        if (c.gemms != cases[i].gemms || c.launches != 0)
            check_fail("case %d: %d GEMMs and %d launches, expected %d GEMMs", i, c.gemms, c.launches, cases[i].gemms);
        check_release();
    }
}

/* More blocks than a grid holds is a refusal with a text, not a truncated grid. */
static void grids_end(void **state) {
    (void)state;
    ingot_tensor x, y;
    assert_int_equal(ingot_tensor_init(&x, F32, 3, (int64_t[]){1, 1 << 20, 1 << 14}, NULL), INGOT_OK);
    y = x;
    ingot_node node = {.op = INGOT_OP_RMS_NORM, .dst = y, .src = {&x}};
    CHECK_STATUS(ingot_supports(check_context(), &node), INGOT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ingot_error(check_context()), "2^31-1"));
    assert_non_null(strstr(ingot_error(check_context()), "rms_norm"));
    x.ne[2] = node.dst.ne[2] = 1 << 10;
    CHECK_OK(ingot_supports(check_context(), &node));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(results_rounded_on_the_way),
        CHECK_TEST(norm_times_a_row),
        CHECK_TEST(products_with_sums),
        CHECK_TEST(repeats_are_folded),
        CHECK_TEST(scratch_does_not_depend_on_data),
        CHECK_TEST(gemms_are_batched),
        CHECK_TEST(grids_end),
    };
    return check_main("emit", tests, COUNT(tests));
}
