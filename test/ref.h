// SPDX-License-Identifier: MIT
/* ref.h - every op of the library in float64, slow and obvious, and the function that runs a case and checks it. */
#ifndef INGOT_TEST_REF_H
#define INGOT_TEST_REF_H

#include "check.h"

/* One call of an op.  Several places may name one tensor: that is the in-place form. */
struct op_case {
    ingot_op       op;
    struct tensor *dst;
    struct tensor *src[INGOT_MAX_SRC];
    ingot_node     node; /* only params is read */
    bool           rounded_b;  /* MUL_MAT: reference with B rounded to A's type (f16, bf16) */
};

/* The node that ingot_compute takes. */
ingot_node case_node(const struct op_case *c);

/* The result from the host images, contiguous in ne order.  Lives until the test ends. */
double *case_reference(const struct op_case *c);

/* act(g) * y. */
double ref_glu(const ingot_glu_params *params, double g, double y);
/* SILU, RELU, the GELUs. */
double ref_unary(ingot_op op, double x);

/* MUL_MAT, MUL_MAT_ID: how much smaller the result's power is than that of its terms, at least 1.  Rounding errs in proportion
 * to the terms; where few sums happen to come out near 0, NMSE would blame the kernel for it. */
double case_cancellation(const struct op_case *c, const double *ref);

/* Uploads the case's tensors (what a result holds before is the caller's choice: poison, or rows to be kept), runs it,
 * compares with the reference as check_result does, and checks that no source was changed. */
void case_check(const struct op_case *c, double nmse);

/* The same `times` over, with the same bits each time. */
void case_repeat(const struct op_case *c, int times);

/* "mul_mat dst .. src0 .. src1 ..". */
const char *case_text(const struct op_case *c);

#endif
