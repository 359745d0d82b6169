/* SPDX-License-Identifier: MIT
 *
 * cuda_runtime.h - the SIMT build has one runtime header, cuda_runtime_api.h; this name leads there.
 */
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"
#endif
