// SPDX-License-Identifier: MIT
/* blas.c - GEMMs of plain types by cuBLASLt, with a workspace of our own and the algorithm of a shape asked for once.
 * Built with CUBLASLT=0 the functions stay and say that they cannot. */
#include "build.h"
#include "kernels.h"

#if INGOT_CUBLASLT

#include <cublasLt.h>
#include <inttypes.h>
#include <string.h>

#define CACHE 64    /* shapes remembered; the oldest goes */
#define BATCH 32768 /* the vendor's batches end at 65535 */

/* What an algorithm depends on.  Compared byte by byte: no padding, 8-byte members only. */
struct key {
    int64_t type, m, n, k, lda, ldb, ldd, batch, stride_a, stride_b, stride_d, align_a, align_b, align_d;
};
struct entry {
    struct key key;
    uint64_t used; /* 0: free */
    cublasLtMatmulAlgo_t algo;
};
struct ingot_blas {
    cublasLtHandle_t handle;
    void *workspace;
    size_t bytes;
    uint64_t clock;
    struct entry cache[CACHE];
};
struct plan {
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t a, b, d;
};

static ingot_status check_blas(ingot_context *ctx, cublasStatus_t status, const char *what) {
    ingot_status st = INGOT_ERR_BLAS;

    if (status == CUBLAS_STATUS_SUCCESS) return INGOT_OK;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) st = INGOT_ERR_UNSUPPORTED;
    if (status == CUBLAS_STATUS_ALLOC_FAILED) st = INGOT_ERR_DEVICE_MEMORY;
    const cudaError_t error = cudaGetLastError(); /* a fault of the device shows here too, and says more */
    if (error != cudaSuccess && ingot_check_cuda(ctx, error, what) == INGOT_ERR_LOST) return INGOT_ERR_LOST;
    return ingot_fail(ctx, st, "%.*s: %s", (int)strcspn(what, "("), what, cublasLtGetStatusName(status));
}

#define BLAS(ctx, call, st, label)                                                                                     \
    do {                                                                                                               \
        (st) = check_blas((ctx), (call), #call);                                                                       \
        if ((st) != INGOT_OK) goto label;                                                                              \
    } while (0)

ingot_status ingot_blas_create(ingot_context *ctx, size_t workspace, struct ingot_blas **out) {
    struct ingot_blas *blas = NULL;
    ingot_status st = INGOT_OK;
    void *memory = NULL;

    *out = NULL;
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof *blas, &memory), st, done);
    blas = memset(memory, 0, sizeof *blas);
    blas->bytes = workspace;
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_DEVICE, workspace, &blas->workspace), st, done);
    BLAS(ctx, cublasLtCreate(&blas->handle), st, done);
    *out = blas;
    blas = NULL;

done:
    ingot_blas_destroy(ctx, blas);
    return st;
}

void ingot_blas_destroy(ingot_context *ctx, struct ingot_blas *blas) {
    if (!blas) return;
    if (blas->handle) (void)cublasLtDestroy(blas->handle);
    ingot_free(ctx, INGOT_MEMORY_DEVICE, blas->workspace);
    ingot_free(ctx, INGOT_MEMORY_HOST, blas);
}

/* The largest power of two up to 256 that divides the address and the steps between columns and matrices. */
static int64_t alignment(const void *data, int64_t column, int64_t matrix, int64_t element) {
    const uint64_t bits = (uint64_t)(uintptr_t)data | (uint64_t)(column * element) | (uint64_t)(matrix * element) | 256;

    return (int64_t)(bits & (~bits + 1));
}

static struct key key_of(const struct ingot_gemm *g) {
    const int64_t bytes = (int64_t)ingot_type_size(g->type), step = g->batch > 1; /* one matrix has no next one */

    return (struct key){
        g->type,
        g->m,
        g->n,
        g->k,
        g->lda,
        g->ldb,
        g->ldd,
        g->batch,
        g->stride_a,
        g->stride_b,
        g->stride_d,
        alignment(g->a, g->lda, step * g->stride_a, bytes),
        alignment(g->b, g->ldb, step * g->stride_b, bytes),
        alignment(g->d, g->ldd, step * g->stride_d, sizeof(float)),
    };
}

static cublasStatus_t set_layout(cublasLtMatrixLayout_t layout, cudaDataType_t type, int64_t rows, int64_t columns,
                                 int64_t ld, int64_t batch, int64_t stride) {
    const int32_t count = (int32_t)batch;
    cublasStatus_t status = cublasLtMatrixLayoutInit(layout, type, (uint64_t)rows, (uint64_t)columns, ld);

    if (status != CUBLAS_STATUS_SUCCESS || batch == 1) return status;
    status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                            sizeof stride);
}

/* Describes the product.  CUBLAS_COMPUTE_32F is plain f32 for f32 operands, never TF32. */
static ingot_status describe(ingot_context *ctx, const struct ingot_gemm *g, struct plan *plan) {
    const cudaDataType_t type = g->type == INGOT_TYPE_F32   ? CUDA_R_32F
                                : g->type == INGOT_TYPE_F16 ? CUDA_R_16F
                                                            : CUDA_R_16BF;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    ingot_status st = INGOT_OK;

    BLAS(ctx, cublasLtMatmulDescInit(&plan->op, CUBLAS_COMPUTE_32F, CUDA_R_32F), st, done);
    BLAS(ctx, cublasLtMatmulDescSetAttribute(&plan->op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
         st, done);
    BLAS(ctx, set_layout(&plan->a, type, g->k, g->m, g->lda, g->batch, g->stride_a), st, done);
    BLAS(ctx, set_layout(&plan->b, type, g->k, g->n, g->ldb, g->batch, g->stride_b), st, done);
    BLAS(ctx, set_layout(&plan->d, CUDA_R_32F, g->m, g->n, g->ldd, g->batch, g->stride_d), st, done);

done:
    return st;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
                             int64_t bytes) {
    const uint32_t value = (uint32_t)bytes;

    return cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value);
}

static ingot_status ask_algorithm(ingot_context *ctx, struct plan *plan, const struct key *key,
                                  cublasLtMatmulAlgo_t *out) {
    struct ingot_blas *blas = ctx->blas;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result = {0};
    int found = 0;
    ingot_status st = INGOT_OK;

    BLAS(ctx, cublasLtMatmulPreferenceInit(&preference), st, done);
    BLAS(ctx,
         cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &blas->bytes,
                                              sizeof blas->bytes),
         st, done);
    BLAS(ctx, prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->align_a), st, done);
    BLAS(ctx, prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->align_b), st, done);
    BLAS(ctx, prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->align_d), st, done);
    BLAS(ctx, prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->align_d), st, done);
    BLAS(ctx,
         cublasLtMatmulAlgoGetHeuristic(blas->handle, &plan->op, &plan->a, &plan->b, &plan->d, &plan->d, &preference, 1,
                                        &result, &found),
         st, done);
    if (found < 1 || result.state != CUBLAS_STATUS_SUCCESS) st = INGOT_ERR_UNSUPPORTED;
    *out = result.algo;

done:
    if (st == INGOT_ERR_UNSUPPORTED) {
        ingot_fail(ctx, st,
                   "cuBLASLt has no algorithm for %s m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " with operands "
                   "aligned to %" PRId64 ", %" PRId64 " and %" PRId64 " bytes",
                   ingot_type_name((ingot_type)key->type), key->m, key->n, key->k, key->align_a, key->align_b,
                   key->align_d);
    }
    return st;
}

/* The algorithm of a shape, from the cache or asked for and remembered. */
static ingot_status find_algorithm(ingot_context *ctx, struct plan *plan, const struct ingot_gemm *g,
                                   const cublasLtMatmulAlgo_t **out) {
    struct ingot_blas *blas = ctx->blas;
    const struct key key = key_of(g);
    struct entry *oldest = &blas->cache[0];
    ingot_status st = INGOT_OK;

    for (int i = 0; i < CACHE; i++) {
        struct entry *entry = &blas->cache[i];
        if (entry->used != 0 && memcmp(&entry->key, &key, sizeof key) == 0) {
            entry->used = ++blas->clock;
            *out = &entry->algo;
            return INGOT_OK;
        }
        if (entry->used < oldest->used) oldest = entry;
    }
    oldest->used = 0;
    INGOT_TRY(ask_algorithm(ctx, plan, &key, &oldest->algo), st, done);
    oldest->key = key;
    oldest->used = ++blas->clock;
    *out = &oldest->algo;

done:
    return st;
}

static ingot_status multiply(ingot_context *ctx, const struct ingot_gemm *g) {
    const float one = 1.0f, zero = 0.0f;
    const cublasLtMatmulAlgo_t *algo = NULL;
    struct ingot_blas *blas = ctx->blas;
    struct plan plan;
    ingot_status st = INGOT_OK;

    INGOT_TRY(describe(ctx, g, &plan), st, done);
    INGOT_TRY(find_algorithm(ctx, &plan, g, &algo), st, done);
    BLAS(ctx,
         cublasLtMatmul(blas->handle, &plan.op, &one, g->a, &plan.a, g->b, &plan.b, &zero, g->d, &plan.d, g->d, &plan.d,
                        algo, blas->workspace, blas->bytes, ctx->stream),
         st, done);

done:
    return st;
}

/* A product over nothing is zero. */
static ingot_status clear(ingot_context *ctx, const struct ingot_gemm *g) {
    ingot_status st = INGOT_OK;

    for (int64_t i = 0; i < g->batch && st == INGOT_OK; i++) {
        st = ingot_check_cuda(ctx,
                              cudaMemset2DAsync(g->d + i * g->stride_d, (size_t)g->ldd * sizeof(float), 0,
                                                (size_t)g->m * sizeof(float), (size_t)g->n, ctx->stream),
                              "cudaMemset2DAsync");
    }
    return st;
}

ingot_status ingot_blas_gemm(ingot_context *ctx, const struct ingot_gemm *gemm) {
    const int64_t bytes = (int64_t)ingot_type_size(gemm->type);
    ingot_status st = INGOT_OK;

    if (!ingot_is_float_type(gemm->type)) {
        return ingot_fail(ctx, INGOT_ERR_UNSUPPORTED, "GEMM of %s: expected f32, f16 or bf16",
                          ingot_type_name(gemm->type));
    }
    if (gemm->m <= 0 || gemm->n <= 0 || gemm->batch <= 0) return INGOT_OK;
    if (gemm->k <= 0) return clear(ctx, gemm);
    for (int64_t done = 0; done < gemm->batch && st == INGOT_OK; done += BATCH) {
        struct ingot_gemm part = *gemm;
        part.batch = gemm->batch - done < BATCH ? gemm->batch - done : BATCH;
        part.a = (const char *)gemm->a + done * gemm->stride_a * bytes;
        part.b = (const char *)gemm->b + done * gemm->stride_b * bytes;
        part.d = gemm->d + done * gemm->stride_d;
        st = multiply(ctx, &part);
    }
    return st;
}

bool ingot_blas_supports(ingot_context *ctx, const struct ingot_gemm *gemm) {
    const uintptr_t element = ingot_type_size(gemm->type);
    struct ingot_gemm least = *gemm; /* at the least aligned pointers there are */
    const cublasLtMatmulAlgo_t *algo;
    struct plan plan;
    char error[INGOT_ERROR_TEXT];
    ingot_status st = INGOT_ERR_UNSUPPORTED;

    if (!ctx->blas || !ingot_is_float_type(gemm->type)) return false;
    memcpy(error, ctx->error, sizeof error); /* a "no" is no failure of the caller's */
    least.a = least.b = (const void *)element;
    least.d = (float *)sizeof(float);
    INGOT_TRY(describe(ctx, &least, &plan), st, done);
    INGOT_TRY(find_algorithm(ctx, &plan, &least, &algo), st, done);

done:
    memcpy(ctx->error, error, sizeof error);
    return st == INGOT_OK;
}

#else /* no cuBLASLt */

bool ingot_blas_supports(ingot_context *ctx, const struct ingot_gemm *gemm) {
    (void)ctx;
    (void)gemm;
    return false;
}

ingot_status ingot_blas_create(ingot_context *ctx, size_t workspace, struct ingot_blas **out) {
    (void)ctx;
    (void)workspace;
    *out = NULL;
    return INGOT_OK;
}

void ingot_blas_destroy(ingot_context *ctx, struct ingot_blas *blas) {
    (void)ctx;
    (void)blas;
}

ingot_status ingot_blas_gemm(ingot_context *ctx, const struct ingot_gemm *gemm) {
    return ingot_fail(ctx, INGOT_ERR_UNSUPPORTED, "GEMM of %s: this build is without cuBLASLt",
                      ingot_type_name(gemm->type));
}

#endif
