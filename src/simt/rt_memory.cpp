/* SPDX-License-Identifier: MIT
 *
 * rt_memory.cpp - device and pinned memory, copies and fills.
 *
 * Every allocation is kept in a sorted table: copies are checked against it, pointer queries answered
 * from it, and fault reports name the allocation. Device memory comes from malloc, so that ASan's red
 * zones surround it. Under INGOT_SIMT_GUARD each device allocation is a mapping of its own that ends
 * at an inaccessible page, and all of them are inaccessible except while an operation runs.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "src/simt/runtime.h"

enum kind { DEVICE, PINNED, REGISTERED };
struct allocation {
    char *p;
    size_t size;
    enum kind kind;
    int device;
    char *map; /* under the guard */
    size_t map_size;
    unsigned id;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the table; taken after the runtime's lock */
static allocation *table;
static size_t count, room;
static unsigned next_id;
static size_t used[64];
static int access_depth;

struct table_lock {
    table_lock() { pthread_mutex_lock(&mutex); }
    ~table_lock() { pthread_mutex_unlock(&mutex); }
};

/* ---- the table ------------------------------------------------------------------------------------------- */

/* Index of the first allocation that starts after p. */
static size_t after(const void *p) {
    size_t lo = 0, hi = count;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (table[mid].p <= (const char *)p) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}
static allocation *containing(const void *p) {
    const size_t i = after(p);
    if (!i) return 0;
    allocation *a = &table[i - 1];
    return (const char *)p < a->p + a->size ? a : 0;
}
static allocation *starting_at(const void *p) {
    const size_t i = after(p);
    return i && table[i - 1].p == p ? &table[i - 1] : 0;
}
static bool insert(const allocation *a) {
    if (count == room) {
        const size_t n = room ? 2 * room : 256;
        allocation *t = (allocation *)realloc(table, n * sizeof *t);
        if (!t) return false;
        table = t;
        room = n;
    }
    const size_t i = after(a->p);
    memmove(table + i + 1, table + i, (count - i) * sizeof *table);
    table[i] = *a;
    table[i].id = ++next_id;
    count++;
    return true;
}
static void remove(allocation *a) {
    memmove(a, a + 1, (size_t)(table + count - (a + 1)) * sizeof *a);
    count--;
}
bool simt_device_range(const void *p, size_t n) {
    table_lock l;
    const allocation *a = containing(p);
    return a && n <= (size_t)(a->p + a->size - (const char *)p);
}
/* Called from the fault handler too: reads the table without its lock, at worst a stale line. */
void simt_describe_address(const void *p, char *buf, size_t n) {
    static const char *const kinds[] = {"device", "pinned host", "registered host"};
    const size_t i = after(p);
    if (i) {
        const allocation *a = &table[i - 1];
        const size_t off = (size_t)((const char *)p - a->p);
        if (off < a->size + 65536) {
            if (off < a->size)
                snprintf(buf, n, "(byte %zu of the %zu-byte %s allocation #%u of device %d)", off, a->size, kinds[a->kind], a->id, a->device);
            else
                snprintf(buf, n, "(%zu bytes past the end of the %zu-byte %s allocation #%u of device %d)", off - a->size, a->size, kinds[a->kind], a->id, a->device);
            return;
        }
    }
    snprintf(buf, n, "(not in or just past an allocation)");
}

/* ---- guard -------------------------------------------------------------------------------------------------- */

static void protect_all(int prot) {
    for (size_t i = 0; i < count; i++)
        if (table[i].map) mprotect(table[i].map + 4096, table[i].map_size - 8192, prot);
}
void simt_access_begin(void) {
    table_lock l;
    if (access_depth++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
void simt_access_end(void) {
    table_lock l;
    if (--access_depth == 0) protect_all(PROT_NONE);
}
/* The end of the allocation, rounded to 256 bytes (what cudaMalloc aligns to), touches the guard page. */
static bool map_guarded(allocation *a, size_t n) {
    const size_t page = 4096, body = (n + 255) / 256 * 256, len = (body + page - 1) / page * page;
    a->map_size = len + 2 * page;
    a->map = (char *)mmap(0, a->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->map == MAP_FAILED) return false;
    mprotect(a->map + page, len, PROT_READ | PROT_WRITE);
    a->p = a->map + page + len - body;
    memset(a->p, 0xff, n); /* new device memory is garbage, never zero */
    if (!access_depth) mprotect(a->map + page, len, PROT_NONE);
    return true;
}

/* ---- allocation ------------------------------------------------------------------------------------------------ */

static cudaError_t allocate(void **out, size_t n, enum kind kind) {
    if (!out) return cudaErrorInvalidValue;
    *out = 0;
    if (!n) return cudaSuccess;
    if (n >> 40) return cudaErrorMemoryAllocation; /* ASan ends the process on a size that no machine has */
    table_lock l;
    allocation a = {0, n, kind, simt_current_device(), 0, 0, 0};
    if (kind == DEVICE && (n > simt_opt.memory || used[a.device] > simt_opt.memory - n)) return cudaErrorMemoryAllocation;
    if (kind == DEVICE && simt_opt.guard) {
        if (!map_guarded(&a, n)) return cudaErrorMemoryAllocation;
    } else {
        if (posix_memalign((void **)&a.p, kind == DEVICE ? 256 : 4096, n)) return cudaErrorMemoryAllocation;
        if (simt_opt.fill) memset(a.p, 0xff, n);
    }
    if (!insert(&a)) {
        if (a.map) munmap(a.map, a.map_size);
        else free(a.p);
        return cudaErrorMemoryAllocation;
    }
    if (kind == DEVICE) used[a.device] += n;
    *out = a.p;
    return cudaSuccess;
}
/* Frees an allocation of this kind by its start. */
static cudaError_t release(void *p, enum kind kind) {
    table_lock l;
    allocation *a = starting_at(p);
    if (!a || a->kind != kind) return cudaErrorInvalidValue;
    if (kind == DEVICE) used[a->device] -= a->size;
    if (a->map) munmap(a->map, a->map_size);
    else if (kind != REGISTERED) free(a->p);
    remove(a);
    return cudaSuccess;
}
/* The implicit synchronisation of a free: nothing in flight may still use the memory. */
static cudaError_t settle(const void *p) {
    int device = simt_current_device();
    {
        table_lock l;
        const allocation *a = starting_at(p);
        if (!a) return cudaErrorInvalidValue;
        device = a->device;
    }
    simt_lock l;
    const cudaError_t e = simt_capture_forbids();
    return e ? e : simt_sync_device(device);
}

extern "C" cudaError_t cudaMalloc(void **p, size_t n) {
    {
        simt_lock l;
        const cudaError_t e = simt_capture_forbids();
        if (e) return simt_return(e);
    }
    return simt_return(allocate(p, n, DEVICE));
}
extern "C" cudaError_t cudaFree(void *p) {
    if (!p) return cudaSuccess;
    const cudaError_t e = settle(p), r = e == cudaErrorInvalidValue || e == cudaErrorStreamCaptureUnsupported ? e : release(p, DEVICE);
    return simt_return(r ? r : e);
}
/* Stream-ordered allocation: at once, which is early enough; the free waits for the stream. */
extern "C" cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t h) {
    {
        simt_lock l;
        CUstream_st *s = simt_stream_of(h);
        if (!s) return simt_return(cudaErrorInvalidResourceHandle);
        if (s->capture) return simt_return(simt_capture_break(s)); /* memory nodes are not supported */
    }
    return simt_return(allocate(p, n, DEVICE));
}
extern "C" cudaError_t cudaFreeAsync(void *p, cudaStream_t h) {
    {
        simt_lock l;
        CUstream_st *s = simt_stream_of(h);
        if (!s) return simt_return(cudaErrorInvalidResourceHandle);
        const cudaError_t e = simt_sync(s);
        if (e) return simt_return(e);
    }
    return p ? simt_return(release(p, DEVICE)) : cudaSuccess;
}
extern "C" cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) {
    {
        simt_lock l;
        const cudaError_t e = flags > 7 ? cudaErrorInvalidValue : simt_capture_forbids();
        if (e) return simt_return(e);
    }
    return simt_return(allocate(p, n, PINNED));
}
extern "C" cudaError_t cudaMallocHost(void **p, size_t n) { return cudaHostAlloc(p, n, 0); }
extern "C" cudaError_t cudaFreeHost(void *p) {
    if (!p) return cudaSuccess;
    const cudaError_t e = settle(p), r = e == cudaErrorInvalidValue || e == cudaErrorStreamCaptureUnsupported ? e : release(p, PINNED);
    return simt_return(r ? r : e);
}
extern "C" cudaError_t cudaHostRegister(void *p, size_t n, unsigned flags) {
    simt_init();
    if (!p || !n || flags & ~0xfu) return simt_return(cudaErrorInvalidValue);
    table_lock l;
    const size_t i = after((char *)p + n - 1);
    if (containing(p) || (i && table[i - 1].p > (char *)p)) return simt_return(cudaErrorHostMemoryAlreadyRegistered);
    const allocation a = {(char *)p, n, REGISTERED, simt_current_device(), 0, 0, 0};
    return simt_return(insert(&a) ? cudaSuccess : cudaErrorMemoryAllocation);
}
extern "C" cudaError_t cudaHostUnregister(void *p) {
    const cudaError_t e = release(p, REGISTERED);
    return simt_return(e ? cudaErrorHostMemoryNotRegistered : cudaSuccess);
}
extern "C" cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags) {
    table_lock l;
    const allocation *a = containing(p);
    if (!out || flags || !a || a->kind == DEVICE) return simt_return(cudaErrorInvalidValue);
    *out = p;
    return cudaSuccess;
}
extern "C" cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p) {
    if (!out) return simt_return(cudaErrorInvalidValue);
    table_lock l;
    const allocation *a = containing(p);
    memset(out, 0, sizeof *out);
    out->device = a ? a->device : -2; /* cudaInvalidDeviceId */
    out->type = !a ? cudaMemoryTypeUnregistered : a->kind == DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    if (a) out->devicePointer = (void *)p;
    if (!a || a->kind != DEVICE) out->hostPointer = (void *)p;
    return cudaSuccess;
}
extern "C" cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    simt_init();
    table_lock l;
    if (total) *total = simt_opt.memory;
    if (free_bytes) *free_bytes = simt_opt.memory - used[simt_current_device()];
    return cudaSuccess;
}

/* ---- copies and fills --------------------------------------------------------------------------------------------- */

/* Each side that the kind calls "device" must lie within one allocation. */
static bool kind_fits(const void *dst, size_t dst_bytes, const void *src, size_t src_bytes, enum cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault) return false;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    table_lock l;
    const allocation *d = containing(dst), *s = containing(src);
    if (to_device && !d) return false;
    if (from_device && !s) return false;
    if (kind != cudaMemcpyDefault && ((!to_device && d && d->kind == DEVICE) || (!from_device && s && s->kind == DEVICE))) return false;
    return (!d || dst_bytes <= (size_t)(d->p + d->size - (const char *)dst)) && (!s || src_bytes <= (size_t)(s->p + s->size - (const char *)src));
}
/* A synchronous copy or fill works on the legacy stream: captured blocking streams are in its way first. */
static cudaError_t forbidden(CUstream_st *legacy) {
    const cudaError_t e = simt_capture_legacy(legacy);
    return e ? e : simt_capture_forbids();
}
static cudaError_t copy(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind, cudaStream_t h, bool wait) {
    simt_lock l;
    CUstream_st *s = simt_stream_of(h);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!width || !height) return cudaSuccess;
    if (!dst || !src || (height > 1 && (width > dst_pitch || width > src_pitch))) return cudaErrorInvalidValue;
    if (!kind_fits(dst, (height - 1) * dst_pitch + width, src, (height - 1) * src_pitch + width, kind)) return cudaErrorInvalidValue;
    cudaError_t e = wait ? forbidden(s) : cudaSuccess;
    if (e) return e;
    simt_op op = {};
    op.kind = SIMT_OP_COPY;
    op.copy.dst = (char *)dst;
    op.copy.src = (const char *)src;
    op.copy.dst_pitch = dst_pitch;
    op.copy.src_pitch = src_pitch;
    op.copy.width = width;
    op.copy.height = height;
    if (!s->capture) { /* CUDA's rules for pageable memory: a source is staged at once, a destination waited for */
        table_lock t;
        op.copy.staged = !containing(src);
        wait = wait || !containing(dst);
    }
    e = simt_submit(s, &op);
    return e || !wait ? e : simt_sync(s);
}
extern "C" cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind) { return simt_return(copy(dst, n, src, n, n, 1, kind, 0, true)); }
extern "C" cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, cudaStream_t h) { return simt_return(copy(dst, n, src, n, n, 1, kind, h, false)); }
extern "C" cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t h) {
    return simt_return(copy(dst, dpitch, src, spitch, width, height, kind, h, false));
}
extern "C" cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t n, cudaStream_t h) {
    simt_init();
    if (dst_device < 0 || src_device < 0 || dst_device >= simt_opt.devices || src_device >= simt_opt.devices) return simt_return(cudaErrorInvalidDevice);
    return simt_return(copy(dst, n, src, n, n, 1, cudaMemcpyDeviceToDevice, h, false));
}
extern "C" cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t n) {
    const cudaError_t e = cudaMemcpyPeerAsync(dst, dst_device, src, src_device, n, 0);
    return e ? e : cudaStreamSynchronize(0);
}
static cudaError_t fill(void *p, int value, size_t n, cudaStream_t h) {
    CUstream_st *s = simt_stream_of(h);
    if (!s) return cudaErrorInvalidResourceHandle;
    if (!n) return cudaSuccess;
    if (!simt_device_range(p, n)) return cudaErrorInvalidValue;
    simt_op op = {};
    op.kind = SIMT_OP_FILL;
    op.fill.dst = p;
    op.fill.value = value;
    op.fill.n = n;
    return simt_submit(s, &op);
}
extern "C" cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t h) {
    simt_lock l;
    return simt_return(fill(p, value, n, h));
}
extern "C" cudaError_t cudaMemset(void *p, int value, size_t n) {
    simt_lock l;
    const cudaError_t e = forbidden(simt_stream_of(0));
    return simt_return(e ? e : fill(p, value, n, 0));
}
