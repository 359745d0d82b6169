/* SPDX-License-Identifier: MIT
 *
 * prim.h - the functions of src/device/prim.cuh for the CPU; their contracts stand there. A warp-wide
 * one is a collective: the last lane to arrive computes for all (collective.cpp), so one coarse call
 * costs the same 31 switches as a fine one.
 */
#ifndef SIMT_PRIM_H
#define SIMT_PRIM_H

#include "src/simt/intrinsics.h"
#include "src/simt/machine.h"

extern "C" {
void simt_do_group_sum(simt_warp *w, uint32_t mask);
void simt_do_group_max(simt_warp *w, uint32_t mask);
void simt_do_warp_sum_n(simt_warp *w, uint32_t mask);
void simt_do_group_sum_each(simt_warp *w, uint32_t mask);
void simt_do_ldmatrix_x4(simt_warp *w, uint32_t mask);
void simt_do_ldmatrix_x4_trans(simt_warp *w, uint32_t mask);
void simt_do_ldmatrix_x2(simt_warp *w, uint32_t mask);
void simt_do_ldmatrix_x2_trans(simt_warp *w, uint32_t mask);
void simt_do_mma_k32_s8(simt_warp *w, uint32_t mask);
void simt_do_mma_k16_s8(simt_warp *w, uint32_t mask);
void simt_do_mma_f16(simt_warp *w, uint32_t mask);
void simt_do_mma_bf16(simt_warp *w, uint32_t mask);
}

/* Operands and result of one lane in a group_sum_each. */
struct simt_sums {
    const float *v;
    int n, width;
    float sum;
};

/* Operands of one lane in an mma or ldmatrix. */
struct simt_fragments {
    void *d;
    const uint32_t *a, *b;
};

static inline void ingot_pdl_wait(void) {}
static inline void ingot_pdl_launch(void) {}

static inline int warp_index(void) { return (int)threadIdx.x / 32; }

/* ---- reductions --------------------------------------------------------------------------------- */

SIMT_INLINE float simt_group_reduce(float v, int width, simt_collective_fn fn, const char *what, const char *file, int line) {
    return __uint_as_float((uint32_t)simt_exchange(~0u, __float_as_uint(v), width, fn, what, file, line));
}
template <int W> SIMT_INLINE float group_sum(float v, SIMT_WHERE) {
    static_assert(W >= 2 && W <= 32 && (W & (W - 1)) == 0, "group width");
    return simt_group_reduce(v, W, simt_do_group_sum, "group_sum", file, line);
}
template <int W> SIMT_INLINE float group_max(float v, SIMT_WHERE) {
    static_assert(W >= 2 && W <= 32 && (W & (W - 1)) == 0, "group width");
    return simt_group_reduce(v, W, simt_do_group_max, "group_max", file, line);
}
SIMT_INLINE float warp_sum(float v, SIMT_WHERE) { return simt_group_reduce(v, 32, simt_do_group_sum, "warp_sum", file, line); }
SIMT_INLINE float warp_max(float v, SIMT_WHERE) { return simt_group_reduce(v, 32, simt_do_group_max, "warp_max", file, line); }
template <int N> SIMT_INLINE void warp_sum_n(float (&v)[N], SIMT_WHERE) {
    simt_current->warp->sel[simt_current->lane] = N;
    simt_collective_arg(v, simt_do_warp_sum_n, "warp_sum_n", file, line);
}
template <int N> SIMT_INLINE float group_sum_each(float (&v)[N], int width, SIMT_WHERE) {
    simt_sums g = {v, N, width, 0.0f};
    simt_collective_arg(&g, simt_do_group_sum_each, "group_sum_each", file, line);
    return g.sum;
}
SIMT_INLINE int warp_sum_i32(int v, SIMT_WHERE) {
    return (int)simt_exchange(~0u, (uint32_t)v, SIMT_ADD, simt_do_reduce, "warp_sum_i32", file, line);
}

/* ---- bytes ---------------------------------------------------------------------------------------- */

#if SIMT_AVX2
static inline int simt_sum8(simt_i32x8 p) {
    simt_i32x4 s = __builtin_shufflevector(p, p, 0, 1, 2, 3) + __builtin_shufflevector(p, p, 4, 5, 6, 7);
    s += __builtin_shuffle(s, (simt_i32x4){2, 3, 0, 1});
    return s[0] + s[1];
}
#endif
static inline int dp4a_ss_x4(const int (&a)[4], const int (&b)[4], int c) {
#if SIMT_AVX2
    simt_i8x16 x, y;
    memcpy(&x, a, 16);
    memcpy(&y, b, 16);
    return c + simt_sum8(__builtin_ia32_pmaddwd256(__builtin_ia32_pmovsxbw256(x), __builtin_ia32_pmovsxbw256(y)));
#else
    return dp4a_ss(a[3], b[3], dp4a_ss(a[2], b[2], dp4a_ss(a[1], b[1], dp4a_ss(a[0], b[0], c))));
#endif
}
static inline int dp4a_us_x4(const uint32_t (&a)[4], const int (&b)[4], int c) {
#if SIMT_AVX2
    simt_i8x16 x, y;
    memcpy(&x, a, 16);
    memcpy(&y, b, 16);
    return c + simt_sum8(__builtin_ia32_pmaddwd256(__builtin_ia32_pmovzxbw256(x), __builtin_ia32_pmovsxbw256(y)));
#else
    return dp4a_us(a[3], b[3], dp4a_us(a[2], b[2], dp4a_us(a[1], b[1], dp4a_us(a[0], b[0], c))));
#endif
}

static inline uint32_t in_register(uint32_t x) { return x; }
static inline void unknown(int &) {}
static inline uint32_t bit_select(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }

/* ---- fast math and streaming loads: the plain operations ------------------------------------------- */

static inline float exp2_approx(float x) { return exp2f(x); }
static inline float rcp_approx(float x) { return 1.0f / x; }
static inline uint4 ld_nc_16(const void *p) { return *(const uint4 *)p; }
static inline uint2 ld_nc_8(const void *p) { return *(const uint2 *)p; }
static inline uint32_t ld_nc_4(const void *p) { return *(const uint32_t *)p; }
static inline uint16_t ld_nc_2(const void *p) { return *(const uint16_t *)p; }
static inline uint4 ld_stream_16(const void *p) { return *(const uint4 *)p; }

/* ---- shared memory and asynchronous copies ------------------------------------------------------------ */

static inline uint32_t smem_u32(const void *p) { return simt_shared_offset(p); }

/* Every lane reads its own row here, so that sanitizer reports and race checks name the right thread. */
SIMT_INLINE void simt_ldmatrix(uint32_t *r, const void *row, simt_collective_fn fn, const char *what, const char *file, int line) {
    if ((uintptr_t)row & 15) simt_trap(cudaErrorMisalignedAddress, "ldmatrix: misaligned row address", file, line);
    const uint32_t *p = (const uint32_t *)row;
    const uint32_t t[4] = {p[0], p[1], p[2], p[3]};
    const simt_fragments g = {r, t, 0};
    simt_collective_arg(&g, fn, what, file, line);
}
SIMT_INLINE void ldmatrix_x4(uint32_t (&r)[4], const void *row, SIMT_WHERE) { simt_ldmatrix(r, row, simt_do_ldmatrix_x4, "ldmatrix_x4", file, line); }
SIMT_INLINE void ldmatrix_x4_trans(uint32_t (&r)[4], const void *row, SIMT_WHERE) { simt_ldmatrix(r, row, simt_do_ldmatrix_x4_trans, "ldmatrix_x4_trans", file, line); }
SIMT_INLINE void ldmatrix_x2(uint32_t (&r)[2], const void *row, SIMT_WHERE) { simt_ldmatrix(r, row, simt_do_ldmatrix_x2, "ldmatrix_x2", file, line); }
SIMT_INLINE void ldmatrix_x2_trans(uint32_t (&r)[2], const void *row, SIMT_WHERE) { simt_ldmatrix(r, row, simt_do_ldmatrix_x2_trans, "ldmatrix_x2_trans", file, line); }

SIMT_INLINE void cp_async_16(void *dst, const void *src, int src_bytes = 16, SIMT_WHERE) { simt_copy_async(dst, src, 16, (uint32_t)src_bytes, file, line); }
SIMT_INLINE void cp_async_8(void *dst, const void *src, SIMT_WHERE) { simt_copy_async(dst, src, 8, 8, file, line); }
SIMT_INLINE void cp_async_4(void *dst, const void *src, SIMT_WHERE) { simt_copy_async(dst, src, 4, 4, file, line); }
SIMT_INLINE void cp_async_commit(void) { simt_copy_commit(); }
template <int N> SIMT_INLINE void cp_async_wait(void) { simt_copy_wait(N); }

SIMT_INLINE void mbar_init(uint64_t *bar, uint32_t count, SIMT_WHERE) { simt_mbarrier_init(bar, count, file, line); }
SIMT_INLINE void mbar_fence_init(void) { simt_mbarrier_fence(); }
SIMT_INLINE void mbar_arrive(uint64_t *bar, SIMT_WHERE) { simt_mbarrier_arrive(bar, 0, "mbar_arrive", file, line); }
SIMT_INLINE void mbar_arrive_expect(uint64_t *bar, uint32_t bytes, SIMT_WHERE) { simt_mbarrier_arrive(bar, bytes, "mbar_arrive_expect", file, line); }
SIMT_INLINE void mbar_wait(uint64_t *bar, uint32_t parity, SIMT_WHERE) {
    while (simt_fiber *n = simt_mbarrier_wait(bar, parity, file, line)) simt_switch(n);
}
SIMT_INLINE void bulk_g2s(void *dst, const void *src, uint32_t bytes, uint64_t *bar, SIMT_WHERE) { simt_bulk_copy(dst, src, bytes, bar, file, line); }

/* ---- tensor cores ------------------------------------------------------------------------------------- */

SIMT_INLINE void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SIMT_WHERE) {
    const simt_fragments g = {d, a, b};
    simt_collective_arg(&g, simt_do_mma_k32_s8, "mma_m16n8k32_s8", file, line);
}
SIMT_INLINE void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1], SIMT_WHERE) {
    const simt_fragments g = {d, a, b};
    simt_collective_arg(&g, simt_do_mma_k16_s8, "mma_m16n8k16_s8", file, line);
}
SIMT_INLINE void mma_m16n8k16_f16_f32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SIMT_WHERE) {
    const simt_fragments g = {d, a, b};
    simt_collective_arg(&g, simt_do_mma_f16, "mma_m16n8k16_f16_f32", file, line);
}
SIMT_INLINE void mma_m16n8k16_bf16_f32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SIMT_WHERE) {
    const simt_fragments g = {d, a, b};
    simt_collective_arg(&g, simt_do_mma_bf16, "mma_m16n8k16_bf16_f32", file, line);
}

#endif
