/* SPDX-License-Identifier: MIT
 *
 * tile8.cuh - weights as whole numbers for the int8 tensor cores, 32 at a time: what each format's tile8() gives.
 */
#ifndef INGOT_TILE8_CUH
#define INGOT_TILE8_CUH

#include "src/device/device.cuh"

/* 32 consecutive weights of a row, w = scale * q + least. With TILE_HALVES 2 each sixteen have a scale and a least of their
 * own; without TILE_LEAST there is none, and where halves or leasts are not meant they are not read. */
struct tile8 {
    uint32_t q[8]; /* bytes, signed, in the order of the weights */
    float    scale[2], least[2];
};

/* Bytes less n each: of numbers below 128. */
INGOT_DEV uint32_t bytes_less(uint32_t q, uint32_t n) { return ((q | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u; }
/* Sums of bytes, which do not reach one another. */
INGOT_DEV uint32_t bytes_add(uint32_t a, uint32_t b) { return ((a & 0x7f7f7f7fu) + (b & 0x7f7f7f7fu)) ^ ((a ^ b) & 0x80808080u); }
/* Bytes turned to their negatives where a mask has 0xff: of numbers that are not 0. */
INGOT_DEV uint32_t bytes_signed(uint32_t q, uint32_t mask) { return (q ^ mask) + (mask & 0x01010101u); }

#endif
