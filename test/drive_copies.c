// SPDX-License-Identifier: MIT
/* drive_copies.c - drivers of the rows that copy: DEQUANT, COPY, MOVE, GET_ROWS, SET_ROWS. */
#include "drive.h"
#include "rounded.h"

void drive_dequant(const struct ingot_kernel *row) {
    const int64_t block = ingot_type_block((ingot_type)row->type);
    const int64_t blocks[] = {1, 2, 3, 5, 18};
    const struct layout *how[] = {&packed, &gapped, &swapped};
    for (size_t i = 0; i < COUNT(blocks); i++)
        for (size_t l = 0; l < 3; l++) {
            struct tensor *src = tensor_new((ingot_type)row->type, blocks[i] * block, l == 0 ? 1 : 3, l + 1, 2, how[l]);
            tensor_fill_wild(src);
            struct op_case c = {.op = INGOT_OP_CPY, .src = {src}};
            c.dst = tensor_new((ingot_type)row->tile, src->t.ne[0], src->t.ne[1], src->t.ne[2], src->t.ne[3],
                               how[(l + i) % 3]);
            check_row(&c, EXACT);
            next_case();
        }
    /* Enough for several thread blocks. */
    struct op_case c = {.op = INGOT_OP_CPY, .src = {tensor_new((ingot_type)row->type, 7 * block, 67, 1, 1, &gapped)}};
    tensor_fill_wild(c.src[0]);
    c.dst = tensor_new((ingot_type)row->tile, 7 * block, 67, 1, 1, &transposed);
    check_row(&c, EXACT);
}

void drive_copy(const struct ingot_kernel *row) {
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const int64_t n[] = {1, 2, 7, 8, 33, 64};
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < 16; l++) {
            struct op_case c = {.op = INGOT_OP_CPY,
                                .src = {tensor_new((ingot_type)row->type, n[i], 5, 3, 2, how[l / 4])}};
            tensor_fill_wild(c.src[0]);
            c.dst = tensor_new((ingot_type)row->tile, n[i], 5, 3, 2, how[l % 4]);
            check_row(&c, EXACT);
            next_case();
        }
    struct op_case c = {.op = INGOT_OP_CPY, .src = {filled((ingot_type)row->type, 12, 35, 1, 1, &gapped)}};
    c.dst = tensor_new((ingot_type)row->tile, 5, 7, 3, 4, &swapped); /* reshaped */
    check_row(&c, EXACT);
    c = (struct op_case){.op = INGOT_OP_CPY, .src = {filled((ingot_type)row->type, 4099, 5, 1, 1, &packed)}};
    c.dst = tensor_new((ingot_type)row->tile, 4099, 5, 1, 1, &packed);
    check_row(&c, EXACT);
}

/* A type whose units and layouts ask for pieces of just the row's width. */
void drive_move(const struct ingot_kernel *row) {
    static const struct {
        int piece;
        ingot_type type;
        int64_t units, gap; /* of a row, behind it */
        size_t offset;      /* units */
    } cases[] = {{16, INGOT_TYPE_F32, 64, 4, 0}, {16, INGOT_TYPE_Q4_0, 8, 0, 8}, {8, INGOT_TYPE_I64, 33, 1, 1},
                 {8, INGOT_TYPE_Q4_0, 4, 8, 4},  {4, INGOT_TYPE_I32, 33, 0, 1},  {4, INGOT_TYPE_Q4_1, 5, 1, 1},
                 {2, INGOT_TYPE_F16, 7, 1, 1},   {2, INGOT_TYPE_Q6_K, 3, 2, 1},  {1, INGOT_TYPE_I8, 5, 2, 3},
                 {1, INGOT_TYPE_MXFP4, 3, 2, 1}};
    int done = 0;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int rows = 1; rows < 1200 && cases[i].piece == row->tile; rows = rows * 11 + 1, done++) {
            const size_t size = ingot_type_size(cases[i].type);
            const struct layout how = {{cases[i].gap, 0, 0, 0}, {0, 1, 2, 3}, cases[i].offset * size};
            const int64_t k = cases[i].units * ingot_type_block(cases[i].type);
            struct op_case c = {.op = INGOT_OP_CPY, .src = {tensor_new(cases[i].type, k, rows, 1, 1, &how)}};
            c.dst = tensor_new(cases[i].type, k, rows, 1, 1, rows == 1 ? &how : NULL);
            for (size_t b = 0; b < c.src[0]->bytes; b++) c.src[0]->host[b] = (unsigned char)check_random();
            unsigned char *image = check_alloc(c.dst->bytes);
            memcpy(image, c.dst->host, c.dst->bytes);
            for (int64_t r = 0; r < rows; r++)
                memcpy(image + (tensor_at(c.dst, 0, r, 0, 0) - c.dst->host), tensor_at(c.src[0], 0, r, 0, 0),
                       (size_t)cases[i].units * size);
            upload_all(&c);
            emit(&c, INGOT_OP_CPY, NULL);
            tensor_download(c.dst);
            if (memcmp(c.dst->host, image, c.dst->bytes) != 0) check_fail("%s: wrong bytes", case_text(&c));
            next_case();
        }
    if (done == 0) check_fail("%s: no case for pieces of %d bytes", row->symbol, row->tile);
}

void drive_get_rows(const struct ingot_kernel *row) {
    const int64_t block = ingot_type_block((ingot_type)row->type);
    const int64_t k[] = {block, 3 * block, 577 / block * block, 4096 + block};
    const struct layout *how[] = {&packed, &gapped, &swapped};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 3; l++) {
            if (k[i] == 0) continue;
            struct tensor *ids = tensor_new(INGOT_TYPE_I32, 5, 2, 2, 1, how[l]);
            for (int64_t e = 0; e < 20; e++) tensor_set(ids, e % 5, e / 5 % 2, e / 10, 0, (double)check_range(0, 6));
            tensor_set(ids, 2, 1, 0, 0, -1), tensor_set(ids, 3, 0, 1, 0, 7); /* out of range: NaN */
            struct op_case c = {.op = INGOT_OP_GET_ROWS,
                                .src = {filled((ingot_type)row->type, k[i], 7, 2, 2, how[l]), ids}};
            c.dst = tensor_new(row->type == INGOT_TYPE_I32 ? INGOT_TYPE_I32 : INGOT_TYPE_F32, k[i], 5, 2, 2,
                               how[(l + 1) % 3]);
            tensor_fill(c.dst, 1.0); /* so that NaN (or -1) is written, not left */
            check_row(&c, EXACT);
            next_case();
        }
}

/* Rows rounded to a block format, by ids and (CPY) without. */
static void drive_set_rows_blocks(const struct ingot_kernel *row) {
    const int64_t blocks[] = {1, 2, 3, 19};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(blocks); i++)
        for (size_t l = 0; l < 8; l++) {
            const int64_t k = 32 * blocks[i];
            struct tensor *ids =
                l % 2 ? NULL : tensor_new(l % 4 ? INGOT_TYPE_I64 : INGOT_TYPE_I32, 6, 2, 1, 1, how[l / 2]);
            for (int64_t e = 0; ids && e < 12; e++)
                tensor_set(ids, e % 6, e / 6, 0, 0, (double)(e % 5 ? (e * 3 + e / 6) % 11 : e - 11)); /* some: none */
            struct op_case c = {.op = ids ? INGOT_OP_SET_ROWS : INGOT_OP_CPY,
                                .src = {tensor_new((ingot_type)row->tile, k, 6, 4, 2, how[l / 2]), ids}};
            c.dst = tensor_new((ingot_type)row->type, k, ids ? 11 : 6, 4, 2, how[(l / 2 + l) % 3]);
            unsigned char *image = rounded_rows(c.src[0], ids, c.dst, false);
            upload_all(&c);
            emit(&c, (int)c.op, NULL);
            rounded_check(c.dst, image, case_text(&c));
            check_unchanged(c.src[0], case_text(&c));
            next_case();
        }
}

void drive_set_rows(const struct ingot_kernel *row) {
    if (check_is_block((ingot_type)row->type)) {
        drive_set_rows_blocks(row);
        return;
    }
    const int64_t k[] = {1, 2, 3, 8, 33, 577};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++)
            for (int wide = 0; wide < 2; wide++) {
                struct tensor *ids = tensor_new(wide ? INGOT_TYPE_I64 : INGOT_TYPE_I32, 6, 2, 1, 1, how[l]);
                for (int64_t e = 0; e < 12; e++) tensor_set(ids, e % 6, e / 6, 0, 0, (double)((e * 3 + e / 6) % 11));
                tensor_set(ids, 0, 1, 0, 0, -1),
                    tensor_set(ids, 5, 0, 0, 0, wide ? 4294967296.0 : 11); /* write nothing */
                struct op_case c = {.op = INGOT_OP_SET_ROWS,
                                    .src = {filled(INGOT_TYPE_F32, k[i], 6, 4, 2, how[(l + 1) % 4]), ids}};
                c.dst = filled((ingot_type)row->type, k[i], 11, 4, 2, how[l]);
                check_row(&c, EXACT);
                next_case();
            }
}
