/* SPDX-License-Identifier: MIT
 *
 * test_runtime.c - the CUDA runtime of the SIMT build: devices, memory, streams, events, capture,
 * graphs, launch limits, several host threads. Holds in every mode of the environment: where
 * INGOT_SIMT_LAZY changes what is visible when, the test says so.
 */
#include <pthread.h>

#include "test/simt/common.h"

static int lazy, devices;

/* `count` additions of k to n ints. */
static cudaError_t add(void *d, int n, int k, cudaStream_t s) {
    return launch(ingot_t_add_one, (unsigned)(n + 255) / 256, 256, 0, s, (struct test_args){.out = d, .n = n, .k = k});
}
static int first(const void *d) {
    int v = 0;
    to_host(&v, d, 4);
    return v;
}
static void *zeros(size_t n) {
    void *d = NULL;
    OK(cudaMalloc(&d, n));
    OK(cudaMemset(d, 0, n));
    OK(cudaDeviceSynchronize()); /* a memset is asynchronous, and non-blocking streams do not wait for it */
    return d;
}

/* ---- devices ------------------------------------------------------------------------------------------ */

static void device_facts(void **state) {
    (void)state;
    struct cudaDeviceProp p;
    int n, v, w;
    char id[32];
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, devices);
    OK(cudaGetDeviceProperties(&p, n - 1));
    assert_string_equal(p.name, "SIMT (CPU)");
    assert_int_equal(p.warpSize, 32);
    assert_int_equal(p.maxThreadsPerBlock, 1024);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0));
    OK(cudaDeviceGetAttribute(&w, cudaDevAttrComputeCapabilityMinor, 0));
    assert_int_equal(v * 10 + w, p.major * 10 + p.minor);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_int_equal(v, p.sharedMemPerBlockOptin);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrIntegrated, 0));
    assert_int_equal(v, 0);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrPciBusId, n - 1));
    OK(cudaDeviceGetPCIBusId(id, sizeof id, n - 1));
    OK(cudaDeviceGetByPCIBusId(&w, id));
    assert_int_equal(w, n - 1);
    OK(cudaRuntimeGetVersion(&v));
    assert_int_equal(v, CUDART_VERSION);
    FAILS(cudaSetDevice(n), cudaErrorInvalidDevice);
    FAILS(cudaGetDeviceProperties(&p, -1), cudaErrorInvalidDevice);
    void *fn = &n;
    enum cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &found));
    assert_null(fn);
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
    assert_string_equal(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    FAILS(cudaSetDevice(99), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
}
static void several_devices(void **state) {
    (void)state;
    if (devices < 2) skip(); /* run.sh repeats this with INGOT_SIMT_DEVICES=3 */
    int can = 0;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    OK(cudaDeviceDisablePeerAccess(1));
    FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    cudaStream_t s0, s1;
    cudaEvent_t e;
    void *a = zeros(1024), *b;
    OK(cudaStreamCreateWithFlags(&s0, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaSetDevice(1));
    b = zeros(1024);
    OK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    FAILS(add(a, 256, 1, s0), cudaErrorInvalidResourceHandle); /* stream of another device */
    OK(cudaSetDevice(0));
    OK(add(a, 256, 5, s0));
    OK(cudaEventRecord(e, s0));
    OK(cudaStreamWaitEvent(s1, e, 0)); /* across devices */
    OK(cudaMemcpyPeerAsync(b, 1, a, 0, 1024, s1));
    OK(cudaSetDevice(1));
    OK(add(b, 256, 2, s1));
    OK(cudaStreamSynchronize(s1));
    assert_int_equal(first(b), 7);
    struct cudaPointerAttributes at;
    OK(cudaPointerGetAttributes(&at, (char *)b + 100));
    assert_int_equal(at.device, 1);
    OK(cudaFree(b));
    OK(cudaSetDevice(0));
    OK(cudaFree(a));
    OK(cudaStreamDestroy(s0));
    OK(cudaStreamDestroy(s1));
    OK(cudaEventDestroy(e));
}

/* ---- memory --------------------------------------------------------------------------------------------- */

static void memory_and_pointers(void **state) {
    (void)state;
    void *d, *h, *q;
    size_t before, after, total;
    struct cudaPointerAttributes at;
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&d, 1000));
    OK(cudaMallocHost(&h, 100));
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 1000);
    assert_int_equal((uintptr_t)d % 8, 0);
    OK(cudaPointerGetAttributes(&at, (char *)d + 999));
    assert_int_equal(at.type, cudaMemoryTypeDevice);
    assert_ptr_equal(at.devicePointer, (char *)d + 999);
    OK(cudaPointerGetAttributes(&at, h));
    assert_int_equal(at.type, cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&at, &total));
    assert_int_equal(at.type, cudaMemoryTypeUnregistered);
    OK(cudaHostGetDevicePointer(&q, h, 0));
    assert_ptr_equal(q, h);
    int local[16];
    OK(cudaHostRegister(local, sizeof local, 0));
    FAILS(cudaHostRegister(local + 2, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaPointerGetAttributes(&at, local + 1));
    assert_int_equal(at.type, cudaMemoryTypeHost);
    OK(cudaHostUnregister(local));
    FAILS(cudaHostUnregister(local), cudaErrorHostMemoryNotRegistered);
    FAILS(cudaMalloc(&q, total + 1), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&q, 0));
    assert_null(q);
    OK(cudaFree(NULL));
    FAILS(cudaFree((char *)d + 8), cudaErrorInvalidValue);
    FAILS(cudaFree(h), cudaErrorInvalidValue);
    OK(cudaFree(d));
    FAILS(cudaFree(d), cudaErrorInvalidValue);
    OK(cudaFreeHost(h));
    OK(cudaMemGetInfo(&after, NULL));
    assert_int_equal(after, before);
}
static void copies_are_checked(void **state) {
    (void)state;
    char h[64] = {0}, *d = zeros(64);
    FAILS(cudaMemcpy(d, h, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue); /* past the end */
    FAILS(cudaMemcpy(d + 1, h, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    FAILS(cudaMemcpy(h, d, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);       /* wrong way */
    FAILS(cudaMemcpy(h, h + 8, 8, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue); /* host pointers */
    FAILS(cudaMemset(h, 0, 8), cudaErrorInvalidValue);
    FAILS(cudaMemset(d, 0, 65), cudaErrorInvalidValue);
    OK(cudaMemcpy(d, h, 0, cudaMemcpyHostToDevice));
    memset(h, 1, sizeof h);
    OK(cudaMemcpy2DAsync(d, 16, h, 8, 4, 4, cudaMemcpyDefault, 0));
    to_host(h, d, 64);
    for (int i = 0; i < 64; i++) assert_int_equal(h[i], i % 16 < 4);
    OK(cudaFree(d));
    FAILS(cudaMemset(d, 0, 1), cudaErrorInvalidValue); /* freed */
}

/* A pageable source may change as soon as the call returns, and a pageable destination is filled by then. */
static void pageable_memory_is_staged(void **state) {
    (void)state;
    int h = 5, back = 0;
    void *d = zeros(4);
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaMemcpyAsync(d, &h, 4, cudaMemcpyHostToDevice, s));
    h = 6;
    OK(cudaMemcpyAsync(&back, d, 4, cudaMemcpyDeviceToHost, s));
    assert_int_equal(back, 5);
    void *p = NULL;
    FAILS(cudaMallocHost(&p, SIZE_MAX / 2), cudaErrorMemoryAllocation);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(d));
}

/* ---- launch limits: the errors a GPU gives ------------------------------------------------------------------ */

static void launch_limits(void **state) {
    (void)state;
    void *d = zeros(256 * 4);
    const struct test_args a = {.out = d, .n = 256, .k = 1};
    const kernel_fn k = ingot_t_add_one;
    FAILS(launch(k, 0, 32, 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch(k, 1, 0, 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch(k, 1, 1025, 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch(k, 0x80000000u, 32, 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch3(k, dim(1, 65536, 1), dim(32, 1, 1), 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch3(k, dim(1, 1, 65536), dim(32, 1, 1), 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch3(k, dim(1, 0, 1), dim(32, 1, 1), 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch3(k, dim(1, 1, 1), dim(1, 1, 65), 0, 0, a), cudaErrorInvalidValue);
    FAILS(launch(ingot_t_barriers, 1, 512, 0, 0, a), cudaErrorInvalidValue);      /* launch bound of 256 */
    FAILS(launch(ingot_t_big_shared, 1, 32, 49153, 0, a), cudaErrorInvalidValue); /* no opt-in */
    FAILS(cudaFuncSetAttribute((const void *)ingot_t_big_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000),
          cudaErrorInvalidValue);
    FAILS(launch((kernel_fn)launch_limits, 1, 32, 0, 0, a), cudaErrorInvalidResourceHandle);
    struct test_args one = a;
    void *argv1[] = {&one};
    FAILS(cudaLaunchKernel((const void *)k, dim(0, 1, 1), dim(32, 1, 1), argv1, 0, 0), cudaErrorInvalidConfiguration);
    FAILS(cudaLaunchKernel((const void *)launch_limits, dim(1, 1, 1), dim(32, 1, 1), argv1, 0, 0),
          cudaErrorInvalidDeviceFunction);
    OK(cudaDeviceSynchronize());
    assert_int_equal(first(d), 0); /* none of them ran */
    struct cudaFuncAttributes f;
    OK(cudaFuncGetAttributes(&f, (const void *)ingot_t_barriers));
    assert_int_equal(f.maxThreadsPerBlock, 256);
    const char *name;
    OK(cudaFuncGetName(&name, (const void *)ingot_t_barriers));
    assert_string_equal(name, "ingot_t_barriers");
    int blocks = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)k, 256, 0));
    assert_in_range(blocks, 1, 32);
    cudaLaunchAttribute at[2];
    memset(at, 0, sizeof at);
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {.gridDim = {1, 1, 1}, .blockDim = {256, 1, 1}, .attrs = at, .numAttrs = 1};
    struct test_args args = a;
    void *argv[] = {&args};
    OK(cudaLaunchKernelExC(&c, (const void *)k, argv));
    assert_int_equal(first(d), 1);
    OK(cudaFree(d));
}
static void kernel_images(void **state) {
    (void)state;
    struct cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    void *d = zeros(4);
    const struct test_args a = {.out = d};
    if (p.major >= 8) OK(launch(ingot_t_arch_sm80, 1, 32, 0, 0, a));
    else FAILS(launch(ingot_t_arch_sm80, 1, 32, 0, 0, a), cudaErrorNoKernelImageForDevice);
    if (p.major == 9) OK(launch(ingot_t_arch_sm90a, 1, 32, 0, 0, a));
    else FAILS(launch(ingot_t_arch_sm90a, 1, 32, 0, 0, a), cudaErrorNoKernelImageForDevice);
    OK(cudaFree(d));
}

/* ---- streams and events ---------------------------------------------------------------------------------------- */

static void streams_run_in_order(void **state) {
    (void)state;
    cudaStream_t s;
    cudaEvent_t e0, e1;
    int *h, prio, dev;
    unsigned flags;
    float ms = -1;
    void *d = zeros(1024);
    OK(cudaMallocHost((void **)&h, 1024));
    memset(h, 0, 1024);
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1));
    OK(cudaStreamGetPriority(s, &prio));
    OK(cudaStreamGetFlags(s, &flags));
    OK(cudaStreamGetDevice(s, &dev));
    assert_true(prio == -1 && flags == cudaStreamNonBlocking && dev == 0);
    OK(cudaEventCreate(&e0));
    OK(cudaEventCreate(&e1));
    OK(cudaEventQuery(e0)); /* never recorded */
    OK(cudaEventRecord(e0, s));
    for (int i = 0; i < 10; i++) OK(add(d, 256, 1, s));
    OK(cudaMemcpyAsync(h, d, 1024, cudaMemcpyDeviceToHost, s));
    OK(cudaEventRecord(e1, s));
    assert_int_equal(h[0], lazy ? 0 : 10); /* lazily nothing has happened yet */
    assert_int_equal(cudaStreamQuery(s), lazy ? cudaErrorNotReady : cudaSuccess);
    OK(cudaEventSynchronize(e1));
    assert_int_equal(h[255], 10);
    OK(cudaEventElapsedTime(&ms, e0, e1));
    assert_true(ms >= 0);
    OK(add(d, 256, 1, s));
    OK(cudaEventRecord(e1, s));
    while (cudaEventQuery(e1) == cudaErrorNotReady) {
    } /* polling makes progress */
    OK(cudaStreamDestroy(s));
    assert_int_equal(first(d), 11);
    FAILS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
    OK(cudaEventDestroy(e0));
    OK(cudaEventDestroy(e1));
    OK(cudaFreeHost(h));
    OK(cudaFree(d));
}
static void events_order_streams(void **state) {
    (void)state;
    cudaStream_t s, t;
    cudaEvent_t e;
    void *d = zeros(1024);
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < 50; i++) { /* ping-pong: +1 on s, then doubled by a copy onto itself plus +1 on t */
        OK(add(d, 256, 1, s));
        OK(cudaEventRecord(e, s));
        OK(cudaStreamWaitEvent(t, e, 0));
        OK(add(d, 256, 1, t));
        OK(cudaEventRecord(e, t));
        OK(cudaStreamWaitEvent(s, e, 0));
    }
    OK(cudaStreamSynchronize(s));
    assert_int_equal(first(d), 100);
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
    OK(cudaEventDestroy(e));
    OK(cudaFree(d));
}
static void legacy_stream_orders_blocking_ones(void **state) {
    (void)state;
    cudaStream_t s;
    int h = -1;
    void *d = zeros(1024);
    OK(cudaStreamCreate(&s));
    OK(add(d, 256, 3, s));
    OK(cudaMemsetAsync(d, 0, 4, 0)); /* after s */
    OK(add(d, 256, 4, s));           /* after the memset */
    OK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(h, 4);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(d));
}
static void count_call(void *user) {
    ++*(int *)user;
}
static void host_functions(void **state) {
    (void)state;
    cudaStream_t s;
    int calls = 0;
    OK(cudaStreamCreate(&s));
    OK(cudaLaunchHostFunc(s, count_call, &calls));
    assert_int_equal(calls, lazy ? 0 : 1);
    OK(cudaStreamSynchronize(s));
    assert_int_equal(calls, 1);
    OK(cudaStreamDestroy(s));
}

/* ---- capture and graphs -------------------------------------------------------------------------------------------- */

static void capture_and_replay(void **state) {
    (void)state;
    cudaStream_t s, t;
    cudaEvent_t fork, join;
    cudaGraph_t g;
    cudaGraphExec_t x;
    enum cudaStreamCaptureStatus st;
    size_t nodes = 0;
    int calls = 0;
    void *d = zeros(1024), *d2 = zeros(1024);
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(add(d, 256, 1, s));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(t, fork, 0));
    OK(cudaMemcpyAsync(d2, d, 1024, cudaMemcpyDeviceToDevice, t));
    OK(cudaLaunchHostFunc(t, count_call, &calls));
    OK(cudaEventRecord(join, t));
    FAILS(cudaEventQuery(join), cudaErrorCapturedEvent);
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(add(d, 256, 10, s));
    OK(cudaStreamIsCapturing(t, &st));
    assert_int_equal(st, cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaStreamIsCapturing(t, &st));
    assert_int_equal(st, cudaStreamCaptureStatusNone);
    OK(cudaGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 4);
    OK(cudaGraphInstantiate(&x, g, 0));
    OK(cudaGraphDestroy(g));
    assert_int_equal(first(d), 0); /* captured, not run */
    for (int i = 0; i < 5; i++) OK(cudaGraphLaunch(x, s));
    OK(cudaGraphExecDestroy(x)); /* launches in flight keep it alive */
    OK(cudaStreamSynchronize(s));
    assert_int_equal(first(d), 55);
    assert_int_equal(first(d2), 45);
    assert_int_equal(calls, 5);
    FAILS(cudaEventSynchronize(fork), cudaErrorInvalidValue); /* recorded in a capture that has ended */
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaFree(d));
    OK(cudaFree(d2));
}
static void captures_that_break(void **state) {
    (void)state;
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaGraph_t g;
    void *d = zeros(1024), *p;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    FAILS(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
    const enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;

    OK(cudaStreamBeginCapture(s, mode)); /* synchronising the stream */
    FAILS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    FAILS(add(d, 256, 1, s), cudaErrorStreamCaptureInvalidated);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    assert_null(g);

    OK(cudaStreamBeginCapture(s, mode)); /* a call that may synchronise */
    FAILS(cudaMalloc(&p, 16), cudaErrorStreamCaptureUnsupported);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed)); /* allowed when relaxed */
    OK(cudaMalloc(&p, 16));
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaFree(p));

    OK(cudaStreamBeginCapture(s, mode)); /* the legacy stream would have to wait */
    FAILS(add(d, 256, 1, 0), cudaErrorStreamCaptureImplicit);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

    OK(cudaStreamBeginCapture(s, mode)); /* a fork that is not joined */
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(add(d, 256, 1, t));
    FAILS(cudaStreamEndCapture(t, &g), cudaErrorStreamCaptureUnmatched);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, mode));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(add(d, 256, 1, t));
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);

    OK(cudaEventRecord(e, t)); /* a dependency on work outside */
    OK(cudaStreamBeginCapture(s, mode));
    FAILS(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);

    OK(cudaStreamBeginCapture(s, mode)); /* a launch that fails */
    FAILS(launch(ingot_t_add_one, 0, 32, 0, s, (struct test_args){.out = d}), cudaErrorInvalidValue);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, mode)); /* a synchronous fill */
    FAILS(cudaMemset(d, 0, 4), cudaErrorStreamCaptureImplicit);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(first(d), 0);
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(t));
    OK(cudaEventDestroy(e));
    OK(cudaFree(d));
}
static void *malloc_elsewhere(void *result) {
    void *p = NULL;
    *(cudaError_t *)result = cudaMalloc(&p, 16);
    if (p) cudaFree(p);
    return NULL;
}
static void capture_modes_and_threads(void **state) {
    (void)state;
    cudaStream_t s;
    cudaGraph_t g;
    pthread_t thread;
    cudaError_t e;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal)); /* others may allocate */
    assert_int_equal(pthread_create(&thread, NULL, malloc_elsewhere, &e), 0);
    pthread_join(thread, NULL);
    OK(e);
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphDestroy(g));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal)); /* others may not */
    assert_int_equal(pthread_create(&thread, NULL, malloc_elsewhere, &e), 0);
    pthread_join(thread, NULL);
    assert_int_equal(e, cudaErrorStreamCaptureUnsupported);
    FAILS(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaStreamDestroy(s));
}

/* ---- several host threads -------------------------------------------------------------------------------------------- */

static void *work_alone(void *arg) {
    const int id = (int)(intptr_t)arg;
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    void *d = NULL;
    int h[512], bad = 0;
    bad |=
        cudaSetDevice(id % devices) | cudaMalloc(&d, sizeof h) | cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int round = 0; round < 20 && !bad; round++) {
        bad |= cudaMemsetAsync(d, 0, sizeof h, s);
        for (int i = 0; i < 10; i++) bad |= add(d, 512, id + 1, s);
        bad |= cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
        bad |= add(d, 512, 1, s) | cudaStreamEndCapture(s, &g);
        bad |= cudaGraphInstantiate(&x, g, 0) | cudaGraphLaunch(x, s) | cudaGraphDestroy(g) | cudaGraphExecDestroy(x);
        bad |= launch(ingot_t_barriers, 40, 256, 1024, s, (struct test_args){.out = (int *)d + 256});
        bad |= cudaMemcpyAsync(h, d, sizeof h, cudaMemcpyDeviceToHost, s) | cudaStreamSynchronize(s);
        bad |= h[0] != 10 * (id + 1) + 1 || h[256 + 5 * 39] != 256 * 255 / 2 + 256 * 39;
    }
    bad |= cudaStreamDestroy(s) | cudaFree(d);
    return (void *)(intptr_t)bad;
}
static void host_threads_do_not_disturb_each_other(void **state) {
    (void)state;
    enum { N = 4 };
    pthread_t t[N];
    for (int round = 0; round < 2; round++) { /* the second round reuses the first one's executors */
        for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&t[i], NULL, work_alone, (void *)(intptr_t)i), 0);
        for (int i = 0; i < N; i++) {
            void *bad;
            pthread_join(t[i], &bad);
            assert_null(bad);
        }
    }
}
static void many_small_and_large_launches(void **state) {
    (void)state;
    void *d = zeros(100000 * 4);
    for (int i = 0; i < 300; i++) OK(add(d, i % 30 ? 64 : 100000, 1, 0));
    int *h = malloc(400000);
    to_host(h, d, 400000);
    assert_int_equal(h[0], 300);
    assert_int_equal(h[99999], 10);
    free(h);
    OK(cudaFree(d));
}

int main(void) {
    const char *l = getenv("INGOT_SIMT_LAZY");
    lazy = l && strcmp(l, "0") && *l;
    cudaGetDeviceCount(&devices);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_facts),
        cmocka_unit_test(several_devices),
        cmocka_unit_test(memory_and_pointers),
        cmocka_unit_test(copies_are_checked),
        cmocka_unit_test(pageable_memory_is_staged),
        cmocka_unit_test(launch_limits),
        cmocka_unit_test(kernel_images),
        cmocka_unit_test(streams_run_in_order),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(legacy_stream_orders_blocking_ones),
        cmocka_unit_test(host_functions),
        cmocka_unit_test(capture_and_replay),
        cmocka_unit_test(captures_that_break),
        cmocka_unit_test(capture_modes_and_threads),
        cmocka_unit_test(host_threads_do_not_disturb_each_other),
        cmocka_unit_test(many_small_and_large_launches),
    };
    return cmocka_run_group_tests_name("simt runtime", tests, NULL, NULL);
}
