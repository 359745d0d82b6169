/* SPDX-License-Identifier: MIT
 *
 * bad.cu - kernels that are wrong on purpose, one mistake each; test_faults.c says what must be
 * reported for which, and by what. SIMT build only.
 */
#include "test/simt/kernels.h"

#include "src/device/device.cuh"

#define BAD(name) INGOT_GLOBAL(name, 128, 1, struct test_args)
INGOT_DEV int tid(void) { return (int)threadIdx.x; }

BAD(ingot_b_oob_shared) {
    INGOT_SHARED(int, s, [64]);
    INGOT_SHARED(int, t, [64]);
    int *p = s;
    p[tid() + a.k] = 1;
    t[tid()] = 2;
    __syncthreads();
    ((int *)a.out)[tid()] = s[tid()] + t[tid()];
}
BAD(ingot_b_oob_dynamic) {
    INGOT_DYN_SHARED(int, s);
    s[tid() + a.k] = 1;
}
BAD(ingot_b_oob_global) {
    __syncwarp();
    ((int *)a.out)[tid() + a.k] = 1;
}
BAD(ingot_b_oob_local) {
    int v[8];
    for (int i = 0; i < 8; i++) v[i] = i + a.n;
    __syncwarp();
    const int *p = v;
    ((int *)a.out)[tid()] = p[tid() + a.k];
}
/* Warp 1: lanes 0-15 stand at the block barrier, 16-31 wait for them in a shuffle. */
BAD(ingot_b_deadlock) {
    int v = 0;
    if (tid() < 32 || (tid() & 31) < 16) __syncthreads();
    else v = __shfl_xor_sync(INGOT_FULL_MASK, 1, 1);
    ((int *)a.out)[tid()] = v;
}
BAD(ingot_b_endless) {
    volatile int *p = (volatile int *)a.out;
    while (p[0] == 0) {}
}
BAD(ingot_b_sleep) {
    volatile int *p = (volatile int *)a.out;
    while (p[0] == 0) __nanosleep(100);
}
BAD(ingot_b_shift) { ((int *)a.out)[tid()] = 1 << (tid() + a.k); }
BAD(ingot_b_misaligned) { ((uint32_t *)a.out)[tid()] = ld_nc_16((const char *)a.out + 4 * a.k).x; }
BAD(ingot_b_block_race) {
    INGOT_SHARED(int, s, [64]);
    s[tid()] = tid();
    if (a.k) __syncthreads();
    ((int *)a.out)[tid()] = s[tid() ^ 33];
}
BAD(ingot_b_warp_race) {
    INGOT_SHARED(int, s, [64]);
    s[tid()] = tid();
    if (a.k) __syncwarp();
    ((int *)a.out)[tid()] = s[(tid() & 32) + ((tid() + 1) & 31)];
}
/* The ring slot is refilled before all threads have read it. */
BAD(ingot_b_copy_race) {
    INGOT_SHARED(uint4, s, [64]);
    const uint4 *in = (const uint4 *)a.in;
    uint32_t sum = 0;
    for (int i = 0; i < 4; i++) {
        cp_async_16(&s[tid()], in + tid());
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        sum += s[tid() ^ 1].x;
        if (a.k) __syncthreads();
    }
    ((uint32_t *)a.out)[tid()] = sum;
}
BAD(ingot_b_overflow) {
    volatile char v[300000];
    v[tid()] = 1;
    ((int *)a.out)[0] = v[tid()];
}
BAD(ingot_b_mask) { ((int *)a.out)[tid()] = __shfl_xor_sync(0x0000ffffu, 1, 1); }
/* Reads what an asynchronous copy has not been waited for. */
BAD(ingot_b_no_wait) {
    INGOT_SHARED(uint4, s, [64]);
    s[tid()].x = 0;
    cp_async_16(&s[tid()], (const uint4 *)a.in + tid());
    cp_async_commit();
    __syncthreads();
    ((uint32_t *)a.out)[tid()] = s[tid()].x;
}
BAD(ingot_b_static_limit) {
    INGOT_SHARED(int, s, [14000]);
    s[tid()] = 1;
    ((int *)a.out)[tid()] = s[tid()];
}
BAD(ingot_b_divergent) {
    if (tid() & 1) __syncthreads();
    else
        __syncthreads();
}
BAD(ingot_b_lane_exits) {
    if (tid() == 5) return;
    ((int *)a.out)[tid()] = __shfl_xor_sync(INGOT_FULL_MASK, tid(), 1);
}
BAD(ingot_b_trap) {
    if (tid() == 33) __trap();
}
BAD(ingot_b_divide) { ((volatile int *)a.out)[tid()] = 7 / a.n; /* n = 0 */ }
BAD(ingot_b_uninitialised) {
    INGOT_SHARED(float, s, [64]);
    ((float *)a.out)[tid()] = s[tid()];
}
BAD(ingot_b_ldmatrix) {
    INGOT_SHARED(uint4, s, [64]);
    uint32_t r[4];
    ldmatrix_x4(r, (const char *)s + 8);
    ((uint32_t *)a.out)[tid()] = r[0];
}
BAD(ingot_b_barrier_count) { bar_sync(1, tid() < 32 ? 64 : 32); }
BAD(ingot_b_partial_warp) { ((float *)a.out)[tid()] = tid() < 48 ? warp_sum(1.0f) : 0.0f; }

/* ---- bulk copies ---- */

INGOT_DEV void make_bar(uint64_t *bar, uint32_t count) {
    if (tid() == 0) {
        mbar_init(bar, count);
        mbar_fence_init();
    }
    __syncthreads();
}
/* k picks the rule that is broken. */
BAD(ingot_b_bulk_rules) {
    INGOT_SHARED(uint4, s, [64]);
    INGOT_SHARED(uint64_t, bar, [2]);
    const char *in = (const char *)a.in;
    if (a.k == 6 && tid() == 0) mbar_init(&bar[0], 1);
    if (a.k == 9) bar[0] = 0;
    if (a.k != 6 && a.k != 9) make_bar(bar, 1);
    if (tid() != 3) return;
    mbar_arrive_expect(&bar[0], a.k == 8 ? 1u << 20 : 32);
    switch (a.k) {
    case 0: bulk_g2s(s, in, 24, bar); break;
    case 1: bulk_g2s((char *)s + 8, in, 32, bar); break;
    case 2: bulk_g2s(s, in + 4, 32, bar); break;
    case 3: bulk_g2s(a.out, in, 32, bar); break;
    case 4: bulk_g2s(s, &s[32], 32, bar); break;
    case 5: bulk_g2s(s, in, 32, (uint64_t *)((char *)bar + 4)); break;
    case 7: mbar_arrive(bar); break;
    case 10: mbar_wait(bar, 2); break;
    case 11: mbar_init(bar, 1); break;
    case 12: mbar_init(bar + 1, 0); break;
    case 13: bulk_g2s(s, in + ((size_t)1 << 40), 32, bar); break;
    default: bulk_g2s(s, in, 32, bar);
    }
}
/* Lanes 0-15 of warp 1 wait for bytes that nobody copies; the others have gone. */
BAD(ingot_b_bulk_hang) {
    INGOT_SHARED(uint64_t, bar, [1]);
    make_bar(bar, 2);
    if (tid() == 0) mbar_arrive_expect(bar, 48);
    if (tid() >= 32 && tid() < 48) mbar_wait(bar, 0);
    ((int *)a.out)[tid()] = 1;
}
/* Reads what has not been waited for, k = 0; with the wait, k = 1; after the wait of one lane and no barrier, k = 2. */
BAD(ingot_b_bulk_no_wait) {
    INGOT_SHARED(uint4, s, [64]);
    INGOT_SHARED(uint64_t, bar, [1]);
    s[tid()].x = 0;
    make_bar(bar, 1);
    if (tid() == 0) {
        mbar_arrive_expect(bar, 1024);
        bulk_g2s(s, a.in, 1024, bar);
    }
    __syncthreads();
    if (a.k == 1 || (a.k == 2 && tid() == 0)) mbar_wait(bar, 0);
    ((uint32_t *)a.out)[tid()] = s[tid() ^ 1].x;
    if (a.k) return;
    __syncthreads();
    mbar_wait(bar, 0);
}
/* The ring slot is filled again before all lanes have read it, unless k is set. */
BAD(ingot_b_bulk_race) {
    INGOT_SHARED(uint4, s, [2][32]);
    INGOT_SHARED(uint64_t, bar, [2]);
    make_bar(&bar[0], 1);
    make_bar(&bar[1], 1);
    const int l = tid() & 31, w = tid() >> 5;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (l == 0) {
            mbar_arrive_expect(&bar[w], 512);
            bulk_g2s(s[w], a.in, 512, &bar[w]);
        }
        mbar_wait(&bar[w], i & 1);
        __syncwarp(); /* no lane falls behind by a phase */
        sum += s[w][l ^ 1].x;
        if (a.k) __syncwarp();
    }
    ((uint32_t *)a.out)[tid()] = sum;
}
/* The block ends while a copy is in flight. */
BAD(ingot_b_bulk_end) {
    INGOT_SHARED(uint4, s, [2]);
    INGOT_SHARED(uint64_t, bar, [1]);
    make_bar(bar, 1);
    if (tid() == 0) bulk_g2s(s, a.in, 32, bar);
}
