/* SPDX-License-Identifier: MIT
 *
 * tensor.cuh - how kernels reach the elements of strided tensors of plain types.
 *
 * Kernels compute in float (i32 is only carried). `ld_f16(p)` reads one element of the type in its name, `ldv_f16(p, v)` a
 * vector of as many elements as v has; st_ and stv_ write. Narrow elements are always stored one by
 * one or in whole aligned vectors that belong to the tensor: a store never touches a neighbour.
 *
 * Offsets are 64 bits wide and in bytes. Which path a kernel takes (vectors or single elements) is
 * decided from pointers, strides and sizes only, so it is the same for every thread of a launch, and
 * both paths compute the same expression per element.
 */
#ifndef INGOT_TENSOR_CUH
#define INGOT_TENSOR_CUH

#include "src/device/device.cuh"
#include "src/kernels/args.h"

/* ---- one element ------------------------------------------------------------------------------- */

INGOT_DEV float ld_f32(const void *p) { return *(const float *)p; }
INGOT_DEV float ld_f16(const void *p) { return h2f(ld_2(p)); }
INGOT_DEV float ld_bf16(const void *p) { return bf2f(ld_2(p)); }
INGOT_DEV void st_f32(void *p, float v) { *(float *)p = v; }
INGOT_DEV void st_f16(void *p, float v) { st_2(p, f2h(v)); }
INGOT_DEV void st_bf16(void *p, float v) { st_2(p, f2bf(v)); }

INGOT_DEV int32_t ld_i32(const void *p) { return *(const int32_t *)p; }
INGOT_DEV void st_i32(void *p, int32_t v) { *(int32_t *)p = v; }

/* ---- vectors: p is aligned to the vector's size, or to 16 bytes where that is less --------------- */

INGOT_DEV void ldv_f32(const void *p, float (&v)[4]) {
    const uint4 t = ld_16(p);
    v[0] = __uint_as_float(t.x), v[1] = __uint_as_float(t.y), v[2] = __uint_as_float(t.z), v[3] = __uint_as_float(t.w);
}
INGOT_DEV void ldv_f32(const void *p, float (&v)[8]) {
    const uint4 t = ld_16(p), u = ld_16((const char *)p + 16);
    v[0] = __uint_as_float(t.x), v[1] = __uint_as_float(t.y), v[2] = __uint_as_float(t.z), v[3] = __uint_as_float(t.w);
    v[4] = __uint_as_float(u.x), v[5] = __uint_as_float(u.y), v[6] = __uint_as_float(u.z), v[7] = __uint_as_float(u.w);
}
INGOT_DEV void ldv_f16(const void *p, float (&v)[4]) {
    const uint2 t = ld_8(p);
    v[0] = half2_lo(t.x), v[1] = half2_hi(t.x), v[2] = half2_lo(t.y), v[3] = half2_hi(t.y);
}
INGOT_DEV void ldv_f16(const void *p, float (&v)[8]) {
    const uint4 t = ld_16(p);
    v[0] = half2_lo(t.x), v[1] = half2_hi(t.x), v[2] = half2_lo(t.y), v[3] = half2_hi(t.y);
    v[4] = half2_lo(t.z), v[5] = half2_hi(t.z), v[6] = half2_lo(t.w), v[7] = half2_hi(t.w);
}
INGOT_DEV float bf162_lo(uint32_t v) { return __uint_as_float(v << 16); }
INGOT_DEV float bf162_hi(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
INGOT_DEV void ldv_bf16(const void *p, float (&v)[8]) {
    const uint4 t = ld_16(p);
    v[0] = bf162_lo(t.x), v[1] = bf162_hi(t.x), v[2] = bf162_lo(t.y), v[3] = bf162_hi(t.y);
    v[4] = bf162_lo(t.z), v[5] = bf162_hi(t.z), v[6] = bf162_lo(t.w), v[7] = bf162_hi(t.w);
}
INGOT_DEV void ldv_i32(const void *p, int32_t (&v)[4]) {
    const uint4 t = ld_16(p);
    v[0] = (int32_t)t.x, v[1] = (int32_t)t.y, v[2] = (int32_t)t.z, v[3] = (int32_t)t.w;
}
INGOT_DEV void stv_f32(void *p, const float (&v)[4]) {
    st_16(p, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])));
}
INGOT_DEV void stv_f32(void *p, const float (&v)[8]) {
    st_16(p, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])));
    st_16((char *)p + 16,
          make_uint4(__float_as_uint(v[4]), __float_as_uint(v[5]), __float_as_uint(v[6]), __float_as_uint(v[7])));
}
INGOT_DEV void stv_f16(void *p, const float (&v)[8]) {
    st_16(p, make_uint4(pack_half2(v[0], v[1]), pack_half2(v[2], v[3]), pack_half2(v[4], v[5]), pack_half2(v[6], v[7])));
}
INGOT_DEV void stv_bf16(void *p, const float (&v)[8]) {
    st_16(p, make_uint4(pack_bf162(v[0], v[1]), pack_bf162(v[2], v[3]), pack_bf162(v[4], v[5]), pack_bf162(v[6], v[7])));
}
INGOT_DEV void stv_i32(void *p, const int32_t (&v)[4]) {
    st_16(p, make_uint4((uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3]));
}

/* ---- indices -------------------------------------------------------------------------------------- */

/* Quotient and remainder of non-negative numbers. 64-bit division is many times slower than 32-bit, and
 * nearly every index fits in 32 bits. */
INGOT_DEV int64_t quotient(int64_t n, int64_t d) {
    return ((uint64_t)(n | d) >> 32) == 0 ? (int64_t)((uint32_t)n / (uint32_t)d) : n / d;
}
INGOT_DEV int64_t modulo(int64_t n, int64_t d) { return n - quotient(n, d) * d; }

INGOT_DEV int64_t elements(const struct ingot_arg_tensor &t) { return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]; }

/* The coordinates of element i in ne order, and of row i (dimensions 1..3; at[0] is left alone). */
INGOT_DEV void row_coordinates(int64_t i, const int64_t (&ne)[4], int64_t (&at)[4]) {
    const int64_t q1 = quotient(i, ne[1]), q2 = quotient(q1, ne[2]);
    at[1] = i - q1 * ne[1];
    at[2] = q1 - q2 * ne[2];
    at[3] = q2;
}
INGOT_DEV void coordinates(int64_t i, const int64_t (&ne)[4], int64_t (&at)[4]) {
    const int64_t row = quotient(i, ne[0]);
    at[0] = i - row * ne[0];
    row_coordinates(row, ne, at);
}

/* The row of `t`, repeated over a larger shape, that serves the coordinates `at`. */
INGOT_DEV void repeat_rows(const struct ingot_arg_tensor &t, int64_t (&at)[4]) {
    at[1] = modulo(at[1], t.ne[1]);
    at[2] = modulo(at[2], t.ne[2]);
    at[3] = modulo(at[3], t.ne[3]);
}

/* The address of an element, and of the first element of its row. */
INGOT_DEV char *row_address(const struct ingot_arg_tensor &t, const int64_t (&at)[4]) {
    return (char *)t.data + at[1] * t.nb[1] + at[2] * t.nb[2] + at[3] * t.nb[3];
}
INGOT_DEV char *address(const struct ingot_arg_tensor &t, const int64_t (&at)[4]) {
    return row_address(t, at) + at[0] * t.nb[0];
}

/* ---- four neighbours of a row: one vector if `vec`, else one by one up to the row's end ------------ */

INGOT_DEV void ld_quad_f32(const char *row, int64_t nb0, int64_t i, int64_t ne0, bool vec, float missing, float (&v)[4]) {
    if (vec) {
        ldv_f32(row + i * 4, v);
    } else {
        INGOT_UNROLL
        for (int e = 0; e < 4; e++) v[e] = i + e < ne0 ? ld_f32(row + (i + e) * nb0) : missing;
    }
}
INGOT_DEV void ld_quad_f16(const char *row, int64_t nb0, int64_t i, int64_t ne0, bool vec, float missing, float (&v)[4]) {
    if (vec) {
        ldv_f16(row + i * 2, v);
    } else {
        INGOT_UNROLL
        for (int e = 0; e < 4; e++) v[e] = i + e < ne0 ? ld_f16(row + (i + e) * nb0) : missing;
    }
}
INGOT_DEV void st_quad_f32(char *row, int64_t nb0, int64_t i, int64_t ne0, bool vec, const float (&v)[4]) {
    if (vec) {
        stv_f32(row + i * 4, v);
    } else {
        INGOT_UNROLL
        for (int e = 0; e < 4; e++)
            if (i + e < ne0) st_f32(row + (i + e) * nb0, v[e]);
    }
}

/* ---- when vectors are allowed. A dimension of 1 has no stride to speak of. ------------------------ */

INGOT_DEV bool aligned_16(const void *p) { return ((uintptr_t)p & 15) == 0; }

/* One unbroken run of elements of `size` bytes, starting on 16 bytes. */
INGOT_DEV bool is_flat(const struct ingot_arg_tensor &t, int64_t size) {
    const int64_t s1 = size * t.ne[0], s2 = s1 * t.ne[1], s3 = s2 * t.ne[2];
    return aligned_16(t.data) && (t.ne[0] == 1 || t.nb[0] == size) && (t.ne[1] == 1 || t.nb[1] == s1) &&
           (t.ne[2] == 1 || t.nb[2] == s2) && (t.ne[3] == 1 || t.nb[3] == s3);
}
/* Unbroken rows that each start on 16 bytes. */
INGOT_DEV bool has_aligned_rows(const struct ingot_arg_tensor &t, int64_t size) {
    return aligned_16(t.data) && t.nb[0] == size && (t.ne[1] == 1 || (t.nb[1] & 15) == 0) &&
           (t.ne[2] == 1 || (t.nb[2] & 15) == 0) && (t.ne[3] == 1 || (t.nb[3] & 15) == 0);
}
INGOT_DEV bool same_shape(const struct ingot_arg_tensor &a, const struct ingot_arg_tensor &b) {
    return a.ne[0] == b.ne[0] && a.ne[1] == b.ne[1] && a.ne[2] == b.ne[2] && a.ne[3] == b.ne[3];
}

#endif
