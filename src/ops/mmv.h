// SPDX-License-Identifier: MIT
/* mmv.h - the choice of a mat-vec or mat-mat kernel and of its launch. */
#ifndef INGOT_MMV_H
#define INGOT_MMV_H

#include "emit.h"

enum {
    INGOT_MMV_COLUMNS = 8, /* up to so many columns the weights are read once; beyond, a GEMM is faster */
    INGOT_MMQ_COLUMNS = 64 /* of the largest tile of MMQ */
};

/* The general kernel of `family` (MMVQ, MMVF, MMQ) for n columns: the smallest tile that holds them, else the largest there is.  NULL: none. */
const struct ingot_kernel *ingot_mmv_kernel(const ingot_context *ctx, enum ingot_family family, ingot_type type, int64_t n);
/* The kernel that is fastest for these arguments, of `family` (MMVQ, MMVF, MMQ) or of its streaming relatives; fills args->shape
 * and *grid.  NULL: there is none.  grid->blocks is more than 2^31-1 where that many would be needed. */
const struct ingot_kernel *ingot_mmv_plan(const ingot_context *ctx, enum ingot_family family, ingot_type type,
                                          struct ingot_mmv_args *args, struct ingot_grid *grid);

#endif
