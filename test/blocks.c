// SPDX-License-Identifier: MIT
/* blocks.c - blocks of the quantised formats: their decoders, random ones, ones full of ones (check.h).
 *
 * A format with a decoder here has three cases: in decode, scale_places and ones (the last is free to lack).  A format
 * with none is drawn from, and looked up in, its golden vectors (golden_blocks.h). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "check.h"
#include "golden_blocks.h"

static const ingot_type plain_types[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};

size_t check_types(ingot_type types[CHECK_TYPES]) {
    size_t count = 0;
    for (; count < 3; count++) types[count] = plain_types[count];
    for (int type = 0; type < CHECK_TYPES; type++)
        if (check_is_block((ingot_type)type) && check_in_build((ingot_type)type)) types[count++] = (ingot_type)type;
    return count;
}

bool check_is_block(ingot_type type) {
    return ingot_type_block(type) > 1;
}

bool check_in_build(ingot_type type) {
    const char *name = ingot_type_name(type);
    size_t length = strlen(name);
    for (const char *p = ingot_build_info().types; (p = strstr(p, name)) != NULL; p += length)
        if ((p == ingot_build_info().types || p[-1] == ' ') && (p[length] == ' ' || p[length] == '\0')) return true;
    return false;
}

static double read_f16(const unsigned char *p) {
    return (double)check_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static void write_f16(unsigned char *p, float x) {
    uint16_t h = check_f32_to_f16(x);
    p[0] = (unsigned char)(h & 255);
    p[1] = (unsigned char)(h >> 8);
}

/* Bit i of the 32 bits at p. */
static int bit32(const unsigned char *p, int i) {
    return p[i / 8] >> i % 8 & 1;
}

static int nibble32(const unsigned char *p, int i) {
    return i < 16 ? p[i] & 15 : p[i - 16] >> 4;
}

/* q4_K: the 12 bytes hold eight 6-bit scales and eight 6-bit minima.
 *   bytes 0..3   scale j (0..3) in bits 0-5, top two bits of scale j+4 in bits 6-7
 *   bytes 4..7   minimum j      in bits 0-5, top two bits of minimum j+4 in bits 6-7
 *   bytes 8..11  low four bits of scale j+4 in bits 0-3, of minimum j+4 in bits 4-7 */
static void scale_min_K(const unsigned char *p, int j, int *scale, int *minimum) {
    if (j < 4) {
        *scale = p[j] & 63;
        *minimum = p[4 + j] & 63;
    } else {
        *scale = (p[4 + j] & 15) | (p[j - 4] >> 6) << 4;
        *minimum = p[4 + j] >> 4 | (p[j] >> 6) << 4;
    }
}

/* Little-endian f16 scales; nibbles: low ones are the first half of the block. */

/* False: there is no decoder of the format here. */
static bool decode(ingot_type type, const unsigned char *b, double *out) {
    int scale, minimum;
    switch (type) {
    case INGOT_TYPE_Q4_0: /* f16 d; 16 bytes of nibbles */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * (nibble32(b + 2, i) - 8);
        break;
    case INGOT_TYPE_Q4_1: /* f16 d, m; nibbles */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * nibble32(b + 4, i) + read_f16(b + 2);
        break;
    case INGOT_TYPE_Q5_0: /* f16 d; 32 fifth bits; nibbles */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * ((nibble32(b + 6, i) | bit32(b + 2, i) << 4) - 16);
        break;
    case INGOT_TYPE_Q5_1: /* f16 d, m; 32 fifth bits; nibbles */
        for (int i = 0; i < 32; i++)
            out[i] = read_f16(b) * (nibble32(b + 8, i) | bit32(b + 4, i) << 4) + read_f16(b + 2);
        break;
    case INGOT_TYPE_Q8_0: /* f16 d; 32 int8 */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * (int8_t)b[2 + i];
        break;
    case INGOT_TYPE_Q4_K: /* f16 d, dmin; 12 bytes of scales; four times 32 bytes: low nibbles are one group of 32,
                             high nibbles the next */
        for (int i = 0; i < 256; i++) {
            int group = i / 32, byte = b[16 + group / 2 * 32 + i % 32];
            scale_min_K(b + 4, group, &scale, &minimum);
            out[i] = read_f16(b) * scale * (group % 2 ? byte >> 4 : byte & 15) - read_f16(b + 2) * minimum;
        }
        break;
    case INGOT_TYPE_Q6_K: /* 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 int8 scales, f16 d.  Each half of
                             128 elements is four runs of 32: nibbles of bytes 0-31, 32-63 (low), then high */
        for (int i = 0; i < 256; i++) {
            int half = i / 128, run = i % 128 / 32, e = i % 32;
            int low = b[half * 64 + run % 2 * 32 + e] >> (run / 2 * 4) & 15;
            int high = b[128 + half * 32 + e] >> (run * 2) & 3;
            out[i] = read_f16(b + 208) * (int8_t)b[192 + i / 16] * ((low | high << 4) - 32);
        }
        break;
    default:
        return false;
    }
    return true;
}

bool check_has_decoder(ingot_type type) {
    const unsigned char zeros[512] = {0};
    double values[256];
    return decode(type, zeros, values);
}

void check_decode_block(ingot_type type, const unsigned char *block, double *out) {
    if (!decode(type, block, out)) golden_decode(type, block, out);
}

/* Where the f16 scales of a block lie; their number. */
static int scale_places(ingot_type type, size_t place[2]) {
    switch (type) {
    case INGOT_TYPE_Q4_1:
    case INGOT_TYPE_Q5_1:
    case INGOT_TYPE_Q4_K:
        place[0] = 0, place[1] = 2;
        return 2;
    case INGOT_TYPE_Q6_K:
        place[0] = 208;
        return 1;
    default:
        place[0] = 0;
        return 1;
    }
}

void check_random_block(ingot_type type, unsigned char *block, bool wild) {
    size_t place[2];
    if (!check_has_decoder(type)) {
        golden_random(type, block, wild);
        return;
    }
    for (size_t i = 0; i < ingot_type_size(type); i++) block[i] = (unsigned char)check_random();
    for (int i = 0, n = scale_places(type, place); i < n; i++) {
        float f;
        if (wild) {
            do f = check_f16_to_f32((uint16_t)check_random());
            while (!isfinite(f));
        } else {
            f = (float)(ldexp(check_uniform(1.0, 2.0), (int)check_range(-7, -5)) * (check_random() & 1 ? 1 : -1));
        }
        write_f16(block + place[i], f);
    }
}

/* False: there is no block of ones of the format here. */
static bool ones(ingot_type type, unsigned char *b) {
    memset(b, 0, ingot_type_size(type));
    switch (type) {
    case INGOT_TYPE_Q4_0: /* 1 * (9 - 8) */
        write_f16(b, 1.0f);
        memset(b + 2, 0x99, 16);
        break;
    case INGOT_TYPE_Q4_1: /* 0.5 * 1 + 0.5 */
        write_f16(b, 0.5f);
        write_f16(b + 2, 0.5f);
        memset(b + 4, 0x11, 16);
        break;
    case INGOT_TYPE_Q5_0: /* 1 * (17 - 16) */
        write_f16(b, 1.0f);
        memset(b + 2, 0xff, 4);
        memset(b + 6, 0x11, 16);
        break;
    case INGOT_TYPE_Q5_1: /* 0.5 * 1 + 0.5 */
        write_f16(b, 0.5f);
        write_f16(b + 2, 0.5f);
        memset(b + 8, 0x11, 16);
        break;
    case INGOT_TYPE_Q8_0:
        write_f16(b, 1.0f);
        memset(b + 2, 1, 32);
        break;
    case INGOT_TYPE_Q4_K: /* 1 * 1 * 2 - 1 * 1 */
        write_f16(b, 1.0f);
        write_f16(b + 2, 1.0f);
        memset(b + 4, 1, 8);
        memset(b + 12, 0x11, 4);
        memset(b + 16, 0x22, 128);
        break;
    case INGOT_TYPE_Q6_K: /* 1 * 1 * (33 - 32) */
        memset(b, 0x11, 128);
        memset(b + 128, 0xaa, 64);
        memset(b + 192, 1, 16);
        write_f16(b + 208, 1.0f);
        break;
    default:
        return false;
    }
    return true;
}

bool check_has_ones(ingot_type type) {
    unsigned char block[512];
    if (!check_is_block(type) || ones(type, block)) return true;
    print_message("%s: no block of ones, left out\n", ingot_type_name(type));
    return false;
}

void check_ones_block(ingot_type type, unsigned char *block) {
    if (!ones(type, block)) check_fail("no block of ones for type %s", ingot_type_name(type));
}
