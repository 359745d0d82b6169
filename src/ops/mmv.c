// SPDX-License-Identifier: MIT
/* mmv.c - which mat-vec kernel a product with few columns takes, and how its blocks are laid out.
 *
 *   MMVQ_MMA    3 columns or more   int8 tensor cores; rows that start on 16 bytes, whole slabs of 256 columns
 *   MMVQ_RING   1 or 2 columns      weights streamed through shared memory by bulk copies; rows that start on 16 bytes,
 *                                   whole units of 64 columns
 *   MMVF_RING   1 column            as MMVQ_RING, of rows of any whole number of 16 bytes
 *   MMVF_WIDE   up to 8 columns     likewise, and activations through shared memory
 *   MMVQ, MMVF  any                 everything else
 *   MMQ         9 columns or more   asked for by mul_mat.c; tiles of the result on int8 tensor cores
 *
 * A streaming kernel's block lives as long as the product: about two blocks for each multiprocessor, each with a run of
 * rows.  What the blocks of a multiprocessor hold in shared memory is what is on the way from memory, and it decides when
 * the next launch can move in: it should be more than half of what there is, or else the next launch is let in late.
 * Sums are added in an order that follows from m, n, k and the chip's shared memory alone. */
#include "mmv.h"

enum {
    RING_WARPS = 8,         /* of a block, if k does not ask for more */
    RING_BYTES = 64 * 1024, /* of a block: how deep rings are made */
    RING_DEPTH = 8,         /* slots at most */
    RING_LEAST = 8,         /* rows of a block at least */
    RING_BARS = 1024,       /* bytes of barriers */
    RING_ACROSS = 16,       /* warps along k at most */
    UNIT = 64,
    SLICE = 32 * UNIT,   /* columns of a lane, of a warp */
    RING_COLUMNS = 1024, /* of a warp of MMVF_RING */
    RING_ROWS = 2048,    /* of a block of MMVF_RING, times warps along k, at most */
    WIDE_BYTES = 1024,   /* of a row in a warp's slot of MMVF_WIDE */
    WIDE_DEPTH = 2,
    WIDE_STAGES = 4,      /* of activations at most */
    WIDE_ROWS = 256,      /* of a block at most */
    WIDE_FEW_ROWS = 2048, /* of a matrix: a tile or two for each multiprocessor of a large chip */
    MMA_WARPS = 8,        /* of a block of MMVQ_MMA at most */
    MMA_SUMS = 512,       /* bytes of a warp's sums */
    SLAB = 256,
    TILE = 16,
    X_COLUMN = 256 + 64, /* bytes of a column of a slab's activations and its scales */
    BLOCK_RESERVE = 1024 /* bytes of shared memory that CUDA takes for each block */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t parts(int64_t value, int64_t step) {
    return (value + step - 1) / step;
}
static int64_t up(int64_t value, int64_t step) {
    return parts(value, step) * step;
}

/* True if every row of the weights starts on 16 bytes. */
static bool rows_on_16(const struct ingot_mmv_args *a) {
    return (((uintptr_t)a->w | (uintptr_t)a->w2 | (uint64_t)(a->w_nb1 | a->w_nb2 | a->w_nb3)) & 15) == 0;
}

static int64_t row_bytes(const struct ingot_kernel *kernel, int64_t k) {
    ingot_type type = (ingot_type)kernel->type;
    return k / ingot_type_block(type) * (int64_t)ingot_type_size(type);
}

/* Matrices of the result. */
static int64_t matrices(const struct ingot_mmv_args *a) {
    return a->ne2 * a->ne3;
}

static void set_across(struct ingot_mmv_args *a, int64_t across) {
    a->shape.across = (int32_t)across;
    a->shape.inverse = (int32_t)(65536 / across + 1);
}

/* Sets grid, the blocks' rows and the way the next launch is let in; `smem` bytes a block. */
static void finish(const ingot_context *ctx, struct ingot_mmv_args *a, struct ingot_grid *grid, int64_t threads,
                   int64_t smem, int64_t grain) {
    int64_t shared = (int64_t)ctx->info.shared_per_block, sms = ctx->info.sm_count;
    int64_t blocks = a->shape.blocks * matrices(a), resident = (shared + BLOCK_RESERVE) / (smem + BLOCK_RESERVE);

    grid->blocks = blocks;
    grid->threads = (uint32_t)threads;
    grid->smem = (uint32_t)smem;
    a->shape.grain = (int32_t)grain;
    a->shape.share = (int32_t)(parts(a->m, grain) / a->shape.blocks);
    a->shape.rest = (int32_t)(parts(a->m, grain) % a->shape.blocks);
    a->shape.flags = (a->w_is_constant ? INGOT_MMV_EARLY : 0) | (a->w2 != NULL ? INGOT_MMV_PAIR : 0) |
                     (a->add[0].data != NULL || a->add[1].data != NULL ? INGOT_MMV_ADD : 0) |
                     (matrices(a) > 1 || a->ids != NULL ? INGOT_MMV_MANY : 0) |
                     (least(parts(blocks, sms), resident) * smem < shared / 4 ? INGOT_MMV_LATE : 0);
}

/* The least number of bytes of which `blocks` blocks fit a multiprocessor, but not one more: what is left over would take in
 * some blocks of the next launch, whose work then falls unevenly on the multiprocessors. */
static int64_t no_room_for_more(const ingot_context *ctx, int64_t blocks) {
    return up(((int64_t)ctx->info.shared_per_block + BLOCK_RESERVE) / (blocks + 1) - BLOCK_RESERVE + 1, 128);
}

static bool plan_ring(const ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_mmv_args *a,
                      struct ingot_grid *grid) {
    int64_t units = a->k / UNIT, bytes = row_bytes(kernel, a->k), n = kernel->tile, width = 32;

    if (a->n > n || a->k == 0 || a->k % UNIT != 0 || !rows_on_16(a) || bytes % 16 != 0) return false;
    while (width > 8 && width / 2 >= units) width /= 2;
    int64_t across = parts(units, 32), groups = most(1, RING_WARPS / across), pair = a->w2 != NULL;
    if (across > RING_ACROSS || across * groups * 32 > kernel->threads) return false;
    int64_t stride = across == 1 ? bytes : row_bytes(kernel, SLICE), per_slot = kernel->unit * (32 / width);
    int64_t sms = ctx->info.sm_count, shared = (int64_t)ctx->info.shared_per_block;
    int64_t blocks = least(most(1, 2 * sms / matrices(a)), parts(a->m << pair, most(2 * per_slot, RING_LEAST)));
    /* As many slots for each block, even where that leaves fewer blocks. */
    int64_t all = parts(a->m, per_slot >> pair), slots = parts(all, blocks);
    blocks = parts(all, slots);
    int64_t warps = across * groups, slot = warps * per_slot * stride;
    int64_t fixed = up(RING_BARS + kernel->smem + slots * per_slot * n * across * 4, 128);
    int64_t depth = least(least(parts(slots, groups), RING_DEPTH), most(RING_BYTES / slot, 2));
    if (fixed + slot * depth > shared) depth = shared > fixed ? (shared - fixed) / slot : 0;
    if (depth < 1) return false;
    int64_t smem = fixed + slot * depth, fit = (shared + BLOCK_RESERVE) / (smem + BLOCK_RESERVE);
    if (slots > groups)
        smem = most(smem, no_room_for_more(ctx, least(fit, least(2, parts(blocks * matrices(a), sms)))));
    a->shape.blocks = (int32_t)blocks;
    set_across(a, across);
    a->shape.units = (int32_t)units;
    a->shape.depth = (int32_t)depth;
    a->shape.log_width = width == 32 ? 5 : width == 16 ? 4 : 3;
    for (a->shape.log_slot = 0; 1 << a->shape.log_slot < per_slot >> pair;) a->shape.log_slot++;
    a->shape.step = (int32_t)(groups * per_slot >> pair);
    a->shape.last = (int32_t)(bytes - (across - 1) * row_bytes(kernel, SLICE));
    a->shape.stride = (int32_t)stride;
    a->shape.stages = (int32_t)fixed;
    finish(ctx, a, grid, warps * 32, smem, per_slot >> pair);
    return true;
}

static bool plan_mma(const ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_mmv_args *a,
                     struct ingot_grid *grid) {
    int64_t slabs = a->k / SLAB, slab = row_bytes(kernel, SLAB), depth = kernel->unit;
    int64_t odd = slab & -slab, pieces = parts(slab + (odd < 16 ? 16 - odd : 0), 16);
    int64_t stage = TILE * (pieces | 1) * 16 + up(a->n * X_COLUMN, 128), per_tile = a->w2 != NULL ? TILE / 2 : TILE;
    int64_t warps = 0, blocks = 0, smem = 0;

    if (a->n > kernel->tile || a->k == 0 || a->k % SLAB != 0 || !rows_on_16(a)) return false;
    if (row_bytes(kernel, a->k) % 16 != 0) return false;
    /* Warps of a block and blocks of a multiprocessor: the most slabs at a time, in two blocks or (if slabs are few) more. */
    for (int64_t limit = least(MMA_WARPS, kernel->threads / 32); limit >= 1; limit--) {
        int64_t w = parts(slabs, parts(slabs, limit)), bytes = w * (MMA_SUMS + depth * stage) + kernel->smem;
        int64_t fit = ((int64_t)ctx->info.shared_per_block + BLOCK_RESERVE) / (bytes + BLOCK_RESERVE);
        fit = least(fit, slabs > MMA_WARPS ? 2 : 2 * MMA_WARPS / w);
        if (fit * parts(slabs, most(warps, 1)) <= blocks * parts(slabs, w)) continue;
        warps = w;
        blocks = fit;
        smem = bytes;
    }
    if (warps == 0) return false;
    /* Whole tiles for each block, or halves where there are fewer than multiprocessors. */
    int64_t grain = parts(a->m, per_tile) * matrices(a) < ctx->info.sm_count ? per_tile / 2 : per_tile;
    a->shape.blocks = (int32_t)least(most(1, blocks * ctx->info.sm_count / matrices(a)), parts(a->m, grain));
    a->shape.units = (int32_t)slabs;
    a->shape.across = (int32_t)warps;
    a->shape.step = (int32_t)(slabs / warps);
    a->shape.x_stages = (int32_t)(slabs % warps);
    a->shape.stride = (int32_t)stage;
    finish(ctx, a, grid, warps * 32, smem, grain);
    return true;
}

/* True if rows of weights, `bytes` long, and of activations can be read by 16 bytes; and if they keep a warp busy, which
 * reads 512 at a time. */
static bool can_stream_f(const struct ingot_mmv_args *a, int64_t bytes) {
    bool x_on_16 = (((uintptr_t)a->x | (uint64_t)(a->x_nb1 | a->x_nb2 | a->x_nb3)) & 15) == 0;

    return rows_on_16(a) && x_on_16 && a->x_nb0 == 4 && bytes % 16 == 0 && bytes >= 512 && a->k <= 1 << 28;
}

/* Blocks for each matrix if every multiprocessor has `resident` of them: as many as there are, or (so that no block has more
 * than `most_rows`) a multiple. */
static int64_t even_blocks(const ingot_context *ctx, const struct ingot_mmv_args *a, int64_t resident,
                           int64_t most_rows) {
    int64_t blocks = most(1, resident * ctx->info.sm_count / matrices(a));

    return blocks * parts(parts(a->m, blocks), most_rows);
}

static bool plan_ring_f(const ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_mmv_args *a,
                        struct ingot_grid *grid) {
    int64_t bytes = row_bytes(kernel, a->k), slice = row_bytes(kernel, RING_COLUMNS), across = parts(bytes, slice);
    int64_t shared = (int64_t)ctx->info.shared_per_block, pair = a->w2 != NULL, per_slot = kernel->unit >> pair;

    if (a->n > kernel->tile || !can_stream_f(a, bytes) || across > kernel->threads / 32) return false;
    int64_t stride = across == 1 ? bytes : slice;
    /* Two blocks to a multiprocessor, or one if the rings of two would have less than two slots. */
    for (int64_t resident = 2; resident >= 1; resident--) {
        int64_t groups = across == 1 ? RING_WARPS : most(1, RING_WARPS / 2 * (resident == 1 ? 2 : 1) / across);
        int64_t blocks = least(even_blocks(ctx, a, resident, RING_ROWS / across), parts(a->m, per_slot));
        int64_t slots = parts(parts(a->m, blocks), per_slot), warps = across * groups;
        int64_t fixed = up(RING_BARS + slots * kernel->unit * across * 4, 128), slot = warps * kernel->unit * stride;
        int64_t most_bytes = (shared + BLOCK_RESERVE) / resident - BLOCK_RESERVE;
        int64_t depth = most_bytes > fixed ? least((most_bytes - fixed) / slot, RING_BARS / 8 / warps) : 0;

        if (depth < 1 || (depth == 1 && resident > 1)) continue;
        depth = least(depth, parts(slots, groups));
        a->shape.blocks = (int32_t)blocks;
        set_across(a, across);
        a->shape.depth = (int32_t)depth;
        a->shape.step = (int32_t)(groups * per_slot);
        a->shape.last = (int32_t)(bytes - (across - 1) * slice);
        a->shape.stride = (int32_t)stride;
        a->shape.stages = (int32_t)fixed;
        int64_t least_bytes = slots > groups ? no_room_for_more(ctx, resident) : shared / 2 / resident + 128;
        finish(ctx, a, grid, warps * 32, most(fixed + slot * depth, least_bytes), 1);
        return true;
    }
    return false;
}

static bool plan_wide(const ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_mmv_args *a,
                      struct ingot_grid *grid) {
    int64_t bytes = row_bytes(kernel, a->k), pair = a->w2 != NULL, unit = kernel->unit, per_tile = unit >> pair;
    int64_t shared = (int64_t)ctx->info.shared_per_block, n = kernel->tile;
    /* Few rows occupy more warps along k; so do few columns, which are read again and again at little cost. */
    int64_t across = n <= 2 || a->m <= WIDE_FEW_ROWS ? 4 : 2, chunks = parts(bytes, across * WIDE_BYTES);
    int64_t stage = across * WIDE_BYTES / (int64_t)ingot_type_size((ingot_type)kernel->type) * 4;

    if (a->n > n || !can_stream_f(a, bytes)) return false;
    /* Whole tiles for each block, even where that leaves fewer blocks than multiprocessors. */
    int64_t blocks = even_blocks(ctx, a, 1, WIDE_ROWS >> pair);
    blocks = parts(a->m, up(parts(a->m, blocks), per_tile));
    int64_t tiles = parts(parts(a->m, blocks), per_tile), groups = least((kernel->threads / 32 - 1) / across, tiles);
    int64_t fixed = up(RING_BARS + tiles * unit * n * across * 4, 128), slot = groups * across * unit * WIDE_BYTES;
    int64_t depth = least(WIDE_DEPTH, chunks * parts(tiles, groups));
    int64_t x_stages = least(least((shared - fixed - depth * slot) / (n * stage), WIDE_STAGES), chunks);

    if (x_stages < 1) return false;
    a->shape.blocks = (int32_t)blocks;
    set_across(a, across);
    a->shape.units = (int32_t)chunks;
    a->shape.depth = (int32_t)depth;
    a->shape.step = (int32_t)groups;
    a->shape.stride = (int32_t)stage;
    a->shape.stages = (int32_t)fixed;
    a->shape.x_stages = (int32_t)x_stages;
    finish(ctx, a, grid, (groups * across + 1) * 32, fixed + x_stages * n * stage + depth * slot, 1);
    return true;
}

static const struct {
    enum ingot_family family, sister; /* `sister` takes what `family` does not */
    int64_t from;                     /* columns */
    bool (*plan)(const ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_mmv_args *a,
                 struct ingot_grid *grid);
} streaming[] = {
    {INGOT_FAMILY_MMVQ_MMA, INGOT_FAMILY_MMVQ, 3, plan_mma},
    {INGOT_FAMILY_MMVQ_RING, INGOT_FAMILY_MMVQ, 1, plan_ring},
    {INGOT_FAMILY_MMVF_RING, INGOT_FAMILY_MMVF, 1, plan_ring_f},
    {INGOT_FAMILY_MMVF_WIDE, INGOT_FAMILY_MMVF, 1, plan_wide},
};

const struct ingot_kernel *ingot_mmv_kernel(const ingot_context *ctx, enum ingot_family family, ingot_type type,
                                            int64_t n) {
    const struct ingot_kernel *kernel = NULL;

    for (int64_t tile = least(n, family == INGOT_FAMILY_MMQ ? INGOT_MMQ_COLUMNS : INGOT_MMV_COLUMNS);
         tile >= 1 && kernel == NULL; tile--)
        kernel = ingot_find(ctx->table, family, type, tile);
    return kernel;
}

const struct ingot_kernel *ingot_mmv_plan(const ingot_context *ctx, enum ingot_family family, ingot_type type,
                                          struct ingot_mmv_args *a, struct ingot_grid *grid) {
    const struct ingot_kernel *kernel;

    bool streams = matrices(a) > 0 && a->m > 0 && matrices(a) * a->m <= INT32_MAX;

    for (size_t i = 0; streams && i < sizeof streaming / sizeof streaming[0]; i++) {
        if (family != streaming[i].sister || a->n < streaming[i].from) continue;
        kernel = ingot_find(ctx->table, streaming[i].family, type, a->n);
        if (kernel != NULL && streaming[i].plan(ctx, kernel, a, grid)) return kernel;
    }
    kernel = ingot_mmv_kernel(ctx, family, type, a->n);
    if (kernel == NULL) return NULL;
    /* At most 2^31-1 rows, columns and matrices each: the product is checked by steps. */
    int64_t passes = parts(a->n, kernel->tile), rows = parts(a->w2 != NULL ? 2 * a->m : a->m, kernel->unit);
    *grid = (struct ingot_grid){.blocks = INT64_MAX};
    if (passes <= INT32_MAX && matrices(a) <= INT32_MAX / passes && rows <= INT32_MAX / (passes * matrices(a)))
        grid->blocks = rows * passes * matrices(a);
    a->shape.blocks = (int32_t)rows;
    a->shape.across = (int32_t)passes;
    return kernel;
}
