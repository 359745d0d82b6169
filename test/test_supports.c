// SPDX-License-Identifier: MIT
/* test_supports.c - what ingot_supports says is what ingot_compute does.
 *
 * Every op with every combination of types for two sources and the result, on shapes that fit the op, and random shapes
 * that mostly do not: the two statuses must be the same, nothing may crash, what is done must be right, and the
 * combinations that the table in ingot.h lists must be done. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"
#include "rounded.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Those of the build, and some that it has no kernels for. */
static ingot_type types[CHECK_TYPES + 8];
static int type_count;

static void list_types(void) {
    const ingot_type more[] = {INGOT_TYPE_I32, INGOT_TYPE_I64,  INGOT_TYPE_I8,
                               INGOT_TYPE_F64, INGOT_TYPE_Q8_1, INGOT_TYPE_Q8_K};
    type_count = (int)check_types(types);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) types[type_count++] = more[i];
}

static bool is_float(ingot_type t) {
    return t == INGOT_TYPE_F32 || t == INGOT_TYPE_F16 || t == INGOT_TYPE_BF16;
}

/* The table of ingot.h: whether this build must do the op for these types (shapes fitting). */
static bool listed(ingot_op op, ingot_type a, ingot_type b, ingot_type dst) {
    const bool any = check_in_build(a), f32 = a == INGOT_TYPE_F32;
    const bool rounds = is_float(a) && is_rounded_type(dst) && check_in_build(dst);
    switch (op) {
    case INGOT_OP_GET_ROWS:
        return b == INGOT_TYPE_I32 && (any ? dst == INGOT_TYPE_F32 : a == INGOT_TYPE_I32 && dst == INGOT_TYPE_I32);
    case INGOT_OP_SET_ROWS:
        return (b == INGOT_TYPE_I32 || b == INGOT_TYPE_I64) && ((any && is_float(dst)) || rounds);
    case INGOT_OP_CPY:
        return (any && is_float(dst)) || rounds || a == dst;
    case INGOT_OP_ADD:
    case INGOT_OP_MUL:
        return is_float(a) && (b == a || b == INGOT_TYPE_F32) && dst == a;
    case INGOT_OP_RMS_NORM:
        return f32 && dst == a;
    case INGOT_OP_ROPE:
        return (f32 || a == INGOT_TYPE_F16) && b == INGOT_TYPE_I32 && dst == a;
    case INGOT_OP_SILU:
    case INGOT_OP_RELU:
    case INGOT_OP_GELU:
    case INGOT_OP_GELU_ERF:
    case INGOT_OP_GELU_QUICK:
        return is_float(a) && dst == a;
    case INGOT_OP_GLU:
        return is_float(a) && b == a && dst == a;
    case INGOT_OP_SOFT_MAX:
        return f32 && (b == INGOT_TYPE_F32 || b == INGOT_TYPE_F16) && dst == a;
    case INGOT_OP_MUL_MAT:
    case INGOT_OP_MUL_MAT_ID:
        return any && is_float(b) && dst == INGOT_TYPE_F32;
    case INGOT_OP_ATTENTION:
        return f32 && b == INGOT_TYPE_F16 && dst == a;
    default:
        return false;
    }
}

static int sources_of(ingot_op op) {
    switch (op) {
    case INGOT_OP_CPY:
    case INGOT_OP_RMS_NORM:
    case INGOT_OP_SILU:
    case INGOT_OP_RELU:
    case INGOT_OP_GELU:
    case INGOT_OP_GELU_ERF:
    case INGOT_OP_GELU_QUICK:
        return 1;
    case INGOT_OP_ATTENTION:
    case INGOT_OP_MUL_MAT_ID:
        return 3;
    default:
        return 2;
    }
}

static void fill(struct tensor *t) {
    if (t->t.type == INGOT_TYPE_I32 || t->t.type == INGOT_TYPE_I64) tensor_fill_random(t, 0.0, 2.999);
    else if (is_float(t->t.type) || (check_is_block(t->t.type) && check_in_build(t->t.type)))
        tensor_fill_random(t, -2.0, 2.0);
    else memset(t->host, 1, t->bytes); /* never read: no kernel knows the type */
}

static void set_params(struct op_case *c) {
    switch (c->op) {
    case INGOT_OP_RMS_NORM:
        c->node.params.rms_norm.eps = 1e-5f;
        break;
    case INGOT_OP_ROPE:
        c->node.params.rope = (ingot_rope_params){.n_dims = 2,
                                                  .n_ctx_orig = 64,
                                                  .freq_base = 10000.0f,
                                                  .freq_scale = 1.0f,
                                                  .attn_factor = 1.0f,
                                                  .beta_fast = 32.0f,
                                                  .beta_slow = 1.0f};
        break;
    case INGOT_OP_GLU:
        c->node.params.glu.kind = INGOT_GLU_GEGLU_ERF;
        break;
    case INGOT_OP_SOFT_MAX:
        c->node.params.soft_max.scale = 0.5f;
        break;
    case INGOT_OP_ATTENTION:
        c->node.params.attention.scale = 0.25f;
        break;
    default:
        break;
    }
}

static double bound_of(const struct op_case *c) {
    switch (c->op) {
    case INGOT_OP_GET_ROWS:
    case INGOT_OP_SET_ROWS:
    case INGOT_OP_CPY:
        return 0.0;
    case INGOT_OP_MUL_MAT:
    case INGOT_OP_MUL_MAT_ID:
        return check_is_block(c->src[0]->t.type) ? 5e-4 : 1e-5;
    case INGOT_OP_ATTENTION:
        return 1e-6;
    default:
        return 1e-10;
    }
}

/* What dst's buffer must hold where no float64 reference can tell: blocks that numbers are rounded to (src[0] gets other
 * numbers for it), types that are copied as they are.  NULL for everything else. */
static unsigned char *image_of(const struct op_case *c) {
    const struct tensor *ids = c->op == INGOT_OP_SET_ROWS ? c->src[1] : NULL;
    const bool moves = c->op == INGOT_OP_CPY || c->op == INGOT_OP_SET_ROWS;
    if (!moves || !c->src[0] || (c->op == INGOT_OP_SET_ROWS && !ids) || is_float(c->dst->t.type)) return NULL;
    if (ids && ids->t.type != INGOT_TYPE_I32 && ids->t.type != INGOT_TYPE_I64) return NULL;
    if (is_float(c->src[0]->t.type) && is_rounded_type(c->dst->t.type))
        return rounded_rows(c->src[0], ids, c->dst, false);
    if (ids || c->src[0]->t.type != c->dst->t.type) return NULL;
    unsigned char *image = check_alloc(c->dst->bytes); /* both are contiguous */
    memcpy(image, c->dst->host, c->dst->bytes);
    memcpy(image + c->dst->first, c->src[0]->host + c->src[0]->first, ingot_tensor_size(&c->dst->t));
    return image;
}

static void check_image(struct tensor *dst, unsigned char *image, const char *text) {
    if (is_rounded_type(dst->t.type)) {
        rounded_check(dst, image, text);
        return;
    }
    tensor_download(dst);
    if (memcmp(dst->host, image, dst->bytes) != 0) check_fail("%s: wrong bytes", text);
}

/* Asks, runs, compares the answers, and the result if there is one.  Returns the status. */
static ingot_status agree(const struct op_case *c) {
    ingot_node node = case_node(c), shapes = node;
    ingot_tensor without[INGOT_MAX_SRC];
    unsigned char *image = image_of(c);
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    tensor_upload(c->dst);
    shapes.dst.data = NULL; /* the question is about shapes and types alone */
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (shapes.src[i]) {
            without[i] = *shapes.src[i];
            without[i].data = NULL;
            shapes.src[i] = &without[i];
        }
    const ingot_status asked = ingot_supports(check_context(), &shapes);
    const char *text = case_text(c);
    char why[600];
    snprintf(why, sizeof why, "%s", ingot_error(check_context()));
    if (asked != INGOT_OK && asked != INGOT_ERR_UNSUPPORTED && asked != INGOT_ERR_INVALID)
        check_fail("%s: ingot_supports gives %s: %s", text, ingot_status_name(asked), why);
    if (asked != INGOT_OK && why[0] == '\0') check_fail("%s: %s without a text", text, ingot_status_name(asked));
    if (ingot_supports(check_context(), &node) != asked) check_fail("%s: ingot_supports looks at data pointers", text);
    unsigned char *before = check_alloc(c->dst->bytes);
    memcpy(before, c->dst->host, c->dst->bytes);
    const ingot_status st = ingot_compute(check_context(), &node);
    if (st != asked)
        check_fail("%s dst %s: ingot_supports says %s (%s), ingot_compute %s: %s", text, check_shape(&c->dst->t),
                   ingot_status_name(asked), why, ingot_status_name(st), ingot_error(check_context()));
    if (st == INGOT_OK && image) {
        check_image(c->dst, image, text);
    } else if (st == INGOT_OK) {
        const double *ref = case_reference(c);
        double bound = bound_of(c);
        if (c->op == INGOT_OP_MUL_MAT || c->op == INGOT_OP_MUL_MAT_ID) bound *= case_cancellation(c, ref);
        check_result(c->dst, ref, bound, text);
    } else {
        check_unchanged(c->dst, text);
    }
    return st;
}

/* Shapes that fit the op, k elements wide. */
static struct op_case fitting(ingot_op op, ingot_type a, ingot_type b, ingot_type dst, int64_t k, int which) {
    struct op_case c = {.op = op};
    const int64_t n = 3, m = which ? 1 : 5, z = which ? 2 : 1;
    switch (op) {
    case INGOT_OP_GET_ROWS:
        c.src[0] = tensor_new(a, k, m + 2, z, 1, NULL), c.src[1] = tensor_new(b, n, z, 1, 1, NULL),
        c.dst = tensor_new(dst, k, n, z, 1, NULL);
        break;
    case INGOT_OP_SET_ROWS:
        c.src[0] = tensor_new(a, k, 1, z, 1, NULL), c.src[1] = tensor_new(b, 1, 1, 1, 1, NULL),
        c.dst = tensor_new(dst, k, 3, z, 1, NULL);
        break;
    case INGOT_OP_ROPE:
        c.src[0] = tensor_new(a, k, m, n, z, NULL), c.src[1] = tensor_new(b, n, 1, 1, 1, NULL),
        c.dst = tensor_new(dst, k, m, n, z, NULL);
        break;
    case INGOT_OP_MUL_MAT:
        c.src[0] = tensor_new(a, k, m, 1, 1, NULL), c.src[1] = tensor_new(b, k, n, z, 1, NULL),
        c.dst = tensor_new(dst, m, n, z, 1, NULL);
        break;
    case INGOT_OP_MUL_MAT_ID:
        c.src[0] = tensor_new(a, k, m, 3, 1, NULL), c.src[1] = tensor_new(b, k, z, n, 1, NULL);
        c.src[2] = tensor_new(INGOT_TYPE_I32, 2, n, 1, 1, NULL), c.dst = tensor_new(dst, m, 2, n, 1, NULL);
        break;
    case INGOT_OP_ATTENTION:
        c.src[0] = tensor_new(a, k, n, 4, z, NULL), c.src[1] = tensor_new(b, k, m, 2, z, NULL),
        c.src[2] = tensor_new(b, k, m, 2, z, NULL);
        c.dst = tensor_new(dst, k, 4, n, z, NULL);
        break;
    default:
        c.src[0] = tensor_new(a, k, m, n, z, NULL), c.dst = tensor_new(dst, k, m, n, z, NULL);
        if (sources_of(op) > 1) c.src[1] = tensor_new(b, k, m, n, z, NULL);
    }
    for (int i = 0; i < INGOT_MAX_SRC; i++)
        if (c.src[i]) fill(c.src[i]);
    if (op == INGOT_OP_SET_ROWS) fill(c.dst);
    set_params(&c);
    return c;
}

static void type_triples(void **state) {
    const ingot_op op = (ingot_op)(uintptr_t)*state;
    const bool one_source = sources_of(op) == 1;
    int done = 0;
    for (int a = 0; a < type_count; a++)
        for (int b = 0; b < (one_source ? 1 : type_count); b++)
            for (int d = 0; d < type_count; d++)
                for (int which = 0; which < 2; which++) {
                    int64_t block = ingot_type_block(types[a]), k;
                    if (!one_source && ingot_type_block(types[b]) > block) block = ingot_type_block(types[b]);
                    if (ingot_type_block(types[d]) > block) block = ingot_type_block(types[d]);
                    k = block > 1 ? block : which ? 64 : 5;
                    /* Where the width of a tensor is not k it must still hold whole blocks of its type. */
                    if ((op == INGOT_OP_MUL_MAT || op == INGOT_OP_MUL_MAT_ID) && ingot_type_block(types[d]) > 1)
                        continue;
                    if ((op == INGOT_OP_GET_ROWS || op == INGOT_OP_SET_ROWS || op == INGOT_OP_ROPE) &&
                        ingot_type_block(types[b]) > 1)
                        continue;
                    struct op_case c = fitting(op, types[a], types[b], types[d], k, which);
                    const ingot_status st = agree(&c);
                    const bool must = listed(op, types[a], types[b], types[d]);
                    if (must && st != INGOT_OK)
                        check_fail("%s dst %s: in the header's table, but %s: %s", case_text(&c),
                                   check_shape(&c.dst->t), ingot_status_name(st), ingot_error(check_context()));
                    if (!must && st == INGOT_OK)
                        check_fail("%s dst %s: not in the header's table, but done", case_text(&c),
                                   check_shape(&c.dst->t));
                    done += st == INGOT_OK;
                    check_release();
                }
    assert_true(done > 0);
}

static int64_t pick(const int64_t *from, size_t count) {
    return from[check_range(0, (int64_t)count - 1)];
}

static struct tensor *random_tensor(ingot_type type) {
    const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 0}, widths[] = {1, 2, 5, 32, 64};
    const struct layout how = {{check_range(0, 1), check_range(0, 1), 0, 0}, {0, 1, 2, 3}, 0};
    const int64_t block = ingot_type_block(type);
    return tensor_new(type, block > 1 ? block * check_range(0, 2) : pick(widths, COUNT(widths)),
                      pick(sizes, COUNT(sizes)), pick(sizes, COUNT(sizes) - 2), pick(sizes, COUNT(sizes) - 2), &how);
}

static void random_shapes(void **state) {
    (void)state;
    int of[3] = {0};
    for (int i = 0; i < 4000; i++) {
        struct op_case c = {.op = (ingot_op)check_range(INGOT_OP_NONE + 1, INGOT_OP_COUNT - 1)};
        const int given = (int)check_range(0, 9) ? sources_of(c.op) : (int)check_range(0, INGOT_MAX_SRC);
        for (int s = 0; s < given; s++) {
            /* Types that the op could take, as a rule. */
            ingot_type type = types[check_range(0, type_count - 1)];
            if (check_range(0, 3))
                type = s == 0                        ? INGOT_TYPE_F32
                       : c.op == INGOT_OP_ATTENTION  ? INGOT_TYPE_F16
                       : c.op == INGOT_OP_MUL_MAT_ID ? (s == 2 ? INGOT_TYPE_I32 : INGOT_TYPE_F32)
                       : c.op == INGOT_OP_GET_ROWS || c.op == INGOT_OP_SET_ROWS || c.op == INGOT_OP_ROPE
                           ? INGOT_TYPE_I32
                           : INGOT_TYPE_F32;
            c.src[s] = random_tensor(type);
            fill(c.src[s]);
        }
        c.dst = check_range(0, 1) && c.src[0] && c.src[0]->t.type == INGOT_TYPE_F32
                    ? tensor_like(c.src[0], INGOT_TYPE_F32)
                    : random_tensor(INGOT_TYPE_F32);
        if (c.op == INGOT_OP_SET_ROWS) {
            if (c.src[1] && c.src[1]->t.ne[0] > 1) { /* ids must be distinct */
                check_release();
                continue;
            }
            fill(c.dst);
        }
        set_params(&c);
        /* Rope with more dimensions than the row has, and other nonsense, now and then. */
        if (c.op == INGOT_OP_ROPE && check_range(0, 4) == 0) c.node.params.rope.n_dims = (int32_t)check_range(-2, 70);
        const ingot_status st = agree(&c);
        of[st == INGOT_OK ? 0 : st == INGOT_ERR_UNSUPPORTED ? 1 : 2]++;
        check_release();
    }
    print_message("%d done, %d unsupported, %d invalid\n", of[0], of[1], of[2]);
    assert_true(of[0] > 50 && of[2] > 50);
}

static void nonsense(void **state) {
    (void)state;
    /* Numbers that are no op and no type, missing sources, missing data: a status, never a crash. */
    struct op_case good = fitting(INGOT_OP_ADD, INGOT_TYPE_F32, INGOT_TYPE_F32, INGOT_TYPE_F32, 5, 0);
    const int ops[] = {-1, 0, INGOT_OP_COUNT, INGOT_OP_COUNT + 1, 1000};
    for (size_t i = 0; i < COUNT(ops); i++) {
        ingot_node node = case_node(&good);
        node.op = (ingot_op)ops[i];
        CHECK_STATUS(ingot_supports(check_context(), &node), INGOT_ERR_INVALID);
        CHECK_STATUS(ingot_compute(check_context(), &node), INGOT_ERR_INVALID);
    }
    const int no_types[] = {-1, 4, 5, 31, 38, 41, 200, 1 << 20};
    for (size_t i = 0; i < COUNT(no_types); i++)
        for (int where = 0; where < 3; where++) {
            ingot_node node = case_node(&good);
            ingot_tensor a = *node.src[0], b = *node.src[1];
            *(where == 0 ? &a.type : where == 1 ? &b.type : &node.dst.type) = (ingot_type)no_types[i];
            node.src[0] = &a, node.src[1] = &b;
            const ingot_status st = ingot_supports(check_context(), &node);
            assert_true(st == INGOT_ERR_INVALID || st == INGOT_ERR_UNSUPPORTED);
            CHECK_STATUS(ingot_compute(check_context(), &node), st);
        }
    CHECK_STATUS(ingot_supports(check_context(), NULL), INGOT_ERR_INVALID);
    CHECK_STATUS(ingot_compute(check_context(), NULL), INGOT_ERR_INVALID);
    ingot_node node = case_node(&good);
    assert_int_equal(ingot_supports(NULL, &node), INGOT_ERR_INVALID);
    assert_int_equal(ingot_compute(NULL, &node), INGOT_ERR_INVALID);
    node.src[1] = NULL;
    CHECK_STATUS(ingot_compute(check_context(), &node), INGOT_ERR_INVALID);
    node = case_node(&good);
    node.dst.data = NULL;
    CHECK_OK(ingot_supports(check_context(), &node));
    CHECK_STATUS(ingot_compute(check_context(), &node), INGOT_ERR_INVALID);
    assert_int_equal(agree(&good), INGOT_OK); /* still usable */
}

int main(void) {
    list_types();
    struct CMUnitTest tests[INGOT_OP_COUNT + 4];
    static char names[INGOT_OP_COUNT][48];
    size_t count = 0;
    for (int op = INGOT_OP_NONE + 1; op < INGOT_OP_COUNT; op++, count++) {
        snprintf(names[op], sizeof names[op], "type_triples_%s", ingot_op_name((ingot_op)op));
        tests[count] = (struct CMUnitTest){names[op], type_triples, NULL, check_teardown, (void *)(uintptr_t)op};
    }
    tests[count++] = (struct CMUnitTest)CHECK_TEST(random_shapes);
    tests[count++] = (struct CMUnitTest)CHECK_TEST(nonsense);
    return check_main("supports", tests, count);
}
