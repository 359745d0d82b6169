// SPDX-License-Identifier: MIT
/* layer.h - a small decoder layer, the graph that most graph tests plan and run. */
#ifndef INGOT_TEST_LAYER_H
#define INGOT_TEST_LAYER_H

#include "rig.h"

enum { K = 64, FF = 128, ROWS = 8 };

struct layer {
    ingot_tensor  x, pos, ids, len, cache;               /* what changes from run to run */
    ingot_tensor  norm_w, wq, wk, wo, up, down;          /* weights */
    ingot_graph  *g;
    ingot_tensor *y;
};

static inline void layer_data(struct rig *r, struct layer *l, int n)
{
    int32_t zeros[ROWS] = {0}, len = n;
    l->x = rig_tensor(r, INGOT_TYPE_F32, K, n, 1, 1);
    l->pos = rig_i32(r, n, zeros);
    l->ids = rig_i32(r, n, zeros);
    l->len = rig_i32(r, 1, &len);
    l->cache = rig_tensor(r, INGOT_TYPE_F16, K, ROWS, 1, 1);
    l->norm_w = rig_tensor(r, INGOT_TYPE_F32, K, 1, 1, 1);
    l->wq = rig_tensor(r, INGOT_TYPE_Q4_0, K, K, 1, 1);
    l->wk = rig_tensor(r, INGOT_TYPE_Q4_0, K, K, 1, 1);
    l->wo = rig_tensor(r, INGOT_TYPE_Q4_0, K, K, 1, 1);
    l->up = rig_tensor(r, INGOT_TYPE_Q4_0, K, 2 * FF, 1, 1);
    l->down = rig_tensor(r, INGOT_TYPE_Q4_0, FF, K, 1, 1);
}

static const ingot_rope_params rope = {.mode = INGOT_ROPE_NEOX, .n_dims = 32, .freq_base = 10000, .freq_scale = 1,
                                       .attn_factor = 1, .beta_fast = 32, .beta_slow = 1};
static const ingot_glu_params swiglu = {.kind = INGOT_GLU_SWIGLU};
static const ingot_attention_params attention = {.scale = 0.18f, .causal = 1};

/* Without a check in between, as the header promises. */
static inline void layer_build(struct layer *l)
{
    ingot_graph  *g = l->g;
    int64_t       n = l->x.ne[1], cut[3] = {32, ROWS, 2};
    size_t        nb[3] = {0, K * 2, 32 * 2};
    ingot_tensor *x = ingot_leaf(g, &l->x), *pos = ingot_leaf(g, &l->pos), *cache = ingot_leaf(g, &l->cache);
    ingot_tensor *h = ingot_mul(g, ingot_rms_norm(g, x, 1e-5f), ingot_weight(g, &l->norm_w));
    ingot_tensor *q = ingot_mul_mat(g, ingot_weight(g, &l->wq), h, INGOT_PREC_DEFAULT);
    ingot_tensor *k = ingot_mul_mat(g, ingot_weight(g, &l->wk), h, INGOT_PREC_DEFAULT);
    q = ingot_rope(g, ingot_reshape(g, q, 3, (int64_t[]){32, 2, n}), pos, NULL, &rope);
    ingot_set_rows(g, cache, k, ingot_leaf(g, &l->ids));
    ingot_tensor *kv = ingot_view(g, cache, 3, cut, nb, 0);
    ingot_tensor *a = ingot_attention(g, ingot_permute(g, q, 0, 2, 1, 3), kv, kv, ingot_leaf(g, &l->len), &attention);
    a = ingot_mul_mat(g, ingot_weight(g, &l->wo), ingot_reshape(g, a, 2, (int64_t[]){K, n}), INGOT_PREC_DEFAULT);
    x = ingot_add(g, x, a);
    h = ingot_rms_norm(g, x, 1e-5f);
    h = ingot_glu(g, ingot_mul_mat(g, ingot_weight(g, &l->up), h, INGOT_PREC_DEFAULT), NULL, &swiglu);
    l->y = ingot_add(g, ingot_mul_mat(g, ingot_weight(g, &l->down), h, INGOT_PREC_DEFAULT), x);
    ingot_output(g, l->y);
}

static inline void layer_make(struct rig *r, struct layer *l, int n)
{
    layer_data(r, l, n);
    RIG_OK(r, ingot_graph_create(r->ctx, &l->g));
    layer_build(l);
}

/* The data of step `step` of a generation. */
static inline void layer_step(struct rig *r, const struct layer *l, int step)
{
    int32_t at[ROWS], len;
    int     n = (int)l->x.ne[1];
    for (int i = 0; i < n; i++) at[i] = (step * n + i) % ROWS;
    len = at[n - 1] + 1;
    rig_write(r, &l->pos, at);
    rig_write(r, &l->ids, at);
    rig_write(r, &l->len, &len);
    rig_fill(r, &l->x);
}

#endif
