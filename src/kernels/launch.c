// SPDX-License-Identifier: MIT
/* launch.c - the one function that launches every kernel. */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const void *ingot_kernel_stub(const struct ingot_kernel *kernel) {
    const void *stub; /* ISO C has no conversion from function to object pointers */

    _Static_assert(sizeof stub == sizeof kernel->fn, "function and object pointers differ in size");
    memcpy(&stub, &kernel->fn, sizeof stub);
    return stub;
}

/* A kernel that wants more shared memory than every chip has by default must ask once per device; it asks for all there is,
 * since the next launch may want more. */
static ingot_status opt_in(ingot_context *ctx, const struct ingot_kernel *kernel, uint32_t smem, uint8_t *flags) {
    ingot_status st;

    if (smem <= 48 * 1024 || (flags && (*flags & INGOT_ROW_OPTED_IN) != 0)) return INGOT_OK;
    st = ingot_check_cuda(ctx,
                          cudaFuncSetAttribute(ingot_kernel_stub(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               (int)ctx->info.shared_per_block),
                          "cudaFuncSetAttribute");
    if (st == INGOT_OK && flags) *flags |= INGOT_ROW_OPTED_IN;
    return st;
}

ingot_status ingot_launch(ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_grid grid,
                          const void *args) {
    const uint32_t threads = grid.threads ? grid.threads : kernel->threads, smem = grid.smem ? grid.smem : kernel->smem;
    uint8_t *flags = ingot_table_flags(ctx->table, kernel);
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    cudaLaunchConfig_t config = {.stream = ctx->stream, .dynamicSmemBytes = smem};
    void *argv[] = {(void *)args};
    char what[256];
    ingot_status st = INGOT_OK;

    if (grid.blocks < 1) {
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: a grid of %" PRId64 " blocks, expected at least 1",
                          kernel->symbol, grid.blocks);
    }
    if (grid.blocks > INT32_MAX) {
        return ingot_fail(ctx, INGOT_ERR_UNSUPPORTED, "%s: a grid of %" PRId64 " blocks, CUDA allows %d",
                          kernel->symbol, grid.blocks, INT32_MAX);
    }
    INGOT_TRY(opt_in(ctx, kernel, smem, flags), st, done);
    config.gridDim = (dim3){(unsigned)grid.blocks, 1, 1};
    config.blockDim = (dim3){threads, 1, 1};
    if (ctx->pdl && flags && (*flags & INGOT_ROW_WAITS) != 0) {
        attribute.val.programmaticStreamSerializationAllowed = 1;
        config.attrs = &attribute;
        config.numAttrs = 1;
    }
    const cudaError_t error = cudaLaunchKernelExC(&config, ingot_kernel_stub(kernel), argv);
    if (error != cudaSuccess) {
        snprintf(what, sizeof what, "launch of %s, grid %" PRId64 ", block %u, %u bytes of shared memory",
                 kernel->symbol, grid.blocks, threads, smem);
        st = ingot_check_cuda(ctx, error, what);
    }

done:
    return st;
}

void ingot_log_choice(const ingot_context *ctx, const char *what, const struct ingot_kernel *kernel, int64_t blocks) {
    if (ctx->log) ingot_log(ctx, "%s -> %s, %" PRId64 " blocks", what, kernel->symbol, blocks);
}
