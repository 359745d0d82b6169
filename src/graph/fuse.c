// SPDX-License-Identifier: MIT
/* fuse.c - fewer launches for the same numbers: two tables of rules and the checks that make them legal.
 *
 * 1. `merges`: a node and the only node that reads its result become one call, and so do two products and a GLU of
 *    them.  A rule says what the merged call is;
 *    when it is legal is decided once, here: the intermediate is no output, nothing else reads or writes its memory
 *    through any view, and the merged call, put in the place of the first or else of the second, reads and writes
 *    nothing across a step that writes or reads the same bytes.
 * 2. `rounds`: the ops that can round their result to q8 as they write it.  An activation is rounded once for all the
 *    products that want it: by its producer, or by a QUANTIZE in front of the first product. */
#include "graph.h"

/* ---- memory */

int ingot_call_reads(const struct ingot_call *call, const ingot_tensor *reads[INGOT_MAX_READS]) {
    int n = 0;
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (call->src[i] && !(i == 1 && call->have_q8_in)) reads[n++] = call->src[i];
    if (call->mul) reads[n++] = call->mul;
    for (int i = 0; i < 2; i++)
        if (call->add[i]) reads[n++] = call->add[i];
    if (call->up) reads[n++] = call->up;
    return n;
}

bool ingot_values_overlap(const ingot_tensor *a, const ingot_tensor *b) {
    const struct ingot_value *base_a = ingot_value_of(a)->base, *base_b = ingot_value_of(b)->base;
    ingot_tensor at_a = *a, at_b = *b;
    bool callers = base_a->origin != INGOT_ORIGIN_NODE && base_b->origin != INGOT_ORIGIN_NODE;
    if (base_a != base_b && !(callers && base_a->t.data && base_b->t.data)) return false;
    /* in the arena there are no addresses yet: any one will do for views of one base */
    uintptr_t home = 256;
    at_a.data = (void *)((base_a->t.data ? (uintptr_t)base_a->t.data : home) + ingot_value_of(a)->offset);
    at_b.data = (void *)((base_b->t.data ? (uintptr_t)base_b->t.data : home) + ingot_value_of(b)->offset);
    return ingot_overlap(&at_a, &at_b);
}

/* True if no step between (both ends excluded) writes what `t` shows; with `reads`, nor reads it. */
static bool untouched(const struct ingot_planner *p, const ingot_tensor *t, int from, int to, bool reads) {
    for (int s = from + 1; s < to; s++) {
        const struct ingot_call *call = &p->steps[s].call;
        const ingot_tensor *read[INGOT_MAX_READS];
        if (call->dst && ingot_values_overlap(call->dst, t)) return false;
        for (int i = reads ? ingot_call_reads(call, read) - 1 : -1; i >= 0; i--)
            if (ingot_values_overlap(read[i], t)) return false;
    }
    return true;
}

void ingot_count_uses(struct ingot_planner *p) {
    for (struct ingot_value_chunk *chunk = p->graph->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < chunk->count; i++) {
            struct ingot_value *v = &chunk->values[i];
            v->reads = v->writes = 0;
            v->producer = v->block = -1;
        }
    for (int s = 0; s < p->step_count; s++) {
        const ingot_tensor *read[INGOT_MAX_READS];
        struct ingot_call *call = &p->steps[s].call;
        for (int i = ingot_call_reads(call, read) - 1; i >= 0; i--) ingot_value_of(read[i])->base->reads++;
        if (!call->dst) continue;
        struct ingot_value *base = ingot_value_of(call->dst)->base;
        if (base->writes++ == 0 && base->origin == INGOT_ORIGIN_NODE) base->producer = s;
    }
}

/* ---- merging two calls */

/* True if the two show the same elements in the same layout. */
static bool same_view(const ingot_tensor *a, const ingot_tensor *b) {
    const struct ingot_value *va = ingot_value_of(a), *vb = ingot_value_of(b);
    if (va->base != vb->base || va->offset != vb->offset || a->type != b->type) return false;
    for (int i = 0; i < 4; i++)
        if (a->ne[i] != b->ne[i] || (a->ne[i] != 1 && a->nb[i] != b->nb[i])) return false;
    return true;
}

/* The source of a two-source call that is not `t`, or NULL if `t` as it is is neither. */
static const ingot_tensor *other_source(const struct ingot_call *call, const ingot_tensor *t) {
    if (same_view(call->src[0], t)) return call->src[1];
    return same_view(call->src[1], t) ? call->src[0] : NULL;
}

static bool merge_norm_mul(ingot_context *ctx, const struct ingot_call *norm, const struct ingot_call *mul,
                           struct ingot_call *merged) {
    const ingot_tensor *row = other_source(mul, norm->dst);
    (void)ctx;
    if (norm->mul || !row || row->type != INGOT_TYPE_F32 || !ingot_is_contiguous(row)) return false;
    if (row->ne[0] != norm->dst->ne[0] || ingot_tensor_elements(row) != row->ne[0]) return false;
    if (mul->dst->type != INGOT_TYPE_F32 || !ingot_same_shape(mul->dst, norm->dst)) return false;
    *merged = *norm;
    merged->mul = row;
    merged->dst = mul->dst;
    return true;
}

static bool merge_product_add(ingot_context *ctx, const struct ingot_call *product, const struct ingot_call *add,
                              struct ingot_call *merged) {
    const ingot_tensor *other = other_source(add, product->dst);
    if (!other || !ingot_same_shape(add->dst, product->dst) || add->dst->type != INGOT_TYPE_F32) return false;
    if (!ingot_mul_mat_takes_add(ctx, product, other)) return false;
    *merged = *product;
    merged->add[product->add[0] ? 1 : 0] = other;
    merged->dst = add->dst;
    return true;
}

static bool merge_product_halves(ingot_context *ctx, const struct ingot_call *product, const struct ingot_call *glu,
                                 struct ingot_call *merged) {
    if (glu->src[1] || !same_view(glu->src[0], product->dst)) return false;
    if (!ingot_mul_mat_takes_glu(ctx, product, NULL)) return false;
    *merged = *product;
    merged->gated = true;
    merged->glu = glu->params.params.glu;
    merged->dst = glu->dst;
    return true;
}

static const struct {
    const char *name;
    int first, second;
    bool (*merge)(ingot_context *ctx, const struct ingot_call *first, const struct ingot_call *second,
                  struct ingot_call *merged);
} merges[] = {
    {"rms_norm * row", INGOT_OP_RMS_NORM, INGOT_OP_MUL, merge_norm_mul},
    {"mul_mat + tensor", INGOT_OP_MUL_MAT, INGOT_OP_ADD, merge_product_add},
    {"mul_mat_id + tensor", INGOT_OP_MUL_MAT_ID, INGOT_OP_ADD, merge_product_add},
    {"glu of mul_mat", INGOT_OP_MUL_MAT, INGOT_OP_GLU, merge_product_halves},
    {"glu of mul_mat_id", INGOT_OP_MUL_MAT_ID, INGOT_OP_GLU, merge_product_halves},
};

/* The only step that reads the result of step `s`, or -1 if there is not exactly one or the result is seen otherwise. */
static int only_reader(const struct ingot_planner *p, int s) {
    const struct ingot_value *t = ingot_value_of(p->steps[s].call.dst);
    if (t->base != t || t->origin != INGOT_ORIGIN_NODE || t->output || t->reads != 1 || t->writes != 1) return -1;
    for (int r = s + 1; r < p->step_count; r++) {
        const ingot_tensor *read[INGOT_MAX_READS];
        for (int i = ingot_call_reads(&p->steps[r].call, read) - 1; i >= 0; i--)
            if (ingot_value_of(read[i])->base == t) return r;
    }
    return -1;
}

/* Where the merged call of steps i < j may stand: i, j, or -1.  At i it reads j's other sources and writes j's result
 * early; at j it reads i's sources late. */
static int merged_place(const struct ingot_planner *p, int i, int j) {
    const struct ingot_call *first = &p->steps[i].call, *second = &p->steps[j].call;
    const ingot_tensor *read[INGOT_MAX_READS];
    bool up = untouched(p, second->dst, i, j, true), down = true;
    for (int n = ingot_call_reads(second, read) - 1; n >= 0; n--) {
        if (ingot_value_of(read[n])->base == ingot_value_of(first->dst)) continue;
        up = up && untouched(p, read[n], i, j, false);
    }
    for (int n = ingot_call_reads(first, read) - 1; n >= 0; n--) {
        if (ingot_values_overlap(read[n], second->dst)) return -1; /* it would overwrite what it still reads */
        down = down && untouched(p, read[n], i, j, false);
    }
    return up ? i : down ? j : -1;
}

/* Tries every rule on step `i` and its only reader. */
static bool merge_at(struct ingot_planner *p, int i) {
    struct ingot_call *first = &p->steps[i].call, merged;
    for (size_t rule = 0; rule < sizeof merges / sizeof merges[0]; rule++) {
        if (first->op != merges[rule].first) continue;
        int j = only_reader(p, i);
        if (j < 0 || p->steps[j].call.op != merges[rule].second) continue;
        int place = merged_place(p, i, j);
        if (place < 0 || !merges[rule].merge(p->ctx, first, &p->steps[j].call, &merged)) continue;
        ingot_log(p->ctx, "graph: %s in one call (steps %d, %d)", merges[rule].name, i, j);
        ingot_value_of(first->dst)->reads = ingot_value_of(first->dst)->writes = 0;
        p->steps[i].call = p->steps[j].call = (struct ingot_call){.op = INGOT_OP_NONE};
        p->steps[place].call = merged;
        p->fused++;
        return true;
    }
    return false;
}

/* ---- merging two products and the GLU of them */

static bool is_product(const struct ingot_call *call) {
    return call->op == INGOT_OP_MUL_MAT || call->op == INGOT_OP_MUL_MAT_ID;
}

/* The product that makes `t` for step `j` alone, or -1. */
static int product_for(const struct ingot_planner *p, const ingot_tensor *t, int j) {
    for (int s = j - 1; s >= 0; s--)
        if (is_product(&p->steps[s].call) && same_view(p->steps[s].call.dst, t)) return only_reader(p, s) == j ? s : -1;
    return -1;
}

/* True if both multiply the same activations in the same way. */
static bool same_activations(const struct ingot_call *a, const struct ingot_call *b) {
    if (a->op != b->op || a->params.params.mul_mat.prec != b->params.params.mul_mat.prec) return false;
    return same_view(a->src[1], b->src[1]) && (!a->src[2] || same_view(a->src[2], b->src[2]));
}

/* True if step `s` may as well run in place of step `j`, writing j's result. */
static bool may_run_at(const struct ingot_planner *p, int s, int j) {
    const ingot_tensor *read[INGOT_MAX_READS];
    for (int n = ingot_call_reads(&p->steps[s].call, read) - 1; n >= 0; n--)
        if (ingot_values_overlap(read[n], p->steps[j].call.dst) || !untouched(p, read[n], s, j, false)) return false;
    return true;
}

static void gate_at(struct ingot_planner *p, int j) {
    const struct ingot_call *glu = &p->steps[j].call;
    if (glu->op != INGOT_OP_GLU || !glu->src[1]) return;
    int i[2] = {product_for(p, glu->src[0], j), product_for(p, glu->src[1], j)};
    if (i[0] < 0 || i[1] < 0 || i[0] == i[1]) return;
    const struct ingot_call *gate = &p->steps[i[0]].call, *up = &p->steps[i[1]].call;
    if (!same_activations(gate, up) || !ingot_mul_mat_takes_glu(p->ctx, gate, up)) return;
    if (!may_run_at(p, i[0], j) || !may_run_at(p, i[1], j)) return;
    struct ingot_call merged = *gate;
    merged.gated = true;
    merged.up = up->src[0];
    merged.add[1] = up->add[0];
    merged.glu = glu->params.params.glu;
    merged.dst = glu->dst;
    merged.constant_weight = gate->constant_weight && up->constant_weight;
    ingot_log(p->ctx, "graph: glu of two %s in one call (steps %d, %d, %d)", ingot_op_name((ingot_op)gate->op), i[0],
              i[1], j);
    for (int n = 0; n < 2; n++) p->steps[i[n]].call = (struct ingot_call){.op = INGOT_OP_NONE};
    p->steps[j].call = merged;
    p->fused += 2;
    ingot_count_uses(p);
}

void ingot_fuse(struct ingot_planner *p) {
    ingot_count_uses(p);
    for (int i = 0; i < p->step_count; i++)
        while (merge_at(p, i)) continue;
    for (int j = 0; j < p->step_count; j++) gate_at(p, j);
    int kept = 0;
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].call.op != INGOT_OP_NONE) p->steps[kept++] = p->steps[i];
    p->step_count = kept;
}

/* ---- activations rounded to q8 */

static const int rounds[] = {INGOT_OP_RMS_NORM, INGOT_OP_GLU, INGOT_OP_ATTENTION};

/* q8 lies in the order of elements with a scale for each 32, so a contiguous tensor reshaped to other columns has the
 * same bytes as long as no block of 32 runs across a column. */
static bool flat_columns(const ingot_tensor *t) {
    return ingot_is_contiguous(t) && t->ne[0] % 32 == 0;
}

static bool same_columns(const ingot_tensor *a, const ingot_tensor *b) {
    const struct ingot_value *va = ingot_value_of(a), *vb = ingot_value_of(b);
    if (va->base != vb->base || va->offset != vb->offset || a->type != b->type) return false;
    if (ingot_tensor_elements(a) != ingot_tensor_elements(b)) return false;
    return same_view(a, b) || (flat_columns(a) && flat_columns(b));
}

/* The block that already holds `x` rounded, good until step `s`; or -1. */
static int rounded_already(const struct ingot_planner *p, const ingot_tensor *x, int s) {
    for (int b = p->block_count - 1; b >= 0; b--)
        if (same_columns(p->blocks[b].columns, x) && untouched(p, x, p->blocks[b].first, s, false)) return b;
    return -1;
}

/* The step that can round `x` as it makes it, good until step `s`; or -1. */
static int rounding_producer(const struct ingot_planner *p, const ingot_tensor *x, int s) {
    const struct ingot_value *v = ingot_value_of(x);
    int made = v->base->producer;
    if (made < 0 || made >= s || p->steps[made].q8_out >= 0) return -1;
    const struct ingot_call *call = &p->steps[made].call;
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
        if (rounds[i] == call->op && call->dst->type == INGOT_TYPE_F32 && flat_columns(call->dst) &&
            same_columns(call->dst, x) && untouched(p, x, made, s, false))
            return made;
    return -1;
}

/* Puts a QUANTIZE of `x` into the free place `s`. */
static void put_quantize(struct ingot_planner *p, const ingot_tensor *x, int s) {
    p->steps[s] =
        (struct ingot_step){.call = {.op = INGOT_OP_QUANTIZE, .src = {x}}, .q8_in = -1, .q8_out = -1, .scratch = -1};
}

/* Makes the product in place `s` read q8; its rounding may take place `s` and push the product to s + 1.  Gives the
 * product's place. */
static ingot_status take_q8(struct ingot_planner *p, int s, int *place) {
    const ingot_tensor *x = p->steps[s].call.src[1];
    int block = rounded_already(p, x, s);
    *place = s;
    if (block < 0) {
        int by = rounding_producer(p, x, s);
        block = ingot_block_new(p, ingot_q8_bytes(x), x);
        if (block < 0) return INGOT_ERR_HOST_MEMORY;
        if (by < 0) {
            by = s;
            *place = s + 1;
            p->steps[s + 1] = p->steps[s];
            put_quantize(p, x, s);
        }
        p->steps[by].call.want_q8_out = true;
        p->steps[by].q8_out = block;
        p->blocks[block].first = by;
    }
    p->steps[*place].call.have_q8_in = true;
    p->steps[*place].q8_in = block;
    return INGOT_OK;
}

/* A producer whose every reader takes q8 need not write its floats. */
static void drop_unread(struct ingot_planner *p) {
    ingot_count_uses(p);
    for (int s = 0; s < p->step_count; s++) {
        struct ingot_call *call = &p->steps[s].call;
        if (!call->want_q8_out || !call->dst) continue;
        const struct ingot_value *base = ingot_value_of(call->dst)->base;
        if (base->reads == 0 && !base->output) call->dst = NULL;
    }
}

ingot_status ingot_share_q8(struct ingot_planner *p) {
    struct ingot_step *old = p->steps;
    int old_count = p->step_count, place = 0;
    void *memory = NULL;
    ingot_status st = INGOT_OK;
    if (old_count == 0) return INGOT_OK;
    INGOT_TRY(ingot_alloc(p->ctx, INGOT_MEMORY_HOST, 2 * (size_t)old_count * sizeof *old, &memory), st, done);
    p->step_count = 0; /* no step, so no producer yet */
    ingot_count_uses(p);
    p->steps = memory;
    p->step_capacity = 2 * old_count;
    for (int i = 0; i < old_count && st == INGOT_OK; i++) {
        const struct ingot_call *call = &old[i].call;
        place = p->step_count;
        p->steps[place] = old[i];
        if (is_product(call) && ingot_mul_mat_wants_q8(p->ctx, call)) st = take_q8(p, place, &place);
        struct ingot_value *base = call->dst ? ingot_value_of(call->dst)->base : NULL;
        if (base && base->origin == INGOT_ORIGIN_NODE && base->producer < 0) base->producer = place;
        p->step_count = place + 1;
    }
    ingot_free(p->ctx, INGOT_MEMORY_HOST, old);
    if (st == INGOT_OK) drop_unread(p);
done:
    return st;
}
