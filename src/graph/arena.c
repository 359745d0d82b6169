// SPDX-License-Identifier: MIT
/* arena.c - who needs memory from which step to which, and where in one arena each can lie.
 *
 *     offset
 *       ^   +-------------+     +-----+        Blocks are placed from the largest to the smallest.  Each goes into the
 *       |   |   q8 of x   |     |  s  |        tightest gap between those already placed whose lives cross its own,
 *       |   +---+---------+---+-+-----+        or on top of them.  So no two blocks that live at the same step ever
 *       |   | x |      y      |   z   |        share a byte, and what lives at different steps may.
 *       +---+---+-------------+-------+--> step */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define ALIGNMENT 256

int ingot_block_new(struct ingot_planner *p, size_t bytes, const ingot_tensor *columns) {
    struct ingot_block *blocks =
        ingot_grow(p->ctx, p->blocks, &p->block_capacity, p->block_count, sizeof(struct ingot_block));
    if (!blocks) return -1;
    p->blocks = blocks;
    blocks[p->block_count] = (struct ingot_block){.bytes = bytes, .first = INT_MAX, .last = -1, .columns = columns};
    return p->block_count++;
}

/* ---- lifetimes */

static void live_at(struct ingot_planner *p, int block, int step) {
    if (p->blocks[block].first > step) p->blocks[block].first = step;
    if (p->blocks[block].last < step) p->blocks[block].last = step;
}

/* A step reads or writes `t`. */
static ingot_status touch(struct ingot_planner *p, const ingot_tensor *t, int step) {
    struct ingot_value *base = ingot_value_of(t)->base;
    if (base->origin != INGOT_ORIGIN_NODE) return INGOT_OK;
    if (base->block < 0) base->block = ingot_block_new(p, ingot_tensor_size(&base->t), NULL);
    if (base->block < 0) return INGOT_ERR_HOST_MEMORY;
    live_at(p, base->block, step);
    if (base->output) live_at(p, base->block, INT_MAX);
    return INGOT_OK;
}

/* An emitter that only measures. */
struct measure {
    struct ingot_emitter em;
    size_t scratch;
    int launches;
};

static ingot_status measure_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    struct measure *m = (struct measure *)em;
    int64_t sum = 0;
    if (bytes > INT64_MAX - ALIGNMENT || !ingot_add_size((int64_t)m->scratch, (int64_t)bytes + ALIGNMENT - 1, &sum))
        return ingot_fail(em->ctx, INGOT_ERR_DEVICE_MEMORY, "graph: scratch of a step does not fit in 63 bits");
    m->scratch = (size_t)sum / ALIGNMENT * ALIGNMENT;
    *out = bytes ? (void *)(uintptr_t)ALIGNMENT : NULL;
    return INGOT_OK;
}

static ingot_status measure_push(struct ingot_emitter *em, const struct ingot_command *command) {
    (void)command;
    ((struct measure *)em)->launches++;
    return INGOT_OK;
}

static ingot_status touch_step(struct ingot_planner *p, int s) {
    struct ingot_step *step = &p->steps[s];
    const ingot_tensor *read[INGOT_MAX_READS];
    struct measure m = {.em = {.ctx = p->ctx, .dry = true, .scratch = measure_scratch, .push = measure_push}};
    ingot_status st = INGOT_OK;
    for (int i = ingot_call_reads(&step->call, read) - 1; i >= 0; i--) INGOT_TRY(touch(p, read[i], s), st, done);
    if (step->call.dst) INGOT_TRY(touch(p, step->call.dst, s), st, done);
    if (step->q8_in >= 0) live_at(p, step->q8_in, s);
    if (step->q8_out >= 0) live_at(p, step->q8_out, s);
    INGOT_TRY(ingot_emit(&m.em, &step->call), st, done);
    p->launches += m.launches;
    if (m.scratch) {
        step->scratch = ingot_block_new(p, m.scratch, NULL);
        if (step->scratch < 0) return INGOT_ERR_HOST_MEMORY;
        live_at(p, step->scratch, s);
    }
done:
    return st;
}

ingot_status ingot_find_lifetimes(struct ingot_planner *p) {
    ingot_status st = INGOT_OK;
    ingot_count_uses(p);
    for (int s = 0; s < p->step_count && st == INGOT_OK; s++) st = touch_step(p, s);
    return st;
}

/* ---- places */

static int larger_first(const void *a, const void *b) {
    const struct ingot_block *x = *(struct ingot_block *const *)a, *y = *(struct ingot_block *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y; /* equal ones in the order of their making: the same plan each time */
}

/* Finds b's offset among `n` blocks in order of offset; returns where it comes in that order. */
static int place(struct ingot_block *b, struct ingot_block *const *placed, int n) {
    size_t end = 0, tightest = SIZE_MAX;
    bool found = false;
    int at = 0;
    for (int i = 0; i < n; i++) {
        const struct ingot_block *q = placed[i];
        if (q->last < b->first || q->first > b->last) continue;
        if (q->offset > end && q->offset - end >= b->bytes && q->offset - end < tightest) {
            tightest = q->offset - end;
            b->offset = end;
            found = true;
        }
        if (q->offset + q->bytes > end) end = q->offset + q->bytes;
    }
    if (!found) b->offset = end;
    while (at < n && placed[at]->offset <= b->offset) at++;
    return at;
}

ingot_status ingot_place_blocks(struct ingot_planner *p) {
    int n = p->block_count;
    int64_t naive = 0;
    void *memory = NULL;
    struct ingot_block **placed;
    ingot_status st = INGOT_OK;
    if (n == 0) return INGOT_OK;
    INGOT_TRY(ingot_alloc(p->ctx, INGOT_MEMORY_HOST, (size_t)n * sizeof *placed, &memory), st, done);
    placed = memory;
    for (int i = 0; i < n; i++) {
        int64_t padded = 0; /* sizes of tensors are below 2^63 */
        if (!ingot_add_size((int64_t)p->blocks[i].bytes, ALIGNMENT - 1, &padded) ||
            !ingot_add_size(naive, padded, &naive)) {
            st = ingot_fail(p->ctx, INGOT_ERR_DEVICE_MEMORY, "graph: intermediates do not fit in 63 bits");
            goto done;
        }
        p->blocks[i].bytes = (size_t)padded / ALIGNMENT * ALIGNMENT;
        p->naive_bytes += p->blocks[i].bytes;
        placed[i] = &p->blocks[i];
    }
    qsort(placed, (size_t)n, sizeof *placed, larger_first);
    for (int i = 0; i < n; i++) { /* the sorted rest shrinks as the list of placed blocks grows in front of it */
        struct ingot_block *b = placed[i];
        int at = place(b, placed, i);
        memmove(placed + at + 1, placed + at, (size_t)(i - at) * sizeof *placed);
        placed[at] = b;
        if (b->offset + b->bytes > p->arena_bytes) p->arena_bytes = b->offset + b->bytes;
    }
done:
    ingot_free(p->ctx, INGOT_MEMORY_HOST, memory);
    return st;
}
