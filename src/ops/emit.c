// SPDX-License-Identifier: MIT
/* emit.c - the way of every call: check it, choose kernels, hand commands to the emitter.  ingot_compute is an emitter
 * that launches at once, ingot_supports one that drops what it gets. */
#include "emit.h"
#include "rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static ingot_emit_fn *const emit_fns[INGOT_OP_INTERNAL_COUNT] = {
    [INGOT_OP_GET_ROWS] = ingot_emit_get_rows,
    [INGOT_OP_SET_ROWS] = ingot_emit_set_rows,
    [INGOT_OP_CPY] = ingot_emit_cpy,
    [INGOT_OP_ADD] = ingot_emit_binary,
    [INGOT_OP_MUL] = ingot_emit_binary,
    [INGOT_OP_RMS_NORM] = ingot_emit_rms_norm,
    [INGOT_OP_ROPE] = ingot_emit_rope,
    [INGOT_OP_SILU] = ingot_emit_unary,
    [INGOT_OP_RELU] = ingot_emit_unary,
    [INGOT_OP_GELU] = ingot_emit_unary,
    [INGOT_OP_GELU_ERF] = ingot_emit_unary,
    [INGOT_OP_GELU_QUICK] = ingot_emit_unary,
    [INGOT_OP_GLU] = ingot_emit_glu,
    [INGOT_OP_SOFT_MAX] = ingot_emit_soft_max,
    [INGOT_OP_MUL_MAT] = ingot_emit_mul_mat,
    [INGOT_OP_MUL_MAT_ID] = ingot_emit_mul_mat,
    [INGOT_OP_ATTENTION] = ingot_emit_attention,
    [INGOT_OP_QUANTIZE] = ingot_emit_quantize,
};

/* Nothing to compute: an empty result, or (set_rows) no rows to write. */
static bool nothing_to_do(const struct ingot_call *call) {
    if (call->dst != NULL && ingot_is_empty(call->dst)) return true;
    if (call->dst == NULL || call->op == INGOT_OP_SET_ROWS) return ingot_is_empty(call->src[0]);
    return false;
}

ingot_status ingot_emit(struct ingot_emitter *em, const struct ingot_call *call) {
    ingot_status st = INGOT_OK;

    em->call = call;
    INGOT_TRY(ingot_check_call(em->ctx, call), st, done);
    if (!em->dry) INGOT_TRY(ingot_check_data(em->ctx, call), st, done);
    if (nothing_to_do(call)) goto done;
    INGOT_TRY(emit_fns[call->op](em, call), st, done);
done:
    em->call = NULL;
    return st;
}

ingot_status ingot_run_command(ingot_context *ctx, const struct ingot_command *command) {
    if (command->kind == INGOT_COMMAND_GEMM) return ingot_blas_gemm(ctx, &command->u.gemm);
    return ingot_launch(ctx, command->kernel, command->grid, command->u.args);
}

/* ---- Look-up. */

/* Why the table of this device has no such row. */
static void explain_hole(ingot_context *ctx, enum ingot_family family, ingot_type type, int64_t tile, char text[160]) {
    bool family_built = false, type_built = false;

    for (int i = 0; i < ingot_kernel_count; i++) {
        const struct ingot_kernel *k = &ingot_kernels[i];
        if (k->family == family && k->type == type && k->tile == tile) {
            snprintf(text, 160, "%.60s has no code for %.60s or does not fit it", k->symbol, ctx->info.name);
            return;
        }
        family_built |= k->family == family;
        type_built |= k->type == type;
    }
    snprintf(text, 160, "%s",
             !family_built ? "the family is not in this build"
             : !type_built ? "the type is not in this build"
                           : "there is no kernel for it");
}

ingot_status ingot_no_kernel(struct ingot_emitter *em, enum ingot_family family, ingot_type type, int64_t tile) {
    const struct ingot_call *call = em->call;
    char text[256], why[160], a[96];
    int at = 0;

    text[0] = '\0';
    for (int i = 0; i < INGOT_MAX_SRC && at < 200; i++)
        if (call->src[i] != NULL)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", at ? ", " : "",
                           ingot_type_name(call->src[i]->type));
    explain_hole(em->ctx, family, type, tile, why);
    return ingot_fail(em->ctx, INGOT_ERR_UNSUPPORTED, "%s of %s giving %s: no %s kernel for %s, tile %lld: %s",
                      ingot_call_name(call->op), text, call->dst != NULL ? ingot_describe(call->dst, a) : "q8",
                      ingot_family_name(family), ingot_type_name(type), (long long)tile, why);
}

ingot_status ingot_need_kernel(struct ingot_emitter *em, enum ingot_family family, ingot_type type, int64_t tile,
                               const struct ingot_kernel **out) {
    *out = ingot_find_exact(em->ctx->table, family, type, tile);
    return *out != NULL ? INGOT_OK : ingot_no_kernel(em, family, type, tile);
}

/* ---- Commands. */

/* What is computed, for the log: "mul_mat q4_K m=4096 n=1 k=4096". */
static const char *describe_call(const struct ingot_call *call, char text[128]) {
    const ingot_tensor *a = call->src[0], *t = call->dst != NULL ? call->dst : a;
    char shape[96];

    if (call->op == INGOT_OP_MUL_MAT || call->op == INGOT_OP_MUL_MAT_ID)
        snprintf(text, 128, "%s %s m=%lld n=%lld k=%lld", ingot_call_name(call->op), ingot_type_name(a->type),
                 (long long)a->ne[1], (long long)ingot_rows(t), (long long)a->ne[0]);
    else snprintf(text, 128, "%s %s", ingot_call_name(call->op), ingot_describe(t, shape));
    return text;
}

ingot_status ingot_emit_grid(struct ingot_emitter *em, const struct ingot_kernel *kernel, struct ingot_grid grid,
                             const void *args, size_t bytes) {
    struct ingot_command command = {.kind = INGOT_COMMAND_KERNEL, .kernel = kernel, .grid = grid};
    char text[128];

    assert(bytes <= INGOT_MAX_ARGS);
    if (grid.blocks > INT32_MAX)
        return ingot_fail(em->ctx, INGOT_ERR_UNSUPPORTED, "%s: %s needs more than 2^31-1 blocks",
                          describe_call(em->call, text), kernel->symbol);
    memcpy(command.u.args, args, bytes);
    if (!em->dry && em->ctx->log != NULL) ingot_log_choice(em->ctx, describe_call(em->call, text), kernel, grid.blocks);
    return em->push(em, &command);
}

ingot_status ingot_emit_kernel(struct ingot_emitter *em, const struct ingot_kernel *kernel, int64_t items,
                               int64_t groups, const void *args, size_t bytes) {
    int64_t unit = kernel->unit > 0 ? kernel->unit : 1;
    int64_t blocks = items / unit + (items % unit != 0);

    if (blocks == 0 || groups == 0) return INGOT_OK;
    blocks = blocks > INT32_MAX / groups ? INT64_MAX : blocks * groups;
    return ingot_emit_grid(em, kernel, (struct ingot_grid){.blocks = blocks}, args, bytes);
}

ingot_status ingot_emit_gemm(struct ingot_emitter *em, const struct ingot_gemm *gemm) {
    struct ingot_command command = {.kind = INGOT_COMMAND_GEMM};
    char text[128];

    command.u.gemm = *gemm;
    if (!em->dry && em->ctx->log != NULL)
        ingot_log(em->ctx, "%s -> cuBLASLt %s, %lld times m=%lld n=%lld", describe_call(em->call, text),
                  ingot_type_name(gemm->type), (long long)gemm->batch, (long long)gemm->m, (long long)gemm->n);
    return em->push(em, &command);
}

/* ---- Tensors. */

struct ingot_arg_tensor ingot_arg(const ingot_tensor *t) {
    struct ingot_arg_tensor arg = {NULL, {0}, {0}};

    if (t == NULL) return arg;
    arg.data = t->data;
    for (int i = 0; i < 4; i++) {
        arg.ne[i] = t->ne[i];
        arg.nb[i] = (int64_t)t->nb[i];
    }
    return arg;
}

ingot_tensor ingot_like(const ingot_tensor *src, ingot_type type) {
    ingot_tensor t = *src;

    t.type = type;
    t.data = NULL;
    t.nb[0] = ingot_type_size(type);
    t.nb[1] = t.nb[0] * (size_t)(t.ne[0] / ingot_type_block(type));
    t.nb[2] = t.nb[1] * (size_t)t.ne[1];
    t.nb[3] = t.nb[2] * (size_t)t.ne[2];
    return t;
}

int64_t ingot_rows(const ingot_tensor *t) {
    return t->ne[1] * t->ne[2] * t->ne[3];
}

/* ---- Level 1. */

/* Takes scratch from the context's pool and gives it back when the call is done: the pool is stream-ordered. */
struct launcher {
    struct ingot_emitter em;
    void *blocks[8];
    int count;
};

static ingot_status launcher_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    struct launcher *l = (struct launcher *)em; /* em is its first member */
    ingot_status st;

    assert(l->count < (int)(sizeof l->blocks / sizeof l->blocks[0]));
    st = ingot_pool_alloc(em->ctx, em->ctx->pool, bytes, out);
    if (st == INGOT_OK) l->blocks[l->count++] = *out;
    return st;
}

static ingot_status launcher_push(struct ingot_emitter *em, const struct ingot_command *command) {
    return ingot_run_command(em->ctx, command);
}

static ingot_status dry_scratch(struct ingot_emitter *em, size_t bytes, void **out) {
    (void)em;
    *out = bytes > 0 ? (void *)(uintptr_t)256 : NULL;
    return INGOT_OK;
}

static ingot_status dry_push(struct ingot_emitter *em, const struct ingot_command *command) {
    (void)em;
    (void)command;
    return INGOT_OK;
}

static ingot_status emit_node(struct ingot_emitter *em, const ingot_node *node, const char *caller) {
    struct ingot_call call;

    if (node == NULL) return ingot_fail(em->ctx, INGOT_ERR_INVALID, "%s: node is null", caller);
    if (node->op <= INGOT_OP_NONE || node->op >= INGOT_OP_COUNT)
        return ingot_fail(em->ctx, INGOT_ERR_INVALID, "%s: node has op %d, which is no op", caller, (int)node->op);
    memset(&call, 0, sizeof call);
    call.op = (int)node->op;
    call.dst = &node->dst;
    for (int i = 0; i < INGOT_MAX_SRC; i++) call.src[i] = node->src[i];
    call.params.params = node->params;
    return ingot_emit(em, &call);
}

ingot_status ingot_compute(ingot_context *ctx, const ingot_node *node) {
    struct launcher l = {{ctx, false, launcher_scratch, launcher_push, NULL}, {NULL}, 0};
    int previous = 0;
    ingot_status st = ingot_enter(ctx, &previous);

    if (st != INGOT_OK) return st;
    st = emit_node(&l.em, node, "ingot_compute");
    while (l.count > 0) ingot_pool_free(ctx->pool, l.blocks[--l.count]);
    ingot_leave(ctx, previous);
    return st;
}

ingot_status ingot_supports(ingot_context *ctx, const ingot_node *node) {
    struct ingot_emitter em = {ctx, true, dry_scratch, dry_push, NULL};
    int previous = 0;
    ingot_status st = ingot_enter(ctx, &previous);

    if (st != INGOT_OK) return st;
    st = emit_node(&em, node, "ingot_supports");
    ingot_leave(ctx, previous);
    return st;
}
