// SPDX-License-Identifier: MIT
/* test_graph_fused.c - what the planner makes of products: each graph is planned and run with fusion and without, in an
 * arena full of NaN, must count the nodes that disappear as expected, and must leave the same bits everywhere. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "../src/graph/graph.h"
#include "../src/ops/mmv.h"
#include "check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static ingot_type all_types[CHECK_TYPES];
static size_t type_count;
static const ingot_type F32 = INGOT_TYPE_F32;

static struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, 1, NULL);
    tensor_fill_random(t, -1.0, 1.0);
    tensor_upload(t);
    return t;
}

/* What the graphs below are made of: weights [K,M], activations [K,n], and things to add. */
struct data {
    struct tensor *w, *w2, *other, *x, *x2, *bias, *bias2, *res, *ids, *ids2, *experts, *experts2, *out;
    ingot_type type;
    int64_t n;
    ingot_tensor *(*build)(ingot_graph *g, const struct data *d);
};
enum { K = 256, M = 45, EXPERTS = 5, USED = 2 };

static void data_new(struct data *d, ingot_type type, int64_t n) {
    d->type = type, d->n = n;
    d->w = random_new(type, K, M, 1), d->w2 = random_new(type, K, M, 1);
    d->other = random_new(type == F32 ? INGOT_TYPE_F16 : F32, K, M, 1);
    d->x = random_new(F32, K, n, 1), d->x2 = random_new(F32, K, n, 1);
    d->bias = random_new(F32, M, 1, 1), d->bias2 = random_new(F32, M, 1, 1);
    d->res = random_new(F32, M, n, 1);
    d->experts = random_new(type, K, M, EXPERTS), d->experts2 = random_new(type, K, M, EXPERTS);
    d->ids = tensor_new(INGOT_TYPE_I32, USED, n, 1, 1, NULL), d->ids2 = tensor_new(INGOT_TYPE_I32, USED, n, 1, 1, NULL);
    tensor_fill_random(d->ids, 0.0, EXPERTS - 1e-3), tensor_fill_random(d->ids2, 0.0, EXPERTS - 1e-3);
    tensor_upload(d->ids), tensor_upload(d->ids2);
    d->out = random_new(F32, M, n, 1);
}

static ingot_tensor *weight(ingot_graph *g, const struct tensor *t) {
    return ingot_weight(g, &t->t);
}
static ingot_tensor *leaf(ingot_graph *g, const struct tensor *t) {
    return ingot_leaf(g, &t->t);
}
static ingot_tensor *times(ingot_graph *g, const struct tensor *w, ingot_tensor *x) {
    return ingot_mul_mat(g, weight(g, w), x, INGOT_PREC_DEFAULT);
}
static ingot_tensor *by_ids(ingot_graph *g, const struct tensor *w, ingot_tensor *x, ingot_tensor *ids) {
    return ingot_mul_mat_id(g, weight(g, w), x, ids, INGOT_PREC_DEFAULT);
}
/* x [K,n] as [K,1,n]: one column for all experts of a token. */
static ingot_tensor *shared(ingot_graph *g, ingot_tensor *x, const struct data *d) {
    return ingot_reshape(g, x, 3, (int64_t[]){K, 1, d->n});
}
static ingot_tensor *unit(ingot_graph *g, ingot_tensor *gate, ingot_tensor *up) {
    return ingot_glu(g, gate, up, &(ingot_glu_params){.kind = INGOT_GLU_GEGLU});
}

/* Fused: */
static ingot_tensor *bias(ingot_graph *g, const struct data *d) {
    return ingot_add(g, times(g, d->w, leaf(g, d->x)), leaf(g, d->bias));
}
static ingot_tensor *bias_residual(ingot_graph *g, const struct data *d) {
    return ingot_add(g, bias(g, d), leaf(g, d->res));
}
static ingot_tensor *residual_bias(ingot_graph *g, const struct data *d) {
    return ingot_add(g, ingot_add(g, leaf(g, d->res), times(g, d->w, leaf(g, d->x))), leaf(g, d->bias));
}
static ingot_tensor *three_sums(ingot_graph *g, const struct data *d) { /* the third stays */
    return ingot_add(g, bias_residual(g, d), leaf(g, d->bias2));
}
static ingot_tensor *gated(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return unit(g, gate, times(g, d->w2, x));
}
static ingot_tensor *up_first(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *up = times(g, d->w2, x);
    return unit(g, times(g, d->w, x), up);
}
static ingot_tensor *one_weight_twice(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return unit(g, gate, times(g, d->w, x));
}
static ingot_tensor *gated_biases(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = ingot_add(g, times(g, d->w, x), leaf(g, d->bias));
    return unit(g, gate, ingot_add(g, times(g, d->w2, x), leaf(g, d->bias2)));
}
static ingot_tensor *gated_one_bias(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return unit(g, gate, ingot_add(g, times(g, d->w2, x), leaf(g, d->res)));
}
static ingot_tensor *gated_late(ingot_graph *g, const struct data *d) { /* things in between that do no harm */
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x), *a = ingot_silu(g, leaf(g, d->res));
    ingot_tensor *up = times(g, d->w2, x);
    ingot_cpy(g, a, leaf(g, d->out));
    return unit(g, gate, up);
}
static ingot_tensor *gated_and_on(ingot_graph *g, const struct data *d) { /* its result read by what follows */
    ingot_tensor *y = gated(g, d);
    return ingot_add(g, ingot_silu(g, y), y);
}
static ingot_tensor *ids_sums(ingot_graph *g, const struct data *d) {
    ingot_tensor *y = by_ids(g, d->experts, shared(g, leaf(g, d->x), d), leaf(g, d->ids));
    ingot_tensor *each = ingot_reshape(g, leaf(g, d->res), 3, (int64_t[]){M, 1, d->n}); /* a token's, for all experts */
    return ingot_add(g, ingot_add(g, y, leaf(g, d->bias)), each);
}
static ingot_tensor *ids_gated(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = shared(g, leaf(g, d->x), d), *ids = leaf(g, d->ids), *gate = by_ids(g, d->experts, x, ids);
    return unit(g, gate, by_ids(g, d->experts2, x, ids));
}
static ingot_tensor *ids_gated_bias(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = shared(g, leaf(g, d->x), d), *ids = leaf(g, d->ids);
    ingot_tensor *gate = ingot_add(g, by_ids(g, d->experts, x, ids), leaf(g, d->bias));
    return unit(g, gate, by_ids(g, d->experts2, x, ids));
}

/* Not fused, or not all: */
static ingot_tensor *gate_read_twice(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return ingot_add(g, unit(g, gate, times(g, d->w2, x)), gate);
}
static ingot_tensor *up_is_output(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x), *up = times(g, d->w2, x);
    ingot_output(g, up);
    return unit(g, gate, up);
}
static ingot_tensor *gate_seen_through_a_view(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    ingot_tensor *row = ingot_view(g, gate, 1, (int64_t[]){M}, NULL, 0);
    ingot_cpy(g, leaf(g, d->bias), row);
    return unit(g, gate, times(g, d->w2, x));
}
static ingot_tensor *one_product_twice(ingot_graph *g, const struct data *d) {
    ingot_tensor *y = times(g, d->w, leaf(g, d->x));
    return unit(g, y, y);
}
static ingot_tensor *other_activations(ingot_graph *g, const struct data *d) {
    return unit(g, times(g, d->w, leaf(g, d->x)), times(g, d->w2, leaf(g, d->x2)));
}
static ingot_tensor *other_type(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return unit(g, gate, times(g, d->other, x));
}
static ingot_tensor *other_strides(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x), *e = weight(g, d->experts);
    ingot_tensor *every_second = ingot_view(g, e, 2, (int64_t[]){K, M}, (size_t[]){0, 2 * d->experts->t.nb[1]}, 0);
    return unit(g, gate, ingot_mul_mat(g, every_second, x, INGOT_PREC_DEFAULT));
}
static ingot_tensor *other_prec(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    return unit(g, gate, ingot_mul_mat(g, weight(g, d->w2), x, INGOT_PREC_F32));
}
static ingot_tensor *other_ids(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = shared(g, leaf(g, d->x), d), *gate = by_ids(g, d->experts, x, leaf(g, d->ids));
    return unit(g, gate, by_ids(g, d->experts2, x, leaf(g, d->ids2)));
}
static ingot_tensor *activations_change(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x);
    ingot_cpy(g, leaf(g, d->x2), x);
    return unit(g, gate, times(g, d->w2, x));
}
static ingot_tensor *activations_change_late(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *gate = times(g, d->w, x), *up = times(g, d->w2, x);
    ingot_cpy(g, leaf(g, d->x2), x);
    return unit(g, gate, up);
}
static ingot_tensor *bias_changes(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *b = leaf(g, d->bias), *gate = ingot_add(g, times(g, d->w, x), b);
    ingot_cpy(g, leaf(g, d->bias2), b);
    return unit(g, gate, times(g, d->w2, x));
}
static ingot_tensor *residual_changes(ingot_graph *g,
                                      const struct data *d) { /* and so does x: neither place is legal */
    ingot_tensor *x = leaf(g, d->x), *res = leaf(g, d->res), *y = times(g, d->w, x);
    ingot_cpy(g, leaf(g, d->out), res);
    ingot_cpy(g, leaf(g, d->x2), x);
    return ingot_add(g, y, res);
}
static ingot_tensor *residual_read_elsewhere(ingot_graph *g, const struct data *d) { /* which is no obstacle */
    ingot_tensor *res = leaf(g, d->res), *y = times(g, d->w, leaf(g, d->x));
    return ingot_mul(g, ingot_add(g, y, res), res);
}
static ingot_tensor *product_read_elsewhere(ingot_graph *g, const struct data *d) {
    ingot_tensor *y = times(g, d->w, leaf(g, d->x));
    return ingot_mul(g, ingot_add(g, y, leaf(g, d->res)), y);
}
static ingot_tensor *one_number(ingot_graph *g,
                                const struct data *d) { /* repeated along rows: no addend of a product */
    ingot_tensor *one = ingot_view(g, leaf(g, d->bias), 1, (int64_t[]){1}, NULL, 0);
    return ingot_add(g, times(g, d->w, leaf(g, d->x)), one);
}
static ingot_tensor *weights_change(ingot_graph *g, const struct data *d) {
    ingot_tensor *x = leaf(g, d->x), *w = leaf(g, d->other), *gate = ingot_mul_mat(g, w, x, INGOT_PREC_DEFAULT);
    ingot_tensor *up = ingot_mul_mat(g, w, x, INGOT_PREC_DEFAULT);
    ingot_cpy(g, ingot_view(g, x, 1, (int64_t[]){K}, NULL, 0), ingot_view(g, w, 1, (int64_t[]){K}, NULL, 0));
    return unit(g, gate, up);
}

static const struct {
    const char *name;
    ingot_tensor *(*build)(ingot_graph *g, const struct data *d);
    int fused;
} graphs[] = {
    {"bias", bias, 1},
    {"bias, residual", bias_residual, 2},
    {"residual, bias", residual_bias, 2},
    {"three sums", three_sums, 2},
    {"gated", gated, 2},
    {"gated, up first", up_first, 2},
    {"gated, one weight twice", one_weight_twice, 2},
    {"gated with biases", gated_biases, 4},
    {"gated with one sum", gated_one_bias, 3},
    {"gated, other nodes between", gated_late, 2},
    {"gated, read twice", gated_and_on, 2},
    {"ids: sums", ids_sums, 2},
    {"ids: gated", ids_gated, 2},
    {"ids: gated with a bias", ids_gated_bias, 3},
    {"a gate that is read twice", gate_read_twice, 0},
    {"up is an output", up_is_output, 0},
    {"a gate that is written to", gate_seen_through_a_view, 0},
    {"one product as gate and up", one_product_twice, 0},
    {"other activations", other_activations, 0},
    {"other type", other_type, 0},
    {"other strides", other_strides, 0},
    {"other prec", other_prec, 0},
    {"other ids", other_ids, 0},
    {"activations that change", activations_change, 0},
    {"activations that change later", activations_change_late, 0},
    {"a bias that changes", bias_changes, 1},
    {"a residual that changes", residual_changes, 0},
    {"a residual that is read elsewhere", residual_read_elsewhere, 1},
    {"a product that is read elsewhere", product_read_elsewhere, 0},
    {"one number", one_number, 0},
    {"weights that change", weights_change, 0},
};

/* Plans and runs, in an arena of NaN; the result, and the leaves after three runs, one after the other in memory. */
static unsigned char *outcome(const struct data *d, ingot_tensor *(*build)(ingot_graph *g, const struct data *d),
                              bool fuse, int *fused, size_t *bytes, int64_t ne[4]) {
    struct tensor *leaves[] = {d->x, d->bias, d->res, d->out, d->other};
    ingot_context *ctx = check_context();
    ingot_graph *g = NULL;
    ingot_buffer *arena = NULL;
    ingot_plan_info info;
    ingot_plan_options options = {.size = sizeof options, .measure = 1};
    const bool was = ctx->fuse;
    CHECK_OK(ingot_graph_create(ctx, &g));
    ingot_tensor *y = build(g, d);
    ingot_output(g, y);
    ctx->fuse = fuse; /* as INGOT_FUSE would, at the context's creation */
    CHECK_OK(ingot_graph_plan(g, &options, &info));
    CHECK_OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, info.arena_bytes, &arena));
    options = (ingot_plan_options){sizeof options, ingot_buffer_data(arena), info.arena_bytes, 0};
    CHECK_OK(ingot_graph_plan(g, &options, &info));
    ctx->fuse = was;
    *fused = info.fused;
    *bytes = ingot_tensor_size(y);
    for (size_t i = 0; i < COUNT(leaves); i++) *bytes += leaves[i]->bytes;
    unsigned char *all = check_alloc(*bytes), *at = all;
    for (size_t i = 0; i < COUNT(leaves); i++) tensor_upload(leaves[i]);
    for (int run = 0; run < 3; run++) {
        CHECK_OK(ingot_buffer_fill(arena, 0, 0xFF, info.arena_bytes));
        CHECK_OK(ingot_graph_run(g));
    }
    CHECK_OK(ingot_buffer_get(arena, (size_t)((char *)y->data - (char *)options.arena), at, ingot_tensor_size(y)));
    at += ingot_tensor_size(y);
    for (size_t i = 0; i < COUNT(leaves); i++) {
        CHECK_OK(ingot_buffer_get(leaves[i]->buffer, 0, at, leaves[i]->bytes));
        at += leaves[i]->bytes;
    }
    memcpy(ne, y->ne, sizeof y->ne);
    ingot_graph_destroy(g);
    ingot_buffer_destroy(arena);
    return all;
}

static void graphs_of(ingot_type type, int64_t n) {
    for (size_t i = 0; i < COUNT(graphs); i++) {
        struct data d;
        int with, without;
        size_t bytes[2];
        int64_t ne[4];
        data_new(&d, type, n);
        unsigned char *fused = outcome(&d, graphs[i].build, true, &with, &bytes[0], ne);
        unsigned char *twin = outcome(&d, graphs[i].build, false, &without, &bytes[1], ne);
        /* tiles of many columns take addends at most */
        const bool tiles = n > 8 && (check_context()->blas != NULL ||
                                     ingot_mmv_kernel(check_context(), INGOT_FAMILY_MMQ, type, n) != NULL);
        if (without != 0 || (tiles ? with > graphs[i].fused : with != graphs[i].fused))
            check_fail("%s, %s, n = %d: %d nodes fused away, %d expected", graphs[i].name, ingot_type_name(type),
                       (int)n, with, graphs[i].fused);
        if (bytes[0] != bytes[1] || memcmp(fused, twin, bytes[0]) != 0)
            check_fail("%s, %s, n = %d: other bits than without fusion", graphs[i].name, ingot_type_name(type), (int)n);
        for (int64_t e = 0; e < ne[0] * ne[1] * ne[2]; e++) {
            float v;
            memcpy(&v, fused + e * 4, 4);
            if (isnan(v)) check_fail("%s, %s: element %d is NaN", graphs[i].name, ingot_type_name(type), (int)e);
        }
        check_release();
    }
}

static void plans(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int64_t n = 1; n <= 9; n += t % 3 ? 4 : 1) graphs_of(all_types[t], n);
}

/* A GLU of halves, and the rounding in front of the next product. */
static void halves(void **state) {
    (void)state;
    for (size_t t = 0; t < type_count; t++)
        for (int ids = 0; ids < 2; ids++) {
            unsigned char *bits[2] = {NULL, NULL};
            size_t bytes = 0;
            struct tensor *w = random_new(all_types[t], 256, 512, 3), *down = random_new(all_types[t], 256, 31, 3),
                          *x = random_new(F32, 256, 1, 2), *chosen = tensor_new(INGOT_TYPE_I32, 2, 2, 1, 1, NULL);
            tensor_fill_random(chosen, 0.0, 2.999), tensor_upload(chosen);
            for (int fuse = 0; fuse < 2; fuse++) {
                ingot_context *ctx = check_context();
                ingot_graph *g = NULL;
                ingot_plan_info info;
                CHECK_OK(ingot_graph_create(ctx, &g));
                ingot_tensor *h, *i = leaf(g, chosen), *a = leaf(g, x);
                if (!ids) a = ingot_reshape(g, a, 2, (int64_t[]){256, 2});
                ingot_tensor *one = ingot_view(g, weight(g, w), 2, (int64_t[]){256, 512}, (size_t[]){0, w->t.nb[1]}, 0);
                ingot_tensor *last =
                    ingot_view(g, weight(g, down), 2, (int64_t[]){256, 31}, (size_t[]){0, down->t.nb[1]}, 0);
                h = unit(g, ids ? by_ids(g, w, a, i) : ingot_mul_mat(g, one, a, INGOT_PREC_DEFAULT), NULL);
                h = ids ? by_ids(g, down, h, i) : ingot_mul_mat(g, last, h, INGOT_PREC_DEFAULT);
                ingot_output(g, h);
                ctx->fuse = fuse;
                CHECK_OK(ingot_graph_plan(g, NULL, &info));
                ctx->fuse = true;
                assert_int_equal(info.fused, fuse);
                CHECK_OK(ingot_graph_run(g));
                CHECK_OK(ingot_synchronize(ctx));
                bytes = ingot_tensor_size(h);
                bits[fuse] = check_alloc(bytes);
                CHECK_OK(ingot_check_cuda(ctx, cudaMemcpy(bits[fuse], h->data, bytes, cudaMemcpyDeviceToHost), "read"));
                ingot_graph_destroy(g);
            }
            if (memcmp(bits[0], bits[1], bytes) != 0)
                check_fail("%s%s: other bits than without fusion", ingot_type_name(all_types[t]), ids ? " by ids" : "");
            check_release();
        }
}

int main(void) {
    type_count = check_types(all_types);
    const struct CMUnitTest tests[] = {CHECK_TEST(plans), CHECK_TEST(halves)};
    return check_main("graph_fused", tests, COUNT(tests));
}
