// SPDX-License-Identifier: MIT
/* read.cu - a plain streaming read, the yardstick of every memory-bound figure. */
#include <cuda_runtime.h>
#include <stdint.h>

extern "C" {
#include "bench/read.h"
}

__device__ static uint4 load(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

/* Each block reads tiles of blockDim * 8 loads; the sum is written only if it hits a value random data does not. */
static __global__ void read_kernel(const uint4 *src, size_t n, unsigned *out)
{
    unsigned sum = 0;
    size_t   tile = (size_t)blockDim.x * 8;
    for (size_t base = blockIdx.x * tile; base < n; base += gridDim.x * tile) {
        uint4 v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            size_t at = base + threadIdx.x + (size_t)i * blockDim.x;
            v[i] = at < n ? load(src + at) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    if (sum == 0x12345678u) *out = sum;
}

extern "C" cudaError_t bench_read(int variant, const void *src, size_t bytes, unsigned *out, int sm_count,
                                  cudaStream_t stream)
{
    static const struct { int threads, per_sm; } shape[BENCH_READ_VARIANTS] = {{256, 4}, {256, 8}, {512, 2}, {512, 4}};
    int threads = shape[variant].threads, blocks = sm_count * shape[variant].per_sm;
    read_kernel<<<blocks, threads, 0, stream>>>((const uint4 *)src, bytes / 16, out);
    return cudaGetLastError();
}
