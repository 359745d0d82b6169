/* SPDX-License-Identifier: MIT
 *
 * no_book.cuh - what the formats without a code book include in place of generated/books/<type>.h.
 */
#ifndef INGOT_NO_BOOK_CUH
#define INGOT_NO_BOOK_CUH

#include "src/device/device.cuh"

#define INGOT_BOOK_WORDS 0
INGOT_TABLE uint32_t ingot_book[1] = {0};

/* Copies the book to shared memory, by the first `threads` threads of the block, all of which call it. */
INGOT_DEV void book_load(uint32_t *book, int threads) { (void)book, (void)threads; }

#endif
