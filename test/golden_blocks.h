// SPDX-License-Identifier: MIT
/* golden_blocks.h - the golden vectors of a type, as test/golden/make_golden.py wrote them into INGOT_GOLDEN_DIR: blocks
 * of random bytes and what the PyPI package `gguf` decodes them to.  Formats for which check.c has no decoder of its own
 * take their random blocks, and what these mean, from here. */
#ifndef GOLDEN_BLOCKS_H
#define GOLDEN_BLOCKS_H

#include "check.h"

struct golden {
    int64_t        blocks, per_block;
    unsigned char *raw;    /* blocks * ingot_type_size(type) */
    float         *values; /* blocks * per_block */
};

/* The vectors of a type, read once and kept.  A missing folder or file fails the test with its name. */
const struct golden *golden_of(ingot_type type);
/* A random one of the blocks; not `wild`: one whose largest element is of ordinary size, if there is one. */
void golden_random_block(ingot_type type, unsigned char *block, bool wild);
/* What a block that came from golden_random_block means. */
void golden_decode_block(ingot_type type, const unsigned char *block, double *out);

#endif
