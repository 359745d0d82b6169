/* SPDX-License-Identifier: MIT
 *
 * sched.cpp - which CUDA thread runs next: fiber stacks, the switch for the builds that cannot inline
 * it, arrival at collectives and barriers, and the end of a thread.
 *
 * The state is bit masks: runnable lanes per warp, warps with such lanes per block. The common path of
 * an arrival is a handful of instructions that end in "the next lane"; whatever is rarer sits in a
 * noinline function, so that the common path saves no registers.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/simt/internal.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD static __attribute__((noinline))

__thread simt_fiber *simt_current SIMT_TLS;
__thread uint3 threadIdx __asm__("simt_threadIdx") SIMT_TLS;
__thread uint3 blockIdx __asm__("simt_blockIdx") SIMT_TLS;
__thread dim3 blockDim __asm__("simt_blockDim") SIMT_TLS;
__thread dim3 gridDim __asm__("simt_gridDim") SIMT_TLS;

/* ---- stacks ------------------------------------------------------------------------------------ */

/* Saves the running stack to `from` and resumes `to`. */
SIMT_INLINE void swap(simt_stack *from, void **from_sp, simt_stack *to, void *to_sp) {
    (void)from, (void)to, (void)from_sp, (void)to_sp;
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->base, to->size);
#endif
#if defined(SIMT_UCONTEXT)
    swapcontext(&from->context, &to->context);
#else
    SIMT_SWAP_STACKS(from_sp, to_sp);
#endif
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(from->fake, 0, 0);
#endif
}
static void fiber_entry(void) {
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(0, 0, 0);
#endif
    simt_fiber_loop();
}
/* Makes the stack ready for a first switch into fiber_entry. */
void simt_stack_reset(simt_stack *s) {
    s->fake = 0;
#if SIMT_ASAN
    __asan_unpoison_memory_region(s->base, s->size);
#endif
#if defined(SIMT_UCONTEXT)
    getcontext(&s->context);
    s->context.uc_stack.ss_sp = s->base;
    s->context.uc_stack.ss_size = (size_t)(s->top - s->base);
    s->context.uc_link = 0;
    makecontext(&s->context, fiber_entry, 0);
    s->sp = s;
#else
    void **p = (void **)(s->top - 8);
    *p-- = 0; /* rsp is 8 mod 16 as after a call, or vmovaps faults; a zero return address ends backtraces */
    *p = (void *)fiber_entry;
    s->sp = p;
#endif
}
/* A stack with a guard page below it. The tops are staggered: at equal offsets the hot lines of all
 * lanes fall into the same L1 sets, which costs 25 to 60 %. */
COLD simt_stack *stack_new(void) {
    const uint32_t i = simt_x->nstacks;
    const size_t page = 4096, size = simt_opt.stack;
    char *m = (char *)mmap(0, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) simt_error(cudaErrorMemoryAllocation, "no memory for the stack of thread %u", i);
    mprotect(m, page, PROT_NONE);
    simt_stack *s = &simt_x->stacks[i];
    s->base = m + page;
    s->size = size;
    s->top = s->base + size - i * 704 % 16384 / 64 * 64 % (size / 4);
    simt_stack_reset(s);
    simt_x->nstacks++;
    return s;
}
SIMT_INLINE simt_stack *stack_get(void) {
    simt_stack *s = simt_x->free_stacks;
    if (!s) return stack_new();
    simt_x->free_stacks = s->next;
    return s;
}
SIMT_INLINE void give_stack(simt_fiber *f) {
#if defined(SIMT_TSAN_RT) /* a CUDA thread keeps its stack: TSan would call a hand-over a race */
    const uint32_t i = (uint32_t)(f - simt_x->fiber);
    while (simt_x->nstacks <= i) stack_new();
    f->stack = &simt_x->stacks[i];
#else
    f->stack = stack_get();
#endif
    f->sp = f->stack->sp;
}

/* ---- choosing ------------------------------------------------------------------------------------ */

SIMT_INLINE uint32_t pick_bit(uint32_t m) {
    if (LIKELY(simt_opt.order == SIMT_ORDER_FORWARD)) return (uint32_t)__builtin_ctz(m);
    if (simt_opt.order == SIMT_ORDER_REVERSE) return 31u - (uint32_t)__builtin_clz(m);
    simt_x->rng = simt_x->rng * 1664525u + 1013904223u;
    for (uint32_t k = (simt_x->rng >> 8) % (uint32_t)__builtin_popcount(m); k; k--) m &= m - 1;
    return (uint32_t)__builtin_ctz(m);
}
SIMT_INLINE simt_fiber *pick_in(simt_block *b) {
    simt_warp *w = &b->warp[pick_bit(b->warps_ready)];
    return w->lane0 + pick_bit(w->runnable);
}
/* Nothing is runnable: lets the spinning threads look again, unless that has led nowhere for long. */
COLD simt_fiber *revive(simt_block *b) {
    if (!b->nspin) simt_deadlock();
    if (b->progress != b->progress_seen) {
        b->progress_seen = b->progress;
        b->spin_rounds = 0;
    } else if (++b->spin_rounds > 100000) {
        simt_deadlock();
    }
    b->nspin = 0;
    for (uint32_t i = 0; i < b->nwarps; i++) {
        simt_warp *w = &b->warp[i];
        if (!w->spinning) continue;
        w->runnable |= w->spinning;
        w->spinning = 0;
        b->warps_ready |= 1u << i;
    }
    return pick_in(b);
}
/* The thread to run when `w` was running: another of this warp where the order allows it. */
SIMT_INLINE simt_fiber *pick(simt_block *b, simt_warp *w) {
    if (LIKELY(w->runnable) && LIKELY(simt_opt.order != SIMT_ORDER_RANDOM)) return w->lane0 + pick_bit(w->runnable);
    return b->warps_ready ? pick_in(b) : revive(b);
}
/* `f` cannot go on: who runs next (0: f itself, a spinner). */
COLD simt_fiber *next_after_block(simt_fiber *f) {
    simt_warp *w = f->warp;
    simt_block *b = w->block;
    if (!w->runnable) b->warps_ready &= ~(1u << w->index);
    simt_fiber *n = pick(b, w);
    if (n == f) return 0;
    if (!n->sp) give_stack(n);
    return n;
}
/* The same for the usual case, where the next lane is runnable and has started. */
SIMT_INLINE simt_fiber *next_lane(simt_fiber *f, uint32_t runnable) {
    simt_fiber *n = f->next;
    return LIKELY((runnable & n->bit) && n->sp && !simt_opt.order) ? n : next_after_block(f);
}
SIMT_INLINE void set_wait(simt_fiber *f, uint32_t kind, uint32_t mask, const char *what, const char *file, int line) {
    f->what = what;
    f->file = file;
    f->line = line;
    f->mask = mask;
    f->wait = kind;
}
extern "C" void simt_switch_slow(simt_fiber *to) {
    simt_fiber *from = simt_current;
    simt_current = to;
    threadIdx = to->tid;
    SIMT_IF_TSAN(__tsan_switch_to_fiber(to->tsan, 1);)
    swap(from->stack, &from->sp, to->stack, to->sp);
}

/* TSan sees a barrier as a release at arrival and an acquire on leaving. Threads that leave first reach
 * the next barrier before others have left this one: with one variable for both, the late ones would
 * acquire what the early ones did in between, and races there would go unseen. So the variables
 * alternate, and a thread acquires the one it released. */
#if defined(SIMT_TSAN_RT)
static void tsan_release(simt_fiber *f, char *sync, uint32_t phase) {
    f->phase = phase;
    __tsan_release(&sync[phase & 1]);
}
#endif
extern "C" void simt_tsan_acquire_warp(void) { SIMT_IF_TSAN(__tsan_acquire(&simt_current->warp->sync[simt_current->phase & 1]);) }
extern "C" void simt_tsan_acquire_barrier(int id) {
    (void)id;
    SIMT_IF_TSAN(__tsan_acquire(&simt_current->warp->block->bar[id].sync[simt_current->phase & 1]);)
}

/* ---- collectives --------------------------------------------------------------------------------- */

COLD simt_fiber *collective_done(simt_warp *w, simt_pending *p) {
    const simt_pending q = *p;
    *p = w->pending[--w->npending];
    if (UNLIKELY(simt_opt.strict && (q.mask & w->members & ~q.arrived)))
        simt_error(cudaErrorLaunchFailure, "%s (%s:%d) names lanes 0x%08x that have exited", simt_current->what,
                   simt_current->file, simt_current->line, q.mask & w->members & ~q.arrived);
    q.fn(w, q.arrived);
    SIMT_IF_TSAN(if (q.fn == simt_do_nothing) w->phase++;)
    w->runnable |= q.arrived;
    w->block->progress++;
    return 0;
}
/* INGOT_SIMT_STRICT: all lanes of a collective come from one line of the kernel. __syncwarp may differ. */
COLD void check_site(simt_fiber *f, const simt_pending *p) {
    if (p->fn == simt_do_nothing) return;
    if (p->line != f->line || strcmp(p->file, f->file))
        simt_error(cudaErrorLaunchFailure, "divergent collective: %s reached at %s:%d and at %s:%d", f->what, p->file, p->line, f->file, f->line);
}
/* The first lane of an exchange, or several exchanges in flight in one warp. */
COLD simt_fiber *arrive_slow(uint32_t mask, simt_collective_fn fn, simt_fiber *f) {
    simt_warp *w = f->warp;
    simt_pending *p = 0;
    for (uint32_t i = 0; i < w->npending && !p; i++)
        if (w->pending[i].mask == mask && w->pending[i].fn == fn) p = &w->pending[i];
    if (!p) {
        p = &w->pending[w->npending++];
        *p = simt_pending{mask, 0, fn, f->file, f->line};
    } else if (UNLIKELY(simt_opt.strict)) {
        check_site(f, p);
    }
    p->arrived |= f->bit;
    if (!(mask & ~(p->arrived | w->gone))) return collective_done(w, p);
    return next_lane(f, w->runnable &= ~f->bit);
}
COLD __attribute__((noreturn)) void bad_mask(simt_fiber *f, uint32_t mask) {
    simt_error(cudaErrorLaunchFailure, "%s: mask 0x%08x lacks the calling lane %u (%s:%d)", f->what, mask, f->lane, f->file, f->line);
}
extern "C" simt_fiber *simt_arrive(uint32_t mask, simt_collective_fn fn, const char *what, const char *file, int line) {
    simt_fiber *f = simt_current;
    simt_warp *w = f->warp;
    const uint32_t bit = f->bit;
    set_wait(f, SIMT_WAIT_COLLECTIVE, mask, what, file, line);
    if (UNLIKELY(!(mask & bit))) bad_mask(f, mask);
    SIMT_IF_TSAN(if (fn == simt_do_nothing) tsan_release(f, w->sync, w->phase);)
    simt_pending *p = w->pending;
    if (UNLIKELY(w->npending != 1 || p->mask != mask || p->fn != fn)) return arrive_slow(mask, fn, f);
    if (UNLIKELY(simt_opt.strict)) check_site(f, p);
    const uint32_t arrived = p->arrived |= bit;
    if (UNLIKELY(!(mask & ~(arrived | w->gone)))) return collective_done(w, p);
    return next_lane(f, w->runnable &= ~bit);
}

/* ---- barriers ------------------------------------------------------------------------------------ */

static void barrier_release(simt_block *b, simt_bar *r) {
    r->result = r->votes;
    r->votes = 0;
    r->arrived = 0;
    r->phase++;
    b->progress++;
    b->warps_ready |= r->warps;
    for (uint32_t ws = r->warps; ws; ws &= ws - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(ws);
        b->nwaiting -= (uint32_t)__builtin_popcount(r->wait[i]);
        b->warp[i].runnable |= r->wait[i];
        r->wait[i] = 0;
    }
    r->warps = 0;
}
COLD void barrier_check(simt_bar *r, int id, uint32_t count, const char *file, int line) {
    if (r->count != count)
        simt_error(cudaErrorLaunchFailure, "barrier %d: %u threads expected at %s:%d, %u at %s:%d", id, r->count, r->file, r->line, count, file, line);
    if (simt_opt.strict && !count && (r->line != line || strcmp(r->file, file)))
        simt_error(cudaErrorLaunchFailure, "divergent barrier: __syncthreads reached at %s:%d and at %s:%d", r->file, r->line, file, line);
}
/* Counts the caller in; true when it was the last one and has released the others. */
SIMT_INLINE bool barrier_count(simt_block *b, simt_bar *r, int id, uint32_t count, int vote, const char *file, int line) {
    SIMT_IF_TSAN(tsan_release(simt_current, r->sync, r->phase);)
    if (!r->arrived) {
        b->bars_used |= 1u << id;
        r->count = count;
        r->file = file;
        r->line = line;
    } else if (UNLIKELY(r->count != count || simt_opt.strict)) {
        barrier_check(r, id, count, file, line);
    }
    r->votes += vote;
    if (LIKELY(++r->arrived < (count ? count : b->alive))) return false;
    barrier_release(b, r);
    return true;
}
COLD simt_bar *barrier_get(simt_block *b, int id, uint32_t count, const char *file, int line) {
    if (id < 0 || id >= SIMT_BARRIERS || count % 32 || count > b->nthreads)
        simt_error(cudaErrorLaunchFailure, "barrier %d of %u threads in a block of %u (%s:%d)", id, count, b->nthreads, file, line);
    return &b->bar[id];
}
extern "C" simt_fiber *simt_barrier_arrive(int id, uint32_t count, int vote, const char *what, const char *file, int line) {
    simt_fiber *f = simt_current;
    simt_warp *w = f->warp;
    simt_block *b = w->block;
    simt_bar *r = LIKELY(id == 0 && !count) ? &b->bar[0] : barrier_get(b, id, count, file, line);
    if (barrier_count(b, r, id, count, vote, file, line)) return 0;
    set_wait(f, SIMT_WAIT_BARRIER, 0, what, file, line);
    b->nwaiting++;
    r->wait[w->index] |= f->bit;
    r->warps |= 1u << w->index;
    return next_lane(f, w->runnable &= ~f->bit);
}
extern "C" void simt_barrier_pass(int id, uint32_t count, const char *file, int line) {
    simt_block *b = simt_current->warp->block;
    barrier_count(b, barrier_get(b, id, count, file, line), id, count, 0, file, line);
}
extern "C" int simt_barrier_votes(int id) { return simt_current->warp->block->bar[id].result; }
extern "C" simt_fiber *simt_spin_next(const char *what, const char *file, int line) {
    simt_fiber *f = simt_current;
    simt_warp *w = f->warp;
    w->runnable &= ~f->bit;
    w->spinning |= f->bit;
    w->block->nspin++;
    set_wait(f, SIMT_WAIT_SPIN, 0, what, file, line);
    return next_after_block(f);
}
simt_fiber *simt_park(uint32_t kind, uint32_t mask, const char *what, const char *file, int line) {
    simt_fiber *f = simt_current;
    set_wait(f, kind, mask, what, file, line);
    f->warp->runnable &= ~f->bit;
    return next_after_block(f);
}

/* ---- life of a fiber ------------------------------------------------------------------------------- */

/* A thread ended while others wait, or it was the last of its warp or block. */
COLD simt_fiber *exit_slow(simt_fiber *f, simt_warp *w, simt_block *b) {
    simt_copy_drain(f);
    for (uint32_t i = 0; i < w->npending;) {
        const simt_pending p = w->pending[i];
        if (p.mask & ~(p.arrived | w->gone)) {
            i++;
            continue;
        }
        if (simt_opt.strict)
            simt_error(cudaErrorLaunchFailure, "lane %u exits while lanes 0x%08x wait for it at %s:%d", f->lane, p.arrived, p.file, p.line);
        w->pending[i] = w->pending[--w->npending];
        p.fn(w, p.arrived);
        w->runnable |= p.arrived;
    }
    simt_bar *r = &b->bar[0];
    if (r->arrived && !r->count && r->arrived == b->alive) barrier_release(b, r);
    if (!w->runnable) b->warps_ready &= ~(1u << w->index);
    if (!b->alive) {
        if (b->nbulk) simt_bulk_check_end();
        return 0;
    }
    return pick(b, w);
}
/* Retires the thread: who runs next, 0 when the block is done. */
SIMT_INLINE simt_fiber *retire(simt_fiber *f) {
    simt_warp *w = f->warp;
    simt_block *b = w->block;
    const uint32_t runnable = w->runnable &= ~f->bit;
    w->gone |= f->bit;
    b->alive--;
    b->progress++;
    simt_fiber *n = f->next;
    if (LIKELY((runnable & n->bit) && !(w->npending | b->nwaiting | f->ncopies | f->ngroups) && !simt_opt.order)) return n;
    return exit_slow(f, w, b);
}
/* The body of every fiber: runs kernel threads, one after the other on the same stack as long as the
 * next one has not started, so that a kernel without barriers never switches. */
void simt_fiber_loop(void) {
    simt_exec *x = simt_x;
    for (;;) {
        simt_fiber *f = simt_current;
        SIMT_IF_TSAN(__tsan_acquire(&x->tsan_begin);)
        x->launch->kernel->call(x->launch->args);
        SIMT_IF_TSAN(__tsan_release(&x->tsan_end);)
        simt_stack *s = f->stack;
        simt_fiber *n = retire(f);
        f->stack = 0;
        f->sp = 0;
        SIMT_IF_TSAN(if (0)) /* a TSan fiber is bound to its CUDA thread: always switch */
        if (LIKELY(n && !n->sp)) {
            n->stack = s;
            n->sp = s; /* "started"; the true value comes with its first switch */
            simt_current = n;
            threadIdx = n->tid;
            continue;
        }
        if (n && !n->sp) give_stack(n);
        s->next = x->free_stacks;
        x->free_stacks = s;
        if (n) {
            simt_current = n;
            threadIdx = n->tid;
            SIMT_IF_TSAN(__tsan_switch_to_fiber(n->tsan, 1);)
            swap(s, &s->sp, n->stack, n->sp);
        } else {
            SIMT_IF_TSAN(__tsan_switch_to_fiber(x->tsan_main, 1);)
            swap(s, &s->sp, &x->main, x->main.sp);
        }
    }
}
void simt_block_enter(void) {
    simt_exec *x = simt_x;
    simt_fiber *n = pick_in(&x->block);
    SIMT_IF_TSAN(__tsan_release(&x->tsan_begin);)
    x->running = 1;
    simt_current = n;
    threadIdx = n->tid;
    give_stack(n);
    SIMT_IF_TSAN(__tsan_switch_to_fiber(n->tsan, 1);)
    swap(&x->main, &x->main.sp, n->stack, n->sp);
    SIMT_IF_TSAN(__tsan_acquire(&x->tsan_end);)
    x->running = 0;
    simt_current = 0;
}
void simt_block_abandon(cudaError_t e) {
    fflush(stderr);
    if (simt_opt.abort) abort();
    simt_x->failed = e;
    simt_x->running = 0;
    simt_stack dead;
    SIMT_IF_TSAN(__tsan_switch_to_fiber(simt_x->tsan_main, 1);)
    swap(&dead, &dead.sp, &simt_x->main, simt_x->main.sp);
    __builtin_unreachable();
}
