// SPDX-License-Identifier: MIT
/* cases.h - what the tests of the ops share: memory layouts, tensors of them, bounds. */
#ifndef INGOT_TEST_CASES_H
#define INGOT_TEST_CASES_H

#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { REPEATS = 20 }; /* runs that must give the same bits */

/* Bounds of NMSE. */
static const double EXACT = 0.0, F32_SUMS = 1e-10, Q8_ACTIVATIONS = 5e-4;
static const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};

/* Memory layouts that every op must honour: packed, gaps everywhere, rows and matrices swapped, transposed (elements of
 * a row apart), an address that is aligned to one element only. */
static const struct layout layouts[] = {
    {{0}, {0}, 0},
    {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
    {{1, 0, 2, 0}, {0, 2, 1, 3}, 0},
    {{1, 2, 0, 0}, {1, 0, 2, 3}, 0},
    {{1, 0, 0, 0}, {0, 1, 2, 3}, 4},
};
enum { PACKED, GAPPED, SWAPPED, TRANSPOSED, SHIFTED };

/* The layout with an offset of one element for a narrower type. */
static inline struct layout layout_for(ingot_type type, size_t which) {
    struct layout l = layouts[which];
    if (l.offset) l.offset = ingot_type_size(type);
    return l;
}

static inline struct tensor *new (ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t which) {
    struct layout l = layout_for(type, which);
    return tensor_new(type, ne0, ne1, ne2, ne3, &l);
}

static inline struct tensor *random_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                        size_t which) {
    struct tensor *t = new (type, ne0, ne1, ne2, ne3, which);
    tensor_fill_random(t, -2.0, 2.0);
    return t;
}

static inline struct op_case op2(ingot_op op, struct tensor *dst, struct tensor *a, struct tensor *b) {
    return (struct op_case){.op = op, .dst = dst, .src = {a, b}};
}

#endif
