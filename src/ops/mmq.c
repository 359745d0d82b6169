// SPDX-License-Identifier: MIT
/* mmq.c - which mat-mat kernel a product of block-format weights takes, and its grid: one block for each tile of the result. */
#include "mmv.h"

enum { MOST_COLUMNS = 256 }; /* of a tile */

const struct ingot_kernel *ingot_mmq_kernel(const ingot_context *ctx, ingot_type type, int64_t n) {
    const struct ingot_kernel *kernel = NULL;

    for (int64_t tile = 8; tile <= MOST_COLUMNS && (kernel == NULL || kernel->tile < n); tile += 8) {
        const struct ingot_kernel *larger = ingot_find_exact(ctx->table, INGOT_FAMILY_MMQ, type, tile);
        if (larger != NULL) kernel = larger;
    }
    return kernel;
}

const struct ingot_kernel *ingot_mmq_plan(const ingot_context *ctx, ingot_type type, struct ingot_mmv_args *a,
                                          struct ingot_grid *grid) {
    const struct ingot_kernel *kernel = ingot_mmq_kernel(ctx, type, a->n);

    if (kernel == NULL) return NULL;
    /* Rows and columns are 2^31-1 at most, and so are tiles and matrices: the product is checked by steps. */
    int64_t down = (a->m + kernel->unit - 1) / kernel->unit, across = (a->n + kernel->tile - 1) / kernel->tile;
    int64_t matrices = a->ne2 * a->ne3;
    *grid = (struct ingot_grid){.blocks = INT64_MAX};
    if (down <= INT32_MAX && across <= INT32_MAX && (across == 0 || down <= INT32_MAX / across) &&
        (down * across == 0 || matrices <= INT32_MAX / (down * across)))
        grid->blocks = down * across * matrices;
    a->shape.blocks = (int32_t)down;
    a->shape.across = (int32_t)across;
    return kernel;
}
