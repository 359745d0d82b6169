// SPDX-License-Identifier: MIT
/* test_core.c - statuses and their texts, devices, contexts, the launch function, failures. */
#define _POSIX_C_SOURCE 200809L /* setenv, fork */
#include "../src/kernels/kernels.h"
#include "failing_allocator.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), INGOT_OK)
#define FAILS(call, status) assert_int_equal((call), (status))
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *program; /* argv[0], to start again */

/* ---- statuses */

static void statuses_have_names(void **state) {
    (void)state;
    assert_string_equal(ingot_status_name(INGOT_OK), "INGOT_OK");
    assert_string_equal(ingot_status_name(INGOT_ERR_INVALID), "INGOT_ERR_INVALID");
    assert_string_equal(ingot_status_name(INGOT_ERR_LOST), "INGOT_ERR_LOST");
    assert_string_equal(ingot_status_name(INGOT_ERR_BLAS), "INGOT_ERR_BLAS");
    assert_string_equal(ingot_status_name((ingot_status)99), "unknown status");
    assert_string_equal(ingot_status_name((ingot_status)-1), "unknown status");
}

static void collect(void *user, const char *text) {
    char *lines = user;

    snprintf(lines + strlen(lines), 4096 - strlen(lines), "%s\n", text);
}

static void texts_go_to_context_or_thread(void **state) {
    char lines[4096] = "";
    ingot_context ctx = {.log = collect, .log_user = lines};
    char long_text[2 * INGOT_ERROR_TEXT];

    (void)state;
    FAILS(ingot_fail(&ctx, INGOT_ERR_INVALID, "ne[%d] is %s", 2, "odd"), INGOT_ERR_INVALID);
    assert_string_equal(ingot_error(&ctx), "ne[2] is odd");
    assert_string_equal(lines, "INGOT_ERR_INVALID: ne[2] is odd\n");
    FAILS(ingot_fail(NULL, INGOT_ERR_STATE, "early"), INGOT_ERR_STATE);
    assert_string_equal(ingot_error(NULL), "early");
    assert_string_equal(ingot_error(&ctx), "ne[2] is odd");
    ingot_fail(&ctx, INGOT_ERR_INVALID, "again: %s", ingot_error(&ctx)); /* a text may hold the one before */
    assert_string_equal(ingot_error(&ctx), "again: ne[2] is odd");
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    ingot_fail(&ctx, INGOT_ERR_INVALID, "%s", long_text);
    assert_int_equal(strlen(ingot_error(&ctx)), INGOT_ERROR_TEXT - 1);
}

static void *other_thread(void *out) {
    snprintf(out, 64, "%s", ingot_error(NULL));
    ingot_fail(NULL, INGOT_ERR_INVALID, "of the other thread");
    return NULL;
}

static void texts_are_per_thread(void **state) {
    char seen[64] = "?";
    pthread_t thread;

    (void)state;
    ingot_fail(NULL, INGOT_ERR_INVALID, "of the first thread");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(ingot_error(NULL), "of the first thread");
}

static void cuda_errors_become_statuses(void **state) {
    static const struct {
        int error;
        ingot_status status;
        bool lost;
    } cases[] = {
        {0, INGOT_OK, false},
        {1, INGOT_ERR_CUDA, false},
        {2, INGOT_ERR_DEVICE_MEMORY, false},
        {4, INGOT_ERR_CUDA, false},
        {9, INGOT_ERR_CUDA, false},
        {35, INGOT_ERR_NO_DEVICE, false},
        {100, INGOT_ERR_NO_DEVICE, false},
        {101, INGOT_ERR_NO_DEVICE, false},
        {209, INGOT_ERR_NO_CODE, false},
        {222, INGOT_ERR_NO_CODE, false},
        {400, INGOT_ERR_CUDA, false},
        {700, INGOT_ERR_LOST, true},
        {702, INGOT_ERR_LOST, true},
        {710, INGOT_ERR_LOST, true},
        {714, INGOT_ERR_LOST, true},
        {716, INGOT_ERR_LOST, true},
        {719, INGOT_ERR_LOST, true},
        {901, INGOT_ERR_CUDA, false},
        {999, INGOT_ERR_CUDA, false},
        {123456, INGOT_ERR_CUDA, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        ingot_context ctx = {0};
        FAILS(ingot_check_cuda(&ctx, (cudaError_t)cases[i].error, "cudaThing(a, b)"), cases[i].status);
        assert_int_equal(ctx.lost, cases[i].lost);
        if (cases[i].error == 0 || cases[i].error == 4) { /* 4: the process is exiting */
            assert_string_equal(ctx.error, "");
        } else {
            assert_ptr_equal(strstr(ctx.error, "cudaThing: "), ctx.error);
        }
    }
    FAILS(ingot_check_cuda(NULL, (cudaError_t)222, "x"), INGOT_ERR_NO_CODE);
    assert_non_null(strstr(ingot_error(NULL), "driver is too old"));
    (void)cudaSetDevice(-1);
    FAILS(ingot_check_cuda(NULL, cudaErrorInvalidDevice, "x"), INGOT_ERR_NO_DEVICE);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void flags_are_read_by_value(void **state) {
    static const struct {
        const char *value;
        bool on;
    } cases[] = {
        {"", false},      {"0", false}, {"off", false}, {"OFF", false}, {"no", false},
        {"False", false}, {"1", true},  {"on", true},   {"yes", true},  {"2", true},
    };

    (void)state;
    unsetenv("INGOT_TEST_FLAG");
    assert_true(ingot_env_flag("INGOT_TEST_FLAG", true));
    assert_false(ingot_env_flag("INGOT_TEST_FLAG", false));
    for (size_t i = 0; i < COUNT(cases); i++) {
        setenv("INGOT_TEST_FLAG", cases[i].value, 1);
        assert_int_equal(ingot_env_flag("INGOT_TEST_FLAG", !cases[i].on), cases[i].on);
    }
    unsetenv("INGOT_TEST_FLAG");
}

/* ---- devices */

static void shared_memory_limits_are_made_usable(void **state) {
    (void)state;
    assert_int_equal(ingot_clamp_shared(0), 48 * 1024);
    assert_int_equal(ingot_clamp_shared(1), 48 * 1024);
    assert_int_equal(ingot_clamp_shared(-1), 48 * 1024);
    assert_int_equal(ingot_clamp_shared(4294967297), 48 * 1024);
    assert_int_equal(ingot_clamp_shared(101376), 101376);
    assert_int_equal(ingot_clamp_shared(48 * 1024), 48 * 1024);
    assert_int_equal(ingot_clamp_shared(256 * 1024), 256 * 1024);
    assert_int_equal(ingot_clamp_shared(256 * 1024 + 1), 48 * 1024);
}

static void devices_are_described(void **state) {
    ingot_device device;
    int count = -1;

    (void)state;
    FAILS(ingot_device_count(NULL), INGOT_ERR_INVALID);
    OK(ingot_device_count(&count));
    assert_true(count > 0);
    FAILS(ingot_device_get(0, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_device_get(-1, &device), INGOT_ERR_NO_DEVICE);
    FAILS(ingot_device_get(count, &device), INGOT_ERR_NO_DEVICE);
    assert_non_null(strstr(ingot_error(NULL), "no device"));
    for (int i = 0; i < count; i++) {
        OK(ingot_device_get(i, &device));
        assert_true(strlen(device.name) > 0);
        assert_true(device.cc_major >= 7 && device.cc_minor >= 0 && device.cc_minor < 10);
        assert_true(device.sm_count > 0);
        assert_true(device.memory_total >= device.memory_free && device.memory_free > 0);
        assert_true(device.shared_per_block >= 48 * 1024 && device.shared_per_block <= 256 * 1024);
        assert_true(device.memory_bandwidth >= 0);
        if (device.simt) assert_non_null(strstr(device.name, "SIMT"));
    }
}

/* ---- contexts */

static void bad_options_are_refused(void **state) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_allocator half = {NULL, NULL, NULL};
    ingot_context *ctx = (ingot_context *)&options;
    int count = 0;

    (void)state;
    FAILS(ingot_context_create(NULL, NULL), INGOT_ERR_INVALID);
    options.size = 0;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_INVALID);
    assert_null(ctx);
    options.size = sizeof options + 8;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_INVALID);
    options.size = sizeof options;
    options.allocator = &half;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_INVALID);
    options.allocator = NULL;
    OK(ingot_device_count(&count));
    options.device = count;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_NO_DEVICE);
    options.device = -1;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_NO_DEVICE);
    options.device = 0;
    setenv("INGOT_ARCH", "sm42", 1);
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(NULL), "sm42"));
    unsetenv("INGOT_ARCH");
    options.size = offsetof(ingot_context_options, stream); /* of an older header */
    options.log = (ingot_log_fn)1;
    OK(ingot_context_create(&options, &ctx));
    ingot_context_destroy(ctx);
}

static void null_handles_are_accepted_or_refused(void **state) {
    (void)state;
    ingot_context_destroy(NULL);
    ingot_buffer_destroy(NULL);
    ingot_event_destroy(NULL);
    assert_null(ingot_context_stream(NULL));
    FAILS(ingot_synchronize(NULL), INGOT_ERR_INVALID);
    FAILS(ingot_context_memory(NULL, NULL, NULL), INGOT_ERR_INVALID);
    assert_string_not_equal(ingot_error(NULL), "");
}

static void contexts_live_and_die(void **state) {
    char lines[4096] = "";
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    size_t in_use = 1, held = 1;

    (void)state;
    options.log = collect;
    options.log_user = lines;
    OK(ingot_context_create(&options, &ctx));
    assert_non_null(strstr(lines, "compute capability"));
    assert_non_null(ingot_context_stream(ctx));
    assert_string_equal(ingot_error(ctx), "");
    OK(ingot_synchronize(ctx));
    OK(ingot_context_memory(ctx, &in_use, &held));
    assert_int_equal(in_use, 0);
    assert_int_equal(held, 0);
    ingot_context_destroy(ctx);
    for (int i = 0; i < 20; i++) {
        OK(ingot_context_create(NULL, &ctx));
        ingot_context_destroy(ctx);
    }
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void a_callers_stream_stays_the_callers(void **state) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    cudaStream_t stream = NULL, foreign = NULL;
    int count = 0;

    (void)state;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
    options.stream = stream;
    OK(ingot_context_create(&options, &ctx));
    assert_ptr_equal(ingot_context_stream(ctx), stream);
    ingot_context_destroy(ctx);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    OK(ingot_device_count(&count));
    if (count < 2) skip();
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaStreamCreate(&foreign), cudaSuccess);
    options.stream = foreign;
    FAILS(ingot_context_create(&options, &ctx), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(NULL), "the stream is of device 1"));
    assert_int_equal(cudaStreamDestroy(foreign), cudaSuccess);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static void the_current_device_is_restored(void **state) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    ingot_device device;
    int count = 0, current = -1;

    (void)state;
    OK(ingot_device_count(&count));
    if (count < 2) skip();
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    options.device = 1;
    OK(ingot_context_create(&options, &ctx));
    assert_int_equal(cudaGetDevice(&current), cudaSuccess);
    assert_int_equal(current, 0);
    OK(ingot_synchronize(ctx));
    OK(ingot_device_get(1, &device));
    ingot_context_destroy(ctx);
    assert_int_equal(cudaGetDevice(&current), cudaSuccess);
    assert_int_equal(current, 0);
}

/* ---- launches */

/* One q4_0 block of scale 1, codes 0..15 twice, through DEQUANT to f32. */
static void check_dequant(ingot_context *ctx) {
    const struct ingot_kernel *kernel =
        ingot_find_exact(ctx->table, INGOT_FAMILY_DEQUANT, INGOT_TYPE_Q4_0, INGOT_TYPE_F32);
    unsigned char block[18] = {0x00, 0x3c};
    float out[32];
    const int64_t ne = 32;
    ingot_tensor x, y;
    ingot_buffer *xb = NULL, *yb = NULL;

    assert_non_null(kernel);
    for (int i = 0; i < 16; i++) block[2 + i] = (unsigned char)(i | (15 - i) << 4);
    OK(ingot_tensor_init(&x, INGOT_TYPE_Q4_0, 1, &ne, NULL));
    OK(ingot_tensor_init(&y, INGOT_TYPE_F32, 1, &ne, NULL));
    OK(ingot_buffer_create_for(ctx, &x, &xb));
    OK(ingot_buffer_create_for(ctx, &y, &yb));
    OK(ingot_buffer_set(xb, 0, block, sizeof block));
    struct ingot_dequant_args args = {{x.data, {32, 1, 1, 1}, {18, 18, 18, 18}},
                                      {y.data, {32, 1, 1, 1}, {4, 128, 128, 128}}};
    OK(ingot_launch(ctx, kernel, (struct ingot_grid){.blocks = 1}, &args));
    OK(ingot_buffer_get(yb, 0, out, sizeof out));
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == (float)(i - 8));
        assert_true(out[16 + i] == (float)(7 - i));
    }
    ingot_buffer_destroy(xb);
    ingot_buffer_destroy(yb);
}

static void launches_run_and_fail_with_a_text(void **state) {
    ingot_context *ctx = NULL;
    char lines[4096] = "";

    (void)state;
    OK(ingot_context_create(NULL, &ctx));
    struct ingot_kernel kernel = *ingot_find_exact(ctx->table, INGOT_FAMILY_DEQUANT, INGOT_TYPE_Q4_0, INGOT_TYPE_F32);
    struct ingot_dequant_args args = {0};
    FAILS(ingot_launch(ctx, &kernel, (struct ingot_grid){.blocks = 0}, &args), INGOT_ERR_INVALID);
    FAILS(ingot_launch(ctx, &kernel, (struct ingot_grid){.blocks = -5}, &args), INGOT_ERR_INVALID);
    FAILS(ingot_launch(ctx, &kernel, (struct ingot_grid){.blocks = (int64_t)INT_MAX + 1}, &args),
          INGOT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ingot_error(ctx), kernel.symbol));
    kernel.threads = 4096; /* no block is that large */
    FAILS(ingot_launch(ctx, &kernel, (struct ingot_grid){.blocks = 7}, &args), INGOT_ERR_CUDA);
    assert_non_null(strstr(ingot_error(ctx), kernel.symbol));
    assert_non_null(strstr(ingot_error(ctx), "grid 7, block 4096"));
    kernel.threads = 32;
    kernel.smem = 1 << 30; /* nor has one so much shared memory */
    FAILS(ingot_launch(ctx, &kernel, (struct ingot_grid){.blocks = 7}, &args), INGOT_ERR_CUDA);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    ctx->log = collect;
    ctx->log_user = lines;
    ingot_log_choice(ctx, "mul_mat q4_0", &kernel, 7);
    assert_non_null(strstr(lines, "mul_mat q4_0 -> "));
    assert_non_null(strstr(lines, kernel.symbol));
    ctx->log = NULL;
    check_dequant(ctx); /* the context is as good as before */
    ingot_context_destroy(ctx);
}

static void *work_in_a_thread(void *ok) {
    ingot_context *ctx = NULL;

    for (int i = 0; i < 10; i++) {
        if (ingot_context_create(NULL, &ctx) != INGOT_OK) return NULL;
        check_dequant(ctx);
        ingot_buffer_set(NULL, 0, NULL, 0);
        ingot_context_destroy(ctx);
    }
    *(bool *)ok = true;
    return NULL;
}

static void contexts_run_in_threads(void **state) {
    pthread_t threads[4];
    bool ok[4] = {false};

    (void)state;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, work_in_a_thread, &ok[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_true(ok[i]);
}

/* ---- failures */

/* Everything that allocates, once; returns the first failure. */
static ingot_status use_everything(const ingot_allocator *allocator) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    ingot_buffer *device = NULL, *pinned = NULL;
    ingot_event *event = NULL;
    ingot_status st = INGOT_OK;
    void *a = NULL, *b = NULL;

    options.allocator = allocator;
    options.blas_workspace = 1 << 20;
    INGOT_TRY(ingot_context_create(&options, &ctx), st, done);
    INGOT_TRY(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 1024, &device), st, done);
    INGOT_TRY(ingot_buffer_create(ctx, INGOT_MEMORY_PINNED, 1000, &pinned), st, done);
    INGOT_TRY(ingot_event_create(ctx, &event), st, done);
    INGOT_TRY(ingot_pool_alloc(ctx, ctx->pool, 3000, &a), st, done);
    INGOT_TRY(ingot_pool_alloc(ctx, ctx->pool, (size_t)5 << 20, &b), st, done);
    INGOT_TRY(ingot_buffer_fill(device, 0, 1, 1024), st, done);

done:
    if (st != INGOT_OK && strlen(ingot_error(ctx)) == 0) st = (ingot_status)-1; /* every failure has a text */
    if (ctx) ingot_pool_free(ctx->pool, a);
    if (ctx) ingot_pool_free(ctx->pool, b);
    ingot_event_destroy(event);
    ingot_buffer_destroy(device);
    ingot_buffer_destroy(pinned);
    ingot_context_destroy(ctx);
    return st;
}

static void every_allocation_may_fail(void **state) {
    struct failing_allocator count = failing_allocator_make(-1, false);
    ingot_allocator allocator = failing_allocator_of(&count);

    (void)state;
    OK(use_everything(&allocator));
    assert_int_equal(failing_allocator_live(&count), 0);
    assert_true(count.calls > 10);
    for (int later = 0; later < 2; later++) {
        for (int i = 0; i < count.calls; i++) {
            struct failing_allocator failing = failing_allocator_make(i, later == 1);
            allocator = failing_allocator_of(&failing);
            const ingot_status st = use_everything(&allocator);
            assert_int_equal(failing_allocator_live(&failing), 0);
            assert_true(failing.failures > 0);
            if (st == INGOT_OK && later == 0) continue; /* the pool tried a smaller chunk */
            assert_int_equal(st, failing.failed_kind == INGOT_MEMORY_HOST ? INGOT_ERR_HOST_MEMORY
                                                                          : INGOT_ERR_DEVICE_MEMORY);
        }
    }
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void *misaligned_alloc(void *user, ingot_memory kind, size_t bytes) {
    char *ptr = failing_alloc(user, kind, bytes + 256);

    return ptr && kind == INGOT_MEMORY_DEVICE ? ptr + 64 : ptr;
}

static void misaligned_free(void *user, ingot_memory kind, void *ptr) {
    failing_free(user, kind, kind == INGOT_MEMORY_DEVICE ? (char *)ptr - 64 : ptr);
}

static void a_misaligned_allocator_is_caught(void **state) {
    struct failing_allocator inner = failing_allocator_make(-1, false);
    const ingot_allocator allocator = {misaligned_alloc, misaligned_free, &inner};

    (void)state;
    FAILS(use_everything(&allocator), INGOT_ERR_INVALID);
    assert_int_equal(failing_allocator_live(&inner), 0);
}

/* A sticky error ends a context and its siblings on the device; after the last one is gone the device works again. */
static void a_lost_context_is_dead_and_replaceable(void **state) {
    ingot_context *ctx = NULL, *sibling = NULL, *third = NULL;
    ingot_buffer *buffer = NULL, *none = NULL;
    ingot_event *event = NULL;
    char byte = 0;

    (void)state;
    OK(ingot_context_create(NULL, &ctx));
    OK(ingot_context_create(NULL, &sibling));
    OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 100, &buffer));
    OK(ingot_event_create(ctx, &event));
    FAILS(ingot_check_cuda(ctx, cudaErrorIllegalAddress, "a kernel"), INGOT_ERR_LOST);
    FAILS(ingot_synchronize(ctx), INGOT_ERR_LOST);
    FAILS(ingot_buffer_set(buffer, 0, &byte, 1), INGOT_ERR_LOST);
    FAILS(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 100, &none), INGOT_ERR_LOST);
    assert_null(none);
    FAILS(ingot_event_record(event, ctx), INGOT_ERR_LOST);
    assert_non_null(strstr(ingot_error(ctx), "lost"));
    ingot_event_destroy(event);
    ingot_buffer_destroy(buffer);
    ingot_context_destroy(ctx);
    FAILS(ingot_context_create(NULL, &third), INGOT_ERR_LOST); /* the sibling still holds the device */
    assert_null(third);
    ingot_context_destroy(sibling);
    OK(ingot_context_create(NULL, &ctx));
    check_dequant(ctx);
    ingot_context_destroy(ctx);
}

/* ---- the end of a process */

static ingot_context *left_over, *left_in_thread;

static void *leave_in_thread(void *unused) {
    (void)unused;
    (void)ingot_context_create(NULL, &left_in_thread);
    return NULL;
}

/* What `program leave` does: contexts are still there when main returns. */
static int leave(void) {
    pthread_t thread;

    if (ingot_context_create(NULL, &left_over) != INGOT_OK) return 1;
    if (pthread_create(&thread, NULL, leave_in_thread, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    return left_in_thread ? 0 : 3;
}

static void a_process_may_end_without_destroying(void **state) {
    char output[256] = "";
    int out[2], status = -1;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(out), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        close(out[0]);
        close(out[1]);
        execl(program, program, "leave", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    const ssize_t n = read(out[0], output, sizeof output - 1);
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(n == 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(texts_go_to_context_or_thread),
        cmocka_unit_test(texts_are_per_thread),
        cmocka_unit_test(cuda_errors_become_statuses),
        cmocka_unit_test(flags_are_read_by_value),
        cmocka_unit_test(shared_memory_limits_are_made_usable),
        cmocka_unit_test(devices_are_described),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(null_handles_are_accepted_or_refused),
        cmocka_unit_test(contexts_live_and_die),
        cmocka_unit_test(a_callers_stream_stays_the_callers),
        cmocka_unit_test(the_current_device_is_restored),
        cmocka_unit_test(launches_run_and_fail_with_a_text),
        cmocka_unit_test(contexts_run_in_threads),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_misaligned_allocator_is_caught),
        cmocka_unit_test(a_lost_context_is_dead_and_replaceable),
        cmocka_unit_test(a_process_may_end_without_destroying),
    };

    unsetenv("INGOT_LOG");
    unsetenv("INGOT_ARCH");
    setenv("INGOT_SIMT_DEVICES", "2", 0);
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "leave") == 0) return leave();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
