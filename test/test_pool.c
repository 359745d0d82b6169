// SPDX-License-Identifier: MIT
/* test_pool.c - the scratch pool: blocks that do not meet, growth that is bounded, failures that leave it usable.  The
 * SIMT host runs this with lazy streams, as test_buffers.c. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "../src/kernels/kernels.h"
#include "failing_allocator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), INGOT_OK)
#define FAILS(call, status) assert_int_equal((call), (status))
#define MIB ((size_t)1 << 20)

static unsigned next(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static ingot_context *context_on(int device) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;

    options.device = device;
    options.blas_workspace = MIB;
    OK(ingot_context_create(&options, &ctx));
    return ctx;
}

static void pool_blocks_are_aligned_and_apart(void **state) {
    enum { LIVE = 24 };
    struct {
        char *ptr;
        size_t bytes;
    } live[LIVE] = {{NULL, 0}};
    ingot_context *ctx = context_on(0);
    size_t in_use = 0, held = 0;
    unsigned seed = 99;

    (void)state;
    for (int round = 0; round < 10000; round++) {
        const unsigned i = next(&seed) % LIVE;
        ingot_pool_free(ctx->pool, live[i].ptr);
        live[i].bytes = next(&seed) % 8 == 0 ? next(&seed) * 40u : next(&seed) % 5000;
        OK(ingot_pool_alloc(ctx, ctx->pool, live[i].bytes, (void **)&live[i].ptr));
        assert_int_equal((uintptr_t)live[i].ptr % 256, 0);
        assert_int_equal(live[i].ptr == NULL, live[i].bytes == 0);
        for (unsigned j = 0; j < LIVE && live[i].ptr; j++) {
            if (j == i || !live[j].ptr) continue;
            assert_true(live[i].ptr + live[i].bytes <= live[j].ptr || live[j].ptr + live[j].bytes <= live[i].ptr);
        }
    }
    OK(ingot_context_memory(ctx, &in_use, &held));
    assert_true(in_use > 0 && held >= in_use);
    for (unsigned i = 0; i < LIVE; i++) ingot_pool_free(ctx->pool, live[i].ptr);
    ingot_pool_free(ctx->pool, NULL);
    ingot_pool_free(ctx->pool, &seed); /* not of this pool: nothing happens */
    OK(ingot_context_memory(ctx, &in_use, NULL));
    assert_int_equal(in_use, 0);
    ingot_context_destroy(ctx);
}

static void pool_joins_what_is_free_again(void **state) {
    ingot_context *ctx = context_on(0);
    void *a, *b, *c, *all;
    size_t held = 0, later = 0;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    OK(ingot_pool_alloc(ctx, ctx->pool, 1000, &a));
    ingot_pool_free(ctx->pool, a);
    OK(ingot_context_memory(ctx, NULL, &held));
    for (int i = 0; i < 6; i++) {
        OK(ingot_pool_alloc(ctx, ctx->pool, 1000, &a));
        OK(ingot_pool_alloc(ctx, ctx->pool, 2000, &b));
        OK(ingot_pool_alloc(ctx, ctx->pool, held - 1024 - 2048, &c));
        void *blocks[] = {a, b, c};
        for (int k = 0; k < 3; k++) ingot_pool_free(ctx->pool, blocks[orders[i][k]]);
        OK(ingot_pool_alloc(ctx, ctx->pool, held, &all));
        ingot_pool_free(ctx->pool, all);
        OK(ingot_context_memory(ctx, NULL, &later));
        assert_int_equal(later, held);
    }
    ingot_context_destroy(ctx);
}

/* A request that creeps up must not leave a trail of chunks behind. */
static void pool_does_not_pile_up(void **state) {
    struct failing_allocator counting = failing_allocator_make(-1, false);
    const ingot_allocator allocator = failing_allocator_of(&counting);
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;

    (void)state;
    options.allocator = &allocator;
    options.blas_workspace = MIB;
    OK(ingot_context_create(&options, &ctx));
    const int before = counting.calls;
    for (size_t i = 0; i < 4000; i++) {
        const size_t bytes = MIB + i * 4096;
        size_t held = 0;
        void *ptr;
        OK(ingot_pool_alloc(ctx, ctx->pool, bytes, &ptr));
        ingot_pool_free(ctx->pool, ptr);
        OK(ingot_context_memory(ctx, NULL, &held));
        assert_true(held <= 2 * bytes || held <= 2 * MIB);
    }
    assert_true(counting.calls - before < 120);
    ingot_context_destroy(ctx);
    assert_int_equal(failing_allocator_live(&counting), 0);
}

static void pool_survives_failures(void **state) {
    struct failing_allocator failing = failing_allocator_make(-1, true);
    const ingot_allocator allocator = failing_allocator_of(&failing);
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    void *a = NULL, *b = NULL;
    size_t in_use = 0, held = 0;

    (void)state;
    options.allocator = &allocator;
    options.blas_workspace = MIB;
    OK(ingot_context_create(&options, &ctx));
    OK(ingot_pool_alloc(ctx, ctx->pool, 1000, &a));
    failing.fail_at = 0;
    FAILS(ingot_pool_alloc(ctx, ctx->pool, 100 * MIB, &b), INGOT_ERR_HOST_MEMORY);
    assert_null(b);
    failing.fail_at = -1;
    failing.device_fails = 2; /* the rounded-up chunk and the exact one */
    FAILS(ingot_pool_alloc(ctx, ctx->pool, 100 * MIB, &b), INGOT_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(ingot_error(ctx), "out of device memory"));
    FAILS(ingot_pool_alloc(ctx, ctx->pool, SIZE_MAX, &b), INGOT_ERR_DEVICE_MEMORY);
    FAILS(ingot_pool_alloc(ctx, ctx->pool, SIZE_MAX / 2 + 1, &b), INGOT_ERR_DEVICE_MEMORY);
    OK(ingot_pool_alloc(ctx, ctx->pool, 1000, &b));
    ingot_pool_free(ctx->pool, a);
    ingot_pool_free(ctx->pool, b);
    OK(ingot_context_memory(ctx, &in_use, &held));
    assert_int_equal(in_use, 0);
    /* a rounded-up chunk that does not fit is asked for again as it was wanted */
    failing.device_fails = 1;
    failing.device_bytes = 0;
    OK(ingot_pool_alloc(ctx, ctx->pool, 9 * MIB + 1, &a));
    OK(ingot_context_memory(ctx, NULL, &held));
    assert_true(held < failing.device_bytes);
    ingot_pool_free(ctx->pool, a);
    ingot_context_destroy(ctx);
    assert_int_equal(failing_allocator_live(&failing), 0);
}

static void pool_does_not_grow_under_capture(void **state) {
    ingot_context *ctx = context_on(0);
    cudaGraph_t graph = NULL;
    void *a = NULL, *b = NULL;
    size_t held = 0, later = 0;

    (void)state;
    OK(ingot_pool_alloc(ctx, ctx->pool, 1000, &a));
    ingot_pool_free(ctx->pool, a);
    assert_int_equal(cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    FAILS(ingot_pool_alloc(ctx, ctx->pool, 50 * MIB, &b), INGOT_ERR_STATE);
    assert_non_null(strstr(ingot_error(ctx), "before recording"));
    OK(ingot_pool_alloc(ctx, ctx->pool, 5000, &b));
    ingot_pool_free(ctx->pool, b);
    assert_int_equal(cudaStreamEndCapture(ctx->stream, &graph), cudaSuccess);
    OK(ingot_context_memory(ctx, NULL, &held));
    OK(ingot_pool_alloc(ctx, ctx->pool, 50 * MIB, &b)); /* the graph's chunk stays */
    OK(ingot_context_memory(ctx, NULL, &later));
    assert_true(later >= held + 50 * MIB);
    ingot_pool_free(ctx->pool, b);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    ingot_context_destroy(ctx);
}

static void *pool_in_a_thread(void *ok) {
    ingot_context *ctx = NULL;
    unsigned seed = (unsigned)(uintptr_t)ok;

    if (ingot_context_create(NULL, &ctx) != INGOT_OK) return NULL;
    for (int i = 0; i < 3000; i++) {
        void *a = NULL, *b = NULL;
        if (ingot_pool_alloc(ctx, ctx->pool, next(&seed) * 16u + 1, &a) != INGOT_OK) return NULL;
        if (ingot_pool_alloc(ctx, ctx->pool, next(&seed) + 1, &b) != INGOT_OK) return NULL;
        if (cudaMemsetAsync(b, 1, 1, ctx->stream) != cudaSuccess) return NULL;
        ingot_pool_free(ctx->pool, a);
        ingot_pool_free(ctx->pool, b);
    }
    *(bool *)ok = ingot_synchronize(ctx) == INGOT_OK;
    ingot_context_destroy(ctx);
    return NULL;
}

static void two_threads_use_their_own_pools(void **state) {
    pthread_t threads[2];
    bool ok[2] = {false, false};

    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, pool_in_a_thread, &ok[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_true(ok[0] && ok[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_blocks_are_aligned_and_apart),
        cmocka_unit_test(pool_joins_what_is_free_again),
        cmocka_unit_test(pool_does_not_pile_up),
        cmocka_unit_test(pool_survives_failures),
        cmocka_unit_test(pool_does_not_grow_under_capture),
        cmocka_unit_test(two_threads_use_their_own_pools),
    };

    unsetenv("INGOT_LOG");
    unsetenv("INGOT_ARCH");
    setenv("INGOT_SIMT_LAZY", "1", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
