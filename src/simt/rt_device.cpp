/* SPDX-License-Identifier: MIT
 *
 * rt_device.cpp - the simulated devices: what they report, which is current, and the last error.
 */
#include <stdlib.h>

#include "src/simt/runtime.h"

static __thread int current;
static __thread cudaError_t last_error;

int simt_current_device(void) { return current; }
cudaError_t simt_return(cudaError_t e) {
    if (e) last_error = e;
    return e;
}
static cudaError_t check_device(int device) {
    simt_init();
    return device >= 0 && device < simt_opt.devices ? cudaSuccess : cudaErrorInvalidDevice;
}

extern "C" cudaError_t cudaGetDeviceCount(int *n) {
    simt_init();
    if (!n) return simt_return(cudaErrorInvalidValue);
    *n = simt_opt.devices;
    return simt_return(simt_opt.devices ? cudaSuccess : cudaErrorNoDevice);
}
extern "C" cudaError_t cudaSetDevice(int device) {
    const cudaError_t e = check_device(device);
    if (!e) current = device;
    return simt_return(e);
}
extern "C" cudaError_t cudaGetDevice(int *device) {
    if (!device) return simt_return(cudaErrorInvalidValue);
    *device = current;
    return cudaSuccess;
}

/* Threads an SM holds, by compute capability. */
static int threads_per_sm(int cc) { return cc == 75 ? 1024 : cc == 80 || (cc >= 90 && cc < 110) ? 2048 : 1536; }

extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    const cudaError_t e = check_device(device);
    if (e || !p) return simt_return(e ? e : cudaErrorInvalidValue);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "SIMT (CPU)");
    p->totalGlobalMem = simt_opt.memory;
    p->sharedMemPerBlock = 48 * 1024;
    p->sharedMemPerBlockOptin = simt_opt.smem_max;
    p->sharedMemPerMultiprocessor = simt_opt.cc == 75 ? simt_opt.smem_max : simt_opt.smem_max + 1024;
    p->reservedSharedMemPerBlock = simt_opt.cc == 75 ? 0 : 1024;
    p->totalConstMem = 64 * 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = SIMT_MAX_THREADS;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsPerMultiProcessor = threads_per_sm(simt_opt.cc);
    p->maxBlocksPerMultiProcessor = simt_opt.cc == 75 ? 16 : 32;
    p->major = simt_opt.cc / 10;
    p->minor = simt_opt.cc % 10;
    p->multiProcessorCount = simt_opt.sms;
    p->l2CacheSize = 4 << 20;
    p->memoryBusWidth = 256;
    p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
    p->asyncEngineCount = 2;
    p->clusterLaunch = simt_opt.cc >= 90;
    p->pciBusID = device + 1;
    return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr attr, int device) {
    cudaDeviceProp p;
    const cudaError_t e = v ? cudaGetDeviceProperties(&p, device) : cudaErrorInvalidValue;
    if (e) return simt_return(e);
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock: *v = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *v = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *v = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *v = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *v = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *v = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *v = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrTotalConstantMemory: *v = (int)p.totalConstMem; break;
    case cudaDevAttrWarpSize: *v = p.warpSize; break;
    case cudaDevAttrMaxRegistersPerBlock: *v = p.regsPerBlock; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *v = p.regsPerMultiprocessor; break;
    case cudaDevAttrMultiProcessorCount: *v = p.multiProcessorCount; break;
    case cudaDevAttrGlobalMemoryBusWidth: *v = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *v = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *v = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrAsyncEngineCount: *v = p.asyncEngineCount; break;
    case cudaDevAttrComputeCapabilityMajor: *v = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *v = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *v = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *v = (int)p.reservedSharedMemPerBlock; break;
    case cudaDevAttrClusterLaunch: *v = p.clusterLaunch; break;
    case cudaDevAttrPciBusId: *v = p.pciBusID; break;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported: *v = 1; break;
    case cudaDevAttrClockRate: /* nothing here runs at a known speed */
    case cudaDevAttrMemoryClockRate:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCooperativeLaunch: *v = 0; break;
    default: return simt_return(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceGetPCIBusId(char *out, int len, int device) {
    const cudaError_t e = check_device(device);
    if (e || !out || len < 13) return simt_return(e ? e : cudaErrorInvalidValue);
    snprintf(out, (size_t)len, "0000:%02x:00.0", (unsigned)(device + 1) & 0xffu);
    return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    simt_init();
    unsigned domain, bus, slot, function;
    if (!device || !id || sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return simt_return(cudaErrorInvalidValue);
    const cudaError_t e = domain || slot || function ? cudaErrorInvalidDevice : check_device((int)bus - 1);
    if (!e) *device = (int)bus - 1;
    return simt_return(e);
}
extern "C" cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

/* ---- peers: every device reaches every other. Access is not checked when memory is touched, but the
 * book-keeping errors are those of a GPU. ------------------------------------------------------------------ */

static uint64_t peers[64]; /* by device: the peers it has enabled */

extern "C" cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    const cudaError_t e = check_device(device) ? cudaErrorInvalidDevice : check_device(peer);
    if (e || !can) return simt_return(e ? e : cudaErrorInvalidValue);
    *can = device != peer;
    return cudaSuccess;
}
extern "C" cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    const cudaError_t e = check_device(peer);
    if (e || flags || peer == current) return simt_return(e ? e : flags ? cudaErrorInvalidValue : cudaErrorPeerAccessUnsupported);
    const uint64_t bit = 1ull << peer;
    return simt_return(__atomic_fetch_or(&peers[current], bit, __ATOMIC_RELAXED) & bit ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
extern "C" cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    const cudaError_t e = check_device(peer);
    if (e) return simt_return(e);
    const uint64_t bit = 1ull << peer;
    return simt_return(__atomic_fetch_and(&peers[current], ~bit, __ATOMIC_RELAXED) & bit ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

/* ---- versions, driver symbols, errors ------------------------------------------------------------------------- */

extern "C" cudaError_t cudaRuntimeGetVersion(int *v) {
    if (!v) return simt_return(cudaErrorInvalidValue);
    *v = CUDART_VERSION;
    return cudaSuccess;
}
extern "C" cudaError_t cudaDriverGetVersion(int *v) { return cudaRuntimeGetVersion(v); }

/* There is no driver here, so no symbol of it. */
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult *status) {
    if (!symbol || !fn) return simt_return(cudaErrorInvalidValue);
    *fn = 0;
    if (status) *status = cudaDriverEntryPointSymbolNotFound;
    return status ? cudaSuccess : simt_return(cudaErrorSymbolNotFound);
}
extern "C" cudaError_t cudaGetLastError(void) {
    const cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}
extern "C" cudaError_t cudaPeekAtLastError(void) { return last_error; }

static const struct {
    cudaError_t value;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text}
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction"),
    ERROR(cudaErrorInsufficientDriver, "driver too old for the runtime"),
    ERROR(cudaErrorInvalidDeviceFunction, "not a kernel"),
    ERROR(cudaErrorNoDevice, "no device"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorNoKernelImageForDevice, "the kernel was not built for this device"),
    ERROR(cudaErrorPeerAccessUnsupported, "no peer access between these devices"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid stream, event or graph, or one of another device"),
    ERROR(cudaErrorIllegalState, "not allowed in the present state"),
    ERROR(cudaErrorSymbolNotFound, "symbol not found"),
    ERROR(cudaErrorNotReady, "not finished yet"),
    ERROR(cudaErrorIllegalAddress, "the kernel accessed an illegal address"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for the launch"),
    ERROR(cudaErrorLaunchTimeout, "the kernel did not end (deadlock or endless loop)"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
    ERROR(cudaErrorAssert, "an assertion in the kernel failed"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "host memory is already registered"),
    ERROR(cudaErrorHostMemoryNotRegistered, "host memory is not registered"),
    ERROR(cudaErrorHardwareStackError, "stack overflow in the kernel"),
    ERROR(cudaErrorIllegalInstruction, "illegal instruction in the kernel"),
    ERROR(cudaErrorMisalignedAddress, "misaligned address in the kernel"),
    ERROR(cudaErrorLaunchFailure, "the kernel failed"),
    ERROR(cudaErrorNotPermitted, "not permitted"),
    ERROR(cudaErrorNotSupported, "not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "not allowed while a stream is captured"),
    ERROR(cudaErrorStreamCaptureInvalidated, "an earlier error has invalidated the capture"),
    ERROR(cudaErrorStreamCaptureMerge, "two captures would merge"),
    ERROR(cudaErrorStreamCaptureUnmatched, "the capture did not begin on this stream"),
    ERROR(cudaErrorStreamCaptureUnjoined, "a forked stream was not joined to the capture's origin"),
    ERROR(cudaErrorStreamCaptureIsolation, "the capture would depend on work outside it"),
    ERROR(cudaErrorStreamCaptureImplicit, "the legacy stream would depend on a captured stream"),
    ERROR(cudaErrorCapturedEvent, "the event was recorded in a capture"),
    ERROR(cudaErrorStreamCaptureWrongThread, "the capture began on another thread"),
    ERROR(cudaErrorGraphExecUpdateFailure, "the graph does not fit the update"),
    ERROR(cudaErrorInvalidClusterSize, "invalid cluster size"),
    ERROR(cudaErrorUnknown, "unknown error"),
#undef ERROR
};
extern "C" const char *cudaGetErrorName(cudaError_t e) {
    for (const auto &r : errors)
        if (r.value == e) return r.name;
    return "unrecognized error code";
}
extern "C" const char *cudaGetErrorString(cudaError_t e) {
    for (const auto &r : errors)
        if (r.value == e) return r.text;
    return "unrecognized error code";
}
