// SPDX-License-Identifier: MIT
/* nodes.c - the op builders: what the result looks like, and whether the op's own rules agree.
 *
 * A builder only infers the shape of its result; whether the sources fit is asked of ingot_check_call, the same check
 * that ingot_compute makes, so a graph and a direct call refuse the same things with the same words. */
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* Stores a call whose dst, src and params are filled in.  Returns its result. */
static ingot_tensor *add_node(ingot_graph *g, const struct ingot_call *call) {
    char cause[INGOT_ERROR_TEXT];
    struct ingot_value *dst = ingot_value_of(call->dst);
    ingot_status st = ingot_check_call(g->ctx, call);
    if (st != INGOT_OK) {
        snprintf(cause, sizeof cause, "%s", ingot_error(g->ctx));
        return ingot_graph_error(g, ingot_fail(g->ctx, st, "node %d: %s", g->node_count, cause));
    }
    if (dst->base->origin == INGOT_ORIGIN_WEIGHT)
        return ingot_graph_error(g, ingot_fail(g->ctx, INGOT_ERR_INVALID,
                                               "node %d: %s writes to a weight; declare it with ingot_leaf",
                                               g->node_count, ingot_op_name((ingot_op)call->op)));
    struct ingot_call *nodes =
        ingot_grow(g->ctx, g->nodes, &g->node_capacity, g->node_count, sizeof(struct ingot_call));
    if (!nodes) return ingot_graph_error(g, INGOT_ERR_HOST_MEMORY);
    g->nodes = nodes;
    nodes[g->node_count++] = *call;
    return &dst->t;
}

/* Stores a call whose result is a new contiguous tensor. */
static ingot_tensor *add_result(ingot_graph *g, struct ingot_call *call, ingot_type type, int64_t ne0, int64_t ne1,
                                int64_t ne2, int64_t ne3) {
    const int64_t ne[4] = {ne0, ne1, ne2, ne3};
    ingot_tensor t;
    char text[96];
    ingot_status st = ingot_tensor_init(&t, type, 4, ne, NULL);
    if (st != INGOT_OK)
        return ingot_graph_error(
            g,
            ingot_fail(g->ctx, st, "node %d: %s: no result of type %d (%s) and shape [%lld,%lld,%lld,%lld] from %s: %s",
                       g->node_count, ingot_op_name((ingot_op)call->op), (int)type, ingot_type_name(type),
                       (long long)ne0, (long long)ne1, (long long)ne2, (long long)ne3,
                       ingot_describe(call->src[0], text), ingot_error(NULL)));
    struct ingot_value *v = ingot_value_new(g, &t, INGOT_ORIGIN_NODE);
    if (!v) return NULL;
    call->dst = &v->t;
    return add_node(g, call);
}

static ingot_tensor *add_like(ingot_graph *g, struct ingot_call *call, ingot_type type, const ingot_tensor *like) {
    return add_result(g, call, type, like->ne[0], like->ne[1], like->ne[2], like->ne[3]);
}

/* True if the graph is open and every operand is its own.  `optional` may be absent. */
static bool takes(ingot_graph *g, ingot_op op, const ingot_tensor *a, const ingot_tensor *b, const ingot_tensor *c,
                  const ingot_tensor *optional) {
    const char *name = ingot_op_name(op);
    return ingot_graph_open(g) && ingot_graph_owns(g, a, name, "source 0") &&
           ingot_graph_owns(g, b, name, "source 1") && ingot_graph_owns(g, c, name, "source 2") &&
           (!optional || ingot_graph_owns(g, optional, name, "the optional source"));
}

static ingot_tensor *no_params(ingot_graph *g, ingot_op op) {
    return ingot_graph_error(
        g, ingot_fail(g->ctx, INGOT_ERR_INVALID, "node %d: %s: params is NULL", g->node_count, ingot_op_name(op)));
}

ingot_tensor *ingot_get_rows(ingot_graph *g, ingot_tensor *table, ingot_tensor *ids) {
    struct ingot_call call = {.op = INGOT_OP_GET_ROWS, .src = {table, ids}};
    if (!takes(g, INGOT_OP_GET_ROWS, table, ids, ids, NULL)) return NULL;
    ingot_type type = table->type == INGOT_TYPE_I32 ? INGOT_TYPE_I32 : INGOT_TYPE_F32;
    return add_result(g, &call, type, table->ne[0], ids->ne[0], ids->ne[1], ids->ne[2]);
}

ingot_tensor *ingot_set_rows(ingot_graph *g, ingot_tensor *dst, ingot_tensor *rows, ingot_tensor *ids) {
    struct ingot_call call = {.op = INGOT_OP_SET_ROWS, .dst = dst, .src = {rows, ids}};
    if (!takes(g, INGOT_OP_SET_ROWS, rows, ids, rows, NULL)) return NULL;
    if (!ingot_graph_owns(g, dst, "set_rows", "dst")) return NULL;
    return add_node(g, &call);
}

ingot_tensor *ingot_cpy(ingot_graph *g, ingot_tensor *src, ingot_tensor *dst) {
    struct ingot_call call = {.op = INGOT_OP_CPY, .dst = dst, .src = {src}};
    if (!takes(g, INGOT_OP_CPY, src, src, src, NULL)) return NULL;
    if (!ingot_graph_owns(g, dst, "cpy", "dst")) return NULL;
    return add_node(g, &call);
}

ingot_tensor *ingot_cast(ingot_graph *g, ingot_tensor *a, ingot_type type) {
    struct ingot_call call = {.op = INGOT_OP_CPY, .src = {a}};
    if (!takes(g, INGOT_OP_CPY, a, a, a, NULL)) return NULL;
    return add_like(g, &call, type, a);
}

ingot_tensor *ingot_cont(ingot_graph *g, ingot_tensor *a) {
    if (!takes(g, INGOT_OP_CPY, a, a, a, NULL)) return NULL;
    return ingot_cast(g, a, a->type);
}

ingot_tensor *ingot_add(ingot_graph *g, ingot_tensor *a, ingot_tensor *b) {
    struct ingot_call call = {.op = INGOT_OP_ADD, .src = {a, b}};
    if (!takes(g, INGOT_OP_ADD, a, b, a, NULL)) return NULL;
    return add_like(g, &call, a->type, a);
}

ingot_tensor *ingot_mul(ingot_graph *g, ingot_tensor *a, ingot_tensor *b) {
    struct ingot_call call = {.op = INGOT_OP_MUL, .src = {a, b}};
    if (!takes(g, INGOT_OP_MUL, a, b, a, NULL)) return NULL;
    return add_like(g, &call, a->type, a);
}

ingot_tensor *ingot_rms_norm(ingot_graph *g, ingot_tensor *a, float eps) {
    struct ingot_call call = {.op = INGOT_OP_RMS_NORM, .src = {a}};
    if (!takes(g, INGOT_OP_RMS_NORM, a, a, a, NULL)) return NULL;
    call.params.params.rms_norm.eps = eps;
    return add_like(g, &call, INGOT_TYPE_F32, a);
}

static ingot_tensor *rope(ingot_graph *g, ingot_tensor *a, ingot_tensor *pos, ingot_tensor *factors,
                          const ingot_rope_params *params, bool inplace) {
    struct ingot_call call = {.op = INGOT_OP_ROPE, .dst = a, .src = {a, pos, factors}};
    if (!takes(g, INGOT_OP_ROPE, a, pos, a, factors)) return NULL;
    if (!params) return no_params(g, INGOT_OP_ROPE);
    call.params.params.rope = *params;
    return inplace ? add_node(g, &call) : add_like(g, &call, a->type, a);
}

ingot_tensor *ingot_rope(ingot_graph *g, ingot_tensor *a, ingot_tensor *pos, ingot_tensor *factors,
                         const ingot_rope_params *params) {
    return rope(g, a, pos, factors, params, false);
}

ingot_tensor *ingot_rope_inplace(ingot_graph *g, ingot_tensor *a, ingot_tensor *pos, ingot_tensor *factors,
                                 const ingot_rope_params *params) {
    return rope(g, a, pos, factors, params, true);
}

static ingot_tensor *unary(ingot_graph *g, ingot_op op, ingot_tensor *a) {
    struct ingot_call call = {.op = (int)op, .src = {a}};
    if (!takes(g, op, a, a, a, NULL)) return NULL;
    return add_like(g, &call, a->type, a);
}

ingot_tensor *ingot_silu(ingot_graph *g, ingot_tensor *a) {
    return unary(g, INGOT_OP_SILU, a);
}

ingot_tensor *ingot_relu(ingot_graph *g, ingot_tensor *a) {
    return unary(g, INGOT_OP_RELU, a);
}

ingot_tensor *ingot_gelu(ingot_graph *g, ingot_tensor *a) {
    return unary(g, INGOT_OP_GELU, a);
}

ingot_tensor *ingot_gelu_erf(ingot_graph *g, ingot_tensor *a) {
    return unary(g, INGOT_OP_GELU_ERF, a);
}

ingot_tensor *ingot_gelu_quick(ingot_graph *g, ingot_tensor *a) {
    return unary(g, INGOT_OP_GELU_QUICK, a);
}

ingot_tensor *ingot_glu(ingot_graph *g, ingot_tensor *gate, ingot_tensor *up, const ingot_glu_params *params) {
    struct ingot_call call = {.op = INGOT_OP_GLU, .src = {gate, up}};
    if (!takes(g, INGOT_OP_GLU, gate, gate, gate, up)) return NULL;
    if (!params) return no_params(g, INGOT_OP_GLU);
    call.params.params.glu = *params;
    int64_t halves = up ? 1 : 2;
    return add_result(g, &call, gate->type, gate->ne[0] / halves, gate->ne[1], gate->ne[2], gate->ne[3]);
}

ingot_tensor *ingot_soft_max(ingot_graph *g, ingot_tensor *a, ingot_tensor *mask, float scale) {
    struct ingot_call call = {.op = INGOT_OP_SOFT_MAX, .src = {a, mask}};
    if (!takes(g, INGOT_OP_SOFT_MAX, a, a, a, mask)) return NULL;
    call.params.params.soft_max.scale = scale;
    return add_like(g, &call, INGOT_TYPE_F32, a);
}

ingot_tensor *ingot_mul_mat(ingot_graph *g, ingot_tensor *a, ingot_tensor *b, ingot_prec prec) {
    struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .src = {a, b}};
    if (!takes(g, INGOT_OP_MUL_MAT, a, b, a, NULL)) return NULL;
    call.params.params.mul_mat.prec = prec;
    call.constant_weight = ingot_value_of(a)->base->origin == INGOT_ORIGIN_WEIGHT;
    return add_result(g, &call, INGOT_TYPE_F32, a->ne[1], b->ne[1], b->ne[2], b->ne[3]);
}

ingot_tensor *ingot_mul_mat_id(ingot_graph *g, ingot_tensor *a, ingot_tensor *b, ingot_tensor *ids, ingot_prec prec) {
    struct ingot_call call = {.op = INGOT_OP_MUL_MAT_ID, .src = {a, b, ids}};
    if (!takes(g, INGOT_OP_MUL_MAT_ID, a, b, ids, NULL)) return NULL;
    call.params.params.mul_mat.prec = prec;
    call.constant_weight = ingot_value_of(a)->base->origin == INGOT_ORIGIN_WEIGHT;
    return add_result(g, &call, INGOT_TYPE_F32, a->ne[1], ids->ne[0], ids->ne[1], 1);
}

ingot_tensor *ingot_attention(ingot_graph *g, ingot_tensor *q, ingot_tensor *k, ingot_tensor *v, ingot_tensor *kv_len,
                              const ingot_attention_params *params) {
    struct ingot_call call = {.op = INGOT_OP_ATTENTION, .src = {q, k, v, kv_len}};
    if (!takes(g, INGOT_OP_ATTENTION, q, k, v, kv_len)) return NULL;
    if (!params) return no_params(g, INGOT_OP_ATTENTION);
    call.params.params.attention = *params;
    return add_result(g, &call, INGOT_TYPE_F32, q->ne[0], q->ne[2], q->ne[1], q->ne[3]);
}
