/* SPDX-License-Identifier: MIT
 *
 * kernel.h - what a kernel file sees under g++: the macros of device.cuh for the CPU, CUDA's own
 * keywords made empty, and the machine, intrinsics and warp primitives. Included by device.cuh only.
 */
#ifndef SIMT_KERNEL_H
#define SIMT_KERNEL_H

#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
/* __noinline__ stays undefined: as a macro it would break __attribute__((__noinline__)) in headers. */

#define INGOT_DEV static inline __attribute__((always_inline))
#define INGOT_UNROLL _Pragma("GCC unroll 32") /* `#pragma unroll` is ignored by g++ */
#define INGOT_ROLLED

#define INGOT_TABLE static const

#include "src/simt/machine.h"

/* The kernel takes its arguments by reference: one copy per launch, not one per thread. C code takes
 * the symbol's address only and never calls it. The entry below puts it into the kernel table. */
#define INGOT_GLOBAL(symbol, threads, min_blocks, args_t)                                          \
    extern "C" void symbol(const args_t &__restrict a);                                            \
    static void simt_call_##symbol(const void *args) { symbol(*static_cast<const args_t *>(args)); } \
    static simt_kernel simt_kernel_##symbol = {#symbol,          reinterpret_cast<const void *>(symbol), \
                                               simt_call_##symbol, sizeof(args_t), threads, 0, 0, 0};    \
    __attribute__((constructor)) static void simt_enter_##symbol(void) {                           \
        simt_register_kernel(&simt_kernel_##symbol);                                               \
    }                                                                                              \
    extern "C" void symbol([[maybe_unused]] const args_t &__restrict a)

/* Shared arrays come from the block's arena: limits are checked, ASan gets red zones around each, and
 * INGOT_SIMT_FILL poisons them. The key's address names the array within the kernel. */
#define INGOT_SHARED(T, name, dims)                                                                \
    static const char simt_key_##name = 0;                                                         \
    T(&name) dims = *(T(*) dims)simt_shared(&simt_key_##name, sizeof(T dims), alignof(T) < 16 ? 16 : alignof(T))
#define INGOT_DYN_SHARED(T, name) T *name = reinterpret_cast<T *>(simt_shared_dynamic())

#include "src/simt/intrinsics.h"
#include "src/simt/prim.h"

#endif
