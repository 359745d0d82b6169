# SPDX-License-Identifier: MIT
"""Code books: what the formats whose quants are indices look up, as 32-bit words ready for the kernels.

BOOKS has an entry for each such format: the words, and where the numbers come from.  It becomes generated/books/<type>.h:
INGOT_BOOK_WORDS and the table ingot_book.  A format's macros say what a word holds.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Book:
    words: list  # 32-bit
    origin: str  # one line for the header


BOOKS = {}

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
