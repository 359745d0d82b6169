// SPDX-License-Identifier: MIT
/* cases.h - what the bench measures: the cases of a selection, with the memory and the launches each takes.
 *
 *   mmvq      products of 1 to 8 columns for every type with mat-vec kernels (plain types, too); with experts, one
 *             mul_mat_id whose tokens choose 8 of them each
 *   mmq       products of more columns, whatever kernel or GEMM takes them, with what they convert first
 *   dequant   block formats to f16
 *   launch    small kernels in a chain: what a launch costs, with programmatic dependent launch and without
 *
 * Weights are cold: the launches of a graph go round over matrices that lie side by side in a pool, at least
 * BENCH_COLD bytes of them; experts are drawn from twice that, since a few are touched again before all were.  A matrix
 * larger than BENCH_ALONE, ten times an H200's L2, is cold by itself: it is read again and again, by BENCH_LAUNCHES_MIN
 * launches, so that what starting a graph costs does not count.  Of matrices below 640 kB a graph has BENCH_LAUNCHES_MAX
 * launches, which may all lie in the L2.
 *
 * Nothing here needs a device. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <stdbool.h>
#include <stdio.h>

#include "include/ingot.h"

#define BENCH_COLD  ((size_t)640 << 20)
#define BENCH_ALONE ((size_t)512 << 20)
#define BENCH_SMALL ((size_t)64 << 20) /* pool of the launch cases, whose data stays in the L2 */
#define BENCH_X     ((size_t)8 << 20)  /* activations, at least */

enum {
    BENCH_LAUNCHES_MIN = 16,
    BENCH_LAUNCHES_MAX = 1024,
    BENCH_COLUMNS_MAX = 8, /* mmvq; more are mmq's */
    BENCH_MANY_MAX = 8192,
    BENCH_USED = 8, /* experts that a token chooses */
    BENCH_EXPERTS_MAX = 1024,
    BENCH_NO_TYPE = -1
};
/* Ids of the experts of a graph's launches. */
#define BENCH_IDS_MAX ((size_t)BENCH_LAUNCHES_MAX * BENCH_COLUMNS_MAX * BENCH_USED)

enum bench_op {
#define BENCH_OP(NAME, name) BENCH_##NAME,
#include "bench/ops.inc"
#undef BENCH_OP
    BENCH_OPS
};
const char *bench_op_name(enum bench_op op);

struct bench_case {
    enum bench_op op;
    char name[96];     /* what the table shows and K matches */
    int type;          /* an ingot_type, or BENCH_NO_TYPE */
    int64_t m, k, n;   /* n: columns or tokens; 0 where it means nothing */
    int64_t experts;   /* 0: no mul_mat_id */
    int step;          /* of the launch cases: which of bench_steps */
    int launches;      /* in one graph */
    int matrices;      /* in the pool, each in a slot of its own */
    size_t slot;       /* bytes from one to the next */
    size_t bytes;      /* read by a launch (dequant: read and written); the mean, where experts are chosen */
    size_t pool, rest; /* device memory: the pool; activations, ids, results */
    char skip[160];    /* why it cannot be measured; "": it can */
};

/* What the user asked for; NULL or "" is everything. */
struct bench_wish {
    const char *ops, *types, *columns, *shapes; /* OPS, TYPES, N, SHAPES: words between blanks */
    const char *pattern;                        /* K */
};

struct bench_cases {
    struct bench_case *at;
    int count;
    char error[512]; /* why bench_select refused */
};

/* The same product as an mmq case with weights in f16. */
struct bench_case bench_f16_twin(const struct bench_case *c);

/* Makes the cases of a selection, to be freed with bench_cases_free.  False, with `error` set: a word is malformed or
 * unknown, no case is left, or there is no memory. */
bool bench_select(const struct bench_wish *wish, struct bench_cases *out);
void bench_cases_free(struct bench_cases *cases);

/* The experts that each launch's tokens choose: [used, n] for each launch, distinct for one token; the same numbers for
 * the same case, always.  Gives the mean number of different experts of a launch.  `ids` may be NULL. */
double bench_ids(const struct bench_case *c, int32_t *ids);

/* A line for each case: launches, matrices, bytes, memory. */
void bench_list(const struct bench_cases *cases, FILE *to);

/* The whole of the command line but measuring: reads the arguments (--list) and the environment, selects.  Gives true
 * if there is something to measure; else *status is the exit status. */
bool bench_command(int argc, char *const *argv, FILE *out, FILE *err, struct bench_cases *cases, int *status);

#endif
