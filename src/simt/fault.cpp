/* SPDX-License-Identifier: MIT
 *
 * fault.cpp - what happens when a kernel goes wrong: the report on stderr (kernel, block, threads,
 * file:line), then the block is abandoned and its launch returns a CUDA error. Signals raised by
 * kernel code come here too; signals of other code go to whoever handled them before.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/simt/internal.h"

#define WATCHDOG_SIGNAL (SIGRTMIN + 7)

/* ---- reports --------------------------------------------------------------------------------------- */

void simt_report_where(FILE *o) {
    const simt_exec *x = simt_x;
    if (!x || !x->launch || !x->running) return;
    const simt_launch *l = x->launch;
    fprintf(o, "simt: in kernel '%s' grid (%u,%u,%u) block (%u,%u,%u)", l->kernel->name, l->grid.x, l->grid.y, l->grid.z,
            blockIdx.x, blockIdx.y, blockIdx.z);
    const simt_fiber *f = simt_current;
    if (f)
        fprintf(o, " thread (%u,%u,%u) [linear %ld, warp %u lane %u]", f->tid.x, f->tid.y, f->tid.z, (long)(f - x->fiber),
                f->warp->index, f->lane);
    fprintf(o, "\n");
}
void simt_error(cudaError_t e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "simt: ERROR: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    simt_report_where(stderr);
    simt_block_abandon(e);
}
extern "C" void simt_trap(cudaError_t e, const char *why, const char *file, int line) { simt_error(e, "%s at %s:%d", why, file, line); }

static bool waits_alike(const simt_fiber *f, const simt_fiber *g) {
    return f->what == g->what && f->line == g->line && f->file == g->file && f->mask == g->mask && f->wait == g->wait;
}
static bool exited(const simt_fiber *f) { return f->warp->gone >> f->lane & 1; }

/* Prints the threads that wait as `f` does, as ranges, and marks them in `seen`. */
static void print_alike(const simt_fiber *f, bool *seen) {
    const simt_block *b = &simt_x->block;
    const char *sep = " ";
    for (uint32_t i = 0; i < b->nthreads; i++) {
        uint32_t end = i;
        while (end < b->nthreads && !exited(&simt_x->fiber[end]) && waits_alike(f, &simt_x->fiber[end])) seen[end++] = true;
        if (end == i) continue;
        fprintf(stderr, end - i > 1 ? "%s%u-%u" : "%s%u", sep, i, end - 1);
        sep = ",";
        i = end;
    }
}
void simt_deadlock(void) {
    const simt_block *b = &simt_x->block;
    bool seen[SIMT_MAX_THREADS] = {false};
    uint32_t gone = 0;
    simt_current = 0; /* no single thread is to blame */
    fprintf(stderr, "simt: DEADLOCK: no thread can run\n");
    simt_report_where(stderr);
    for (uint32_t i = 0; i < b->nthreads; i++) {
        const simt_fiber *f = &simt_x->fiber[i];
        if (exited(f)) gone++;
        if (seen[i] || exited(f)) continue;
        fprintf(stderr, "simt:   waiting at %s (%s:%d)", f->what, f->file, f->line);
        if (f->wait == SIMT_WAIT_COLLECTIVE) fprintf(stderr, " mask 0x%08x", f->mask);
        if (f->wait == SIMT_WAIT_MBARRIER) {
            const simt_mbarrier *m = &b->mbarrier[f->mask];
            fprintf(stderr, " mbarrier at shared byte %u, phase %u, %u of %u arrivals and %d bytes missing",
                    simt_shared_offset(m->at), m->phase, m->pending, m->count, m->tx);
        }
        fprintf(stderr, ": threads");
        print_alike(f, seen);
        for (uint32_t k = 0; f->wait == SIMT_WAIT_COLLECTIVE && k < f->warp->npending; k++) {
            const simt_pending *p = &f->warp->pending[k];
            if (p->mask == f->mask && (p->arrived & f->bit))
                fprintf(stderr, "; warp %u misses lanes 0x%08x", f->warp->index, p->mask & ~p->arrived & ~f->warp->gone);
        }
        fprintf(stderr, "\n");
    }
    if (gone) fprintf(stderr, "simt:   %u thread(s) have exited\n", gone);
    simt_block_abandon(cudaErrorLaunchTimeout);
}

/* Sanitizers call these before they print: the report then names the CUDA thread. */
#if SIMT_ASAN
extern "C" void __asan_on_error(void) { simt_report_where(stderr); }
#endif
#if defined(SIMT_UBSAN)
extern "C" void __ubsan_on_report(void) { simt_report_where(stderr); }
#endif

/* ---- signals ----------------------------------------------------------------------------------------- */

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction previous[65];

static cudaError_t error_of_signal(int sig, const char *addr) {
    const simt_stack *s = simt_current->stack;
    if (sig == SIGFPE || sig == SIGILL) return cudaErrorIllegalInstruction;
    if (addr >= s->base - 4096 && addr < s->base) {
        fprintf(stderr, "simt: stack overflow: %zu KiB per thread (INGOT_SIMT_STACK_KB)\n", s->size / 1024);
        return cudaErrorHardwareStackError;
    }
    return cudaErrorIllegalAddress;
}
static void in_kernel(int sig, siginfo_t *si) {
    if (sig == WATCHDOG_SIGNAL) {
        fprintf(stderr, "simt: ERROR: no end in sight: the block has run for %d s (INGOT_SIMT_WATCHDOG)\n", simt_opt.watchdog);
        simt_report_where(stderr);
        simt_block_abandon(cudaErrorLaunchTimeout);
    }
    char what[256] = "";
    if (sig == SIGSEGV || sig == SIGBUS) simt_describe_address(si->si_addr, what, sizeof what);
    fprintf(stderr, "simt: ERROR: %s at address %p %s\n", strsignal(sig), si->si_addr, what);
    simt_report_where(stderr);
    simt_block_abandon(error_of_signal(sig, (const char *)si->si_addr));
}
static void on_signal(int sig, siginfo_t *si, void *context) {
    if (simt_x && simt_x->running && simt_current) in_kernel(sig, si);
    if (sig == WATCHDOG_SIGNAL) return; /* the block ended meanwhile */
    if (simt_opt.guard && (sig == SIGSEGV || sig == SIGBUS)) {
        char what[256];
        simt_describe_address(si->si_addr, what, sizeof what);
        fprintf(stderr, "simt: host code touched address %p %s\n", si->si_addr, what);
    }
    const struct sigaction *p = &previous[sig];
    if (p->sa_flags & SA_SIGINFO) {
        p->sa_sigaction(sig, si, context);
    } else if (p->sa_handler != SIG_DFL && p->sa_handler != SIG_IGN) {
        p->sa_handler(sig);
    } else {
        signal(sig, SIG_DFL);
        raise(sig);
    }
}
void simt_install_handlers(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = on_signal;
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(WATCHDOG_SIGNAL, &sa, 0);
    if (SIMT_ASAN) return; /* ASan's own report is better; it names the thread through __asan_on_error */
    for (int s : fault_signals) sigaction(s, &sa, &previous[s]);
}

/* ---- watchdog: an endless loop without any barrier is seen by nothing else ------------------------------ */

static void *watchdog(void *) {
    struct {
        simt_exec *x;
        uint64_t blocks;
        int idle;
    } seen[256] = {};
    for (;;) {
        sleep(1);
        pthread_mutex_lock(&simt_execs_mutex);
        int i = 0;
        for (simt_exec *x = simt_execs; x && i < 256; x = x->next, i++) {
            if (!x->running || seen[i].x != x || seen[i].blocks != x->blocks) {
                seen[i].x = x;
                seen[i].blocks = x->blocks;
                seen[i].idle = 0;
            } else if (++seen[i].idle >= simt_opt.watchdog) {
                seen[i].idle = 0;
                pthread_kill(x->self, WATCHDOG_SIGNAL);
            }
        }
        pthread_mutex_unlock(&simt_execs_mutex);
    }
    return 0;
}
void simt_watchdog_start(void) {
    pthread_t t;
    pthread_attr_t attr;
    if (simt_opt.watchdog == 0) return;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_create(&t, &attr, watchdog, 0);
    pthread_attr_destroy(&attr);
}
