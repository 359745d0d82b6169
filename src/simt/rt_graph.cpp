/* SPDX-License-Identifier: MIT
 *
 * rt_graph.cpp - stream capture and graphs. A capture appends the operations to a list in the order of
 * the calls, which is a valid order of the graph; a graph launch replays the list. What a GPU would
 * build as edges is kept as clocks, one count per captured stream: enough to tell whether a stream was
 * joined again.
 */
#include <stdlib.h>

#include "src/simt/runtime.h"

static simt_capture *captures; /* active ones */
static __thread cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* ---- lists of operations -------------------------------------------------------------------------------- */

void simt_oplist_unref(simt_oplist *l) {
    if (!l || --l->refs) return;
    for (size_t i = 0; i < l->n; i++) simt_op_free(l->op[i]);
    free(l->op);
    free(l);
}
static cudaError_t oplist_add(simt_oplist *l, const simt_op *op) {
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        simt_op **p = (simt_op **)realloc(l->op, room * sizeof *p);
        if (!p) return cudaErrorMemoryAllocation;
        l->op = p;
        l->room = room;
    }
    simt_op *c = simt_op_copy(op);
    if (!c) return cudaErrorMemoryAllocation;
    l->op[l->n++] = c;
    return cudaSuccess;
}

/* ---- capture, all locked ---------------------------------------------------------------------------------- */

void simt_capture_unref(simt_capture *c) {
    if (--c->refs) return;
    simt_oplist_unref(c->ops);
    free(c);
}
static cudaError_t invalidate(simt_capture *c, cudaError_t e) {
    c->invalid = true;
    return e;
}
static cudaError_t join(simt_capture *c, CUstream_st *s) {
    if (c->nstreams == SIMT_CAPTURE_STREAMS) return invalidate(c, cudaErrorNotSupported);
    s->capture = c;
    s->slot = c->nstreams++;
    memset(&s->clock, 0, sizeof s->clock);
    c->refs++;
    return cudaSuccess;
}
void simt_capture_leave(CUstream_st *s) {
    simt_capture *c = s->capture;
    if (!c) return;
    if (c->active) c->invalid = true;
    s->capture = 0;
    simt_capture_unref(c);
}
cudaError_t simt_capture_append(CUstream_st *s, const simt_op *op) {
    simt_capture *c = s->capture;
    if (c->invalid) return cudaErrorStreamCaptureInvalidated;
    const cudaError_t e = oplist_add(c->ops, op);
    if (e) return invalidate(c, e);
    s->clock.of[s->slot] = ++c->issued[s->slot];
    return cudaSuccess;
}
cudaError_t simt_capture_record(CUstream_st *s, cudaEvent_t e) {
    if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    e->capture = s->capture;
    e->capture->refs++;
    e->clock = s->clock;
    return cudaSuccess;
}
cudaError_t simt_capture_wait(CUstream_st *s, cudaEvent_t e) {
    simt_capture *c = s->capture;
    if (c && c->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!e->capture) return e->mark ? invalidate(c, cudaErrorStreamCaptureIsolation) : cudaSuccess;
    if (!e->capture->active) return c ? invalidate(c, cudaErrorInvalidValue) : cudaErrorInvalidValue;
    if (c && c != e->capture) {
        e->capture->invalid = true;
        return invalidate(c, cudaErrorStreamCaptureMerge);
    }
    if (!c) {
        if (s->legacy) return invalidate(e->capture, cudaErrorStreamCaptureImplicit);
        const cudaError_t r = join(e->capture, s);
        if (r) return r;
        c = s->capture;
    }
    for (int i = 0; i < c->nstreams; i++)
        if (s->clock.of[i] < e->clock.of[i]) s->clock.of[i] = e->clock.of[i];
    return cudaSuccess;
}
cudaError_t simt_capture_break(CUstream_st *s) { return invalidate(s->capture, cudaErrorStreamCaptureUnsupported); }

cudaError_t simt_capture_forbids(void) {
    cudaError_t e = cudaSuccess;
    if (thread_mode == cudaStreamCaptureModeRelaxed) return e;
    for (simt_capture *c = captures; c; c = c->next) {
        const bool own = pthread_equal(c->thread, pthread_self());
        if (c->mode == cudaStreamCaptureModeRelaxed) continue;
        if (own || (c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal))
            e = invalidate(c, cudaErrorStreamCaptureUnsupported);
    }
    return e;
}
/* Work on the legacy stream would have to wait for captured work of a blocking stream. */
cudaError_t simt_capture_legacy(CUstream_st *legacy) {
    cudaError_t e = cudaSuccess;
    for (CUstream_st *s = simt_streams; s && captures; s = s->next)
        if (s->capture && s->device == legacy->device && !(s->flags & cudaStreamNonBlocking))
            e = invalidate(s->capture, cudaErrorStreamCaptureImplicit);
    return e;
}
static bool all_joined(const simt_capture *c, const CUstream_st *origin) {
    for (int i = 0; i < c->nstreams; i++)
        if (origin->clock.of[i] < c->issued[i]) return false;
    return true;
}

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t h, cudaStreamCaptureMode mode) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s) return simt_return(cudaErrorInvalidResourceHandle);
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed) return simt_return(cudaErrorInvalidValue);
    if (s->legacy) return simt_return(cudaErrorStreamCaptureUnsupported);
    if (s->capture) return simt_return(cudaErrorIllegalState);
    simt_capture *c = (simt_capture *)calloc(1, sizeof(simt_capture));
    simt_oplist *ops = (simt_oplist *)calloc(1, sizeof(simt_oplist));
    if (!c || !ops) {
        free(c);
        free(ops);
        return simt_return(cudaErrorMemoryAllocation);
    }
    ops->refs = 1;
    c->ops = ops;
    c->active = true;
    c->mode = mode;
    c->thread = pthread_self();
    c->origin = s;
    c->next = captures;
    captures = c;
    return simt_return(join(c, s));
}
extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t h, cudaGraph_t *out) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !out) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *out = 0;
    simt_capture *c = s->capture;
    if (!c) return simt_return(cudaErrorIllegalState);
    if (c->origin != s) return simt_return(invalidate(c, cudaErrorStreamCaptureUnmatched));
    if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self())) return simt_return(cudaErrorStreamCaptureWrongThread);
    cudaError_t e = c->invalid ? cudaErrorStreamCaptureInvalidated : all_joined(c, s) ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
    CUgraph_st *g = e ? 0 : (CUgraph_st *)calloc(1, sizeof(CUgraph_st));
    if (!e && !g) e = cudaErrorMemoryAllocation;
    if (g) {
        g->ops = c->ops;
        g->ops->refs++;
        *out = g;
    }
    for (simt_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    c->active = false;
    c->refs++; /* leave() drops the last one otherwise */
    for (CUstream_st *k = simt_streams; k; k = k->next)
        if (k->capture == c) simt_capture_leave(k);
    simt_capture_unref(c);
    return simt_return(e);
}
extern "C" cudaError_t cudaStreamIsCapturing(cudaStream_t h, cudaStreamCaptureStatus *out) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !out) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *out = !s->capture           ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
extern "C" cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed) return simt_return(cudaErrorInvalidValue);
    const cudaStreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags) {
    simt_lock l;
    if (!out || !g || flags) return simt_return(cudaErrorInvalidValue);
    CUgraphExec_st *x = (CUgraphExec_st *)calloc(1, sizeof(CUgraphExec_st));
    if (!x) return simt_return(cudaErrorMemoryAllocation);
    x->ops = g->ops;
    x->ops->refs++;
    *out = x;
    return cudaSuccess;
}
extern "C" cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags) { return cudaGraphInstantiate(out, g, flags); }
extern "C" cudaError_t cudaGraphExecUpdate(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *) { return simt_return(cudaErrorNotSupported); }

/* Counts the nodes; naming them is not supported. */
extern "C" cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
    simt_lock l;
    if (!g || !n) return simt_return(cudaErrorInvalidValue);
    if (nodes) return simt_return(cudaErrorNotSupported);
    *n = g->ops->n;
    return cudaSuccess;
}
extern "C" cudaError_t cudaGraphUpload(cudaGraphExec_t x, cudaStream_t) { return simt_return(x ? cudaSuccess : cudaErrorInvalidValue); }
extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t h) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!x || !s) return simt_return(x ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    simt_op op = {};
    op.kind = SIMT_OP_GRAPH;
    op.graph = x->ops;
    x->ops->refs++; /* the handle may be destroyed while it runs */
    const cudaError_t e = simt_submit(s, &op);
    simt_oplist_unref(op.graph);
    return simt_return(e);
}
extern "C" cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    simt_lock l;
    if (!g) return simt_return(cudaErrorInvalidValue);
    simt_oplist_unref(g->ops);
    free(g);
    return cudaSuccess;
}
extern "C" cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
    simt_lock l;
    if (!x) return simt_return(cudaErrorInvalidValue);
    simt_oplist_unref(x->ops);
    free(x);
    return cudaSuccess;
}
