// SPDX-License-Identifier: MIT
/* run.c - the planned commands on the stream: launched one by one the first time, recorded the second, replayed as one
 * CUDA graph from then on.
 *
 * Recording is only a saving: whatever fails in it is cleared and logged, the commands are launched one by one, and the
 * graph does not try again until it is planned anew. */
#include <string.h>

#include "graph.h"

static ingot_status launch_each(struct ingot_graph *g) {
    ingot_status st = INGOT_OK;
    for (int i = 0; i < g->command_count && st == INGOT_OK; i++) st = ingot_run_command(g->ctx, &g->commands[i]);
    g->has_run = true; /* even a part of it uses the arena */
    return st;
}

static void drop_replay(struct ingot_graph *g) {
    if (g->replay && cudaGraphExecDestroy(g->replay) != cudaSuccess) (void)cudaGetLastError();
    g->replay = NULL;
}

/* Goes on without replay.  Clears the runtime's last error; `text` is the context's error text to put back. */
static void give_up(struct ingot_graph *g, const char *what, cudaError_t error, const char text[INGOT_ERROR_TEXT]) {
    (void)cudaGetLastError();
    drop_replay(g);
    g->no_replay = true;
    ingot_log(g->ctx, "graph: no replay, %s: %s", what,
              error != cudaSuccess ? cudaGetErrorString(error) : g->ctx->error);
    memcpy(g->ctx->error, text, INGOT_ERROR_TEXT);
}

/* Records the commands.  Afterwards g->replay is there or g->no_replay is set. */
static void record(struct ingot_graph *g) {
    cudaStream_t stream = g->ctx->stream;
    cudaGraph_t graph = NULL;
    char text[INGOT_ERROR_TEXT];
    const char *what = "capture could not begin";
    memcpy(text, g->ctx->error, sizeof text);
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        ingot_status st = launch_each(g);
        what = st == INGOT_OK ? "capture failed" : "a launch failed under capture";
        error = cudaStreamEndCapture(stream, &graph);
        if (error == cudaSuccess && st == INGOT_OK) {
            what = "instantiation failed";
            error = cudaGraphInstantiate(&g->replay, graph, 0);
            if (error != cudaSuccess) g->replay = NULL;
        }
    }
    if (!g->replay) give_up(g, what, error, text);
    if (graph && cudaGraphDestroy(graph) != cudaSuccess) (void)cudaGetLastError();
}

static ingot_status launch(struct ingot_graph *g) {
    char text[INGOT_ERROR_TEXT];
    if (!g->replay && g->ctx->graphs && g->has_run && !g->no_replay) record(g);
    if (g->replay) {
        cudaError_t error = cudaGraphLaunch(g->replay, g->ctx->stream);
        if (error == cudaSuccess) return INGOT_OK;
        memcpy(text, g->ctx->error, sizeof text);
        give_up(g, "launch failed", error, text);
    }
    return launch_each(g);
}

ingot_status ingot_graph_run(ingot_graph *g) {
    int previous = 0;
    if (!g) return ingot_fail(NULL, INGOT_ERR_INVALID, "graph_run: the graph is NULL");
    ingot_status st = ingot_enter(g->ctx, &previous);
    if (st != INGOT_OK) return st;
    if (!g->planned) st = ingot_fail(g->ctx, INGOT_ERR_STATE, "graph_run: the graph is not planned");
    else if (g->command_count > 0) /* under the caller's own capture the commands become part of the caller's graph */
        st = ingot_is_capturing(g->ctx) ? launch_each(g) : launch(g);
    ingot_leave(g->ctx, previous);
    return st;
}

void ingot_graph_reset_runs(struct ingot_graph *g) {
    int previous = 0;
    if (g->has_run && !g->ctx->lost && ingot_enter(g->ctx, &previous) == INGOT_OK) {
        if (!ingot_is_capturing(g->ctx)) /* a fault of a run marks the context lost here at the latest */
            (void)ingot_check_cuda(g->ctx, cudaStreamSynchronize(g->ctx->stream), "cudaStreamSynchronize");
        ingot_leave(g->ctx, previous);
    }
    drop_replay(g);
    g->has_run = g->no_replay = false;
}
