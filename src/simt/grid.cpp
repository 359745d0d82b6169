/* SPDX-License-Identifier: MIT
 *
 * grid.cpp - runs the blocks of one launch, alone or with the worker threads.
 *
 * A model token is hundreds of launches of a few microseconds, and waking a thread costs as much as
 * such a launch. So the calling thread starts alone and looks at the clock: only when a launch has
 * lasted HELP_AFTER and blocks remain does it call for help. Workers spin for a moment after each job
 * before they sleep, so that a sequence of larger launches finds them awake. One launch at a time has
 * the workers; launches of other host threads meanwhile run on their own thread.
 */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/simt/internal.h"

enum { HELP_AFTER_NS = 5000, SPIN_NS = 50000 };

struct job {
    const simt_launch *launch;
    uint64_t nblocks, chunk;
    uint64_t next; /* atomic: first block not yet taken */
    int error;     /* atomic: cudaError_t of the first fault */
};

static struct {
    pthread_mutex_t owner; /* held by the launch that has the workers */
    job *current;
    int workers;           /* started so far */
    uint32_t generation;   /* futex: bumped for each job */
    uint32_t open;         /* atomic: workers may still join the current job */
    uint32_t inside;       /* futex: workers at the current job */
    int sleepers;          /* atomic */
} pool = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 0, 0, 0};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
static void futex_wait(uint32_t *at, uint32_t while_it_is) { syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, while_it_is, 0, 0, 0); }
static void futex_wake_all(uint32_t *at) { syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0); }

/* Takes blocks until none are left, one has failed, or (deadline != 0) the time is up. */
static void take_blocks(simt_exec *x, job *j, uint64_t deadline) {
    while (!__atomic_load_n(&j->error, __ATOMIC_RELAXED)) {
        const uint64_t first = __atomic_fetch_add(&j->next, j->chunk, __ATOMIC_RELAXED);
        if (first >= j->nblocks) break;
        const uint64_t end = first + j->chunk < j->nblocks ? first + j->chunk : j->nblocks;
        for (uint64_t i = first; i < end; i++) {
            const cudaError_t e = simt_exec_block(x, i);
            if (e) {
                int none = 0;
                __atomic_compare_exchange_n(&j->error, &none, (int)e, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
                return;
            }
        }
        if (deadline && now_ns() >= deadline) break;
    }
}

/* ---- workers ----------------------------------------------------------------------------------------- */

static void await_generation(uint32_t seen) {
    const uint64_t until = now_ns() + SPIN_NS;
    while (now_ns() < until)
        for (int i = 0; i < 64; i++) {
            if (__atomic_load_n(&pool.generation, __ATOMIC_ACQUIRE) != seen) return;
            relax();
        }
    __atomic_fetch_add(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pool.generation, __ATOMIC_SEQ_CST) == seen) futex_wait(&pool.generation, seen);
    __atomic_fetch_sub(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
}
static void *worker(void *) {
    uint32_t seen = 0;
    simt_exec *x = simt_exec_get();
    if (!x) return 0;
    for (;;) {
        await_generation(seen);
        seen = __atomic_load_n(&pool.generation, __ATOMIC_ACQUIRE);
        __atomic_fetch_add(&pool.inside, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&pool.open, __ATOMIC_SEQ_CST)) { /* else the job is over already */
            job *j = pool.current;
            simt_exec_begin(x, j->launch);
            take_blocks(x, j, 0);
            simt_exec_end(x);
        }
        if (__atomic_sub_fetch(&pool.inside, 1, __ATOMIC_SEQ_CST) == 0) futex_wake_all(&pool.inside);
    }
    return 0;
}
/* Starts the missing workers; all signals but those of faults stay with the application's threads. */
static void start_workers(void) {
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGFPE), sigdelset(&all, SIGILL), sigdelset(&all, SIGRTMIN + 7);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pool.workers < simt_opt.threads - 1) {
        pthread_t t;
        if (pthread_create(&t, &attr, worker, 0)) break;
        pool.workers++;
    }
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}
/* Opens the job to the workers, works along, and returns when all of it is done. */
static void run_with_workers(simt_exec *x, job *j) {
    if (pool.workers < simt_opt.threads - 1) start_workers();
    pool.current = j;
    __atomic_store_n(&pool.open, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&pool.generation, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.sleepers, __ATOMIC_SEQ_CST)) futex_wake_all(&pool.generation);
    take_blocks(x, j, 0);
    __atomic_store_n(&pool.open, 0, __ATOMIC_SEQ_CST);
    const uint64_t until = now_ns() + SPIN_NS;
    for (uint32_t n; (n = __atomic_load_n(&pool.inside, __ATOMIC_SEQ_CST)) != 0;) {
        relax();
        if (now_ns() > until) futex_wait(&pool.inside, n);
    }
}

cudaError_t simt_run(const simt_launch *l) {
    simt_exec *x = simt_exec_get();
    if (!x) return cudaErrorMemoryAllocation;
    if (x->launch) return cudaErrorIllegalState; /* a host function on a stream, or a kernel, launched */
    job j = {l, (uint64_t)l->grid.x * l->grid.y * l->grid.z, 1, 0, 0};
    simt_exec_begin(x, l);
    const bool may_share = simt_opt.threads > 1 && j.nblocks > 1;
    take_blocks(x, &j, may_share ? now_ns() + HELP_AFTER_NS : 0);
    if (may_share && j.next < j.nblocks && !j.error) {
        if (pthread_mutex_trylock(&pool.owner) == 0) {
            j.chunk = (j.nblocks - j.next) / (8 * (uint64_t)simt_opt.threads);
            if (j.chunk < 1) j.chunk = 1;
            run_with_workers(x, &j);
            pthread_mutex_unlock(&pool.owner);
        } else {
            take_blocks(x, &j, 0);
        }
    }
    simt_exec_end(x);
    return (cudaError_t)__atomic_load_n(&j.error, __ATOMIC_RELAXED);
}
