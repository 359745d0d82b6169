// SPDX-License-Identifier: MIT
/* memory.c - allocation through the context's allocator, the current device, and settings from the environment. */
#include "base.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *default_alloc(void *user, ingot_memory kind, size_t bytes) {
    void *ptr = NULL;

    (void)user;
    switch (kind) {
    case INGOT_MEMORY_HOST:
        return malloc(bytes);
    case INGOT_MEMORY_PINNED:
        return cudaMallocHost(&ptr, bytes) == cudaSuccess ? ptr : NULL;
    case INGOT_MEMORY_DEVICE:
        return cudaMalloc(&ptr, bytes) == cudaSuccess ? ptr : NULL;
    }
    return NULL;
}

static void default_free(void *user, ingot_memory kind, void *ptr) {
    cudaError_t error = cudaSuccess;

    (void)user;
    switch (kind) {
    case INGOT_MEMORY_HOST:
        free(ptr);
        break;
    case INGOT_MEMORY_PINNED:
        error = cudaFreeHost(ptr);
        break;
    case INGOT_MEMORY_DEVICE:
        error = cudaFree(ptr);
        break;
    }
    /* Fails on a lost context and while the process exits; nobody can act on either. */
    if (error != cudaSuccess) (void)cudaGetLastError();
}

ingot_allocator ingot_default_allocator(void) {
    return (ingot_allocator){default_alloc, default_free, NULL};
}

static const char *kind_name(ingot_memory kind) {
    return kind == INGOT_MEMORY_HOST ? "host" : kind == INGOT_MEMORY_PINNED ? "pinned" : "device";
}

ingot_status ingot_alloc(ingot_context *ctx, ingot_memory kind, size_t bytes, void **out) {
    const size_t align = kind == INGOT_MEMORY_HOST ? 16 : 256;
    void *ptr;

    *out = NULL;
    if (bytes == 0) return INGOT_OK;
    ptr = ctx->allocator.alloc(ctx->allocator.user, kind, bytes);
    if (!ptr) {
        /* The default allocator leaves CUDA's own reason behind; anything but "no memory" is worth more than ours. */
        cudaError_t error = kind != INGOT_MEMORY_HOST ? cudaGetLastError() : cudaSuccess;
        if (ctx->allocator.alloc == default_alloc && error != cudaSuccess && error != cudaErrorMemoryAllocation) {
            return ingot_check_cuda(ctx, error, "allocation");
        }
        return ingot_fail(ctx, kind == INGOT_MEMORY_HOST ? INGOT_ERR_HOST_MEMORY : INGOT_ERR_DEVICE_MEMORY,
                          "out of %s memory: %zu bytes wanted", kind_name(kind), bytes);
    }
    /* The runtime is trusted; on the SIMT host a guarded block deliberately ends at a page instead. */
    if (ctx->allocator.alloc != default_alloc && (uintptr_t)ptr % align != 0) {
        ctx->allocator.free(ctx->allocator.user, kind, ptr);
        return ingot_fail(ctx, INGOT_ERR_INVALID, "the allocator gave %s memory at %p, not aligned to %zu bytes",
                          kind_name(kind), ptr, align);
    }
    *out = ptr;
    return INGOT_OK;
}

void ingot_free(ingot_context *ctx, ingot_memory kind, void *ptr) {
    if (ptr) ctx->allocator.free(ctx->allocator.user, kind, ptr);
}

ingot_status ingot_enter(ingot_context *ctx, int *previous) {
    ingot_status st = INGOT_OK;

    *previous = -1;
    if (!ctx) return ingot_fail(NULL, INGOT_ERR_INVALID, "the context is NULL");
    if (ctx->lost) {
        return ingot_fail(ctx, INGOT_ERR_LOST,
                          "the context is lost after an earlier CUDA error: destroy it and create "
                          "another");
    }
    INGOT_CUDA(ctx, cudaGetDevice(previous), st, done);
    if (*previous != ctx->device) INGOT_CUDA(ctx, cudaSetDevice(ctx->device), st, done);

done:
    return st;
}

void ingot_leave(const ingot_context *ctx, int previous) {
    if (!ctx || previous < 0 || previous == ctx->device) return;
    if (cudaSetDevice(previous) != cudaSuccess) (void)cudaGetLastError();
}

bool ingot_is_capturing(const ingot_context *ctx) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    if (cudaStreamIsCapturing(ctx->stream, &status) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return status != cudaStreamCaptureStatusNone;
}

bool ingot_env_flag(const char *name, bool otherwise) {
    static const char *const off[] = {"", "0", "off", "no", "false"};
    const char *value = getenv(name);

    if (!value) return otherwise;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        if (strcasecmp(value, off[i]) == 0) return false;
    }
    return true;
}
