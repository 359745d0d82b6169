/* SPDX-License-Identifier: MIT
 *
 * mbarrier.cpp - mbarriers, and the bulk copies that report to them. The kernel's 8 bytes of shared
 * memory hold a tag and a number; the state is an entry of the block, which other stores cannot spoil
 * and which says more when something hangs.
 *
 * A copy is done when a thread waits for its mbarrier (late), or at once with INGOT_SIMT_ASYNC=early.
 */
#include "src/simt/internal.h"

enum : uint32_t { TAG = 0x6d626172u, MOST = (1u << 20) - 1 /* arrivals of a phase, and bytes it may wait for */ };

/* ---- waking and phases ------------------------------------------------------------------------------------- */

static void wake(simt_block *b, simt_mbarrier *m) {
    const uint32_t number = (uint32_t)(m - b->mbarrier);
    for (uint32_t ws = m->warps; ws; ws &= ws - 1) {
        simt_warp *w = &b->warp[__builtin_ctz(ws)];
        for (uint32_t lanes = w->at_mbarrier; lanes; lanes &= lanes - 1) {
            simt_fiber *f = w->lane0 + __builtin_ctz(lanes);
            if (f->mask != number) continue;
            w->at_mbarrier &= ~f->bit;
            w->runnable |= f->bit;
        }
        b->warps_ready |= 1u << w->index;
    }
    m->warps = 0;
}
static void phase_over(simt_block *b, simt_mbarrier *m) {
    if (m->pending || m->tx) return;
    m->phase++;
    m->pending = m->count;
    b->progress++;
    wake(b, m);
}
static void count_bytes(simt_mbarrier *m, int64_t bytes, const char *what, const char *file, int line) {
    const int64_t tx = m->tx + bytes;
    if (tx > (int64_t)MOST || tx < -(int64_t)MOST)
        simt_error(cudaErrorLaunchFailure, "%s: the phase waits for %lld bytes, the most is %u either way (%s:%d)", what, (long long)tx, (unsigned)MOST, file, line);
    m->tx = (int32_t)tx;
}

/* ---- mbarriers ----------------------------------------------------------------------------------------------- */

static bool in_shared(const void *p, size_t n) {
    const simt_exec *x = simt_x;
    return (const unsigned char *)p >= x->arena && (const unsigned char *)p + n <= x->arena + x->block.arena_used;
}
/* The entry the 8 bytes at `bar` name, 0 if they are no mbarrier. */
static simt_mbarrier *lookup(uint64_t *bar) {
    simt_block *b = &simt_x->block;
    const uint32_t number = (uint32_t)*bar;
    return *bar >> 32 == TAG && number < b->nmbarriers && b->mbarrier[number].at == bar ? &b->mbarrier[number] : 0;
}
static void check_address(const uint64_t *bar, const char *what, const char *file, int line) {
    if ((uintptr_t)bar & 7) simt_error(cudaErrorMisalignedAddress, "%s: the mbarrier at %p is not 8-byte aligned (%s:%d)", what, (const void *)bar, file, line);
    if (!in_shared(bar, 8)) simt_error(cudaErrorIllegalAddress, "%s: the mbarrier at %p is not in the block's shared memory (%s:%d)", what, (const void *)bar, file, line);
}
static simt_mbarrier *find(uint64_t *bar, const char *what, const char *file, int line) {
    check_address(bar, what, file, line);
    SIMT_IF_TSAN(__tsan_read_range(bar, 8);) /* races with mbar_init alone */
    simt_mbarrier *m = lookup(bar);
    if (!m) simt_error(cudaErrorLaunchFailure, "%s: no mbarrier at shared byte %u: not initialised yet, or overwritten (%s:%d)", what, simt_shared_offset(bar), file, line);
    return m;
}
extern "C" void simt_mbarrier_init(uint64_t *bar, uint32_t count, const char *file, int line) {
    simt_block *b = &simt_x->block;
    check_address(bar, "mbar_init", file, line);
    if (count < 1 || count > MOST) simt_error(cudaErrorLaunchFailure, "mbar_init: %u arrivals are outside 1..%u (%s:%d)", count, (unsigned)MOST, file, line);
    if (lookup(bar)) simt_error(cudaErrorLaunchFailure, "mbar_init: there is an mbarrier at shared byte %u already (%s:%d)", simt_shared_offset(bar), file, line);
    if (b->nmbarriers == SIMT_MAX_MBARRIERS) simt_error(cudaErrorLaunchFailure, "mbar_init: more than %d mbarriers in a block (%s:%d)", SIMT_MAX_MBARRIERS, file, line);
    SIMT_IF_TSAN(__tsan_write_range(bar, 8);)
    simt_mbarrier *m = &b->mbarrier[b->nmbarriers];
    *m = simt_mbarrier{bar, simt_current, false, count, count, 0, 0, 0, 0, {0, 0}};
    *bar = (uint64_t)TAG << 32 | b->nmbarriers++;
}
extern "C" void simt_mbarrier_fence(void) {
    simt_block *b = &simt_x->block;
    for (uint32_t i = 0; i < b->nmbarriers; i++)
        if (b->mbarrier[i].maker == simt_current) b->mbarrier[i].fenced = true;
}
extern "C" void simt_mbarrier_arrive(uint64_t *bar, uint32_t expect, const char *what, const char *file, int line) {
    simt_mbarrier *m = find(bar, what, file, line);
    if (!m->pending) simt_error(cudaErrorLaunchFailure, "%s: more than %u arrivals in one phase of the mbarrier at shared byte %u (%s:%d)", what, m->count, simt_shared_offset(bar), file, line);
    SIMT_IF_TSAN(__tsan_release(&m->sync[m->phase & 1]);)
    count_bytes(m, expect, what, file, line);
    m->pending--;
    phase_over(&simt_x->block, m);
}

/* ---- bulk copies ----------------------------------------------------------------------------------------------- */

/* TSan watches memcpy in uninstrumented code too, and knows of the copy already (tsan_copy). */
static void move(void *dst, const void *src, uint32_t bytes) {
#if defined(SIMT_TSAN_RT)
    for (uint32_t i = 0; i < bytes / 8; i++) ((volatile uint64_t *)dst)[i] = ((const uint64_t *)src)[i];
#else
    if (bytes) memcpy(dst, src, bytes);
#endif
}
static void land(simt_block *b, simt_mbarrier *m, void *dst, const void *src, uint32_t bytes, const char *file, int line) {
    move(dst, src, bytes);
    count_bytes(m, -(int64_t)bytes, "bulk_g2s", file, line);
    b->progress++;
}
/* The copies of this mbarrier that are in flight land. */
static void land_all(simt_block *b, simt_mbarrier *m) {
    while (simt_bulk *c = m->copies) {
        m->copies = c->next;
        c->next = b->bulk_free;
        b->bulk_free = c;
        b->nbulk--;
#if SIMT_ASAN
        __asan_unpoison_memory_region(c->dst, c->bytes);
#endif
        land(b, m, c->dst, c->src, c->bytes, c->file, c->line);
    }
    phase_over(b, m);
}
/* Waits for the end of the phase of this parity: 0 when it is over, else the thread to switch to. */
extern "C" simt_fiber *simt_mbarrier_wait(uint64_t *bar, uint32_t parity, const char *file, int line) {
    simt_block *b = &simt_x->block;
    simt_fiber *f = simt_current;
    simt_mbarrier *m = find(bar, "mbar_wait", file, line);
    if (parity > 1) simt_error(cudaErrorLaunchFailure, "mbar_wait: parity %u is neither 0 nor 1 (%s:%d)", parity, file, line);
    if ((m->phase & 1) == parity && m->copies) land_all(b, m);
    if ((m->phase & 1) != parity) {
        SIMT_IF_TSAN(__tsan_acquire(&m->sync[parity]);)
        return 0;
    }
    m->warps |= 1u << f->warp->index;
    f->warp->at_mbarrier |= f->bit;
    return simt_park(SIMT_WAIT_MBARRIER, (uint32_t)(m - b->mbarrier), "mbar_wait", file, line);
}

/* To TSan a copy is an access by a thread of its own that starts after the issuing thread's call and ends before the
 * phase does: only those who wait for the phase are ordered after it, not those who merely met the issuing thread. */
#if defined(SIMT_TSAN_RT)
static void tsan_copy(simt_mbarrier *m, void *dst, const void *src, uint32_t bytes, void *caller) {
    simt_fiber *f = simt_current;
    __tsan_release(&f->warp->bulk);
    __tsan_switch_to_fiber(simt_x->tsan_bulk[f->warp->index], 1);
    __tsan_acquire(&f->warp->bulk);
    __tsan_func_entry(caller);
    __tsan_read_range((void *)src, bytes);
    __tsan_write_range(dst, bytes);
    __tsan_func_exit();
    __tsan_release(&m->sync[m->phase & 1]);
    __tsan_switch_to_fiber(f->tsan, 1);
}
#endif
/* Reads a byte for its faults, so that they name the issuing thread and not the one that waits. */
static void touch(const void *p, uint32_t bytes) {
    if (!bytes) return;
#if SIMT_ASAN
    if (void *bad = __asan_region_is_poisoned((void *)p, bytes)) (void)*(volatile char *)bad;
#endif
    (void)((const volatile char *)p)[0];
    (void)((const volatile char *)p)[bytes - 1];
}
static simt_bulk *bulk_new(simt_block *b, const char *file, int line) {
    simt_bulk *c = b->bulk_free;
    if (c) b->bulk_free = c->next;
    else if (b->bulk_made < SIMT_MAX_BULK) c = &simt_x->bulk[b->bulk_made++];
    else simt_error(cudaErrorLaunchFailure, "bulk_g2s: more than %d copies in flight (%s:%d)", SIMT_MAX_BULK, file, line);
    b->nbulk++;
    return c;
}
extern "C" void simt_bulk_copy(void *dst, const void *src, uint32_t bytes, uint64_t *bar, const char *file, int line) {
    simt_block *b = &simt_x->block;
    if (bytes & 15) simt_error(cudaErrorMisalignedAddress, "bulk_g2s: the size, %u bytes, is not a multiple of 16 (%s:%d)", bytes, file, line);
    if ((uintptr_t)dst & 15) simt_error(cudaErrorMisalignedAddress, "bulk_g2s: the destination %p is not 16-byte aligned (%s:%d)", dst, file, line);
    if ((uintptr_t)src & 15) simt_error(cudaErrorMisalignedAddress, "bulk_g2s: the source %p is not 16-byte aligned (%s:%d)", src, file, line);
    if (!in_shared(dst, bytes)) simt_error(cudaErrorIllegalAddress, "bulk_g2s: the destination %p is not in the block's shared memory (%s:%d)", dst, file, line);
    if (in_shared(src, 1)) simt_error(cudaErrorIllegalAddress, "bulk_g2s: the source %p is shared memory (%s:%d)", src, file, line);
    simt_mbarrier *m = find(bar, "bulk_g2s", file, line);
    if (!m->fenced) simt_error(cudaErrorLaunchFailure, "bulk_g2s: no mbar_fence_init after the mbar_init of the mbarrier at shared byte %u (%s:%d)", simt_shared_offset(bar), file, line);
    touch(src, bytes);
    touch(dst, bytes);
    SIMT_IF_TSAN(tsan_copy(m, dst, src, bytes, __builtin_return_address(0));)
    if (simt_opt.early) {
        land(b, m, dst, src, bytes, file, line);
        phase_over(b, m);
        return;
    }
    if (simt_opt.fill)
        for (uint32_t i = 0; i < bytes / 8; i++) ((volatile uint64_t *)dst)[i] = ~0ull;
#if SIMT_ASAN /* nobody may touch it before it has landed */
    __asan_poison_memory_region(dst, bytes);
#endif
    simt_bulk *c = bulk_new(b, file, line);
    *c = simt_bulk{dst, src, bytes, file, line, m->copies};
    m->copies = c;
    if (m->warps) wake(b, m);
}
/* The memory may be the next block's when the bytes come. */
void simt_bulk_check_end(void) {
    const simt_block *b = &simt_x->block;
    const simt_bulk *c = 0;
    for (uint32_t i = 0; i < b->nmbarriers && !c; i++) c = b->mbarrier[i].copies;
    simt_error(cudaErrorLaunchFailure, "bulk_g2s: the block ends and nothing has waited for %u of its copies, one of them from %s:%d", b->nbulk, c->file, c->line);
}
