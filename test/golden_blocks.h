// SPDX-License-Identifier: MIT
/* golden_blocks.h - the golden vectors of a type: INGOT_GOLDEN_DIR/<type>.golden, as make_golden.py says. */
#ifndef INGOT_TEST_GOLDEN_BLOCKS_H
#define INGOT_TEST_GOLDEN_BLOCKS_H

#include "check.h"

struct golden {
    int64_t        blocks, per_block; /* elements per block */
    unsigned char *raw;               /* the blocks */
    float         *values;            /* what they decode to */
};

/* Read once and kept.  Fails the test where the file is missing or is something else. */
const struct golden *golden_of(ingot_type type);

/* INGOT_GOLDEN_DIR/<type>.exhaustive: every code of the format.  The caller frees it. */
struct golden golden_exhaustive(ingot_type type);
void          golden_free(struct golden *g);

/* The values of the block with these bytes; fails the test if the file has none. */
void golden_decode(ingot_type type, const unsigned char *block, double *out);

/* The number of one of its blocks: `wild` any, else one whose largest value is of magnitude 2^-10 .. 2^10. */
int64_t golden_choose(ingot_type type, bool wild);
void golden_random(ingot_type type, unsigned char *block, bool wild);

/* The last of its blocks whose values are all 1; false if there is none. */
bool golden_ones(ingot_type type, unsigned char *block);

#endif
