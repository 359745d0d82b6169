// SPDX-License-Identifier: MIT
/* base.h - what every folder stands on: the context struct, failures with a text, logging, allocation, the device's
 * limits.  Folders build on each other in this order: base <- memory <- kernels <- ops <- graph. */
#ifndef INGOT_BASE_H
#define INGOT_BASE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../include/ingot.h"

#define INGOT_ERROR_TEXT 512

struct ingot_pool;   /* memory/ */
struct ingot_table;  /* kernels/ */
struct ingot_blas;   /* kernels/ */

struct ingot_context {
    int                       device;
    cudaStream_t              stream;
    bool                      owns_stream;
    bool                      lost;          /* a sticky CUDA error was seen */
    bool                      fuse, graphs;  /* INGOT_FUSE, INGOT_GRAPH */
    bool                      pdl;           /* INGOT_PDL */
    ingot_allocator           allocator;
    ingot_log_fn              log;           /* NULL: silent */
    void                     *log_user;
    struct ingot_pool        *pool;
    struct ingot_table       *table;
    struct ingot_blas        *blas;          /* NULL when built with CUBLASLT=0 */
    ingot_device              info;
    char                      error[INGOT_ERROR_TEXT];
};

/* Records a failure's text (in `ctx`, or in the thread when NULL), logs it, returns `status`.  Text says what was wrong
 * and what was expected. */
ingot_status ingot_fail(ingot_context *ctx, ingot_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Turns a CUDA error into a status with a text that names `what`; clears the runtime's last error; marks the context
 * lost on a sticky error.  cudaSuccess gives INGOT_OK. */
ingot_status ingot_check_cuda(ingot_context *ctx, cudaError_t error, const char *what);

/* Runs a CUDA call; on failure sets `st` and jumps to `label`. */
#define INGOT_CUDA(ctx, call, st, label)                                                                               \
    do {                                                                                                               \
        (st) = ingot_check_cuda((ctx), (call), #call);                                                                 \
        if ((st) != INGOT_OK) goto label;                                                                              \
    } while (0)
/* Runs a call that returns a status; on failure jumps to `label`. */
#define INGOT_TRY(call, st, label)                                                                                     \
    do {                                                                                                               \
        (st) = (call);                                                                                                 \
        if ((st) != INGOT_OK) goto label;                                                                              \
    } while (0)

/* Makes the text of `ctx` the calling thread's: for a context that dies before its caller gets it. */
void ingot_hand_over_error(const ingot_context *ctx);

/* Logs a line if the context has a log. */
void ingot_log(const ingot_context *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes the context's device current; gives the one before, for ingot_leave.  Fails with INGOT_ERR_INVALID on NULL and
 * INGOT_ERR_LOST on a lost context. */
ingot_status ingot_enter(ingot_context *ctx, int *previous);
void         ingot_leave(const ingot_context *ctx, int previous);

/* Memory of any kind from the context's allocator.  Fails with a text naming bytes and kind.  Free accepts NULL. */
ingot_status ingot_alloc(ingot_context *ctx, ingot_memory kind, size_t bytes, void **out);
void         ingot_free(ingot_context *ctx, ingot_memory kind, void *ptr);
/* cudaMalloc, cudaMallocHost, malloc. */
ingot_allocator ingot_default_allocator(void);
/* True while the context's stream records a CUDA graph: nothing may be allocated or waited for then. */
bool ingot_is_capturing(const ingot_context *ctx);

/* Boolean environment variable by value: "", "0", "off", "no", "false" are false; unset gives `otherwise`. */
bool ingot_env_flag(const char *name, bool otherwise);

/* A shared-memory limit as a driver reports it, made usable: below 48 KiB or above 256 KiB gives 48 KiB. */
size_t ingot_clamp_shared(int64_t reported);

/* a*b and a+b in 63 bits; false on overflow. */
bool ingot_mul_size(int64_t a, int64_t b, int64_t *out);
bool ingot_add_size(int64_t a, int64_t b, int64_t *out);

/* ---- tensors */
bool ingot_is_block_type(ingot_type type);                 /* a quantised block format */
/* What addresses and strides of the type's elements are a multiple of. */
size_t ingot_type_alignment(ingot_type type);
bool ingot_is_float_type(ingot_type type);                 /* f32, f16, bf16 */
bool ingot_same_shape(const ingot_tensor *a, const ingot_tensor *b);
bool ingot_is_contiguous(const ingot_tensor *t);
bool ingot_is_empty(const ingot_tensor *t);
/* True if the two may share a byte.  Views that interleave at one pitch (columns of one matrix) are told apart. */
bool ingot_overlap(const ingot_tensor *a, const ingot_tensor *b);
/* "q4_K [4096,11008,1,1]" into a buffer of 96 characters. */
const char *ingot_describe(const ingot_tensor *t, char text[96]);

#endif
