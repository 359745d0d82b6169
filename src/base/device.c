// SPDX-License-Identifier: MIT
/* device.c - which devices there are and what they can do, with limits made usable. */
#include "base.h"

#include <stdio.h>
#include <string.h>

#ifndef INGOT_SIMT
#define INGOT_SIMT 0
#endif

size_t ingot_clamp_shared(int64_t reported) {
    const int64_t low = 48 * 1024; /* every chip has it without opting in */
    const int64_t high = 256 * 1024;

    return (size_t)(reported < low || reported > high ? low : reported);
}

ingot_status ingot_device_count(int *count) {
    ingot_status st;

    if (!count) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_device_count: count is NULL");
    *count = 0;
    st = ingot_check_cuda(NULL, cudaGetDeviceCount(count), "cudaGetDeviceCount");
    if (st != INGOT_OK) {
        *count = 0;
        return INGOT_ERR_NO_DEVICE;
    }
    if (*count <= 0) return ingot_fail(NULL, INGOT_ERR_NO_DEVICE, "there is no CUDA device");
    return INGOT_OK;
}

/* An attribute, or 0 where the runtime does not know it. */
static int attribute(enum cudaDeviceAttr attr, int index) {
    int value = 0;

    if (cudaDeviceGetAttribute(&value, attr, index) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return value;
}

static void read_attributes(int index, ingot_device *out) {
    const double clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, index); /* given in kHz */
    const double bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8.0;

    out->cc_major = attribute(cudaDevAttrComputeCapabilityMajor, index);
    out->cc_minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
    out->sm_count = attribute(cudaDevAttrMultiProcessorCount, index);
    out->l2_size = (size_t)attribute(cudaDevAttrL2CacheSize, index);
    out->shared_per_block = ingot_clamp_shared(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
    out->memory_bandwidth = 2.0 * clock * bytes; /* two transfers per clock */
    out->integrated = attribute(cudaDevAttrIntegrated, index) != 0;
    out->simt = INGOT_SIMT;
    if (cudaDeviceGetPCIBusId(out->pci_bus_id, sizeof out->pci_bus_id, index) != cudaSuccess) {
        (void)cudaGetLastError();
        out->pci_bus_id[0] = '\0';
    }
}

ingot_status ingot_device_get(int index, ingot_device *out) {
    struct cudaDeviceProp prop;
    ingot_status st = INGOT_OK;
    int count = 0, previous = -1;

    if (!out) return ingot_fail(NULL, INGOT_ERR_INVALID, "ingot_device_get: out is NULL");
    memset(out, 0, sizeof *out);
    INGOT_TRY(ingot_device_count(&count), st, done);
    if (index < 0 || index >= count) {
        st = ingot_fail(NULL, INGOT_ERR_NO_DEVICE, "no device %d: there are %d, numbered from 0", index, count);
        goto done;
    }
    INGOT_CUDA(NULL, cudaGetDevice(&previous), st, done);
    INGOT_CUDA(NULL, cudaSetDevice(index), st, done);
    INGOT_CUDA(NULL, cudaGetDeviceProperties(&prop, index), st, done);
    snprintf(out->name, sizeof out->name, "%s", prop.name);
    read_attributes(index, out);
    INGOT_CUDA(NULL, cudaMemGetInfo(&out->memory_free, &out->memory_total), st, done);

done:
    if (previous >= 0 && previous != index && cudaSetDevice(previous) != cudaSuccess) (void)cudaGetLastError();
    return st;
}
