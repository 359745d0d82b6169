# SPDX-License-Identifier: MIT
"""Code books: what the formats whose quants are indices look up, as 32-bit words ready for the kernels.

BOOKS has an entry for each such format: the words, and where the numbers come from.  It becomes generated/books/<type>.h:
INGOT_BOOK_WORDS and the table ingot_book.  A format's macros say what a word holds.
"""
from dataclasses import dataclass

from grids import grid


@dataclass(frozen=True)
class Book:
    words: list  # 32-bit
    origin: str  # one line for the header


ORIGIN = "grid of the PyPI package gguf, gguf.quants.{}"


def nibbles(levels, order=range(8)):
    return sum(levels[weight] << 4 * i for i, weight in enumerate(order))


def selectors(name):
    """Nibbles of a level each; order and bit 30 are as the signs want them (templates/quant/iq.jinja)."""
    return Book([nibbles(levels, (0, 4, 1, 5, 2, 6, 3, 7)) | 1 << 30 for levels in grid(name)], ORIGIN.format(name.upper()))


def bytes_of(name, values):
    """Four bytes, the values of the levels."""
    return Book([sum(values[level] << 8 * i for i, level in enumerate(levels)) for levels in grid(name)],
                ORIGIN.format(name.upper()))


BOOKS = {
    "iq1_s":   Book([nibbles(levels) for levels in grid("iq1")], ORIGIN.format("IQ1_S")),
    "iq1_m":   Book([nibbles(levels) for levels in grid("iq1")], ORIGIN.format("IQ1_S")),
    "iq2_xxs": selectors("iq2_xxs"),
    "iq2_xs":  selectors("iq2_xs"),
    "iq2_s":   selectors("iq2_s"),
    "iq3_xxs": bytes_of("iq3_xxs", (4, 12, 20, 28, 36, 44, 52, 62)),
    "iq3_s":   bytes_of("iq3_s", (1, 3, 5, 7, 9, 11, 13, 15)),
}

NONE = "src/device/no_book.cuh"


def header(type):
    """What a kernel of this type includes."""
    return f"generated/books/{type}.h" if type in BOOKS else NONE


def render(type, banner):
    book = BOOKS[type]
    assert all(0 <= word < 1 << 32 for word in book.words), type
    guard = f"INGOT_BOOK_{type.upper()}_H"
    lines = [banner, f"/* The code book of {type}: {book.origin} */\n#ifndef {guard}\n#define {guard}\n",
             '#include "src/device/device.cuh"\n', f"#define INGOT_BOOK_WORDS {len(book.words)}",
             f"INGOT_TABLE uint32_t ingot_book[{len(book.words)}] = {{"]
    for i in range(0, len(book.words), 10):
        lines.append("    " + " ".join(f"0x{word:08x}," for word in book.words[i:i + 10]))
    lines += ["};\n",
              "/* Copies the book to shared memory, by the first `threads` threads of the block, all of which call it. */",
              "INGOT_DEV void book_load(uint32_t *book, int threads) {",
              "    for (int i = (int)threadIdx.x; i < INGOT_BOOK_WORDS; i += threads) book[i] = ingot_book[i];",
              "    __syncthreads();", "}\n"]
    return "\n".join(lines + ["#endif\n"])
