// SPDX-License-Identifier: MIT
/* measure.h - microseconds on the device: of a planned graph, and of the read kernel on the same bytes. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench/cases.h"

/* Median of several replays, after a warm-up in which the graph is recorded; in microseconds for the whole graph. */
ingot_status bench_graph_us(ingot_context *ctx, ingot_graph *graph, double *us);

/* One launch of the read kernel over a case's bytes, in a graph of as many plain launches as the case has, on the same
 * slots of the pool; the fastest variant.  `sink`: 4 bytes of device memory.  False: *why is CUDA's text. */
bool bench_read_us(ingot_context *ctx, const struct bench_case *c, const char *pool, void *sink, int sm_count,
                   double *us, const char **why);

#endif
