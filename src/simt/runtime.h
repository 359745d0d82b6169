/* SPDX-License-Identifier: MIT
 *
 * runtime.h - what the rt_*.cpp files, the CUDA runtime of the SIMT build, share.
 *
 * A stream is a queue of operations. By default an operation runs when it is submitted, on the calling
 * thread; with INGOT_SIMT_LAZY it waits until something waits for it. One mutex guards all queues; it
 * is dropped while an operation runs, and a stream that runs one is `busy`. A thread that waits for a
 * stream runs the stream's operations itself, or sleeps while another thread does.
 */
#ifndef SIMT_RUNTIME_H
#define SIMT_RUNTIME_H

#include "src/simt/internal.h"

/* One recording of an event: what a wait waits for. Shared by the event and the operations. */
struct simt_mark {
    int refs;
    bool done;
    double ms;           /* when it was reached */
    cudaError_t error;   /* of the stream at that moment */
    CUstream_st *stream; /* valid until done */
    simt_mark *next;     /* for whoever keeps a list of them */
};

struct simt_oplist { /* what a capture has recorded; immutable once it is a graph */
    int refs;
    size_t n, room;
    struct simt_op **op;
};

enum simt_op_kind { SIMT_OP_LAUNCH, SIMT_OP_COPY, SIMT_OP_FILL, SIMT_OP_HOST, SIMT_OP_RECORD, SIMT_OP_WAIT, SIMT_OP_GRAPH };
struct simt_op {
    simt_op *next;
    int kind; /* simt_op_kind */
    union {
        simt_launch launch;
        struct {
            char *dst;
            const char *src;
            size_t dst_pitch, src_pitch, width, height;
            bool staged; /* src is pageable: an operation that is queued takes the bytes along */
        } copy;
        struct {
            void *dst;
            int value;
            size_t n;
        } fill;
        struct {
            cudaHostFn_t fn;
            void *user;
        } host;
        simt_mark *mark;    /* RECORD, WAIT */
        simt_oplist *graph; /* GRAPH */
    };
};

enum { SIMT_CAPTURE_STREAMS = 64 };
struct simt_capture { /* a capture in progress; events recorded in it keep the object alive */
    int refs;
    bool active, invalid;
    cudaStreamCaptureMode mode;
    pthread_t thread;
    CUstream_st *origin;
    simt_oplist *ops;
    int nstreams;
    uint32_t issued[SIMT_CAPTURE_STREAMS]; /* operations by stream of the capture */
    simt_capture *next;
};
/* How many operations of each stream of a capture come before a point in it. */
struct simt_clock {
    uint32_t of[SIMT_CAPTURE_STREAMS];
};

struct CUstream_st {
    int device, priority;
    unsigned flags;
    bool legacy, busy;
    cudaError_t error; /* of the first operation that failed since the last synchronise */
    simt_op *head, **tail;
    simt_capture *capture;
    int slot; /* in the capture */
    simt_clock clock;
    CUstream_st *next;
};
struct CUevent_st {
    unsigned flags;
    simt_mark *mark;       /* last recording; 0: never recorded */
    simt_capture *capture; /* of the last recording, when it was captured */
    simt_clock clock;
};
struct CUgraph_st {
    simt_oplist *ops;
};
struct CUgraphExec_st {
    simt_oplist *ops;
};

extern "C" {

/* The runtime's one lock, held for the life of the object. Functions whose comment says "locked" are
 * called with it held. */
void simt_lock_take(void);
void simt_lock_drop(void);
struct simt_lock {
    simt_lock() { simt_lock_take(); }
    ~simt_lock() { simt_lock_drop(); }
};

cudaError_t simt_return(cudaError_t e); /* remembers an error for cudaGetLastError */
int simt_current_device(void);

/* ---- streams (rt_stream.cpp), all locked ---- */
extern CUstream_st *simt_streams; /* every stream, the legacy ones included */
/* The stream of a handle, 0 standing for the current device's legacy stream; null for a bad handle. */
CUstream_st *simt_stream_of(cudaStream_t handle);
/* Runs, queues or captures the operation. A launch's arguments are copied when it does not run now. */
cudaError_t simt_submit(CUstream_st *s, const simt_op *op);
cudaError_t simt_sync(CUstream_st *s);
cudaError_t simt_sync_device(int device);
double simt_now_ms(void);
simt_op *simt_op_copy(const simt_op *op);
void simt_op_free(simt_op *op);
cudaError_t simt_op_run(simt_op *op); /* not locked */

/* ---- capture (rt_graph.cpp), all locked ---- */
cudaError_t simt_capture_append(CUstream_st *s, const simt_op *op);
cudaError_t simt_capture_record(CUstream_st *s, cudaEvent_t e);
cudaError_t simt_capture_wait(CUstream_st *s, cudaEvent_t e);
cudaError_t simt_capture_break(CUstream_st *s); /* a call that a capturing stream does not allow */
/* Calls that may synchronise implicitly ask first: the error when a capture forbids them here. */
cudaError_t simt_capture_forbids(void);
void simt_capture_leave(CUstream_st *s); /* the stream is destroyed */
void simt_capture_unref(simt_capture *c);
cudaError_t simt_capture_legacy(CUstream_st *legacy);
void simt_oplist_unref(simt_oplist *l);

/* ---- memory (rt_memory.cpp) ---- */
/* Whether [p, p + n) may be the device side of a copy or fill. */
bool simt_device_range(const void *p, size_t n);

} /* extern "C" */
#endif
