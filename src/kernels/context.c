// SPDX-License-Identifier: MIT
/* context.c - the life of a context: one device, one stream and what hangs on them. */
#include "kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A sticky CUDA error spoils the device for the whole process until it is reset, and a reset takes everything on the
 * device with it.  So the contexts of each device are counted, and the last one to go after such an error resets it.
 * This is the library's only mutable global state. */
#define MAX_DEVICES 64
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int contexts;
    bool lost;
} devices[MAX_DEVICES];

static ingot_status join_device(ingot_context *ctx) {
    ingot_status st = INGOT_OK;

    if (ctx->device >= MAX_DEVICES) return INGOT_OK;
    pthread_mutex_lock(&device_lock);
    if (devices[ctx->device].lost) {
        st = ingot_fail(ctx, INGOT_ERR_LOST, "device %d is lost: destroy its other contexts first", ctx->device);
    } else {
        devices[ctx->device].contexts++;
    }
    pthread_mutex_unlock(&device_lock);
    return st;
}

/* With the device current. */
static void leave_device(int device, bool lost) {
    if (device >= MAX_DEVICES) return;
    pthread_mutex_lock(&device_lock);
    devices[device].lost = devices[device].lost || lost;
    if (--devices[device].contexts == 0 && devices[device].lost) {
        devices[device].lost = false;
        (void)cudaDeviceReset();
        (void)cudaGetLastError();
    }
    pthread_mutex_unlock(&device_lock);
}

static void log_to_stderr(void *user, const char *text) {
    (void)user;
    fprintf(stderr, "ingot: %s\n", text);
}

/* The caller's options over the defaults; an older caller's struct is shorter. */
static ingot_status read_options(const ingot_context_options *given, ingot_context_options *out) {
    *out = (ingot_context_options)INGOT_CONTEXT_OPTIONS;
    if (given) {
        if (given->size < sizeof given->size || given->size > sizeof *given) {
            return ingot_fail(NULL, INGOT_ERR_INVALID,
                              "ingot_context_create: options->size is %zu, expected at most "
                              "%zu: start from INGOT_CONTEXT_OPTIONS",
                              given->size, sizeof *given);
        }
        memcpy(out, given, given->size);
    }
    if (out->blas_workspace == 0) out->blas_workspace = (size_t)32 << 20;
    if (out->allocator && (!out->allocator->alloc || !out->allocator->free)) {
        return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_context_create: the allocator's alloc or free is NULL");
    }
    return INGOT_OK;
}

/* Frees what a context holds, however much of it there is.  With the device current. */
static void tear_down(ingot_context *ctx) {
    const ingot_allocator allocator = ctx->allocator;

    ingot_blas_destroy(ctx, ctx->blas);
    ingot_table_destroy(ctx, ctx->table);
    ingot_pool_destroy(ctx, ctx->pool);
    if (ctx->owns_stream && cudaStreamDestroy(ctx->stream) != cudaSuccess) (void)cudaGetLastError();
    allocator.free(allocator.user, INGOT_MEMORY_HOST, ctx);
}

/* What needs the device to be current. */
static ingot_status build(const ingot_context *boot, const ingot_context_options *options, ingot_context **out) {
    ingot_context shell = *boot; /* reports a failure before there is a context */
    ingot_context *ctx = NULL;
    ingot_status st = INGOT_OK;
    void *memory = NULL;
    int stream_device = -1;

    INGOT_TRY(ingot_alloc(&shell, INGOT_MEMORY_HOST, sizeof *ctx, &memory), st, done);
    ctx = memory;
    *ctx = shell;
    ctx->stream = options->stream;
    if (!ctx->stream) {
        INGOT_CUDA(ctx, cudaStreamCreateWithFlags(&ctx->stream, cudaStreamNonBlocking), st, done);
        ctx->owns_stream = true;
    } else {
        INGOT_CUDA(ctx, cudaStreamGetDevice(ctx->stream, &stream_device), st, done);
        if (stream_device != ctx->device) {
            st = ingot_fail(ctx, INGOT_ERR_INVALID, "ingot_context_create: the stream is of device %d, expected %d",
                            stream_device, ctx->device);
            goto done;
        }
    }
    INGOT_TRY(ingot_pool_create(ctx, &ctx->pool), st, done);
    INGOT_TRY(ingot_table_create(ctx, &ctx->table), st, done);
    INGOT_TRY(ingot_blas_create(ctx, options->blas_workspace, &ctx->blas), st, done);
    ingot_log(ctx, "context on device %d: %s, compute capability %d.%d, %d of %d kernels", ctx->device, ctx->info.name,
              ctx->info.cc_major, ctx->info.cc_minor, ingot_table_used(ctx->table), ingot_kernel_count);
    *out = ctx;
    ctx = NULL;

done:
    if (st != INGOT_OK) ingot_hand_over_error(ctx ? ctx : &shell);
    if (ctx) tear_down(ctx);
    return st;
}

ingot_status ingot_context_create(const ingot_context_options *given, ingot_context **out) {
    ingot_context_options options;
    ingot_context boot = {0};
    ingot_status st = INGOT_OK;
    int previous = -1;
    bool joined = false;

    if (!out) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_context_create: out is NULL");
    *out = NULL;
    INGOT_TRY(read_options(given, &options), st, done);
    INGOT_TRY(ingot_device_get(options.device, &boot.info), st, done);
    boot.device = options.device;
    boot.allocator = options.allocator ? *options.allocator : ingot_default_allocator();
    boot.log = options.log ? options.log : ingot_env_flag("INGOT_LOG", false) ? log_to_stderr : NULL;
    boot.log_user = options.log_user;
    boot.fuse = ingot_env_flag("INGOT_FUSE", true);
    boot.graphs = ingot_env_flag("INGOT_GRAPH", true);
    boot.pdl = ingot_env_flag("INGOT_PDL", true);
    st = join_device(&boot);
    if (st != INGOT_OK) {
        ingot_hand_over_error(&boot);
        goto done;
    }
    joined = true;
    INGOT_CUDA(NULL, cudaGetDevice(&previous), st, done);
    INGOT_CUDA(NULL, cudaSetDevice(boot.device), st, done);
    INGOT_TRY(build(&boot, &options, out), st, done);

done:
    if (joined && st != INGOT_OK) leave_device(boot.device, st == INGOT_ERR_LOST);
    ingot_leave(&boot, previous);
    return st;
}

void ingot_context_destroy(ingot_context *ctx) {
    int previous = -1, device;
    bool lost;

    if (!ctx) return;
    device = ctx->device;
    if (cudaGetDevice(&previous) != cudaSuccess) previous = -1;
    (void)cudaSetDevice(device);
    if (!ctx->lost) (void)ingot_check_cuda(ctx, cudaStreamSynchronize(ctx->stream), "ingot_context_destroy");
    lost = ctx->lost;
    tear_down(ctx);
    leave_device(device, lost);
    (void)cudaGetLastError();
    if (previous >= 0 && previous != device && cudaSetDevice(previous) != cudaSuccess) (void)cudaGetLastError();
}

struct CUstream_st *ingot_context_stream(const ingot_context *ctx) {
    return ctx ? ctx->stream : NULL;
}

ingot_status ingot_synchronize(ingot_context *ctx) {
    ingot_status st = INGOT_OK;
    int previous = -1;

    INGOT_TRY(ingot_enter(ctx, &previous), st, done);
    INGOT_CUDA(ctx, cudaStreamSynchronize(ctx->stream), st, done);

done:
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_context_memory(const ingot_context *ctx, size_t *in_use, size_t *held) {
    if (!ctx) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_context_memory: the context is NULL");
    ingot_pool_usage(ctx->pool, in_use, held);
    return INGOT_OK;
}
