// SPDX-License-Identifier: MIT
/* failing_allocator.h - an ingot_allocator for tests: counts, keeps account of what lives, fails on demand. */
#ifndef INGOT_TEST_FAILING_ALLOCATOR_H
#define INGOT_TEST_FAILING_ALLOCATOR_H

#include "../src/base/base.h"

struct failing_allocator {
    ingot_allocator inner;
    int             calls;        /* allocations asked for so far */
    int             live[3];      /* blocks per kind not freed yet */
    int             fail_at;      /* this allocation fails, counted from 0; -1: none */
    bool            and_later;    /* and so do all after it */
    int             device_fails; /* so many device allocations fail, whatever fail_at says */
    int             failures;
    ingot_memory    failed_kind;  /* of the last failure */
    size_t          device_bytes; /* of the largest device block asked for */
};

static inline void *failing_alloc(void *user, ingot_memory kind, size_t bytes)
{
    struct failing_allocator *f = user;
    const int                 call = f->calls++;
    const bool                device_fails = kind == INGOT_MEMORY_DEVICE && f->device_fails > 0;
    void                     *ptr = NULL;

    if (device_fails) f->device_fails--;
    if (!device_fails && (f->fail_at < 0 || (f->and_later ? call < f->fail_at : call != f->fail_at))) {
        ptr = f->inner.alloc(f->inner.user, kind, bytes);
    }
    if (kind == INGOT_MEMORY_DEVICE && bytes > f->device_bytes) f->device_bytes = bytes;
    if (ptr) {
        f->live[kind]++;
    } else {
        f->failures++;
        f->failed_kind = kind;
    }
    return ptr;
}

static inline void failing_free(void *user, ingot_memory kind, void *ptr)
{
    struct failing_allocator *f = user;

    f->live[kind]--;
    f->inner.free(f->inner.user, kind, ptr);
}

static inline struct failing_allocator failing_allocator_make(int fail_at, bool and_later)
{
    return (struct failing_allocator){.inner = ingot_default_allocator(), .fail_at = fail_at, .and_later = and_later};
}

static inline ingot_allocator failing_allocator_of(struct failing_allocator *f)
{
    return (ingot_allocator){failing_alloc, failing_free, f};
}

static inline int failing_allocator_live(const struct failing_allocator *f)
{
    return f->live[0] + f->live[1] + f->live[2];
}

#endif
