// SPDX-License-Identifier: MIT
/* rules.c - the rules of every op: the table that check.c applies, and the few checks of params. */
#include "rules.h"

#include <math.h>

static ingot_status check_get_rows(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_set_rows(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_cpy(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_rms_norm(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_rope(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_glu(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_soft_max(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_mul_mat(ingot_context *ctx, const struct ingot_call *call);
static ingot_status check_attention(ingot_context *ctx, const struct ingot_call *call);

/* clang-format off */
const struct ingot_op_rule ingot_op_rules[INGOT_OP_INTERNAL_COUNT] = {
    /*                    name required sources in_place q8_out, types of src[0..3], dst, mul, add[0..1], up */
    [INGOT_OP_GET_ROWS]  = {"get_rows",  2, 2, 0, false, {TYPES_ANY, TYPES_I32, 0, 0, TYPES_F32 | TYPES_I32, 0, 0},
                            check_get_rows},
    [INGOT_OP_SET_ROWS]  = {"set_rows",  2, 2, 0, false, {TYPES_FLOAT | TYPES_BLOCK, TYPES_I32 | TYPES_I64, 0, 0,
                                                          TYPES_FLOAT | TYPES_BLOCK, 0, 0}, check_set_rows},
    [INGOT_OP_CPY]       = {"cpy",       1, 1, 0, false, {TYPES_ANY, 0, 0, 0, TYPES_ANY, 0, 0}, check_cpy},
    [INGOT_OP_ADD]       = {"add",       2, 2, 1, false, {TYPES_FLOAT, TYPES_FLOAT, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_MUL]       = {"mul",       2, 2, 1, false, {TYPES_FLOAT, TYPES_FLOAT, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_RMS_NORM]  = {"rms_norm",  1, 1, 1, true,  {TYPES_F32, 0, 0, 0, TYPES_F32, TYPES_F32, 0}, check_rms_norm},
    [INGOT_OP_ROPE]      = {"rope",      2, 3, 1, false, {TYPES_F32 | TYPES_F16, TYPES_I32, TYPES_F32, 0,
                                                          TYPES_F32 | TYPES_F16, 0, 0}, check_rope},
    [INGOT_OP_SILU]      = {"silu",      1, 1, 1, false, {TYPES_FLOAT, 0, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_RELU]      = {"relu",      1, 1, 1, false, {TYPES_FLOAT, 0, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_GELU]      = {"gelu",      1, 1, 1, false, {TYPES_FLOAT, 0, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_GELU_ERF]  = {"gelu_erf",  1, 1, 1, false, {TYPES_FLOAT, 0, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_GELU_QUICK] = {"gelu_quick", 1, 1, 1, false, {TYPES_FLOAT, 0, 0, 0, TYPES_FLOAT, 0, 0}, NULL},
    [INGOT_OP_GLU]       = {"glu",       1, 2, 3, true,  {TYPES_FLOAT, TYPES_FLOAT, 0, 0, TYPES_FLOAT, 0, 0},
                            check_glu},
    [INGOT_OP_SOFT_MAX]  = {"soft_max",  1, 2, 1, false, {TYPES_F32, TYPES_F32 | TYPES_F16, 0, 0, TYPES_F32, 0, 0},
                            check_soft_max},
    [INGOT_OP_MUL_MAT]   = {"mul_mat",   2, 2, 0, false, {TYPES_ANY, TYPES_FLOAT, 0, 0, TYPES_F32, 0, TYPES_F32,
                                                          TYPES_F32, TYPES_ANY}, check_mul_mat},
    [INGOT_OP_MUL_MAT_ID] = {"mul_mat_id", 3, 3, 0, false, {TYPES_ANY, TYPES_FLOAT, TYPES_I32, 0, TYPES_F32, 0,
                                                            TYPES_F32, TYPES_F32, TYPES_ANY}, check_mul_mat},
    [INGOT_OP_ATTENTION] = {"attention", 3, 4, 0, true,  {TYPES_F32, TYPES_F16, TYPES_F16, TYPES_I32, TYPES_F32, 0, 0},
                            check_attention},
    [INGOT_OP_QUANTIZE]  = {"quantize",  1, 1, 0, true,  {TYPES_FLOAT, 0, 0, 0, 0, 0, 0}, NULL},
};
/* clang-format on */

/* clang-format off */
#define SAME_SHAPE(op, slot, of)                                                                                       \
    {op, slot, 0, REL_SAME, of, 0}, {op, slot, 1, REL_SAME, of, 1}, {op, slot, 2, REL_SAME, of, 2},                    \
    {op, slot, 3, REL_SAME, of, 3}
#define REPEATED(op, slot, of)                                                                                         \
    {op, slot, 0, REL_DIVIDES, of, 0}, {op, slot, 1, REL_DIVIDES, of, 1}, {op, slot, 2, REL_DIVIDES, of, 2},           \
    {op, slot, 3, REL_DIVIDES, of, 3}
#define UNARY(op) SAME_SHAPE(op, SLOT_DST, SLOT_S0), {op, SLOT_DST, 0, REL_TYPE, SLOT_S0, 0}
#define ADDED(op, slot)                                                                                                \
    {op, slot, 0, REL_SAME, SLOT_DST, 0}, {op, slot, 1, REL_ONE_OR_SAME, SLOT_DST, 1},                                 \
    {op, slot, 2, REL_ONE_OR_SAME, SLOT_DST, 2}, {op, slot, 3, REL_ONE_OR_SAME, SLOT_DST, 3}
#define VECTOR(op, slot)                                                                                               \
    {op, slot, 1, REL_ONE, slot, 0}, {op, slot, 2, REL_ONE, slot, 0}, {op, slot, 3, REL_ONE, slot, 0}
/* clang-format on */

const struct ingot_shape_rule ingot_shape_rules[] = {
    {INGOT_OP_GET_ROWS, SLOT_S1, 1, REL_SAME, SLOT_S0, 2},
    {INGOT_OP_GET_ROWS, SLOT_S1, 2, REL_SAME, SLOT_S0, 3},
    {INGOT_OP_GET_ROWS, SLOT_S1, 3, REL_ONE, SLOT_S1, 0},
    {INGOT_OP_GET_ROWS, SLOT_DST, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_GET_ROWS, SLOT_DST, 1, REL_SAME, SLOT_S1, 0},
    {INGOT_OP_GET_ROWS, SLOT_DST, 2, REL_SAME, SLOT_S1, 1},
    {INGOT_OP_GET_ROWS, SLOT_DST, 3, REL_SAME, SLOT_S1, 2},

    {INGOT_OP_SET_ROWS, SLOT_S1, 0, REL_SAME, SLOT_S0, 1},
    {INGOT_OP_SET_ROWS, SLOT_S1, 1, REL_DIVIDES, SLOT_S0, 2},
    {INGOT_OP_SET_ROWS, SLOT_S1, 2, REL_DIVIDES, SLOT_S0, 3},
    {INGOT_OP_SET_ROWS, SLOT_S1, 3, REL_ONE, SLOT_S1, 0},
    {INGOT_OP_SET_ROWS, SLOT_DST, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_SET_ROWS, SLOT_DST, 2, REL_SAME, SLOT_S0, 2},
    {INGOT_OP_SET_ROWS, SLOT_DST, 3, REL_SAME, SLOT_S0, 3},

    SAME_SHAPE(INGOT_OP_ADD, SLOT_DST, SLOT_S0),
    REPEATED(INGOT_OP_ADD, SLOT_S1, SLOT_S0),
    {INGOT_OP_ADD, SLOT_DST, 0, REL_TYPE, SLOT_S0, 0},
    {INGOT_OP_ADD, SLOT_S1, 0, REL_TYPE_OR_F32, SLOT_S0, 0},
    SAME_SHAPE(INGOT_OP_MUL, SLOT_DST, SLOT_S0),
    REPEATED(INGOT_OP_MUL, SLOT_S1, SLOT_S0),
    {INGOT_OP_MUL, SLOT_DST, 0, REL_TYPE, SLOT_S0, 0},
    {INGOT_OP_MUL, SLOT_S1, 0, REL_TYPE_OR_F32, SLOT_S0, 0},

    SAME_SHAPE(INGOT_OP_RMS_NORM, SLOT_DST, SLOT_S0),
    {INGOT_OP_RMS_NORM, SLOT_MUL, 0, REL_SAME, SLOT_S0, 0},
    VECTOR(INGOT_OP_RMS_NORM, SLOT_MUL),

    SAME_SHAPE(INGOT_OP_ROPE, SLOT_DST, SLOT_S0),
    {INGOT_OP_ROPE, SLOT_DST, 0, REL_TYPE, SLOT_S0, 0},
    {INGOT_OP_ROPE, SLOT_S1, 0, REL_SAME, SLOT_S0, 2},
    VECTOR(INGOT_OP_ROPE, SLOT_S1),
    VECTOR(INGOT_OP_ROPE, SLOT_S2),

    UNARY(INGOT_OP_SILU),
    UNARY(INGOT_OP_RELU),
    UNARY(INGOT_OP_GELU),
    UNARY(INGOT_OP_GELU_ERF),
    UNARY(INGOT_OP_GELU_QUICK),

    SAME_SHAPE(INGOT_OP_GLU, SLOT_S1, SLOT_S0),
    {INGOT_OP_GLU, SLOT_S1, 0, REL_TYPE, SLOT_S0, 0},
    {INGOT_OP_GLU, SLOT_DST, 0, REL_TYPE, SLOT_S0, 0},
    {INGOT_OP_GLU, SLOT_DST, 1, REL_SAME, SLOT_S0, 1},
    {INGOT_OP_GLU, SLOT_DST, 2, REL_SAME, SLOT_S0, 2},
    {INGOT_OP_GLU, SLOT_DST, 3, REL_SAME, SLOT_S0, 3},

    SAME_SHAPE(INGOT_OP_SOFT_MAX, SLOT_DST, SLOT_S0),
    {INGOT_OP_SOFT_MAX, SLOT_S1, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_SOFT_MAX, SLOT_S1, 1, REL_AT_LEAST, SLOT_S0, 1},
    {INGOT_OP_SOFT_MAX, SLOT_S1, 2, REL_DIVIDES, SLOT_S0, 2},
    {INGOT_OP_SOFT_MAX, SLOT_S1, 3, REL_DIVIDES, SLOT_S0, 3},

    {INGOT_OP_MUL_MAT, SLOT_S1, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_MUL_MAT, SLOT_S0, 2, REL_DIVIDES, SLOT_S1, 2},
    {INGOT_OP_MUL_MAT, SLOT_S0, 3, REL_DIVIDES, SLOT_S1, 3},
    {INGOT_OP_MUL_MAT, SLOT_DST, 1, REL_SAME, SLOT_S1, 1},
    {INGOT_OP_MUL_MAT, SLOT_DST, 2, REL_SAME, SLOT_S1, 2},
    {INGOT_OP_MUL_MAT, SLOT_DST, 3, REL_SAME, SLOT_S1, 3},
    ADDED(INGOT_OP_MUL_MAT, SLOT_ADD0),
    ADDED(INGOT_OP_MUL_MAT, SLOT_ADD1),
    SAME_SHAPE(INGOT_OP_MUL_MAT, SLOT_UP, SLOT_S0),
    {INGOT_OP_MUL_MAT, SLOT_UP, 0, REL_TYPE, SLOT_S0, 0},

    {INGOT_OP_MUL_MAT_ID, SLOT_S0, 3, REL_ONE, SLOT_S0, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_S1, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_S1, 1, REL_DIVIDES, SLOT_S2, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_S1, 2, REL_SAME, SLOT_S2, 1},
    {INGOT_OP_MUL_MAT_ID, SLOT_S1, 3, REL_ONE, SLOT_S1, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_S2, 2, REL_ONE, SLOT_S2, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_S2, 3, REL_ONE, SLOT_S2, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_DST, 1, REL_SAME, SLOT_S2, 0},
    {INGOT_OP_MUL_MAT_ID, SLOT_DST, 2, REL_SAME, SLOT_S2, 1},
    {INGOT_OP_MUL_MAT_ID, SLOT_DST, 3, REL_ONE, SLOT_DST, 0},
    ADDED(INGOT_OP_MUL_MAT_ID, SLOT_ADD0),
    ADDED(INGOT_OP_MUL_MAT_ID, SLOT_ADD1),
    SAME_SHAPE(INGOT_OP_MUL_MAT_ID, SLOT_UP, SLOT_S0),
    {INGOT_OP_MUL_MAT_ID, SLOT_UP, 0, REL_TYPE, SLOT_S0, 0},

    {INGOT_OP_ATTENTION, SLOT_S1, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_ATTENTION, SLOT_S1, 2, REL_DIVIDES, SLOT_S0, 2},
    {INGOT_OP_ATTENTION, SLOT_S1, 3, REL_SAME, SLOT_S0, 3},
    SAME_SHAPE(INGOT_OP_ATTENTION, SLOT_S2, SLOT_S1),
    {INGOT_OP_ATTENTION, SLOT_S2, 0, REL_TYPE, SLOT_S1, 0},
    {INGOT_OP_ATTENTION, SLOT_S3, 0, REL_ONE_OR_SAME, SLOT_S0, 3},
    VECTOR(INGOT_OP_ATTENTION, SLOT_S3),
    {INGOT_OP_ATTENTION, SLOT_DST, 0, REL_SAME, SLOT_S0, 0},
    {INGOT_OP_ATTENTION, SLOT_DST, 1, REL_SAME, SLOT_S0, 2},
    {INGOT_OP_ATTENTION, SLOT_DST, 2, REL_SAME, SLOT_S0, 1},
    {INGOT_OP_ATTENTION, SLOT_DST, 3, REL_SAME, SLOT_S0, 3},
};
const int ingot_shape_rule_count = (int)(sizeof(ingot_shape_rules) / sizeof(ingot_shape_rules[0]));

const char *ingot_call_name(int op) {
    if (op < 0 || op >= INGOT_OP_INTERNAL_COUNT || ingot_op_rules[op].name == NULL) return "?";
    return ingot_op_rules[op].name;
}

/* ---- Checks of one op each. */

static ingot_status check_get_rows(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *table = call->src[0], *dst = call->dst;
    ingot_type type = table->type == INGOT_TYPE_I32 ? INGOT_TYPE_I32 : INGOT_TYPE_F32;
    char a[96], b[96];

    if (dst->type == type) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "get_rows: dst %s has type %s, expected %s for src[0] %s",
                      ingot_describe(dst, a), ingot_type_name(dst->type), ingot_type_name(type),
                      ingot_describe(table, b));
}

/* Blocks are not rounded again to the blocks of another format, nor of their own. */
static ingot_status check_set_rows(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *rows = call->src[0], *dst = call->dst;
    char a[96], b[96];

    if (!ingot_is_block_type(rows->type) || ingot_is_float_type(dst->type)) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "set_rows: dst %s has type %s, expected f32, f16 or bf16 for src[0] %s",
                      ingot_describe(dst, a), ingot_type_name(dst->type), ingot_describe(rows, b));
}

static ingot_status check_cpy(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *src = call->src[0], *dst = call->dst;
    bool floats = ingot_is_float_type(src->type), blocks = ingot_is_block_type(src->type);
    char a[96], b[96];

    if (dst->type != src->type && !(floats && ingot_is_block_type(dst->type)) &&
        !((floats || blocks) && ingot_is_float_type(dst->type)))
        return ingot_fail(ctx, INGOT_ERR_INVALID, "cpy: dst %s has type %s, expected %s%s for src[0] %s",
                          ingot_describe(dst, a), ingot_type_name(dst->type),
                          floats ? "f32, f16, bf16 or a block format" : ingot_type_name(src->type),
                          blocks ? ", f32, f16 or bf16" : "", ingot_describe(src, b));
    if (ingot_tensor_elements(src) != ingot_tensor_elements(dst))
        return ingot_fail(ctx, INGOT_ERR_INVALID, "cpy: dst %s has %lld elements, expected %lld as in src[0] %s",
                          ingot_describe(dst, a), (long long)ingot_tensor_elements(dst),
                          (long long)ingot_tensor_elements(src), ingot_describe(src, b));
    return INGOT_OK;
}

static ingot_status check_rms_norm(ingot_context *ctx, const struct ingot_call *call) {
    float eps = call->params.params.rms_norm.eps;
    char a[96];

    if (isfinite(eps) && eps >= 0.0f) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "rms_norm of %s: eps is %g, expected a finite number of at least 0",
                      ingot_describe(call->src[0], a), (double)eps);
}

/* A number of rope's params that must lie above a bound. */
static ingot_status rope_above(ingot_context *ctx, const struct ingot_call *call, const char *name, double value,
                               double bound) {
    char a[96];

    if (isfinite(value) && value > bound) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "rope of %s: %s is %g, expected a finite number above %g",
                      ingot_describe(call->src[0], a), name, value, bound);
}

static ingot_status check_rope(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_rope_params *p = &call->params.params.rope;
    const ingot_tensor *x = call->src[0], *factors = call->src[2];
    bool yarn = p->ext_factor != 0.0f;
    ingot_status st = INGOT_OK;
    char a[96], b[96];

    if (p->mode != INGOT_ROPE_NORMAL && p->mode != INGOT_ROPE_NEOX)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "rope of %s: mode is %d, expected %d (normal) or %d (neox)",
                          ingot_describe(x, a), (int)p->mode, INGOT_ROPE_NORMAL, INGOT_ROPE_NEOX);
    if (p->n_dims < 2 || p->n_dims % 2 != 0 || (p->n_dims > x->ne[0] && x->ne[0] != 0))
        return ingot_fail(ctx, INGOT_ERR_INVALID, "rope of %s: n_dims is %d, expected an even number from 2 to ne[0]",
                          ingot_describe(x, a), (int)p->n_dims);
    if (factors != NULL && factors->ne[0] != p->n_dims / 2)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "rope of %s: src[2] %s has ne[0] %lld, expected %d (n_dims / 2)",
                          ingot_describe(x, a), ingot_describe(factors, b), (long long)factors->ne[0],
                          (int)p->n_dims / 2);
    INGOT_TRY(rope_above(ctx, call, "freq_base", p->freq_base, yarn ? 1.0 : 0.0), st, done);
    INGOT_TRY(rope_above(ctx, call, "freq_scale", p->freq_scale, 0.0), st, done);
    if (!isfinite(p->ext_factor) || p->ext_factor < 0.0f)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "rope of %s: ext_factor is %g, expected a finite number from 0 on",
                          ingot_describe(x, a), (double)p->ext_factor);
    INGOT_TRY(rope_above(ctx, call, "attn_factor", p->attn_factor, 0.0), st, done);
    if (yarn) {
        INGOT_TRY(rope_above(ctx, call, "n_ctx_orig", p->n_ctx_orig, 0.0), st, done);
        INGOT_TRY(rope_above(ctx, call, "beta_fast", p->beta_fast, 0.0), st, done);
        INGOT_TRY(rope_above(ctx, call, "beta_slow", p->beta_slow, 0.0), st, done);
    }
done:
    return st;
}

static ingot_status check_glu_params(ingot_context *ctx, const struct ingot_call *call, const ingot_glu_params *p) {
    char a[96];

    if ((unsigned)p->kind > INGOT_GLU_GEGLU_QUICK)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s of %s: glu kind is %d, expected %d (reglu) to %d (geglu_quick)",
                          ingot_call_name(call->op), ingot_describe(call->src[0], a), (int)p->kind, INGOT_GLU_REGLU,
                          INGOT_GLU_GEGLU_QUICK);
    if (p->kind != INGOT_GLU_SWIGLU_OAI || (isfinite(p->alpha) && p->limit >= 0.0f)) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID,
                      "%s of %s: alpha is %g and limit %g, expected a finite number and one of at least 0",
                      ingot_call_name(call->op), ingot_describe(call->src[0], a), (double)p->alpha, (double)p->limit);
}

static ingot_status check_glu(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *gate = call->src[0], *dst = call->dst;
    bool split = call->src[1] == NULL;
    int64_t width = split ? gate->ne[0] / 2 : gate->ne[0];
    char a[96], b[96];

    if (split && gate->ne[0] % 2 != 0)
        return ingot_fail(ctx, INGOT_ERR_INVALID,
                          "glu: src[0] %s has ne[0] %lld, expected an even number as "
                          "src[1] is absent",
                          ingot_describe(gate, a), (long long)gate->ne[0]);
    if (dst == NULL || dst->ne[0] == width) return check_glu_params(ctx, call, &call->params.params.glu);
    return ingot_fail(ctx, INGOT_ERR_INVALID, "glu: dst %s has ne[0] %lld, expected %lld, %s of src[0] %s",
                      ingot_describe(dst, a), (long long)dst->ne[0], (long long)width, split ? "half" : "the width",
                      ingot_describe(gate, b));
}

static ingot_status check_scale(ingot_context *ctx, const struct ingot_call *call, float scale) {
    char a[96];

    if (isfinite(scale)) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "%s of %s: scale is %g, expected a finite number",
                      ingot_call_name(call->op), ingot_describe(call->src[0], a), (double)scale);
}

static ingot_status check_soft_max(ingot_context *ctx, const struct ingot_call *call) {
    return check_scale(ctx, call, call->params.params.soft_max.scale);
}

static ingot_status check_attention(ingot_context *ctx, const struct ingot_call *call) {
    return check_scale(ctx, call, call->params.params.attention.scale);
}

/* What a gated product asks of its weights. */
static ingot_status check_gated(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *a = call->src[0], *up = call->up;
    bool same = true;
    char text[96];

    for (int i = 1; i < 4 && up != NULL; i++) same = same && (a->ne[i] == 1 || a->nb[i] == up->nb[i]);
    if (!same)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: up %s, expected the strides of src[0]",
                          ingot_call_name(call->op), ingot_describe(up, text));
    if (ingot_is_empty(a) || (up == NULL && a->ne[1] % 2 != 0))
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: gated with src[0] %s, expected weights, and two halves of rows",
                          ingot_call_name(call->op), ingot_describe(a, text));
    return check_glu_params(ctx, call, &call->glu);
}

static ingot_status check_mul_mat(ingot_context *ctx, const struct ingot_call *call) {
    ingot_prec prec = call->params.params.mul_mat.prec;
    bool halves = call->gated && call->up == NULL;
    int64_t rows = call->src[0]->ne[1] / (halves ? 2 : 1);
    ingot_status st = INGOT_OK;
    char a[96], b[96];

    if (call->dst->ne[0] != rows)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: dst %s has ne[0] %lld, expected %lld as %sne[1] of src[0] %s",
                          ingot_call_name(call->op), ingot_describe(call->dst, a), (long long)call->dst->ne[0],
                          (long long)rows, halves ? "half of " : "", ingot_describe(call->src[0], b));
    if (call->gated) INGOT_TRY(check_gated(ctx, call), st, done);
    if (prec == INGOT_PREC_DEFAULT || prec == INGOT_PREC_F32) return INGOT_OK;
    st = ingot_fail(ctx, INGOT_ERR_INVALID, "%s of %s with %s: prec is %d, expected %d (default) or %d (f32)",
                    ingot_call_name(call->op), ingot_describe(call->src[0], a), ingot_describe(call->src[1], b),
                    (int)prec, INGOT_PREC_DEFAULT, INGOT_PREC_F32);
done:
    return st;
}
