/* SPDX-License-Identifier: MIT
 *
 * rt_launch.cpp - the kernel table and launches, with the limits of the simulated device.
 */
#include <stdlib.h>

#include "src/simt/runtime.h"

/* ---- kernel table: filled by constructors before main, looked up by function address ------------------------ */

enum { BUCKETS = 1024 };
static simt_kernel *bucket[BUCKETS];

static unsigned hash(const void *fn) { return (unsigned)(((uintptr_t)fn >> 4) * 0x9e3779b97f4a7c15ull >> 54); }
extern "C" void simt_register_kernel(simt_kernel *k) {
    simt_kernel **b = &bucket[hash(k->fn)];
    k->next = *b;
    __atomic_store_n(b, k, __ATOMIC_RELEASE);
}
simt_kernel *simt_find_kernel(const void *fn) {
    simt_kernel *k = __atomic_load_n(&bucket[hash(fn)], __ATOMIC_ACQUIRE);
    while (k && k->fn != fn) k = k->next;
    return k;
}

/* The class in the symbol's end (_sm80, _sm90a) against the device: 80 runs on every later one, as its
 * PTX would, 90a on 90 alone. A symbol without a class runs anywhere. */
static int arch_of(const simt_kernel *k) {
    const char *p = strrchr(k->name, '_');
    return p && !strncmp(p, "_sm", 3) ? atoi(p + 3) : 0;
}
static bool has_image(const simt_kernel *k) {
    const int arch = arch_of(k);
    const bool exact = arch && k->name[strlen(k->name) - 1] == 'a';
    return exact ? arch == simt_opt.cc : arch <= simt_opt.cc;
}
static cudaError_t find(const void *fn, simt_kernel **k) {
    simt_init();
    *k = simt_find_kernel(fn);
    if (!*k) return cudaErrorInvalidDeviceFunction;
    return has_image(*k) ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}

extern "C" cudaError_t cudaFuncSetAttribute(const void *fn, cudaFuncAttribute attr, int value) {
    simt_kernel *k;
    const cudaError_t e = find(fn, &k);
    if (e) return simt_return(e);
    if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        const int seen = __atomic_load_n(&k->static_seen, __ATOMIC_RELAXED);
        if (value < 0 || (size_t)value + (size_t)seen > simt_opt.smem_max) return simt_return(cudaErrorInvalidValue);
        __atomic_store_n(&k->dynamic_limit, value, __ATOMIC_RELAXED);
    }
    return cudaSuccess;
}
/* sharedSizeBytes is what blocks of the kernel have used so far: 0 before its first launch. */
extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *fn) {
    simt_kernel *k;
    const cudaError_t e = find(fn, &k);
    if (e || !out) return simt_return(e ? e : cudaErrorInvalidValue);
    memset(out, 0, sizeof *out);
    const int arch = arch_of(k), limit = __atomic_load_n(&k->dynamic_limit, __ATOMIC_RELAXED);
    out->sharedSizeBytes = (size_t)__atomic_load_n(&k->static_seen, __ATOMIC_RELAXED);
    out->maxThreadsPerBlock = k->max_threads;
    out->numRegs = 32;
    out->ptxVersion = out->binaryVersion = arch ? arch : simt_opt.cc;
    out->maxDynamicSharedSizeBytes = limit ? limit : 48 * 1024 - (int)out->sharedSizeBytes;
    out->preferredShmemCarveout = -1;
    return cudaSuccess;
}
extern "C" cudaError_t cudaFuncGetName(const char **name, const void *fn) {
    simt_kernel *k;
    const cudaError_t e = find(fn, &k);
    if (e || !name) return simt_return(e ? e : cudaErrorInvalidValue);
    *name = k->name;
    return cudaSuccess;
}
/* By threads and shared memory; registers are not known. */
extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *fn, int threads, size_t dynamic) {
    simt_kernel *k;
    const cudaError_t e = find(fn, &k);
    if (e || !n || threads < 1) return simt_return(e ? e : cudaErrorInvalidValue);
    int per_sm = 0, smem_sm = 0;
    cudaDeviceGetAttribute(&per_sm, cudaDevAttrMaxThreadsPerMultiProcessor, simt_current_device());
    cudaDeviceGetAttribute(&smem_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, simt_current_device());
    const size_t smem = dynamic + (size_t)__atomic_load_n(&k->static_seen, __ATOMIC_RELAXED) + 1024;
    const int by_threads = threads > k->max_threads ? 0 : per_sm / ((threads + 31) / 32 * 32), by_smem = (int)((size_t)smem_sm / smem);
    *n = by_threads < by_smem ? by_threads : by_smem;
    if (*n > 32) *n = 32;
    return cudaSuccess;
}

/* ---- launches ------------------------------------------------------------------------------------------------------ */

static cudaError_t check_limits(const simt_kernel *k, dim3 g, dim3 b, size_t smem) {
    const uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
    if (!threads || threads > SIMT_MAX_THREADS || b.z > 64) return cudaErrorInvalidConfiguration;
    if ((int)threads > k->max_threads) return cudaErrorInvalidValue;
    const size_t limit = (size_t)__atomic_load_n(&k->dynamic_limit, __ATOMIC_RELAXED);
    const size_t fixed = (size_t)__atomic_load_n(&k->static_seen, __ATOMIC_RELAXED);
    return smem > (limit ? limit : 48 * 1024u - fixed) ? cudaErrorInvalidValue : cudaSuccess;
}
/* Cluster launches are accepted where the shape is legal; blocks of a cluster do not see each other. */
static cudaError_t check_attributes(const cudaLaunchConfig_t *c) {
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const cudaLaunchAttribute *a = &c->attrs[i];
        if (a->id != cudaLaunchAttributeClusterDimension) continue;
        const unsigned x = a->val.clusterDim.x, y = a->val.clusterDim.y, z = a->val.clusterDim.z;
        if (!x || !y || !z || (uint64_t)x * y * z > 8 || c->gridDim.x % x || c->gridDim.y % y || c->gridDim.z % z) return cudaErrorInvalidClusterSize;
        if (simt_opt.cc < 90 && x * y * z > 1) return cudaErrorNotSupported;
    }
    return cudaSuccess;
}
static cudaError_t launch(const cudaLaunchConfig_t *c, const void *fn, void **args) {
    simt_kernel *k;
    cudaError_t e = find(fn, &k);
    if (!e) e = check_limits(k, c->gridDim, c->blockDim, c->dynamicSmemBytes);
    if (!e) e = check_attributes(c);
    if (e) return e;
    if (!args || !args[0]) return cudaErrorInvalidValue;
    simt_lock l;
    CUstream_st *s = simt_stream_of(c->stream);
    if (!s || s->device != simt_current_device()) return cudaErrorInvalidResourceHandle;
    simt_op op = {};
    op.kind = SIMT_OP_LAUNCH;
    op.launch.kernel = k;
    op.launch.args = args[0];
    op.launch.grid = c->gridDim;
    op.launch.block = c->blockDim;
    op.launch.smem = c->dynamicSmemBytes;
    op.launch.device = s->device;
    return simt_submit(s, &op);
}
static void capture_fails(cudaStream_t h) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (s && s->capture) simt_capture_break(s);
}
/* A GPU's answers here differ from cudaLaunchKernel's: a bad shape is an invalid value, something that is
 * not a kernel an invalid handle; and a launch that fails breaks the capture it was meant for. */
extern "C" cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *fn, void **args) {
    if (!c) return simt_return(cudaErrorInvalidValue);
    const cudaError_t e = launch(c, fn, args);
    if (e) capture_fails(c->stream);
    return simt_return(e == cudaErrorInvalidConfiguration ? cudaErrorInvalidValue : e == cudaErrorInvalidDeviceFunction ? cudaErrorInvalidResourceHandle : e);
}
extern "C" cudaError_t cudaLaunchKernel(const void *fn, dim3 grid, dim3 block, void **args, size_t smem, cudaStream_t stream) {
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = smem;
    c.stream = stream;
    const cudaError_t e = launch(&c, fn, args);
    if (e) capture_fails(stream);
    return simt_return(e);
}
