// SPDX-License-Identifier: MIT
/* read.h - the read kernel: what the memory gives, measured in the same run as the kernels. */
#ifndef BENCH_READ_H
#define BENCH_READ_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#define BENCH_READ_VARIANTS 4

/* Launches one pass that reads `bytes` (a multiple of 16) from `src` with 16-byte loads; `out` takes 4 bytes that keep
 * the compiler from dropping the loads.  Variants differ in blocks and loads in flight; callers take the fastest. */
cudaError_t bench_read(int variant, const void *src, size_t bytes, unsigned *out, int sm_count, cudaStream_t stream);

#endif
