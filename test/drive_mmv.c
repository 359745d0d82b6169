// SPDX-License-Identifier: MIT
/* drive_mmv.c - drivers of the rows that multiply a matrix with a few columns: the plain kernels and those that stream. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "drive.h"

struct shape {
    int64_t m, n, k, ne2, ne3, ratio2, ratio3;
    bool add;
    int strided; /* 2: but every row starts on 16 bytes */
};

static void mmvq_case(const struct ingot_kernel *row, const struct shape *s) {
    const ingot_type type = (ingot_type)row->type;
    const size_t align = ingot_type_size(type) % 2 == 0 ? 2 : 1; /* as little as a block may be aligned */
    struct layout w_rows = {{s->strided ? 1 : 0, s->strided ? 1 : 0, 0, 0}, {0, 1, 2, 3}, s->strided ? align : 0};
    struct op_case c = {.op = INGOT_OP_MUL_MAT};
    const int64_t columns = s->n * s->ne2 * s->ne3;
    c.src[0] = filled(type, s->k, s->m, s->ne2 / s->ratio2, s->ne3 / s->ratio3, &w_rows);
    c.src[1] = filled(INGOT_TYPE_F32, s->k, s->n, s->ne2, s->ne3, &packed);
    if (check_random() % 4 == 0)
        tensor_fill(c.src[1], check_random() % 2 ? 1.0 : -1.0); /* the largest sums of integers */
    c.dst = tensor_new(INGOT_TYPE_F32, s->m, s->n, s->ne2, s->ne3, s->strided ? &gapped : &packed);
    struct q8 q = q8_new(s->k, columns);
    struct extras extra = {.q8_in = q.arg};
    double *b = tensor_values(c.src[1]), *unrounded = case_reference(&c);
    const double bound = 5e-4 * case_cancellation(&c, unrounded);
    q8_fill(q, b, s->k, columns);
    tensor_upload(q.qs), tensor_upload(q.scales);
    /* The reference multiplies with d*q: B's image holds those numbers while it is made (d*q needs up to 32 bits: f64). */
    double *rounded = check_alloc((size_t)ingot_tensor_elements(&c.dst->t) * sizeof *rounded);
    double *w = tensor_values(c.src[0]);
    for (int64_t i = 0; i < columns * s->k; i++)
        b[i] = tensor_get(q.scales, 0, i / 32, 0, 0) * (int8_t)*tensor_at(q.qs, i, 0, 0, 0);
    for (int64_t column = 0; column < columns; column++) {
        const int64_t i2 = column / s->n % s->ne2 / s->ratio2, i3 = column / s->n / s->ne2 / s->ratio3;
        for (int64_t i = 0; i < s->m; i++) {
            const double *w_row = w + ((i3 * (s->ne2 / s->ratio2) + i2) * s->m + i) * s->k;
            double sum = 0.0;
            for (int64_t e = 0; e < s->k; e++) sum += w_row[e] * b[column * s->k + e];
            rounded[column * s->m + i] = sum;
        }
    }
    if (s->add) {
        extra.add = filled(INGOT_TYPE_F32, s->m, s->n, s->ne2, s->ne3, s->strided ? &gapped : &packed);
        tensor_upload(extra.add);
        double *add = tensor_values(extra.add);
        for (int64_t i = 0; i < columns * s->m; i++) rounded[i] += add[i], unrounded[i] += add[i];
    }
    upload_all(&c);
    emit(&c, (int)c.op, &extra);
    const double sums = F32_SUMS * case_cancellation(&c, rounded);
    check_result(c.dst, rounded, sums, case_text(&c));
    if (s->k >= 256 && columns * s->m >= 16) {
        double e = check_nmse(tensor_values(c.dst), unrounded, columns * s->m);
        if (!(e <= bound))
            check_fail("%s: NMSE %.3e against activations as they were, at most %.1e expected", case_text(&c), e,
                       bound);
    }
    check_unchanged(c.src[0], case_text(&c));
    check_unchanged(q.qs, case_text(&c));
    check_unchanged(q.scales, case_text(&c));
    if (s->add) {
        check_unchanged(extra.add, case_text(&c));
        /* Added in place: dst is the addend. */
        memcpy(c.dst->host, extra.add->host, c.dst->bytes);
        tensor_upload(c.dst);
        extra.add = c.dst;
        emit(&c, (int)c.op, &extra);
        check_result(c.dst, rounded, sums, "added in place");
    }
    next_case();
}

static void mmvf_case(const struct ingot_kernel *row, const struct shape *s) {
    const ingot_type type = (ingot_type)row->type;
    const int64_t sixteen = 16 / (int64_t)ingot_type_size(type);
    const struct layout w_strided = {{3, 1, 0, 0}, {0, 1, 2, 3}, ingot_type_size(type)};
    const struct layout w_on_16 = {{sixteen, 3 * sixteen, sixteen, 0}, {0, 1, 2, 3}, 16};
    const struct layout x_on_16 = {{4, 0, 8, 0}, {0, 2, 1, 3}, 16};
    struct op_case c = {.op = INGOT_OP_MUL_MAT};
    const struct layout *w[] = {&packed, &w_strided, &w_on_16}, *x[] = {&packed, &swapped, &x_on_16};
    c.src[0] = filled(type, s->k, s->m, s->ne2 / s->ratio2, s->ne3 / s->ratio3, w[s->strided]);
    c.src[1] = filled(INGOT_TYPE_F32, s->k, s->n, s->ne2, s->ne3, x[s->strided]);
    c.dst = tensor_new(INGOT_TYPE_F32, s->m, s->n, s->ne2, s->ne3, s->strided ? &gapped : &packed);
    struct extras extra = {0};
    double *ref = case_reference(&c);
    if (s->add) {
        extra.add = filled(INGOT_TYPE_F32, s->m, s->n, s->ne2, s->ne3, s->strided ? &gapped : &packed);
        tensor_upload(extra.add);
        double *add = tensor_values(extra.add);
        for (int64_t i = 0; i < ingot_tensor_elements(&c.dst->t); i++) ref[i] += add[i];
    }
    upload_all(&c);
    emit(&c, (int)c.op, &extra);
    check_result(c.dst, ref, F32_SUMS * case_cancellation(&c, ref), case_text(&c));
    check_unchanged(c.src[0], case_text(&c));
    check_unchanged(c.src[1], case_text(&c));
    next_case();
}

/* Two matrices with a GLU, experts chosen by ids or not: bit for bit the GLU of what the row gives for each alone.  One id
 * chooses nothing. */
static void gated_case(const struct ingot_kernel *row, int64_t m, int64_t k, int64_t n, bool chosen, int kind) {
    const ingot_type type = (ingot_type)row->type;
    struct op_case c = {.op = chosen ? INGOT_OP_MUL_MAT_ID : INGOT_OP_MUL_MAT};
    struct extras extra = {.gated = true, .glu = {(ingot_glu_kind)(kind % 6), 1.702f, 0.5f}};
    struct tensor *sums[2];
    c.src[0] = filled(type, k, m, chosen ? 3 : 1, 1, &packed);
    extra.up = filled(type, k, m, chosen ? 3 : 1, 1, &packed);
    c.src[1] = filled(INGOT_TYPE_F32, k, chosen ? 2 : n, chosen ? n : 1, 1, &packed);
    if (chosen) {
        c.src[2] = tensor_new(INGOT_TYPE_I32, 4, n, 1, 1, NULL);
        tensor_fill_random(c.src[2], 0.0, 2.999);
        tensor_set(c.src[2], 2, n - 1, 0, 0, 3.0);
    }
    struct tensor *dst = tensor_new(INGOT_TYPE_F32, m, chosen ? 4 : n, chosen ? n : 1, 1, &gapped);
    tensor_upload(extra.up);
    for (int i = 0; i < 2; i++) {
        struct op_case alone = c;
        if (i) alone.src[0] = extra.up;
        alone.dst = tensor_like(dst, INGOT_TYPE_F32);
        tensor_fill(alone.dst, 1.0);
        upload_all(&alone);
        emit(&alone, (int)c.op, NULL);
        sums[i] = alone.dst;
    }
    ingot_node glu = {
        .op = INGOT_OP_GLU, .dst = sums[0]->t, .src = {&sums[0]->t, &sums[1]->t}, .params.glu = extra.glu};
    CHECK_OK(ingot_compute(check_context(), &glu));
    tensor_download(sums[0]);
    double *expected = tensor_values(sums[0]);
    for (int64_t i = 0; chosen && i < m; i++) expected[((n - 1) * 4 + 2) * m + i] = NAN;
    c.dst = dst;
    tensor_fill(dst, 1.0);
    upload_all(&c);
    emit(&c, (int)c.op, &extra);
    check_result(dst, expected, EXACT, case_text(&c));
    check_unchanged(c.src[0], case_text(&c));
    check_unchanged(extra.up, case_text(&c));
    next_case();
}

/* m: one row, odd rows, more than a block of rows; k: one block, odd numbers of blocks, long; n: below, at and above the
 * tile; matrices with ratios; strides; addend. */
static void drive_product(const struct ingot_kernel *row,
                          void (*one)(const struct ingot_kernel *, const struct shape *)) {
    const bool plain = !check_is_block((ingot_type)row->type);
    const int64_t block = ingot_type_block((ingot_type)row->type), tile = row->tile;
    const int64_t m[] = {1, 2, 3, 31, 33, 64, 65, 127};
    /* Around 2048 and 16384 kernels change how many lanes share a row, and in how many rounds. */
    const int64_t k[] = {block,        2 * block,    3 * block,    576,   1536,          2048,
                         2048 + block, 4096 + block, 8192 - block, 16384, 16384 + block, 33024};
    const int64_t odd_k[] = {1, 3, 7, 63, 257, 1001, 2049, 16391};
    const int64_t n[] = {1, tile - 1, tile + 1, 2 * tile + 1};
    for (size_t i = 0; i < COUNT(m); i++)
        one(row, &(struct shape){m[i], tile, plain ? 72 : 2 * block, 1, 1, 1, 1, i % 2, i % 4 > 1});
    for (size_t i = 0; i < COUNT(k); i++)
        for (int strided = 0; strided < 2; strided++)
            if (k[i] % block == 0) one(row, &(struct shape){7, tile, k[i], 1, 1, 1, 1, false, strided});
    for (size_t i = 0; plain && i < COUNT(odd_k); i++)
        one(row, &(struct shape){7, tile, odd_k[i], 1, 1, 1, 1, false, i % 2});
    for (size_t i = 0; i < COUNT(n); i++)
        if (n[i] > 0) one(row, &(struct shape){19, n[i], plain ? 128 : 3 * block, 1, 1, 1, 1, i % 2, i % 2});
    one(row, &(struct shape){5, tile, plain ? 64 : block, 4, 3, 2, 1, true, true});
    one(row, &(struct shape){9, tile, plain ? 65 : block, 3, 2, 1, 2, false, false});
    one(row, &(struct shape){3, 1, plain ? 64 : block, 6, 4, 3, 2, true, false});
    for (int i = 0; i < 24; i++)
        gated_case(row, m[i / 2 % COUNT(m)], k[i % COUNT(k)] - k[i % COUNT(k)] % block,
                   i % 2 ? 3 : (int64_t[]){tile, 1, tile + 1}[i / 2 % 3], i % 2, i);
    one(row, &(struct shape){576, 1, plain ? 576 : (576 + block - 1) / block * block, 1, 1, 1, 1, false, false});
}

void drive_mmvq(const struct ingot_kernel *row) {
    drive_product(row, mmvq_case);
}

/* More columns than the mat-vec kernels take.  m, n: one, around the tile's edges, several tiles; k: parts of a stage, whole
 * stages and a little more; matrices, strides that break every alignment, addends. */
void drive_mmq(const struct ingot_kernel *row) {
    const int64_t block = ingot_type_block((ingot_type)row->type), tile = row->tile, rows = row->unit;
    const int64_t m[] = {1, 3, 63, rows - 1, rows, rows + 1, 2 * rows + 17};
    const int64_t n[] = {9, 15, 16, 17, tile - 1, tile, tile + 1, 2 * tile + 3, 129};
    const int64_t k[] = {block, 2 * block, 3 * block, 5 * block, 512, 1024 + block};
    for (size_t i = 0; i < COUNT(m); i++)
        mmvq_case(row, &(struct shape){m[i], tile + 1, 3 * block, 1, 1, 1, 1, i % 2, i % 4 > 1});
    for (size_t i = 0; i < COUNT(n); i++)
        if (n[i] > 8) mmvq_case(row, &(struct shape){33, n[i], block > 32 ? block : 96, 1, 1, 1, 1, i % 2, i % 2});
    for (size_t i = 0; i < COUNT(k); i++)
        if (k[i] % block == 0) mmvq_case(row, &(struct shape){37, 20, k[i], 1, 1, 1, 1, false, i % 2});
    mmvq_case(row, &(struct shape){5, 11, block, 4, 3, 2, 1, true, true});
    mmvq_case(row, &(struct shape){rows + 9, 12, 2 * block, 3, 2, 1, 2, false, false});
}

/* The streaming kernels take rows of whole units (64 columns, or slabs of 256) that start on 16 bytes. */
void drive_stream(const struct ingot_kernel *row) {
    const ingot_type type = (ingot_type)row->type;
    const bool mma = row->family == INGOT_FAMILY_MMVQ_MMA;
    const int64_t block = ingot_type_block(type), size = (int64_t)ingot_type_size(type);
    int64_t step = mma || block > 64 ? 256 : 64;
    while (step / block * size % 16 != 0) step *= 2;
    /* Where lanes, warps and rounds change: 512 and 1024, 2048, 4096 (slabs and warps), 16 warps and more. */
    const int64_t k[] = {step, 2 * step,    3 * step,    512,   1024,  2048,         2048 + step,
                         4096, 4096 + step, 8192 - step, 14336, 16384, 16384 + step, 32768 - step};
    const int64_t m[] = {1, 2, 3, 15, 16, 17, 31, 33, 65, 127, 300};
    const int64_t least = mma ? 3 : row->tile == 1 ? 1 : 2, most = row->tile;
    for (size_t i = 0; i < COUNT(m); i++)
        mmvq_case(row, &(struct shape){m[i], most, 2 * step, 1, 1, 1, 1, i % 2, false});
    for (size_t i = 0; i < COUNT(k); i++)
        if (k[i] % step == 0) mmvq_case(row, &(struct shape){7, most, k[i], 1, 1, 1, 1, i % 2, false});
    for (int64_t n = least; n <= most; n++) mmvq_case(row, &(struct shape){19, n, step, 1, 1, 1, 1, n % 2, false});
    mmvq_case(row,
              &(struct shape){5, most, step, 4, 3, 1, 3, true, false}); /* ratios that are not folded into columns */
    mmvq_case(row, &(struct shape){9, most, 2 * step, 3, 2, 1, 2, false, false});
    for (int i = 0; i < 16; i++)
        if (k[i % 10] % step == 0)
            gated_case(row, m[i % COUNT(m)], k[i % 10], i % 2 && least == 1 ? 3 : most, i % 2 && least == 1, i);
}

void drive_mmvf(const struct ingot_kernel *row) {
    drive_product(row, mmvf_case);
}

/* The same bits whatever the number of multiprocessors, and so of blocks, is. */
static void any_grid_case(const struct ingot_kernel *row, int64_t m, int64_t k) {
    ingot_context *ctx = check_context();
    const int before = ctx->info.sm_count, counts[] = {before, 1, 7, 200};
    struct op_case c = {.op = INGOT_OP_MUL_MAT,
                        .src = {filled((ingot_type)row->type, k, m, 1, 1, &packed),
                                filled(INGOT_TYPE_F32, k, row->tile, 1, 1, &packed)}};
    double *first = NULL;
    for (size_t i = 0; i < COUNT(counts); i++) {
        c.dst = tensor_new(INGOT_TYPE_F32, m, row->tile, 1, 1, &packed);
        upload_all(&c);
        ctx->info.sm_count = counts[i];
        emit(&c, (int)c.op, NULL);
        ctx->info.sm_count = before;
        if (i == 0) {
            tensor_download(c.dst);
            first = tensor_values(c.dst);
        } else {
            check_result(c.dst, first, EXACT, "another number of multiprocessors");
        }
    }
    next_case();
}

/* What the streaming kernels take: rows of at least 512 bytes that start on 16 bytes.  m: less than a slot, odd, more rows
 * than the warps of all blocks take at once, around the number from where they share k otherwise; k: parts of a warp's
 * share, a share and a little more, several rounds. */
static void drive_mmvf_streaming(const struct ingot_kernel *row, int64_t longest) {
    const int64_t size = (int64_t)ingot_type_size((ingot_type)row->type), least = 512 / size, step = 16 / size;
    const int64_t m[] = {1, 2, 3, 31, 65, 127, 1030, 2048, 2049}, n[] = {1, row->tile - 1, row->tile};
    const int64_t k[] = {least,    least + step, 520,   576,          1024,  1024 + step,  2048, 2048 - step,
                         4096 + 8, 8200,         14336, 16384 - step, 16384, 16384 + step, 33024};
    for (size_t i = 0; i < COUNT(m); i++)
        mmvf_case(row, &(struct shape){m[i], row->tile, 576, 1, 1, 1, 1, i % 2, i % 4 > 1 ? 2 : 0});
    for (size_t i = 0; i < COUNT(k); i++)
        if (k[i] <= longest) mmvf_case(row, &(struct shape){7, row->tile, k[i], 1, 1, 1, 1, false, i % 2 ? 2 : 0});
    for (size_t i = 0; i < COUNT(n); i++)
        if (n[i] > 0) mmvf_case(row, &(struct shape){300, n[i], 2056, 1, 1, 1, 1, i % 2, i % 2 ? 2 : 0});
    mmvf_case(row, &(struct shape){2100, row->tile, 4096, 1, 1, 1, 1, true, 0});
    /* A matrix repeated over dimension 2 may become one with more columns. */
    const int64_t repeat = row->tile < 3 ? row->tile : 3;
    mmvf_case(row, &(struct shape){5, row->tile, 264, 2 * repeat, 3, repeat, 1, true, 2});
    mmvf_case(row, &(struct shape){9, row->tile, 320, 3, 2, 1, 2, false, 0});
    mmvf_case(row, &(struct shape){67, 1, 256, 2 * repeat, 4, repeat, 2, true, 2});
    any_grid_case(row, 259, 2064);
    any_grid_case(row, 3000, 1032);
    for (int i = 0; i < 12; i++) {
        const int64_t wanted = k[3 + (size_t)i % 7];
        gated_case(row, m[i / 2], wanted, i % 2 ? 3 : (int64_t[]){row->tile, 1}[i / 2 % 2], i % 2, i);
    }
}

void drive_mmvf_ring(const struct ingot_kernel *row) {
    drive_mmvf_streaming(row, 16384);
}

void drive_mmvf_wide(const struct ingot_kernel *row) {
    drive_mmvf_streaming(row, INT64_MAX);
}
