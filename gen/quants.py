# SPDX-License-Identifier: MIT
"""Facts of every tensor type of GGUF, and the layout of each block format that has kernels.

Types are (name, number, elements per block, bytes per block).  Name and number are those of the GGUF specification;
block and bytes are those of the format's C struct, which agree with GGML_QUANT_SIZES of the PyPI package `gguf` in all
rows but q8_1, where that table gives 40 (its d and s counted as f32) and the struct is 36 (d and s are f16).
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    name: str    # GGUF spelling
    number: int  # ggml_type
    block: int   # elements per block
    bytes: int   # bytes per block

    @property
    def enum(self):
        return self.name.upper()


#         name       nr  block bytes
TYPES = [Type(*row) for row in (
        ("f32",       0,   1,    4),
        ("f16",       1,   1,    2),
        ("q4_0",      2,  32,   18),
        ("q4_1",      3,  32,   20),
        ("q5_0",      6,  32,   22),
        ("q5_1",      7,  32,   24),
        ("q8_0",      8,  32,   34),
        ("q8_1",      9,  32,   36),
        ("q2_K",     10, 256,   84),
        ("q3_K",     11, 256,  110),
        ("q4_K",     12, 256,  144),
        ("q5_K",     13, 256,  176),
        ("q6_K",     14, 256,  210),
        ("q8_K",     15, 256,  292),
        ("iq2_xxs",  16, 256,   66),
        ("iq2_xs",   17, 256,   74),
        ("iq3_xxs",  18, 256,   98),
        ("iq1_s",    19, 256,   50),
        ("iq4_nl",   20,  32,   18),
        ("iq3_s",    21, 256,  110),
        ("iq2_s",    22, 256,   82),
        ("iq4_xs",   23, 256,  136),
        ("i8",       24,   1,    1),
        ("i16",      25,   1,    2),
        ("i32",      26,   1,    4),
        ("i64",      27,   1,    8),
        ("f64",      28,   1,    8),
        ("iq1_m",    29, 256,   56),
        ("bf16",     30,   1,    2),
        ("tq1_0",    34, 256,   54),
        ("tq2_0",    35, 256,   66),
        ("mxfp4",    39,  32,   17),
        ("nvfp4",    40,  64,   36),
)]

# The struct of each block format with kernels: (C type, member, bytes, what it holds).  Halves are kept as their bits.
STRUCTS = {
    "q4_0": [("uint16_t", "d",          2,   "scale, f16"),
             ("uint8_t",  "qs[16]",     16,  "weight i: low nibble of byte i; weight 16 + i: high nibble;  w = d * (q - 8)")],
    "q4_1": [("uint16_t", "d",          2,   "scale, f16"),
             ("uint16_t", "m",          2,   "minimum, f16"),
             ("uint8_t",  "qs[16]",     16,  "nibbles as in q4_0;  w = d * q + m")],
    "q5_0": [("uint16_t", "d",          2,   "scale, f16"),
             ("uint8_t",  "qh[4]",      4,   "bit i: fifth bit of weight i"),
             ("uint8_t",  "qs[16]",     16,  "nibbles as in q4_0;  w = d * (q - 16)")],
    "q5_1": [("uint16_t", "d",          2,   "scale, f16"),
             ("uint16_t", "m",          2,   "minimum, f16"),
             ("uint8_t",  "qh[4]",      4,   "bit i: fifth bit of weight i"),
             ("uint8_t",  "qs[16]",     16,  "nibbles as in q4_0;  w = d * q + m")],
    "q8_0": [("uint16_t", "d",          2,   "scale, f16"),
             ("int8_t",   "qs[32]",     32,  "w = d * q")],
    "q8_1": [("uint16_t", "d",          2,   "scale, f16"),
             ("uint16_t", "s",          2,   "d * sum of the quants, f16"),
             ("int8_t",   "qs[32]",     32,  "w = d * q")],
    "q2_K": [("uint8_t",  "scales[16]", 16,  "for 16 weights: scale in the low nibble, minimum in the high one"),
             ("uint8_t",  "qs[64]",     64,  "two bits each; see quant/q2_K.jinja"),
             ("uint16_t", "d",          2,   "scale of the scales, f16"),
             ("uint16_t", "dmin",       2,   "scale of the minima, f16;  w = d * scale * q - dmin * min")],
    "q3_K": [("uint8_t",  "hmask[32]",  32,  "third bits; see quant/q3_K.jinja"),
             ("uint8_t",  "qs[64]",     64,  "low two bits"),
             ("uint8_t",  "scales[12]", 12,  "sixteen 6-bit scales, one for 16 weights"),
             ("uint16_t", "d",          2,   "scale of the scales, f16;  w = d * (scale - 32) * (q - 4)")],
    "q4_K": [("uint16_t", "d",          2,   "scale of the scales, f16"),
             ("uint16_t", "dmin",       2,   "scale of the minima, f16"),
             ("uint8_t",  "scales[12]", 12,  "eight 6-bit scales and minima, one pair for 32 weights; see quant/q4_K.jinja"),
             ("uint8_t",  "qs[128]",    128, "weight 64 j + i: low nibble of byte 32 j + i; weight 64 j + 32 + i: high nibble;  "
                                             "w = d * scale * q - dmin * min")],
    "q5_K": [("uint16_t", "d",          2,   "scale of the scales, f16"),
             ("uint16_t", "dmin",       2,   "scale of the minima, f16"),
             ("uint8_t",  "scales[12]", 12,  "as in q4_K"),
             ("uint8_t",  "qh[32]",     32,  "bit g of byte i: fifth bit of weight 32 g + i"),
             ("uint8_t",  "qs[128]",    128, "nibbles as in q4_K;  w = d * scale * q - dmin * min")],
    "q6_K": [("uint8_t",  "ql[128]",    128, "low four bits; see quant/q6_K.jinja"),
             ("uint8_t",  "qh[64]",     64,  "high two bits"),
             ("int8_t",   "scales[16]", 16,  "one for 16 weights"),
             ("uint16_t", "d",          2,   "scale of the scales, f16;  w = d * scale * (q - 32)")],
    "q8_K": [("uint16_t", "d[2]",       4,   "scale, f32, low half first: blocks are 2-byte aligned at best"),
             ("int8_t",   "qs[256]",    256, "w = d * q"),
             ("int16_t",  "bsums[16]",  32,  "sums of 16 quants")],
    "iq4_nl": [("uint16_t", "d",        2,   "scale, f16"),
             ("uint8_t",  "qs[16]",     16,  "nibbles as in q4_0;  w = d * value[q], see quant/iq4_nl.jinja")],
    "iq4_xs": [("uint16_t", "d",        2,   "scale of the scales, f16"),
             ("uint16_t", "scales_h",   2,   "bits 2 g, 2 g + 1: high bits of the scale of group g"),
             ("uint8_t",  "scales_l[4]", 4,  "low four bits, one nibble for 32 weights"),
             ("uint8_t",  "qs[128]",    128, "nibbles, 16 bytes for 32 weights as in q4_0;  w = d * (scale - 32) * value[q]")],
    "mxfp4": [("uint8_t",  "e",         1,   "scale 2 ** (e - 128)"),
             ("uint8_t",  "qs[16]",     16,  "nibbles as in q4_0;  w = scale * value[q], see quant/mxfp4.jinja")],
    "nvfp4": [("uint8_t",  "d[4]",      4,   "scales of 16 weights, unsigned e4m3; see quant/nvfp4.jinja"),
             ("uint8_t",  "qs[32]",     32,  "weight 16 g + i: low nibble of byte 8 g + i; weight 16 g + 8 + i: high nibble;  "
                                             "w = d / 2 * value[q]")],
    "tq1_0": [("uint8_t",  "qs[48]",    48,  "five base-3 digits a byte, see quant/tq1_0.jinja"),
             ("uint8_t",  "qh[4]",      4,   "four digits a byte"),
             ("uint16_t", "d",          2,   "scale, f16;  w = d * (digit - 1)")],
    "tq2_0": [("uint8_t",  "qs[64]",    64,  "weight 128 j + 32 g + i: bits 2 g, 2 g + 1 of byte 32 j + i"),
             ("uint16_t", "d",          2,   "scale, f16;  w = d * (q - 1)")],
    "iq1_s": [("uint16_t", "d",         2,   "scale of the scales, f16"),
              ("uint8_t",  "qs[32]",    32,  "low eight bits of an index, for eight weights"),
              ("uint16_t", "qh[8]",     16,  "for 32 weights: four times three high bits, a 3-bit scale, a sign;  "
                                             "w = d * (2 * scale + 1) * (level - 1 +- 1/8)")],
    "iq1_m": [("uint8_t",  "qs[32]",    32,  "low eight bits of an index, for eight weights"),
              ("uint8_t",  "qh[16]",    16,  "for 16 weights: twice three high bits and a sign"),
              ("uint16_t", "scales[4]", 8,   "four 3-bit scales, for 16 weights each, and four bits of d;  w as in iq1_s")],
    "iq2_xxs": [("uint16_t", "d",       2,   "scale of the scales, f16"),
                ("uint8_t",  "qs[64]",  64,  "for 32 weights: four indices, then four times seven signs and a scale in 32 bits;  "
                                             "w = d * (2 * scale + 1) / 8 * level * sign")],
    "iq2_xs": [("uint16_t", "d",        2,   "scale of the scales, f16"),
               ("uint16_t", "qs[32]",   64,  "for eight weights: nine bits of index, seven signs"),
               ("uint8_t",  "scales[8]", 8,  "two 4-bit scales, for 16 weights each;  w as in iq2_xxs")],
    "iq2_s": [("uint16_t", "d",         2,   "scale of the scales, f16"),
              ("uint8_t",  "qs[32]",    32,  "low eight bits of an index, for eight weights"),
              ("uint8_t",  "signs[32]", 32,  "their signs"),
              ("uint8_t",  "qh[8]",     8,   "for 32 weights: four times two high bits"),
              ("uint8_t",  "scales[8]", 8,   "two 4-bit scales, for 16 weights each;  w as in iq2_xxs")],
    "iq3_xxs": [("uint16_t", "d",       2,   "scale of the scales, f16"),
                ("uint8_t",  "qs[64]",  64,  "index, for four weights"),
                ("uint8_t",  "signs[32]", 32, "for 32 weights: four times seven signs and a scale in 32 bits;  "
                                              "w = d * (2 * scale + 1) / 4 * level * sign")],
    "iq3_s": [("uint16_t", "d",         2,   "scale of the scales, f16"),
              ("uint8_t",  "qs[64]",    64,  "low eight bits of an index, for four weights"),
              ("uint8_t",  "qh[8]",     8,   "for 32 weights: eight high bits"),
              ("uint8_t",  "signs[32]", 32,  "for eight weights: their signs"),
              ("uint8_t",  "scales[4]", 4,   "two 4-bit scales, for 32 weights each;  w = d * (2 * scale + 1) * level * sign")],
}

BY_NAME = {t.name: t for t in TYPES}
BLOCKS = list(STRUCTS)            # block formats with kernels
ACTIVATIONS = ["q8_1", "q8_K"]    # those that hold the other side of a product: decoded, no mat-vec
WEIGHTS = [name for name in BLOCKS if name not in ACTIVATIONS]
FLOATS = ["f32", "f16", "bf16"]   # plain types with kernels

HEADER = """\
// SPDX-License-Identifier: MIT
// Generated by gen/gen.py from gen/quants.py -- DO NOT EDIT.  Regenerate: make gen
"""


def types_inc():
    lines = [HEADER, "/*               enum      name       block bytes */\n"]
    for t in TYPES:
        lines.append(f'INGOT_TYPE_INFO({t.enum + ",":<9} {chr(34) + t.name + chr(34) + ",":<11} {t.block:>4}, {t.bytes:>4})\n')
    return "".join(lines)


def blocks_h():
    out = [HEADER, """\
/* blocks.h - the bytes of each block format that has kernels, in C11 and C++17.  Halves are kept as their 16 bits. */
#ifndef INGOT_BLOCKS_H
#define INGOT_BLOCKS_H

#include <stdint.h>

#ifdef __cplusplus
#define INGOT_BLOCK_SIZE(name, bytes) static_assert(sizeof(struct name) == bytes, #name)
#else
#define INGOT_BLOCK_SIZE(name, bytes) _Static_assert(sizeof(struct name) == bytes, #name)
#endif
"""]
    for name, members in STRUCTS.items():
        t = BY_NAME[name]
        assert t.bytes == sum(size for _, _, size, _ in members), name
        out.append(f"\n/* {t.block} weights in {t.bytes} bytes, {8 * t.bytes / t.block:g} bits each */\n")
        out.append(f"struct ingot_block_{name} {{\n")
        out += [f"    {ctype:<8} {member + ';':<11} /* {what} */\n" for ctype, member, _, what in members]
        out.append(f"}};\nINGOT_BLOCK_SIZE(ingot_block_{name}, {t.bytes});\n")
    out.append("\n#undef INGOT_BLOCK_SIZE\n#endif\n")
    return "".join(out)
