/* SPDX-License-Identifier: MIT
 *
 * cuda_bf16.h - bfloat16 for the SIMT build: type and conversions, same names and rounding (to
 * nearest even, NaN stays NaN) as the toolkit's header. C++ only.
 */
#ifndef SIMT_CUDA_BF16_H
#define SIMT_CUDA_BF16_H

#include "cuda_fp16.h"

static inline float simt_bf16_to_float(uint16_t b) {
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t simt_float_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

struct __nv_bfloat16 {
    uint16_t __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(float f) : __x(simt_float_to_bf16(f)) {}
    operator float() const { return simt_bf16_to_float(__x); }
};
typedef __nv_bfloat16 nv_bfloat16;
struct SIMT_ALIGN(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __ushort_as_bfloat16(uint16_t u) { __nv_bfloat16 b; b.__x = u; return b; }
static inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 b) { return b.__x; }
static inline float __bfloat162float(__nv_bfloat16 b) { return simt_bf16_to_float(b.__x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
static inline __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162{a, b}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162{__nv_bfloat16(a), __nv_bfloat16(b)}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 a) { return float2{__bfloat162float(a.x), __bfloat162float(a.y)}; }

#endif
