# SPDX-License-Identifier: MIT
"""Blocks in which every code of a format occurs, for make_golden.py: what they are drawn of, and the proof.

FIELDS says where the codes of a block lie.  `draw` deals the values of each field in random order: at every position of
a block every value comes up, and of the pairs in CROSSED every combination.  `prove` takes the codes out of the bytes
again and counts them; and it puts the weights together from these codes and tables, which must give the very numbers of
the package.  So a field that is not where FIELDS says, or a code that never came, stops the script.
"""
import types

import gguf
import numpy as np


def field(count, *pieces):
    """Bits in a block of the values of a field at `count` positions: pieces of (byte, bit, width), low ones first."""
    def bits(i):
        out = []
        for piece in pieces:
            parts = piece(i)
            for byte, bit, width in parts if isinstance(parts, list) else [parts]:
                out += range(8 * byte + bit, 8 * byte + bit + width)
        return out
    return np.array([bits(i) for i in range(count)])


def nibbles(at):
    return lambda i: (at + i % 16, i // 16 * 4, 4)


def pairs(at):
    """Two bits of 256 weights: each half is four runs of 32."""
    return lambda i: (at + i // 128 * 32 + i % 32, i % 128 // 32 * 2, 2)


def scales_K(at):
    """Eight 6-bit scales of q4_K and q5_K."""
    return lambda j: (at + j, 0, 6) if j < 4 else [(at + 4 + j, 0, 4), (at + j - 4, 6, 2)]


def minima_K(at):
    return lambda j: (at + 4 + j, 0, 6) if j < 4 else [(at + 4 + j, 4, 4), (at + j, 6, 2)]


FIELDS = {
    "q4_0":    {"q": field(32, nibbles(2))},
    "q4_1":    {"q": field(32, nibbles(4))},
    "q5_0":    {"q": field(32, nibbles(6), lambda i: (2, i, 1))},
    "q5_1":    {"q": field(32, nibbles(8), lambda i: (4, i, 1))},
    "q8_0":    {"q": field(32, lambda i: (2 + i, 0, 8))},
    "q8_1":    {"q": field(32, lambda i: (4 + i, 0, 8))},
    "q2_K":    {"q": field(256, pairs(16)), "scale": field(16, lambda i: (i, 0, 4)), "min": field(16, lambda i: (i, 4, 4))},
    "q3_K":    {"q": field(256, pairs(32), lambda i: (i % 32, i // 32, 1)),
                "scale": field(16, lambda i: (96 + i % 8, i // 8 * 4, 4), lambda i: (104 + i % 4, i // 4 * 2, 2))},
    "q4_K":    {"q": field(256, lambda i: (16 + i // 64 * 32 + i % 32, i % 64 // 32 * 4, 4)),
                "scale": field(8, scales_K(4)), "min": field(8, minima_K(4))},
    "q5_K":    {"q": field(256, lambda i: (48 + i // 64 * 32 + i % 32, i % 64 // 32 * 4, 4), lambda i: (16 + i % 32, i // 32, 1)),
                "scale": field(8, scales_K(4)), "min": field(8, minima_K(4))},
    "q6_K":    {"q": field(256, lambda i: (i // 128 * 64 + i // 32 % 2 * 32 + i % 32, i % 128 // 64 * 4, 4), pairs(128)),
                "scale": field(16, lambda i: (192 + i, 0, 8))},
    "q8_K":    {"q": field(256, lambda i: (4 + i, 0, 8))},
    "iq4_nl":  {"q": field(32, nibbles(2))},
    "iq4_xs":  {"q": field(256, lambda i: (8 + i // 32 * 16 + i % 16, i % 32 // 16 * 4, 4)),
                "scale": field(8, lambda g: (4 + g // 2, g % 2 * 4, 4), lambda g: (2, 2 * g, 2))},
    "mxfp4":   {"q": field(32, nibbles(1)), "scale": field(1, lambda i: (0, 0, 8))},
    "nvfp4":   {"q": field(64, lambda i: (4 + i // 16 * 8 + i % 8, i % 16 // 8 * 4, 4)), "scale": field(4, lambda i: (i, 0, 8))},
    "tq1_0":   {"digits": field(52, lambda i: (i, 0, 8))},
    "tq2_0":   {"q": field(256, pairs(0))},
    "iq1_s":   {"entry": field(32, lambda i: (2 + i, 0, 8), lambda i: (34 + i // 4 * 2, i % 4 * 3, 3)),
                "scale": field(8, lambda g: (34 + 2 * g, 12, 4))},  # and the sign, the highest bit
    "iq1_m":   {"entry": field(32, lambda i: (i, 0, 8), lambda i: (32 + i // 2, i % 2 * 4, 3)),
                "sign": field(32, lambda i: (32 + i // 2, i % 2 * 4 + 3, 1)),
                "scale": field(16, lambda g: (48 + g // 4 * 2, g % 4 * 3, 3)),
                "d": field(4, lambda j: (48 + 2 * j, 12, 4))},  # nibbles of the half
    "iq2_xxs": {"entry": field(32, lambda i: (2 + i // 4 * 8 + i % 4, 0, 8)),
                "sign": field(32, lambda i: (6 + i // 4 * 8, i % 4 * 7, 7)), "scale": field(8, lambda g: (6 + 8 * g, 28, 4))},
    "iq2_xs":  {"entry": field(32, lambda i: (2 + 2 * i, 0, 9)), "sign": field(32, lambda i: (2 + 2 * i, 9, 7)),
                "scale": field(16, lambda g: (66, 4 * g, 4))},
    "iq2_s":   {"entry": field(32, lambda i: (2 + i, 0, 8), lambda i: (66, 2 * i, 2)), "sign": field(32, lambda i: (34 + i, 0, 8)),
                "scale": field(16, lambda g: (74, 4 * g, 4))},
    "iq3_xxs": {"entry": field(32, lambda i: (2 + 2 * i, 0, 8)), "odd": field(32, lambda i: (3 + 2 * i, 0, 8)),
                "sign": field(32, lambda i: (66 + i // 4 * 4, i % 4 * 7, 7)), "scale": field(8, lambda g: (66 + 4 * g, 28, 4))},
    "iq3_s":   {"entry": field(32, lambda i: (2 + 2 * i, 0, 8), lambda i: (66, 2 * i, 1)),
                "odd": field(32, lambda i: (3 + 2 * i, 0, 8), lambda i: (66, 2 * i + 1, 1)),
                "sign": field(32, lambda i: (74 + i, 0, 8)), "scale": field(8, lambda g: (106, 4 * g, 4))},
}

# The halves of the code books.
HALF = {name: field(1, lambda i: (0, 0, 16)) for name in FIELDS if name.startswith(("iq1_s", "iq2", "iq3"))}
HALF["iq1_m"] = FIELDS["iq1_m"]["d"].reshape(1, 16)

# Pairs of fields of which every combination of values must occur, somewhere in a block.  "a joint b": so many that they
# are dealt together, each value of `a` at each position as often as at any other.
CROSSED = {
    "q2_K":    ["scale q", "min q", "min joint scale"],
    "q3_K":    ["scale q"],
    "q4_K":    ["scale q", "min q", "min joint scale"],
    "q5_K":    ["scale q", "min q", "min joint scale"],
    "q6_K":    ["scale q"],
    "iq4_xs":  ["scale q"],
    "mxfp4":   ["scale q"],
    "nvfp4":   ["scale q"],
    "iq1_s":   ["entry joint scale"],
    "iq1_m":   ["entry joint scale", "entry sign"],
    "iq2_xxs": ["entry joint sign", "scale sign"],
    "iq2_xs":  ["entry joint sign", "scale sign"],
    "iq2_s":   ["entry joint sign", "scale sign"],
    "iq3_xxs": ["entry joint sign", "odd joint sign", "scale sign"],
    "iq3_s":   ["entry joint sign", "odd joint sign", "scale sign"],
}

# Blocks: enough for each value at each position, for the joint pairs, and for 32 of every other pair on average.
COUNTS = {"q6_K": 2048, "mxfp4": 4096, "nvfp4": 4096, "iq1_s": 2048, "iq1_m": 4096, "iq2_xxs": 2048, "iq2_xs": 2048, "iq2_s": 8192,
          "iq3_xxs": 2048, "iq3_s": 4096, "f16": 65536, "bf16": 65536}
NAMES = [*FIELDS, "f16", "bf16"]


def count_of(name):
    return COUNTS.get(name, 512)


def place(raw, bits, values):
    """Writes values [blocks, positions] into the bytes."""
    flat = np.unpackbits(raw, axis=1, bitorder="little")
    for k in range(bits.shape[1]):
        flat[:, bits[:, k]] = values >> k & 1
    raw[:] = np.packbits(flat, axis=1, bitorder="little")


def taken(raw, bits):
    flat = np.unpackbits(raw, axis=1, bitorder="little")
    return sum(flat[:, bits[:, k]].astype(np.int64) << k for k in range(bits.shape[1]))


def dealt(rng, count, bits):
    """[blocks, positions]: in each column all values, equally often, in an order of its own."""
    values, positions = 1 << bits.shape[1], len(bits)
    assert count % values == 0
    return rng.permuted(np.tile(np.arange(count) % values, (positions, 1)), axis=1).T


def dealt_jointly(rng, bits, other, other_values):
    """The same for a field that meets every value of another, whose columns are dealt.  For one column, value e goes to
    blocks in which the other has the values e + column + i * columns, i = 0, 1, ..: as many of each as there are."""
    values, columns, count = 1 << bits.shape[1], len(bits), len(other)
    copies = count // values
    assert values % other_values == 0 and columns * copies >= other_values
    out = np.empty((count, columns), np.int64)
    e, i = np.divmod(np.arange(count), copies)
    names, others, shifts = rng.permutation(values), rng.permutation(other_values), rng.permutation(columns)
    for column in range(columns):
        wanted = others[(e + shifts[column] + i * columns) % other_values]
        blocks = np.lexsort((rng.random(count), other[:, column * other.shape[1] // columns]))
        out[blocks, column] = names[e[np.lexsort((rng.random(count), wanted))]]
    return out


def draw(rng, name, raw):
    """Fills raw, random blocks with scales as they shall be, with dealt codes."""
    if name in ("f16", "bf16"):
        raw[:] = rng.permutation(65536).astype("<u2").view(np.uint8).reshape(-1, 2)
        return
    fields, codes = FIELDS[name], {}
    joint = dict(pair.split(" joint ") for pair in CROSSED.get(name, []) if "joint" in pair)
    for key in sorted(fields, key=lambda key: key in joint):
        if (name, key) == ("iq1_m", "d"):
            continue  # a half like others, but in four nibbles
        other = joint.get(key)
        codes[key] = dealt(rng, len(raw), fields[key]) if other is None else \
            dealt_jointly(rng, fields[key], codes[other], 1 << fields[other].shape[1])
        place(raw, fields[key], codes[key])


# ---- the proof

LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
E4M3 = np.array([0 if x == 0x7f else np.ldexp(x & 7, -9) if x >> 3 & 15 == 0 else np.ldexp(8 + (x & 7), (x >> 3 & 15) - 10)
                 for x in range(256)], np.float32)
DIGIT = [(i % 32, i // 32) if i < 160 else (32 + i % 16, (i - 160) // 16) if i < 240 else (48 + i % 4, (i - 240) // 4) for i in range(256)]
SIGNS = np.array([[1 - 2 * (code >> i & 1) for i in range(8)] for code in range(256)], np.float32)
SIGNS7 = SIGNS[[code | code.bit_count() % 2 << 7 for code in range(128)]]


def int8(codes):
    return codes - 256.0 * (codes > 127)


def grid(name):
    book = getattr(gguf.quants, name)
    book.init_grid()
    return book.grid.reshape(book.grid_shape)


def iq1(f, scale, sign):
    delta = np.where(sign == 0, np.float32(0.125), np.float32(-0.125))
    return f.d * (2 * scale + 1) * (grid("IQ1_S")[f.entry].reshape(len(f.entry), 256) + delta)


def iq2(f, name, signs):
    return f.d * (2 * f.scale + 1) / 8 * (grid(name)[f.entry] * signs[f.sign]).reshape(len(f.entry), 256)


def iq3(f, name, signs, factor):
    entries = np.stack([f.entry, f.odd], axis=-1)
    return f.d * (2 * f.scale + 1) * factor * (grid(name)[entries].reshape(len(entries), 32, 8) * signs[f.sign]).reshape(len(entries), 256)


def tq1(f):
    at, power = np.array(DIGIT).T
    return f.d * ((f.digits[:, at] * 3 ** power % 256) * 3 // 256 - 1).astype(np.float32)


WEIGHTS = {
    "q4_0":    lambda f: f.d * (f.q - 8),
    "q4_1":    lambda f: f.d * f.q + f.m,
    "q5_0":    lambda f: f.d * (f.q - 16),
    "q5_1":    lambda f: f.d * f.q + f.m,
    "q8_0":    lambda f: f.d * int8(f.q),
    "q8_1":    lambda f: f.d * int8(f.q),
    "q2_K":    lambda f: f.d * f.scale * f.q - f.m * f.min,
    "q3_K":    lambda f: f.d * (f.scale - 32) * (f.q - 4),
    "q4_K":    lambda f: f.d * f.scale * f.q - f.m * f.min,
    "q5_K":    lambda f: f.d * f.scale * f.q - f.m * f.min,
    "q6_K":    lambda f: f.d * int8(f.scale) * (f.q - 32),
    "q8_K":    lambda f: f.d * int8(f.q),
    "iq4_nl":  lambda f: f.d * LEVELS[f.q.astype(int)],
    "iq4_xs":  lambda f: f.d * (f.scale - 32) * LEVELS[f.q.astype(int)],
    "mxfp4":   lambda f: np.ldexp(E2M1[f.q.astype(int)], f.scale.astype(int) - 127),
    "nvfp4":   lambda f: E4M3[f.scale.astype(int)] * E2M1[f.q.astype(int)],
    "tq1_0":   tq1,
    "tq2_0":   lambda f: f.d * (f.q - 1),
    "iq1_s":   lambda f: iq1(f, f.scale % 8, f.scale // 8),
    "iq1_m":   lambda f: iq1(f, f.scale, np.repeat(f.sign, 8, axis=1)),
    "iq2_xxs": lambda f: iq2(f, "IQ2_XXS", SIGNS7),
    "iq2_xs":  lambda f: iq2(f, "IQ2_XS", SIGNS7),
    "iq2_s":   lambda f: iq2(f, "IQ2_S", SIGNS),
    "iq3_xxs": lambda f: iq3(f, "IQ3_XXS", SIGNS7, np.float32(0.25)),
    "iq3_s":   lambda f: iq3(f, "IQ3_S", SIGNS, 1),
}


def weights(name, raw, codes, halves, elements):
    """From the codes: f32 that must be the package's."""
    f = types.SimpleNamespace(**codes)
    for key in ("q", "scale", "min"):
        if key in codes:
            setattr(f, key, np.repeat(codes[key], elements // codes[key].shape[1], axis=1).astype(np.float32))
    parts = [raw[:, at:at + 2].copy().view("<f2").astype(np.float32) for at in halves]
    if name == "q8_K":
        parts = [raw[:, :4].copy().view("<f4")]
    if name == "iq1_m":
        parts = [taken(raw, HALF[name]).astype("<u2").view("<f2").astype(np.float32)]
    f.d, f.m = (parts + [None, None])[:2]
    with np.errstate(all="ignore"):
        return WEIGHTS[name](f).astype(np.float32)


def prove(name, raw, values, halves):
    """Raises AssertionError unless every code occurs and the values are those of the codes; returns what was counted."""
    if name in ("f16", "bf16"):
        assert (np.sort(raw.copy().view("<u2").ravel()) == np.arange(65536)).all(), name
        return "65536 bit patterns"
    fields, said = FIELDS[name], []
    codes = {key: taken(raw, bits) for key, bits in fields.items()}
    rebuilt = weights(name, raw, codes, halves, values.shape[1])
    assert ((rebuilt == values) | np.isnan(rebuilt) & np.isnan(values)).all(), f"{name}: the codes are not where they are looked for"
    for key, bits in fields.items():
        number = 1 << bits.shape[1]
        seen = np.zeros((len(bits), number), bool)
        seen[np.arange(len(bits)), codes[key]] = True
        assert seen.all(), f"{name}: {seen.size - seen.sum()} of {seen.size} values and positions of {key} never occur"
        said.append(f"{key} {number} at {len(bits)} places")
    for pair in CROSSED.get(name, []):
        a, b = pair.replace(" joint", "").split()
        width = max(len(fields[a]), len(fields[b]))
        numbers = [1 << fields[key].shape[1] for key in (a, b)]
        spread = [np.repeat(codes[key], width // len(fields[key]), axis=1) for key in (a, b)]
        seen = np.bincount((spread[0] * numbers[1] + spread[1]).ravel(), minlength=numbers[0] * numbers[1]) > 0
        assert seen.all(), f"{name}: {seen.size - seen.sum()} of {seen.size} pairs of {a} and {b} never occur"
        said.append(f"{a} x {b} {seen.size}")
    return ", ".join(said)
