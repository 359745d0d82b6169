/* SPDX-License-Identifier: MIT
 *
 * good.cu - kernels that exercise every wrapper of device.cuh; test_semantics.c has their references.
 * The file also builds with nvcc for sm_80 and later, so the same tests can check a GPU.
 */
#include "test/simt/kernels.h"

#include "src/device/device.cuh"

INGOT_TABLE uint32_t table[4] = {2, 3, 5, 7};

INGOT_DEV int lane_id(void) { return (int)(threadIdx.x & 31u); }

/* Row r of the output holds the result of collective r for each lane. */
INGOT_GLOBAL(ingot_t_shuffle, 32, 1, struct test_args) {
    const int l = lane_id();
    const uint32_t v = ((const uint32_t *)a.in)[l];
    uint32_t *o = (uint32_t *)a.out + l;
    o[0] = __shfl_sync(INGOT_FULL_MASK, v, (l * 7 + 3) & 31);
    o[32] = __shfl_up_sync(INGOT_FULL_MASK, v, 3);
    o[64] = __shfl_down_sync(INGOT_FULL_MASK, v, 5);
    o[96] = __shfl_xor_sync(INGOT_FULL_MASK, v, 9);
    o[128] = __shfl_sync(INGOT_FULL_MASK, v, 5, 8);
    o[160] = __shfl_xor_sync(INGOT_FULL_MASK, v, 12, 8); /* leaves the group: own value */
    o[192] = (uint32_t)(__shfl_xor_sync(INGOT_FULL_MASK, (unsigned long long)v << 32 | 5u, 1) >> 32);
    o[224] = __float_as_uint(__shfl_down_sync(INGOT_FULL_MASK, __uint_as_float(v), 2, 16));
    o[256] = __ballot_sync(INGOT_FULL_MASK, v & 1u);
    o[288] = (uint32_t)(__any_sync(INGOT_FULL_MASK, l == 7) != 0) + 2u * (uint32_t)(__all_sync(INGOT_FULL_MASK, l < 31) != 0);
    o[320] = __match_any_sync(INGOT_FULL_MASK, (unsigned)l / 3u);
    o[352] = __reduce_add_sync(INGOT_FULL_MASK, v);
    o[384] = (uint32_t)__reduce_min_sync(INGOT_FULL_MASK, (int)v);
    o[416] = __reduce_max_sync(INGOT_FULL_MASK, v);
    o[448] = __reduce_xor_sync(INGOT_FULL_MASK, v);
    const half2 h = __shfl_xor_sync(INGOT_FULL_MASK, __floats2half2_rn((float)l, 1.0f), 1);
    o[480] = (uint32_t)__low2float(h);
}

INGOT_GLOBAL(ingot_t_reduce, 32, 1, struct test_args) {
    const int l = lane_id();
    const float v = ((const float *)a.in)[l];
    float *o = (float *)a.out + l;
    o[0] = group_sum<2>(v);
    o[32] = group_sum<4>(v);
    o[64] = group_sum<8>(v);
    o[96] = group_sum<16>(v);
    o[128] = group_sum<32>(v);
    o[160] = group_max<2>(v);
    o[192] = group_max<8>(v);
    o[224] = warp_sum(v);
    o[256] = warp_max(v);
    float n[4] = {v, v * 2.0f, v * v, -v};
    warp_sum_n(n);
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) o[288 + 32 * i] = n[i];
    o[416] = (float)warp_sum_i32(l - 7);
    float e[4] = {v, v * 2.0f, v * v, -v}, f[8] = {v, -v, v, v * v, v, v, v * 3.0f, v};
    o[448] = group_sum_each(e, 16);
    o[480] = group_sum_each(f, 32);
}

INGOT_GLOBAL(ingot_t_bytes, 128, 1, struct test_args) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = a.n;
    if (i >= n) return;
    const uint32_t *in = (const uint32_t *)a.in;
    const uint32_t x = in[i], y = in[n + i], z = in[2 * n + i];
    uint32_t *o = (uint32_t *)a.out + i;
    o[0 * n] = (uint32_t)dp4a_ss((int)x, (int)y, (int)z);
    o[1 * n] = (uint32_t)dp4a_us(x, (int)y, (int)z);
    const int xs[4] = {(int)x, (int)y, (int)z, (int)(x ^ y)}, ys[4] = {(int)y, (int)z, (int)x, (int)(z ^ y)};
    const uint32_t xu[4] = {x, y, z, x ^ y};
    o[2 * n] = (uint32_t)dp4a_ss_x4(xs, ys, 11);
    o[3 * n] = (uint32_t)dp4a_us_x4(xu, ys, 12);
    o[4 * n] = prmt(x, y, z);
    o[5 * n] = __byte_perm(x, y, z & 0x7777u);
    o[6 * n] = __vsubss4(x, y);
    o[7 * n] = __funnelshift_r(x, y, z);
    o[8 * n] = __funnelshift_l(x, y, z);
    o[9 * n] = __brev(x);
    o[10 * n] = (uint32_t)__clz((int)(x >> (z & 31u)));
    o[11 * n] = (uint32_t)__ffs((int)(x << (z & 31u)));
    o[12 * n] = (uint32_t)__popc(x);
    o[13 * n] = __umulhi(x, y);
    o[14 * n] = (uint32_t)__mulhi((int)x, (int)y);
    o[15 * n] = __vadd4(x, y);
    o[16 * n] = __vcmpgtu4(x, y);
    o[17 * n] = (uint32_t)__dp4a((int)x, (int)y, (int)z);
    o[18 * n] = (uint32_t)dp2a_us(x, (int)y, (int)z);
}

/* n half patterns: out[i] is the float, out[n + i] the half it becomes again. */
INGOT_GLOBAL(ingot_t_half, 128, 1, struct test_args) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= a.n) return;
    const float f = h2f((uint16_t)i);
    ((float *)a.out)[i] = f;
    ((uint32_t *)a.out)[a.n + i] = f2h(f);
    ((float *)a.out)[2 * a.n + i] = bf2f((uint16_t)i);
}
/* n floats: narrowed to half and to bfloat16, alone and packed. */
INGOT_GLOBAL(ingot_t_narrow, 128, 1, struct test_args) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= a.n) return;
    const float f = ((const float *)a.in)[i];
    uint32_t *o = (uint32_t *)a.out;
    o[i] = f2h(f);
    o[a.n + i] = f2bf(f);
    o[2 * a.n + i] = pack_half2(f, 1.0f);
    o[3 * a.n + i] = pack_bf162(1.0f, f);
}

/* The sum of the words at in, read in every width. */
INGOT_GLOBAL(ingot_t_loads, 32, 1, struct test_args) {
    const int l = lane_id();
    const uint8_t *p = (const uint8_t *)a.in + 16 * l;
    const uint4 q[3] = {ld_nc_16(p), ld_stream_16(p), ld_16(p)};
    uint32_t s = 0;
    INGOT_UNROLL
    for (int i = 0; i < 3; i++) s += (table[0] - 1u) * q[i].x + table[1] * q[i].y + table[2] * q[i].z + table[3] * q[i].w;
    const uint2 d = ld_nc_8(p + 8), e = ld_8(p + 8);
    s += d.x + d.y + e.x + 2u * e.y + ld_nc_4(p + 4) + ld_4(p + 4) + ld_nc_2(p + 2) + ld_2(p + 2) + ld_4_a2(p + 6);
    uint8_t *o = (uint8_t *)a.out + 32 * l;
    st_16(o, q[0]);
    st_8(o + 16, d);
    st_4(o + 24, s);
    st_2(o + 28, (uint16_t)s);
    st_2(o + 30, 7);
}

INGOT_GLOBAL(ingot_t_math, 128, 1, struct test_args) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), n = a.n;
    if (i >= n) return;
    const float x = ((const float *)a.in)[i];
    float s, c, *o = (float *)a.out + i;
    sincosf(x, &s, &c);
    o[0 * n] = exp2f(x);
    o[1 * n] = expf(x);
    o[2 * n] = s;
    o[3 * n] = c;
    o[4 * n] = powf(fabsf(x), 1.5f);
    o[5 * n] = rsqrtf(fabsf(x) + 1.0f);
    o[6 * n] = exp2_approx(x);
    o[7 * n] = rcp_approx(x + 100.0f);
    o[8 * n] = __int_as_float(__float2int_rn(x * 1e8f)); /* saturates */
}

/* in: A[16][32], in2: B[8][32] (n major) signed bytes; out: D[16][8] of k = 32, then of k = 16. */
INGOT_GLOBAL(ingot_t_mma_s8, 32, 1, struct test_args) {
    INGOT_SHARED(uint4, sa, [16 * 3]); /* rows of 48 bytes */
    INGOT_SHARED(uint4, sb, [8 * 3]);
    const int l = lane_id(), r = l >> 2, c = (l & 3) * 2;
    sa[(l >> 1) * 3 + (l & 1)] = ld_nc_16((const char *)a.in + 16 * l);
    if (l < 16) sb[(l >> 1) * 3 + (l & 1)] = ld_nc_16((const char *)a.in2 + 16 * l);
    __syncwarp();
    uint32_t fa[4], fb[2];
    ldmatrix_x4(fa, sa + (l & 15) * 3 + (l >> 4));
    ldmatrix_x2(fb, sb + (l & 7) * 3 + ((l >> 3) & 1));
    int32_t d[4] = {1, 2, 3, 4}, e[4] = {0, 0, 0, 0};
    mma_m16n8k32_s8(d, fa, fb);
    const uint32_t fa16[2] = {fa[0], fa[1]}, fb16[1] = {fb[0]};
    mma_m16n8k16_s8(e, fa16, fb16);
    int32_t *o = (int32_t *)a.out;
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) {
        const int at = (r + (i >> 1) * 8) * 8 + c + (i & 1);
        o[at] = d[i] - (i + 1);
        o[128 + at] = e[i];
    }
}

/* in: A[16][16] halves, then the same as bfloat16; in2: B[16][8] (k major) likewise; out: D twice. */
INGOT_GLOBAL(ingot_t_mma_f16, 32, 1, struct test_args) {
    INGOT_SHARED(uint4, sa, [2][16 * 2]);
    INGOT_SHARED(uint4, sb, [2][16]);
    const int l = lane_id(), r = l >> 2, c = (l & 3) * 2;
    INGOT_UNROLL
    for (int t = 0; t < 2; t++) {
        sa[t][l] = ld_nc_16((const char *)a.in + 512 * t + 16 * l);
        if (l < 16) sb[t][l] = ld_nc_16((const char *)a.in2 + 256 * t + 16 * l);
    }
    __syncwarp();
    INGOT_UNROLL
    for (int t = 0; t < 2; t++) {
        uint32_t fa[4], fb[2];
        float d[4] = {0.5f, 0.5f, 0.5f, 0.5f};
        ldmatrix_x4(fa, &sa[t][(l & 15) * 2 + (l >> 4)]);
        ldmatrix_x2_trans(fb, &sb[t][l & 15]);
        if (t == 0) mma_m16n8k16_f16_f32(d, fa, fb);
        else mma_m16n8k16_bf16_f32(d, fa, fb);
        INGOT_UNROLL
        for (int i = 0; i < 4; i++) ((float *)a.out)[128 * t + (r + (i >> 1) * 8) * 8 + c + (i & 1)] = d[i];
    }
}

/* in: four 8x8 matrices of 16-bit elements, row by row; out: the fragments of x4, x4.trans, x2, x2.trans. */
INGOT_GLOBAL(ingot_t_ldmatrix, 32, 1, struct test_args) {
    INGOT_SHARED(uint4, s, [32]);
    const int l = lane_id();
    s[l] = ld_nc_16((const char *)a.in + 16 * l);
    __syncwarp();
    uint32_t x[4], t[4], y[2], u[2];
    ldmatrix_x4(x, &s[l]);
    ldmatrix_x4_trans(t, &s[l]);
    ldmatrix_x2(y, &s[l]);
    ldmatrix_x2_trans(u, &s[l]);
    uint32_t *o = (uint32_t *)a.out + l * 12;
    INGOT_UNROLL
    for (int i = 0; i < 4; i++) {
        o[i] = x[i];
        o[4 + i] = t[i];
    }
    o[8] = y[0], o[9] = y[1], o[10] = u[0], o[11] = u[1];
}

/* A three-stage ring: out[i] = sum over k tiles of in[tile][i ^ 1], n = tiles of 128 x 16 bytes. */
INGOT_GLOBAL(ingot_t_pipeline, 128, 1, struct test_args) {
    INGOT_DYN_SHARED(uint4, ring); /* [3][128] */
    const int t = (int)threadIdx.x;
    const uint4 *in = (const uint4 *)a.in;
    uint32_t s = 0;
    for (int i = 0; i < 2; i++) {
        if (i < a.n) cp_async_16(&ring[i * 128 + t], in + i * 128 + t);
        cp_async_commit();
    }
    for (int i = 0; i < a.n; i++) {
        cp_async_wait<1>();
        __syncthreads();
        const uint4 v = ring[i % 3 * 128 + (t ^ 1)];
        s += v.x + v.y + v.z + v.w;
        const int next = i + 2;
        if (next < a.n) cp_async_16(&ring[next % 3 * 128 + t], in + (size_t)next * 128 + t);
        cp_async_commit();
    }
    ((uint32_t *)a.out)[t] = s;
}
/* Lane l copies l % 17 of 16 bytes; the rest are zeros. Then 8 and 4 bytes whole. */
INGOT_GLOBAL(ingot_t_partial_copy, 32, 1, struct test_args) {
    INGOT_SHARED(uint4, s, [64]);
    const int l = lane_id(), bytes = l % 17;
    cp_async_16(&s[l], bytes ? (const char *)a.in + 16 * l : (const char *)a.in, bytes);
    cp_async_8(&s[32 + l], (const char *)a.in + 16 * l);
    cp_async_4((uint32_t *)&s[32 + l] + 2, (const char *)a.in + 16 * l + 8);
    cp_async_4((uint32_t *)&s[32 + l] + 3, (const char *)a.in + 16 * l + 12);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    st_16((char *)a.out + 16 * l, s[l]);
    st_16((char *)a.out + 512 + 16 * l, s[32 + l]);
}

/* Votes, and a block-wide sum through static and dynamic shared memory; out: 5 words per block. */
INGOT_GLOBAL(ingot_t_barriers, 256, 1, struct test_args) {
    INGOT_SHARED(int, part, [8][2]);
    INGOT_DYN_SHARED(int, dyn);
    const int t = (int)threadIdx.x, l = lane_id(), n = (int)blockDim.x;
    dyn[t] = t + (int)blockIdx.x;
    __syncthreads();
    const int s = warp_sum_i32(dyn[n - 1 - t]);
    if (l == 0) part[t >> 5][0] = s;
    const int votes = __syncthreads_count(t % 3 == 0), any = __syncthreads_or(t == 5), all = __syncthreads_and(t >= 0);
    int *o = (int *)a.out + 5 * blockIdx.x;
    if (t == 0) {
        int sum = 0;
        for (int w = 0; w < n / 32; w++) sum += part[w][0];
        o[0] = sum;
        o[1] = votes;
        o[2] = any != 0;
        o[3] = all != 0;
        o[4] = n;
    }
}
/* Warp 0 produces, warps 1 and 2 consume, through named barriers 1 (full) and 2 (empty). */
INGOT_GLOBAL(ingot_t_named, 96, 1, struct test_args) {
    INGOT_SHARED(int, slot, [32]);
    const int l = lane_id(), w = (int)threadIdx.x >> 5;
    int s = 0;
    for (int i = 0; i < a.n; i++) {
        if (w == 0) {
            if (i) bar_sync(2, 96);
            slot[l] = i * 100 + l;
            bar_arrive(1, 96);
        } else {
            bar_sync(1, 96);
            s += slot[31 - l] * w;
            if (i + 1 < a.n) bar_arrive(2, 96);
        }
    }
    ((int *)a.out)[threadIdx.x] = s;
}

/* out[linear thread] = its coordinates packed. */
INGOT_GLOBAL(ingot_t_index, 1024, 1, struct test_args) {
    const uint32_t b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const uint32_t t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    ((uint32_t *)a.out)[b * blockDim.x * blockDim.y * blockDim.z + t] =
        threadIdx.x | threadIdx.y << 5 | threadIdx.z << 10 | blockIdx.x << 15 | blockIdx.y << 20 | blockIdx.z << 25;
}

INGOT_GLOBAL(ingot_t_atomics, 128, 1, struct test_args) {
    int *o = (int *)a.out;
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(&o[0], 1);
    atomicMax(&o[1], i);
    atomicMin(&o[2], -i);
    atomicOr((unsigned *)&o[3], 1u << (i & 31));
    atomicXor((unsigned *)&o[4], (unsigned)i);
    atomicAdd((float *)&o[5], 1.0f);
    if (atomicCAS(&o[6], 0, i + 1) == 0) atomicAdd(&o[7], 1);
    atomicInc((unsigned *)&o[8], 9u);
    atomicAdd((unsigned long long *)&o[10], 1ull << 32);
}

INGOT_GLOBAL(ingot_t_add_one, 1024, 1, struct test_args) {
    ingot_pdl_wait();
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < a.n) ((int *)a.out)[i] += a.k;
    ingot_pdl_launch();
}
/* Threads beyond n leave before the barriers, which the rest still pass. */
INGOT_GLOBAL(ingot_t_reverse, 256, 1, struct test_args) {
    INGOT_SHARED(int, s, [256]);
    const int i = (int)threadIdx.x;
    if (i >= a.n) return;
    s[i] = i;
    __syncthreads();
    ((int *)a.out)[i] = s[a.n - 1 - i];
}
/* Thread 0 waits for a flag that thread 32 sets. */
INGOT_GLOBAL(ingot_t_spin, 64, 1, struct test_args) {
    int *o = (int *)a.out;
    if (threadIdx.x == 0)
        while (atomicAdd(&o[0], 0) == 0) __nanosleep(20);
    if (threadIdx.x == 32) atomicExch(&o[0], 1);
    __syncthreads();
    if (threadIdx.x == 0) o[1] = 2;
}
INGOT_GLOBAL(ingot_t_big_shared, 32, 1, struct test_args) {
    INGOT_SHARED(int, s, [1024]);
    INGOT_DYN_SHARED(int, d);
    s[threadIdx.x] = d[a.n - 1 - (int)threadIdx.x] = (int)threadIdx.x;
    __syncwarp();
    ((int *)a.out)[threadIdx.x] = s[31 - threadIdx.x] + d[a.n - 32 + (int)threadIdx.x];
}
INGOT_GLOBAL(ingot_t_arch_sm80, 32, 1, struct test_args) {
    if (threadIdx.x == 0) ((int *)a.out)[0] = 80;
}
INGOT_GLOBAL(ingot_t_arch_sm90a, 32, 1, struct test_args) {
    if (threadIdx.x == 0) ((int *)a.out)[0] = 90;
}
