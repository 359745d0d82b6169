/* SPDX-License-Identifier: MIT
 *
 * vector_types.h - CUDA's short vector types and dim3 for the SIMT build, which needs no toolkit.
 * Same names, sizes and alignments as the toolkit's header of this name. C and C++.
 */
#ifndef SIMT_VECTOR_TYPES_H
#define SIMT_VECTOR_TYPES_H

#define SIMT_ALIGN(n) __attribute__((aligned(n)))
#define SIMT_VEC2(T, name, al) typedef struct SIMT_ALIGN(al) name { T x, y; } name;
#define SIMT_VEC3(T, name)     typedef struct name { T x, y, z; } name;
#define SIMT_VEC4(T, name, al) typedef struct SIMT_ALIGN(al) name { T x, y, z, w; } name;

SIMT_VEC2(signed char, char2, 2)    SIMT_VEC4(signed char, char4, 4)
SIMT_VEC2(unsigned char, uchar2, 2) SIMT_VEC4(unsigned char, uchar4, 4)
SIMT_VEC2(short, short2, 4)         SIMT_VEC4(short, short4, 8)
SIMT_VEC2(unsigned short, ushort2, 4) SIMT_VEC4(unsigned short, ushort4, 8)
SIMT_VEC2(int, int2, 8)             SIMT_VEC3(int, int3)           SIMT_VEC4(int, int4, 16)
SIMT_VEC2(unsigned int, uint2, 8)   SIMT_VEC3(unsigned int, uint3) SIMT_VEC4(unsigned int, uint4, 16)
SIMT_VEC2(float, float2, 8)         SIMT_VEC3(float, float3)       SIMT_VEC4(float, float4, 16)
SIMT_VEC2(double, double2, 16)
SIMT_VEC2(long long, longlong2, 16) SIMT_VEC2(unsigned long long, ulonglong2, 16)

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;

#ifdef __cplusplus
#define SIMT_MAKE2(T, n) static inline n make_##n(T x, T y) { return n{x, y}; }
#define SIMT_MAKE3(T, n) static inline n make_##n(T x, T y, T z) { return n{x, y, z}; }
#define SIMT_MAKE4(T, n) static inline n make_##n(T x, T y, T z, T w) { return n{x, y, z, w}; }
SIMT_MAKE2(signed char, char2)     SIMT_MAKE4(signed char, char4)
SIMT_MAKE2(unsigned char, uchar2)  SIMT_MAKE4(unsigned char, uchar4)
SIMT_MAKE2(short, short2)          SIMT_MAKE4(short, short4)
SIMT_MAKE2(unsigned short, ushort2) SIMT_MAKE4(unsigned short, ushort4)
SIMT_MAKE2(int, int2)              SIMT_MAKE3(int, int3)       SIMT_MAKE4(int, int4)
SIMT_MAKE2(unsigned int, uint2)    SIMT_MAKE3(unsigned int, uint3) SIMT_MAKE4(unsigned int, uint4)
SIMT_MAKE2(float, float2)          SIMT_MAKE3(float, float3)   SIMT_MAKE4(float, float4)
SIMT_MAKE2(double, double2)
#endif

#endif
