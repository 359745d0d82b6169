// SPDX-License-Identifier: MIT
/* build.h - what the Makefile says about a build, with what holds if it says nothing. */
#ifndef INGOT_BUILD_H
#define INGOT_BUILD_H

#ifndef INGOT_SIMT
#define INGOT_SIMT 0     /* 1: kernels are compiled for the CPU */
#endif
#ifndef INGOT_ARCHS
#if INGOT_SIMT
#define INGOT_ARCHS "simt"
#else
#define INGOT_ARCHS ""   /* chips with machine code: "75 80 90a" */
#endif
#endif
#ifndef INGOT_PTX
#define INGOT_PTX ""     /* levels with PTX: "80" */
#endif
#ifndef INGOT_CUBLASLT
#define INGOT_CUBLASLT 0 /* 1: cuBLASLt is linked */
#endif

#endif
