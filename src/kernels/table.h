// SPDX-License-Identifier: MIT
/* table.h - the look-up's memory, for table.c and launch.c. */
#ifndef INGOT_TABLE_H
#define INGOT_TABLE_H

#include "kernels.h"

/* Tiles share slots so that a look-up is one index: 0..64 have their own, 65..1024 one per 16.  Rows keep to tiles that
 * a slot holds exactly (rows.c asserts it). */
#define INGOT_TILE_FINE 64
#define INGOT_TILE_MAX  1024
#define INGOT_TILE_SLOTS (INGOT_TILE_FINE + (INGOT_TILE_MAX - INGOT_TILE_FINE) / 16 + 1)
#define INGOT_TYPE_SLOTS 48 /* GGUF's type numbers, with room */

enum { INGOT_ROW_WAITS = 1, INGOT_ROW_OPTED_IN = 2 };

struct ingot_table {
    const struct ingot_kernel *rows;
    int                        count, used;
    uint8_t  flags[INGOT_TABLE_ROWS]; /* per row: INGOT_ROW_ */
    uint16_t cell[INGOT_FAMILY_COUNT][INGOT_TYPE_SLOTS][INGOT_TILE_SLOTS]; /* row + 1; 0: none */
};

/* The flags of a row of this table; NULL for any other row. */
uint8_t *ingot_table_flags(struct ingot_table *table, const struct ingot_kernel *kernel);
/* The host stub of a row as the runtime wants it. */
const void *ingot_kernel_stub(const struct ingot_kernel *kernel);
/* INGOT_ARCH as 75, 80 or 90; 0 if unset.  INGOT_ERR_INVALID names what is accepted. */
ingot_status ingot_arch_from_env(ingot_context *ctx, int *max_arch);

#endif
