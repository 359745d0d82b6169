/* SPDX-License-Identifier: MIT
 *
 * cuda_fp16.h - half and half2 for the SIMT build: the subset of the toolkit's header kernels use,
 * same names, same rounding (to nearest even). C++ only.
 */
#ifndef SIMT_CUDA_FP16_H
#define SIMT_CUDA_FP16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "vector_types.h"

/* g++ 12 has _Float16 on x86; with -mf16c a conversion is one instruction. <immintrin.h> would do the
 * same and cost 0.6 s of compile time in every kernel file. */
#if defined(__F16C__) && defined(__FLT16_MAX__)
#define SIMT_FLOAT16 _Float16
#elif defined(__ARM_FP16_FORMAT_IEEE)
#define SIMT_FLOAT16 __fp16
#endif

static inline float simt_half_to_float(uint16_t h) {
#if defined(SIMT_FLOAT16)
    SIMT_FLOAT16 v;
    memcpy(&v, &h, 2);
    return (float)v;
#else
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    uint32_t u;
    float f;
    if (e == 31) {
        u = sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0u);
    } else if (e) {
        u = sign | (e + 112u) << 23 | m << 13;
    } else {
        f = (float)m * 5.9604644775390625e-8f; /* 2^-24 */
        memcpy(&u, &f, 4);
        u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
#endif
}

static inline uint16_t simt_float_to_half(float f) {
#if defined(SIMT_FLOAT16)
    const SIMT_FLOAT16 v = (SIMT_FLOAT16)f;
    uint16_t h;
    memcpy(&h, &v, 2);
    return h;
#else
    uint32_t u;
    memcpy(&u, &f, 4);
    const uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more */
    if (a < 0x38800000u) { /* subnormal half: adding 0.5 aligns the last bit and rounds */
        float t;
        uint32_t r;
        memcpy(&t, &a, 4);
        t += 0.5f;
        memcpy(&r, &t, 4);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
#endif
}

struct __half {
    uint16_t __x;
    __half() = default;
    __half(float f) : __x(simt_float_to_half(f)) {}
    __half(double f) : __x(simt_float_to_half((float)f)) {}
    __half(int f) : __x(simt_float_to_half((float)f)) {}
    operator float() const { return simt_half_to_float(__x); }
};
typedef __half half;
struct SIMT_ALIGN(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

static inline __half __ushort_as_half(uint16_t u) { __half h; h.__x = u; return h; }
static inline uint16_t __half_as_ushort(__half h) { return h.__x; }
static inline float __half2float(__half h) { return simt_half_to_float(h.__x); }
static inline __half __float2half_rn(float f) { return __ushort_as_half(simt_float_to_half(f)); }
static inline __half __float2half(float f) { return __float2half_rn(f); }

static inline __half2 __halves2half2(__half a, __half b) { return __half2{a, b}; }
static inline __half2 make_half2(__half a, __half b) { return __half2{a, b}; }
static inline __half2 __half2half2(__half a) { return __half2{a, a}; }
static inline __half2 __float2half2_rn(float a) { return __half2half2(__float2half_rn(a)); }
static inline __half2 __floats2half2_rn(float a, float b) { return __half2{__float2half_rn(a), __float2half_rn(b)}; }
static inline __half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
static inline __half __low2half(__half2 a) { return a.x; }
static inline __half __high2half(__half2 a) { return a.y; }
static inline float __low2float(__half2 a) { return __half2float(a.x); }
static inline float __high2float(__half2 a) { return __half2float(a.y); }
static inline float2 __half22float2(__half2 a) { return float2{__low2float(a), __high2float(a)}; }

/* + - * / : one rounding of the float result is the correctly rounded half. */
#define SIMT_HALF_OP(name, op)                                                                     \
    static inline __half name(__half a, __half b) {                                                \
        return __float2half_rn(__half2float(a) op __half2float(b));                                \
    }                                                                                              \
    static inline __half2 name##2(__half2 a, __half2 b) {                                          \
        return __half2{name(a.x, b.x), name(a.y, b.y)};                                            \
    }
SIMT_HALF_OP(__hadd, +)
SIMT_HALF_OP(__hsub, -)
SIMT_HALF_OP(__hmul, *)
static inline __half __hdiv(__half a, __half b) { return __float2half_rn(__half2float(a) / __half2float(b)); }
static inline __half __hneg(__half a) { return __ushort_as_half((uint16_t)(a.__x ^ 0x8000u)); }
static inline __half __habs(__half a) { return __ushort_as_half((uint16_t)(a.__x & 0x7fffu)); }

/* The exact product of two halves has 22 bits, so the sum is formed in double and rounded to odd
 * before the final rounding: a plain double sum could round twice. */
static inline __half __hfma(__half a, __half b, __half c) {
    const double p = (double)__half2float(a) * (double)__half2float(b), q = (double)__half2float(c);
    double s = p + q;
    const double t = s - p, e = (p - (s - t)) + (q - t); /* what the sum lost */
    uint64_t u;
    memcpy(&u, &s, 8);
    if (e != 0.0 && !(u & 1)) {
        u += (e > 0) == (s > 0) ? 1 : (uint64_t)-1;
        memcpy(&s, &u, 8);
    }
    const float f = (float)s; /* may round; repair to odd likewise */
    uint32_t v;
    memcpy(&v, &f, 4);
    if ((double)f != s && !(v & 1) && s == s) v += ((double)f < s) == (f > 0) ? 1u : (uint32_t)-1;
    float r;
    memcpy(&r, &v, 4);
    return __float2half_rn(r);
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
static inline __half __hmax(__half a, __half b) { return __float2half_rn(fmaxf(__half2float(a), __half2float(b))); }
static inline __half __hmin(__half a, __half b) { return __float2half_rn(fminf(__half2float(a), __half2float(b))); }
static inline __half2 __hmax2(__half2 a, __half2 b) { return __half2{__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
static inline __half2 __hmin2(__half2 a, __half2 b) { return __half2{__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

static inline __half operator+(__half a, __half b) { return __hadd(a, b); }
static inline __half operator-(__half a, __half b) { return __hsub(a, b); }
static inline __half operator*(__half a, __half b) { return __hmul(a, b); }
static inline __half operator/(__half a, __half b) { return __hdiv(a, b); }
static inline __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
static inline __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
static inline __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }

#endif
