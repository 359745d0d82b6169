// SPDX-License-Identifier: MIT
/* report.h - the table for people and the JSON for bench/compare.py, row by row. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/cases.h"

struct bench_report {
    FILE *out, *json; /* json may be NULL */
    int rows, skipped;
    enum bench_op section; /* whose heading was printed last; BENCH_OPS: none's */
};

/* What a case took; 0 stands for what was not measured. */
struct bench_figures {
    double us;       /* of a launch; of a launch case: of a step */
    double chain_us; /* mmvq: with the rounding of its activations */
    double read_us;  /* the read kernel on the same bytes */
    double f16_us;   /* mmq: the same product with weights in f16 */
    double plain_us; /* launch: without programmatic dependent launch */
    int launches;    /* launch: of a step */
};

void bench_report_begin(struct bench_report *r, FILE *out, FILE *json, const ingot_device *dev);
void bench_report_row(struct bench_report *r, const struct bench_case *c, const struct bench_figures *f);
void bench_report_skip(struct bench_report *r, const struct bench_case *c, const char *why);
/* How many there were; ends the JSON. */
void bench_report_end(struct bench_report *r);

#endif
