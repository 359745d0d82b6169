// SPDX-License-Identifier: MIT
/* test_kernels.c - one test per row of the kernel table, named by its symbol.
 *
 * For the time of a test the context's look-up is one in which the row is the only one of its family, so that whatever
 * the op asks for, this kernel does it or the op says "unsupported" (or, where the row's family takes only part of a more
 * general one's calls, that one does it).  Calls go through ingot_emit with an emitter that
 * launches each command and counts those of the row: a test in which the row never ran fails. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "../src/ops/ops.h"
#include "ref.h"
#include "rounded.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const double EXACT = 0.0, F32_SUMS = 1e-10;

/* ============================================ One row, and only that ============================================== */

struct only {
    const struct ingot_kernel *row;
    struct ingot_kernel *rows; /* the row, then all rows of other families */
    struct ingot_table *table, *saved_table;
    struct ingot_blas *saved_blas;
    int launches; /* of the row */
};
static struct only only;

static bool streams(const struct ingot_kernel *row) {
    return row->family == INGOT_FAMILY_MMVQ_RING || row->family == INGOT_FAMILY_MMVQ_MMA ||
           row->family == INGOT_FAMILY_MMVF_RING || row->family == INGOT_FAMILY_MMVF_WIDE;
}

/* A row of a family that products might take in place of this row's. */
static bool rival(const struct ingot_kernel *row, const struct ingot_kernel *other) {
    return streams(other) && (streams(row) || row->family == INGOT_FAMILY_MMVQ || row->family == INGOT_FAMILY_MMVF);
}

/* False if the device has no code for the row. */
static bool only_begin(const struct ingot_kernel *row) {
    ingot_context *ctx = check_context();
    ingot_device device = check_device();
    ingot_build build = ingot_build_info();
    struct ingot_chip chip = {device.cc_major * 10 + device.cc_minor, device.shared_per_block, 0};
    int count = 0;
    if (device.simt) chip = (struct ingot_chip){row->arch, 227 * 1024, 0}; /* runs every class */
    only.rows = malloc(sizeof *only.rows * (size_t)(ingot_kernel_count + 1));
    only.table = malloc(ingot_table_bytes());
    if (!only.rows || !only.table) check_fail("out of host memory");
    only.rows[count++] = *row;
    for (int i = 0; i < ingot_kernel_count; i++)
        if (ingot_kernels[i].family != row->family && !rival(row, &ingot_kernels[i])) only.rows[count++] = ingot_kernels[i];
    ingot_table_fill(only.table, only.rows, count, build.archs, build.ptx, chip);
    only.row = row;
    only.launches = 0;
    only.saved_table = (struct ingot_table *)ctx->table;
    only.saved_blas = ctx->blas;
    ctx->table = only.table;
    ctx->blas = NULL;
    return ingot_find_exact(only.table, (enum ingot_family)row->family, (ingot_type)row->type, row->tile) != NULL;
}

static int only_end(void **state) {
    ingot_context *ctx = check_context();
    if (only.table) {
        (void)ingot_synchronize(ctx);
        ctx->table = only.saved_table;
        ctx->blas = only.saved_blas;
        free(only.table);
        free(only.rows);
    }
    memset(&only, 0, sizeof only);
    return check_teardown(state);
}

static ingot_status give_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    (void)em;
    struct tensor *t = tensor_new(INGOT_TYPE_I8, (int64_t)bytes, 1, 1, 1, NULL);
    tensor_upload(t); /* poison */
    *out = t->t.data;
    return INGOT_OK;
}

static ingot_status launch_command(struct ingot_emitter *em, const struct ingot_command *command) {
    if (command->kind == INGOT_COMMAND_KERNEL && strcmp(command->kernel->symbol, only.row->symbol) == 0)
        only.launches++;
    return ingot_run_command(em->ctx, command);
}

/* Extras that fusion adds to an op. */
struct extras {
    struct tensor *mul, *add, *up;
    bool gated;
    ingot_glu_params glu;
    struct ingot_arg_q8 q8_in, q8_out;
    bool no_dst;
};

static void emit(const struct op_case *c, int op, const struct extras *extra) {
    static const struct extras none;
    const struct extras *e = extra ? extra : &none;
    struct ingot_emitter em = {.ctx = check_context(), .scratch = give_scratch, .push = launch_command};
    struct ingot_call call = {.op = op,
                              .dst = e->no_dst ? NULL : &c->dst->t,
                              .mul = e->mul ? &e->mul->t : NULL,
                              .add = {e->add ? &e->add->t : NULL},
                              .gated = e->gated,
                              .up = e->up ? &e->up->t : NULL,
                              .glu = e->glu,
                              .q8_in = e->q8_in,
                              .q8_out = e->q8_out,
                              .have_q8_in = e->q8_in.qs != NULL,
                              .want_q8_out = e->q8_out.qs != NULL,
                              .params = c->node};
    for (int i = 0; i < INGOT_MAX_SRC; i++) call.src[i] = c->src[i] ? &c->src[i]->t : NULL;
    int before = only.launches;
    int previous;
    CHECK_OK(ingot_enter(check_context(), &previous));
    ingot_status st = ingot_emit(&em, &call);
    ingot_leave(check_context(), previous);
    if (st != INGOT_OK) check_fail("%s: %s: %s", case_text(c), ingot_status_name(st), ingot_error(check_context()));
    if (only.launches == before) check_fail("%s: ran without %s", case_text(c), only.row->symbol);
}

static void upload_all(const struct op_case *c) {
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    if (c->dst) tensor_upload(c->dst);
}

/* Runs the op and compares everything with float64. */
static void check_row(const struct op_case *c, double nmse) {
    const double *ref = case_reference(c);
    upload_all(c);
    emit(c, (int)c->op, NULL);
    check_result(c->dst, ref, nmse, case_text(c));
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i] && c->src[i]->buffer != c->dst->buffer) check_unchanged(c->src[i], case_text(c));
}

/* Frees a case's tensors but keeps the table. */
static void next_case(void) {
    CHECK_OK(ingot_synchronize(check_context()));
    check_release();
}

static const struct layout packed = {{0}, {0}, 0}, gapped = {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
                           swapped = {{1, 0, 2, 0}, {0, 2, 1, 3}, 0}, transposed = {{1, 2, 0, 0}, {1, 0, 2, 3}, 0};

static struct tensor *filled(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                             const struct layout *how) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, ne3, how);
    tensor_fill_random(t, -2.0, 2.0);
    return t;
}

/* ================================================= Copies ========================================================= */

static void drive_dequant(const struct ingot_kernel *row) {
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

static void drive_copy(const struct ingot_kernel *row) {
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
static void drive_move(const struct ingot_kernel *row) {
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

static void drive_get_rows(const struct ingot_kernel *row) {
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

static void drive_set_rows(const struct ingot_kernel *row) {
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

/* ================================================ Activations ===================================================== */

/* Device memory for q8 columns, with guards. */
struct q8 {
    struct tensor *qs, *scales;
    struct ingot_arg_q8 arg;
};

static struct q8 q8_new(int64_t k, int64_t columns) {
    struct q8 q = {.qs = tensor_new(INGOT_TYPE_I8, k * columns, 1, 1, 1, NULL),
                   .scales = tensor_new(INGOT_TYPE_F32, 2, k / 32 * columns, 1, 1, NULL)};
    q.arg.qs = q.qs->t.data;
    q.arg.scales = q.scales->t.data;
    tensor_upload(q.qs);
    tensor_upload(q.scales);
    return q;
}

/* Rounds `columns` rows of k numbers, as they lie one after the other, into the host images. */
static void q8_fill(struct q8 q, const double *x, int64_t k, int64_t columns) {
    float *d = check_alloc((size_t)(k / 32 * columns) * sizeof *d),
          *s = check_alloc((size_t)(k / 32 * columns) * sizeof *s);
    check_quantize_row(x, k * columns, (int8_t *)tensor_at(q.qs, 0, 0, 0, 0), d, s);
    for (int64_t b = 0; b < k / 32 * columns; b++) {
        memcpy(tensor_at(q.scales, 0, b, 0, 0), &d[b], 4);
        memcpy(tensor_at(q.scales, 1, b, 0, 0), &s[b], 4);
    }
}

/* The device's q8 columns must be those of x, bit for bit, with guards intact. */
static void q8_check(struct q8 q, const double *x, int64_t k, int64_t columns, const char *what) {
    struct tensor *expected_qs = tensor_new(INGOT_TYPE_I8, k * columns, 1, 1, 1, NULL);
    struct tensor *expected_scales = tensor_new(INGOT_TYPE_F32, 2, k / 32 * columns, 1, 1, NULL);
    q8_fill((struct q8){.qs = expected_qs, .scales = expected_scales}, x, k, columns);
    tensor_download(q.qs);
    tensor_download(q.scales);
    for (int64_t b = 0; b < k / 32 * columns; b++) {
        float d = (float)tensor_get(expected_scales, 0, b, 0, 0), s = (float)tensor_get(expected_scales, 1, b, 0, 0);
        float got_d = (float)tensor_get(q.scales, 0, b, 0, 0), got_s = (float)tensor_get(q.scales, 1, b, 0, 0);
        if (!(got_d == d)) check_fail("%s: block %lld: d is %.9g, expected %.9g", what, (long long)b, got_d, d);
        for (int64_t i = 0; i < 32; i++) {
            int8_t got = (int8_t)*tensor_at(q.qs, b * 32 + i, 0, 0, 0),
                   wanted = (int8_t)*tensor_at(expected_qs, b * 32 + i, 0, 0, 0);
            if (got != wanted)
                check_fail("%s: block %lld, element %lld: q is %d, expected %d (x %.9g, d %.9g)", what, (long long)b,
                           (long long)i, got, wanted, x[b * 32 + i], d);
        }
        if (!(got_s == s)) check_fail("%s: block %lld: s is %.9g, expected %.9g", what, (long long)b, got_s, s);
    }
    if (memcmp(q.qs->host, expected_qs->host, q.qs->bytes) ||
        memcmp(q.scales->host, expected_scales->host, q.scales->bytes))
        check_fail("%s: bytes around the q8 columns were changed", what);
}

static void drive_quantize(const struct ingot_kernel *row) {
    const int64_t k[] = {32, 64, 96, 576, 4128};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++) {
            const int64_t n = i % 2 ? 3 : 1, columns = n * 3 * 2;
            struct tensor *x = filled((ingot_type)row->type, k[i], n, 3, 2, how[l]);
            for (int64_t e = 0; e < 32; e++) {
                tensor_set(x, e, 0, 0, 0, 0.0);                                   /* no scale */
                tensor_set(x, e, 0, 1, 0, (double)(e % 9 - 4) * (e ? 0.5 : 127)); /* ties */
                tensor_set(x, e, 0, 2, 0, check_uniform(-6e4, 6e4));              /* large */
                tensor_set(x, e, 0, 0, 1,
                           check_uniform(-1, 1) * (row->type == INGOT_TYPE_F16 ? 1e-6 : 1e-25)); /* small */
                tensor_set(x, e, 0, 1, 1, e == 31 ? -127.0 : (double)e - 15.5);
            }
            struct q8 q = q8_new(k[i], columns);
            struct op_case c = {.op = INGOT_OP_CPY, .src = {x}}; /* op: for the text only */
            upload_all(&c);
            emit(&c, INGOT_OP_QUANTIZE, &(struct extras){.q8_out = q.arg, .no_dst = true});
            q8_check(q, tensor_values(x), k[i], columns, case_text(&c));
            check_unchanged(x, case_text(&c));
            next_case();
        }
}

/* Runs a case once with dst and q8, once with q8 alone: dst as the reference says, q8 that of dst, both times. */
static void check_with_q8(const struct op_case *c, double nmse, const double *ref, struct extras extra, int64_t k) {
    const int64_t columns = ingot_tensor_elements(&c->dst->t) / k;
    struct q8 q = q8_new(k, columns), alone = q8_new(k, columns);
    extra.q8_out = q.arg;
    upload_all(c);
    emit(c, (int)c->op, &extra);
    check_result(c->dst, ref, nmse, case_text(c));
    const double *x = tensor_values(c->dst);
    q8_check(q, x, k, columns, case_text(c));
    extra.q8_out = alone.arg;
    extra.no_dst = true;
    tensor_poison(c->dst);
    tensor_upload(c->dst);
    emit(c, (int)c->op, &extra);
    q8_check(alone, x, k, columns, "q8 alone");
    check_unchanged(c->dst, "q8 alone");
}

static void drive_rms_norm(const struct ingot_kernel *row) {
    const int64_t k[] = {1, 31, 32, 33, 96, 576, 1536, 4096, 4128, 5003, 9216};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    (void)row;
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++) {
            struct op_case c = {.op = INGOT_OP_RMS_NORM, .src = {filled(INGOT_TYPE_F32, k[i], 3, 2, 1, how[l])}};
            c.node.params.rms_norm.eps = 1e-5f;
            c.dst = tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 1, how[(l + i) % 4]);
            check_row(&c, F32_SUMS);
            /* Multiplied with a row. */
            struct tensor *weight = filled(INGOT_TYPE_F32, k[i], 1, 1, 1, NULL);
            double *ref = case_reference(&c);
            for (int64_t e = 0; e < k[i] * 6; e++) ref[e] *= tensor_get(weight, e % k[i], 0, 0, 0);
            tensor_upload(weight);
            tensor_poison(c.dst);
            upload_all(&c);
            emit(&c, (int)c.op, &(struct extras){.mul = weight});
            check_result(c.dst, ref, F32_SUMS, "norm times a row");
            check_unchanged(weight, "norm times a row");
            if (k[i] % 32 == 0) {
                tensor_poison(c.dst);
                check_with_q8(&c, F32_SUMS, ref, (struct extras){.mul = weight}, k[i]);
                tensor_poison(c.dst);
                check_with_q8(&c, F32_SUMS, case_reference(&c), (struct extras){0}, k[i]);
            }
            next_case();
        }
}

/* =============================================== Element-wise ===================================================== */

static void drive_binary(const struct ingot_kernel *row) {
    const int64_t n[] = {1, 7, 8, 32, 65, 1030},
                  b[][4] = {{0, 5, 4, 2}, {0, 1, 1, 1}, {1, 1, 1, 1}, {1, 5, 2, 1}, {0, 5, 1, 2}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t s = 0; s < COUNT(b); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const size_t l = i + s;
                struct op_case c = {.op = row->family == INGOT_FAMILY_ADD ? INGOT_OP_ADD : INGOT_OP_MUL};
                c.src[0] = filled(type, n[i], 5, 4, 2, how[l % 4]);
                c.src[1] = filled((ingot_type)row->tile, b[s][0] ? b[s][0] : n[i], b[s][1], b[s][2], b[s][3],
                                  how[(l + 1) % 4]);
                c.dst = in_place ? c.src[0] : tensor_new(type, n[i], 5, 4, 2, how[(l / 2) % 4]);
                check_row(&c, type == INGOT_TYPE_F32 ? EXACT : 1e-4);
                next_case();
            }
}

static void drive_unary(const struct ingot_kernel *row) {
    const int64_t n[] = {1, 7, 8, 33, 64, 1030};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < 4; l++) {
            struct tensor *x = tensor_new((ingot_type)row->type, n[i], 5, 3, 2, how[l]);
            tensor_fill_random(x, -15.0, 15.0);
            tensor_set(x, 0, 0, 0, 0, -200.0), tensor_set(x, 0, 1, 0, 0, 200.0);
            struct op_case c = {.op = (ingot_op)(INGOT_OP_SILU + (i + l) % 5), .src = {x}};
            c.dst = i % 2 ? x : tensor_new((ingot_type)row->type, n[i], 5, 3, 2, how[(l + i) % 4]);
            check_row(&c, F32_SUMS);
            next_case();
        }
}

static void drive_glu(const struct ingot_kernel *row) {
    int kind = 0;
    const int64_t n[] = {1, 7, 32, 33, 64, 1536};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(n); i++)
        for (size_t l = 0; l < 4; l++)
            for (int split = 0; split < 2; split++) {
                struct op_case c = {.op = INGOT_OP_GLU,
                                    .src = {filled(type, split ? 2 * n[i] : n[i], 3, 2, 2, how[l])}};
                if (!split) c.src[1] = filled(type, n[i], 3, 2, 2, how[(l + 1) % 4]);
                c.node.params.glu = (ingot_glu_params){(ingot_glu_kind)(kind++ % 6), 1.702f, 1.5f};
                c.dst = tensor_new(type, n[i], 3, 2, 2, how[(l + i) % 4]);
                check_row(&c, F32_SUMS);
                if (type == INGOT_TYPE_F32 && n[i] % 32 == 0) {
                    tensor_poison(c.dst);
                    check_with_q8(&c, F32_SUMS, case_reference(&c), (struct extras){0}, n[i]);
                }
                next_case();
            }
}

static void drive_rope(const struct ingot_kernel *row) {
    const int d[][2] = {{2, 2}, {33, 20}, {64, 64}, {128, 64}, {80, 80}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    const ingot_type type = (ingot_type)row->type;
    for (size_t i = 0; i < COUNT(d); i++)
        for (size_t l = 0; l < 4; l++)
            for (int variant = 0; variant < 4; variant++) {
                struct op_case c = {.op = INGOT_OP_ROPE, .src = {filled(type, d[i][0], 3, 4, 2, how[l])}};
                c.src[1] = tensor_new(INGOT_TYPE_I32, 4, 1, 1, 1, how[l]);
                tensor_fill_random(c.src[1], 0.0, 90.0);
                if (variant == 3) {
                    c.src[2] = tensor_new(INGOT_TYPE_F32, d[i][1] / 2, 1, 1, 1, NULL);
                    tensor_fill_random(c.src[2], 1.0, 4.0);
                }
                c.node.params.rope = (ingot_rope_params){.mode = variant % 2 ? INGOT_ROPE_NEOX : INGOT_ROPE_NORMAL,
                                                         .n_dims = d[i][1],
                                                         .n_ctx_orig = 2048,
                                                         .freq_base = 10000.0f,
                                                         .freq_scale = variant == 2 ? 0.25f : 1.0f,
                                                         .ext_factor = variant == 2 ? 1.0f : 0.0f,
                                                         .attn_factor = variant == 1 ? 1.25f : 1.0f,
                                                         .beta_fast = 32.0f,
                                                         .beta_slow = 1.0f};
                c.dst = l % 2 ? c.src[0] : tensor_new(type, d[i][0], 3, 4, 2, how[(l + i) % 4]);
                check_row(&c, F32_SUMS);
                next_case();
            }
}

static void drive_soft_max(const struct ingot_kernel *row) {
    const int64_t k[] = {1, 3, 32, 33, 577, 1030, 5001};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < 4; l++)
            for (int masked = row->tile != INGOT_TYPE_F32; masked < 2; masked++) {
                struct op_case c = {.op = INGOT_OP_SOFT_MAX,
                                    .src = {tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 2, how[l])}};
                tensor_fill_random(c.src[0], -30.0, 30.0);
                if (masked) {
                    c.src[1] = tensor_new((ingot_type)row->tile, k[i], 3 + (int64_t)(l % 2), 1 + (int64_t)(i % 2), 1,
                                          how[(l + 1) % 4]);
                    tensor_fill_random(c.src[1], -4.0, 0.0);
                    for (int64_t e = 0; e < k[i]; e++)
                        tensor_set(c.src[1], e, 1, 0, 0, -INFINITY); /* a row with nothing left */
                    tensor_set(c.src[1], k[i] - 1, 0, 0, 0, -INFINITY);
                    tensor_set(c.src[1], 0, 0, 0, 0, 0.0);
                }
                c.node.params.soft_max.scale = 0.37f;
                c.dst = i % 2 ? c.src[0] : tensor_new(INGOT_TYPE_F32, k[i], 3, 2, 2, how[(l + 2) % 4]);
                check_row(&c, F32_SUMS);
                next_case();
            }
}

/* ================================================= Products ======================================================= */

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
    if (check_random() % 4 == 0) tensor_fill(c.src[1], check_random() % 2 ? 1.0 : -1.0); /* the largest sums of integers */
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

static void drive_mmvq(const struct ingot_kernel *row) {
    drive_product(row, mmvq_case);
}

/* The streaming kernels take rows of whole units (64 columns, or slabs of 256) that start on 16 bytes. */
static void drive_stream(const struct ingot_kernel *row) {
    const ingot_type type = (ingot_type)row->type;
    const bool mma = row->family == INGOT_FAMILY_MMVQ_MMA;
    const int64_t block = ingot_type_block(type), size = (int64_t)ingot_type_size(type);
    int64_t step = mma || block > 64 ? 256 : 64;
    while (step / block * size % 16 != 0) step *= 2;
    /* Where lanes, warps and rounds change: 512 and 1024, 2048, 4096 (slabs and warps), 16 warps and more. */
    const int64_t k[] = {step,         2 * step, 3 * step,       512,           1024,         2048,
                         2048 + step,  4096,     4096 + step,    8192 - step,   14336,        16384,
                         16384 + step, 32768 - step};
    const int64_t m[] = {1, 2, 3, 15, 16, 17, 31, 33, 65, 127, 300};
    const int64_t least = mma ? 3 : row->tile == 1 ? 1 : 2, most = row->tile;
    for (size_t i = 0; i < COUNT(m); i++)
        mmvq_case(row, &(struct shape){m[i], most, 2 * step, 1, 1, 1, 1, i % 2, false});
    for (size_t i = 0; i < COUNT(k); i++)
        if (k[i] % step == 0) mmvq_case(row, &(struct shape){7, most, k[i], 1, 1, 1, 1, i % 2, false});
    for (int64_t n = least; n <= most; n++) mmvq_case(row, &(struct shape){19, n, step, 1, 1, 1, 1, n % 2, false});
    mmvq_case(row, &(struct shape){5, most, step, 4, 3, 1, 3, true, false}); /* ratios that are not folded into columns */
    mmvq_case(row, &(struct shape){9, most, 2 * step, 3, 2, 1, 2, false, false});
    for (int i = 0; i < 16; i++)
        if (k[i % 10] % step == 0)
            gated_case(row, m[i % COUNT(m)], k[i % 10], i % 2 && least == 1 ? 3 : most, i % 2 && least == 1, i);
}

static void drive_mmvf(const struct ingot_kernel *row) {
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
    const int64_t k[] = {least,       least + step, 520,  576,   1024,         1024 + step, 2048,        2048 - step,
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

static void drive_mmvf_ring(const struct ingot_kernel *row) {
    drive_mmvf_streaming(row, 16384);
}

static void drive_mmvf_wide(const struct ingot_kernel *row) {
    drive_mmvf_streaming(row, INT64_MAX);
}

/* ================================================= Attention ====================================================== */

static void drive_attention(const struct ingot_kernel *row) {
    const int64_t head = row->tile, d[] = {head, head - 8, head / 2 + 8, 8, head - 1};
    const int64_t keys[] = {1, 31, 33, 65, 257}, heads[][2] = {{1, 1}, {2, 1}, {6, 2}, {9, 3}};
    const struct layout *how[] = {&packed, &gapped, &swapped, &transposed};
    for (size_t i = 0; i < COUNT(d); i++)
        for (size_t s = 0; s < COUNT(keys); s++) {
            const int64_t *h = heads[(i + s) % COUNT(heads)], n_q = 1 + (int64_t)(s % 3);
            struct op_case c = {.op = INGOT_OP_ATTENTION};
            c.src[0] = filled(INGOT_TYPE_F32, d[i], n_q, h[0], 2, how[s % 4]);
            c.src[1] = filled((ingot_type)row->type, d[i], keys[s], h[1], 2, how[(s + i) % 4]);
            c.src[2] = filled((ingot_type)row->type, d[i], keys[s], h[1], 2, how[i % 4]);
            c.dst = tensor_new(INGOT_TYPE_F32, d[i], h[0], n_q, 2, how[(s + 1) % 4]);
            c.node.params.attention.scale = (float)(1.0 / sqrt((double)d[i]));
            c.node.params.attention.causal = (int)((i + s) % 2);
            if (s % 2) {
                c.src[3] = tensor_new(INGOT_TYPE_I32, i % 2 ? 2 : 1, 1, 1, 1, NULL);
                tensor_fill_random(c.src[3], 0.0, (double)keys[s] + 3.0);
            }
            check_row(&c, 1e-6);
            if (d[i] % 32 == 0) { /* column (i, b) holds all heads: rows of dst are h*d long */
                tensor_poison(c.dst);
                check_with_q8(&c, 1e-6, case_reference(&c), (struct extras){0}, d[i] * h[0]);
            }
            next_case();
        }
}

/* ================================================== The table ===================================================== */

typedef void driver(const struct ingot_kernel *row);
static driver *const drivers[INGOT_FAMILY_COUNT] = {
    [INGOT_FAMILY_DEQUANT] = drive_dequant,   [INGOT_FAMILY_COPY] = drive_copy,
    [INGOT_FAMILY_MOVE] = drive_move,         [INGOT_FAMILY_QUANTIZE] = drive_quantize,
    [INGOT_FAMILY_MMVQ] = drive_mmvq,         [INGOT_FAMILY_MMVF] = drive_mmvf,
    [INGOT_FAMILY_MMVQ_RING] = drive_stream,  [INGOT_FAMILY_MMVQ_MMA] = drive_stream,
    [INGOT_FAMILY_MMVF_RING] = drive_mmvf_ring,
    [INGOT_FAMILY_MMVF_WIDE] = drive_mmvf_wide,
    [INGOT_FAMILY_GET_ROWS] = drive_get_rows, [INGOT_FAMILY_SET_ROWS] = drive_set_rows,
    [INGOT_FAMILY_ADD] = drive_binary,        [INGOT_FAMILY_MUL] = drive_binary,
    [INGOT_FAMILY_RMS_NORM] = drive_rms_norm, [INGOT_FAMILY_ROPE] = drive_rope,
    [INGOT_FAMILY_UNARY] = drive_unary,       [INGOT_FAMILY_GLU] = drive_glu,
    [INGOT_FAMILY_SOFT_MAX] = drive_soft_max, [INGOT_FAMILY_ATTN] = drive_attention,
};

static void test_row(void **state) {
    const struct ingot_kernel *row = *state;
    if (!drivers[row->family])
        check_fail("%s: family %s has no driver in this file", row->symbol,
                   ingot_family_name((enum ingot_family)row->family));
    if (!only_begin(row)) {
        print_message("%s: this device has no code for it\n", row->symbol);
        skip();
    }
    drivers[row->family](row);
}

int main(void) {
    struct CMUnitTest *tests = calloc((size_t)ingot_kernel_count + 1, sizeof *tests);
    if (!tests) return 1;
    for (int i = 0; i < ingot_kernel_count; i++)
        tests[i] = (struct CMUnitTest){ingot_kernels[i].symbol, test_row, NULL, only_end, (void *)&ingot_kernels[i]};
    if (ingot_kernel_count == 0) fprintf(stderr, "the build has no kernels\n");
    int failed = ingot_kernel_count ? check_main("kernels", tests, (size_t)ingot_kernel_count) : 1;
    free(tests);
    return failed;
}
