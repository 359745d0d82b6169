// SPDX-License-Identifier: MIT
/* check.c - applies the rules of rules.c to a call.  Nothing here knows an op by name; every failure names the op, the
 * tensors with their shapes and what was expected. */
#include "rules.h"

#include <stdio.h>

static const char *const slot_names[SLOT_COUNT] = {"src[0]", "src[1]", "src[2]", "src[3]", "dst",
                                                   "mul",    "add[0]", "add[1]", "up"};

const char *ingot_slot_name(enum ingot_slot slot) {
    return slot_names[slot];
}

const ingot_tensor *ingot_call_tensor(const struct ingot_call *call, enum ingot_slot slot) {
    if (slot == SLOT_DST) return call->dst;
    if (slot == SLOT_MUL) return call->mul;
    if (slot == SLOT_ADD0) return call->add[0];
    if (slot == SLOT_ADD1) return call->add[1];
    if (slot == SLOT_UP) return call->up;
    return call->src[slot];
}

/* ---- Types. */

static const struct {
    ingot_type type;
    unsigned set;
} plain_sets[] = {{INGOT_TYPE_F32, TYPES_F32},
                  {INGOT_TYPE_F16, TYPES_F16},
                  {INGOT_TYPE_BF16, TYPES_BF16},
                  {INGOT_TYPE_I32, TYPES_I32},
                  {INGOT_TYPE_I64, TYPES_I64}};
enum { PLAIN_SETS = sizeof(plain_sets) / sizeof(plain_sets[0]) };

static unsigned set_of(ingot_type type) {
    for (int i = 0; i < PLAIN_SETS; i++)
        if (plain_sets[i].type == type) return plain_sets[i].set;
    return ingot_is_block_type(type) ? TYPES_BLOCK : TYPES_OTHER;
}

/* "f32 or f16 or a block format" for a set of types. */
static const char *describe_set(unsigned set, char text[64]) {
    int at = 0;

    text[0] = '\0';
    for (int i = 0; i < PLAIN_SETS; i++)
        if (set & plain_sets[i].set)
            at += snprintf(text + at, 64 - (size_t)at, "%s%s", at ? " or " : "", ingot_type_name(plain_sets[i].type));
    if (set & TYPES_BLOCK) snprintf(text + at, 64 - (size_t)at, "%sa block format", at ? " or " : "");
    return text;
}

static ingot_status check_type(ingot_context *ctx, const struct ingot_call *call, enum ingot_slot slot) {
    const ingot_tensor *t = ingot_call_tensor(call, slot);
    unsigned set = ingot_op_rules[call->op].types[slot];
    const char *op = ingot_call_name(call->op);
    char a[96], b[64];

    if (ingot_type_block(t->type) <= 0)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s has type %d, which is no type", op, ingot_slot_name(slot),
                          (int)t->type);
    if (set & set_of(t->type)) return INGOT_OK;
    if (set == 0)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: has a %s %s, expected none", op, ingot_slot_name(slot),
                          ingot_describe(t, a));
    return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has type %s, expected %s", op, ingot_slot_name(slot),
                      ingot_describe(t, a), ingot_type_name(t->type), describe_set(set, b));
}

/* ---- One tensor by itself. */

static ingot_status check_dims(ingot_context *ctx, const struct ingot_call *call, enum ingot_slot slot) {
    const ingot_tensor *t = ingot_call_tensor(call, slot);
    int64_t block = ingot_type_block(t->type), elements = 1;
    const char *op = ingot_call_name(call->op), *name = ingot_slot_name(slot);
    char a[96];

    for (int i = 0; i < 4; i++)
        if (t->ne[i] < 0)
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has ne[%d] %lld, expected at least 0", op, name,
                              ingot_describe(t, a), i, (long long)t->ne[i]);
    if (t->ne[0] % block != 0)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has ne[0] %lld, expected a multiple of the block of %lld",
                          op, name, ingot_describe(t, a), (long long)t->ne[0], (long long)block);
    if (ingot_is_empty(t)) return INGOT_OK;
    for (int i = 0; i < 4; i++)
        if (!ingot_mul_size(elements, t->ne[i], &elements))
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has more than 2^63-1 elements", op, name,
                              ingot_describe(t, a));
    return INGOT_OK;
}

/* False if some element of the tensor may lie on another: in the order of the strides, each dimension must step over
 * all that lies inside it. */
static bool is_injective(const ingot_tensor *t) {
    size_t stride[4], inner = ingot_type_size(t->type);
    int64_t n[4];
    int count = 0;

    for (int i = 0; i < 4; i++) {
        int64_t ni = i == 0 ? t->ne[0] / ingot_type_block(t->type) : t->ne[i];
        int at;
        if (ni <= 1) continue;
        for (at = count++; at > 0 && stride[at - 1] > t->nb[i]; at--) {
            stride[at] = stride[at - 1];
            n[at] = n[at - 1];
        }
        stride[at] = t->nb[i];
        n[at] = ni;
    }
    for (int i = 0; i < count; i++) {
        if (stride[i] < inner) return false;
        inner += (size_t)(n[i] - 1) * stride[i];
    }
    return true;
}

static ingot_status check_strides(ingot_context *ctx, const struct ingot_call *call, enum ingot_slot slot) {
    const ingot_tensor *t = ingot_call_tensor(call, slot);
    size_t size = ingot_type_size(t->type), align = ingot_type_alignment(t->type);
    int64_t extent = (int64_t)size, block = ingot_type_block(t->type), reach;
    const char *op = ingot_call_name(call->op), *name = ingot_slot_name(slot);
    char a[96];

    if (ingot_is_empty(t)) return INGOT_OK;
    if (block > 1 && t->nb[0] != size)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has nb[0] %zu, expected the block's %zu bytes", op, name,
                          ingot_describe(t, a), t->nb[0], size);
    for (int i = 0; i < 4; i++) {
        int64_t n = i == 0 ? t->ne[0] / block : t->ne[i];
        if (n <= 1) continue; /* the stride is never used */
        if (t->nb[i] % align != 0)
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has nb[%d] %zu, expected a multiple of %zu", op, name,
                              ingot_describe(t, a), i, t->nb[i], align);
        if (t->nb[i] > INT64_MAX || !ingot_mul_size(n - 1, (int64_t)t->nb[i], &reach) ||
            !ingot_add_size(extent, reach, &extent))
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s with nb[%d] %zu spans more than 2^63-1 bytes", op,
                              name, ingot_describe(t, a), i, t->nb[i]);
    }
    if (slot == SLOT_DST && !is_injective(t))
        return ingot_fail(ctx, INGOT_ERR_INVALID,
                          "%s: dst %s overlaps itself with strides nb = %zu, %zu, %zu, %zu: "
                          "expected each to be at least what lies inside it",
                          op, ingot_describe(t, a), t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
    return INGOT_OK;
}

/* ---- Tensors with each other. */

static bool relation_holds(const struct ingot_shape_rule *r, const ingot_tensor *t, const ingot_tensor *of) {
    int64_t have = t->ne[r->dim], want = of->ne[r->of_dim];

    switch (r->relation) {
    case REL_SAME:
        return have == want;
    case REL_DIVIDES:
        return have == 0 ? want == 0 : want % have == 0;
    case REL_AT_LEAST:
        return have >= want;
    case REL_ONE:
        return have == 1;
    case REL_ONE_OR_SAME:
        return have == 1 || have == want;
    case REL_TYPE:
        return t->type == of->type;
    default:
        return t->type == of->type || t->type == INGOT_TYPE_F32;
    }
}

static ingot_status fail_relation(ingot_context *ctx, const struct ingot_call *call, const struct ingot_shape_rule *r) {
    static const char *const expected[] = {"", "a divisor of ", "at least ", "", "1 or "};
    const ingot_tensor *t = ingot_call_tensor(call, r->slot), *of = ingot_call_tensor(call, r->of);
    const char *op = ingot_call_name(call->op), *name = ingot_slot_name(r->slot);
    char a[96], b[96], where[32];

    if (r->relation == REL_ONE)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has ne[%d] %lld, expected 1", op, name,
                          ingot_describe(t, a), r->dim, (long long)t->ne[r->dim]);
    if (r->relation == REL_TYPE || r->relation == REL_TYPE_OR_F32)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has type %s, expected %s%s as in %s %s", op, name,
                          ingot_describe(t, a), ingot_type_name(t->type),
                          r->relation == REL_TYPE_OR_F32 && of->type != INGOT_TYPE_F32 ? "f32, or " : "",
                          ingot_type_name(of->type), ingot_slot_name(r->of), ingot_describe(of, b));
    snprintf(where, sizeof where, r->dim == r->of_dim ? "as in" : "as ne[%d] of", r->of_dim);
    return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s %s has ne[%d] %lld, expected %s%lld %s %s %s", op, name,
                      ingot_describe(t, a), r->dim, (long long)t->ne[r->dim], expected[r->relation],
                      (long long)of->ne[r->of_dim], where, ingot_slot_name(r->of), ingot_describe(of, b));
}

static ingot_status check_relations(ingot_context *ctx, const struct ingot_call *call) {
    for (int i = 0; i < ingot_shape_rule_count; i++) {
        const struct ingot_shape_rule *r = &ingot_shape_rules[i];
        if (r->op != call->op) continue;
        const ingot_tensor *t = ingot_call_tensor(call, r->slot), *of = ingot_call_tensor(call, r->of);
        if (t == NULL || of == NULL || relation_holds(r, t, of)) continue;
        return fail_relation(ctx, call, r);
    }
    return INGOT_OK;
}

/* Rounding to q8 works on whole blocks of 32; ops that do it on the way do it from f32. */
static ingot_status check_q8_out(ingot_context *ctx, const struct ingot_call *call) {
    const ingot_tensor *t = call->dst != NULL ? call->dst : call->src[0];
    bool split = call->op == INGOT_OP_GLU && call->dst == NULL && call->src[1] == NULL;
    int64_t k = split ? t->ne[0] / 2 : t->ne[0];
    char a[96];

    if (!call->want_q8_out) return INGOT_OK;
    if (call->op != INGOT_OP_QUANTIZE && call->src[0]->type != INGOT_TYPE_F32)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: src[0] %s has type %s, expected f32 to round to q8",
                          ingot_call_name(call->op), ingot_describe(call->src[0], a),
                          ingot_type_name(call->src[0]->type));
    if (k % 32 == 0) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: %s has rows of %lld, expected a multiple of 32 to round to q8",
                      ingot_call_name(call->op), ingot_describe(t, a), (long long)k);
}

static ingot_status check_presence(ingot_context *ctx, const struct ingot_call *call) {
    const struct ingot_op_rule *rule;
    const char *op = ingot_call_name(call->op);

    if (call->op <= INGOT_OP_NONE || call->op >= INGOT_OP_INTERNAL_COUNT || op[0] == '?')
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%d is no op", call->op);
    rule = &ingot_op_rules[call->op];
    for (int i = 0; i < INGOT_MAX_SRC; i++) {
        if (i < rule->required && call->src[i] == NULL)
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: src[%d] is null, expected a tensor", op, i);
        if (i >= rule->sources && call->src[i] != NULL)
            return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: src[%d] is given, expected %d sources at most", op, i,
                              rule->sources);
    }
    if (call->want_q8_out && !rule->takes_q8_out)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: cannot round its result to q8", op);
    if (call->dst == NULL && !call->want_q8_out)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: dst is null, expected a tensor", op);
    return INGOT_OK;
}

ingot_status ingot_check_call(ingot_context *ctx, const struct ingot_call *call) {
    ingot_status st = INGOT_OK;

    INGOT_TRY(check_presence(ctx, call), st, done);
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        if (ingot_call_tensor(call, slot) == NULL) continue;
        INGOT_TRY(check_type(ctx, call, slot), st, done);
        INGOT_TRY(check_dims(ctx, call, slot), st, done);
        INGOT_TRY(check_strides(ctx, call, slot), st, done);
    }
    INGOT_TRY(check_relations(ctx, call), st, done);
    if (ingot_op_rules[call->op].also != NULL) INGOT_TRY(ingot_op_rules[call->op].also(ctx, call), st, done);
    INGOT_TRY(check_q8_out(ctx, call), st, done);
done:
    return st;
}

/* ---- Memory. */

static ingot_status check_pointer(ingot_context *ctx, const struct ingot_call *call, enum ingot_slot slot) {
    const ingot_tensor *t = ingot_call_tensor(call, slot);
    size_t align = ingot_type_alignment(t->type);
    char a[96];

    if (ingot_is_empty(t)) return INGOT_OK;
    if (t->data == NULL)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: data of %s %s is null", ingot_call_name(call->op),
                          ingot_slot_name(slot), ingot_describe(t, a));
    if ((uintptr_t)t->data % align != 0)
        return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: data of %s %s is at %p, expected a multiple of %zu",
                          ingot_call_name(call->op), ingot_slot_name(slot), ingot_describe(t, a), t->data, align);
    return INGOT_OK;
}

/* True if both address the same elements in the same order. */
static bool is_same_memory(const ingot_tensor *a, const ingot_tensor *b) {
    if (a->data != b->data || a->type != b->type) return false;
    for (int i = 0; i < 4; i++)
        if (a->ne[i] != b->ne[i] || (a->ne[i] > 1 && a->nb[i] != b->nb[i])) return false;
    return true;
}

static ingot_status check_overlap(ingot_context *ctx, const struct ingot_call *call, enum ingot_slot slot) {
    const ingot_tensor *t = ingot_call_tensor(call, slot), *dst = call->dst;
    const struct ingot_op_rule *rule = &ingot_op_rules[call->op];
    bool may =
        ((slot == SLOT_ADD0 || slot == SLOT_ADD1) && !call->gated) || (slot <= SLOT_S3 && (rule->in_place >> slot & 1));
    char a[96], b[96];

    if (dst == NULL || !ingot_overlap(t, dst)) return INGOT_OK;
    if (may && is_same_memory(t, dst)) return INGOT_OK;
    return ingot_fail(ctx, INGOT_ERR_INVALID, "%s: dst %s overlaps %s %s, expected %s", ingot_call_name(call->op),
                      ingot_describe(dst, a), ingot_slot_name(slot), ingot_describe(t, b),
                      may ? "separate memory or exactly the same, strides included" : "separate memory");
}

ingot_status ingot_check_data(ingot_context *ctx, const struct ingot_call *call) {
    ingot_status st = INGOT_OK;

    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        if (ingot_call_tensor(call, slot) == NULL) continue;
        if (slot == SLOT_S1 && call->have_q8_in) continue; /* read in its rounded form only */
        INGOT_TRY(check_pointer(ctx, call, slot), st, done);
        if (slot != SLOT_DST) INGOT_TRY(check_overlap(ctx, call, slot), st, done);
    }
done:
    return st;
}
