/* SPDX-License-Identifier: MIT
 *
 * ring.cu - rings of bulk copies through mbarriers; test_semantics.c has the references. The file
 * compiles with nvcc for every class, its kernels run on sm_90 and later.
 */
#include "test/simt/kernels.h"

#include "src/device/device.cuh"

INGOT_DEV uint32_t words_of(const uint4 v) { return v.x + 3u * v.y + 5u * v.z + 7u * v.w; }

/* in: n rows of k bytes, k at most 512 and a multiple of 16; the warps of the grid take them in turn. Each warp has a ring of
 * its own, filled before the wait for earlier launches; its lanes read what another lane's place holds. out: the rows, their
 * pieces of 16 bytes in pairs the other way round (a last single one stays), then a sum over the words of each row. */
INGOT_GLOBAL(ingot_t_bulk_ring_sm90, 64, 1, struct test_args) {
    INGOT_SHARED(uint4, ring, [2][RING_SLOTS][32]);
    INGOT_SHARED(uint64_t, full, [2][RING_SLOTS]);
    const int l = (int)(threadIdx.x & 31u), w = (int)threadIdx.x >> 5, pieces = a.k / 16;
    const int first = (int)blockIdx.x * 2 + w, step = (int)gridDim.x * 2;
    const uint32_t size = (uint32_t)a.k;
    const char *in = (const char *)a.in;
    if (l == 0) {
        INGOT_UNROLL
        for (int i = 0; i < RING_SLOTS; i++) mbar_init(&full[w][i], 1);
        mbar_fence_init();
        for (int i = 0; i < RING_SLOTS; i++) {
            const int row = first + i * step;
            if (row >= a.n) continue;
            mbar_arrive_expect(&full[w][i], size);
            bulk_g2s(ring[w][i], in + (size_t)row * size, size, &full[w][i]);
        }
    }
    __syncwarp();
    ingot_pdl_wait();
    ingot_pdl_launch();
    int slot = 0;
    uint32_t parity = 0;
    for (int row = first; row < a.n; row += step) {
        mbar_wait(&full[w][slot], parity);
        const int from = (l ^ 1) < pieces ? l ^ 1 : l;
        uint32_t sum = 0;
        if (l < pieces) {
            const uint4 v = ring[w][slot][from];
            st_16((char *)a.out + (size_t)row * size + 16 * l, v);
            sum = words_of(v);
        }
        sum = (uint32_t)warp_sum_i32((int)sum);
        if (l == 0) ((uint32_t *)((char *)a.out + (size_t)a.n * size))[row] = sum;
        __syncwarp();
        const int next = row + RING_SLOTS * step;
        if (l == 0 && next < a.n) { /* here in two parts, the first before its bytes are expected */
            const char *p = in + (size_t)next * size;
            bulk_g2s(ring[w][slot], p, 16, &full[w][slot]);
            mbar_arrive_expect(&full[w][slot], size);
            if (size > 16) bulk_g2s(&ring[w][slot][1], p + 16, size - 16, &full[w][slot]);
        }
        if (++slot == RING_SLOTS) {
            slot = 0;
            parity ^= 1u;
        }
    }
}

/* One lane of warp 0 copies n rows of 512 bytes, the other lanes go to the end; warps 1 and 2 read every row, and one lane of
 * each says that its slot is free. out[warp - 1][lane] = sum over the rows of their word at 31 - lane, times row + 1. */
INGOT_GLOBAL(ingot_t_bulk_roles_sm90, 96, 1, struct test_args) {
    INGOT_SHARED(uint4, ring, [2][32]);
    INGOT_SHARED(uint64_t, full, [2]);
    INGOT_SHARED(uint64_t, empty, [2]);
    const int l = (int)(threadIdx.x & 31u), w = (int)threadIdx.x >> 5;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            mbar_init(&full[i], 1);
            mbar_init(&empty[i], 2);
        }
        mbar_fence_init();
    }
    __syncthreads();
    if (w == 0) {
        if (l == 7) {
            for (int i = 0; i < a.n; i++) {
                const int slot = i & 1;
                if (i >= 2) mbar_wait(&empty[slot], (uint32_t)(i / 2 - 1) & 1u);
                mbar_arrive_expect(&full[slot], 512);
                bulk_g2s(ring[slot], (const char *)a.in + 512 * (size_t)i, 256, &full[slot]);
                bulk_g2s(&ring[slot][16], (const char *)a.in + 512 * (size_t)i + 256, 256, &full[slot]);
            }
        }
    } else {
        uint32_t sum = 0;
        for (int i = 0; i < a.n; i++) {
            const int slot = i & 1;
            mbar_wait(&full[slot], (uint32_t)(i / 2) & 1u);
            sum += (uint32_t)(i + 1) * words_of(ring[slot][31 - l]);
            __syncwarp();
            if (l == w) mbar_arrive(&empty[slot]);
        }
        ((uint32_t *)a.out)[(w - 1) * 32 + l] = sum;
    }
}
