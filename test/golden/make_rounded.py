#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden vectors of rounding: random f32 blocks, and the blocks that the PyPI package `gguf` makes of them.

    make_rounded.py DIR [--seed N] [--blocks N] [--types q4_0,q8_0]   writes DIR/<type>.rounded, prints the seed
    make_rounded.py --self-test                                       checks this script

The numbers come in kinds, below: of moderate, tiny, subnormal and huge size, ties, zeros of both signs, equal magnitudes of
both signs, numbers that f16 or bf16 hold exactly, infinities, NaN.

The bytes are gguf.quants.quantize's, with two exceptions that C and numpy leave open, so that the answer would depend on the
machine: where an infinity or a NaN is cast to an integer the level is 0 (as on x86-64; --self-test compares there), and
of zeros of both signs the least and the greatest is the first (as in a loop of comparisons).

iq4_nl, which the package does not round, follows ggml's reference (quantize_row_iq4_nl_ref) for rows without an
importance matrix, each operation rounded to f32, sums in the order of the elements: d0 = (the first x of largest
magnitude) / -127; level(x) = that of the value nearest to x / d0, by a product with 1 / d0, the upper one of two; then
d = sum(w v x) / sum(w v v) with w = x x, v = the value of level(x).  Magnitudes below 1e-15 alone give d = 0, and levels
for 0.

A file, little endian:

    char     magic[8]           "INGOTRV1"
    uint32_t type               GGUF number of the type
    uint32_t blocks             count
    uint32_t halves             f16 that a block begins with; any NaN there is as good as another
    float    value[blocks][32]
    uint8_t  raw[blocks][bytes of a block]
"""
import argparse
import os
import pathlib
import platform
import secrets
import struct
import sys
import tempfile

import gguf
import numpy as np

MAGIC = b"INGOTRV1"
F = np.float32
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F)

#          halves, bytes of fifth bits, what one step is of the extremes
TYPES = {
    "q4_0":   (1, 0, F(-8)),
    "q4_1":   (2, 0, F(15)),
    "q5_0":   (1, 4, F(-16)),
    "q5_1":   (2, 4, F(31)),
    "q8_0":   (1, 0, F(127)),
    "iq4_nl": (1, 0, F(-127)),
}


def type_of(name):
    return gguf.GGMLQuantizationType[name.upper()]


# ---- numbers ---------------------------------------------------------------------------------------------------------

def any_bits(rng, shape, low, high):
    """f32 of any sign whose exponent field is low .. high - 1."""
    bits = (rng.integers(low, high, shape, dtype=np.uint32) << 23 | rng.integers(0, 1 << 23, shape, dtype=np.uint32)
            | rng.integers(0, 2, shape, dtype=np.uint32) << 31)
    return bits.view(F)


def scaled(rng, shape, low, high):
    """Normal numbers, each block by a power of two of its own."""
    return (rng.standard_normal(shape) * np.exp2(rng.uniform(low, high, (shape[0], 1)))).astype(F)


def ties(rng, shape):
    """Halves of whole numbers times a power of two, with an extreme that makes that power the step of some format."""
    extreme = rng.choice([-8, 8, -16, 16, 15, 31, 127, -127], (shape[0], 1))
    x = np.floor(rng.uniform(-1, 1, shape) * (abs(extreme) - 1)) + 0.5
    x[:, 7:8] = extreme
    x[:, 20:21] = np.where(np.isin(extreme, [15, 31]), 0, x[:, 20:21])  # from 0 to the extreme: q4_1, q5_1
    x = np.where(np.isin(extreme, [15, 31]), abs(x), x)
    return (x * np.exp2(rng.integers(-12, 6, (shape[0], 1)))).astype(F)


def midpoints(rng, shape):
    """Values of iq4_nl, and the middles between them, for the scale that the extreme -127 gives."""
    marks = np.concatenate([IQ4, (IQ4[1:] + IQ4[:-1]) / 2])
    x = rng.choice(marks, shape)
    x[:, 3] = -127
    return (x * rng.choice([-1, 1], (shape[0], 1)) * np.exp2(rng.integers(-10, 4, (shape[0], 1)))).astype(F)


def equals(rng, shape):
    """Few magnitudes, so that the largest stands there several times, with either sign first."""
    return (rng.integers(-2, 3, shape) * np.exp2(rng.integers(-3, 3, (shape[0], 1)))).astype(F)


def zeros(rng, shape):
    """Zeros of one sign or of both, in a third of the blocks one number among them."""
    x = np.where(rng.integers(0, 2, shape) == 1, F(-0.0), F(0.0))
    x[0::4] = 0.0
    x[1::4] = -0.0
    x[::3, 11] = rng.standard_normal(x[::3].shape[0])
    return x


def holed(rng, shape):
    """Infinities or a NaN somewhere."""
    x = scaled(rng, shape, -4, 4)
    count = shape[0]
    x[np.arange(count), rng.integers(0, 32, count)] = rng.choice(np.array([np.inf, -np.inf, np.nan], F), count)
    x[np.arange(count), rng.integers(0, 32, count)] = rng.choice(np.array([np.inf, -np.inf, 1], F), count)
    return x


KINDS = [
    lambda rng, shape: scaled(rng, shape, -6, 3),
    lambda rng, shape: rng.uniform(-1, 1, shape).astype(F),
    lambda rng, shape: scaled(rng, shape, -60, -12),              # scales that f16 rounds to subnormal numbers or to 0
    lambda rng, shape: scaled(rng, shape, 10, 100),               # .. to infinity
    lambda rng, shape: any_bits(rng, shape, 0, 1),                # subnormal numbers
    lambda rng, shape: scaled(rng, shape, -149, -118),            # 1 / d is infinite, or d rounded far off
    lambda rng, shape: any_bits(rng, shape, 247, 255),            # differences, squares and sums overflow
    lambda rng, shape: any_bits(rng, shape, 0, 255),
    ties,
    midpoints,
    equals,
    zeros,
    lambda rng, shape: np.repeat(scaled(rng, (shape[0], 1), -6, 6), 32, axis=1),
    lambda rng, shape: scaled(rng, shape, -4, 4).astype(np.float16).astype(F),
    lambda rng, shape: rng.integers(0, 0x7c00, shape).astype(np.uint16).view(np.float16).astype(F) * rng.choice([-1, 1], shape).astype(F),
    lambda rng, shape: (scaled(rng, shape, -4, 4).view(np.uint32) & 0xffff0000).view(F),
    holed,
]


def numbers(rng, count):
    each = -(-count // len(KINDS))
    x = np.concatenate([kind(rng, (each, 32)) for kind in KINDS])
    return np.ascontiguousarray(x[rng.permutation(len(x))[:count]], F)


# ---- rounding --------------------------------------------------------------------------------------------------------

def levels(raw, name):
    """Levels below 32 of packed blocks, [blocks, 32]."""
    halves, fifth, _ = TYPES[name]
    qs = raw[:, 2 * halves + fifth:]
    q = np.concatenate([qs & 15, qs >> 4], axis=1)
    if fifth:
        q = q | np.unpackbits(raw[:, 2 * halves:2 * halves + 4], axis=1, bitorder="little") << 4
    return q


def packed(heads, q, name):
    """Blocks from their halves and levels."""
    parts = [np.ascontiguousarray(h.astype(np.float16)).reshape(-1, 1).view(np.uint8) for h in heads]
    if TYPES[name][1]:
        parts.append(np.packbits(q >> 4, axis=1, bitorder="little"))
    low = (q & 15).astype(np.uint8)
    return np.concatenate(parts + [low[:, :16] | low[:, 16:] << 4], axis=1)


def casts(x, name):
    """Where a level is cast from a number: not from an infinity, nor from a NaN."""
    halves, _, steps = TYPES[name]
    zero = x.min(axis=1, keepdims=True) if halves == 2 else F(0)
    most = x.max(axis=1, keepdims=True) if halves == 2 else np.abs(x).max(axis=1, keepdims=True)
    d = (most - zero) / steps
    return np.isfinite((x - zero) * np.where(d == 0, F(0), F(1) / d))


def as_defined(x, raw, name):
    """What gguf gave, with the two exceptions."""
    halves, fifth, _ = TYPES[name]
    raw = raw.copy()
    if halves == 2:
        least = x.min(axis=1)
        first = x[np.arange(len(x)), np.argmax(x == 0, axis=1)]
        raw[least == 0, 3] = np.signbit(first[least == 0]) << 7
        raw[(least == 0) & (x.max(axis=1) == 0), 1] = 0
    good = casts(x, name)
    if name == "q8_0":
        raw[:, 2:] = np.where(good, raw[:, 2:], 0)
        return raw
    q = np.where(good, levels(raw, name), 0).astype(np.uint8)
    raw[:, 2 * halves:] = packed([], q, name)
    return raw


def iq4_nl(x):
    most = x[np.arange(len(x)), np.abs(x).argmax(axis=1)][:, None]
    zero = np.abs(most) < F(1e-15)
    inverse = np.where(zero, F(0), F(1) / (most / IQ4[0]))
    scaled_x = inverse * x
    q = np.zeros(x.shape, np.uint8)
    for i in range(1, 16):  # from one value to the next where that is not farther
        nearer = scaled_x - IQ4[i - 1] < IQ4[i] - scaled_x
        q = np.where(~nearer, i, q).astype(np.uint8)
    v, w = IQ4[q], x * x
    wvx, wvv = w * v * x, w * v * v
    sum_wvx = sum_wvv = np.zeros(len(x), F)
    for i in range(32):
        sum_wvx, sum_wvv = sum_wvx + wvx[:, i], sum_wvv + wvv[:, i]
    assert sum_wvx.dtype == F and wvx.dtype == F and scaled_x.dtype == F
    return packed([np.where(zero[:, 0], F(0), sum_wvx / sum_wvv)], q, "iq4_nl")


def rounded(x, name):
    with np.errstate(all="ignore"):
        return iq4_nl(x) if name == "iq4_nl" else as_defined(x, gguf.quants.quantize(x, type_of(name)), name)


def write(folder, rng, name, count):
    x = numbers(rng, count)
    raw = rounded(x, name)
    assert raw.shape == (count, gguf.GGML_QUANT_SIZES[type_of(name)][1]) and raw.dtype == np.uint8, name
    path = pathlib.Path(folder) / f"{name}.rounded"
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<III", int(type_of(name)), count, TYPES[name][0]))
        f.write(x.astype("<f4").tobytes())
        f.write(raw.tobytes())
    return path


# ---- the script itself -----------------------------------------------------------------------------------------------

def self_test():
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        x = numbers(rng, 20000)
    assert np.isnan(x).any() and np.isinf(x).any() and (x == 0).any() and np.signbit(x[x == 0]).any()
    assert ((x != 0) & (np.abs(x) < 2.0 ** -126)).any() and (np.abs(x[np.isfinite(x)]) > 1e38).any()
    with np.errstate(all="ignore"):
        exact = [(x.astype(np.float16).astype(F) == x).all(axis=1), ((x.view(np.uint32) & 0xffff) == 0).all(axis=1)]
    assert all(kind.sum() > 100 for kind in exact)  # f16, bf16
    for name in TYPES:
        raw = rounded(x, name)
        if name == "iq4_nl":
            assert gguf.GGML_QUANT_SIZES[type_of(name)] == (32, raw.shape[1])
        else:
            with np.errstate(all="ignore"):
                given = gguf.quants.quantize(x, type_of(name))
            clear = ~((x == 0).any(axis=1) & (x.min(axis=1) == 0)) if TYPES[name][0] == 2 else np.ones(len(x), bool)
            if platform.machine() == "x86_64":  # nothing but signs of zeros is this script's own
                assert (raw[clear] == given[clear]).all(), name
        # Decoded, moderate blocks come back to within a step or so.
        fine = np.isfinite(x).all(axis=1) & (np.abs(x).max(axis=1) < 1000) & (np.abs(x).max(axis=1) > 0.01)
        assert fine.sum() > 1000
        y = gguf.quants.dequantize(raw[fine], type_of(name)).reshape(-1, 32)
        most = np.abs(x[fine]).max(axis=1, keepdims=True)
        assert (np.abs(y - x[fine]) <= most * {"q8_0": 0.005, "q4_0": 0.13, "q4_1": 0.07, "q5_0": 0.07, "q5_1": 0.04, "iq4_nl": 0.15}[name]).all(), name
    # Two blocks by hand, so that a wrong package does not go unnoticed.
    block = np.zeros((1, 32), F)
    block[0, :3] = 4, -4, 1.75
    assert rounded(block, "q4_0")[0].tolist()[:5] == [0x00, 0xb8, 0x80, 0x8f, 0x85]  # d -0.5: 4 is level 0, 1.75 level 5
    assert rounded(block, "q8_0")[0].tolist()[2:6] == [127, 129, 56, 0]
    # iq4_nl: a block of its own values comes back, whatever the scale.
    block[0] = np.tile(IQ4, 2) * F(0.25)
    assert rounded(block, "iq4_nl")[0].tolist() == [0x00, 0x34] + [17 * i for i in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        data = write(folder, rng, "q5_1", 50).read_bytes()
        assert data[:20] == MAGIC + struct.pack("<III", 7, 50, 2) and len(data) == 20 + 50 * (128 + 24)
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description="Golden vectors of rounding to block formats.")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seed", type=int, default=None, help="default: fresh")
    parser.add_argument("--blocks", type=int, default=1700)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.folder is None:
        parser.error("name the folder to write to")
    unknown = [name for name in options.types.split(",") if name not in TYPES]
    if unknown:
        parser.error(f"unknown type {unknown[0]}; known: {' '.join(TYPES)}")
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    os.makedirs(options.folder, exist_ok=True)
    with np.errstate(all="ignore"):
        rng = np.random.default_rng(seed)
        for name in options.types.split(","):
            write(options.folder, rng, name, options.blocks)
    print(f"golden vectors of rounding: {options.blocks} blocks to each of {len(options.types.split(','))} formats, seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
