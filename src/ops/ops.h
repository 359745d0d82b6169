// SPDX-License-Identifier: MIT
/* ops.h - from an operation to launches: check, choose, emit.
 *
 * One function per op turns a call into commands.  Where they go is the emitter's business: ingot_compute launches them
 * at once, a graph's plan stores them, ingot_supports drops them.  So all three answer alike. */
#ifndef INGOT_OPS_H
#define INGOT_OPS_H

#include "../kernels/kernels.h"

/* Internal op numbers, behind the public ones. */
enum { INGOT_OP_QUANTIZE = INGOT_OP_COUNT /* src[0] float -> q8_out */, INGOT_OP_INTERNAL_COUNT };

/* An op with what fusion may add to it. */
struct ingot_call {
    int                 op;                  /* ingot_op or internal */
    const ingot_tensor *dst;                 /* NULL: only q8_out is wanted */
    const ingot_tensor *src[INGOT_MAX_SRC];  /* absent: NULL */
    const ingot_tensor *mul;                 /* RMS_NORM: multiply with this row, or NULL */
    /* MUL_MAT(_ID): added to the result, [0] first; NULL: nothing.  f32 of dst's shape; a dimension of 1 behind the
     * first is repeated.  Gated: [0] is added to the gate, [1] to up. */
    const ingot_tensor *add[2];
    /* MUL_MAT(_ID), gated: glu of two products.  src[0] has the gate's weights, `up` the other's, with the same shape
     * and strides; NULL: the first half of src[0]'s rows is the gate's, the rest is up's. */
    bool                gated;
    const ingot_tensor *up;
    ingot_glu_params    glu;
    struct ingot_arg_q8 q8_out;              /* QUANTIZE, RMS_NORM, GLU, ATTENTION: also round the result to q8 */
    struct ingot_arg_q8 q8_in;               /* MUL_MAT(_ID): src[1] already rounded; qs NULL: not yet */
    bool                want_q8_out, have_q8_in; /* the pointers above may still be NULL while measuring */
    bool                constant_weight;     /* MUL_MAT(_ID): nothing writes src[0] during the run */
    ingot_node          params;              /* only params.params is read */
};

#define INGOT_MAX_ARGS 512

struct ingot_command {
    enum { INGOT_COMMAND_KERNEL, INGOT_COMMAND_GEMM } kind;
    const struct ingot_kernel *kernel;
    struct ingot_grid          grid;
    union {
        unsigned char     args[INGOT_MAX_ARGS];
        struct ingot_gemm gemm;
    } u;
};

struct ingot_emitter {
    ingot_context *ctx;
    bool           dry;  /* data pointers are not there yet: check shapes and types only */
    /* Scratch that lives until the call's last command has run.  In a dry run any non-NULL pointer will do. */
    ingot_status (*scratch)(struct ingot_emitter *em, size_t bytes, void **out);
    ingot_status (*push)(struct ingot_emitter *em, const struct ingot_command *command);
    const struct ingot_call *call; /* the call being emitted, for texts; set by ingot_emit */
};

/* Checks the call, picks its kernels, pushes its commands.  The statuses of ingot_compute. */
ingot_status ingot_emit(struct ingot_emitter *em, const struct ingot_call *call);
/* Launches one command. */
ingot_status ingot_run_command(ingot_context *ctx, const struct ingot_command *command);

/* Shape, type and params rules of an op, without data: what ingot_emit checks first, what a graph checks at build
 * time.  Fails with a text that names the op, the shapes and what was expected. */
ingot_status ingot_check_call(ingot_context *ctx, const struct ingot_call *call);

/* Bytes of q8 columns for src [k, n, B, C] (k a multiple of 32): qs first, scales 16-aligned behind; `base` cut up. */
size_t              ingot_q8_bytes(const ingot_tensor *src);
struct ingot_arg_q8 ingot_q8_at(void *base, const ingot_tensor *src);

/* Of products, MUL_MAT and MUL_MAT_ID: */
/* True if this one would run on MMVQ and so wants q8_in. */
bool ingot_mul_mat_wants_q8(ingot_context *ctx, const struct ingot_call *call);
/* True if the product runs on a mat-vec kernel whatever is added to it. */
bool ingot_mul_mat_is_mat_vec(ingot_context *ctx, const struct ingot_call *call);
/* True if this one, which adds one tensor at most so far, can also add `add`. */
bool ingot_mul_mat_takes_add(ingot_context *ctx, const struct ingot_call *call, const ingot_tensor *add);
/* True if a GLU of these two can be one gated call (`up` NULL: a GLU of the halves of `gate`).  That they multiply the
 * same activations is the caller's business. */
bool ingot_mul_mat_takes_glu(ingot_context *ctx, const struct ingot_call *gate, const struct ingot_call *up);

#endif
