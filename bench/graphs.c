// SPDX-License-Identifier: MIT
/* graphs.c - see graphs.h. */
#include "bench/graphs.h"

#define MB ((size_t)1 << 20)

static ingot_tensor *leaf(ingot_graph *g, ingot_type type, int n_dims, const int64_t *ne, void *data) {
    ingot_tensor t;
    return ingot_tensor_init(&t, type, n_dims, ne, data) == INGOT_OK ? ingot_leaf(g, &t) : NULL;
}
static ingot_tensor *weight(ingot_graph *g, ingot_type type, int64_t k, int64_t m, int64_t experts, void *data) {
    ingot_tensor t;
    const ingot_status st = ingot_tensor_init(&t, type, 3, (int64_t[]){k, m, experts}, data);
    return st == INGOT_OK ? ingot_weight(g, &t) : NULL;
}

/* ---- mmvq, mmq, dequant: launches with a matrix each */

static ingot_tensor *activations(ingot_graph *g, const struct bench_case *c, const struct bench_memory *memory) {
    if (c->experts) return leaf(g, INGOT_TYPE_F32, 3, (int64_t[]){c->k, 1, c->n}, memory->x);
    return leaf(g, INGOT_TYPE_F32, 2, (int64_t[]){c->k, c->n}, memory->x);
}

static void add_products(ingot_graph *g, const struct bench_case *c, const struct bench_memory *memory, bool alone) {
    ingot_tensor *shared = activations(g, c, memory);
    for (int i = 0; i < c->launches; i++) {
        char *data = memory->pool + (size_t)(i % c->matrices) * c->slot;
        ingot_tensor *w = weight(g, (ingot_type)c->type, c->k, c->m, c->experts ? c->experts : 1, data);
        ingot_tensor *x = alone ? activations(g, c, memory) : shared;
        if (!c->experts) {
            ingot_mul_mat(g, w, x, INGOT_PREC_DEFAULT);
            continue;
        }
        char *ids = memory->ids + (size_t)i * (size_t)(BENCH_USED * c->n) * sizeof(int32_t);
        ingot_mul_mat_id(g, w, x, leaf(g, INGOT_TYPE_I32, 2, (int64_t[]){BENCH_USED, c->n}, ids), INGOT_PREC_DEFAULT);
    }
}

/* The results lie behind the blocks, at the end of each slot. */
static void add_decodings(ingot_graph *g, const struct bench_case *c, const struct bench_memory *memory) {
    const int64_t ne[] = {c->k, c->m};
    for (int i = 0; i < c->launches; i++) {
        char *slot = memory->pool + (size_t)(i % c->matrices) * c->slot;
        char *to = slot + (c->slot - (size_t)(c->k * c->m) * 2) / 256 * 256;
        ingot_cpy(g, weight(g, (ingot_type)c->type, c->k, c->m, 1, slot), leaf(g, INGOT_TYPE_F16, 2, ne, to));
    }
}

/* ---- launch: steps in a chain, each of which waits for the one before.  The shapes are those of a 135M model. */

struct bench_chain {
    ingot_graph *g;
    const struct bench_step *step;
    const struct bench_memory *memory;
    ingot_tensor *x, *row, *wide, *q, *cache, *zeros; /* x and q go from step to step */
};

static void norm(struct bench_chain *s) {
    s->x = ingot_mul(s->g, ingot_rms_norm(s->g, s->x, 1e-5f), s->row);
}
static void add(struct bench_chain *s) {
    s->x = ingot_add(s->g, s->x, s->row);
}
static void glu(struct bench_chain *s) {
    ingot_glu(s->g, s->wide, NULL, &(ingot_glu_params){.kind = INGOT_GLU_SWIGLU});
}
static void rope(struct bench_chain *s) {
    ingot_rope_params p = {
        .mode = INGOT_ROPE_NORMAL, .n_dims = 64, .freq_base = 1e5f, .freq_scale = 1, .attn_factor = 1};
    s->q = ingot_rope(s->g, s->q, s->zeros, NULL, &p);
}
static void set_rows(struct bench_chain *s) {
    ingot_set_rows(s->g, s->cache, s->row, s->zeros);
}
static void attend(struct bench_chain *s, int64_t keys) {
    ingot_attention_params p = {.scale = 0.125f, .causal = 1};
    const int64_t ne[] = {64, 3, keys};
    ingot_tensor *k = ingot_permute(s->g, leaf(s->g, INGOT_TYPE_F16, 3, ne, s->memory->pool), 0, 2, 1, 3);
    ingot_tensor *v = ingot_permute(s->g, leaf(s->g, INGOT_TYPE_F16, 3, ne, s->memory->pool + MB), 0, 2, 1, 3);
    ingot_attention(s->g, ingot_permute(s->g, s->q, 0, 2, 1, 3), k, v, NULL, &p);
}
static void attend128(struct bench_chain *s) {
    attend(s, 128);
}
static void attend1024(struct bench_chain *s) {
    attend(s, 1024);
}
static void product(struct bench_chain *s) {
    const struct bench_step *step = s->step;
    ingot_tensor *x = step->rounded ? leaf(s->g, INGOT_TYPE_F32, 1, (int64_t[]){step->k}, s->memory->x)
                                    : ingot_view(s->g, s->wide, 1, (int64_t[]){step->k}, NULL, 0);
    ingot_mul_mat(s->g, weight(s->g, (ingot_type)step->type, step->k, step->m, 1, s->memory->pool), x,
                  INGOT_PREC_DEFAULT);
}

const struct bench_step bench_steps[] = {
    {"rms_norm 576", norm, BENCH_NO_TYPE, 0, 0, false},
    {"add 576", add, BENCH_NO_TYPE, 0, 0, false},
    {"swiglu 3072", glu, BENCH_NO_TYPE, 0, 0, false},
    {"rope 9x64", rope, BENCH_NO_TYPE, 0, 0, false},
    {"set_rows 576", set_rows, BENCH_NO_TYPE, 0, 0, false},
    {"attention 9/3x64 kv128", attend128, BENCH_NO_TYPE, 0, 0, false},
    {"attention 9/3x64 kv1024", attend1024, BENCH_NO_TYPE, 0, 0, false},
    /* what a product costs before it has bytes to read, without and with the rounding of its activations */
    {"mmvq f16 32x256", product, INGOT_TYPE_F16, 32, 256, false},
    {"mmvq q4_0 32x256", product, INGOT_TYPE_Q4_0, 32, 256, false},
    {"mmvq q4_0 32x256, quantiser", product, INGOT_TYPE_Q4_0, 32, 256, true},
    {"mmvq q4_K 32x256", product, INGOT_TYPE_Q4_K, 32, 256, false},
    {"mmvq q4_K 32x256, quantiser", product, INGOT_TYPE_Q4_K, 32, 256, true},
    {"mmvq q8_0 32x256", product, INGOT_TYPE_Q8_0, 32, 256, false},
    {"mmvq q8_0 32x256, quantiser", product, INGOT_TYPE_Q8_0, 32, 256, true},
    {"mmvq q4_1 960x576", product, INGOT_TYPE_Q4_1, 960, 576, false},
    {"mmvq q4_1 576x576", product, INGOT_TYPE_Q4_1, 576, 576, false},
    {"mmvq q4_1 3072x576", product, INGOT_TYPE_Q4_1, 3072, 576, false},
    {"mmvq q4_1 576x1536", product, INGOT_TYPE_Q4_1, 576, 1536, false},
    {"mmvq q8_0 49152x576", product, INGOT_TYPE_Q8_0, 49152, 576, false},
};
const int bench_step_count = sizeof bench_steps / sizeof *bench_steps;

static void add_chain(ingot_graph *g, const struct bench_case *c, const struct bench_memory *memory) {
    struct bench_chain s = {.g = g, .step = &bench_steps[c->step], .memory = memory};
    s.x = leaf(g, INGOT_TYPE_F32, 1, (int64_t[]){576}, memory->x);
    s.row = leaf(g, INGOT_TYPE_F32, 1, (int64_t[]){576}, memory->x + MB);
    s.wide = leaf(g, INGOT_TYPE_F32, 1, (int64_t[]){3072}, memory->x + 2 * MB);
    s.q = leaf(g, INGOT_TYPE_F32, 3, (int64_t[]){64, 9, 1}, memory->x + 3 * MB);
    s.cache = leaf(g, INGOT_TYPE_F16, 2, (int64_t[]){576, 64}, memory->x + 4 * MB);
    s.zeros = leaf(g, INGOT_TYPE_I32, 1, (int64_t[]){1}, memory->ids);
    for (int i = 0; i < c->launches; i++) s.step->add(&s);
}

ingot_status bench_graph(ingot_context *ctx, const struct bench_case *c, const struct bench_memory *memory, bool alone,
                         ingot_graph **out, ingot_plan_info *info) {
    ingot_status st = ingot_graph_create(ctx, out);
    if (st != INGOT_OK) return st;
    if (c->op == BENCH_MMVQ || c->op == BENCH_MMQ) add_products(*out, c, memory, alone);
    if (c->op == BENCH_DEQUANT) add_decodings(*out, c, memory);
    if (c->op == BENCH_LAUNCH) add_chain(*out, c, memory);
    st = ingot_graph_plan(*out, NULL, info);
    if (st != INGOT_OK) {
        ingot_graph_destroy(*out);
        *out = NULL;
    }
    return st;
}
