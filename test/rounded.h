// SPDX-License-Identifier: MIT
/* rounded.h - golden vectors of rounding: INGOT_GOLDEN_DIR/<type>.rounded, as test/golden/make_rounded.py says. */
#ifndef INGOT_TEST_ROUNDED_H
#define INGOT_TEST_ROUNDED_H

#include "check.h"

/* The formats that values are rounded to, as the header's table lists them; their number in this build. */
enum { ROUNDED_TYPES = 6 };
int  rounded_types(ingot_type types[ROUNDED_TYPES]);
bool is_rounded_type(ingot_type type);

/* Fills `src`, a plain tensor, with golden blocks whose numbers its type holds exactly, and gives back the image that dst's
 * buffer must have when they have been rounded into it: element i of src in ne order to element i of dst, or with `ids`
 * rows to rows as SET_ROWS has it.  `in_order` takes the file's blocks one after the other, else they are drawn. */
unsigned char *rounded_rows(struct tensor *src, const struct tensor *ids, const struct tensor *dst, bool in_order);

/* Downloads dst: its whole buffer must be the image, but that a NaN half is as good as another. */
void rounded_check(struct tensor *dst, unsigned char *image, const char *what);

/* Blocks in the type's file. */
int64_t rounded_count(ingot_type type);

#endif
