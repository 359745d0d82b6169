// SPDX-License-Identifier: MIT
/* test_check.c - bad input at level 1.  Each op has one good call; every rule is then broken once, in every tensor it
 * holds for.  The answer must be the right status with a text that names the op, and the context must go on working.
 * ingot_supports must give the answer of ingot_compute wherever data plays no part. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "check.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

enum { SLOT = 1 << 18, DST = 4 }; /* bytes per tensor; the number of dst among a call's tensors */

struct call {
    ingot_node node;
    ingot_tensor t[4]; /* the sources */
};

static ingot_buffer *memory;

/* Zeros, which are also legal ids. */
static int set_up(void **state) {
    (void)state;
    CHECK_OK(ingot_buffer_create(check_context(), INGOT_MEMORY_DEVICE, 6 * (size_t)SLOT, &memory));
    CHECK_OK(ingot_buffer_fill(memory, 0, 0, 6 * (size_t)SLOT));
    return 0;
}

static int tear_down(void **state) {
    ingot_buffer_destroy(memory);
    return check_teardown(state);
}

static void *slot(int i) {
    return (unsigned char *)ingot_buffer_data(memory) + (size_t)i * SLOT;
}

static ingot_tensor *tensor(struct call *c, int i) {
    return i == DST ? &c->node.dst : &c->t[i];
}

/* Contiguous strides for t->ne, which need not make sense. */
static void pack(ingot_tensor *t) {
    const int64_t block = ingot_type_block(t->type) > 0 ? ingot_type_block(t->type) : 1;
    t->nb[0] = ingot_type_size(t->type);
    t->nb[1] = t->nb[0] * (size_t)(t->ne[0] / block);
    t->nb[2] = t->nb[1] * (size_t)t->ne[1];
    t->nb[3] = t->nb[2] * (size_t)t->ne[2];
}

static void put(struct call *c, int i, ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    ingot_tensor *t = tensor(c, i);
    *t = (ingot_tensor){.type = type, .ne = {ne0, ne1, ne2, ne3}, .data = slot(i)};
    pack(t);
    if (i != DST) c->node.src[i] = t;
}

static const ingot_type F32 = INGOT_TYPE_F32, F16 = INGOT_TYPE_F16, I32 = INGOT_TYPE_I32;

/* The good call of an op.  Rows of 256, so that any block format fits. */
static void make(struct call *c, ingot_op op) {
    memset(c, 0, sizeof *c);
    c->node.op = op;
    switch (op) {
    case INGOT_OP_GET_ROWS:
        put(c, 0, F32, 256, 5, 2, 3), put(c, 1, I32, 4, 2, 3, 1), put(c, DST, F32, 256, 4, 2, 3);
        break;
    case INGOT_OP_SET_ROWS:
        put(c, 0, F32, 256, 3, 4, 2), put(c, 1, I32, 3, 2, 2, 1), put(c, DST, F16, 256, 7, 4, 2);
        break;
    case INGOT_OP_ADD:
    case INGOT_OP_MUL:
        put(c, 0, F32, 256, 4, 2, 2), put(c, 1, F32, 256, 2, 2, 2), put(c, DST, F32, 256, 4, 2, 2);
        break;
    case INGOT_OP_ROPE:
        put(c, 0, F32, 256, 4, 3, 2), put(c, 1, I32, 3, 1, 1, 1), put(c, 2, F32, 128, 1, 1, 1),
            put(c, DST, F32, 256, 4, 3, 2);
        c->node.params.rope = (ingot_rope_params){INGOT_ROPE_NEOX, 256, 4096, 10000.0f, 0.5f, 1.0f, 1.0f, 32.0f, 1.0f};
        break;
    case INGOT_OP_GLU:
        put(c, 0, F32, 256, 4, 2, 2), put(c, 1, F32, 256, 4, 2, 2), put(c, DST, F32, 256, 4, 2, 2);
        break;
    case INGOT_OP_SOFT_MAX:
        put(c, 0, F32, 256, 4, 4, 2), put(c, 1, F16, 256, 4, 2, 2), put(c, DST, F32, 256, 4, 4, 2);
        c->node.params.soft_max.scale = 0.5f;
        break;
    case INGOT_OP_MUL_MAT:
        put(c, 0, F16, 256, 5, 2, 2), put(c, 1, F32, 256, 3, 4, 2), put(c, DST, F32, 5, 3, 4, 2);
        break;
    case INGOT_OP_MUL_MAT_ID:
        put(c, 0, F16, 256, 5, 3, 1), put(c, 1, F32, 256, 2, 3, 1), put(c, 2, I32, 4, 3, 1, 1),
            put(c, DST, F32, 5, 4, 3, 1);
        break;
    case INGOT_OP_ATTENTION:
        put(c, 0, F32, 256, 3, 4, 2), put(c, 1, F16, 256, 7, 2, 2), put(c, 2, F16, 256, 7, 2, 2),
            put(c, 3, I32, 2, 1, 1, 1);
        put(c, DST, F32, 256, 4, 3, 2);
        c->node.params.attention = (ingot_attention_params){0.125f, 1};
        break;
    default:
        put(c, 0, F32, 256, 4, 2, 2), put(c, DST, F32, 256, 4, 2, 2);
        break;
    }
}

static bool has(const struct call *c, int i) {
    return i == DST || (i < 4 && c->node.src[i]);
}

/* supports, then compute: both fail as expected with a text that names the op. */
static void refuse_as(struct call *c, ingot_status expected, bool data_matters, const char *what) {
    ingot_context *ctx = check_context();
    const char *name = ingot_op_name(c->node.op);
    struct call good;

    for (int compute = 0; compute < 2; compute++) {
        const ingot_status want = !compute && data_matters ? INGOT_OK : expected;
        const ingot_status got = compute ? ingot_compute(ctx, &c->node) : ingot_supports(ctx, &c->node);
        if (got != want)
            check_fail("%s with %s: %s says %s, expected %s (%s)", name, what, compute ? "compute" : "supports",
                       ingot_status_name(got), ingot_status_name(want), ingot_error(ctx));
        if (want != INGOT_OK && !strstr(ingot_error(ctx), name))
            check_fail("%s with %s: the text does not name the op: %s", name, what, ingot_error(ctx));
        if (getenv("SHOW") && want != INGOT_OK && compute) printf("%-28s %s\n", what, ingot_error(ctx));
    }
    make(&good, c->node.op);
    CHECK_OK(ingot_compute(ctx, &good.node)); /* the context goes on working */
}

static void refuse(struct call *c, const char *fmt, int i, int d) {
    char what[96];
    snprintf(what, sizeof what, fmt, i, d);
    refuse_as(c, INGOT_ERR_INVALID, false, what);
}

static void accept(struct call *c, const char *what) {
    ingot_context *ctx = check_context();
    if (ingot_supports(ctx, &c->node) != INGOT_OK || ingot_compute(ctx, &c->node) != INGOT_OK)
        check_fail("%s with %s is refused: %s", ingot_op_name(c->node.op), what, ingot_error(ctx));
}

/* ---- one tensor by itself */

static void good_calls(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++) make(&c, op), accept(&c, "its good call");
    make(&c, INGOT_OP_GLU), c.node.src[1] = NULL, c.node.dst.ne[0] = 128, accept(&c, "halves");
    make(&c, INGOT_OP_ROPE), c.node.src[2] = NULL, accept(&c, "no factors");
    make(&c, INGOT_OP_SOFT_MAX), c.node.src[1] = NULL, accept(&c, "no mask");
    make(&c, INGOT_OP_ATTENTION), c.node.src[3] = NULL, accept(&c, "no length");
    CHECK_OK(ingot_synchronize(check_context()));
}

static void bad_dimensions(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++) {
        for (int i = 0; i <= DST; i++) {
            make(&c, op);
            if (!has(&c, i)) continue;
            for (int d = 0; d < 4; d++)
                make(&c, op), tensor(&c, i)->ne[d] = -1, refuse(&c, "tensor %d, ne[%d] -1", i, d);
            make(&c, op);
            for (int d = 0; d < 4; d++) tensor(&c, i)->ne[d] = (int64_t)1 << 20, tensor(&c, i)->nb[d] = 0;
            refuse(&c, "tensor %d, 2^80 elements", i, 0);
            for (int bad = 0; bad < 3; bad++) {
                make(&c, op),
                    tensor(&c, i)->type = (ingot_type[]){(ingot_type)-1, (ingot_type)4, (ingot_type)1000}[bad];
                refuse(&c, "tensor %d, no type", i, 0);
            }
        }
    }
    /* rows that are no whole number of blocks */
    make(&c, INGOT_OP_GET_ROWS), put(&c, 0, INGOT_TYPE_Q8_0, 40, 5, 2, 3), c.node.dst.ne[0] = 40,
                                                                           refuse(&c, "40 of q8_0", 0, 0);
    make(&c, INGOT_OP_CPY), put(&c, 0, INGOT_TYPE_Q8_0, 40, 4, 2, 2), c.node.dst.ne[0] = 40,
                                                                      refuse(&c, "40 of q8_0", 0, 0);
    make(&c, INGOT_OP_MUL_MAT), put(&c, 0, INGOT_TYPE_Q4_K, 96, 5, 2, 2), c.t[1].ne[0] = 96,
                                                                          refuse(&c, "96 of q4_K", 0, 0);
}

static void bad_strides(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++)
        for (int i = 0; i <= DST; i++)
            for (int d = 0; d < 4; d++) {
                make(&c, op);
                if (!has(&c, i) || tensor(&c, i)->ne[d] == 1) continue;
                tensor(&c, i)->nb[d]++, refuse(&c, "tensor %d, odd nb[%d]", i, d);
                make(&c, op), tensor(&c, i)->nb[d] = (size_t)1 << 63, refuse(&c, "tensor %d, nb[%d] 2^63", i, d);
                make(&c, op), tensor(&c, i)->nb[d] = INT64_MAX / 8 * 8;
                if (tensor(&c, i)->ne[d] > 2) refuse(&c, "tensor %d, nb[%d] near 2^63", i, d);
                make(&c, op), tensor(&c, i)->nb[d] = 0;
                if (i == DST) refuse(&c, "tensor %d, nb[%d] 0", i, d);
                else accept(&c, "a source that repeats"); /* legal: the same memory for each index */
                if (i != DST || d == 0) continue;
                make(&c, op), tensor(&c, i)->nb[d] -= tensor(&c, i)->nb[0],
                    refuse(&c, "tensor %d, nb[%d] a bit too small", i, d);
            }
    make(&c, INGOT_OP_GET_ROWS), put(&c, 0, INGOT_TYPE_Q8_0, 256, 5, 2, 3), c.t[0].nb[0] = 36,
                                                                            refuse(&c, "nb[0] of q8_0", 0, 0);
    make(&c, INGOT_OP_CPY), put(&c, 0, INGOT_TYPE_Q8_0, 256, 4, 2, 2), c.t[0].nb[0] = 68,
                                                                       refuse(&c, "nb[0] of q8_0", 0, 0);
    make(&c, INGOT_OP_MUL_MAT), put(&c, 0, INGOT_TYPE_Q8_0, 256, 5, 2, 2), c.t[0].nb[1]++,
        refuse(&c, "odd nb[1] of q8_0", 0, 0);
    make(&c, INGOT_OP_MUL_MAT), put(&c, 0, INGOT_TYPE_Q8_0, 256, 5, 2, 2), c.t[0].nb[0] = 0,
                                                                           refuse(&c, "nb[0] of q8_0", 0, 0);
}

static void bad_pointers(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++) {
        for (int i = 0; i <= DST; i++) {
            make(&c, op);
            if (!has(&c, i)) continue;
            tensor(&c, i)->data = NULL, refuse_as(&c, INGOT_ERR_INVALID, true, "null data");
            make(&c, op), tensor(&c, i)->data = (char *)slot(i) + 1,
                                     refuse_as(&c, INGOT_ERR_INVALID, true, "an odd address");
        }
        for (int i = 0; i < 4; i++) {
            make(&c, op);
            if (has(&c, i)) {
                const bool optional = (op == INGOT_OP_ROPE && i == 2) || (op == INGOT_OP_GLU && i == 1) ||
                                      (op == INGOT_OP_SOFT_MAX && i == 1) || (op == INGOT_OP_ATTENTION && i == 3);
                if (!optional) c.node.src[i] = NULL, refuse(&c, "no src[%d]", i, 0);
            } else {
                put(&c, i, F32, 256, 1, 1, 1), refuse(&c, "a src[%d]", i, 0);
            }
        }
    }
    make(&c, INGOT_OP_CPY), put(&c, 0, INGOT_TYPE_Q8_0, 256, 4, 2, 2);
    c.t[0].data = (char *)slot(0) + 1, refuse_as(&c, INGOT_ERR_INVALID, true, "q8_0 at an odd address");
    c.t[0].data = (char *)slot(0) + 2, accept(&c, "q8_0 at an even address");
}

static void no_node(void **state) {
    (void)state;
    ingot_context *ctx = check_context();
    struct call c;
    make(&c, INGOT_OP_SILU);
    CHECK_STATUS(ingot_compute(ctx, NULL), INGOT_ERR_INVALID);
    CHECK_STATUS(ingot_supports(ctx, NULL), INGOT_ERR_INVALID);
    assert_int_equal(ingot_compute(NULL, &c.node), INGOT_ERR_INVALID);
    assert_int_equal(ingot_supports(NULL, &c.node), INGOT_ERR_INVALID);
    const int bad[] = {-1, INGOT_OP_NONE, INGOT_OP_COUNT, INGOT_OP_COUNT + 1, 1000};
    for (int i = 0; i < COUNT(bad); i++) {
        c.node.op = (ingot_op)bad[i];
        CHECK_STATUS(ingot_compute(ctx, &c.node), INGOT_ERR_INVALID);
        CHECK_STATUS(ingot_supports(ctx, &c.node), INGOT_ERR_INVALID);
    }
}

/* ---- tensors with each other */

/* Dimensions that may grow by one without making the call wrong. */
static bool is_free(ingot_op op, int i, int d) {
    if (op == INGOT_OP_GET_ROWS) return i == 0 && d == 1;
    if (op == INGOT_OP_SET_ROWS) return i == DST && d == 1;
    if (op == INGOT_OP_SOFT_MAX) return i == 1 && d == 1;
    if (op == INGOT_OP_MUL_MAT_ID) return i == 0 && d == 2;
    return false;
}

static void shapes_that_do_not_match(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++)
        for (int i = 0; i <= DST; i++)
            for (int d = 0; d < 4; d++) {
                make(&c, op);
                if (!has(&c, i)) continue;
                tensor(&c, i)->ne[d]++;
                pack(tensor(&c, i));
                if (is_free(op, i, d)) accept(&c, "a larger free dimension");
                else refuse(&c, "tensor %d, ne[%d] one more", i, d);
            }
    make(&c, INGOT_OP_GLU), c.node.src[1] = NULL, refuse(&c, "halves and a dst of full width", 0, 0);
    make(&c, INGOT_OP_GLU), c.node.src[1] = NULL, c.t[0].ne[0] = 255, c.node.dst.ne[0] = 127,
                            refuse(&c, "odd halves", 0, 0);
    make(&c, INGOT_OP_CPY), put(&c, DST, F32, 512, 2, 2, 2), accept(&c, "another shape");
    make(&c, INGOT_OP_CPY), put(&c, 0, INGOT_TYPE_Q8_0, 256, 4, 2, 2), put(&c, DST, F32, 512, 2, 2, 2);
    accept(&c, "another shape from q8_0");
    c.node.dst.ne[0] = 544, pack(&c.node.dst), refuse(&c, "more elements than q8_0 has", 0, 0);
    make(&c, INGOT_OP_SOFT_MAX), c.t[1].ne[1] = 3, refuse(&c, "a mask of too few rows", 0, 0);
    make(&c, INGOT_OP_ADD), c.t[1].ne[1] = 0, refuse(&c, "an empty src[1]", 0, 0);
    make(&c, INGOT_OP_ATTENTION), c.t[3].ne[0] = 1, accept(&c, "one length for all");
}

/* The text of the commonest mistake, word by word. */
static void a_text(void **state) {
    (void)state;
    struct call c;
    make(&c, INGOT_OP_MUL_MAT), put(&c, 0, F16, 4096, 8, 1, 1), put(&c, 1, F32, 100, 4, 1, 1),
        put(&c, DST, F32, 8, 4, 1, 1);
    refuse(&c, "100 for 4096", 0, 0);
    CHECK_STATUS(ingot_compute(check_context(), &c.node), INGOT_ERR_INVALID);
    assert_string_equal(ingot_error(check_context()), "mul_mat: src[1] f32 [100,4,1,1] has ne[0] 100, expected 4096 as "
                                                      "in src[0] f16 [4096,8,1,1]");
}

/* Those of the build, and some that it has no kernels for. */
static ingot_type types[CHECK_TYPES + 8];
static int type_count;

static void list_types(void) {
    const ingot_type more[] = {INGOT_TYPE_Q8_1, INGOT_TYPE_Q8_K, INGOT_TYPE_I8, INGOT_TYPE_I16,
                               INGOT_TYPE_I32,  INGOT_TYPE_I64,  INGOT_TYPE_F64};
    type_count = (int)check_types(types);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) types[type_count++] = more[i];
}

/* Every op with every pair of types in two of its tensors: the same answer twice, and a text that names the op. */
static void supports_is_compute(void **state) {
    (void)state;
    ingot_context *ctx = check_context();
    int answers[3] = {0, 0, 0};
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++)
        for (int pair = 0; pair < 3; pair++)
            for (int ta = 0; ta < type_count; ta++)
                for (int tb = 0; tb < type_count; tb++) {
                    const int a = (int[]){0, 0, 1}[pair], b = (int[]){1, DST, DST}[pair];
                    struct call c;
                    make(&c, op);
                    if (!has(&c, a) || !has(&c, b)) continue;
                    tensor(&c, a)->type = types[ta], tensor(&c, b)->type = types[tb];
                    pack(tensor(&c, a)), pack(tensor(&c, b));
                    const ingot_status says = ingot_supports(ctx, &c.node), does = ingot_compute(ctx, &c.node);
                    if (says != does)
                        check_fail("%s of %s, %s in tensors %d, %d: supports says %s, compute %s (%s)",
                                   ingot_op_name(op), ingot_type_name(types[ta]), ingot_type_name(types[tb]), a, b,
                                   ingot_status_name(says), ingot_status_name(does), ingot_error(ctx));
                    if (does > INGOT_ERR_UNSUPPORTED ||
                        (does != INGOT_OK && !strstr(ingot_error(ctx), ingot_op_name(op))))
                        check_fail("%s: %s: %s", ingot_op_name(op), ingot_status_name(does), ingot_error(ctx));
                    answers[does]++;
                }
    for (int i = 0; i < type_count; i++) /* mul_mat by columns and precision */
        for (int n = 1; n <= 20; n = n < 9 ? n + 1 : n * 2)
            for (int prec = 0; prec < 2; prec++) {
                struct call c;
                make(&c, INGOT_OP_MUL_MAT), put(&c, 0, types[i], 256, 5, 1, 1);
                put(&c, 1, F32, 256, n, 1, 1), put(&c, DST, F32, 5, n, 1, 1);
                c.node.params.mul_mat.prec = (ingot_prec)prec;
                const ingot_status says = ingot_supports(ctx, &c.node), does = ingot_compute(ctx, &c.node);
                if (says != does)
                    check_fail("mul_mat of %s, n=%d: supports says %s, compute %s (%s)", ingot_type_name(types[i]), n,
                               ingot_status_name(says), ingot_status_name(does), ingot_error(ctx));
            }
    print_message("%d legal, %d invalid, %d unsupported\n", answers[0], answers[1], answers[2]);
    assert_true(answers[0] > 0 && answers[1] > 0 && answers[2] > 0);
    CHECK_OK(ingot_synchronize(ctx));
}

static void types_that_do_not_fit(void **state) {
    (void)state;
    struct call c;
    make(&c, INGOT_OP_GET_ROWS), c.t[1].type = INGOT_TYPE_I64, pack(&c.t[1]), refuse(&c, "i64 ids", 0, 0);
    make(&c, INGOT_OP_GET_ROWS), c.node.dst.type = F16, pack(&c.node.dst), refuse(&c, "f16 dst", 0, 0);
    make(&c, INGOT_OP_GET_ROWS), c.t[0].type = I32, refuse(&c, "f32 from an i32 table", 0, 0);
    make(&c, INGOT_OP_GET_ROWS), c.node.dst.type = I32, refuse(&c, "i32 from an f32 table", 0, 0);
    make(&c, INGOT_OP_SET_ROWS), c.t[0].type = I32, refuse(&c, "i32 rows", 0, 0);
    make(&c, INGOT_OP_SET_ROWS), c.t[0].type = F16, pack(&c.t[0]), accept(&c, "f16 rows");
    make(&c, INGOT_OP_SET_ROWS), c.t[0].type = c.node.dst.type = INGOT_TYPE_Q8_0, pack(&c.t[0]), pack(&c.node.dst);
    refuse(&c, "q8_0 rows into q8_0", 0, 0);
    make(&c, INGOT_OP_CPY), c.node.dst.type = I32, refuse(&c, "i32 dst", 0, 0);
    make(&c, INGOT_OP_CPY), c.t[0].type = INGOT_TYPE_Q8_0, c.node.dst.type = INGOT_TYPE_Q4_0, pack(&c.t[0]),
                            pack(&c.node.dst), refuse(&c, "q8_0 into q4_0", 0, 0);
    make(&c, INGOT_OP_ADD), c.t[1].type = F16, pack(&c.t[1]), refuse(&c, "f32 + f16", 0, 0);
    make(&c, INGOT_OP_MUL), c.node.dst.type = F16, pack(&c.node.dst), refuse(&c, "f16 dst of f32", 0, 0);
    make(&c, INGOT_OP_RMS_NORM), c.t[0].type = F16, pack(&c.t[0]), refuse(&c, "f16", 0, 0);
    make(&c, INGOT_OP_ROPE), c.t[2].type = F16, pack(&c.t[2]), refuse(&c, "f16 factors", 0, 0);
    make(&c, INGOT_OP_SILU), c.node.dst.type = F16, pack(&c.node.dst), refuse(&c, "f16 dst of f32", 0, 0);
    make(&c, INGOT_OP_GLU), c.t[1].type = F16, pack(&c.t[1]), refuse(&c, "f16 up", 0, 0);
    make(&c, INGOT_OP_SOFT_MAX), c.t[1].type = INGOT_TYPE_BF16, refuse(&c, "bf16 mask", 0, 0);
    make(&c, INGOT_OP_MUL_MAT), c.t[1].type = INGOT_TYPE_Q8_0, pack(&c.t[1]), refuse(&c, "q8_0 B", 0, 0);
    make(&c, INGOT_OP_ATTENTION), c.t[2].type = F32, pack(&c.t[2]), refuse(&c, "f32 V", 0, 0);
    for (int type = 0; type < CHECK_TYPES; type++) {
        if (!check_is_block((ingot_type)type) || check_in_build((ingot_type)type)) continue;
        make(&c, INGOT_OP_GET_ROWS), put(&c, 0, (ingot_type)type, 256, 5, 2, 3);
        refuse_as(&c, INGOT_ERR_UNSUPPORTED, false, "a format without kernels");
    }
    make(&c, INGOT_OP_ATTENTION);
    for (int i = 0; i <= DST; i++)
        if (i != 3) tensor(&c, i)->ne[0] = 512, tensor(&c, i)->ne[3] = 1, pack(tensor(&c, i));
    c.t[3].ne[0] = 1;
    refuse_as(&c, INGOT_ERR_UNSUPPORTED, false, "heads of 512");
}

/* ---- params */

static void bad_params(void **state) {
    (void)state;
    struct call c;
    const float nothing[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        make(&c, INGOT_OP_RMS_NORM), c.node.params.rms_norm.eps = nothing[i], refuse(&c, "eps", 0, 0);
        make(&c, INGOT_OP_SOFT_MAX), c.node.params.soft_max.scale = nothing[i], refuse(&c, "scale", 0, 0);
        make(&c, INGOT_OP_ATTENTION), c.node.params.attention.scale = nothing[i], refuse(&c, "scale", 0, 0);
        for (int f = 0; f < 6; f++) {
            make(&c, INGOT_OP_ROPE);
            ingot_rope_params *p = &c.node.params.rope;
            float *fields[] = {&p->freq_base,   &p->freq_scale, &p->ext_factor,
                               &p->attn_factor, &p->beta_fast,  &p->beta_slow};
            *fields[f] = nothing[i], refuse(&c, "float %d of rope", f, 0);
            *fields[f] = -1.0f, refuse(&c, "float %d of rope negative", f, 0);
        }
    }
    make(&c, INGOT_OP_RMS_NORM), c.node.params.rms_norm.eps = -1e-6f, refuse(&c, "eps below 0", 0, 0);
    const int dims[] = {-2, 0, 1, 3, 258, 255};
    for (int i = 0; i < COUNT(dims); i++) {
        make(&c, INGOT_OP_ROPE), c.node.params.rope.n_dims = dims[i], c.node.src[2] = NULL, refuse(&c, "n_dims", 0, 0);
    }
    make(&c, INGOT_OP_ROPE), c.node.params.rope.n_dims = 254, refuse(&c, "factors for other dims", 0, 0);
    make(&c, INGOT_OP_ROPE), c.node.params.rope.mode = (ingot_rope_mode)1, refuse(&c, "mode", 0, 0);
    make(&c, INGOT_OP_ROPE), c.node.params.rope.n_ctx_orig = 0, refuse(&c, "no n_ctx_orig", 0, 0);
    c.node.params.rope.ext_factor = 0.0f, accept(&c, "no YaRN and no n_ctx_orig");
    make(&c, INGOT_OP_MUL_MAT), c.node.params.mul_mat.prec = (ingot_prec)2, refuse(&c, "prec", 0, 0);
    make(&c, INGOT_OP_MUL_MAT_ID), c.node.params.mul_mat.prec = (ingot_prec)2, refuse(&c, "prec", 0, 0);
    for (int kind = -1; kind <= 6; kind += 7)
        make(&c, INGOT_OP_GLU), c.node.params.glu.kind = (ingot_glu_kind)kind, refuse(&c, "kind %d", kind, 0);
    const ingot_glu_params bad[] = {{INGOT_GLU_SWIGLU_OAI, INFINITY, 1.0f},
                                    {INGOT_GLU_SWIGLU_OAI, NAN, 1.0f},
                                    {INGOT_GLU_SWIGLU_OAI, 1.0f, -1.0f},
                                    {INGOT_GLU_SWIGLU_OAI, 1.0f, NAN}};
    for (int i = 0; i < COUNT(bad); i++)
        make(&c, INGOT_OP_GLU), c.node.params.glu = bad[i], refuse(&c, "clamp %d", i, 0);
    make(&c, INGOT_OP_GLU), c.node.params.glu = (ingot_glu_params){INGOT_GLU_SWIGLU_OAI, 1.0f, INFINITY};
    accept(&c, "no limit");
    make(&c, INGOT_OP_GLU), c.node.params.glu = (ingot_glu_params){INGOT_GLU_SWIGLU, NAN, NAN};
    accept(&c, "a clamp that is not used");
}

/* ---- memory */

static void overlaps(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++)
        for (int i = 0; i < 4; i++) {
            const bool in_place =
                (i == 0 &&
                 (op == INGOT_OP_ADD || op == INGOT_OP_MUL || op == INGOT_OP_RMS_NORM || op == INGOT_OP_ROPE ||
                  (op >= INGOT_OP_SILU && op <= INGOT_OP_GELU_QUICK) || op == INGOT_OP_SOFT_MAX)) ||
                (i < 2 && op == INGOT_OP_GLU);
            make(&c, op);
            if (!has(&c, i)) continue;
            c.node.dst.data = c.t[i].data;
            if (in_place) accept(&c, "dst on a source");
            else refuse_as(&c, INGOT_ERR_INVALID, true, "dst on a source");
            make(&c, op), c.node.dst.data = (char *)c.t[i].data + 4,
                          refuse_as(&c, INGOT_ERR_INVALID, true, "dst 4 bytes into a source");
            make(&c, op), c.t[i].data = (char *)c.node.dst.data + 8,
                          refuse_as(&c, INGOT_ERR_INVALID, true, "a source 8 bytes into dst");
            make(&c, op), c.node.dst.data = (char *)c.t[i].data + ingot_tensor_size(&c.t[i]),
                          accept(&c, "dst right behind");
        }
    /* on the same memory with other strides or another type it is no longer in place */
    make(&c, INGOT_OP_SILU), c.node.dst.data = c.t[0].data, c.node.dst.nb[3] += 256;
    refuse_as(&c, INGOT_ERR_INVALID, true, "dst on a source with other strides");
    make(&c, INGOT_OP_GLU), c.node.src[1] = NULL, put(&c, DST, F32, 128, 4, 2, 2), c.node.dst.data = c.t[0].data;
    refuse_as(&c, INGOT_ERR_INVALID, true, "dst on the gate half");
    /* views that interleave share no byte */
    make(&c, INGOT_OP_CPY), put(&c, 0, F32, 64, 4, 1, 1), put(&c, DST, F32, 64, 4, 1, 1);
    c.t[0].nb[1] = c.node.dst.nb[1] = 1024, c.node.dst.data = (char *)c.t[0].data + 256,
    accept(&c, "interleaved views");
    c.node.dst.data = (char *)c.t[0].data + 252, refuse_as(&c, INGOT_ERR_INVALID, true, "interleaved views that touch");
}

/* Empty tensors: success without data. */
static void nothing_to_do(void **state) {
    (void)state;
    struct call c;
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++) {
        make(&c, op);
        for (int i = 0; i <= DST; i++) {
            const int d = op == INGOT_OP_GET_ROWS && i == 1 ? 2 : op == INGOT_OP_MUL_MAT_ID ? (i == 2 ? 1 : 2) : 3;
            if (!has(&c, i) || (op == INGOT_OP_SET_ROWS && i == 1) || (op == INGOT_OP_ROPE && i != 0 && i != DST) ||
                (op == INGOT_OP_MUL_MAT_ID && i == 0))
                continue;
            tensor(&c, i)->ne[op == INGOT_OP_ATTENTION && i == 3 ? 0 : d] = 0;
            tensor(&c, i)->data = NULL;
        }
        if (op == INGOT_OP_SET_ROWS) c.t[1].ne[2] = 1;
        if (op == INGOT_OP_ATTENTION) put(&c, 3, I32, 1, 1, 1, 1);
        accept(&c, "no batch");
    }
    make(&c, INGOT_OP_SET_ROWS), c.t[0].ne[1] = 0, c.t[1].ne[0] = 0, c.t[0].data = c.t[1].data = NULL,
                                 accept(&c, "no rows");
    make(&c, INGOT_OP_MUL_MAT), c.t[0].ne[0] = c.t[1].ne[0] = 0, c.t[0].data = c.t[1].data = NULL,
                                CHECK_OK(ingot_buffer_fill(memory, (size_t)DST * SLOT, 0xFF, SLOT)),
                                accept(&c, "k of 0");
    float zero[5 * 3 * 4 * 2];
    CHECK_OK(ingot_buffer_get(memory, (size_t)DST * SLOT, zero, sizeof zero));
    for (int i = 0; i < COUNT(zero); i++)
        if (zero[i] != 0.0f) check_fail("mul_mat with k of 0: element %d is %g, expected 0", i, (double)zero[i]);
}

/* ---- the log */

static char logged[1024];

static void keep_log(void *user, const char *text) {
    (void)user;
    snprintf(logged, sizeof logged, "%s", text);
}

static void choices_are_logged(void **state) {
    (void)state;
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    struct call c;
    options.log = keep_log;
    assert_int_equal(ingot_context_create(&options, &ctx), INGOT_OK);
    for (ingot_op op = INGOT_OP_GET_ROWS; op < INGOT_OP_COUNT; op++) {
        make(&c, op);
        logged[0] = '\0';
        assert_int_equal(ingot_supports(ctx, &c.node), INGOT_OK);
        if (logged[0]) check_fail("supports logs a choice: %s", logged);
        assert_int_equal(ingot_compute(ctx, &c.node), INGOT_OK);
        if (!strstr(logged, ingot_op_name(op)) || !strstr(logged, "-> ingot_"))
            check_fail("%s: log says: %s", ingot_op_name(op), logged);
    }
    ingot_context_destroy(ctx);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    list_types();
    const struct CMUnitTest tests[] = {
        TEST(good_calls),
        TEST(bad_dimensions),
        TEST(bad_strides),
        TEST(bad_pointers),
        TEST(no_node),
        TEST(shapes_that_do_not_match),
        TEST(a_text),
        TEST(supports_is_compute),
        TEST(types_that_do_not_fit),
        TEST(bad_params),
        TEST(overlaps),
        TEST(nothing_to_do),
        TEST(choices_are_logged),
    };
    return check_main("check", tests, COUNT(tests));
}
