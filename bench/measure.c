// SPDX-License-Identifier: MIT
/* measure.c - see measure.h. */
#include "bench/measure.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "bench/read.h"

enum { WARM_UP = 3, REPLAYS = 9 };

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static ingot_status replay_graph(ingot_context *ctx, void *graph) {
    (void)ctx;
    return ingot_graph_run(graph);
}
static ingot_status replay_exec(ingot_context *ctx, void *exec) {
    return cudaGraphLaunch(exec, ingot_context_stream(ctx)) == cudaSuccess ? INGOT_OK : INGOT_ERR_CUDA;
}

static ingot_status median_us(ingot_context *ctx, ingot_status (*replay)(ingot_context *, void *), void *arg,
                              double *us) {
    ingot_event *from = NULL, *to = NULL;
    float ms[REPLAYS];
    ingot_status st = ingot_event_create(ctx, &from);
    if (st == INGOT_OK) st = ingot_event_create(ctx, &to);
    for (int i = -WARM_UP; i < REPLAYS && st == INGOT_OK; i++) {
        st = ingot_event_record(from, ctx);
        if (st == INGOT_OK) st = replay(ctx, arg);
        if (st == INGOT_OK) st = ingot_event_record(to, ctx);
        if (st == INGOT_OK) st = ingot_event_elapsed(from, to, &ms[i < 0 ? 0 : i]);
    }
    ingot_event_destroy(from);
    ingot_event_destroy(to);
    if (st != INGOT_OK) return st;
    qsort(ms, REPLAYS, sizeof ms[0], by_value);
    *us = 1e3 * (double)ms[REPLAYS / 2];
    return INGOT_OK;
}

ingot_status bench_graph_us(ingot_context *ctx, ingot_graph *graph, double *us) {
    return median_us(ctx, replay_graph, graph, us);
}

/* The read kernel's graph of a case; NULL on an error. */
static cudaGraphExec_t read_graph(cudaStream_t stream, const struct bench_case *c, int variant, const char *pool,
                                  void *sink, int sm_count, cudaError_t *error) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (*error != cudaSuccess) return NULL;
    for (int i = 0; i < c->launches && *error == cudaSuccess; i++)
        *error =
            bench_read(variant, pool + (size_t)(i % c->matrices) * c->slot, c->bytes / 16 * 16, sink, sm_count, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (*error == cudaSuccess) *error = ended;
    if (*error == cudaSuccess) *error = cudaGraphInstantiate(&exec, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    return *error == cudaSuccess ? exec : NULL;
}

bool bench_read_us(ingot_context *ctx, const struct bench_case *c, const char *pool, void *sink, int sm_count,
                   double *us, const char **why) {
    cudaError_t error = cudaSuccess;
    *us = 0;
    for (int v = 0; v < BENCH_READ_VARIANTS; v++) {
        double now = 0;
        cudaGraphExec_t exec = read_graph(ingot_context_stream(ctx), c, v, pool, sink, sm_count, &error);
        const bool done = exec != NULL && median_us(ctx, replay_exec, exec, &now) == INGOT_OK;
        if (!done && error == cudaSuccess) error = cudaGetLastError();
        if (exec) (void)cudaGraphExecDestroy(exec);
        if (!done) {
            *why = cudaGetErrorString(error);
            return false;
        }
        now /= c->launches;
        if (*us == 0 || now < *us) *us = now;
    }
    return true;
}
