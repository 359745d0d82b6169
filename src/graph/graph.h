// SPDX-License-Identifier: MIT
/* graph.h - inside a graph: values, nodes, and the way of a plan.
 *
 *   build.c   tensors and views           -> struct ingot_value   (what the caller holds)
 *   nodes.c   the op builders             -> struct ingot_call    (one per node, in the order of building)
 *   fuse.c    merges calls, shares q8     -> struct ingot_step    (what will be emitted)
 *   arena.c   who lives when, and where   -> struct ingot_block   (a range of the arena)
 *   plan.c    the above in order, and emission -> struct ingot_command
 *   run.c     launches commands, records and replays them as a CUDA graph
 *
 * Memory is reasoned about through bases: a view belongs to the value whose memory it shows, so a read or a write
 * through any view counts for the base. */
#ifndef INGOT_GRAPH_H
#define INGOT_GRAPH_H

#include "../ops/ops.h"

enum ingot_origin {
    INGOT_ORIGIN_LEAF,   /* the caller's data */
    INGOT_ORIGIN_WEIGHT, /* the caller's data, which nothing writes while the graph runs */
    INGOT_ORIGIN_NODE    /* a node's result: lives in the arena */
};

struct ingot_value {
    ingot_tensor        t;      /* first: an ingot_tensor * of the graph is a struct ingot_value * */
    struct ingot_value *base;   /* whose memory it is: itself, or the value it is a view of (never a view) */
    size_t              offset; /* bytes behind the base's data */
    /* of bases */
    enum ingot_origin   origin;
    bool                output; /* kept after the run */
    int                 reads, writes; /* operands of steps that read, that write the memory */
    int                 producer;      /* the step whose result it is, or -1 */
    int                 block;         /* where it lives, or -1: nowhere */
};

#define INGOT_VALUES_PER_CHUNK 128
struct ingot_value_chunk {
    struct ingot_value_chunk *next;
    int                       count;
    struct ingot_value        values[INGOT_VALUES_PER_CHUNK];
};

struct ingot_graph {
    ingot_context            *ctx;
    struct ingot_value_chunk *chunks; /* newest first */
    struct ingot_call        *nodes;
    int                       node_count, node_capacity;
    ingot_status              status; /* of building: the first error */
    char                      error[INGOT_ERROR_TEXT];
    /* the plan */
    bool                      planned;
    void                     *arena;
    bool                      owns_arena;
    struct ingot_command     *commands;
    int                       command_count, command_capacity;
    /* its runs */
    bool                      has_run, no_replay; /* no_replay: recording was tried and failed */
    cudaGraphExec_t           replay;
};

/* A call on its way to commands.  Numbers of blocks, -1: none. */
struct ingot_step {
    struct ingot_call call;
    int               q8_in, q8_out, scratch;
};

/* A range of the arena, taken from step `first` to step `last`. */
struct ingot_block {
    size_t              bytes, offset;
    int                 first, last;
    const ingot_tensor *columns; /* the tensor whose q8 columns it holds, or NULL */
};

struct ingot_planner {
    ingot_context      *ctx;
    struct ingot_graph *graph;
    struct ingot_step  *steps;
    int                 step_count, step_capacity;
    struct ingot_block *blocks;
    int                 block_count, block_capacity;
    size_t              arena_bytes, naive_bytes;
    int                 launches, fused;
};

/* ---- build.c */
/* A new value of the graph that is its own base; NULL on failure, which is recorded. */
struct ingot_value *ingot_value_new(struct ingot_graph *g, const ingot_tensor *t, enum ingot_origin origin);
/* Keeps the graph's first error, whose text the context holds; returns NULL for builders to return. */
void *ingot_graph_error(struct ingot_graph *g, ingot_status status);
/* True if the graph can be added to. */
bool ingot_graph_open(struct ingot_graph *g);
/* True if `t` is a tensor of the graph; otherwise records the error, naming the caller and the operand. */
bool ingot_graph_owns(struct ingot_graph *g, const ingot_tensor *t, const char *builder, const char *operand);
/* The array with room for one more item, moved if it must be; NULL (and a text in ctx) when memory is out. */
void *ingot_grow(ingot_context *ctx, void *items, int *capacity, int count, size_t item_bytes);

/* A graph's own tensor as a value. */
static inline struct ingot_value *ingot_value_of(const ingot_tensor *t)
{
    return (struct ingot_value *)t;
}

/* ---- fuse.c */
enum { INGOT_MAX_READS = INGOT_MAX_SRC + 4 };
/* The tensors whose memory a call reads (0 .. INGOT_MAX_READS of them). */
int ingot_call_reads(const struct ingot_call *call, const ingot_tensor *reads[INGOT_MAX_READS]);
/* Fills in reads, writes and producer of every base from the steps. */
void ingot_count_uses(struct ingot_planner *p);
/* True if the two may touch a common byte.  Leaves are compared by address; while measuring, those without data are
 * taken to lie apart. */
bool ingot_values_overlap(const ingot_tensor *a, const ingot_tensor *b);
/* Merges steps by the table of rules. */
void ingot_fuse(struct ingot_planner *p);
/* Rounds each activation to q8 once for all products that want it. */
ingot_status ingot_share_q8(struct ingot_planner *p);

/* ---- arena.c */
int ingot_block_new(struct ingot_planner *p, size_t bytes, const ingot_tensor *columns); /* -1: out of memory */
/* Gives every value, q8 buffer and scratch its block and lifetime; counts launches. */
ingot_status ingot_find_lifetimes(struct ingot_planner *p);
/* Gives every block its offset; fills in arena_bytes and naive_bytes. */
ingot_status ingot_place_blocks(struct ingot_planner *p);

/* ---- run.c */
/* Waits for runs and drops the recording. */
void ingot_graph_reset_runs(struct ingot_graph *g);

#endif
