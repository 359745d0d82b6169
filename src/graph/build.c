// SPDX-License-Identifier: MIT
/* build.c - a graph and its tensors: leaves, weights and views.
 *
 * Tensors lie in chunks that never move, since the caller holds pointers to them.  The first error is kept and every
 * later builder answers NULL at once, so that a whole model can be built and the one cause is reported by the plan. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph.h"

/* ---- memory */

void *ingot_grow(ingot_context *ctx, void *items, int *capacity, int count, size_t item_bytes) {
    if (count < *capacity) return items;
    if (*capacity > INT_MAX / 2) {
        ingot_fail(ctx, INGOT_ERR_HOST_MEMORY, "graph: more than %d items", *capacity);
        return NULL;
    }
    int larger = *capacity ? 2 * *capacity : 64;
    void *moved = NULL;
    if (ingot_alloc(ctx, INGOT_MEMORY_HOST, (size_t)larger * item_bytes, &moved) != INGOT_OK) return NULL;
    if (count) memcpy(moved, items, (size_t)count * item_bytes);
    ingot_free(ctx, INGOT_MEMORY_HOST, items);
    *capacity = larger;
    return moved;
}

/* ---- errors */

void *ingot_graph_error(struct ingot_graph *g, ingot_status status) {
    if (g->status == INGOT_OK) {
        g->status = status;
        snprintf(g->error, sizeof g->error, "%s", ingot_error(g->ctx));
    }
    return NULL;
}

bool ingot_graph_open(struct ingot_graph *g) {
    if (!g || g->status != INGOT_OK) return false;
    if (!g->planned) return true;
    ingot_fail(g->ctx, INGOT_ERR_STATE, "graph: already planned, nothing can be added");
    return false;
}

bool ingot_graph_owns(struct ingot_graph *g, const ingot_tensor *t, const char *builder, const char *operand) {
    for (const struct ingot_value_chunk *chunk = g->chunks; t && chunk; chunk = chunk->next) {
        uintptr_t first = (uintptr_t)chunk->values, at = (uintptr_t)t;
        if (at < first || at >= (uintptr_t)(chunk->values + chunk->count)) continue;
        if ((at - first) % sizeof(struct ingot_value) == 0) return true;
    }
    ingot_graph_error(g, ingot_fail(g->ctx, INGOT_ERR_INVALID, "%s (node %d): %s is %s", builder, g->node_count,
                                    operand, t ? "no tensor of this graph" : "NULL"));
    return false;
}

/* ---- the graph */

ingot_status ingot_graph_create(ingot_context *ctx, ingot_graph **out) {
    int previous = 0;
    void *memory = NULL;
    ingot_status st;
    if (!out) return ingot_fail(ctx, INGOT_ERR_INVALID, "graph_create: out is NULL");
    *out = NULL;
    st = ingot_enter(ctx, &previous);
    if (st != INGOT_OK) return st;
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof(struct ingot_graph), &memory), st, done);
    memset(memory, 0, sizeof(struct ingot_graph));
    *out = memory;
    (*out)->ctx = ctx;
done:
    ingot_leave(ctx, previous);
    return st;
}

void ingot_graph_destroy(ingot_graph *g) {
    if (!g) return;
    ingot_context *ctx = g->ctx;
    ingot_graph_reset_runs(g);
    if (g->owns_arena) ingot_free(ctx, INGOT_MEMORY_DEVICE, g->arena);
    while (g->chunks) {
        struct ingot_value_chunk *chunk = g->chunks;
        g->chunks = chunk->next;
        ingot_free(ctx, INGOT_MEMORY_HOST, chunk);
    }
    ingot_free(ctx, INGOT_MEMORY_HOST, g->nodes);
    ingot_free(ctx, INGOT_MEMORY_HOST, g->commands);
    ingot_free(ctx, INGOT_MEMORY_HOST, g);
}

struct ingot_value *ingot_value_new(struct ingot_graph *g, const ingot_tensor *t, enum ingot_origin origin) {
    if (!g->chunks || g->chunks->count == INGOT_VALUES_PER_CHUNK) {
        void *memory = NULL;
        ingot_status st = ingot_alloc(g->ctx, INGOT_MEMORY_HOST, sizeof(struct ingot_value_chunk), &memory);
        if (st != INGOT_OK) return ingot_graph_error(g, st);
        struct ingot_value_chunk *chunk = memory;
        chunk->next = g->chunks;
        chunk->count = 0;
        g->chunks = chunk;
    }
    struct ingot_value *v = &g->chunks->values[g->chunks->count++];
    *v = (struct ingot_value){.t = *t, .base = v, .origin = origin, .producer = -1, .block = -1};
    return v;
}

/* ---- leaves */

/* One past the last byte a tensor addresses, or -1 if that does not fit in 63 bits. */
static int64_t checked_span(const ingot_tensor *t) {
    int64_t block = ingot_type_block(t->type), span = (int64_t)ingot_type_size(t->type);
    for (int i = 0; i < 4; i++)
        if (t->ne[i] == 0) return 0;
    for (int i = 0; i < 4; i++) {
        int64_t steps = (i == 0 ? t->ne[0] / block : t->ne[i]) - 1, way = 0;
        if (steps == 0) continue; /* the stride is never used */
        if (t->nb[i] > INT64_MAX) return -1;
        if (!ingot_mul_size(steps, (int64_t)t->nb[i], &way) || !ingot_add_size(span, way, &span)) return -1;
    }
    return span;
}

enum { FAULT = 160 }; /* bytes of a fault's text */

/* What is wrong with a descriptor, or NULL; may be written to text. */
static const char *descriptor_fault(const ingot_tensor *t, size_t offset, char text[FAULT]) {
    int64_t block = ingot_type_block(t->type), elements = 1;
    size_t size = ingot_type_size(t->type), align = ingot_type_alignment(t->type);
    if (block <= 0 || size == 0) return "the type is unknown";
    for (int i = 0; i < 4; i++) {
        if (t->ne[i] < 0) return "a dimension is negative";
        if (t->ne[i] > 1 && t->nb[i] % align) {
            snprintf(text, FAULT, "nb[%d] is %zu, expected a multiple of %zu", i, t->nb[i], align);
            return text;
        }
    }
    for (int i = 0; i < 4; i++)
        if (t->ne[i] && !ingot_mul_size(elements, t->ne[i], &elements)) return "the size does not fit in 63 bits";
    if (t->ne[0] % block) {
        snprintf(text, FAULT, "ne[0] is %lld, expected a multiple of %s's block of %lld", (long long)t->ne[0],
                 ingot_type_name(t->type), (long long)block);
        return text;
    }
    if (block > 1 && t->nb[0] != size) {
        snprintf(text, FAULT, "nb[0] is %zu, expected the block's %zu bytes", t->nb[0], size);
        return text;
    }
    if (offset % align || (uintptr_t)t->data % align) {
        snprintf(text, FAULT, "the data is at %p, offset %zu, expected multiples of %zu", t->data, offset, align);
        return text;
    }
    if (checked_span(t) < 0) return "the size does not fit in 63 bits";
    return NULL;
}

static ingot_tensor *add_leaf(ingot_graph *g, const ingot_tensor *t, enum ingot_origin origin, const char *builder) {
    char text[96], why[FAULT];
    if (!ingot_graph_open(g)) return NULL;
    if (!t) return ingot_graph_error(g, ingot_fail(g->ctx, INGOT_ERR_INVALID, "%s: the tensor is NULL", builder));
    const char *fault = descriptor_fault(t, 0, why);
    if (fault)
        return ingot_graph_error(
            g, ingot_fail(g->ctx, INGOT_ERR_INVALID, "%s: %s: %s", builder, ingot_describe(t, text), fault));
    return (ingot_tensor *)ingot_value_new(g, t, origin);
}

ingot_tensor *ingot_leaf(ingot_graph *g, const ingot_tensor *t) {
    return add_leaf(g, t, INGOT_ORIGIN_LEAF, "leaf");
}

ingot_tensor *ingot_weight(ingot_graph *g, const ingot_tensor *t) {
    return add_leaf(g, t, INGOT_ORIGIN_WEIGHT, "weight");
}

/* ---- views */

static ingot_tensor *add_view(ingot_graph *g, const ingot_tensor *a, const ingot_tensor *shape, size_t offset) {
    struct ingot_value *of = ingot_value_of(a);
    struct ingot_value *v = ingot_value_new(g, shape, of->base->origin);
    if (!v) return NULL;
    v->base = of->base;
    v->offset = of->offset + offset;
    v->t.data = a->data ? (char *)a->data + offset : NULL;
    return &v->t;
}

static void *view_error(ingot_graph *g, const char *builder, const ingot_tensor *a, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void *view_error(ingot_graph *g, const char *builder, const ingot_tensor *a, const char *fmt, ...) {
    char text[96], fault[INGOT_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(fault, sizeof fault, fmt, args);
    va_end(args);
    return ingot_graph_error(g, ingot_fail(g->ctx, INGOT_ERR_INVALID, "%s (before node %d): of %s: %s", builder,
                                           g->node_count, ingot_describe(a, text), fault));
}

ingot_tensor *ingot_view(ingot_graph *g, ingot_tensor *a, int n_dims, const int64_t *ne, const size_t *nb,
                         size_t offset) {
    if (!ingot_graph_open(g) || !ingot_graph_owns(g, a, "view", "the tensor")) return NULL;
    if (n_dims < 1 || n_dims > 4) return view_error(g, "view", a, "there are 1 to 4 dimensions");
    if (!ne || (n_dims > 1 && !nb)) return view_error(g, "view", a, "ne or nb is NULL");
    ingot_tensor t = {.type = a->type, .ne = {1, 1, 1, 1}, .nb = {a->nb[0]}};
    for (int i = 0; i < n_dims; i++) t.ne[i] = ne[i];
    for (int i = 1; i < n_dims; i++) t.nb[i] = nb[i];
    char why[FAULT];
    const char *fault = descriptor_fault(&t, offset, why);
    if (fault) return view_error(g, "view", a, "%s", fault);
    int64_t span = checked_span(&t), held = checked_span(a);
    if (n_dims < 4) { /* dimensions of 1 step over what lies before them, as in a contiguous tensor */
        size_t step = n_dims == 1 ? (size_t)(t.ne[0] / ingot_type_block(t.type)) * t.nb[0]
                                  : (size_t)t.ne[n_dims - 1] * t.nb[n_dims - 1];
        for (int i = n_dims; i < 4; i++) t.nb[i] = step;
    }
    if (offset > (size_t)held || span > held - (int64_t)offset)
        return view_error(g, "view", a, "%lld bytes from offset %zu, which is past the end at %lld", (long long)span,
                          offset, (long long)held);
    return add_view(g, a, &t, offset);
}

ingot_tensor *ingot_reshape(ingot_graph *g, ingot_tensor *a, int n_dims, const int64_t *ne) {
    ingot_tensor t;
    if (!ingot_graph_open(g) || !ingot_graph_owns(g, a, "reshape", "the tensor")) return NULL;
    ingot_status st = ingot_tensor_init(&t, a->type, n_dims, ne, NULL);
    if (st != INGOT_OK) return view_error(g, "reshape", a, "%s", ingot_error(NULL));
    if (!ingot_is_contiguous(a)) return view_error(g, "reshape", a, "it is not contiguous");
    if (ingot_tensor_elements(&t) != ingot_tensor_elements(a))
        return view_error(g, "reshape", a, "%lld elements, expected %lld", (long long)ingot_tensor_elements(&t),
                          (long long)ingot_tensor_elements(a));
    return add_view(g, a, &t, 0);
}

ingot_tensor *ingot_permute(ingot_graph *g, ingot_tensor *a, int axis0, int axis1, int axis2, int axis3) {
    const int axis[4] = {axis0, axis1, axis2, axis3};
    unsigned seen = 0;
    if (!ingot_graph_open(g) || !ingot_graph_owns(g, a, "permute", "the tensor")) return NULL;
    ingot_tensor t = *a;
    for (int i = 0; i < 4; i++) {
        if (axis[i] < 0 || axis[i] > 3 || (seen & 1u << axis[i]))
            return view_error(g, "permute", a, "the axes are no permutation of 0 to 3");
        seen |= 1u << axis[i];
        t.ne[axis[i]] = a->ne[i];
        t.nb[axis[i]] = a->nb[i];
    }
    if (axis[0] != 0 && ingot_type_block(a->type) > 1)
        return view_error(g, "permute", a, "dimension 0 of a block format stays where it is");
    return add_view(g, a, &t, 0);
}

void ingot_output(ingot_graph *g, ingot_tensor *t) {
    if (!ingot_graph_open(g) || !ingot_graph_owns(g, t, "output", "the tensor")) return;
    ingot_value_of(t)->base->output = true;
}
