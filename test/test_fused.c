// SPDX-License-Identifier: MIT
/* test_fused.c - products with what fusion gives them: a bias, a residual, a second product and a gated linear unit, and
 * experts chosen by ids.  Into poisoned memory with gaps they must write bit for bit what the same ops give one by one
 * (where those run on the same kernels), and stay within a bound of float64. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "../src/ops/ops.h"
#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static ingot_type all_types[CHECK_TYPES];
static size_t type_count;
static const ingot_type F32 = INGOT_TYPE_F32;
static const struct layout packed = {{0}, {0}, 0}, gapped = {{3, 2, 1, 0}, {0, 1, 2, 3}, 0},
                           transposed = {{1, 2, 0, 0}, {1, 0, 2, 3}, 0};

static struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, const struct layout *how) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, 1, how);
    tensor_fill_random(t, -1.0, 1.0);
    tensor_upload(t);
    return t;
}

static ingot_status give_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    (void)em;
    struct tensor *t = tensor_new(INGOT_TYPE_I8, (int64_t)bytes, 1, 1, 1, NULL);
    tensor_upload(t);
    *out = t->t.data;
    return INGOT_OK;
}

static ingot_status run_command(struct ingot_emitter *em, const struct ingot_command *command) {
    return ingot_run_command(em->ctx, command);
}

static ingot_status emit(const struct ingot_call *call) {
    struct ingot_emitter em = {.ctx = check_context(), .scratch = give_scratch, .push = run_command};
    int previous;
    CHECK_OK(ingot_enter(check_context(), &previous));
    ingot_status st = ingot_emit(&em, call);
    ingot_leave(check_context(), previous);
    return st;
}

/* One op at once; src[1] may be absent. */
static struct tensor *compute(ingot_node node, int64_t ne0, int64_t ne1, int64_t ne2) {
    struct tensor *t = tensor_new(F32, ne0, ne1, ne2, 1, NULL);
    tensor_upload(t);
    node.dst = t->t;
    CHECK_OK(ingot_compute(check_context(), &node));
    return t;
}

enum form { PLAIN, GATED, HALVES };
enum { NOTHING, A_ROW, A_TENSOR, A_COLUMN_EACH }; /* what is added */

struct fused {
    ingot_type type;
    int64_t k, m, n, ne2, ratio2;
    int64_t experts, used; /* experts > 0: mul_mat_id of n tokens */
    enum form form;
    int add[2];
    bool strided;
    ingot_prec prec;
    ingot_glu_params glu;
};

static struct tensor *addend(const struct fused *f, int what, const struct tensor *dst) {
    if (what == NOTHING) return NULL;
    const int64_t *ne = dst->t.ne;
    const struct layout *how = f->strided ? &gapped : &packed;
    if (what == A_ROW) return random_new(F32, f->m, 1, 1, how);
    return what == A_TENSOR ? random_new(F32, f->m, ne[1], ne[2], how) : random_new(F32, f->m, 1, ne[2], how);
}

/* What the ops give one by one.  `products` receives the sums before GLU, for the reference. */
static struct tensor *one_by_one(const struct fused *f, const struct tensor *w, const struct tensor *w2,
                                 const struct tensor *x, const struct tensor *ids, struct tensor *const add[2],
                                 const int64_t *ne) {
    struct tensor *y[2] = {NULL, NULL};
    const int64_t rows = f->form == HALVES ? 2 * f->m : f->m;
    for (int i = 0; i < (f->form == GATED ? 2 : 1); i++) {
        ingot_node node = {.op = ids ? INGOT_OP_MUL_MAT_ID : INGOT_OP_MUL_MAT,
                           .src = {i ? &w2->t : &w->t, &x->t, ids ? &ids->t : NULL},
                           .params.mul_mat.prec = f->prec};
        y[i] = compute(node, rows, ne[1], ne[2]);
        for (int a = f->form == GATED ? i : 0; a < (f->form == GATED ? i + 1 : 2); a++)
            if (add[a])
                y[i] = compute((ingot_node){.op = INGOT_OP_ADD, .src = {&y[i]->t, &add[a]->t}}, rows, ne[1], ne[2]);
    }
    if (f->form == PLAIN) return y[0];
    return compute((ingot_node){.op = INGOT_OP_GLU, .src = {&y[0]->t, y[1] ? &y[1]->t : NULL}, .params.glu = f->glu},
                   f->m, ne[1], ne[2]);
}

/* What becomes of the sums of one product, or of two. */
static double finished(const struct fused *f, double first, double second) {
    return f->form == PLAIN ? first : ref_glu(&f->glu, first, second);
}

/* The same in float64.  `slack` is what the squares of all errors may amount to: each sum may be off by the root of `share`
 * times the squares of its terms, and what comes after it may make more or less of that. */
static double *in_float64(const struct fused *f, const struct tensor *w, const struct tensor *w2,
                          const struct tensor *x, const struct tensor *ids, struct tensor *const add[2],
                          const int64_t *ne, double share, double *slack) {
    double *out = check_alloc((size_t)(ne[0] * ne[1] * ne[2]) * sizeof *out), *at = out;
    const double *ws[2] = {tensor_values(w), w2 ? tensor_values(w2) : NULL}, *xs = tensor_values(x);
    const int64_t rows = w->t.ne[1], x1 = x->t.ne[1];
    *slack = 0.0;
    for (int64_t i2 = 0; i2 < ne[2]; i2++)
        for (int64_t i1 = 0; i1 < ne[1]; i1++)
            for (int64_t i = 0; i < ne[0]; i++) {
                double y[2] = {0.0, 0.0}, off[2] = {0.0, 0.0};
                for (int p = 0; p < (f->form == PLAIN ? 1 : 2); p++) {
                    const int64_t a2 = ids ? (int64_t)tensor_get(ids, i1, i2, 0, 0) : i2 / f->ratio2;
                    const int64_t row = f->form == HALVES ? i + p * f->m : i;
                    const double *wr = ws[f->form == GATED ? p : 0] + (a2 * rows + row) * f->k;
                    const double *xc = xs + (i2 * x1 + (ids ? i1 % x1 : i1)) * f->k;
                    for (int64_t k = 0; k < f->k; k++) y[p] += wr[k] * xc[k], off[p] += wr[k] * wr[k] * xc[k] * xc[k];
                    off[p] = sqrt(share * off[p]);
                    for (int a = f->form == GATED ? p : 0; a < (f->form == GATED ? p + 1 : 2); a++)
                        if (add[a]) y[p] += tensor_get(add[a], i, i1 % add[a]->t.ne[1], i2 % add[a]->t.ne[2], 0);
                }
                const double value = finished(f, y[0], y[1]);
                double most = 0.0; /* at the corners of where the sums may lie */
                for (int corner = 0; corner < 4; corner++)
                    most = fmax(most, fabs(finished(f, y[0] + (corner % 2 ? off[0] : -off[0]),
                                                    y[1] + (corner / 2 ? off[1] : -off[1])) -
                                           value));
                *slack += most * most + 1e-10 * value * value;
                *at++ = value;
            }
    return out;
}

static const char *text_of(const struct fused *f) {
    char *text = check_alloc(256);
    snprintf(text, 256, "%s k=%d m=%d n=%d ne2=%d/%d experts=%d form=%d kind=%d add=%d,%d strided=%d prec=%d",
             ingot_type_name(f->type), (int)f->k, (int)f->m, (int)f->n, (int)f->ne2, (int)f->ratio2, (int)f->experts,
             (int)f->form, (int)f->glu.kind, f->add[0], f->add[1], f->strided, (int)f->prec);
    return text;
}

static void check_fused(const struct fused *f) {
    const bool chosen = f->experts > 0, plain = !check_is_block(f->type);
    const struct layout rows = {{f->strided ? 1 : 0, f->strided ? 1 : 0, 0, 0},
                                {0, 1, 2, 3},
                                f->strided ? (plain ? ingot_type_size(f->type) : 2) : 0};
    const int64_t m = f->form == HALVES ? 2 * f->m : f->m, matrices = chosen ? f->experts : f->ne2 / f->ratio2;
    struct tensor *w = random_new(f->type, f->k, m, matrices, &rows), *ids = NULL, *x;
    struct tensor *w2 = f->form == GATED ? random_new(f->type, f->k, m, matrices, &rows) : NULL;
    if (chosen) {
        x = random_new(F32, f->k, f->used % 2 ? 1 : 2, f->n, f->strided ? &transposed : &packed);
        ids = tensor_new(INGOT_TYPE_I32, f->used, f->n, 1, 1, f->strided ? &transposed : &packed);
        tensor_fill_random(ids, 0.0, (double)f->experts - 1e-3);
        tensor_upload(ids);
    } else {
        x = random_new(F32, f->k, f->n, f->ne2, f->strided ? &gapped : &packed);
    }
    struct tensor *dst = chosen ? tensor_new(F32, f->m, f->used, f->n, 1, f->strided ? &gapped : &packed)
                                : tensor_new(F32, f->m, f->n, f->ne2, 1, f->strided ? &gapped : &packed);
    tensor_upload(dst);
    struct tensor *add[2] = {addend(f, f->add[0], dst), addend(f, f->add[1], dst)};
    struct ingot_call call = {.op = chosen ? INGOT_OP_MUL_MAT_ID : INGOT_OP_MUL_MAT,
                              .dst = &dst->t,
                              .src = {&w->t, &x->t, chosen ? &ids->t : NULL},
                              .add = {add[0] ? &add[0]->t : NULL, add[1] ? &add[1]->t : NULL},
                              .gated = f->form != PLAIN,
                              .up = w2 ? &w2->t : NULL,
                              .glu = f->glu,
                              .constant_weight = true,
                              .params.params.mul_mat.prec = f->prec};
    if (emit(&call) != INGOT_OK) check_fail("%s: %s", text_of(f), ingot_error(check_context()));
    /* the same bits, unless the product alone goes to cuBLASLt or MMQ: no plan fuses that one */
    struct tensor *alone = one_by_one(f, w, w2, x, ids, add, dst->t.ne);
    struct ingot_call product = call, apart;
    product.add[0] = product.add[1] = NULL, product.gated = false, product.up = NULL;
    apart = product, apart.dst = &alone->t; /* where its strides choose another kernel */
    const bool fusible =
        ingot_mul_mat_is_mat_vec(check_context(), &product) && ingot_mul_mat_is_mat_vec(check_context(), &apart);
    tensor_download(alone), tensor_download(dst);
    check_result(dst, tensor_values(fusible ? alone : dst), 0.0, text_of(f));
    /* Activations in blocks of 32 are off by 1/254 of the largest at most, evenly: 2e-5 of the squares of the terms on the
     * average, of which 1e-3 is seven standard deviations. */
    const bool rounded = !plain && f->prec == INGOT_PREC_DEFAULT;
    double slack, errors = 0.0, *ref = in_float64(f, w, w2, x, ids, add, dst->t.ne, rounded ? 1e-3 : 1e-9, &slack);
    const double *values = tensor_values(dst);
    for (int64_t i = 0; i < ingot_tensor_elements(&dst->t); i++) errors += (values[i] - ref[i]) * (values[i] - ref[i]);
    if (!(errors <= slack))
        check_fail("%s: squares of errors %.3e against float64, at most %.3e expected", text_of(f), errors, slack);
    check_unchanged(w, text_of(f)), check_unchanged(x, text_of(f));
    if (w2) check_unchanged(w2, text_of(f));
    if (ids) check_unchanged(ids, text_of(f));
    for (int i = 0; i < 2; i++)
        if (add[i]) check_unchanged(add[i], text_of(f));
    check_release();
}

static ingot_glu_params kind_of(int i) {
    return (ingot_glu_params){(ingot_glu_kind)(i % 6), 1.702f, 1.25f};
}

static void every_type_and_n(void **state) {
    (void)state;
    int i = 0;
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 8; n++)
            for (int form = PLAIN; form <= HALVES; form++, i++) {
                const int64_t block = ingot_type_block(all_types[t]), unit = block > 1 ? block : 33;
                /* shorter than a warp's reach, several warps, an odd number of blocks */
                const int64_t k[] = {unit, 3 * unit, (4096 / unit + 1) * unit};
                check_fused(&(struct fused){
                    .type = all_types[t],
                    .k = k[i % 3],
                    .m = (int64_t[]){17, 1, 40, 9}[i % 4],
                    .n = n,
                    .ne2 = 1,
                    .ratio2 = 1,
                    .form = (enum form)form,
                    .add = {form == HALVES ? NOTHING : A_ROW + i % 2, form == HALVES ? NOTHING : i / 2 % 2 * A_TENSOR},
                    .strided = i % 5 == 0,
                    .glu = kind_of(i)});
            }
}

/* Pairs of sums and what is added, over matrices: repeated weights, addends repeated over some dimensions. */
static void matrices(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int i = 0; i < 24; i++) {
            const int64_t block = ingot_type_block(all_types[t]);
            const enum form form = (enum form)(i % 3);
            check_fused(&(struct fused){.type = all_types[t],
                                        .k = block > 1 ? block * (1 + i % 3) : 31 + i,
                                        .m = 5 + i,
                                        .n = 1 + i % 4,
                                        .ne2 = 4,
                                        .ratio2 = (int64_t[]){1, 2, 4}[i / 3 % 3],
                                        .form = form,
                                        .add = {form == HALVES ? NOTHING : i % 4, form == HALVES ? NOTHING : i / 4 % 4},
                                        .strided = i % 2,
                                        .glu = kind_of(i / 3)});
        }
}

static void chosen_experts(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int i = 0; i < 30; i++) {
            const int64_t block = ingot_type_block(all_types[t]);
            const enum form form = (enum form)(i % 3);
            check_fused(&(struct fused){.type = all_types[t],
                                        .k = block > 1 ? block * (1 + i % 4) : 40 + 7 * i,
                                        .m = 3 + 2 * i,
                                        .n = 1 + i % 5,
                                        .ne2 = 1,
                                        .ratio2 = 1,
                                        .experts = 1 + i % 6,
                                        .used = 1 + i % 4 + (i % 4 == 2),
                                        .form = form,
                                        .add = {form == HALVES ? NOTHING : i % 4, form == HALVES ? NOTHING : i / 4 % 4},
                                        .strided = i % 2,
                                        .prec = i % 7 == 0 ? INGOT_PREC_F32 : INGOT_PREC_DEFAULT,
                                        .glu = kind_of(i / 3)});
        }
}

/* Many rows: where blocks of a single matrix take the rows of several, pairs do not. */
static void many_rows(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int form = PLAIN; form <= HALVES; form++)
            check_fused(&(struct fused){.type = all_types[t],
                                        .k = ingot_type_block(all_types[t]) > 1 ? ingot_type_block(all_types[t]) : 24,
                                        .m = 8241,
                                        .n = 1,
                                        .ne2 = 1,
                                        .ratio2 = 1,
                                        .form = (enum form)form,
                                        .glu = kind_of((int)t)});
}

static void exact_products(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int form = PLAIN; form <= HALVES; form++)
            check_fused(&(struct fused){.type = all_types[t],
                                        .k = 512,
                                        .m = 19,
                                        .n = 3,
                                        .ne2 = 2,
                                        .ratio2 = 2,
                                        .form = (enum form)form,
                                        .add = {form == HALVES ? NOTHING : A_ROW, NOTHING},
                                        .strided = form == GATED,
                                        .prec = INGOT_PREC_F32,
                                        .glu = kind_of((int)t)});
}

/* An id that chooses nothing gives NaN through whatever follows, and no other expert's rows are touched. */
static void bad_ids(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int form = PLAIN; form <= HALVES; form++)
            for (int kind = 0; kind < (form == PLAIN ? 1 : 6); kind++) {
                const int64_t k = 256, m = 37, rows = form == HALVES ? 2 * m : m;
                struct tensor *w = random_new(all_types[t], k, rows, 3, &packed),
                              *w2 = random_new(all_types[t], k, rows, 3, &packed),
                              *x = random_new(F32, k, 1, 2, &packed),
                              *ids = tensor_new(INGOT_TYPE_I32, 2, 2, 1, 1, NULL),
                              *dst = tensor_new(F32, m, 2, 2, 1, &gapped), *row = random_new(F32, m, 1, 1, &packed);
                const double values[] = {2.0, -1.0, 3.0, 0.0};
                for (int i = 0; i < 4; i++) tensor_set(ids, i % 2, i / 2, 0, 0, values[i]);
                tensor_fill(dst, 1.0), tensor_upload(dst), tensor_upload(ids);
                struct ingot_call call = {.op = INGOT_OP_MUL_MAT_ID,
                                          .dst = &dst->t,
                                          .src = {&w->t, &x->t, &ids->t},
                                          .add = {form == HALVES ? NULL : &row->t},
                                          .gated = form != PLAIN,
                                          .up = form == GATED ? &w2->t : NULL,
                                          .glu = kind_of(kind)};
                CHECK_OK(emit(&call));
                tensor_download(dst);
                for (int i = 0; i < 4; i++)
                    for (int64_t r = 0; r < m; r++)
                        if (isnan(tensor_get(dst, r, i % 2, i / 2, 0)) != (i == 1 || i == 2))
                            check_fail("%s, form %d, kind %d: id %g gives %g in row %d", ingot_type_name(all_types[t]),
                                       form, kind, values[i], tensor_get(dst, r, i % 2, i / 2, 0), (int)r);
                check_release();
            }
}

/* Calls that no plan makes are refused with a text. */
static void refused_calls(void **state) {
    (void)state;
    struct tensor *w = random_new(F32, 32, 8, 1, &packed), *w2 = random_new(F32, 32, 8, 1, &gapped),
                  *odd = random_new(F32, 32, 7, 1, &packed), *x = random_new(F32, 32, 3, 1, &packed),
                  *half = random_new(F32, 4, 3, 1, &packed), *dst = tensor_new(F32, 8, 3, 1, 1, NULL),
                  *three = tensor_new(F32, 3, 3, 1, 1, NULL);
    const ingot_glu_params swiglu = {.kind = INGOT_GLU_SWIGLU}, none = {.kind = (ingot_glu_kind)9};
    tensor_upload(dst), tensor_upload(three);
    struct ingot_call good = {.op = INGOT_OP_MUL_MAT, .dst = &dst->t, .src = {&w->t, &x->t}}, calls[6];
    for (size_t i = 0; i < COUNT(calls); i++) calls[i] = good;
    calls[0].gated = true, calls[0].up = &w2->t, calls[0].glu = swiglu;         /* other strides */
    calls[1].gated = true, calls[1].up = &w->t, calls[1].glu = none;            /* no kind */
    calls[2].gated = true, calls[2].src[0] = &odd->t, calls[2].dst = &three->t; /* no halves */
    calls[3].gated = true, calls[3].glu = swiglu;                               /* dst of both halves */
    calls[4].add[0] = &half->t;                                                 /* too few rows */
    calls[5].gated = true, calls[5].up = &w->t, calls[5].glu = swiglu, calls[5].add[1] = &dst->t; /* not in place */
    for (size_t i = 0; i < COUNT(calls); i++) {
        if (emit(&calls[i]) != INGOT_ERR_INVALID) check_fail("call %d is not refused", (int)i);
        assert_non_null(strstr(ingot_error(check_context()), "mul_mat"));
    }
    check_unchanged(dst, "refused calls"), check_unchanged(three, "refused calls");
    CHECK_OK(emit(&good));
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_type_and_n), CHECK_TEST(matrices), CHECK_TEST(chosen_experts), CHECK_TEST(many_rows),
        CHECK_TEST(exact_products),   CHECK_TEST(bad_ids),  CHECK_TEST(refused_calls),
    };
    return check_main("fused", tests, COUNT(tests));
}
