// SPDX-License-Identifier: MIT
/* report.c - see report.h. */
#include "bench/report.h"

#include <inttypes.h>

static void json_text(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') fprintf(to, "\\%c", c);
        else if (c < 0x20) fprintf(to, "\\u%04x", c);
        else fputc(c, to);
    }
    fputc('"', to);
}
static void json_number(FILE *to, const char *name, double value) {
    if (value > 0) fprintf(to, ", \"%s\": %.3f", name, value);
    else fprintf(to, ", \"%s\": null", name);
}

void bench_report_begin(struct bench_report *r, FILE *out, FILE *json, const ingot_device *dev) {
    const ingot_build build = ingot_build_info();
    *r = (struct bench_report){.out = out, .json = json, .section = BENCH_OPS};
    fprintf(out, "%s, %d SMs; ingot %s for \"%s\", PTX \"%s\"\n", dev->name, dev->sm_count, build.version, build.archs,
            build.ptx);
    if (!json) return;
    fprintf(json, "{\"device\": ");
    json_text(json, dev->name);
    fprintf(json, ", \"sm_count\": %d, \"compute_capability\": \"%d.%d\", \"ingot\": \"%s\",\n", dev->sm_count,
            dev->cc_major, dev->cc_minor, build.version);
    fprintf(json, " \"build\": {\"archs\": \"%s\", \"ptx\": \"%s\", \"types\": \"%s\", \"kernels\": %d},\n",
            build.archs, build.ptx, build.types, build.kernels);
    fprintf(json, " \"rows\": [");
}

static void heading(struct bench_report *r, enum bench_op op) {
    if (r->section == op) return;
    if (op == BENCH_LAUNCH)
        fprintf(r->out, "\n%-38s %9s %15s %9s %9s\n", "case, in a dependent chain", "us", "us without PDL", "saved",
                "launches");
    else if (op == BENCH_MMQ)
        fprintf(r->out, "\n%-38s %9s %9s %9s %9s %8s\n", "case", "us", "TFLOP/s", "read us", "f16 us", "us/f16");
    else if (r->section != BENCH_MMVQ && r->section != BENCH_DEQUANT)
        fprintf(r->out, "\n%-38s %9s %9s %9s %8s %8s\n", "case", "us", "chain us", "read us", "GB/s", "us/read");
    r->section = op;
}

/* How a row of the JSON begins, and its text that both kinds have. */
static void json_case(struct bench_report *r, const struct bench_case *c, int before) {
    fprintf(r->json, "%s\n  {\"case\": ", before ? "," : "");
    json_text(r->json, c->name);
    fprintf(r->json, ", \"op\": \"%s\", \"type\": ", bench_op_name(c->op));
    if (c->type == BENCH_NO_TYPE) fprintf(r->json, "null");
    else json_text(r->json, ingot_type_name((ingot_type)c->type));
    fprintf(r->json, ", \"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64 ", \"experts\": %" PRId64, c->m, c->k,
            c->n, c->experts);
}

void bench_report_row(struct bench_report *r, const struct bench_case *c, const struct bench_figures *f) {
    heading(r, c->op);
    fprintf(r->out, "%-38s %9.2f ", c->name, f->us);
    if (c->op == BENCH_LAUNCH) {
        fprintf(r->out, "%15.2f %9.2f %9d\n", f->plain_us, f->plain_us - f->us, f->launches);
    } else if (c->op == BENCH_MMQ) {
        fprintf(r->out, "%9.1f %9.1f ", 2.0 * (double)c->m * (double)c->k * (double)c->n / f->us / 1e6, f->read_us);
        if (f->f16_us > 0) fprintf(r->out, "%9.2f %8.2f\n", f->f16_us, f->us / f->f16_us);
        else fprintf(r->out, "%9s %8s\n", "-", "-");
    } else {
        if (f->chain_us > 0) fprintf(r->out, "%9.2f ", f->chain_us);
        else fprintf(r->out, "%9s ", "-");
        fprintf(r->out, "%9.2f %8.0f %8.2f\n", f->read_us, (double)c->bytes / f->us / 1e3, f->us / f->read_us);
    }
    fflush(r->out);
    if (r->json) {
        json_case(r, c, r->rows);
        json_number(r->json, "us", f->us);
        json_number(r->json, "chain_us", f->chain_us);
        json_number(r->json, "read_us", f->read_us);
        json_number(r->json, "f16_us", f->f16_us);
        json_number(r->json, "us_without_pdl", f->plain_us);
        fprintf(r->json, ", \"bytes\": %zu}", c->bytes);
    }
    r->rows++;
}

void bench_report_skip(struct bench_report *r, const struct bench_case *c, const char *why) {
    heading(r, c->op);
    fprintf(r->out, "%-38s skipped: %s\n", c->name, why);
    fflush(r->out);
    r->skipped++;
}

void bench_report_end(struct bench_report *r) {
    fprintf(r->out, "\n%d measured, %d skipped\n", r->rows, r->skipped);
    if (r->json) fprintf(r->json, "],\n \"skipped\": %d}\n", r->skipped);
}
