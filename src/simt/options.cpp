/* SPDX-License-Identifier: MIT
 *
 * options.cpp - the INGOT_SIMT_* environment. docs/simt.md lists the variables and their meaning.
 */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/simt/internal.h"

simt_options simt_opt;

/* A switch is off when unset, empty, "0", "off", "no" or "false". */
static int env_bool(const char *name) {
    const char *s = getenv(name);
    if (!s || !*s) return 0;
    return strcmp(s, "0") && strcmp(s, "off") && strcmp(s, "no") && strcmp(s, "false");
}
static long env_int(const char *name, long fallback, long lo, long hi) {
    const char *s = getenv(name);
    if (!s || !*s) return fallback;
    char *end;
    const long v = strtol(s, &end, 10);
    if (*end || v < lo || v > hi) {
        fprintf(stderr, "simt: %s=%s is not a number from %ld to %ld; using %ld\n", name, s, lo, hi, fallback);
        return fallback;
    }
    return v;
}
static int online_cores(void) {
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > 32 ? 32 : n; /* beyond 32 the mappings of the fiber stacks near the kernel's limit */
}
/* Opt-in shared memory per block, by compute capability. */
static long smem_of_cc(int cc) {
    switch (cc) {
    case 75: return 64 * 1024;
    case 80: case 87: return 163 * 1024;
    case 86: case 89: case 120: case 121: return 99 * 1024;
    default: return 227 * 1024;
    }
}
static void read_order(void) {
    const char *s = getenv("INGOT_SIMT_ORDER");
    if (!s || !*s || !strcmp(s, "fwd")) return;
    if (!strcmp(s, "rev")) {
        simt_opt.order = SIMT_ORDER_REVERSE;
    } else if (!strncmp(s, "rand", 4) && (!s[4] || s[4] == ':')) {
        simt_opt.order = SIMT_ORDER_RANDOM;
        simt_opt.seed = s[4] ? (uint32_t)strtoul(s + 5, 0, 10) : 1;
    } else {
        fprintf(stderr, "simt: INGOT_SIMT_ORDER=%s is none of fwd, rev, rand:SEED; using fwd\n", s);
    }
}
static void init_once(void) {
    const char *async = getenv("INGOT_SIMT_ASYNC");
    simt_opt.devices = (int)env_int("INGOT_SIMT_DEVICES", 1, 0, 64);
    simt_opt.threads = (int)env_int("INGOT_SIMT_THREADS", online_cores(), 1, 256);
    simt_opt.cc = (int)env_int("INGOT_SIMT_CC", 90, 75, 121);
    simt_opt.sms = (int)env_int("INGOT_SIMT_SMS", 16, 1, 1024);
    simt_opt.strict = env_bool("INGOT_SIMT_STRICT");
    simt_opt.fill = env_bool("INGOT_SIMT_FILL");
    simt_opt.early = async && !strcmp(async, "early");
    simt_opt.lazy = env_bool("INGOT_SIMT_LAZY");
    simt_opt.guard = env_bool("INGOT_SIMT_GUARD") && !SIMT_ASAN; /* ASan's own red zones need its malloc */
    simt_opt.abort = env_bool("INGOT_SIMT_ABORT");
    simt_opt.watchdog = (int)env_int("INGOT_SIMT_WATCHDOG", 20, 0, 86400);
    simt_opt.stack = (size_t)env_int("INGOT_SIMT_STACK_KB", SIMT_ASAN ? 256 : 64, 16, 65536) * 1024;
    simt_opt.smem_max = (size_t)env_int("INGOT_SIMT_SMEM_MAX", smem_of_cc(simt_opt.cc), 48 * 1024, 227 * 1024);
    simt_opt.memory = (size_t)env_int("INGOT_SIMT_MEMORY_MB", 8192, 1, 1 << 24) << 20;
    read_order();
    SIMT_IF_TSAN(simt_opt.threads = 1;)
    simt_install_handlers();
}
void simt_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}
