// SPDX-License-Identifier: MIT
/* test_buffers.c - buffers, copies across contexts and devices, events.  The SIMT host runs this with
 * lazy streams: work happens when something waits for it, so a missing order shows every time. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "../src/kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), INGOT_OK)
#define FAILS(call, status) assert_int_equal((call), (status))
#define MIB ((size_t)1 << 20)

static ingot_context *context_on(int device) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;

    options.device = device;
    options.blas_workspace = MIB;
    OK(ingot_context_create(&options, &ctx));
    return ctx;
}

static ingot_buffer *device_buffer(ingot_context *ctx, size_t bytes) {
    ingot_buffer *buffer = NULL;

    OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, bytes, &buffer));
    return buffer;
}

static bool all_are(const unsigned char *data, size_t n, unsigned char value) {
    for (size_t i = 0; i < n; i++) {
        if (data[i] != value) return false;
    }
    return true;
}

/* ---- buffers */

static void buffers_are_created_and_refused(void **state) {
    ingot_context *ctx = context_on(0);
    ingot_buffer *buffer = (ingot_buffer *)ctx;
    const int64_t ne[] = {256, 16}, empty[] = {256, 0};
    ingot_tensor t;

    (void)state;
    FAILS(ingot_buffer_create(ctx, INGOT_MEMORY_HOST, 10, &buffer), INGOT_ERR_INVALID);
    assert_null(buffer);
    FAILS(ingot_buffer_create(ctx, (ingot_memory)7, 10, &buffer), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_create(NULL, INGOT_MEMORY_DEVICE, 10, &buffer), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 10, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, SIZE_MAX / 2, &buffer), INGOT_ERR_DEVICE_MEMORY);
    assert_null(buffer);
    FAILS(ingot_buffer_create(ctx, INGOT_MEMORY_PINNED, SIZE_MAX / 2, &buffer), INGOT_ERR_DEVICE_MEMORY);
    OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 0, &buffer));
    assert_null(ingot_buffer_data(buffer));
    assert_int_equal(ingot_buffer_size(buffer), 0);
    OK(ingot_buffer_set(buffer, 0, NULL, 0));
    OK(ingot_buffer_fill(buffer, 0, 1, 0));
    FAILS(ingot_buffer_fill(buffer, 0, 1, 1), INGOT_ERR_INVALID);
    ingot_buffer_destroy(buffer);

    OK(ingot_tensor_init(&t, INGOT_TYPE_Q4_K, 2, ne, NULL));
    OK(ingot_buffer_create_for(ctx, &t, &buffer));
    assert_int_equal(ingot_buffer_size(buffer), 16 * 144);
    assert_non_null(t.data);
    assert_ptr_equal(t.data, ingot_buffer_data(buffer));
    assert_int_equal((uintptr_t)t.data % 256, 0);
    ingot_buffer_destroy(buffer);
    OK(ingot_tensor_init(&t, INGOT_TYPE_Q4_K, 2, empty, NULL));
    OK(ingot_buffer_create_for(ctx, &t, &buffer));
    assert_null(t.data);
    ingot_buffer_destroy(buffer);
    FAILS(ingot_buffer_create_for(ctx, NULL, &buffer), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_create_for(ctx, &t, NULL), INGOT_ERR_INVALID);
    t.ne[1] = 4;
    t.nb[1] = SIZE_MAX;
    FAILS(ingot_buffer_create_for(ctx, &t, &buffer), INGOT_ERR_INVALID);
    OK(ingot_tensor_init(&t, INGOT_TYPE_Q4_K, 2, empty, NULL));
    t.ne[1] = -1;
    FAILS(ingot_buffer_create_for(ctx, &t, &buffer), INGOT_ERR_INVALID);
    assert_null(ingot_buffer_data(NULL));
    assert_int_equal(ingot_buffer_size(NULL), 0);
    ingot_context_destroy(ctx);
}

static void transfers_keep_every_byte(void **state) {
    static unsigned char in[10007], out[10007];
    ingot_context *ctx = context_on(0);
    const ingot_memory kinds[] = {INGOT_MEMORY_DEVICE, INGOT_MEMORY_PINNED};

    (void)state;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 131 + 7);
    for (int k = 0; k < 2; k++) {
        ingot_buffer *buffer = NULL;
        OK(ingot_buffer_create(ctx, kinds[k], sizeof in, &buffer));
        OK(ingot_buffer_set(buffer, 0, in, sizeof in));
        memset(out, 0, sizeof out);
        OK(ingot_buffer_get(buffer, 0, out, sizeof out));
        assert_memory_equal(in, out, sizeof in);
        OK(ingot_buffer_fill(buffer, 100, 0xAB, 50));
        OK(ingot_buffer_set(buffer, 10000, in, 7));
        OK(ingot_buffer_get(buffer, 1, out, sizeof out - 1));
        assert_memory_equal(out, in + 1, 99);
        assert_true(all_are(out + 99, 50, 0xAB));
        assert_memory_equal(out + 149, in + 150, 10000 - 150);
        assert_memory_equal(out + 9999, in, 7);
        ingot_buffer_destroy(buffer);
    }
    ingot_context_destroy(ctx);
}

static void ranges_are_checked(void **state) {
    ingot_context *ctx = context_on(0);
    ingot_buffer *a = device_buffer(ctx, 100), *b = device_buffer(ctx, 60);
    char bytes[200] = {0};

    (void)state;
    FAILS(ingot_buffer_set(a, 1, bytes, 100), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(ctx), "100 bytes at offset 1"));
    FAILS(ingot_buffer_set(a, 101, bytes, 0), INGOT_ERR_INVALID);
    OK(ingot_buffer_set(a, 100, bytes, 0));
    FAILS(ingot_buffer_get(a, SIZE_MAX, bytes, 2), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_get(a, 2, bytes, SIZE_MAX), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_fill(a, 99, 0, 2), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_set(a, 0, NULL, 1), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_get_async(a, 0, NULL, 1), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_set(NULL, 0, bytes, 1), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(b, 0, a, 0, 61), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(b, 0, a, 90, 11), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(NULL, 0, a, 0, 1), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(a, 0, NULL, 0, 1), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(a, 0, a, 9, 10), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(a, 9, a, 0, 10), INGOT_ERR_INVALID);
    FAILS(ingot_buffer_copy(a, 5, a, 5, 10), INGOT_ERR_INVALID);
    OK(ingot_buffer_copy(a, 10, a, 0, 10));
    OK(ingot_buffer_copy(a, 0, a, 0, 0));
    OK(ingot_synchronize(ctx));
    ingot_buffer_destroy(a);
    ingot_buffer_destroy(b);
    ingot_context_destroy(ctx);
}

static void async_transfers_are_ordered(void **state) {
    unsigned char pageable[64], out[64];
    ingot_context *ctx = context_on(0);
    ingot_buffer *buffer = device_buffer(ctx, 64), *pinned = NULL;

    (void)state;
    OK(ingot_buffer_create(ctx, INGOT_MEMORY_PINNED, 64, &pinned));
    memset(pageable, 1, sizeof pageable);
    OK(ingot_buffer_set_async(buffer, 0, pageable, 64));
    memset(pageable, 2, sizeof pageable); /* staged: the change comes too late to be seen */
    OK(ingot_buffer_fill(buffer, 32, 9, 32));
    OK(ingot_buffer_get_async(buffer, 0, ingot_buffer_data(pinned), 64));
    OK(ingot_buffer_fill(buffer, 0, 7, 64)); /* after the get */
    OK(ingot_synchronize(ctx));
    assert_true(all_are(ingot_buffer_data(pinned), 32, 1));
    assert_true(all_are((unsigned char *)ingot_buffer_data(pinned) + 32, 32, 9));
    OK(ingot_buffer_get(buffer, 0, out, 64));
    assert_true(all_are(out, 64, 7));
    ingot_buffer_destroy(pinned);
    ingot_buffer_destroy(buffer);
    ingot_context_destroy(ctx);
}

/* Destroying with work in flight: the memory goes after the work. */
static void destroying_waits(void **state) {
    ingot_context *ctx = context_on(0);
    ingot_buffer *a = device_buffer(ctx, MIB), *b = device_buffer(ctx, MIB);
    void *scratch = NULL;

    (void)state;
    for (int i = 0; i < 8; i++) {
        OK(ingot_buffer_fill(a, 0, i, MIB));
        OK(ingot_buffer_copy(b, 0, a, 0, MIB));
    }
    OK(ingot_pool_alloc(ctx, ctx->pool, MIB, &scratch));
    assert_int_equal(cudaMemsetAsync(scratch, 1, MIB, ctx->stream), cudaSuccess);
    ingot_buffer_destroy(a);
    ingot_buffer_destroy(b);
    assert_int_equal(cudaMemsetAsync(scratch, 2, MIB, ctx->stream), cudaSuccess);
    ingot_context_destroy(ctx); /* with the block still taken */
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void device_memory_runs_out_and_comes_back(void **state) {
    ingot_context *ctx = context_on(0);
    ingot_buffer *buffers[64];
    ingot_device device;
    ingot_status st = INGOT_OK;
    int n = 0;

    (void)state;
    OK(ingot_device_get(0, &device));
    while (n < 64 && st == INGOT_OK) {
        st = ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, device.memory_total / 8, &buffers[n]);
        if (st == INGOT_OK) n++;
    }
    assert_int_equal(st, INGOT_ERR_DEVICE_MEMORY);
    assert_true(n < 8 || n == 8);
    while (n > 0) ingot_buffer_destroy(buffers[--n]);
    buffers[0] = device_buffer(ctx, 1000);
    OK(ingot_buffer_fill(buffers[0], 0, 1, 1000));
    OK(ingot_synchronize(ctx));
    ingot_buffer_destroy(buffers[0]);
    ingot_context_destroy(ctx);
}

/* ---- between contexts */

/* Fills in one context, copies to the other, overwrites at once in the first: the copy saw the first value, and what
 * the second does later sees the copy. */
static void copy_between(ingot_context *from, ingot_context *to, ingot_memory from_kind, ingot_memory to_kind) {
    enum { BYTES = 300001 };
    static unsigned char out[BYTES];
    ingot_buffer *a = NULL, *b = NULL;

    OK(ingot_buffer_create(from, from_kind, BYTES, &a));
    OK(ingot_buffer_create(to, to_kind, BYTES, &b));
    for (int i = 1; i <= 20; i++) {
        OK(ingot_buffer_fill(b, 0, 99, BYTES));
        OK(ingot_buffer_fill(a, 0, i, BYTES));
        OK(ingot_buffer_copy(b, 1, a, 2, BYTES - 2));
        OK(ingot_buffer_fill(a, 0, 200 + i, BYTES));
        if (i % 2) OK(ingot_synchronize(from));
        OK(ingot_buffer_get(b, 0, out, BYTES));
        assert_int_equal(out[0], 99);
        assert_true(all_are(out + 1, BYTES - 2, (unsigned char)i));
        assert_int_equal(out[BYTES - 1], 99);
        OK(ingot_buffer_get(a, 0, out, BYTES));
        assert_true(all_are(out, BYTES, (unsigned char)(200 + i)));
    }
    /* a destroyed source does not hurt the copy */
    OK(ingot_buffer_fill(a, 0, 77, BYTES));
    OK(ingot_buffer_copy(b, 0, a, 0, BYTES));
    ingot_buffer_destroy(a);
    OK(ingot_buffer_get(b, 0, out, BYTES));
    assert_true(all_are(out, BYTES, 77));
    ingot_buffer_destroy(b);
}

static void copies_cross_contexts(void **state) {
    static const ingot_memory kinds[] = {INGOT_MEMORY_DEVICE, INGOT_MEMORY_PINNED};
    ingot_context *a = context_on(0), *b = context_on(0);

    (void)state;
    for (int i = 0; i < 4; i++) copy_between(a, b, kinds[i / 2], kinds[i % 2]);
    copy_between(a, a, INGOT_MEMORY_DEVICE, INGOT_MEMORY_DEVICE);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
}

static void copies_cross_devices(void **state) {
    static const ingot_memory kinds[] = {INGOT_MEMORY_DEVICE, INGOT_MEMORY_PINNED};
    ingot_context *a, *b;
    int count = 0, current = -1;

    (void)state;
    OK(ingot_device_count(&count));
    if (count < 2) skip();
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    a = context_on(0);
    b = context_on(1);
    for (int i = 0; i < 4; i++) copy_between(a, b, kinds[i / 2], kinds[i % 2]);
    for (int i = 0; i < 4; i++) copy_between(b, a, kinds[i / 2], kinds[i % 2]);
    assert_int_equal(cudaGetDevice(&current), cudaSuccess);
    assert_int_equal(current, 0);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
}

static void a_lost_source_is_refused(void **state) {
    ingot_context *a = context_on(0), *b = context_on(0);
    ingot_buffer *from = device_buffer(a, 10), *to = device_buffer(b, 10);

    (void)state;
    a->lost = true;
    FAILS(ingot_buffer_copy(to, 0, from, 0, 10), INGOT_ERR_LOST);
    OK(ingot_synchronize(b));
    a->lost = false;
    ingot_buffer_destroy(from);
    ingot_buffer_destroy(to);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
}

/* ---- events */

static void events_order_streams(void **state) {
    ingot_context *a = context_on(0), *b = context_on(0);
    ingot_buffer *buffer = device_buffer(a, 1000);
    ingot_event *event = NULL;
    unsigned char out[1000];

    (void)state;
    OK(ingot_event_create(a, &event));
    OK(ingot_event_wait(event, b)); /* never recorded: nothing to wait for */
    OK(ingot_event_synchronize(event));
    for (int i = 0; i < 10; i++) {
        OK(ingot_buffer_fill(buffer, 0, i, 1000));
        OK(ingot_event_record(event, a));
        OK(ingot_event_wait(event, b));
        /* b reads a's buffer behind the library's back */
        assert_int_equal(cudaMemcpyAsync(out, ingot_buffer_data(buffer), 1000, cudaMemcpyDeviceToHost, b->stream),
                         cudaSuccess);
        OK(ingot_synchronize(b));
        assert_true(all_are(out, 1000, (unsigned char)i));
    }
    ingot_event_destroy(event);
    ingot_buffer_destroy(buffer);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
}

static void events_measure_time(void **state) {
    ingot_context *ctx = context_on(0);
    ingot_event *start = NULL, *end = NULL;
    ingot_buffer *buffer = device_buffer(ctx, 8 * MIB);
    float ms = -1.0f;

    (void)state;
    FAILS(ingot_event_create(NULL, &start), INGOT_ERR_INVALID);
    FAILS(ingot_event_create(ctx, NULL), INGOT_ERR_INVALID);
    OK(ingot_event_create(ctx, &start));
    OK(ingot_event_create(ctx, &end));
    FAILS(ingot_event_elapsed(start, end, &ms), INGOT_ERR_INVALID);
    OK(ingot_event_record(start, ctx));
    OK(ingot_buffer_fill(buffer, 0, 1, 8 * MIB));
    OK(ingot_event_record(end, ctx));
    OK(ingot_event_elapsed(start, end, &ms));
    assert_true(ms >= 0.0f && ms < 60000.0f);
    FAILS(ingot_event_elapsed(NULL, end, &ms), INGOT_ERR_INVALID);
    FAILS(ingot_event_elapsed(start, NULL, &ms), INGOT_ERR_INVALID);
    FAILS(ingot_event_elapsed(start, end, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_event_record(NULL, ctx), INGOT_ERR_INVALID);
    FAILS(ingot_event_record(start, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_event_wait(NULL, ctx), INGOT_ERR_INVALID);
    FAILS(ingot_event_wait(start, NULL), INGOT_ERR_INVALID);
    FAILS(ingot_event_synchronize(NULL), INGOT_ERR_INVALID);
    ingot_event_destroy(start);
    ingot_event_destroy(end);
    ingot_buffer_destroy(buffer);
    ingot_context_destroy(ctx);
}

static void events_cross_devices(void **state) {
    ingot_context *a, *b;
    ingot_event *event = NULL, *other = NULL;
    ingot_buffer *buffer, *copy;
    unsigned char out[5000];
    float ms;
    int count = 0;

    (void)state;
    OK(ingot_device_count(&count));
    if (count < 2) skip();
    a = context_on(0);
    b = context_on(1);
    buffer = device_buffer(a, 5000);
    copy = device_buffer(b, 5000);
    OK(ingot_event_create(a, &event));
    OK(ingot_event_create(b, &other));
    FAILS(ingot_event_record(event, b), INGOT_ERR_INVALID);
    assert_non_null(strstr(ingot_error(b), "another device"));
    OK(ingot_buffer_fill(buffer, 0, 5, 5000));
    OK(ingot_event_record(event, a));
    OK(ingot_event_wait(event, b));
    assert_int_equal(cudaMemcpyPeerAsync(ingot_buffer_data(copy), 1, ingot_buffer_data(buffer), 0, 5000, b->stream),
                     cudaSuccess);
    OK(ingot_event_record(other, b));
    OK(ingot_event_synchronize(other));
    OK(ingot_buffer_get(copy, 0, out, 5000));
    assert_true(all_are(out, 5000, 5));
    FAILS(ingot_event_elapsed(event, other, &ms), INGOT_ERR_INVALID);
    ingot_event_destroy(event);
    ingot_event_destroy(other);
    ingot_buffer_destroy(buffer);
    ingot_buffer_destroy(copy);
    ingot_context_destroy(a);
    ingot_context_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_created_and_refused),
        cmocka_unit_test(transfers_keep_every_byte),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(async_transfers_are_ordered),
        cmocka_unit_test(destroying_waits),
        cmocka_unit_test(device_memory_runs_out_and_comes_back),
        cmocka_unit_test(copies_cross_contexts),
        cmocka_unit_test(copies_cross_devices),
        cmocka_unit_test(a_lost_source_is_refused),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(events_measure_time),
        cmocka_unit_test(events_cross_devices),
    };

    unsetenv("INGOT_LOG");
    unsetenv("INGOT_ARCH");
    setenv("INGOT_SIMT_DEVICES", "2", 0);
    setenv("INGOT_SIMT_LAZY", "1", 0);
    setenv("INGOT_SIMT_MEMORY_MB", "256", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
