// SPDX-License-Identifier: MIT
/* rules.h - what each op asks of its tensors, as data.  check.c reads it; a new op is a new entry. */
#ifndef INGOT_RULES_H
#define INGOT_RULES_H

#include "ops.h"

/* The tensors of a call. */
enum ingot_slot { SLOT_S0, SLOT_S1, SLOT_S2, SLOT_S3, SLOT_DST, SLOT_MUL, SLOT_ADD0, SLOT_ADD1, SLOT_UP, SLOT_COUNT };

/* Sets of types. */
enum {
    TYPES_F32 = 1, TYPES_F16 = 2, TYPES_BF16 = 4, TYPES_I32 = 8, TYPES_I64 = 16, TYPES_BLOCK = 32, TYPES_OTHER = 64,
    TYPES_FLOAT = TYPES_F32 | TYPES_F16 | TYPES_BF16,
    TYPES_ANY   = 127
};

struct ingot_op_rule {
    const char   *name;
    unsigned char required;           /* src[0 .. required) must be given */
    unsigned char sources;            /* src[0 .. sources) may be given */
    unsigned char in_place;           /* bit i: dst may be exactly src[i] */
    bool          takes_q8_out;       /* can also round its result to q8, and may then lack dst */
    unsigned char types[SLOT_COUNT];  /* TYPES_ sets; 0: the op has no such tensor */
    /* Rules that no table row expresses: params, conditions on params.  NULL: none. */
    ingot_status (*also)(ingot_context *ctx, const struct ingot_call *call);
};

/* One relation of the dimension `dim` of tensor `slot` with dimension `of_dim` of tensor `of`.  Holds if either
 * tensor is absent. */
enum ingot_relation {
    REL_SAME,        /* equal */
    REL_DIVIDES,     /* divides it: the tensor is repeated */
    REL_AT_LEAST,    /* not less */
    REL_ONE,         /* is 1; `of` is not looked at */
    REL_ONE_OR_SAME, /* is 1 or equal */
    REL_TYPE,        /* the types are equal */
    REL_TYPE_OR_F32  /* the types are equal, or this one is f32 */
};
struct ingot_shape_rule {
    unsigned char op, slot, dim, relation, of, of_dim;
};

extern const struct ingot_op_rule    ingot_op_rules[INGOT_OP_INTERNAL_COUNT];
extern const struct ingot_shape_rule ingot_shape_rules[];
extern const int                     ingot_shape_rule_count;

/* Name of a public or internal op; "?" for others. */
const char *ingot_call_name(int op);
/* The tensor in a slot of a call, or NULL. */
const ingot_tensor *ingot_call_tensor(const struct ingot_call *call, enum ingot_slot slot);
const char         *ingot_slot_name(enum ingot_slot slot);

/* What has to do with memory, checked when data pointers are known: null, alignment, overlap. */
ingot_status ingot_check_data(ingot_context *ctx, const struct ingot_call *call);

#endif
