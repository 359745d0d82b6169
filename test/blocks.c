// SPDX-License-Identifier: MIT
/* blocks.c - blocks of the quantised formats: their decoders, random ones, ones full of ones (check.h).
 *
 * A format with a decoder here has three cases: in decode, scale_places and ones.  A format with none is drawn from, and
 * looked up in, its golden vectors (golden_blocks.h). */
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

static float read_f32(const unsigned char *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
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

/* The 16 levels of iq4_nl and iq4_xs. */
static int level(int i) {
    static const int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return levels[i];
}

/* Sign, two bits of exponent, one of fraction. */
static double e2m1(int bits) {
    int exponent = bits >> 1 & 3, fraction = bits & 1;
    double size = exponent == 0 ? 0.5 * fraction : ldexp(1.0 + 0.5 * fraction, exponent - 1);
    return bits & 8 ? -size : size;
}

/* Four bits of exponent, three of fraction; the sign is not looked at, but 0x7f, no number, is 0 without it. */
static double e4m3(int bits) {
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    if (bits == 0x7f) return 0.0;
    return exponent == 0 ? ldexp(fraction, -9) : ldexp(8.0 + fraction, exponent - 10);
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
    case INGOT_TYPE_Q8_1: /* f16 d, sum; 32 int8 */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * (int8_t)b[4 + i];
        break;
    case INGOT_TYPE_Q2_K: /* 16 bytes of scales (low nibbles) and minima (high), 64 bytes of bit pairs, f16 d, dmin.  Each
                             half of 128 elements is four runs of 32, bit pairs 0 to 3 of the same 32 bytes */
        for (int i = 0; i < 256; i++) {
            int pair = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            out[i] = read_f16(b + 80) * (b[i / 16] & 15) * pair - read_f16(b + 82) * (b[i / 16] >> 4);
        }
        break;
    case INGOT_TYPE_Q3_K: /* 32 bytes, of which bit j is the high bit of run j of 32; 64 bytes of bit pairs as in q2_K; 12
                             bytes of scales; f16 d.  Of scale n the low four bits are nibble n / 8 of byte n mod 8, the
                             high two are pair n / 4 of byte 8 + n mod 4 */
        for (int i = 0; i < 256; i++) {
            int n = i / 16, pair = b[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            int high = b[i % 32] >> (i / 32) & 1;
            scale = (b[96 + n % 8] >> (n / 8 * 4) & 15) | (b[104 + n % 4] >> (n / 4 * 2) & 3) << 4;
            out[i] = read_f16(b + 108) * (scale - 32) * (pair - (high ? 0 : 4));
        }
        break;
    case INGOT_TYPE_Q5_K: /* f16 d, dmin; 12 bytes of scales as in q4_K; 32 bytes, of which bit j is the fifth bit of group
                             j; nibbles as in q4_K */
        for (int i = 0; i < 256; i++) {
            int group = i / 32, byte = b[48 + group / 2 * 32 + i % 32], fifth = b[16 + i % 32] >> group & 1;
            scale_min_K(b + 4, group, &scale, &minimum);
            out[i] =
                read_f16(b) * scale * ((group % 2 ? byte >> 4 : byte & 15) | fifth << 4) - read_f16(b + 2) * minimum;
        }
        break;
    case INGOT_TYPE_Q8_K: /* f32 d; 256 int8; 16 int16 sums */
        for (int i = 0; i < 256; i++) out[i] = (double)read_f32(b) * (int8_t)b[4 + i];
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
    case INGOT_TYPE_IQ4_NL: /* f16 d; nibbles */
        for (int i = 0; i < 32; i++) out[i] = read_f16(b) * level(nibble32(b + 2, i));
        break;
    case INGOT_TYPE_IQ4_XS: /* f16 d; 16 high bits and 4 bytes of low bits of eight scales; eight times nibbles */
        for (int i = 0; i < 256; i++) {
            int group = i / 32, high = (b[2] | b[3] << 8) >> 2 * group & 3;
            scale = (b[4 + group / 2] >> group % 2 * 4 & 15) + 16 * high - 32;
            out[i] = read_f16(b) * scale * level(nibble32(b + 8 + 16 * group, i % 32));
        }
        break;
    case INGOT_TYPE_MXFP4: /* exponent; nibbles */
        for (int i = 0; i < 32; i++) out[i] = ldexp(e2m1(nibble32(b + 1, i)), b[0] - 127);
        break;
    case INGOT_TYPE_NVFP4: /* 4 scales of 16; four times 8 bytes of nibbles, low ones first */
        for (int i = 0; i < 64; i++) {
            int group = i / 16, byte = b[4 + 8 * group + i % 8];
            out[i] = e4m3(b[group]) * e2m1(i % 16 < 8 ? byte & 15 : byte >> 4);
        }
        break;
    case INGOT_TYPE_TQ1_0: /* bytes of 5 digits, 32 and 16 of them, and of 4 digits, 4; f16 d */
        for (int i = 0; i < 256; i++) {
            int byte = i < 160 ? b[i % 32] : i < 240 ? b[32 + i % 16] : b[48 + i % 4];
            int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
            for (; digit > 0; digit--) byte = byte * 3 % 256; /* the digits before it go */
            out[i] = read_f16(b + 52) * (byte * 3 / 256 - 1);
        }
        break;
    case INGOT_TYPE_TQ2_0: /* twice 32 bytes of bit pairs; f16 d */
        for (int i = 0; i < 256; i++)
            out[i] = read_f16(b + 64) * ((b[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) - 1);
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

/* Where the scales of a block lie; their number.  They are f16, of q8_K f32. */
static int scale_places(ingot_type type, size_t place[2]) {
    switch (type) {
    case INGOT_TYPE_Q4_1:
    case INGOT_TYPE_Q5_1:
    case INGOT_TYPE_Q8_1:
    case INGOT_TYPE_Q4_K:
    case INGOT_TYPE_Q5_K:
        place[0] = 0, place[1] = 2;
        return 2;
    case INGOT_TYPE_Q2_K:
        place[0] = 80, place[1] = 82;
        return 2;
    case INGOT_TYPE_Q3_K:
        place[0] = 108;
        return 1;
    case INGOT_TYPE_Q6_K:
        place[0] = 208;
        return 1;
    case INGOT_TYPE_TQ1_0:
        place[0] = 52;
        return 1;
    case INGOT_TYPE_TQ2_0:
        place[0] = 64;
        return 1;
    case INGOT_TYPE_MXFP4:
    case INGOT_TYPE_NVFP4:
        return 0;
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
        const bool wide = type == INGOT_TYPE_Q8_K;
        float f;
        do {
            const uint32_t bits = (uint32_t)check_random();
            if (!wild) f = (float)(ldexp(check_uniform(1.0, 2.0), (int)check_range(-7, -5)) * (bits & 1 ? 1 : -1));
            else if (wide) memcpy(&f, &bits, sizeof f);
            else f = check_f16_to_f32((uint16_t)bits);
        } while (!isfinite(f * 128.0f)); /* f32: all quants times it are finite too */
        if (wide) memcpy(block + place[i], &f, sizeof f);
        else write_f16(block + place[i], f);
    }
    /* Scales of one byte; the largest of mxfp4 are too large for f32. */
    if (type == INGOT_TYPE_MXFP4) block[0] = (unsigned char)(wild ? check_range(0, 251) : check_range(120, 122));
    if (type == INGOT_TYPE_NVFP4 && !wild)
        for (int i = 0; i < 4; i++) block[i] = (unsigned char)check_range(0, 16);
}

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
    case INGOT_TYPE_Q8_1:
        write_f16(b, 1.0f);
        write_f16(b + 2, 32.0f);
        memset(b + 4, 1, 32);
        break;
    case INGOT_TYPE_Q2_K: /* 1 * 1 * 2 - 1 * 1 */
        memset(b, 0x11, 16);
        memset(b + 16, 0xaa, 64);
        write_f16(b + 80, 1.0f);
        write_f16(b + 82, 1.0f);
        break;
    case INGOT_TYPE_Q3_K: /* 1 * (33 - 32) * (5 - 4) */
        memset(b, 0xff, 32);
        memset(b + 32, 0x55, 64);
        memset(b + 96, 0x11, 8);
        memset(b + 104, 0xaa, 4);
        write_f16(b + 108, 1.0f);
        break;
    case INGOT_TYPE_Q5_K: /* 1 * 1 * 17 - 1 * 16 */
        write_f16(b, 1.0f);
        write_f16(b + 2, 1.0f);
        memset(b + 4, 0x01, 4);
        memset(b + 8, 0x50, 4);
        memset(b + 12, 0x01, 4);
        memset(b + 16, 0xff, 32);
        memset(b + 48, 0x11, 128);
        break;
    case INGOT_TYPE_Q8_K: /* sums of 16 */
        b[2] = 0x80, b[3] = 0x3f;
        memset(b + 4, 1, 256);
        for (int i = 0; i < 16; i++) b[260 + 2 * i] = 16;
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
    case INGOT_TYPE_IQ4_NL: /* 1 * 1 */
        write_f16(b, 1.0f);
        memset(b + 2, 0x88, 16);
        break;
    case INGOT_TYPE_IQ4_XS: /* 1 * (33 - 32) * 1 */
        write_f16(b, 1.0f);
        memset(b + 2, 0xaa, 2);
        memset(b + 4, 0x11, 4);
        memset(b + 8, 0x88, 128);
        break;
    case INGOT_TYPE_MXFP4:
        b[0] = 127;
        memset(b + 1, 0x22, 16);
        break;
    case INGOT_TYPE_NVFP4:
        memset(b, 0x38, 4);
        memset(b + 4, 0x22, 32);
        break;
    case INGOT_TYPE_TQ1_0: /* 1 * (2 - 1): 2/3 + 2/9 + ... */
        memset(b, 0xff, 52);
        write_f16(b + 52, 1.0f);
        break;
    case INGOT_TYPE_TQ2_0: /* 1 * (2 - 1) */
        memset(b, 0xaa, 64);
        write_f16(b + 64, 1.0f);
        break;
    default:
        return golden_ones(type, b);
    }
    return true;
}

void check_ones_block(ingot_type type, unsigned char *block) {
    if (!ones(type, block)) check_fail("no block of ones for type %s", ingot_type_name(type));
}
