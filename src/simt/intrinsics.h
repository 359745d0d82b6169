/* SPDX-License-Identifier: MIT
 *
 * intrinsics.h - CUDA's scalar intrinsics and atomics for the CPU. Results equal the GPU's except for
 * the approximate ones (__expf and friends), which are the accurate library functions here.
 */
#ifndef SIMT_INTRINSICS_H
#define SIMT_INTRINSICS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* <immintrin.h> costs 0.6 s of compile time per file: compiler builtins and vector types instead. */
#if defined(__AVX2__) && !defined(__clang__)
#define SIMT_AVX2 1
typedef char simt_i8x16 __attribute__((vector_size(16)));
typedef char simt_i8x32 __attribute__((vector_size(32)));
typedef short simt_i16x8 __attribute__((vector_size(16)));
typedef short simt_i16x16 __attribute__((vector_size(32)));
typedef int simt_i32x4 __attribute__((vector_size(16)));
typedef int simt_i32x8 __attribute__((vector_size(32)));
#else
#define SIMT_AVX2 0
#endif

/* ---- float. glibc's <math.h> declares __expf, __logf, ... but does not export them: a definition
 * clashes and a bare use fails at link time, so they must be macros. */
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
/* The _rn forms are never contracted into an fma: the barrier keeps g++ from doing so. */
static inline float simt_opaque(float x) {
    __asm__("" : "+x"(x));
    return x;
}
static inline float __fadd_rn(float a, float b) { return simt_opaque(a + b); }
static inline float __fsub_rn(float a, float b) { return simt_opaque(a - b); }
static inline float __fmul_rn(float a, float b) { return simt_opaque(a * b); }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }

/* ---- bits and conversions: float -> integer saturates, NaN gives 0 -------------------------------- */

static inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
static inline unsigned __float_as_uint(float f) { unsigned i; memcpy(&i, &f, 4); return i; }
static inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline float __uint_as_float(unsigned i) { float f; memcpy(&f, &i, 4); return f; }

static inline int simt_f2i(float f) {
    return f != f ? 0 : f >= 2147483648.0f ? 2147483647 : f < -2147483648.0f ? -2147483647 - 1 : (int)f;
}
static inline unsigned simt_f2u(float f) {
    return !(f > 0.0f) ? 0u : f >= 4294967296.0f ? 0xffffffffu : (unsigned)f;
}
static inline int __float2int_rn(float f) { return simt_f2i(rintf(f)); }
static inline int __float2int_rz(float f) { return simt_f2i(f); }
static inline int __float2int_rd(float f) { return simt_f2i(floorf(f)); }
static inline int __float2int_ru(float f) { return simt_f2i(ceilf(f)); }
static inline unsigned __float2uint_rn(float f) { return simt_f2u(rintf(f)); }
static inline unsigned __float2uint_rz(float f) { return simt_f2u(f); }
static inline float __int2float_rn(int i) { return (float)i; }
static inline float __uint2float_rn(unsigned i) { return (float)i; }

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline unsigned __brev(unsigned v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}
static inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
    return (unsigned)((((uint64_t)hi << 32) | lo) >> (s & 31u));
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
    return (unsigned)(((((uint64_t)hi << 32) | lo) << (s & 31u)) >> 32);
}

/* ---- bytes ------------------------------------------------------------------------------------------ */

/* Byte permute; bit 3 of a selector nibble replicates the sign bit of the chosen byte. */
static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel) {
    const uint64_t v = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t k = sel >> (4 * i) & 15u;
        uint32_t c = (uint32_t)(v >> (8 * (k & 7u))) & 255u;
        if (k & 8u) c = c & 128u ? 255u : 0u;
        r |= c << (8 * i);
    }
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned sel) { return prmt(a, b, sel & 0x7777u); }

static inline int dp4a_ss(int a, int b, int c) {
#if SIMT_AVX2
    const simt_i16x8 x = __builtin_ia32_pmovsxbw128((simt_i8x16)(simt_i32x4){a, 0, 0, 0});
    const simt_i16x8 y = __builtin_ia32_pmovsxbw128((simt_i8x16)(simt_i32x4){b, 0, 0, 0});
    const simt_i32x4 p = __builtin_ia32_pmaddwd128(x, y);
    return (int)((unsigned)c + (unsigned)p[0] + (unsigned)p[1]);
#else
    for (int i = 0; i < 4; i++)
        c = (int)((unsigned)c + (unsigned)((int)(int8_t)((unsigned)a >> (8 * i)) * (int)(int8_t)((unsigned)b >> (8 * i))));
    return c;
#endif
}
static inline int dp4a_us(uint32_t a, int b, int c) {
#if SIMT_AVX2
    const simt_i16x8 x = __builtin_ia32_pmovzxbw128((simt_i8x16)(simt_i32x4){(int)a, 0, 0, 0});
    const simt_i16x8 y = __builtin_ia32_pmovsxbw128((simt_i8x16)(simt_i32x4){b, 0, 0, 0});
    const simt_i32x4 p = __builtin_ia32_pmaddwd128(x, y);
    return (int)((unsigned)c + (unsigned)p[0] + (unsigned)p[1]);
#else
    for (int i = 0; i < 4; i++)
        c = (int)((unsigned)c + (unsigned)((int)(a >> (8 * i) & 255u) * (int)(int8_t)((unsigned)b >> (8 * i))));
    return c;
#endif
}
static inline int dp2a_us(uint32_t a, int b, int c) {
    return (int)((a & 0xffffu) * (uint32_t)(int8_t)b + (a >> 16) * (uint32_t)(int8_t)(b >> 8) + (uint32_t)c);
}
static inline int __dp4a(int a, int b, int c) { return dp4a_ss(a, b, c); }
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 255u) * (b >> (8 * i) & 255u);
    return c;
}

/* Per-byte SIMD-in-a-word operations, as CUDA names them. */
#define SIMT_BYTEWISE(name, expr)                                                                  \
    static inline unsigned name(unsigned a, unsigned b) {                                          \
        unsigned r = 0;                                                                            \
        for (int i = 0; i < 4; i++) {                                                              \
            const int x = (int8_t)(a >> (8 * i)), y = (int8_t)(b >> (8 * i));                      \
            const unsigned ux = (uint8_t)x, uy = (uint8_t)y;                                       \
            (void)x, (void)y, (void)ux, (void)uy;                                                  \
            r |= ((unsigned)(expr) & 255u) << (8 * i);                                             \
        }                                                                                          \
        return r;                                                                                  \
    }
SIMT_BYTEWISE(__vadd4, ux + uy)
SIMT_BYTEWISE(__vsub4, ux - uy)
SIMT_BYTEWISE(__vsubss4, x - y > 127 ? 127 : x - y < -128 ? -128 : x - y)
SIMT_BYTEWISE(__vcmpeq4, ux == uy ? 255u : 0u)
SIMT_BYTEWISE(__vcmpne4, ux != uy ? 255u : 0u)
SIMT_BYTEWISE(__vcmpgtu4, ux > uy ? 255u : 0u)
SIMT_BYTEWISE(__vmaxs4, x > y ? x : y)
SIMT_BYTEWISE(__vmins4, x < y ? x : y)

/* ---- memory hints are plain accesses ---------------------------------------------------------------- */

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T, class V> static inline void __stcs(T *p, V v) { *p = v; }
template <class T, class V> static inline void __stcg(T *p, V v) { *p = v; }

#define SIMT_MIN_MAX(T)                                                                            \
    static inline T max(T a, T b) { return a > b ? a : b; }                                        \
    static inline T min(T a, T b) { return a < b ? a : b; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }

/* ---- atomics: real ones, as blocks may run on several OS threads -------------------------------------- */

template <class T> static inline T simt_atomic_minmax(T *p, T v, bool want_max) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    for (;;) {
        const T n = (want_max ? old > v : old < v) ? old : v;
        if (__atomic_compare_exchange_n(p, &old, n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}
#define SIMT_ATOMIC_INT(T)                                                                         \
    static inline T atomicAdd(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }    \
    static inline T atomicSub(T *p, T v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }    \
    static inline T atomicAnd(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }    \
    static inline T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }      \
    static inline T atomicXor(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }    \
    static inline T atomicExch(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }  \
    static inline T atomicMax(T *p, T v) { return simt_atomic_minmax(p, v, true); }                \
    static inline T atomicMin(T *p, T v) { return simt_atomic_minmax(p, v, false); }               \
    static inline T atomicCAS(T *p, T c, T v) {                                                    \
        __atomic_compare_exchange_n(p, &c, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);              \
        return c;                                                                                  \
    }
SIMT_ATOMIC_INT(int)
SIMT_ATOMIC_INT(unsigned)
SIMT_ATOMIC_INT(unsigned long long)
static inline float atomicAdd(float *p, float v) {
    uint32_t *u = (uint32_t *)p, old = __atomic_load_n(u, __ATOMIC_RELAXED);
    for (;;) {
        const uint32_t n = __float_as_uint(__uint_as_float(old) + v);
        if (__atomic_compare_exchange_n(u, &old, n, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return __uint_as_float(old);
    }
}
/* old >= limit ? 0 : old + 1 */
static inline unsigned atomicInc(unsigned *p, unsigned limit) {
    unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, old >= limit ? 0 : old + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

#endif
