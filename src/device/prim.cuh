/* SPDX-License-Identifier: MIT
 *
 * prim.cuh - what every kernel shares on the GPU: reductions, byte dot products, streaming loads,
 * tensor-core and async-copy wrappers, programmatic dependent launch. Inline PTX lives here and in
 * no kernel file. src/simt/prim.h has the same functions for the CPU, bit for bit the same results
 * except where a comment says otherwise. Included by device.cuh only.
 *
 * Fragment layouts are those of the PTX manual for the named shape. Where sm_75 lacks the shape it
 * is made of the smaller Turing ones, whose fragments are sub-ranges of the same registers.
 */
#ifndef INGOT_PRIM_CUH
#define INGOT_PRIM_CUH

#if defined(__CUDA_ARCH__)
#define INGOT_ARCH __CUDA_ARCH__
#else
#define INGOT_ARCH 0 /* nvcc's host pass parses the bodies and never runs them */
#endif

/* ---- programmatic dependent launch ----------------------------------------------------------- */

/* Waits until the launches this one depends on have finished and their writes are visible. Must come
 * before the first access to anything they write or read. Empty before sm_90. */
INGOT_DEV void ingot_pdl_wait(void) {
#if INGOT_ARCH >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Lets the next launch start; its ingot_pdl_wait still waits for the end of this one. */
INGOT_DEV void ingot_pdl_launch(void) {
#if INGOT_ARCH >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* The number of the calling thread's warp in a one-dimensional block. The compiler knows it to be the same for the whole
 * warp, so that addresses made of it stay in uniform registers, as bulk copies want them. By the whole warp. */
INGOT_DEV int warp_index(void) { return __shfl_sync(INGOT_FULL_MASK, (int)threadIdx.x / 32, 0); }

/* ---- reductions over a warp. Every lane gets the result; the order of additions is fixed (xor
 * butterfly, distance 16 first), so results are the same on every lane, run and machine. */

/* Over aligned groups of W lanes (W a power of two, 2..32). */
template <int W> INGOT_DEV float group_sum(float v) {
#pragma unroll
    for (int o = W / 2; o > 0; o >>= 1) v += __shfl_xor_sync(INGOT_FULL_MASK, v, o);
    return v;
}
template <int W> INGOT_DEV float group_max(float v) {
#pragma unroll
    for (int o = W / 2; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(INGOT_FULL_MASK, v, o));
    return v;
}
INGOT_DEV float warp_sum(float v) { return group_sum<32>(v); }
INGOT_DEV float warp_max(float v) { return group_max<32>(v); }

/* N independent warp sums. One exchange on the CPU whatever N is: prefer it to N calls of warp_sum. */
template <int N> INGOT_DEV void warp_sum_n(float (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = warp_sum(v[i]);
}

/* N sums over aligned groups of `width` lanes, handed out: lane l of a group gets the sum of v[l % width / (width / N)].
 * N and width are powers of two, N <= width <= 32; the order of additions is that of group_sum. v is spent. One
 * exchange on the CPU; on the GPU fewer shuffles than N sums that reach every lane. */
template <int N> INGOT_DEV float group_sum_each(float (&v)[N], int width) {
    int o = width / 2;
#pragma unroll
    for (int s = 1; s < 6; s++) { /* plain counts: loops that halve are not unrolled */
        if (N >> s == 0) continue;
        const bool upper = threadIdx.x & o;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            if (i >= N >> s) continue;
            const float keep = upper ? v[i + (N >> s)] : v[i], send = upper ? v[i] : v[i + (N >> s)];
            v[i] = keep + __shfl_xor_sync(INGOT_FULL_MASK, send, o);
        }
        o >>= 1;
    }
#pragma unroll
    for (int s = 0; s < 5; s++, o >>= 1)
        if (o > 0) v[0] += __shfl_xor_sync(INGOT_FULL_MASK, v[0], o);
    return v[0];
}

INGOT_DEV int warp_sum_i32(int v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(INGOT_FULL_MASK, v, o);
    return v;
}

/* ---- named barriers: `id` 1..15, `count` threads, a multiple of 32 ---------------------------- */

INGOT_DEV void bar_sync(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
INGOT_DEV void bar_arrive(int id, int count) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory"); }

/* ---- bytes ------------------------------------------------------------------------------------ */

/* c + sum of the four products of signed bytes of a and of b. */
INGOT_DEV int dp4a_ss(int a, int b, int c) { return __dp4a(a, b, c); }

/* The same with the bytes of a unsigned. */
INGOT_DEV int dp4a_us(uint32_t a, int b, int c) {
    int d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* c + a's low half times b's lowest byte + a's high half times the next byte: halves unsigned, bytes signed. */
INGOT_DEV int dp2a_us(uint32_t a, int b, int c) {
    int d;
    asm("dp2a.lo.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* Sixteen products at once: one SIMD dot product on the CPU. */
INGOT_DEV int dp4a_ss_x4(const int (&a)[4], const int (&b)[4], int c) {
    return dp4a_ss(a[3], b[3], dp4a_ss(a[2], b[2], dp4a_ss(a[1], b[1], dp4a_ss(a[0], b[0], c))));
}
INGOT_DEV int dp4a_us_x4(const uint32_t (&a)[4], const int (&b)[4], int c) {
    return dp4a_us(a[3], b[3], dp4a_us(a[2], b[2], dp4a_us(a[1], b[1], dp4a_us(a[0], b[0], c))));
}
/* Byte i of the result is byte (sel >> 4i & 7) of b:a; with bit 3 of that nibble set, its sign
 * bit eight times. (__byte_perm defines the low three bits only.) */
INGOT_DEV uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel) {
    uint32_t d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(sel));
    return d;
}

/* x, of which the compiler does not know that it is a constant, so that it keeps it in a register. It would copy the words of
 * a table anew for every prmt. (No lane has all lower ones below it.) */
INGOT_DEV uint32_t in_register(uint32_t x) {
    uint32_t d;
    asm("{.reg .u32 zero; mov.u32 zero, %%lanemask_lt; shr.u32 zero, zero, 31; xor.b32 %0, %1, zero;}" : "=r"(d) : "r"(x));
    return d;
}

/* From here on the compiler does not know where x came from: it would step each address that x is part of by itself. */
INGOT_DEV void unknown(int &x) { asm("" : "+r"(x)); }

/* The bits of a where `mask` has ones, those of b where it has zeros. One instruction, which the compiler does not see
 * through: it would take shared steps apart again. */
INGOT_DEV uint32_t bit_select(uint32_t mask, uint32_t a, uint32_t b) {
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(d) : "r"(mask), "r"(a), "r"(b));
    return d;
}

/* ---- fast math. The CPU computes these exactly rounded or nearly so: compare with a tolerance. */

INGOT_DEV float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INGOT_DEV float rcp_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- streaming loads (ld.global.nc): global memory that nothing writes while the kernel runs ---- */

INGOT_DEV uint4 ld_nc_16(const void *p) {
    uint4 v;
    asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
INGOT_DEV uint2 ld_nc_8(const void *p) {
    uint2 v;
    asm("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
INGOT_DEV uint32_t ld_nc_4(const void *p) {
    uint32_t v;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
INGOT_DEV uint16_t ld_nc_2(const void *p) {
    uint16_t v;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
/* Sixteen bytes that are read once: kept out of L1. */
INGOT_DEV uint4 ld_stream_16(const void *p) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

/* ---- shared memory ------------------------------------------------------------------------------ */

/* The 32-bit shared address of a pointer into shared memory. */
INGOT_DEV uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* Loads four 8x8 matrices of 16-bit elements. Lane l gives the address of row l & 7 of matrix l >> 3
 * (16-byte aligned, shared); r[j] holds two elements of matrix j. */
INGOT_DEV void ldmatrix_x4(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(row)) : "memory");
}
INGOT_DEV void ldmatrix_x4_trans(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(row)) : "memory");
}
/* Two matrices: the addresses of lanes 0..15 count, the other lanes give any valid row address. */
INGOT_DEV void ldmatrix_x2(uint32_t (&r)[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(row)) : "memory");
}
INGOT_DEV void ldmatrix_x2_trans(uint32_t (&r)[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(row)) : "memory");
}

/* ---- asynchronous copies, global -> shared. Visible to the issuing thread after cp_async_wait, to
 * others after a barrier that follows it. Plain copies before sm_80. */

/* Sixteen bytes, both ends 16-byte aligned: `src_bytes` (0..16) are read, the rest becomes zero. */
INGOT_DEV void cp_async_16(void *dst, const void *src, int src_bytes = 16) {
#if INGOT_ARCH >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst)), "l"(src), "r"(src_bytes) : "memory");
#else
    if (src_bytes == 16) {
        *(uint4 *)dst = *(const uint4 *)src;
    } else {
        for (int i = 0; i < 16; i++) ((uint8_t *)dst)[i] = i < src_bytes ? ((const uint8_t *)src)[i] : 0;
    }
#endif
}
/* Four and eight bytes, whole. */
INGOT_DEV void cp_async_4(void *dst, const void *src) {
#if INGOT_ARCH >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(smem_u32(dst)), "l"(src) : "memory");
#else
    *(uint32_t *)dst = *(const uint32_t *)src;
#endif
}
INGOT_DEV void cp_async_8(void *dst, const void *src) {
#if INGOT_ARCH >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(smem_u32(dst)), "l"(src) : "memory");
#else
    *(uint2 *)dst = *(const uint2 *)src;
#endif
}
/* Closes the group of copies issued since the last commit (it may be empty). */
INGOT_DEV void cp_async_commit(void) {
#if INGOT_ARCH >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until at most the N youngest groups of this thread are unfinished. */
template <int N> INGOT_DEV void cp_async_wait(void) {
#if INGOT_ARCH >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* ---- bulk copies, global -> shared, that report to an mbarrier: sm_90 and later. Before sm_90 the bodies are empty, so
 * that a file compiles for every class; a kernel that calls them has a path of its own there.
 *
 * A phase of an mbarrier is over when its `count` arrivals have come and as many bytes have been copied as were expected.
 * Phases are waited for by parity: 0 for the first, 1 for the second, 0 for the third; no thread may fall behind by a
 * whole phase. None of these calls is warp-wide: any lanes may make them. What the arriving threads wrote before, and what
 * the copies wrote, is visible to every thread that has waited for the phase. */

/* `bar` is 8-byte aligned shared memory, made an mbarrier once, by one thread; the others use it after a barrier. */
INGOT_DEV void mbar_init(uint64_t *bar, uint32_t count) {
#if INGOT_ARCH >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(bar)), "r"(count) : "memory");
#endif
}
/* Between a thread's mbar_inits and the first bulk copy that reports to one of them. */
INGOT_DEV void mbar_fence_init(void) {
#if INGOT_ARCH >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
INGOT_DEV void mbar_arrive(uint64_t *bar) {
#if INGOT_ARCH >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(bar)) : "memory");
#endif
}
/* Arrives, and has the phase wait for `bytes` more. The copies may be issued before it or after it. */
INGOT_DEV void mbar_arrive_expect(uint64_t *bar, uint32_t bytes) {
#if INGOT_ARCH >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(bar)), "r"(bytes) : "memory");
#endif
}
INGOT_DEV void mbar_wait(uint64_t *bar, uint32_t parity) {
#if INGOT_ARCH >= 900
    asm volatile("{\n.reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n}" ::"r"(smem_u32(bar)), "r"(parity) : "memory");
#endif
}
/* `bytes`, dst (shared) and src (global) are multiples of 16. One thread copies all of it. A slot that threads have read
 * may be filled again once they have met the issuing thread at a barrier; one they have written needs more than that. */
INGOT_DEV void bulk_g2s(void *dst, const void *src, uint32_t bytes, uint64_t *bar) {
#if INGOT_ARCH >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(smem_u32(dst)), "l"(src), "r"(bytes), "r"(smem_u32(bar)) : "memory");
#endif
}

/* ---- tensor cores: d += a * b, A row-major, B column-major ----------------------------------------- */

/* d(16x8 s32) += a(16x32 s8) * b(32x8 s8) */
INGOT_DEV void mma_m16n8k32_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if INGOT_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[2]), "r"(b[1]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a[3]), "r"(b[1]));
#endif
}
/* d(16x8 s32) += a(16x16 s8) * b(16x8 s8): for formats with a scale every 16 weights */
INGOT_DEV void mma_m16n8k16_s8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1]) {
#if INGOT_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#else
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a[1]), "r"(b[0]));
#endif
}
/* d(16x8 f32) += a(16x16 f16) * b(16x8 f16). The CPU adds the products in order of k, in f32. */
INGOT_DEV void mma_m16n8k16_f16_f32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if INGOT_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2]), "r"(a[3]), "r"(b[1]));
#endif
}
/* The same with bfloat16 operands; sm_80 and later. */
INGOT_DEV void mma_m16n8k16_bf16_f32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if INGOT_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap(); /* no bf16 tensor core before sm_80 */
#endif
}

#endif
