// SPDX-License-Identifier: MIT
/* drive.h - what the drivers of test_kernels.c share.  A driver runs one row of the kernel table through the shapes,
 * layouts and extras that its family takes.
 *
 * For the time of a test the context's look-up is one in which the row is the only one of its family, so that whatever
 * the op asks for, this kernel does it or the op says "unsupported" (or, where the row's family takes only part of a more
 * general one's calls, that one does it).  Calls go through ingot_emit with an emitter that launches each command and
 * counts those of the row: a test in which the row never ran fails. */
#ifndef INGOT_TEST_DRIVE_H
#define INGOT_TEST_DRIVE_H

#include "../src/ops/ops.h"
#include "cases.h"

/* Puts the row alone into the context's table.  False if the device has no code for it. */
bool only_begin(const struct ingot_kernel *row);
/* A test's teardown. */
int  only_end(void **state);

/* ---- calls */

/* Extras that fusion adds to an op. */
struct extras {
    struct tensor      *mul, *add, *up;
    bool                gated;
    ingot_glu_params    glu;
    struct ingot_arg_q8 q8_in, q8_out;
    bool                no_dst;
};

/* Runs `op` on the case's tensors, as they were uploaded; fails unless the row was launched.  extra may be NULL. */
void emit(const struct op_case *c, int op, const struct extras *extra);
void upload_all(const struct op_case *c);
/* Runs the op and compares everything with float64. */
void check_row(const struct op_case *c, double nmse);
/* Frees a case's tensors but keeps the table. */
void next_case(void);

static const struct layout packed = {{0}, {0}, 0}, gapped = {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
                           swapped = {{1, 0, 2, 0}, {0, 2, 1, 3}, 0}, transposed = {{1, 2, 0, 0}, {1, 0, 2, 3}, 0};

/* A tensor of random data between -2 and 2. */
struct tensor *filled(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, const struct layout *how);

/* ---- activations in 8 bits */

/* Device memory for q8 columns, with guards. */
struct q8 {
    struct tensor      *qs, *scales;
    struct ingot_arg_q8 arg;
};
struct q8 q8_new(int64_t k, int64_t columns);
/* Rounds `columns` rows of k numbers, as they lie one after the other, into the host images. */
void q8_fill(struct q8 q, const double *x, int64_t k, int64_t columns);
/* Runs a case once with dst and q8, once with q8 alone: dst as the reference says, q8 that of dst, both times. */
void check_with_q8(const struct op_case *c, double nmse, const double *ref, struct extras extra, int64_t k);
/* The device's q8 columns must be those of x, bit for bit, with guards intact. */
void q8_check(struct q8 q, const double *x, int64_t k, int64_t columns, const char *what);

/* ---- drivers with files of their own */

typedef void driver(const struct ingot_kernel *row);
driver drive_dequant, drive_copy, drive_move, drive_get_rows, drive_set_rows;  /* drive_copies.c */
driver drive_mmvq, drive_mmq, drive_stream, drive_mmvf, drive_mmvf_ring, drive_mmvf_wide; /* drive_mmv.c */

#endif
