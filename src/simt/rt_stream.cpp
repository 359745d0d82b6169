/* SPDX-License-Identifier: MIT
 *
 * rt_stream.cpp - streams, events, host functions, and the order between operations.
 *
 * Waiting cannot deadlock: an operation only waits for marks recorded before it was submitted, and a
 * thread that waits for a stream holds no lock while another thread runs that stream's operation.
 */
#include <stdlib.h>
#include <time.h>

#include "src/simt/runtime.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a stream is no longer busy */
static int sleepers;
CUstream_st *simt_streams;
static CUstream_st *legacy_streams[64];

void simt_lock_take(void) {
    simt_init();
    pthread_mutex_lock(&mutex);
}
void simt_lock_drop(void) { pthread_mutex_unlock(&mutex); }

double simt_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- operations -------------------------------------------------------------------------------------- */

static void mark_unref(simt_mark *m) {
    if (m && --m->refs == 0) free(m);
}
simt_op *simt_op_copy(const simt_op *op) {
    const bool staged = op->kind == SIMT_OP_COPY && op->copy.staged;
    const size_t head = (sizeof(simt_op) + 63) / 64 * 64;
    const size_t tail = op->kind == SIMT_OP_LAUNCH ? op->launch.kernel->args_size : staged ? op->copy.width * op->copy.height : 0;
    simt_op *c = 0;
    if (posix_memalign((void **)&c, 64, head + tail)) return 0;
    *c = *op;
    c->next = 0;
    char *bytes = (char *)c + head;
    if (op->kind == SIMT_OP_LAUNCH && tail) {
        memcpy(bytes, op->launch.args, tail);
        c->launch.args = bytes;
    }
    if (staged) {
        for (size_t i = 0; i < op->copy.height; i++) memcpy(bytes + i * op->copy.width, op->copy.src + i * op->copy.src_pitch, op->copy.width);
        c->copy.src = bytes;
        c->copy.src_pitch = op->copy.width;
    }
    if (op->kind == SIMT_OP_RECORD || op->kind == SIMT_OP_WAIT) op->mark->refs++;
    if (op->kind == SIMT_OP_GRAPH) op->graph->refs++;
    return c;
}
void simt_op_free(simt_op *op) {
    if (op->kind == SIMT_OP_RECORD || op->kind == SIMT_OP_WAIT) mark_unref(op->mark);
    if (op->kind == SIMT_OP_GRAPH) simt_oplist_unref(op->graph);
    free(op);
}
/* Everything but RECORD and WAIT, which belong to the queues. */
cudaError_t simt_op_run(simt_op *op) {
    cudaError_t e = cudaSuccess;
    if (op->kind == SIMT_OP_HOST) { /* host code: no access to device memory */
        op->host.fn(op->host.user);
        return cudaSuccess;
    }
    if (op->kind == SIMT_OP_GRAPH) {
        for (size_t i = 0; i < op->graph->n && !e; i++) e = simt_op_run(op->graph->op[i]);
        return e;
    }
    if (simt_opt.guard) simt_access_begin();
    switch (op->kind) {
    case SIMT_OP_LAUNCH:
        e = simt_run(&op->launch);
        break;
    case SIMT_OP_COPY:
        for (size_t i = 0; i < op->copy.height; i++)
            memmove(op->copy.dst + i * op->copy.dst_pitch, op->copy.src + i * op->copy.src_pitch, op->copy.width);
        break;
    case SIMT_OP_FILL:
        memset(op->fill.dst, op->fill.value, op->fill.n);
        break;
    }
    if (simt_opt.guard) simt_access_end();
    return e;
}

/* ---- queues, all locked ---------------------------------------------------------------------------------- */

static bool pending(const CUstream_st *s) { return s->busy || s->head; }
static void release(CUstream_st *s) {
    s->busy = false;
    if (sleepers) pthread_cond_broadcast(&changed);
}
static void step(CUstream_st *s);
static void wait_for(simt_mark *m) {
    while (!m->done) step(m->stream);
}
/* Runs an operation of `s` with the lock dropped. */
static cudaError_t run_now(CUstream_st *s, simt_op *op) {
    cudaError_t e = cudaSuccess;
    s->busy = true;
    if (op->kind == SIMT_OP_WAIT) {
        wait_for(op->mark);
    } else if (op->kind == SIMT_OP_RECORD) {
        op->mark->ms = simt_now_ms();
        op->mark->error = s->error;
        op->mark->done = true;
    } else {
        pthread_mutex_unlock(&mutex);
        e = simt_op_run(op);
        pthread_mutex_lock(&mutex);
        if (e && !s->error) s->error = e;
    }
    release(s);
    return e;
}
/* Makes progress on a stream with pending work: runs its next operation, or waits for the thread that does. */
static void step(CUstream_st *s) {
    if (s->busy) {
        sleepers++;
        pthread_cond_wait(&changed, &mutex);
        sleepers--;
        return;
    }
    simt_op *op = s->head;
    s->head = op->next;
    if (!s->head) s->tail = &s->head;
    run_now(s, op);
    simt_op_free(op);
}
static cudaError_t enqueue(CUstream_st *s, const simt_op *op) {
    simt_op *c = simt_op_copy(op);
    if (!c) return cudaErrorMemoryAllocation;
    *s->tail = c;
    s->tail = &c->next;
    return cudaSuccess;
}
static simt_mark *mark_new(CUstream_st *s) {
    simt_mark *m = (simt_mark *)calloc(1, sizeof(simt_mark));
    if (m) {
        m->refs = 1;
        m->stream = s;
    }
    return m;
}
/* Later operations of `s` come after all present ones of `before`. */
static cudaError_t order_after(CUstream_st *s, CUstream_st *before) {
    simt_mark *m = mark_new(before);
    if (!m) return cudaErrorMemoryAllocation;
    simt_op op = {};
    op.kind = SIMT_OP_RECORD;
    op.mark = m;
    cudaError_t e = enqueue(before, &op);
    op.kind = SIMT_OP_WAIT;
    if (!e) e = enqueue(s, &op);
    mark_unref(m);
    return e;
}
/* The legacy stream comes after and before the device's blocking streams. */
static cudaError_t order_legacy(CUstream_st *s) {
    if (s->flags & cudaStreamNonBlocking) return cudaSuccess;
    for (CUstream_st *k = simt_streams; k; k = k->next) {
        if (k == s || k->device != s->device || k->legacy == s->legacy || !pending(k) || (k->flags & cudaStreamNonBlocking)) continue;
        const cudaError_t e = order_after(s, k);
        if (e) return e;
    }
    return cudaSuccess;
}
cudaError_t simt_submit(CUstream_st *s, const simt_op *op) {
    if (s->capture) return simt_capture_append(s, op);
    cudaError_t e = s->legacy ? simt_capture_legacy(s) : cudaSuccess;
    if (!e) e = order_legacy(s);
    if (e || simt_opt.lazy) return e ? e : enqueue(s, op);
    while (pending(s)) step(s);
    simt_op now = *op;
    return run_now(s, &now);
}
cudaError_t simt_sync(CUstream_st *s) {
    if (s->capture) return simt_capture_break(s);
    cudaError_t e = s->legacy ? simt_capture_legacy(s) : cudaSuccess;
    if (!e) e = order_legacy(s);
    if (e) return e;
    while (pending(s)) step(s);
    e = s->error;
    s->error = cudaSuccess;
    return e;
}
/* Marks the end of each stream's present work first and waits for the marks: work that other threads go
 * on submitting does not count, and a stream may be destroyed while this waits. */
cudaError_t simt_sync_device(int device) {
    simt_mark *marks = 0;
    cudaError_t e = cudaSuccess;
    for (CUstream_st *s = simt_streams; s && !e; s = s->next) {
        if (s->device != device || s->capture || !pending(s)) continue;
        simt_op op = {};
        op.kind = SIMT_OP_RECORD;
        if (!(op.mark = mark_new(s))) e = cudaErrorMemoryAllocation;
        else if ((e = enqueue(s, &op)) != cudaSuccess) mark_unref(op.mark);
        if (e) break;
        op.mark->next = marks;
        marks = op.mark;
    }
    while (marks) {
        simt_mark *m = marks;
        marks = m->next;
        wait_for(m);
        mark_unref(m);
    }
    for (CUstream_st *s = simt_streams; s; s = s->next) {
        if (s->device != device || s->capture) continue;
        if (!e) e = s->error;
        s->error = cudaSuccess;
    }
    return e;
}

/* ---- handles ---------------------------------------------------------------------------------------------- */

static CUstream_st *stream_new(int device, unsigned flags, int priority) {
    CUstream_st *s = (CUstream_st *)calloc(1, sizeof(CUstream_st));
    if (!s) return 0;
    s->device = device;
    s->flags = flags;
    s->priority = priority;
    s->tail = &s->head;
    s->next = simt_streams;
    simt_streams = s;
    return s;
}
CUstream_st *simt_stream_of(cudaStream_t h) {
    if (h == 0 || h == cudaStreamLegacy || h == cudaStreamPerThread) {
        CUstream_st *&s = legacy_streams[simt_current_device()];
        if (!s && (s = stream_new(simt_current_device(), 0, 0))) s->legacy = true;
        return s;
    }
    for (CUstream_st *s = simt_streams; s; s = s->next)
        if (s == h) return s;
    return 0;
}

extern "C" cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    simt_lock l;
    if (!out || flags & ~1u) return simt_return(cudaErrorInvalidValue);
    *out = stream_new(simt_current_device(), flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
    return simt_return(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}
extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
extern "C" cudaError_t cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithPriority(out, 0, 0); }

extern "C" cudaError_t cudaStreamDestroy(cudaStream_t h) {
    simt_lock l;
    CUstream_st *s = h == 0 || h == cudaStreamLegacy || h == cudaStreamPerThread ? 0 : simt_stream_of(h);
    if (!s) return simt_return(cudaErrorInvalidResourceHandle);
    simt_capture_leave(s);
    while (pending(s)) step(s); /* the GPU lets the work finish; so do we, before the handle goes */
    for (CUstream_st **p = &simt_streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    free(s);
    return cudaSuccess;
}
extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t h) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    return simt_return(s ? simt_sync(s) : cudaErrorInvalidResourceHandle);
}
/* Answers for the moment of the call, then makes one step, so that a polling loop ends. */
static cudaError_t poll(CUstream_st *s) {
    if (!s->busy) step(s);
    return cudaErrorNotReady;
}
extern "C" cudaError_t cudaStreamQuery(cudaStream_t h) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s) return simt_return(cudaErrorInvalidResourceHandle);
    if (s->capture) return simt_return(simt_capture_break(s));
    return pending(s) ? poll(s) : simt_return(s->error);
}
extern "C" cudaError_t cudaStreamGetFlags(cudaStream_t h, unsigned *flags) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !flags) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *flags = s->flags;
    return cudaSuccess;
}
extern "C" cudaError_t cudaStreamGetPriority(cudaStream_t h, int *priority) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !priority) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *priority = s->priority;
    return cudaSuccess;
}
extern "C" cudaError_t cudaStreamGetDevice(cudaStream_t h, int *device) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !device) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *device = s->device;
    return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceSynchronize(void) {
    simt_lock l;
    const cudaError_t e = simt_capture_forbids();
    return simt_return(e ? e : simt_sync_device(simt_current_device()));
}
extern "C" cudaError_t cudaDeviceReset(void) { return cudaDeviceSynchronize(); }

extern "C" cudaError_t cudaLaunchHostFunc(cudaStream_t h, cudaHostFn_t fn, void *user) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !fn) return simt_return(s ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    simt_op op = {};
    op.kind = SIMT_OP_HOST;
    op.host.fn = fn;
    op.host.user = user;
    return simt_return(simt_submit(s, &op));
}

/* ---- events ------------------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    if (!out || flags & ~7u) return simt_return(cudaErrorInvalidValue);
    *out = (CUevent_st *)calloc(1, sizeof(CUevent_st));
    if (!*out) return simt_return(cudaErrorMemoryAllocation);
    (*out)->flags = flags;
    return cudaSuccess;
}
extern "C" cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }

static void event_forget(cudaEvent_t e) {
    mark_unref(e->mark);
    if (e->capture) simt_capture_unref(e->capture);
    e->mark = 0;
    e->capture = 0;
}
extern "C" cudaError_t cudaEventDestroy(cudaEvent_t e) {
    simt_lock l;
    if (!e) return simt_return(cudaErrorInvalidResourceHandle);
    event_forget(e);
    free(e);
    return cudaSuccess;
}
extern "C" cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t h, unsigned flags) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !e) return simt_return(cudaErrorInvalidResourceHandle);
    if (flags) return simt_return(cudaErrorNotSupported);
    if (s->capture) {
        event_forget(e);
        return simt_return(simt_capture_record(s, e));
    }
    simt_op op = {};
    op.kind = SIMT_OP_RECORD;
    if (!(op.mark = mark_new(s))) return simt_return(cudaErrorMemoryAllocation);
    const cudaError_t r = simt_submit(s, &op);
    if (r) {
        mark_unref(op.mark);
        return simt_return(r);
    }
    event_forget(e);
    e->mark = op.mark;
    return cudaSuccess;
}
extern "C" cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t h) { return cudaEventRecordWithFlags(e, h, 0); }

/* Why an event cannot be waited for: its last recording was captured. */
static cudaError_t captured(const CUevent_st *e) {
    if (!e) return cudaErrorInvalidResourceHandle;
    return !e->capture ? cudaSuccess : e->capture->active ? cudaErrorCapturedEvent : cudaErrorInvalidValue;
}
extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    simt_lock l;
    if (captured(e)) return simt_return(captured(e));
    if (!e->mark) return cudaSuccess;
    simt_mark *m = e->mark;
    m->refs++; /* the event may be recorded anew meanwhile */
    wait_for(m);
    const cudaError_t r = m->error;
    mark_unref(m);
    return simt_return(r);
}
extern "C" cudaError_t cudaEventQuery(cudaEvent_t e) {
    simt_lock l;
    if (captured(e)) return simt_return(captured(e));
    if (!e->mark || e->mark->done) return cudaSuccess;
    return poll(e->mark->stream);
}
extern "C" cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    simt_lock l;
    if (!ms) return simt_return(cudaErrorInvalidValue);
    if (!a || !b || !a->mark || !b->mark || (a->flags | b->flags) & cudaEventDisableTiming) return simt_return(cudaErrorInvalidResourceHandle);
    if (!a->mark->done || !b->mark->done) return cudaErrorNotReady;
    *ms = (float)(b->mark->ms - a->mark->ms);
    return cudaSuccess;
}
extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t h, cudaEvent_t e, unsigned flags) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s || !e) return simt_return(cudaErrorInvalidResourceHandle);
    if (flags) return simt_return(cudaErrorNotSupported);
    if (s->capture || e->capture) return simt_return(simt_capture_wait(s, e));
    if (!e->mark || e->mark->done || e->mark->stream == s) return cudaSuccess;
    simt_op op = {};
    op.kind = SIMT_OP_WAIT;
    op.mark = e->mark;
    return simt_return(simt_submit(s, &op));
}
