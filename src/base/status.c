// SPDX-License-Identifier: MIT
/* status.c - how a failure travels: a status as the return value, a text in the context (or in the thread, where there
 * is no context), a line in the log.  CUDA's errors become statuses here and nowhere else. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char thread_error[INGOT_ERROR_TEXT];

const char *ingot_status_name(ingot_status status) {
    switch (status) {
    case INGOT_OK:
        return "INGOT_OK";
    case INGOT_ERR_INVALID:
        return "INGOT_ERR_INVALID";
    case INGOT_ERR_UNSUPPORTED:
        return "INGOT_ERR_UNSUPPORTED";
    case INGOT_ERR_STATE:
        return "INGOT_ERR_STATE";
    case INGOT_ERR_HOST_MEMORY:
        return "INGOT_ERR_HOST_MEMORY";
    case INGOT_ERR_DEVICE_MEMORY:
        return "INGOT_ERR_DEVICE_MEMORY";
    case INGOT_ERR_NO_DEVICE:
        return "INGOT_ERR_NO_DEVICE";
    case INGOT_ERR_NO_CODE:
        return "INGOT_ERR_NO_CODE";
    case INGOT_ERR_CUDA:
        return "INGOT_ERR_CUDA";
    case INGOT_ERR_BLAS:
        return "INGOT_ERR_BLAS";
    case INGOT_ERR_LOST:
        return "INGOT_ERR_LOST";
    }
    return "unknown status";
}

const char *ingot_error(const ingot_context *ctx) {
    return ctx ? ctx->error : thread_error;
}

void ingot_hand_over_error(const ingot_context *ctx) {
    memcpy(thread_error, ctx->error, sizeof thread_error);
}

ingot_status ingot_fail(ingot_context *ctx, ingot_status status, const char *fmt, ...) {
    char text[INGOT_ERROR_TEXT]; /* the arguments may point into the old text */
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(ctx ? ctx->error : thread_error, text, sizeof text);
    if (ctx) ingot_log(ctx, "%s: %s", ingot_status_name(status), text);
    return status;
}

void ingot_log(const ingot_context *ctx, const char *fmt, ...) {
    char text[INGOT_ERROR_TEXT + 64];
    va_list args;

    if (!ctx || !ctx->log) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ctx->log(ctx->log_user, text);
}

/* What a CUDA error means for the caller.  Numbers, as the SIMT host's header has fewer names; those of CUDA 13. */
struct meaning {
    int error;
    ingot_status status;
    const char *hint;
};
static const struct meaning meanings[] = {
    {2, INGOT_ERR_DEVICE_MEMORY, NULL}, /* cudaErrorMemoryAllocation */
    {3, INGOT_ERR_NO_DEVICE, NULL},     /* cudaErrorInitializationError */
    {35, INGOT_ERR_NO_DEVICE, "no NVIDIA driver, or one older than this build's CUDA runtime"},
    {46, INGOT_ERR_NO_DEVICE, "the device is busy or in prohibited mode"},
    {98, INGOT_ERR_NO_CODE, NULL},    /* cudaErrorInvalidDeviceFunction */
    {100, INGOT_ERR_NO_DEVICE, NULL}, /* cudaErrorNoDevice */
    {101, INGOT_ERR_NO_DEVICE, NULL}, /* cudaErrorInvalidDevice */
    {200, INGOT_ERR_NO_CODE, NULL},   /* cudaErrorInvalidKernelImage */
    {209, INGOT_ERR_NO_CODE, NULL},   /* cudaErrorNoKernelImageForDevice */
    {218, INGOT_ERR_NO_CODE, NULL},   /* cudaErrorInvalidPtx */
    {221, INGOT_ERR_NO_CODE, "PTX only, and this driver cannot compile it"},
    {222, INGOT_ERR_NO_CODE, "the driver is too old for this build's PTX: update it or build for this chip"},
    {223, INGOT_ERR_NO_CODE, "PTX only, and its compilation is switched off"},
    {214, INGOT_ERR_LOST, "uncorrectable ECC error"},
    {220, INGOT_ERR_LOST, "uncorrectable NVLink error"},
    {226, INGOT_ERR_LOST, NULL}, /* cudaErrorContained */
    {700, INGOT_ERR_LOST, NULL}, /* cudaErrorIllegalAddress */
    {702, INGOT_ERR_LOST, NULL}, /* cudaErrorLaunchTimeout */
    {709, INGOT_ERR_LOST, NULL}, /* cudaErrorContextIsDestroyed */
    {710, INGOT_ERR_LOST, NULL}, /* cudaErrorAssert */
    {714, INGOT_ERR_LOST, NULL}, /* cudaErrorHardwareStackError */
    {715, INGOT_ERR_LOST, NULL}, /* cudaErrorIllegalInstruction */
    {716, INGOT_ERR_LOST, NULL}, /* cudaErrorMisalignedAddress */
    {717, INGOT_ERR_LOST, NULL}, /* cudaErrorInvalidAddressSpace */
    {718, INGOT_ERR_LOST, NULL}, /* cudaErrorInvalidPc */
    {719, INGOT_ERR_LOST, NULL}, /* cudaErrorLaunchFailure */
    {721, INGOT_ERR_LOST, NULL}, /* cudaErrorTensorMemoryLeak */
    {802, INGOT_ERR_NO_DEVICE, "the system (fabric manager) is not ready"},
    {803, INGOT_ERR_NO_DEVICE, "the driver's user and kernel parts differ in version"},
    {804, INGOT_ERR_NO_DEVICE, NULL}, /* cudaErrorCompatNotSupportedOnDevice */
};

#define CUDART_UNLOADING 4 /* the process is exiting: not worth a word */

ingot_status ingot_check_cuda(ingot_context *ctx, cudaError_t error, const char *what) {
    struct meaning m = {(int)error, INGOT_ERR_CUDA, NULL};

    if (error == cudaSuccess) return INGOT_OK;
    (void)cudaGetLastError();
    if ((int)error == CUDART_UNLOADING) return INGOT_ERR_CUDA;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        if (meanings[i].error == (int)error) m = meanings[i];
    }
    if (ctx && m.status == INGOT_ERR_LOST) ctx->lost = true;
    return ingot_fail(ctx, m.status, "%.*s: %s (%s, error %d)%s%s%s", (int)strcspn(what, "("), what,
                      cudaGetErrorString(error), cudaGetErrorName(error), (int)error, m.hint ? "; " : "",
                      m.hint ? m.hint : "",
                      m.status == INGOT_ERR_LOST ? "; the context is lost, destroy it and create another" : "");
}
