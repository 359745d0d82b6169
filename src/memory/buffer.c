// SPDX-License-Identifier: MIT
/* buffer.c - device and pinned memory in the caller's hands, and copies into, out of and between buffers. */
#include "memory.h"

#include <stddef.h>

struct ingot_buffer {
    ingot_context *ctx;
    ingot_memory kind;
    size_t bytes;
    char *data; /* NULL if bytes is 0 */
};

ingot_status ingot_buffer_create(ingot_context *ctx, ingot_memory kind, size_t bytes, ingot_buffer **out) {
    ingot_buffer *buffer = NULL;
    ingot_status st = INGOT_OK;
    int previous = -1;
    void *memory = NULL, *data = NULL;

    if (!out) return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create: out is NULL");
    *out = NULL;
    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (kind != INGOT_MEMORY_DEVICE && kind != INGOT_MEMORY_PINNED) {
        st = ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create: memory kind %d, expected device or pinned",
                        (int)kind);
        goto done;
    }
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof *buffer, &memory), st, done);
    INGOT_TRY(ingot_alloc(ctx, kind, bytes, &data), st, done);
    buffer = memory;
    *buffer = (ingot_buffer){ctx, kind, bytes, data};
    *out = buffer;
    memory = NULL;

done:
    if (memory) ingot_free(ctx, INGOT_MEMORY_HOST, memory);
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_buffer_create_for(ingot_context *ctx, ingot_tensor *t, ingot_buffer **out) {
    const size_t bytes = ingot_tensor_size(t);
    ingot_status st;
    char text[96];

    if (!out) return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create_for: out is NULL");
    *out = NULL;
    if (!t) return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create_for: the tensor is NULL");
    for (int i = 0; i < 4; i++) {
        if (t->ne[i] >= 0) continue;
        return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create_for: ne[%d] of %s is negative", i,
                          ingot_describe(t, text));
    }
    if (bytes >= INT64_MAX) {
        return ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_create_for: the tensor's type or strides make no size");
    }
    st = ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, bytes, out);
    if (st == INGOT_OK) t->data = (*out)->data;
    return st;
}

void ingot_buffer_destroy(ingot_buffer *buffer) {
    ingot_context *ctx;
    int previous = -1;

    if (!buffer) return;
    ctx = buffer->ctx;
    /* On a lost context nothing runs any more and there is nothing to wait for. */
    if (!ctx->lost && ingot_enter(ctx, &previous) == INGOT_OK && buffer->data) {
        (void)ingot_check_cuda(ctx, cudaStreamSynchronize(ctx->stream), "ingot_buffer_destroy");
    }
    ingot_free(ctx, buffer->kind, buffer->data);
    ingot_free(ctx, INGOT_MEMORY_HOST, buffer);
    ingot_leave(ctx, previous);
}

void *ingot_buffer_data(const ingot_buffer *buffer) {
    return buffer ? buffer->data : NULL;
}

size_t ingot_buffer_size(const ingot_buffer *buffer) {
    return buffer ? buffer->bytes : 0;
}

/* Checks that bytes [offset, offset + bytes) lie inside the buffer. */
static ingot_status check_range(const ingot_buffer *buffer, size_t offset, size_t bytes, const char *what) {
    if (!buffer) return ingot_fail(NULL, INGOT_ERR_INVALID, "%s: the buffer is NULL", what);
    if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
        return ingot_fail(buffer->ctx, INGOT_ERR_INVALID, "%s: %zu bytes at offset %zu, but the buffer has %zu bytes",
                          what, bytes, offset, buffer->bytes);
    }
    return INGOT_OK;
}

static enum cudaMemcpyKind copy_kind(ingot_memory dst, ingot_memory src) {
    if (dst == INGOT_MEMORY_DEVICE) {
        return src == INGOT_MEMORY_DEVICE ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    }
    return src == INGOT_MEMORY_DEVICE ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

/* One copy between a buffer and host memory on the buffer's stream; `wait` makes it synchronous. */
static ingot_status transfer(const ingot_buffer *buffer, size_t offset, void *host_dst, const void *host_src,
                             size_t bytes, bool wait, const char *what) {
    ingot_context *ctx = NULL;
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(check_range(buffer, offset, bytes, what), st, done);
    ctx = buffer->ctx;
    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (bytes != 0) {
        if (!host_dst && !host_src) {
            st = ingot_fail(ctx, INGOT_ERR_INVALID, "%s: the host pointer is NULL", what);
            goto done;
        }
        void *dst = host_src ? buffer->data + offset : host_dst;
        const void *src = host_src ? host_src : buffer->data + offset;
        const enum cudaMemcpyKind kind =
            host_src ? copy_kind(buffer->kind, INGOT_MEMORY_HOST) : copy_kind(INGOT_MEMORY_HOST, buffer->kind);
        INGOT_TRY(ingot_check_cuda(ctx, cudaMemcpyAsync(dst, src, bytes, kind, ctx->stream), what), st, done);
    }
    if (wait) INGOT_TRY(ingot_check_cuda(ctx, cudaStreamSynchronize(ctx->stream), what), st, done);

done:
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_buffer_set(ingot_buffer *dst, size_t offset, const void *src, size_t bytes) {
    return transfer(dst, offset, NULL, src, bytes, true, "ingot_buffer_set");
}

ingot_status ingot_buffer_get(const ingot_buffer *src, size_t offset, void *dst, size_t bytes) {
    return transfer(src, offset, dst, NULL, bytes, true, "ingot_buffer_get");
}

ingot_status ingot_buffer_set_async(ingot_buffer *dst, size_t offset, const void *src, size_t bytes) {
    return transfer(dst, offset, NULL, src, bytes, false, "ingot_buffer_set_async");
}

ingot_status ingot_buffer_get_async(const ingot_buffer *src, size_t offset, void *dst, size_t bytes) {
    return transfer(src, offset, dst, NULL, bytes, false, "ingot_buffer_get_async");
}

ingot_status ingot_buffer_fill(ingot_buffer *dst, size_t offset, int value, size_t bytes) {
    ingot_context *ctx = NULL;
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(check_range(dst, offset, bytes, "ingot_buffer_fill"), st, done);
    ctx = dst->ctx;
    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (bytes != 0) INGOT_CUDA(ctx, cudaMemsetAsync(dst->data + offset, value, bytes, ctx->stream), st, done);

done:
    ingot_leave(ctx, previous);
    return st;
}

/* Orders later work of `later` after what `first` has submitted so far.  Failures are reported in `ctx`. */
static ingot_status order(ingot_context *ctx, ingot_context *first, ingot_context *later) {
    cudaEvent_t event = NULL;
    ingot_status st = INGOT_OK;

    if (first == later) return INGOT_OK;
    INGOT_CUDA(ctx, cudaSetDevice(first->device), st, done);
    INGOT_CUDA(ctx, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), st, done);
    INGOT_CUDA(ctx, cudaEventRecord(event, first->stream), st, done);
    INGOT_CUDA(ctx, cudaSetDevice(later->device), st, done);
    INGOT_CUDA(ctx, cudaStreamWaitEvent(later->stream, event, 0), st, done);

done:
    /* A pending event is legal to destroy: CUDA keeps it until it has happened. */
    if (event && cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
    return st;
}

static bool ranges_meet(size_t a, size_t b, size_t bytes) {
    return a < b ? b - a < bytes : a - b < bytes;
}

ingot_status ingot_buffer_copy(ingot_buffer *dst, size_t dst_offset, const ingot_buffer *src, size_t src_offset,
                               size_t bytes) {
    ingot_context *ctx = NULL;
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(check_range(dst, dst_offset, bytes, "ingot_buffer_copy, destination"), st, done);
    ctx = dst->ctx;
    if (!src) {
        st = ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_copy, source: the buffer is NULL");
        goto done;
    }
    INGOT_TRY(check_range(src, src_offset, bytes, "ingot_buffer_copy, source"), st, done);
    if (src->ctx->lost) {
        st = ingot_fail(ctx, INGOT_ERR_LOST, "ingot_buffer_copy: the source's context is lost");
        goto done;
    }
    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    if (bytes == 0) goto done;
    if (dst == src && ranges_meet(dst_offset, src_offset, bytes)) {
        st = ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_buffer_copy: %zu bytes at %zu and %zu of one buffer overlap",
                        bytes, src_offset, dst_offset);
        goto done;
    }
    INGOT_TRY(order(ctx, src->ctx, ctx), st, done);
    if (src->ctx->device != ctx->device && src->kind == INGOT_MEMORY_DEVICE && dst->kind == INGOT_MEMORY_DEVICE) {
        INGOT_CUDA(ctx,
                   cudaMemcpyPeerAsync(dst->data + dst_offset, ctx->device, src->data + src_offset, src->ctx->device,
                                       bytes, ctx->stream),
                   st, done);
    } else {
        INGOT_CUDA(ctx,
                   cudaMemcpyAsync(dst->data + dst_offset, src->data + src_offset, bytes,
                                   copy_kind(dst->kind, src->kind), ctx->stream),
                   st, done);
    }
    INGOT_TRY(order(ctx, ctx, src->ctx), st, done);

done:
    if (previous >= 0 && cudaSetDevice(previous) != cudaSuccess) (void)cudaGetLastError();
    return st;
}
