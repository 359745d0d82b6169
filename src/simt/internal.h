/* SPDX-License-Identifier: MIT
 *
 * internal.h - what the files of src/simt share and no kernel sees: options, the executor that runs
 * blocks on one OS thread, fault reporting, and the run of one launch.
 *
 * Everything here is C-like C++ without the C++ library: the archive links into C programs.
 */
#ifndef SIMT_INTERNAL_H
#define SIMT_INTERNAL_H

#include <pthread.h>
#include <stdio.h>

#include "src/simt/machine.h"

/* TSan build: kernels are instrumented, these files are not (a scheduler looks like one big race), but
 * tell TSan about fibers and barriers. */
#if defined(SIMT_TSAN_RT)
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *p);
void __tsan_release(void *p);
void __tsan_read_range(void *p, unsigned long n);
void __tsan_write_range(void *p, unsigned long n);
void __tsan_func_entry(void *call_pc);
void __tsan_func_exit(void);
}
#define SIMT_IF_TSAN(x) x
#else
#define SIMT_IF_TSAN(x)
#endif

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#endif
#if defined(SIMT_UCONTEXT)
#include <ucontext.h>
#endif

extern "C" { /* every symbol of the archive begins with simt_ or is the runtime's own */

/* ---- options: the INGOT_SIMT_* environment, read once ----------------------------------------- */

enum simt_order { SIMT_ORDER_FORWARD, SIMT_ORDER_REVERSE, SIMT_ORDER_RANDOM };
struct simt_options {
    int devices, threads, cc, sms;
    int order; /* simt_order */
    uint32_t seed;
    int strict, fill, early, lazy, guard, abort;
    int watchdog;      /* seconds a block may run; 0: for ever */
    size_t stack;      /* bytes per fiber */
    size_t smem_max;   /* opt-in limit of shared memory per block */
    size_t memory;     /* bytes of each device's memory, for cudaMemGetInfo and exhaustion */
};
extern simt_options simt_opt;
void simt_init(void); /* reads the environment, installs the handlers; cheap after the first call */

/* ---- one launch ------------------------------------------------------------------------------- */

struct simt_launch {
    simt_kernel *kernel;
    const void *args;
    dim3 grid, block;
    size_t smem; /* dynamic bytes */
    int device;
};
/* Runs all blocks and returns when they have ended: the first fault's error, or success. */
cudaError_t simt_run(const simt_launch *l);

/* Opens and closes device memory for this process under INGOT_SIMT_GUARD; calls nest. */
void simt_access_begin(void);
void simt_access_end(void);
/* Writes what is known of an address ("byte 40 of the 1024-byte device allocation #3 ...") to buf. */
void simt_describe_address(const void *p, char *buf, size_t n);

/* ---- executor: one OS thread's block in progress ------------------------------------------------- */

enum {
    SIMT_MAX_THREADS = 1024,
    SIMT_ARENA = 256 * 1024, /* shared memory: the largest opt-in limit plus red zones */
    SIMT_MAX_COPIES = 128,   /* cp.async in flight per thread */
    SIMT_MAX_GROUPS = 32,
    SIMT_MAX_ARRAYS = 32,    /* static shared arrays per kernel */
    SIMT_BARRIERS = 16,
    SIMT_MAX_MBARRIERS = 1024,
    SIMT_MAX_BULK = 16384    /* bulk copies in flight per block */
};

struct simt_copy {
    void *dst;
    const void *src;
    uint32_t bytes, src_bytes;
};
struct simt_stack {
    void *sp;
    char *base, *top; /* usable: [base, top) */
    size_t size;
    simt_stack *next;
    void *fake; /* ASan's fake stack */
#if defined(SIMT_UCONTEXT)
    ucontext_t context;
#endif
};
struct simt_bar {
    uint32_t arrived, count, warps, wait[32];
    int votes, result;
    const char *file;
    int line;
    uint32_t phase; /* completions so far */
    char sync[2];   /* TSan's sync variables for even and odd ones */
};
struct simt_bulk { /* a bulk copy in flight */
    void *dst;
    const void *src;
    uint32_t bytes;
    const char *file; /* who issued it */
    int line;
    simt_bulk *next;
};
struct simt_mbarrier {
    uint64_t *at; /* the kernel's 8 bytes, which hold a tag and this one's number */
    simt_fiber *maker;
    bool fenced; /* the maker has called mbar_fence_init since */
    uint32_t count, pending; /* arrivals of a phase, and those missing in this one */
    int32_t tx;              /* bytes expected less bytes copied; negative when copies come first */
    uint32_t phase;          /* phases over so far */
    uint32_t warps;          /* warps with lanes that wait here */
    simt_bulk *copies;
    char sync[2]; /* TSan's sync variables for even and odd phases */
};
struct simt_array { /* a static shared array of the running block */
    const void *key;
    uint32_t offset;
};
struct simt_block {
    uint32_t nthreads, nwarps, alive, warps_ready;
    uint32_t nspin, spin_rounds;
    uint64_t progress, progress_seen;
    uint32_t bars_used, nwaiting; /* threads waiting at barriers */
    uint32_t narrays, arena_used, static_bytes;
    simt_bar bar[SIMT_BARRIERS];
    uint32_t nmbarriers, nbulk; /* nbulk: copies in flight */
    uint32_t bulk_made;         /* entries of simt_exec::bulk that have been in use */
    simt_bulk *bulk_free;
    simt_array array[SIMT_MAX_ARRAYS];
    simt_mbarrier mbarrier[SIMT_MAX_MBARRIERS];
    simt_warp warp[32];
};
struct simt_exec {
    simt_stack main;
    simt_stack *free_stacks, *stacks; /* stacks: array of SIMT_MAX_THREADS, nstacks made */
    uint32_t nstacks;
    simt_fiber *fiber;
    unsigned char *arena;
    simt_bulk *bulk; /* array of SIMT_MAX_BULK */
    simt_block block;
    dim3 shape; /* of the fibers as they stand; x = 0: none yet */
    const simt_launch *launch;
    cudaError_t failed;
    uint32_t rng;
    pthread_t self;
    volatile int running;
    volatile uint64_t blocks; /* started so far: the watchdog looks whether it moves */
    void *tsan_main, *altstack;
    void *tsan_bulk[32]; /* by warp: the TSan fiber its bulk copies count as */
    char tsan_begin, tsan_end; /* two sync variables: one would order every thread after those that ended before it */
    simt_exec *next, *next_free;
};
extern __thread simt_exec *simt_x SIMT_TLS;
simt_exec *simt_exec_get(void); /* this thread's executor, made on first use; 0: out of memory */
void simt_exec_begin(simt_exec *x, const simt_launch *l);
cudaError_t simt_exec_block(simt_exec *x, uint64_t index); /* the error of a fault in it */
void simt_exec_end(simt_exec *x);
/* All executors, for the watchdog and the fault report; hold the mutex while walking `next`. */
extern simt_exec *simt_execs;
extern pthread_mutex_t simt_execs_mutex;

/* ---- scheduling (sched.cpp) ------------------------------------------------------------------------ */

void simt_stack_reset(simt_stack *s);
void simt_fiber_loop(void);
/* Runs the block whose threads are set up in simt_x until all have exited or one has failed. */
void simt_block_enter(void);
/* The current thread stops being runnable until something sets its bit again: who runs next. */
simt_fiber *simt_park(uint32_t kind, uint32_t mask, const char *what, const char *file, int line);
void simt_bulk_check_end(void); /* the last thread of the block ends: nothing may be in flight */
void simt_copy_drain(simt_fiber *f); /* lets everything in flight land: the thread is about to end */
/* Leaves the block for good, from any fiber or from a signal handler on one. */
void simt_block_abandon(cudaError_t e) __attribute__((noreturn));

/* ---- faults (fault.cpp) ---------------------------------------------------------------------------- */

/* Prints the message and where the current thread is, then abandons the block with `e`. */
void simt_error(cudaError_t e, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void simt_deadlock(void) __attribute__((noreturn));
void simt_report_where(FILE *o);
void simt_install_handlers(void);
void simt_watchdog_start(void);

/* ---- the other way round: what the launch side needs of the table (rt_launch.cpp) -------------------- */

simt_kernel *simt_find_kernel(const void *fn);

} /* extern "C" */
#endif
