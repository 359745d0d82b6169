/* SPDX-License-Identifier: MIT
 *
 * block.cpp - the executor of one OS thread: its fibers and shared-memory arena, and the run of one
 * block on it. Executors of ended OS threads are kept for the next thread.
 */
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>

#include "src/simt/internal.h"

__thread simt_exec *simt_x SIMT_TLS;
simt_exec *simt_execs;
pthread_mutex_t simt_execs_mutex = PTHREAD_MUTEX_INITIALIZER;

static simt_exec *free_execs;
static pthread_key_t exec_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

enum { ALTSTACK = 64 * 1024 };

static void *map(size_t n) {
    void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? 0 : p;
}
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* One mapping holds everything but the stacks: executor, fibers, stack headers, copy queues, the signal
 * stack and the arena with a guard page at its end. */
static simt_exec *exec_new(void) {
    const size_t fibers = sizeof(simt_fiber) * SIMT_MAX_THREADS, stacks = sizeof(simt_stack) * SIMT_MAX_THREADS,
                 copies = sizeof(simt_copy) * SIMT_MAX_COPIES, groups = sizeof(uint32_t) * SIMT_MAX_GROUPS,
                 bulk = sizeof(simt_bulk) * SIMT_MAX_BULK, head = round_up(sizeof(simt_exec), 4096);
    const size_t before = head + fibers + round_up(stacks, 4096) + (copies + groups) * SIMT_MAX_THREADS + ALTSTACK + bulk;
    const size_t arena_at = round_up(before, 4096);
    char *m = (char *)map(arena_at + SIMT_ARENA + 4096);
    if (!m) return 0;
    mprotect(m + arena_at + SIMT_ARENA, 4096, PROT_NONE);
    simt_exec *x = (simt_exec *)m;
    x->fiber = (simt_fiber *)(m + head);
    x->stacks = (simt_stack *)(m + head + fibers);
    char *q = m + head + fibers + round_up(stacks, 4096);
    for (size_t i = 0; i < SIMT_MAX_THREADS; i++) {
        x->fiber[i].copies = (simt_copy *)(q + i * copies);
        x->fiber[i].groups = (uint32_t *)(q + copies * SIMT_MAX_THREADS + i * groups);
    }
    x->altstack = q + (copies + groups) * SIMT_MAX_THREADS;
    x->bulk = (simt_bulk *)((char *)x->altstack + ALTSTACK);
    x->arena = (unsigned char *)m + arena_at;
    return x;
}
static void exec_release(void *p) { /* the OS thread ends */
    simt_exec *x = (simt_exec *)p;
    pthread_mutex_lock(&simt_execs_mutex);
    for (simt_exec **q = &simt_execs; *q; q = &(*q)->next) {
        if (*q != x) continue;
        *q = x->next;
        break;
    }
    x->next_free = free_execs;
    free_execs = x;
    pthread_mutex_unlock(&simt_execs_mutex);
    simt_x = 0;
}
static void make_key(void) { pthread_key_create(&exec_key, exec_release); }

simt_exec *simt_exec_get(void) {
    if (simt_x) return simt_x;
    pthread_once(&key_once, make_key);
    pthread_mutex_lock(&simt_execs_mutex);
    simt_exec *x = free_execs;
    if (x) free_execs = x->next_free;
    pthread_mutex_unlock(&simt_execs_mutex);
    if (!x && !(x = exec_new())) return 0;
    x->self = pthread_self();
    x->rng = simt_opt.seed;
#if SIMT_ASAN /* ASan keeps its own signal stack, and wants the bounds of the stack it comes back to */
    pthread_attr_t attr;
    void *base;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, &x->main.size);
    pthread_attr_destroy(&attr);
    x->main.base = (char *)base;
#else
    stack_t ss;
    memset(&ss, 0, sizeof ss);
    ss.ss_sp = x->altstack;
    ss.ss_size = ALTSTACK;
    sigaltstack(&ss, 0);
#endif
    SIMT_IF_TSAN(x->tsan_main = __tsan_get_current_fiber();)
    pthread_mutex_lock(&simt_execs_mutex);
    const bool first = !simt_execs && !free_execs;
    x->next = simt_execs;
    simt_execs = x;
    pthread_mutex_unlock(&simt_execs_mutex);
    pthread_setspecific(exec_key, x);
    simt_x = x;
    static int watched;
    if (first && !__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED)) simt_watchdog_start();
    return x;
}

/* Lays the fibers out as a block of shape `s`. Blocks of one dimension share one layout, whatever their
 * size, as long as it is a multiple of 32. */
static void shape_fibers(simt_exec *x, dim3 s) {
    simt_block *b = &x->block;
    const uint32_t n = s.x * s.y * s.z;
    const bool line = s.y == 1 && s.z == 1 && n % 32 == 0;
    b->nthreads = n;
    b->nwarps = (n + 31) / 32;
    const uint32_t laid = line ? (uint32_t)SIMT_MAX_THREADS : n;
    const dim3 want = line ? dim3(SIMT_MAX_THREADS) : s;
    if (x->shape.x != want.x || x->shape.y != want.y || x->shape.z != want.z) {
        for (uint32_t i = 0; i < laid; i++) {
            simt_fiber *f = &x->fiber[i];
            f->tid = uint3{i % want.x, i / want.x % want.y, i / (want.x * want.y)};
            f->lane = i & 31;
            f->bit = 1u << f->lane;
            f->warp = &b->warp[i >> 5];
            f->next = i % 32 == 31 || i == laid - 1 ? x->fiber + i / 32 * 32 : f + 1;
        }
        for (uint32_t i = 0; i < (laid + 31) / 32; i++) {
            simt_warp *w = &b->warp[i];
            w->index = i;
            w->lane0 = x->fiber + i * 32;
            w->block = b;
            w->members = laid - i * 32 >= 32 ? ~0u : (1u << (laid - i * 32)) - 1;
        }
        x->shape = want;
    }
#if defined(SIMT_TSAN_RT) /* made here, by the main fiber: creation is an ordering edge */
    for (uint32_t i = 0; i < n; i++)
        if (!x->fiber[i].tsan) x->fiber[i].tsan = __tsan_create_fiber(0);
    for (uint32_t i = 0; i < b->nwarps; i++)
        if (!x->tsan_bulk[i]) x->tsan_bulk[i] = __tsan_create_fiber(0);
#endif
}
static void reset_block(simt_exec *x, const simt_launch *l) {
    simt_block *b = &x->block;
    b->alive = b->nthreads;
    b->warps_ready = b->nwarps == 32 ? ~0u : (1u << b->nwarps) - 1;
    b->nspin = b->spin_rounds = b->nwaiting = 0;
    for (uint32_t u = b->bars_used; u; u &= u - 1) memset(&b->bar[__builtin_ctz(u)], 0, sizeof(simt_bar));
    b->bars_used = 0;
    for (uint32_t i = 0; i < b->nwarps; i++) {
        simt_warp *w = &b->warp[i];
        w->gone = ~w->members;
        w->runnable = w->members;
        w->spinning = w->npending = w->at_mbarrier = 0;
    }
    b->narrays = b->static_bytes = 0;
    b->nmbarriers = b->nbulk = b->bulk_made = 0;
    b->bulk_free = 0;
    b->arena_used = (uint32_t)round_up(l->smem, 128);
#if SIMT_ASAN
    __asan_poison_memory_region(x->arena, SIMT_ARENA);
    __asan_unpoison_memory_region(x->arena, l->smem);
#endif
    if (simt_opt.fill && l->smem) memset(x->arena, 0xff, l->smem);
}
/* Every suspended fiber of the failed block is dropped where it stands. */
static cudaError_t drop_fibers(simt_exec *x) {
    x->free_stacks = 0;
    for (uint32_t i = 0; i < x->nstacks; i++) {
        simt_stack_reset(&x->stacks[i]);
        x->stacks[i].next = x->free_stacks;
        x->free_stacks = &x->stacks[i];
    }
    for (uint32_t i = 0; i < x->block.nthreads; i++) {
        simt_fiber *f = &x->fiber[i];
        f->stack = 0;
        f->sp = 0;
        f->ncopies = f->ngroups = 0;
    }
    const cudaError_t e = x->failed;
    x->failed = cudaSuccess;
    return e;
}

void simt_exec_begin(simt_exec *x, const simt_launch *l) {
    x->launch = l;
    blockDim = l->block;
    gridDim = l->grid;
    shape_fibers(x, l->block);
}
cudaError_t simt_exec_block(simt_exec *x, uint64_t index) {
    const simt_launch *l = x->launch;
    reset_block(x, l);
    blockIdx = uint3{(unsigned)(index % l->grid.x), (unsigned)(index / l->grid.x % l->grid.y),
                     (unsigned)(index / ((uint64_t)l->grid.x * l->grid.y))};
    x->blocks = x->blocks + 1;
    simt_block_enter();
    return x->failed ? drop_fibers(x) : cudaSuccess;
}
void simt_exec_end(simt_exec *x) {
    x->launch = 0;
#if SIMT_ASAN
    __asan_unpoison_memory_region(x->arena, SIMT_ARENA);
#endif
}

/* ---- shared memory: one arena, the dynamic part first, then the static arrays in order of first use --- */

extern "C" void *simt_shared_dynamic(void) { return simt_x->arena; }
extern "C" uint32_t simt_shared_offset(const void *p) { return (uint32_t)((const unsigned char *)p - simt_x->arena); }

extern "C" void *simt_shared(const void *key, size_t size, size_t align) {
    simt_exec *x = simt_x;
    simt_block *b = &x->block;
    for (uint32_t i = 0; i < b->narrays; i++)
        if (b->array[i].key == key) return x->arena + b->array[i].offset;
    const simt_launch *l = x->launch;
    const uint32_t red_zone = SIMT_ASAN ? 64 : 0;
    const uint32_t offset = (uint32_t)round_up(b->arena_used + red_zone, align);
    b->static_bytes = (uint32_t)(round_up(b->static_bytes, align) + size);
    const size_t limit = l->kernel->dynamic_limit ? simt_opt.smem_max : 48 * 1024;
    if (b->static_bytes > 48 * 1024 || l->smem + b->static_bytes > limit)
        simt_error(cudaErrorInvalidValue, "shared memory: %u static (at most 49152) and %zu dynamic bytes exceed %zu",
                   b->static_bytes, l->smem, limit);
    if (offset + size + red_zone > SIMT_ARENA || b->narrays == SIMT_MAX_ARRAYS)
        simt_error(cudaErrorInvalidValue, "more than %d shared arrays, or no room for their red zones", SIMT_MAX_ARRAYS);
    b->array[b->narrays++] = simt_array{key, offset};
    b->arena_used = (uint32_t)(offset + size);
    if ((int)b->static_bytes > __atomic_load_n(&l->kernel->static_seen, __ATOMIC_RELAXED))
        __atomic_store_n(&l->kernel->static_seen, (int)b->static_bytes, __ATOMIC_RELAXED);
#if SIMT_ASAN
    __asan_unpoison_memory_region(x->arena + offset, size);
#endif
    if (simt_opt.fill) memset(x->arena + offset, 0xff, size);
    return x->arena + offset;
}

/* ---- cp.async: the copy is done at the wait (late), or at once with INGOT_SIMT_ASYNC=early ------------- */

static void copy_now(const simt_copy *c) {
    SIMT_IF_TSAN(__tsan_write_range(c->dst, c->bytes); __tsan_read_range((void *)c->src, c->src_bytes);)
    if (c->src_bytes) memcpy(c->dst, c->src, c->src_bytes);
    if (c->src_bytes < c->bytes) memset((char *)c->dst + c->src_bytes, 0, c->bytes - c->src_bytes);
}
extern "C" void simt_copy_async(void *dst, const void *src, uint32_t bytes, uint32_t src_bytes, const char *file, int line) {
    simt_exec *x = simt_x;
    simt_fiber *f = simt_current;
    if (src_bytes > bytes) simt_error(cudaErrorLaunchFailure, "cp.async: %u source bytes of %u (%s:%d)", src_bytes, bytes, file, line);
    if (((uintptr_t)dst | (src_bytes ? (uintptr_t)src : 0)) & (bytes - 1))
        simt_error(cudaErrorMisalignedAddress, "cp.async: misaligned address, dst %p src %p (%s:%d)", dst, src, file, line);
    if ((unsigned char *)dst < x->arena || (unsigned char *)dst + bytes > x->arena + SIMT_ARENA)
        simt_error(cudaErrorIllegalAddress, "cp.async: destination %p is not shared memory (%s:%d)", dst, file, line);
    const simt_copy c = {dst, src, bytes, src_bytes};
    if (simt_opt.early) {
        copy_now(&c);
        return;
    }
    /* In flight from here to the wait: both ends of that time count as accesses. */
    SIMT_IF_TSAN(__tsan_write_range(dst, bytes); __tsan_read_range((void *)src, src_bytes);)
    if (f->ncopies == SIMT_MAX_COPIES) simt_error(cudaErrorLaunchFailure, "cp.async: more than %d copies in flight (%s:%d)", SIMT_MAX_COPIES, file, line);
    f->copies[f->ncopies++] = c;
}
extern "C" void simt_copy_commit(void) {
    simt_fiber *f = simt_current;
    if (f->ngroups == SIMT_MAX_GROUPS) simt_error(cudaErrorLaunchFailure, "cp.async: more than %d groups in flight", SIMT_MAX_GROUPS);
    f->groups[f->ngroups++] = f->ncopies; /* where this group ends in the queue */
}
extern "C" void simt_copy_wait(uint32_t keep) {
    simt_fiber *f = simt_current;
    if (f->ngroups <= keep) return;
    const uint32_t done = f->ngroups - keep, n = f->groups[done - 1];
    for (uint32_t i = 0; i < n; i++) copy_now(&f->copies[i]);
    f->ncopies -= n;
    memmove(f->copies, f->copies + n, f->ncopies * sizeof(simt_copy));
    for (uint32_t i = 0; i < keep; i++) f->groups[i] = f->groups[i + done] - n;
    f->ngroups = keep;
}
void simt_copy_drain(simt_fiber *f) {
    for (uint32_t i = 0; i < f->ncopies; i++) copy_now(&f->copies[i]);
    f->ncopies = f->ngroups = 0;
}
