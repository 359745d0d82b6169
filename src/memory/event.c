// SPDX-License-Identifier: MIT
/* event.c - points of a stream that other streams and the host can wait for. */
#include "memory.h"

struct ingot_event {
    ingot_context *ctx; /* whose allocator it came from */
    cudaEvent_t event;
    bool recorded;
};

ingot_status ingot_event_create(ingot_context *ctx, ingot_event **out) {
    ingot_event *event = NULL;
    ingot_status st = INGOT_OK;
    int previous = -1;
    void *memory = NULL;

    if (!out) return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_event_create: out is NULL");
    *out = NULL;
    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof *event, &memory), st, done);
    event = memory;
    *event = (ingot_event){.ctx = ctx};
    INGOT_CUDA(ctx, cudaEventCreateWithFlags(&event->event, cudaEventDefault), st, done);
    *out = event;
    memory = NULL;

done:
    if (memory) ingot_free(ctx, INGOT_MEMORY_HOST, memory);
    ingot_leave(ctx, previous);
    return st;
}

void ingot_event_destroy(ingot_event *event) {
    ingot_context *ctx;

    if (!event) return;
    ctx = event->ctx;
    if (cudaEventDestroy(event->event) != cudaSuccess) (void)cudaGetLastError();
    ingot_free(ctx, INGOT_MEMORY_HOST, event);
}

ingot_status ingot_event_record(ingot_event *event, ingot_context *ctx) {
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (!event || event->ctx->device != ctx->device) {
        st = ingot_fail(ctx, INGOT_ERR_INVALID,
                        event ? "ingot_event_record: the event is of another device"
                              : "ingot_event_record: the event is NULL");
        goto done;
    }
    INGOT_CUDA(ctx, cudaEventRecord(event->event, ctx->stream), st, done);
    event->recorded = true;

done:
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_event_wait(ingot_event *event, ingot_context *ctx) {
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (!event) {
        st = ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_event_wait: the event is NULL");
        goto done;
    }
    INGOT_CUDA(ctx, cudaStreamWaitEvent(ctx->stream, event->event, 0), st, done);

done:
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_event_synchronize(ingot_event *event) {
    ingot_status st = INGOT_OK;
    int previous = -1;

    if (!event) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_event_synchronize: the event is NULL");
    INGOT_TRY(ingot_enter(event->ctx, &previous), st, done);
    INGOT_CUDA(event->ctx, cudaEventSynchronize(event->event), st, done);

done:
    ingot_leave(event->ctx, previous);
    return st;
}

ingot_status ingot_event_elapsed(ingot_event *start, ingot_event *end, float *milliseconds) {
    ingot_status st = INGOT_OK;
    int previous = -1;

    if (!start || !end || !milliseconds) {
        return ingot_fail(end ? end->ctx : NULL, INGOT_ERR_INVALID, "ingot_event_elapsed: %s is NULL",
                          !start ? "start"
                          : !end ? "end"
                                 : "milliseconds");
    }
    *milliseconds = 0.0f;
    INGOT_TRY(ingot_enter(end->ctx, &previous), st, done);
    if (start->ctx->device != end->ctx->device || !start->recorded || !end->recorded) {
        st = ingot_fail(end->ctx, INGOT_ERR_INVALID, "ingot_event_elapsed: expected two recorded events of one device");
        goto done;
    }
    INGOT_CUDA(end->ctx, cudaEventSynchronize(end->event), st, done);
    INGOT_CUDA(end->ctx, cudaEventElapsedTime(milliseconds, start->event, end->event), st, done);

done:
    ingot_leave(end->ctx, previous);
    return st;
}
