#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden vectors: blocks of each format, and what the PyPI package `gguf` decodes them to.

    make_golden.py DIR [--seed N] [--blocks N] [--types q4_0,q6_K]   writes DIR/<type>.golden and DIR/<type>.exhaustive,
                                                                     prints the seed and what the latter hold
    make_golden.py --self-test                                       checks this script

<type>.golden: the blocks are made of random bytes, so that every bit pattern of the quants and of packed scales occurs,
and an eighth of them of one byte, so that sums become as large as they can; their f16 scales and minima go through every
class of finite half in turn: positive and negative normal numbers, both zeros, subnormal ones, the largest and the
smallest; in the second half of the blocks they are moderate, as a model's are.  The last block of a format with a code
book is one of ones.  What they decode to comes from gguf.quants alone; of formats that it does not decode (q8_1, q8_K),
from their definition here.

<type>.exhaustive: blocks in which every code of the format occurs (exhaustive.py), with scales as above.  f16 and bf16: all
65536 bit patterns, the infinities and NaNs too; any NaN is as good as another.  Scales of 8 bits may be so large that a
weight is infinite.  There is none for f32, which has no codes.

A file, little endian:

    char     magic[8]           "INGOTGV1"
    uint32_t type               GGUF number of the type
    uint32_t blocks             count
    uint8_t  raw[blocks][bytes of a block]
    float    value[blocks][elements of a block]
"""
import argparse
import os
import pathlib
import secrets
import struct
import sys
import tempfile
import warnings

import gguf
import numpy as np

import exhaustive

MAGIC = b"INGOTGV1"

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gen"))
import quants  # noqa: E402


def offsets(name, kind):
    """Where a block holds f16 or f32: the uint16_t members that gen/quants.py says hold that, from byte to byte."""
    if name not in quants.STRUCTS:
        return [0] if name == kind == "f16" else []
    places, at, step = [], 0, {"f16": 2, "f32": 4}[kind]
    for ctype, _, size, what in quants.STRUCTS[name]:
        if ctype == "uint16_t" and kind in what:
            places += range(at, at + size, step)
        at += size
    return places


# Byte offsets of the halves and of the singles of each type.  Everything else in a block may hold any bits.
HALVES = {name: offsets(name, "f16") for name in quants.BLOCKS + quants.FLOATS}
IQ1 = ("iq1_s", "iq1_m")
SINGLES = {name: offsets(name, "f32") for name in quants.BLOCKS}


def type_of(name):
    return gguf.GGMLQuantizationType[name.upper()]


def size_of(name):
    return quants.BY_NAME[name].block, quants.BY_NAME[name].bytes


def decoded_q8_1(raw):
    return raw[:, :2].copy().view("<f2").astype(np.float32) * raw[:, 4:].view(np.int8).astype(np.float32)


def decoded_q8_K(raw):
    return raw[:, :4].copy().view("<f4") * raw[:, 4:260].view(np.int8).astype(np.float32)


# Formats that the package has no decoder for; what their blocks hold is what gen/quants.py says.
DECODERS = {"q8_1": decoded_q8_1, "q8_K": decoded_q8_K}


def dequantized(raw, name):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        values = DECODERS[name](raw) if name in DECODERS else gguf.quants.dequantize(raw, type_of(name))
    return values.astype(np.float32).reshape(len(raw), size_of(name)[0])


def halves(rng, count):
    """f16 bit patterns, class by class: no infinity, no NaN."""
    ordinary = rng.uniform(0.001, 2.0, count).astype(np.float16).view(np.uint16)
    any_exponent = rng.integers(0x0400, 0x7c00, count, dtype=np.uint16)
    subnormal = rng.integers(0x0001, 0x0400, count, dtype=np.uint16)
    edge = rng.choice(np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff], np.uint16), count)
    sign = (rng.integers(0, 2, count, dtype=np.uint16) << 15).astype(np.uint16)
    kind = np.arange(count) % 5
    return np.select([kind == 0, kind == 1, kind == 2, kind == 3],
                     [ordinary, ordinary | sign, any_exponent | sign, subnormal | sign], edge).astype(np.uint16)


def draw(rng, name, count, mild):
    elements, size = size_of(name)
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    some = rng.random(count) < 0.125  # the largest sums
    raw[some] = rng.choice(np.array([0x00, 0xff, 0x0f, 0xf0, 0x7f, 0x80], np.uint8), (some.sum(), 1))
    for i, offset in enumerate(HALVES[name]):
        bits = np.roll(halves(rng, count), 2 * i)
        if mild:
            bits = (np.exp2(rng.uniform(-7, -4, count)) * rng.choice([-1, 1], count)).astype(np.float16).view(np.uint16)
        raw[:, offset:offset + 2] = bits.astype("<u2").view(np.uint8).reshape(count, 2)
    for offset in SINGLES.get(name, []):
        bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
        if mild:
            bits = (np.exp2(rng.uniform(-7, -4, count)) * rng.choice([-1, 1], count)).astype(np.float32).view(np.uint32)
        raw[:, offset:offset + 4] = bits.astype("<u4").view(np.uint8).reshape(count, 4)
    if name == "bf16":
        raw[:, 1][raw[:, 1] & 0x7f == 0x7f] = 0x3f  # neither infinity nor NaN
    if name == "f32":
        raw[:, 3][raw[:, 3] & 0x7f == 0x7f] = 0x3f
    return raw, dequantized(raw, name)


def fitting(rng, name, count, mild):
    """Draws again what decodes to no finite number (8-bit scales do) or, if `mild`, to none of moderate size."""
    raw, values = draw(rng, name, count, mild)
    for _ in range(1000):
        bad = ~np.isfinite(values).all(axis=1)
        if mild and values.shape[1] > 1:
            largest = np.abs(values).max(axis=1)
            bad |= ~((largest >= 2.0 ** -10) & (largest <= 2.0 ** 10))
        if not bad.any():
            return raw, values
        raw[bad], values[bad] = draw(rng, name, int(bad.sum()), mild)
    raise RuntimeError(f"{name}: random bytes do not give fitting blocks")


def ones(name):
    """A block of a format with a code book whose weights are all 1: the entry of zeros shifted by 1/8, or the first entry."""
    raw = np.zeros((1, size_of(name)[1]), np.uint8)
    exhaustive.place(raw, exhaustive.HALF[name], np.array([[np.float16(8 if name in IQ1 else 1).view(np.uint16)]]))
    if name in IQ1:
        entry = np.flatnonzero((exhaustive.grid("IQ1_S") == 0).all(axis=1))
        exhaustive.place(raw, exhaustive.FIELDS[name]["entry"], np.full((1, 32), entry))
    values = dequantized(raw, name)
    assert (values == 1).all(), name
    return raw, values


def blocks_of(rng, name, count):
    """(raw bytes [count, bytes], values f32 [count, elements]); the second half has moderate scales, and ends with a block
    of ones if the format has a code book."""
    book = name in exhaustive.HALF
    parts = [fitting(rng, name, count - count // 2, False), fitting(rng, name, count // 2 - book, True)]
    parts += [ones(name)] if book else []
    raw, values = (np.concatenate(both) for both in zip(*parts))
    assert np.isfinite(values).all(), name
    return raw, values


def exhaustive_blocks(rng, name):
    """(raw, values, what was counted)"""
    raw, _ = fitting(rng, name, exhaustive.count_of(name), False)
    exhaustive.draw(rng, name, raw)
    values = dequantized(raw, name)
    return raw, values, exhaustive.prove(name, raw, values, HALVES[name])


def write(path, name, raw, values):
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<II", int(type_of(name)), len(raw)))
        f.write(raw.tobytes())
        f.write(values.astype("<f4").tobytes())


def read(path, name):
    elements, size = size_of(name)
    data = path.read_bytes()
    magic, number, count = struct.unpack_from("<8sII", data)
    assert (magic, number) == (MAGIC, int(type_of(name))), name
    assert len(data) == 16 + count * (size + elements * 4), name
    raw = np.frombuffer(data, np.uint8, count * size, 16).reshape(count, size)
    return raw, np.frombuffer(data, "<f4", count * elements, 16 + count * size).reshape(count, elements)


def missing_codes_are_noticed(rng, name):
    """One value that never comes, at one position; a field that lies elsewhere."""
    raw, values, said = exhaustive_blocks(rng, name)
    assert said
    for key, bits in exhaustive.FIELDS.get(name, {}).items():
        codes, other = exhaustive.taken(raw, bits), raw.copy()
        position, value = rng.integers(len(bits)), rng.integers(1 << bits.shape[1])
        codes[codes[:, position] == value, position] ^= 1
        exhaustive.place(other, bits, codes)
        assert fails(name, other), (name, key)
        kept = bits.copy()
        bits[[0, -1]] = bits[[-1, 0]] if len(bits) > 1 else bits[:, ::-1]
        assert fails(name, raw), (name, key)
        bits[:] = kept
    if name not in exhaustive.FIELDS:
        raw[7] = raw[8]
        assert fails(name, raw), name


def fails(name, raw):
    try:
        exhaustive.prove(name, raw, dequantized(raw, name), HALVES[name])
    except AssertionError:
        return True
    return False


def self_test():
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in HALVES:
            path = pathlib.Path(folder) / name
            write(path, name, *blocks_of(rng, name, 100))
            raw, values = read(path, name)
            assert len(raw) == 100 and (dequantized(raw, name).view(np.uint32) == values.view(np.uint32)).all(), name
            assert name in DECODERS or size_of(name) == gguf.GGML_QUANT_SIZES[type_of(name)], name
    for name in exhaustive.NAMES:
        missing_codes_are_noticed(rng, name)
    assert set(exhaustive.NAMES) == set(HALVES) - {"f32"}
    h = halves(rng, 5000).view(np.float16).astype(np.float32)
    tiny = np.abs(h) < 2.0 ** -14
    assert np.isfinite(h).all() and (h < 0).any() and (h == 0).any() and (tiny & (h != 0)).any() and (np.abs(h) > 60000).any()
    # One block by hand, so that a wrong package does not go unnoticed: q4_0, d = 0.5, byte i of the nibbles = i.
    raw = np.concatenate([np.array([0.5], np.float16).view(np.uint8), np.arange(16, dtype=np.uint8)]).reshape(1, 18)
    values = gguf.quants.dequantize(raw, type_of("q4_0")).reshape(32)
    assert (values == np.concatenate([(np.arange(16) - 8) * 0.5, np.full(16, -4.0)])).all()
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description="Golden vectors of the block formats.")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seed", type=int, default=None, help="default: fresh")
    parser.add_argument("--blocks", type=int, default=640)
    parser.add_argument("--types", default=",".join(HALVES))
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.folder is None:
        parser.error("name the folder to write to")
    unknown = [name for name in options.types.split(",") if name not in HALVES]
    if unknown:
        parser.error(f"unknown type {unknown[0]}; known: {' '.join(HALVES)}")
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    rng = np.random.default_rng(seed)
    folder = pathlib.Path(options.folder)
    os.makedirs(folder, exist_ok=True)
    names = options.types.split(",")
    for name in names:
        write(folder / f"{name}.golden", name, *blocks_of(rng, name, options.blocks))
        if name in exhaustive.NAMES:
            *blocks, said = exhaustive_blocks(rng, name)
            write(folder / f"{name}.exhaustive", name, *blocks)
            print(f"{name + ':':<9}{len(blocks[0]):>6} blocks: {said}")
    print(f"golden vectors: {options.blocks} random blocks of each of {len(names)} formats, seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
