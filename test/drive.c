// SPDX-License-Identifier: MIT
/* drive.c - see drive.h. */
#include "drive.h"

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
    if (row->family == INGOT_FAMILY_MMVQ && other->family == INGOT_FAMILY_MMQ) return true;
    return streams(other) && (streams(row) || row->family == INGOT_FAMILY_MMVQ || row->family == INGOT_FAMILY_MMVF);
}

bool only_begin(const struct ingot_kernel *row) {
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
        if (ingot_kernels[i].family != row->family && !rival(row, &ingot_kernels[i]))
            only.rows[count++] = ingot_kernels[i];
    ingot_table_fill(only.table, only.rows, count, build.archs, build.ptx, chip);
    only.row = row;
    only.launches = 0;
    only.saved_table = (struct ingot_table *)ctx->table;
    only.saved_blas = ctx->blas;
    ctx->table = only.table;
    ctx->blas = NULL;
    return ingot_find_exact(only.table, (enum ingot_family)row->family, (ingot_type)row->type, row->tile) != NULL;
}

int only_end(void **state) {
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

void emit(const struct op_case *c, int op, const struct extras *extra) {
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

void upload_all(const struct op_case *c) {
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    if (c->dst) tensor_upload(c->dst);
}

void check_row(const struct op_case *c, double nmse) {
    const double *ref = case_reference(c);
    upload_all(c);
    emit(c, (int)c->op, NULL);
    check_result(c->dst, ref, nmse, case_text(c));
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i] && c->src[i]->buffer != c->dst->buffer) check_unchanged(c->src[i], case_text(c));
}

void next_case(void) {
    CHECK_OK(ingot_synchronize(check_context()));
    check_release();
}

struct tensor *filled(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, const struct layout *how) {
    struct tensor *t = tensor_new(type, ne0, ne1, ne2, ne3, how);
    tensor_fill_random(t, -2.0, 2.0);
    return t;
}

/* ============================================ Activations in 8 bits =============================================== */

struct q8 q8_new(int64_t k, int64_t columns) {
    struct q8 q = {.qs = tensor_new(INGOT_TYPE_I8, k * columns, 1, 1, 1, NULL),
                   .scales = tensor_new(INGOT_TYPE_F32, 2, k / 32 * columns, 1, 1, NULL)};
    q.arg.qs = q.qs->t.data;
    q.arg.scales = q.scales->t.data;
    tensor_upload(q.qs);
    tensor_upload(q.scales);
    return q;
}

void q8_fill(struct q8 q, const double *x, int64_t k, int64_t columns) {
    float *d = check_alloc((size_t)(k / 32 * columns) * sizeof *d),
          *s = check_alloc((size_t)(k / 32 * columns) * sizeof *s);
    check_quantize_row(x, k * columns, (int8_t *)tensor_at(q.qs, 0, 0, 0, 0), d, s);
    for (int64_t b = 0; b < k / 32 * columns; b++) {
        memcpy(tensor_at(q.scales, 0, b, 0, 0), &d[b], 4);
        memcpy(tensor_at(q.scales, 1, b, 0, 0), &s[b], 4);
    }
}

void q8_check(struct q8 q, const double *x, int64_t k, int64_t columns, const char *what) {
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

void check_with_q8(const struct op_case *c, double nmse, const double *ref, struct extras extra, int64_t k) {
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
