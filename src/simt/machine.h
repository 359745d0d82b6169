/* SPDX-License-Identifier: MIT
 *
 * machine.h - the part of the SIMT machine that is inlined into kernels: thread state, the context
 * switch, barriers and warp collectives. The rest is sched.cpp (who runs next), collective.cpp (what
 * a collective computes) and block.cpp (blocks and grids).
 *
 * A CUDA thread is a fiber with its own stack. It runs until it blocks in a collective or a barrier
 * and then jumps straight into the next runnable lane. In a collective each lane leaves its operands
 * in its warp, and the last lane to arrive computes the results of all lanes. Fibers never leave
 * their OS thread, so `__thread` variables are safe.
 */
#ifndef SIMT_MACHINE_H
#define SIMT_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define SIMT_INLINE static inline __attribute__((always_inline))

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#else
#define SIMT_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) /* kernels only; the machine itself is built with SIMT_TSAN_RT instead */
#define SIMT_TSAN 1
#else
#define SIMT_TSAN 0
#endif

/* ---- state ----------------------------------------------------------------------------------- */

struct simt_warp;
struct simt_block;
struct simt_stack;
struct simt_copy;
typedef void (*simt_collective_fn)(simt_warp *w, uint32_t mask);

enum simt_wait { SIMT_WAIT_NONE, SIMT_WAIT_COLLECTIVE, SIMT_WAIT_BARRIER, SIMT_WAIT_SPIN, SIMT_WAIT_MBARRIER };

struct __attribute__((aligned(128))) simt_fiber { /* one CUDA thread; indexing is a shift */
    uint3 tid;
    uint32_t lane, bit;
    uint32_t mask;    /* of the collective it waits in; the number of the mbarrier it waits for */
    simt_fiber *next; /* the following lane: a fixed pointer keeps the load chain of a switch short */
    void *sp;         /* saved stack pointer; 0: not started */
    simt_warp *warp;
    simt_stack *stack;
    const char *what, *file; /* where it waits */
    int line;
    uint32_t wait;                 /* simt_wait */
    uint32_t ncopies, ngroups;     /* cp.async queue */
    simt_copy *copies;
    uint32_t *groups;
    void *tsan;
    uint32_t phase; /* of the barrier it arrived at, for TSan */
};

/* A collective some lanes of `mask` have reached: `arrived`. */
struct simt_pending {
    uint32_t mask, arrived;
    simt_collective_fn fn;
    const char *file;
    int line;
};

struct simt_warp {
    uint32_t index, members;
    uint32_t gone; /* lanes that exited or never were */
    uint32_t runnable, spinning, npending;
    uint32_t at_mbarrier; /* lanes that wait for one */
    simt_block *block;
    simt_fiber *lane0;
    simt_pending pending[32];
    uint64_t val[32], res[32]; /* operands and results of the exchange in progress, by lane */
    int32_t sel[32];
    const void *arg[32];
    uint32_t phase; /* __syncwarps so far */
    char sync[2];   /* TSan's sync variables for even and odd ones, see sched.cpp */
    char bulk;      /* the same from its lanes to the bulk copies they issue, see mbarrier.cpp */
};

#define SIMT_TLS __attribute__((tls_model("initial-exec")))
extern __thread simt_fiber *simt_current SIMT_TLS;

/* Variables, not macros: cudaLaunchConfig_t has members named gridDim and blockDim. */
extern __thread uint3 threadIdx __asm__("simt_threadIdx") SIMT_TLS;
extern __thread uint3 blockIdx __asm__("simt_blockIdx") SIMT_TLS;
extern __thread dim3 blockDim __asm__("simt_blockDim") SIMT_TLS;
extern __thread dim3 gridDim __asm__("simt_gridDim") SIMT_TLS;
static const int warpSize = 32;

/* One entry of the kernel table, made by INGOT_GLOBAL in the kernel's own file. */
struct simt_kernel {
    const char *name;
    const void *fn;
    void (*call)(const void *args);
    size_t args_size;
    int max_threads;      /* launch bound */
    int dynamic_limit;    /* cudaFuncAttributeMaxDynamicSharedMemorySize; 0: never set */
    int static_seen;      /* bytes of static shared memory a block of it has used so far */
    simt_kernel *next;
};

/* ---- calls into the machine. Those that return a fiber return the one to switch to, 0 to go on. -- */

extern "C" {
void simt_register_kernel(simt_kernel *k);
simt_fiber *simt_arrive(uint32_t mask, simt_collective_fn fn, const char *what, const char *file, int line);
/* count 0: every live thread of the block. `vote` is summed into the result. */
simt_fiber *simt_barrier_arrive(int id, uint32_t count, int vote, const char *what, const char *file, int line);
void simt_barrier_pass(int id, uint32_t count, const char *file, int line); /* arrives, does not wait */
int simt_barrier_votes(int id);
simt_fiber *simt_spin_next(const char *what, const char *file, int line);
void simt_switch_slow(simt_fiber *to);
void simt_trap(cudaError_t error, const char *why, const char *file, int line) __attribute__((noreturn));
void *simt_shared(const void *key, size_t size, size_t align);
void *simt_shared_dynamic(void);
uint32_t simt_shared_offset(const void *p);
void simt_copy_async(void *dst, const void *src, uint32_t bytes, uint32_t src_bytes, const char *file, int line);
void simt_copy_commit(void);
void simt_copy_wait(uint32_t keep);
void simt_mbarrier_init(uint64_t *bar, uint32_t count, const char *file, int line);
void simt_mbarrier_fence(void);
void simt_mbarrier_arrive(uint64_t *bar, uint32_t expect, const char *what, const char *file, int line);
simt_fiber *simt_mbarrier_wait(uint64_t *bar, uint32_t parity, const char *file, int line); /* call again after the switch */
void simt_bulk_copy(void *dst, const void *src, uint32_t bytes, uint64_t *bar, const char *file, int line);
void simt_tsan_acquire_barrier(int id);
void simt_tsan_acquire_warp(void);

void simt_do_nothing(simt_warp *w, uint32_t mask);
void simt_do_shuffle(simt_warp *w, uint32_t mask);
void simt_do_ballot(simt_warp *w, uint32_t mask);
void simt_do_reduce(simt_warp *w, uint32_t mask);
void simt_do_match(simt_warp *w, uint32_t mask);
}

/* ---- context switch ----------------------------------------------------------------------------
 * Inlined into the kernel, so that the resume jump has one target per call site. Behind a call it
 * would be a return, and as the resumed lane is one collective behind, the CPU would mispredict every
 * one. Saves rbp and the resume address on the old stack, everything else is a clobber: the compiler
 * then saves only what is live. Needs -mno-red-zone. */
#if defined(__x86_64__) && !SIMT_ASAN && !SIMT_TSAN && !defined(SIMT_UCONTEXT)
#define SIMT_FAST_SWITCH 1
#else
#define SIMT_FAST_SWITCH 0
#endif

#if defined(__AVX512F__)
#define SIMT_CLOBBER_512                                                                           \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",    \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define SIMT_CLOBBER_512
#endif

#define SIMT_SWAP_STACKS(save_at, load)                                                            \
    do {                                                                                           \
        void *from_ = (save_at), *to_ = (load);                                                    \
        __asm__ volatile("pushq %%rbp\n leaq 1f(%%rip), %%rax\n pushq %%rax\n movq %%rsp, (%0)\n"  \
                         "movq %1, %%rsp\n popq %%rax\n jmpq *%%rax\n1: popq %%rbp"                \
                         : "+D"(from_), "+S"(to_)                                                  \
                         :                                                                         \
                         : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",     \
                           "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",   \
                           "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",      \
                           "xmm13", "xmm14", "xmm15" SIMT_CLOBBER_512);                            \
    } while (0)

SIMT_INLINE void simt_switch(simt_fiber *to) {
#if SIMT_FAST_SWITCH
    simt_fiber *from = simt_current;
    simt_current = to;
    threadIdx = to->tid;
    SIMT_SWAP_STACKS(&from->sp, to->sp);
#else
    simt_switch_slow(to);
#endif
}

/* ---- barriers and collectives ------------------------------------------------------------------ */

/* Default arguments of a wrapper: the kernel line that called it, for reports. */
#define SIMT_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

SIMT_INLINE void simt_collective(uint32_t mask, simt_collective_fn fn, const char *what, const char *file, int line) {
    simt_fiber *n = simt_arrive(mask, fn, what, file, line);
    if (n) simt_switch(n);
}
SIMT_INLINE void simt_barrier(int id, uint32_t count, int vote, const char *what, const char *file, int line) {
    simt_fiber *n = simt_barrier_arrive(id, count, vote, what, file, line);
    if (n) simt_switch(n);
#if SIMT_TSAN
    simt_tsan_acquire_barrier(id);
#endif
}
/* Exchanges one 64-bit value; `fn` says what comes back. */
SIMT_INLINE uint64_t simt_exchange(uint32_t mask, uint64_t v, int sel, simt_collective_fn fn, const char *what,
                                   const char *file, int line) {
    simt_fiber *f = simt_current;
    simt_warp *w = f->warp;
    w->val[f->lane] = v;
    w->sel[f->lane] = sel;
    simt_collective(mask, fn, what, file, line);
    return w->res[f->lane];
}
/* A collective over all 32 lanes whose operands stay in the caller's frame. */
SIMT_INLINE void simt_collective_arg(const void *arg, simt_collective_fn fn, const char *what, const char *file, int line) {
    simt_fiber *f = simt_current;
    f->warp->arg[f->lane] = arg;
    simt_collective(0xffffffffu, fn, what, file, line);
}

SIMT_INLINE void __syncthreads(SIMT_WHERE) { simt_barrier(0, 0, 0, "__syncthreads", file, line); }
SIMT_INLINE int __syncthreads_count(int p, SIMT_WHERE) {
    simt_barrier(0, 0, p != 0, "__syncthreads_count", file, line);
    return simt_barrier_votes(0);
}
SIMT_INLINE int __syncthreads_or(int p, SIMT_WHERE) {
    simt_barrier(0, 0, p != 0, "__syncthreads_or", file, line);
    return simt_barrier_votes(0) != 0;
}
SIMT_INLINE int __syncthreads_and(int p, SIMT_WHERE) {
    simt_barrier(0, 0, p == 0, "__syncthreads_and", file, line);
    return simt_barrier_votes(0) == 0;
}
SIMT_INLINE void bar_sync(int id, int count, SIMT_WHERE) { simt_barrier(id, (uint32_t)count, 0, "bar_sync", file, line); }
SIMT_INLINE void bar_arrive(int id, int count, SIMT_WHERE) { simt_barrier_pass(id, (uint32_t)count, file, line); }

SIMT_INLINE void __syncwarp(uint32_t mask = ~0u, SIMT_WHERE) {
    simt_collective(mask, simt_do_nothing, "__syncwarp", file, line);
#if SIMT_TSAN
    simt_tsan_acquire_warp();
#endif
}

SIMT_INLINE void __threadfence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_INLINE void __threadfence_block(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_INLINE void __threadfence_system(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/* Lets other threads run; a block whose threads all sleep without progress is reported as a deadlock. */
SIMT_INLINE void __nanosleep(unsigned ns, SIMT_WHERE) {
    (void)ns;
    simt_fiber *n = simt_spin_next("__nanosleep", file, line);
    if (n) simt_switch(n);
}
#define __trap() simt_trap(cudaErrorLaunchFailure, "__trap()", __FILE__, __LINE__)

/* ---- shuffles and votes: any type of at most 8 bytes ------------------------------------------------ */

template <class T> SIMT_INLINE T simt_shuffle(uint32_t mask, T v, int src, const char *what, const char *file, int line) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t u = 0;
    memcpy((void *)&u, (const void *)&v, sizeof(T));
    u = simt_exchange(mask, u, src, simt_do_shuffle, what, file, line);
    memcpy((void *)&v, (const void *)&u, sizeof(T));
    return v;
}
template <class T> SIMT_INLINE T __shfl_sync(uint32_t mask, T v, int src, int width = 32, SIMT_WHERE) {
    const int lane = (int)simt_current->lane;
    return simt_shuffle(mask, v, (lane & ~(width - 1)) | (src & (width - 1)), "__shfl_sync", file, line);
}
template <class T> SIMT_INLINE T __shfl_xor_sync(uint32_t mask, T v, int x, int width = 32, SIMT_WHERE) {
    const int lane = (int)simt_current->lane, src = lane ^ x;
    return simt_shuffle(mask, v, src >= (lane & ~(width - 1)) + width ? lane : src, "__shfl_xor_sync", file, line);
}
template <class T> SIMT_INLINE T __shfl_down_sync(uint32_t mask, T v, unsigned d, int width = 32, SIMT_WHERE) {
    const int lane = (int)simt_current->lane, src = lane + (int)d;
    return simt_shuffle(mask, v, src >= (lane & ~(width - 1)) + width ? lane : src, "__shfl_down_sync", file, line);
}
template <class T> SIMT_INLINE T __shfl_up_sync(uint32_t mask, T v, unsigned d, int width = 32, SIMT_WHERE) {
    const int lane = (int)simt_current->lane, src = lane - (int)d;
    return simt_shuffle(mask, v, src < (lane & ~(width - 1)) ? lane : src, "__shfl_up_sync", file, line);
}
SIMT_INLINE uint32_t __ballot_sync(uint32_t mask, int p, SIMT_WHERE) {
    return (uint32_t)simt_exchange(mask, p != 0, 0, simt_do_ballot, "__ballot_sync", file, line);
}
SIMT_INLINE int __any_sync(uint32_t mask, int p, SIMT_WHERE) {
    return simt_exchange(mask, p != 0, 0, simt_do_ballot, "__any_sync", file, line) != 0;
}
SIMT_INLINE int __all_sync(uint32_t mask, int p, SIMT_WHERE) {
    return simt_exchange(mask, p == 0, 0, simt_do_ballot, "__all_sync", file, line) == 0;
}
SIMT_INLINE uint32_t __match_any_sync(uint32_t mask, uint32_t v, SIMT_WHERE) {
    return (uint32_t)simt_exchange(mask, v, 0, simt_do_match, "__match_any_sync", file, line);
}

enum simt_reduce_op { SIMT_ADD, SIMT_MAX_U, SIMT_MAX_S, SIMT_MIN_U, SIMT_MIN_S, SIMT_AND, SIMT_OR, SIMT_XOR };
#define SIMT_REDUCE(name, T, op)                                                                   \
    SIMT_INLINE T name(uint32_t mask, T v, SIMT_WHERE) {                                           \
        return (T)simt_exchange(mask, (uint64_t)v, op, simt_do_reduce, #name, file, line);         \
    }
SIMT_REDUCE(__reduce_add_sync, unsigned, SIMT_ADD)
SIMT_REDUCE(__reduce_add_sync, int, SIMT_ADD)
SIMT_REDUCE(__reduce_max_sync, unsigned, SIMT_MAX_U)
SIMT_REDUCE(__reduce_max_sync, int, SIMT_MAX_S)
SIMT_REDUCE(__reduce_min_sync, unsigned, SIMT_MIN_U)
SIMT_REDUCE(__reduce_min_sync, int, SIMT_MIN_S)
SIMT_REDUCE(__reduce_and_sync, unsigned, SIMT_AND)
SIMT_REDUCE(__reduce_or_sync, unsigned, SIMT_OR)
SIMT_REDUCE(__reduce_xor_sync, unsigned, SIMT_XOR)

#endif
