// SPDX-License-Identifier: MIT
//
// The llama transformer as an ingot graph; contracts are in forward.h. Building functions pass NULL on, so errors are
// looked at once, when the graph is planned.
#include "forward.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { ALIGNMENT = 256, F32_BYTES = 4, F16_BYTES = 2, I32_BYTES = 4 };

static uint64_t matrix_bytes(const struct hparams *hp, int64_t n_ctx) {
    uint64_t bytes = (uint64_t)(hp->head_dim * hp->n_head_kv) * (uint64_t)n_ctx * F16_BYTES;
    return (bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

uint64_t kv_bytes(const struct hparams *hp, int64_t n_ctx) {
    return 2 * (uint64_t)hp->n_layer * matrix_bytes(hp, n_ctx);
}

bool kv_create(struct kv_cache *c, const struct hparams *hp, int64_t n_ctx, ingot_context *ctx, struct err *err) {
    int64_t ne[3] = {hp->head_dim * hp->n_head_kv, n_ctx, 2};
    uint64_t one = matrix_bytes(hp, n_ctx);
    bool ok = false;
    *c = (struct kv_cache){.n_ctx = n_ctx};
    c->kv = new_array((uint64_t)hp->n_layer, sizeof *c->kv, "the cache", err);
    if (!c->kv) goto done;
    if (!status_ok(ctx, ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, kv_bytes(hp, n_ctx), &c->buffer),
                   "memory for keys and values", err)) {
        err_in(err, "a context of %" PRId64 " tokens", n_ctx);
        goto done;
    }
    if (!status_ok(ctx, ingot_buffer_fill(c->buffer, 0, 0, ingot_buffer_size(c->buffer)), "clearing the cache", err))
        goto done;
    for (int64_t il = 0; il < hp->n_layer; il++) {
        char *at = (char *)ingot_buffer_data(c->buffer) + 2 * (uint64_t)il * one;
        if (!status_ok(NULL, ingot_tensor_init(&c->kv[il], INGOT_TYPE_F16, 3, ne, at), "the cache", err)) goto done;
        c->kv[il].nb[2] = one;
        c->kv[il].nb[3] = 2 * one;
    }
    ok = true;
done:
    if (!ok) kv_free(c);
    return ok;
}

void kv_free(struct kv_cache *c) {
    ingot_buffer_destroy(c->buffer);
    free(c->kv);
    *c = (struct kv_cache){0};
}

// What building a pass needs at every turn.
struct build {
    ingot_graph *g;
    const struct hparams *hp;
    int64_t n; // tokens
    ingot_prec prec;
    ingot_tensor *pos, *kv_len, *factors; // factors NULL: none
};

// rms_norm(x) * weight
static ingot_tensor *norm(struct build *b, ingot_tensor *x, const ingot_tensor *weight) {
    return ingot_mul(b->g, ingot_rms_norm(b->g, x, b->hp->rms_eps), ingot_weight(b->g, weight));
}

static ingot_tensor *product(struct build *b, const ingot_tensor *a, ingot_tensor *x) {
    return ingot_mul_mat(b->g, ingot_weight(b->g, a), x, b->prec);
}

// The products of all matrices of a bundle with x: [rows, n] each.
static void products(struct build *b, const struct bundle *w, ingot_tensor *x, ingot_tensor *out[MOST_PARTS]) {
    for (int m = 0; m < w->n_mats; m++) out[m] = product(b, &w->mat[m], x);
}

// Parts p .. p + count of a bundle's products, neighbours in one matrix, as heads: [head_dim, heads, n].
static ingot_tensor *heads(struct build *b, const struct bundle *w, ingot_tensor *const *products, int p, int count) {
    int64_t rows = 0;
    for (int i = p; i < p + count; i++) rows += w->rows[i];
    size_t column = (size_t)w->mat[w->mat_of[p]].ne[1] * F32_BYTES;
    size_t nb[3] = {F32_BYTES, (size_t)b->hp->head_dim * F32_BYTES, column};
    int64_t ne[3] = {b->hp->head_dim, rows / b->hp->head_dim, b->n};
    return ingot_view(b->g, products[w->mat_of[p]], 3, ne, nb, (size_t)w->row[p] * F32_BYTES);
}

// Parts p .. p + count, equally many rows each and neighbours in one matrix, as vectors: [rows, n, count].
static ingot_tensor *vectors(struct build *b, const struct bundle *w, ingot_tensor *const *products, int p, int count) {
    size_t column = (size_t)w->mat[w->mat_of[p]].ne[1] * F32_BYTES;
    size_t nb[3] = {F32_BYTES, column, (size_t)w->rows[p] * F32_BYTES};
    return ingot_view(b->g, products[w->mat_of[p]], 3, (int64_t[]){w->rows[p], b->n, count}, nb,
                      (size_t)w->row[p] * F32_BYTES);
}

// Matrix `which` of a layer's cache: [head_dim * groups, n_ctx].
static ingot_tensor *cache_rows(struct build *b, ingot_tensor *kv, int which) {
    return ingot_view(b->g, kv, 2, kv ? kv->ne : NULL, kv ? kv->nb : NULL, kv ? (size_t)which * kv->nb[2] : 0);
}

// The same as heads: [head_dim, n_ctx, groups].
static ingot_tensor *cache_heads(struct build *b, ingot_tensor *kv, int which) {
    size_t head = (size_t)b->hp->head_dim * F16_BYTES;
    size_t nb[3] = {F16_BYTES, head * (size_t)b->hp->n_head_kv, head};
    if (!kv) return NULL;
    return ingot_view(b->g, kv, 3, (int64_t[]){b->hp->head_dim, kv->ne[1], b->hp->n_head_kv}, nb,
                      (size_t)which * kv->nb[2]);
}

// Rotates queries and keys where they lie and puts keys and values into the cache, in one call each where q, k and v
// are one matrix. Returns the layer's cache.
static ingot_tensor *remember(struct build *b, const struct layer *y, ingot_tensor *kv, ingot_tensor **qkv) {
    const struct bundle *w = &y->qkv;
    const ingot_rope_params *rope = &b->hp->rope;
    ingot_graph *g = b->g;
    if (w->n_mats == 1) {
        ingot_rope_inplace(g, heads(b, w, qkv, 0, 2), b->pos, b->factors, rope);
        return ingot_set_rows(g, kv, vectors(b, w, qkv, 1, 2), b->pos);
    }
    for (int p = 0; p < 2; p++) ingot_rope_inplace(g, heads(b, w, qkv, p, 1), b->pos, b->factors, rope);
    for (int p = 1; p < 3; p++) ingot_set_rows(g, cache_rows(b, kv, p - 1), vectors(b, w, qkv, p, 1), b->pos);
    return kv;
}

static ingot_tensor *attention(struct build *b, const struct layer *y, const struct kv_cache *c, int64_t il,
                               ingot_tensor *x) {
    const struct hparams *hp = b->hp;
    ingot_attention_params params = {.scale = 1 / sqrtf((float)hp->head_dim), .causal = 1};
    ingot_tensor *qkv[MOST_PARTS];
    products(b, &y->qkv, norm(b, x, &y->attn_norm), qkv);
    ingot_tensor *kv = remember(b, y, ingot_leaf(b->g, &c->kv[il]), qkv);
    ingot_tensor *q = ingot_permute(b->g, heads(b, &y->qkv, qkv, 0, 1), 0, 2, 1, 3);
    ingot_tensor *out = ingot_attention(b->g, q, cache_heads(b, kv, 0), cache_heads(b, kv, 1), b->kv_len, &params);
    return product(b, &y->o, ingot_reshape(b->g, out, 2, (int64_t[]){hp->head_dim * hp->n_head, b->n}));
}

static ingot_tensor *feed_forward(struct build *b, const struct layer *y, ingot_tensor *x) {
    ingot_tensor *gate_up[MOST_PARTS];
    products(b, &y->gate_up, norm(b, x, &y->ffn_norm), gate_up);
    const ingot_glu_params swiglu = {.kind = INGOT_GLU_SWIGLU};
    ingot_tensor *act = ingot_glu(b->g, gate_up[0], y->gate_up.n_mats == 1 ? NULL : gate_up[1], &swiglu);
    return product(b, &y->down, act);
}

// The logits [n_vocab, 1] of the last of the n tokens.
static ingot_tensor *forward(struct build *b, const struct weights *w, const struct kv_cache *c, ingot_tensor *tokens) {
    const struct hparams *hp = b->hp;
    ingot_tensor *x = ingot_get_rows(b->g, ingot_weight(b->g, &w->embd), tokens);
    for (int64_t il = 0; il < hp->n_layer; il++) {
        x = ingot_add(b->g, x, attention(b, &w->layers[il], c, il, x));
        x = ingot_add(b->g, x, feed_forward(b, &w->layers[il], x));
    }
    size_t column = (size_t)hp->n_embd * F32_BYTES, nb[2] = {F32_BYTES, column};
    x = ingot_view(b->g, x, 2, (int64_t[]){hp->n_embd, 1}, nb, (size_t)(b->n - 1) * column);
    return product(b, &w->head, norm(b, x, &w->out_norm));
}

// Plans with an arena that is a buffer, as results are read through buffers.
static bool plan(struct step *s, ingot_tensor *logits, ingot_context *ctx, struct err *err) {
    ingot_plan_options options = {.size = sizeof options, .measure = 1};
    if (!status_ok(ctx, ingot_graph_plan(s->graph, &options, &s->info), "planning", err) ||
        !status_ok(ctx, ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, s->info.arena_bytes, &s->arena),
                   "memory for intermediates", err))
        return false;
    options.measure = 0;
    options.arena = ingot_buffer_data(s->arena);
    options.arena_bytes = ingot_buffer_size(s->arena);
    if (!status_ok(ctx, ingot_graph_plan(s->graph, &options, &s->info), "planning", err)) return false;
    s->logits_at = (size_t)((char *)logits->data - (char *)options.arena);
    if (!logits->data || s->logits_at + ingot_tensor_size(logits) > options.arena_bytes)
        return err_set(err, "planning: the logits do not lie in the arena");
    return true;
}

bool step_build(struct step *s, const struct hparams *hp, const struct weights *w, const struct kv_cache *c,
                ingot_buffer *input, int64_t n, ingot_prec prec, ingot_context *ctx, struct err *err) {
    ingot_tensor tokens, pos, len, factors = w->rope_factors;
    char *base = ingot_buffer_data(input);
    bool ok = false;
    *s = (struct step){.n = n};
    if (!status_ok(NULL, ingot_tensor_init(&tokens, INGOT_TYPE_I32, 1, &n, base), "the tokens", err) ||
        !status_ok(NULL, ingot_tensor_init(&pos, INGOT_TYPE_I32, 1, &n, base + n * I32_BYTES), "the positions", err) ||
        !status_ok(NULL, ingot_tensor_init(&len, INGOT_TYPE_I32, 1, (int64_t[]){1}, base + 2 * n * I32_BYTES),
                   "the length", err) ||
        !status_ok(ctx, ingot_graph_create(ctx, &s->graph), "a graph", err))
        goto done;
    struct build b = {.g = s->graph, .hp = hp, .n = n, .prec = prec};
    b.pos = ingot_leaf(b.g, &pos);
    b.kv_len = ingot_leaf(b.g, &len);
    b.factors = factors.data ? ingot_weight(b.g, &factors) : NULL;
    ingot_tensor *logits = forward(&b, w, c, ingot_leaf(b.g, &tokens));
    ingot_output(b.g, logits);
    ok = plan(s, logits, ctx, err) || err_in(err, "a pass over %" PRId64 " tokens", n);
done:
    if (!ok) step_free(s);
    return ok;
}

void step_free(struct step *s) {
    ingot_graph_destroy(s->graph);
    ingot_buffer_destroy(s->arena);
    *s = (struct step){0};
}
