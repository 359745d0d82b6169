/* SPDX-License-Identifier: MIT
 *
 * device.cuh - the one header a kernel file includes (after src/kernels/args.h).
 *
 * The same kernel source is built twice: by nvcc for a GPU, and by g++ for the SIMT machine of
 * src/simt/, which runs every CUDA thread as a fiber on the CPU (docs/simt.md). This file holds the
 * macros a kernel is written with and the helpers whose body is the same on both sides;
 * src/device/prim.cuh (GPU, inline PTX) and src/simt/prim.h (CPU) hold the ones that differ. The
 * contract of every helper is stated once, here or in prim.cuh.
 *
 * Rules for kernels: warp-wide helpers are called by all 32 lanes; blockDim is a multiple of 32;
 * no inline PTX, templates over types, function-local `__shared__` or static storage in a kernel
 * file; every helper of a kernel file is INGOT_DEV.
 */
#ifndef INGOT_DEVICE_CUH
#define INGOT_DEVICE_CUH

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define INGOT_FULL_MASK 0xffffffffu

#if defined(__CUDACC__) /* ------------------------------------------------------------- GPU */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define INGOT_SIMT 0

/* Defines the kernel `symbol`; its one parameter, the struct `args_t`, is called `a` and is const.
 * `threads` bounds the block size, `min_blocks` is the wanted number of resident blocks per SM. */
#define INGOT_GLOBAL(symbol, threads, min_blocks, args_t)                                          \
    extern "C" __global__ void __launch_bounds__(threads, min_blocks)                              \
        symbol(const __grid_constant__ args_t a)

#define INGOT_DEV [[maybe_unused]] static __device__ __forceinline__ /* a helper function of a kernel file */
#define INGOT_UNROLL _Pragma("unroll")              /* stands right before a for statement */
#define INGOT_ROLLED _Pragma("unroll 1")            /* likewise: a slow path that must not cost registers */

/* A read-only table at file scope, in global memory: INGOT_TABLE uint32_t grid[256] = {...}; */
#define INGOT_TABLE static __device__ const

/* A static shared array `T name[N][M]`, dims written as [N][M]. 16-byte aligned, garbage at first. */
#define INGOT_SHARED(T, name, dims) __shared__ __align__(16) T name dims

/* Names the block's dynamic shared memory as `T *name`; 1024-byte aligned; once per kernel. */
#define INGOT_DYN_SHARED(T, name)                                                                  \
    extern __shared__ __align__(1024) unsigned char ingot_dyn_smem[];                              \
    T *name = reinterpret_cast<T *>(ingot_dyn_smem)

#include "src/device/prim.cuh"

#else /* ------------------------------------------------------------------------------- CPU */
#define INGOT_SIMT 1
#include "src/simt/kernel.h"
#endif

/* ---- numbers: half and bfloat16 travel as their 16 bits ------------------------------------- */

INGOT_DEV float h2f(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
INGOT_DEV uint16_t f2h(float f) { return __half_as_ushort(__float2half_rn(f)); } /* nearest even */
INGOT_DEV float bf2f(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }

/* float -> bfloat16 bits, nearest even; a NaN stays a NaN. */
INGOT_DEV uint16_t f2bf(float f) {
    const uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Two halves in one word, `lo` in the low 16 bits: the operand form of the f16 mma. */
INGOT_DEV uint32_t pack_half2(float lo, float hi) { return (uint32_t)f2h(hi) << 16 | f2h(lo); }
INGOT_DEV uint32_t pack_bf162(float lo, float hi) { return (uint32_t)f2bf(hi) << 16 | f2bf(lo); }
INGOT_DEV float half2_lo(uint32_t v) { return h2f((uint16_t)(v & 0xffffu)); }
INGOT_DEV float half2_hi(uint32_t v) { return h2f((uint16_t)(v >> 16)); }

/* e^x to about 1 unit in the last place; NaN, infinities and the subnormal range as they should be. One definition of
 * exactly rounded steps for every chip and for the CPU, so that all of them give the same bits: x = n ln 2 + r with
 * |r| <= ln 2 / 2, the Taylor series of e^r to r^7 (its rest is below 2^-27), and 2^n in two factors, because n reaches
 * past the range of one. */
INGOT_DEV float exp_f32(float x) {
    const float at = x > 90.0f ? 90.0f : x < -110.0f ? -110.0f : x; /* a NaN stays one, to the end */
    const float n = rintf(__fmul_rn(at, 1.4426950408889634f));
    const float r = fmaf(n, 1.9046542e-9f, fmaf(n, -0.693147182464599609375f, at)); /* ln 2 in two parts */
    float y = 1.0f / 5040.0f;
    y = fmaf(y, r, 1.0f / 720.0f);
    y = fmaf(y, r, 1.0f / 120.0f);
    y = fmaf(y, r, 1.0f / 24.0f);
    y = fmaf(y, r, 1.0f / 6.0f);
    y = fmaf(y, r, 0.5f);
    y = fmaf(y, r, 1.0f);
    y = fmaf(y, r, 1.0f);
    const int whole = __float2int_rn(n), half = whole >> 1;
    return __fmul_rn(__fmul_rn(y, __int_as_float((half + 127) << 23)), __int_as_float((whole - half + 127) << 23));
}

/* ---- plain loads and stores of 16, 8, 4, 2 and 1 bytes. The address is aligned to that size. For
 * what an earlier launch wrote use these, never ld_nc_*: under programmatic dependent launch that
 * data is not constant for the life of the kernel. */

INGOT_DEV uint4 ld_16(const void *p) { return *(const uint4 *)p; }
INGOT_DEV uint2 ld_8(const void *p) { return *(const uint2 *)p; }
INGOT_DEV uint32_t ld_4(const void *p) { return *(const uint32_t *)p; }
INGOT_DEV uint16_t ld_2(const void *p) { return *(const uint16_t *)p; }
INGOT_DEV uint8_t ld_1(const void *p) { return *(const uint8_t *)p; }
INGOT_DEV void st_16(void *p, uint4 v) { *(uint4 *)p = v; }
INGOT_DEV void st_8(void *p, uint2 v) { *(uint2 *)p = v; }
INGOT_DEV void st_4(void *p, uint32_t v) { *(uint32_t *)p = v; }
INGOT_DEV void st_2(void *p, uint16_t v) { *(uint16_t *)p = v; }
INGOT_DEV void st_1(void *p, uint8_t v) { *(uint8_t *)p = v; }

/* Four bytes at a 2-byte aligned address, of either memory space. */
INGOT_DEV uint32_t ld_4_a2(const void *p) {
    const uint16_t *h = (const uint16_t *)p;
    return h[0] | (uint32_t)h[1] << 16;
}
INGOT_DEV void st_4_a2(void *p, uint32_t v) {
    st_2(p, (uint16_t)v);
    st_2((uint16_t *)p + 1, (uint16_t)(v >> 16));
}

#endif
