// SPDX-License-Identifier: MIT
/* plan.c - from nodes to commands: copy the calls, merge them, lay out the arena, emit.
 *
 * Everything before the emission looks at shapes only, so measuring takes the same way and gives the same figures. */
#include <string.h>

#include "graph.h"

/* ---- nodes to steps */

static ingot_status lower(struct ingot_planner *p) {
    struct ingot_graph *g = p->graph;
    void *memory = NULL;
    ingot_status st;
    if (g->node_count == 0) return INGOT_OK;
    st = ingot_alloc(p->ctx, INGOT_MEMORY_HOST, (size_t)g->node_count * sizeof *p->steps, &memory);
    if (st != INGOT_OK) return st;
    p->steps = memory;
    p->step_capacity = p->step_count = g->node_count;
    for (int i = 0; i < g->node_count; i++)
        p->steps[i] = (struct ingot_step){.call = g->nodes[i], .q8_in = -1, .q8_out = -1, .scratch = -1};
    return INGOT_OK;
}

/* The caller's promise about weights, as far as addresses tell. */
static ingot_status check_weights(struct ingot_planner *p) {
    for (int s = 0; s < p->graph->node_count; s++) {
        const ingot_tensor *dst = p->graph->nodes[s].dst;
        char text[96];
        if (ingot_value_of(dst)->base->origin == INGOT_ORIGIN_NODE) continue;
        for (const struct ingot_value_chunk *chunk = p->graph->chunks; chunk; chunk = chunk->next)
            for (int i = 0; i < chunk->count; i++)
                if (chunk->values[i].base->origin == INGOT_ORIGIN_WEIGHT &&
                    ingot_values_overlap(dst, &chunk->values[i].t))
                    return ingot_fail(
                        p->ctx, INGOT_ERR_INVALID, "graph: node %d (%s) writes to the memory of weight %s", s,
                        ingot_op_name((ingot_op)p->graph->nodes[s].op), ingot_describe(&chunk->values[i].t, text));
    }
    return INGOT_OK;
}

static ingot_status check_data(struct ingot_planner *p) {
    for (int s = 0; s < p->graph->node_count; s++) {
        const struct ingot_call *call = &p->graph->nodes[s];
        for (int i = -1; i < INGOT_MAX_SRC; i++) {
            const ingot_tensor *t = i < 0 ? call->dst : call->src[i];
            char text[96];
            if (!t || ingot_is_empty(t) || ingot_value_of(t)->base->t.data) continue;
            if (ingot_value_of(t)->base->origin == INGOT_ORIGIN_NODE) continue;
            return ingot_fail(p->ctx, INGOT_ERR_INVALID, "graph: node %d (%s): the data of %s %s is NULL", s,
                              ingot_op_name((ingot_op)call->op),
                              ingot_value_of(t)->base->origin == INGOT_ORIGIN_WEIGHT ? "weight" : "leaf",
                              ingot_describe(t, text));
        }
    }
    return INGOT_OK;
}

/* ---- steps to commands */

struct store {
    struct ingot_emitter em;
    struct ingot_graph *graph;
    char *scratch; /* the rest of the step's own */
    size_t left;
};

static ingot_status store_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    struct store *to = (struct store *)em;
    size_t padded = (bytes + 255) / 256 * 256;
    *out = NULL;
    if (bytes == 0) return INGOT_OK;
    if (padded > to->left)
        return ingot_fail(em->ctx, INGOT_ERR_UNSUPPORTED,
                          "graph: a step wants %zu bytes of scratch more than shapes told (misaligned data?)",
                          padded - to->left);
    *out = to->scratch;
    to->scratch += padded;
    to->left -= padded;
    return INGOT_OK;
}

static ingot_status store_push(struct ingot_emitter *em, const struct ingot_command *command) {
    struct ingot_graph *g = ((struct store *)em)->graph;
    struct ingot_command *commands =
        ingot_grow(em->ctx, g->commands, &g->command_capacity, g->command_count, sizeof *commands);
    if (!commands) return INGOT_ERR_HOST_MEMORY;
    g->commands = commands;
    commands[g->command_count++] = *command;
    return INGOT_OK;
}

/* Points every value at its memory. */
static void bind(struct ingot_planner *p) {
    char *arena = p->graph->arena;
    for (int pass = 0; pass < 2; pass++) /* bases, then what views them */
        for (struct ingot_value_chunk *chunk = p->graph->chunks; chunk; chunk = chunk->next)
            for (int i = 0; i < chunk->count; i++) {
                struct ingot_value *v = &chunk->values[i], *base = v->base;
                if (pass == 0 && v == base && v->origin == INGOT_ORIGIN_NODE)
                    v->t.data = v->block >= 0 && arena ? arena + p->blocks[v->block].offset : NULL;
                if (pass == 1 && v != base) v->t.data = base->t.data ? (char *)base->t.data + v->offset : NULL;
            }
}

static struct ingot_arg_q8 bind_q8(const struct ingot_planner *p, int block) {
    const struct ingot_block *b = block >= 0 ? &p->blocks[block] : NULL;
    if (!b || !b->bytes) return (struct ingot_arg_q8){0};
    return ingot_q8_at((char *)p->graph->arena + b->offset, b->columns);
}

static ingot_status emit(struct ingot_planner *p) {
    struct store to = {.em = {.ctx = p->ctx, .scratch = store_scratch, .push = store_push}, .graph = p->graph};
    ingot_status st = INGOT_OK;
    bind(p);
    for (int s = 0; s < p->step_count && st == INGOT_OK; s++) {
        struct ingot_step *step = &p->steps[s];
        const struct ingot_block *scratch = step->scratch >= 0 ? &p->blocks[step->scratch] : NULL;
        step->call.q8_in = bind_q8(p, step->q8_in);
        step->call.q8_out = bind_q8(p, step->q8_out);
        to.scratch = scratch ? (char *)p->graph->arena + scratch->offset : NULL;
        to.left = scratch ? scratch->bytes : 0;
        st = ingot_emit(&to.em, &step->call);
    }
    return st;
}

/* ---- the plan */

static void drop_plan(struct ingot_graph *g) {
    ingot_graph_reset_runs(g);
    if (g->owns_arena) ingot_free(g->ctx, INGOT_MEMORY_DEVICE, g->arena);
    ingot_free(g->ctx, INGOT_MEMORY_HOST, g->commands);
    g->arena = NULL;
    g->commands = NULL;
    g->command_count = g->command_capacity = 0;
    g->planned = g->owns_arena = false;
}

static ingot_status take_arena(struct ingot_planner *p, const ingot_plan_options *options) {
    struct ingot_graph *g = p->graph;
    if (!options || !options->arena) {
        if (p->arena_bytes == 0) return INGOT_OK;
        ingot_status st = ingot_alloc(p->ctx, INGOT_MEMORY_DEVICE, p->arena_bytes, &g->arena);
        g->owns_arena = st == INGOT_OK;
        return st;
    }
    if ((uintptr_t)options->arena % 256)
        return ingot_fail(p->ctx, INGOT_ERR_INVALID, "graph: the arena %p is not aligned to 256 bytes", options->arena);
    if (options->arena_bytes < p->arena_bytes)
        return ingot_fail(p->ctx, INGOT_ERR_DEVICE_MEMORY, "graph: the arena has %zu bytes, the plan takes %zu",
                          options->arena_bytes, p->arena_bytes);
    g->arena = options->arena;
    return INGOT_OK;
}

static ingot_status make_plan(struct ingot_planner *p, const ingot_plan_options *options, ingot_plan_info *info) {
    bool measure = options && options->measure;
    ingot_status st = INGOT_OK;
    if (!measure) INGOT_TRY(check_data(p), st, done);
    INGOT_TRY(check_weights(p), st, done);
    INGOT_TRY(lower(p), st, done);
    if (p->ctx->fuse) {
        ingot_fuse(p);
        INGOT_TRY(ingot_share_q8(p), st, done);
    }
    INGOT_TRY(ingot_find_lifetimes(p), st, done);
    INGOT_TRY(ingot_place_blocks(p), st, done);
    *info = (ingot_plan_info){p->arena_bytes, p->naive_bytes, p->graph->node_count, p->launches, p->fused};
    ingot_log(p->ctx, "graph: %d nodes, %d launches, %d fused away, %zu bytes of arena (%zu without reuse)",
              info->nodes, info->launches, info->fused, info->arena_bytes, info->naive_bytes);
    if (measure) goto done;
    INGOT_TRY(take_arena(p, options), st, done);
    INGOT_TRY(emit(p), st, done);
    p->graph->planned = true;
done:
    return st;
}

static ingot_status check_plan(struct ingot_graph *g, const ingot_plan_options *options) {
    if (options && options->size < sizeof *options)
        return ingot_fail(g->ctx, INGOT_ERR_INVALID, "graph_plan: options->size is %zu, not sizeof(ingot_plan_options)",
                          options->size);
    if (g->status != INGOT_OK) return ingot_fail(g->ctx, g->status, "%s", g->error);
    if (ingot_is_capturing(g->ctx))
        return ingot_fail(g->ctx, INGOT_ERR_STATE, "graph_plan: the context's stream is being captured");
    return INGOT_OK;
}

ingot_status ingot_graph_plan(ingot_graph *g, const ingot_plan_options *options, ingot_plan_info *info) {
    int previous = 0;
    ingot_plan_info figures = {0};
    if (info) *info = figures;
    if (!g) return ingot_fail(NULL, INGOT_ERR_INVALID, "graph_plan: the graph is NULL");
    struct ingot_planner p = {.ctx = g->ctx, .graph = g};
    ingot_status st = ingot_enter(g->ctx, &previous);
    if (st != INGOT_OK) return st;
    INGOT_TRY(check_plan(g, options), st, done);
    drop_plan(g);
    st = make_plan(&p, options, &figures);
    if (st != INGOT_OK) drop_plan(g);
    if (info) *info = figures;
done:
    ingot_free(g->ctx, INGOT_MEMORY_HOST, p.steps);
    ingot_free(g->ctx, INGOT_MEMORY_HOST, p.blocks);
    ingot_leave(g->ctx, previous);
    return st;
}
