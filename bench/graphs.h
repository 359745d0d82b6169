// SPDX-License-Identifier: MIT
/* graphs.h - the graph of a case: what one replay launches.  The public API only, so that it runs on any host. */
#ifndef BENCH_GRAPHS_H
#define BENCH_GRAPHS_H

#include "bench/cases.h"

enum { BENCH_CHAIN = 256 }; /* steps in the graph of a launch case */

/* Device memory of the cases. */
struct bench_memory {
    char *pool; /* weights */
    char *x;    /* BENCH_X bytes or more: floats in -1 .. 1 */
    char *ids;  /* BENCH_IDS_MAX i32: the experts of the launches; zeros for the launch cases */
};

/* What the chain of a launch case repeats. */
struct bench_chain;
struct bench_step {
    const char *name;
    void (*add)(struct bench_chain *chain);
    int type;      /* of the weights, or BENCH_NO_TYPE */
    int64_t m, k;
    bool rounded;  /* activations are rounded before every product: a launch more */
};
extern const struct bench_step bench_steps[];
extern const int bench_step_count;

/* Builds and plans the graph of a case.  `alone`: each product of an mmvq case rounds its activations by itself, as a
 * node that runs alone does; else they are rounded once for all.  On failure *out is NULL and ingot_error(ctx) tells. */
ingot_status bench_graph(ingot_context *ctx, const struct bench_case *c, const struct bench_memory *memory, bool alone,
                         ingot_graph **out, ingot_plan_info *info);

#endif
