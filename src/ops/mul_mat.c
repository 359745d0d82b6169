// SPDX-License-Identifier: MIT
/* mul_mat.c - matrix products: which path a product takes, and the conversions that path needs.
 *
 *   weights       few columns          many columns, cuBLASLt     many columns without it
 *   block format  B to q8, MMVQ        A and B to f16, GEMM       B to q8, MMQ
 *   f32 f16 bf16  B to f32, MMVF       B to A's type, GEMM        B to f32, MMVF
 *
 * MUL_MAT_ID is the left column, whatever the number of tokens: dst's matrices are pairs of an expert and a token, of
 * one column each, and the kernel looks the expert's matrix up.
 *
 * With prec F32 a block format is decoded to f32 first, and the GEMM is one of f32; a format without a mat-vec kernel
 * (q8_1, q8_K) is decoded to f32 for few columns too.  Conversions that change nothing are left out.  Which path is taken
 * depends on types, shapes and strides alone, never on pointers: a plan made without data must ask for the scratch that
 * the run needs. */
#include "mmv.h"

enum path { PATH_NONE, PATH_MMVQ, PATH_MMQ, PATH_MMVF, PATH_GEMM };

/* What is multiplied after dimensions are folded: A repeated over dimension 2 or 3 of B is one matrix with more columns
 * whenever those lie one stride apart. */
struct product {
    ingot_tensor a, b, d, add[2];
    bool has_add[2];
    ingot_tensor up;         /* gated: the second weights */
    const ingot_tensor *ids; /* MUL_MAT_ID: which of A's matrices each of dst's takes; nothing is folded */
};

struct choice {
    enum path path;
    ingot_type type; /* of A as the path reads it */
    bool staged;     /* dst's row elements have gaps: compute into scratch, then copy */
};

/* ---- Folding. */

static bool can_fold(const ingot_tensor *t, int dim) {
    return t->ne[1] == 1 || t->nb[dim] == (size_t)t->ne[1] * t->nb[1];
}

static void fold_one(ingot_tensor *t, int dim, int64_t ratio) {
    if (t->ne[1] == 1) t->nb[1] = t->nb[dim];
    t->ne[1] *= ratio;
    t->ne[dim] /= ratio;
    t->nb[dim] *= (size_t)ratio;
}

/* Folds what A is repeated over into B's columns.  Without `with_b` B's strides do not matter. */
static void fold(struct product *p, bool with_b) {
    for (int dim = 2; dim < 4 && p->ids == NULL; dim++) {
        int64_t ratio = p->b.ne[dim] / p->a.ne[dim];
        if (ratio == 1) continue;
        if (dim == 3 && p->b.ne[2] != 1) continue; /* columns of other matrices lie between */
        bool can = can_fold(&p->d, dim) && (!with_b || can_fold(&p->b, dim));
        for (int i = 0; i < 2; i++) can = can && (!p->has_add[i] || can_fold(&p->add[i], dim));
        if (!can) continue;
        fold_one(&p->b, dim, ratio);
        fold_one(&p->d, dim, ratio);
        for (int i = 0; i < 2; i++)
            if (p->has_add[i]) fold_one(&p->add[i], dim, ratio);
    }
}

/* [k, s, t] as [k, 1, s, t]: each column a matrix. */
static void split_columns(ingot_tensor *t) {
    t->ne[3] = t->ne[2], t->nb[3] = t->nb[2];
    t->ne[2] = t->ne[1], t->nb[2] = t->nb[1];
    t->ne[1] = 1;
}

/* dst = A * B, without what is added and gated. */
static struct product product_of(const struct ingot_call *call, bool staged) {
    struct product p = {.a = *call->src[0], .b = *call->src[1], .d = *call->dst};

    if (staged) p.d = ingot_like(call->dst, INGOT_TYPE_F32);
    if (call->op == INGOT_OP_MUL_MAT_ID) {
        p.ids = call->src[2];
        split_columns(&p.b);
        split_columns(&p.d);
    }
    return p;
}

/* A tensor as repeated to dst's shape, by strides of 0. */
static ingot_tensor repeated(const ingot_tensor *t, const ingot_tensor *dst) {
    ingot_tensor r = *t;

    for (int i = 1; i < 4; i++) {
        if (t->ne[i] == 1) r.nb[i] = 0;
        r.ne[i] = dst->ne[i];
    }
    return r;
}

/* Columns that share one read of a weight matrix. */
static int64_t shared_columns(const struct ingot_call *call, bool staged) {
    struct product p = product_of(call, staged); /* without addends: one answer before and after fusion */

    fold(&p, false);
    return p.b.ne[1];
}

/* ---- Choosing. */

static bool rows_are_dense(const ingot_tensor *t) {
    return t->ne[0] <= 1 || t->nb[0] == ingot_type_size(t->type);
}

/* Distance of the columns of a GEMM operand; cuBLASLt wants at least a column's length. */
static int64_t column_stride(const ingot_tensor *t) {
    return t->ne[1] <= 1 ? t->ne[0] : (int64_t)(t->nb[1] / ingot_type_size(t->type));
}

/* True if cuBLASLt can read or write the tensor where it lies. */
static bool fits_gemm(const ingot_tensor *t) {
    return rows_are_dense(t) && column_stride(t) >= t->ne[0];
}

static struct ingot_gemm gemm_of(const struct product *p) {
    struct ingot_gemm g = {.type = p->a.type,
                           .m = p->a.ne[1],
                           .n = p->b.ne[1],
                           .k = p->a.ne[0],
                           .lda = column_stride(&p->a),
                           .ldb = column_stride(&p->b),
                           .ldd = column_stride(&p->d),
                           .batch = 1};

    return g;
}

/* The operands of the GEMM of `type`, not folded yet.  Those that must be copied first are contiguous, without data. */
static struct product gemm_operands(const struct ingot_call *call, ingot_type type, bool staged, bool *copy_a,
                                    bool *copy_b) {
    struct product p = product_of(call, staged), best = p, now = p;

    fold(&best, false);
    fold(&now, true);
    *copy_a = p.a.type != type || !fits_gemm(&p.a);
    /* B is also copied if its strides alone are in the way of one large product. */
    *copy_b = p.b.type != type || !fits_gemm(&p.b) || now.b.ne[1] != best.b.ne[1];
    if (*copy_a) p.a = ingot_like(&p.a, type);
    if (*copy_b) p.b = ingot_like(&p.b, type);
    return p;
}

static bool gemm_works(ingot_context *ctx, const struct ingot_call *call, ingot_type type, bool staged) {
    bool copy_a, copy_b;
    struct product p;
    struct ingot_gemm g;

    if (ctx->blas == NULL || call->src[0]->ne[0] == 0) return false;
    if (call->add[0] != NULL || call->add[1] != NULL || call->gated) return false;
    p = gemm_operands(call, type, staged, &copy_a, &copy_b);
    if (copy_a && ingot_find_copy(ctx, call->src[0]->type, type) == NULL) return false;
    if (copy_b && ingot_find_copy(ctx, call->src[1]->type, type) == NULL) return false;
    fold(&p, true);
    g = gemm_of(&p);
    return ingot_blas_supports(ctx, &g);
}

static bool mmvq_works(const ingot_context *ctx, const struct ingot_call *call) {
    return ingot_mmv_kernel(ctx, INGOT_FAMILY_MMVQ, call->src[0]->type, INGOT_MMV_COLUMNS) != NULL &&
           (call->have_q8_in || ingot_find_exact(ctx->table, INGOT_FAMILY_QUANTIZE, call->src[1]->type, 0) != NULL);
}

static struct choice choose(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *a = call->src[0];
    struct choice c = {PATH_NONE, a->type, !fits_gemm(call->dst)};
    bool exact = call->params.params.mul_mat.prec == INGOT_PREC_F32;
    bool few = call->op == INGOT_OP_MUL_MAT_ID || shared_columns(call, c.staged) <= INGOT_MMV_COLUMNS;

    if (ingot_is_block_type(a->type)) {
        bool mmvq = !exact && mmvq_works(ctx, call);
        bool many =
            !few && !call->gated && ingot_mmv_kernel(ctx, INGOT_FAMILY_MMQ, a->type, INGOT_MMV_COLUMNS + 1) != NULL;
        enum path path_q8 = many ? PATH_MMQ : PATH_MMVQ;
        if (mmvq && (few || call->have_q8_in)) {
            c.path = path_q8;
            return c;
        }
        if (!exact && !few && gemm_works(ctx, call, INGOT_TYPE_F16, c.staged)) {
            c.path = PATH_GEMM;
            c.type = INGOT_TYPE_F16;
            return c;
        }
        if (mmvq) {
            c.path = path_q8;
            return c;
        }
        if (ingot_find_copy(ctx, a->type, INGOT_TYPE_F32) == NULL) return c;
        c.type = INGOT_TYPE_F32;
    }
    ingot_type gemm_type = exact ? INGOT_TYPE_F32 : c.type;
    if (!few && gemm_works(ctx, call, gemm_type, c.staged)) {
        c.path = PATH_GEMM;
        c.type = gemm_type;
    } else if (ingot_mmv_kernel(ctx, INGOT_FAMILY_MMVF, c.type, INGOT_MMV_COLUMNS) != NULL) {
        c.path = PATH_MMVF;
    }
    return c;
}

bool ingot_mul_mat_wants_q8(ingot_context *ctx, const struct ingot_call *call) {
    enum path path = ingot_is_empty(call->dst) ? PATH_NONE : choose(ctx, call).path;

    return path == PATH_MMVQ || path == PATH_MMQ;
}

/* Which path the product takes whatever is added to it. */
static enum path path_alone(ingot_context *ctx, const struct ingot_call *call) {
    struct ingot_call alone = *call;

    alone.add[0] = alone.add[1] = NULL;
    return ingot_is_empty(call->dst) ? PATH_NONE : choose(ctx, &alone).path;
}

bool ingot_mul_mat_is_mat_vec(ingot_context *ctx, const struct ingot_call *call) {
    enum path path = path_alone(ctx, call);

    return path == PATH_MMVQ || path == PATH_MMVF;
}

bool ingot_mul_mat_takes_add(ingot_context *ctx, const struct ingot_call *call, const ingot_tensor *add) {
    if (call->gated || call->add[1] != NULL || !rows_are_dense(add) || add->type != INGOT_TYPE_F32) return false;
    if (add->ne[0] != call->dst->ne[0]) return false;
    for (int i = 1; i < 4; i++)
        if (add->ne[i] != 1 && add->ne[i] != call->dst->ne[i]) return false;
    return ingot_mul_mat_is_mat_vec(ctx, call) || path_alone(ctx, call) == PATH_MMQ;
}

bool ingot_mul_mat_takes_glu(ingot_context *ctx, const struct ingot_call *gate, const struct ingot_call *up) {
    const ingot_tensor *a = gate->src[0], *b = up != NULL ? up->src[0] : NULL;

    if (gate->gated || gate->add[1] != NULL || ingot_is_empty(a)) return false;
    if (up == NULL) return gate->add[0] == NULL && a->ne[1] % 2 == 0 && ingot_mul_mat_is_mat_vec(ctx, gate);
    if (up->gated || up->add[1] != NULL || a->type != b->type || !ingot_same_shape(a, b)) return false;
    for (int i = 0; i < 4; i++)
        if (a->ne[i] != 1 && a->nb[i] != b->nb[i]) return false;
    return ingot_mul_mat_is_mat_vec(ctx, gate) && ingot_mul_mat_is_mat_vec(ctx, up);
}

/* ---- Emitting. */

static ingot_status replace(struct ingot_emitter *em, ingot_tensor *t, ingot_type type) {
    ingot_tensor copy;
    ingot_status st = ingot_emit_contiguous(em, t, type, &copy);

    *t = copy;
    return st;
}

/* What is added, where the kernels can read it. */
static ingot_status take_addends(struct ingot_emitter *em, struct product *p) {
    const struct ingot_call *call = em->call;
    ingot_status st = INGOT_OK;

    for (int i = 0; i < 2; i++) {
        ingot_tensor add;
        if (call->add[i] == NULL) continue;
        add = *call->add[i];
        if (!rows_are_dense(&add)) INGOT_TRY(replace(em, &add, INGOT_TYPE_F32), st, done);
        p->add[i] = repeated(&add, call->dst);
        if (p->ids != NULL) split_columns(&p->add[i]);
        p->has_add[i] = true;
    }
done:
    return st;
}

/* Gated by halves: the first half of A's rows is the gate, the rest is up. */
static void split_rows(struct product *p) {
    p->a.ne[1] /= 2;
    p->up = p->a;
    p->up.data = (void *)((uintptr_t)p->a.data + (size_t)p->a.ne[1] * p->a.nb[1]);
}

static struct ingot_mmv_add mmv_add(const ingot_tensor *t) {
    return (struct ingot_mmv_add){t->data, (int64_t)t->nb[1], (int64_t)t->nb[2], (int64_t)t->nb[3]};
}

/* A folded product as the mat-vec kernels see it; they read B from q8, or (qs NULL) as it is. */
static struct ingot_mmv_args mmv_args(const struct ingot_call *call, const struct product *p, struct ingot_arg_q8 q8) {
    struct ingot_mmv_args args = {.w = p->a.data,
                                  .w_nb1 = (int64_t)p->a.nb[1],
                                  .w_nb2 = (int64_t)p->a.nb[2],
                                  .w_nb3 = (int64_t)p->a.nb[3],
                                  .m = p->a.ne[1],
                                  .n = p->b.ne[1],
                                  .k = p->a.ne[0],
                                  .ne2 = p->d.ne[2],
                                  .ne3 = p->d.ne[3],
                                  .x_ne2 = p->b.ne[2],
                                  .q8 = q8,
                                  .x = p->b.data,
                                  .x_nb0 = (int64_t)p->b.nb[0],
                                  .x_nb1 = (int64_t)p->b.nb[1],
                                  .x_nb2 = (int64_t)p->b.nb[2],
                                  .x_nb3 = (int64_t)p->b.nb[3],
                                  .dst = p->d.data,
                                  .dst_nb1 = (int64_t)p->d.nb[1],
                                  .dst_nb2 = (int64_t)p->d.nb[2],
                                  .dst_nb3 = (int64_t)p->d.nb[3]};

    args.ratio2 = p->ids != NULL ? 1 : p->b.ne[2] / p->a.ne[2];
    args.ratio3 = p->ids != NULL ? 1 : p->b.ne[3] / p->a.ne[3];
    if (p->ids != NULL) {
        args.ids = p->ids->data;
        args.ids_nb0 = (int64_t)p->ids->nb[0];
        args.ids_nb1 = (int64_t)p->ids->nb[1];
        args.experts = p->a.ne[2];
    }
    if (call->gated) {
        args.w2 = p->up.data;
        args.glu = call->glu.kind;
        args.glu_alpha = call->glu.alpha;
        args.glu_limit = call->glu.limit;
    }
    for (int i = 0; i < 2; i++)
        if (p->has_add[i]) args.add[i] = mmv_add(&p->add[i]);
    /* Which weights, ids tell: an earlier launch may write those. */
    args.w_is_constant = call->constant_weight && p->a.data == call->src[0]->data && p->ids == NULL;
    return args;
}

/* dst = A * B by MMVQ or MMQ (q8 given) or MMVF. */
static ingot_status emit_mmv(struct ingot_emitter *em, struct product *p, enum ingot_family family,
                             struct ingot_arg_q8 q8) {
    const struct ingot_call *call = em->call;
    const struct ingot_kernel *kernel;
    struct ingot_grid grid = {0};
    struct ingot_mmv_args args;

    if (call->gated && call->up == NULL) split_rows(p);
    fold(p, family == INGOT_FAMILY_MMVF);
    args = mmv_args(call, p, q8);
    kernel = ingot_mmv_plan(em->ctx, family, p->a.type, &args, &grid);
    return ingot_emit_grid(em, kernel, grid, &args, sizeof args);
}

static ingot_status emit_q8(struct ingot_emitter *em, struct product *p, enum ingot_family family) {
    const struct ingot_call *call = em->call;
    struct ingot_arg_q8 q8 = call->q8_in;
    void *base = NULL;
    ingot_status st = INGOT_OK;

    if (!call->have_q8_in) {
        INGOT_TRY(em->scratch(em, ingot_q8_bytes(&p->b), &base), st, done);
        q8 = ingot_q8_at(base, &p->b);
        INGOT_TRY(ingot_emit_q8(em, &p->b, q8), st, done);
    }
    INGOT_TRY(emit_mmv(em, p, family, q8), st, done);
done:
    return st;
}

static ingot_status emit_mmvf(struct ingot_emitter *em, struct product *p, ingot_type type) {
    struct ingot_arg_q8 none = {NULL, NULL};
    ingot_status st = INGOT_OK;

    if (p->a.type != type || !rows_are_dense(&p->a)) {
        INGOT_TRY(replace(em, &p->a, type), st, done);
        if (em->call->gated && em->call->up != NULL) INGOT_TRY(replace(em, &p->up, type), st, done);
    }
    if (p->b.type != INGOT_TYPE_F32) INGOT_TRY(replace(em, &p->b, INGOT_TYPE_F32), st, done);
    INGOT_TRY(emit_mmv(em, p, INGOT_FAMILY_MMVF, none), st, done);
done:
    return st;
}

static void *at(const ingot_tensor *t, int64_t i2, int64_t i3) {
    return (void *)((uintptr_t)t->data + (size_t)i2 * t->nb[2] + (size_t)i3 * t->nb[3]);
}

/* Pushes the products of B's matrices [i2, i2 + count) of dimension 2, whose A is one, or one each. */
static ingot_status emit_batch(struct ingot_emitter *em, const struct product *p, int64_t i2, int64_t i3,
                               int64_t count) {
    int64_t ratio2 = p->b.ne[2] / p->a.ne[2], ratio3 = p->b.ne[3] / p->a.ne[3];
    struct ingot_gemm g = gemm_of(p);

    g.batch = count;
    g.stride_a = ratio2 == 1 ? (int64_t)(p->a.nb[2] / ingot_type_size(g.type)) : 0;
    g.stride_b = (int64_t)(p->b.nb[2] / ingot_type_size(g.type));
    g.stride_d = (int64_t)(p->d.nb[2] / sizeof(float));
    g.a = at(&p->a, i2 / ratio2, i3 / ratio3);
    g.b = at(&p->b, i2, i3);
    g.d = at(&p->d, i2, i3);
    return ingot_emit_gemm(em, &g);
}

/* Moves dimension 3 to 2 where 2 is 1, joins both where they lie one stride apart: fewer, larger batches. */
static void join_batches(struct product *p) {
    ingot_tensor *ts[3] = {&p->a, &p->b, &p->d};
    bool join = p->b.ne[2] > 1 && p->a.ne[2] == p->b.ne[2] && p->a.ne[3] == p->b.ne[3];

    for (int i = 0; i < 3; i++) join = join && ts[i]->nb[3] == (size_t)ts[i]->ne[2] * ts[i]->nb[2];
    if (!join && p->b.ne[2] > 1) return;
    for (int i = 0; i < 3; i++) {
        if (!join) ts[i]->nb[2] = ts[i]->nb[3];
        ts[i]->ne[2] *= ts[i]->ne[3];
        ts[i]->ne[3] = 1;
    }
}

static ingot_status emit_gemm(struct ingot_emitter *em, struct product *p, ingot_type type, bool staged) {
    bool copy_a, copy_b;
    int64_t count;
    ingot_status st = INGOT_OK;

    gemm_operands(em->call, type, staged, &copy_a, &copy_b);
    if (copy_a) INGOT_TRY(replace(em, &p->a, type), st, done);
    if (copy_b) INGOT_TRY(replace(em, &p->b, type), st, done);
    fold(p, true);
    join_batches(p);
    count = p->b.ne[2] == p->a.ne[2] ? p->b.ne[2] : p->b.ne[2] / p->a.ne[2];
    for (int64_t i3 = 0; i3 < p->b.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < p->b.ne[2]; i2 += count) INGOT_TRY(emit_batch(em, p, i2, i3, count), st, done);
done:
    return st;
}

/* What the chooser missed, for the text. */
static ingot_status no_path(struct ingot_emitter *em, const struct ingot_call *call) {
    ingot_type type = call->src[0]->type;
    bool exact = call->params.params.mul_mat.prec == INGOT_PREC_F32;

    if (!ingot_is_block_type(type)) return ingot_no_kernel(em, INGOT_FAMILY_MMVF, type, 1);
    if (ingot_mmv_kernel(em->ctx, INGOT_FAMILY_MMVQ, type, 1) == NULL && !exact)
        return ingot_no_kernel(em, INGOT_FAMILY_MMVQ, type, 1);
    if (!exact) return ingot_no_kernel(em, INGOT_FAMILY_QUANTIZE, call->src[1]->type, 0);
    if (ingot_find_copy(em->ctx, type, INGOT_TYPE_F32) == NULL)
        return ingot_no_kernel(em, INGOT_FAMILY_DEQUANT, type, INGOT_TYPE_F32);
    return ingot_no_kernel(em, INGOT_FAMILY_MMVF, INGOT_TYPE_F32, 1);
}

ingot_status ingot_emit_mul_mat(struct ingot_emitter *em, const struct ingot_call *call) {
    struct choice c = choose(em->ctx, call);
    struct product p = product_of(call, c.staged);
    ingot_tensor result;
    ingot_status st = INGOT_OK;

    if (call->up != NULL) p.up = *call->up;
    if (c.path == PATH_NONE || (call->have_q8_in && c.path != PATH_MMVQ && c.path != PATH_MMQ))
        return no_path(em, call);
    if (c.staged) INGOT_TRY(em->scratch(em, (size_t)ingot_tensor_elements(&p.d) * sizeof(float), &p.d.data), st, done);
    INGOT_TRY(take_addends(em, &p), st, done);
    result = p.d;
    if (c.path == PATH_MMVQ) INGOT_TRY(emit_q8(em, &p, INGOT_FAMILY_MMVQ), st, done);
    if (c.path == PATH_MMQ) INGOT_TRY(emit_q8(em, &p, INGOT_FAMILY_MMQ), st, done);
    if (c.path == PATH_MMVF) INGOT_TRY(emit_mmvf(em, &p, c.type), st, done);
    if (c.path == PATH_GEMM) INGOT_TRY(emit_gemm(em, &p, c.type, c.staged), st, done);
    if (c.staged) INGOT_TRY(ingot_emit_copy(em, &result, call->dst), st, done);
done:
    return st;
}
