/* SPDX-License-Identifier: MIT
 *
 * common.h - what the SIMT tests share: launching a sample kernel, device buffers, random numbers.
 */
#ifndef INGOT_TEST_SIMT_COMMON_H
#define INGOT_TEST_SIMT_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "test/simt/kernels.h"

typedef void (*kernel_fn)(void);

#define OK(call) assert_int_equal((call), cudaSuccess)
#define FAILS(call, error)                                                                         \
    do {                                                                                           \
        assert_int_equal((call), (error));                                                         \
        cudaGetLastError();                                                                        \
    } while (0)

static inline dim3 dim(unsigned x, unsigned y, unsigned z) {
    dim3 d;
    d.x = x, d.y = y, d.z = z;
    return d;
}
/* The one way the library launches: one args struct, cudaLaunchKernelExC. */
static inline cudaError_t launch3(kernel_fn fn, dim3 grid, dim3 block, size_t smem, cudaStream_t stream, struct test_args a) {
    cudaLaunchConfig_t c;
    memset(&c, 0, sizeof c);
    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = smem;
    c.stream = stream;
    void *args[] = {&a};
    return cudaLaunchKernelExC(&c, (const void *)fn, args);
}
static inline cudaError_t launch(kernel_fn fn, unsigned grid, unsigned block, size_t smem, cudaStream_t stream, struct test_args a) {
    return launch3(fn, dim(grid, 1, 1), dim(block, 1, 1), smem, stream, a);
}
/* A device copy of n bytes at h (0: bytes of 0xcd). */
static inline void *on_device(const void *h, size_t n) {
    void *d = NULL;
    OK(cudaMalloc(&d, n));
    if (h) OK(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice));
    else OK(cudaMemset(d, 0xcd, n));
    return d;
}
static inline void to_host(void *h, const void *d, size_t n) { OK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost)); }

static uint32_t random_state = 2463534242u;
static inline uint32_t random_u32(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}
static inline float random_float(void) { return (float)(int32_t)random_u32() / 2147483648.0f; }

static inline float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

#endif
