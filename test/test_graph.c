// SPDX-License-Identifier: MIT
/* test_graph.c - graphs as a caller builds and plans them: shapes and refusals of the builders, memory of plans.
 * (Runs: test_graph_run.c.  Random graphs: test_graph_random.c.) */
#include "layer.h"

/* ---- building */

static void check_tensor(const ingot_tensor *t, ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    assert_non_null(t);
    assert_int_equal(t->type, type);
    const int64_t ne[4] = {ne0, ne1, ne2, ne3};
    assert_memory_equal(t->ne, ne, sizeof ne);
}

static ingot_tensor *plain(ingot_graph *g, ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    ingot_tensor t;
    assert_int_equal(ingot_tensor_init(&t, type, 4, (int64_t[]){ne0, ne1, ne2, ne3}, NULL), INGOT_OK);
    return ingot_leaf(g, &t);
}

static void graph_shapes(void **state) {
    struct rig *r = rig_open(true, true);
    ingot_graph *g = NULL;
    (void)state;
    RIG_OK(r, ingot_graph_create(r->ctx, &g));
    ingot_tensor *f = plain(g, INGOT_TYPE_F32, 64, 3, 2, 1), *h = plain(g, INGOT_TYPE_F16, 64, 3, 2, 1);
    ingot_tensor *ids = plain(g, INGOT_TYPE_I32, 5, 2, 1, 1), *w = plain(g, INGOT_TYPE_Q4_0, 64, 10, 1, 1);
    ingot_tensor *pos = plain(g, INGOT_TYPE_I32, 2, 1, 1, 1), *q = plain(g, INGOT_TYPE_F32, 32, 5, 4, 3);
    ingot_tensor *k = plain(g, INGOT_TYPE_F16, 32, 9, 2, 3);
    check_tensor(ingot_get_rows(g, f, ids), INGOT_TYPE_F32, 64, 5, 2, 1);
    check_tensor(ingot_add(g, f, f), INGOT_TYPE_F32, 64, 3, 2, 1);
    check_tensor(ingot_mul(g, f, plain(g, INGOT_TYPE_F32, 64, 1, 1, 1)), INGOT_TYPE_F32, 64, 3, 2, 1);
    check_tensor(ingot_rms_norm(g, f, 0), INGOT_TYPE_F32, 64, 3, 2, 1);
    check_tensor(ingot_rope(g, h, pos, NULL, &rope), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_silu(g, h), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_relu(g, h), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_gelu(g, h), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_gelu_erf(g, h), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_gelu_quick(g, h), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_glu(g, f, NULL, &swiglu), INGOT_TYPE_F32, 32, 3, 2, 1);
    check_tensor(ingot_glu(g, f, f, &swiglu), INGOT_TYPE_F32, 64, 3, 2, 1);
    check_tensor(ingot_soft_max(g, f, NULL, 1), INGOT_TYPE_F32, 64, 3, 2, 1);
    check_tensor(ingot_mul_mat(g, w, f, INGOT_PREC_F32), INGOT_TYPE_F32, 10, 3, 2, 1);
    check_tensor(ingot_attention(g, q, k, k, NULL, &attention), INGOT_TYPE_F32, 32, 4, 5, 3);
    check_tensor(ingot_cast(g, f, INGOT_TYPE_F16), INGOT_TYPE_F16, 64, 3, 2, 1);
    check_tensor(ingot_permute(g, f, 2, 0, 1, 3), INGOT_TYPE_F32, 3, 2, 64, 1);
    check_tensor(ingot_cont(g, ingot_permute(g, f, 2, 0, 1, 3)), INGOT_TYPE_F32, 3, 2, 64, 1);
    check_tensor(ingot_reshape(g, f, 2, (int64_t[]){32, 12}), INGOT_TYPE_F32, 32, 12, 1, 1);
    check_tensor(ingot_view(g, f, 2, (int64_t[]){64, 2}, (size_t[]){0, 512}, 256), INGOT_TYPE_F32, 64, 2, 1, 1);
    assert_ptr_equal(ingot_cpy(g, f, h), h);
    ingot_tensor *two = plain(g, INGOT_TYPE_F32, 64, 2, 2, 1);
    assert_ptr_equal(ingot_set_rows(g, h, two, pos), h);
    ingot_plan_info info;
    RIG_OK(r, ingot_graph_plan(g, &(ingot_plan_options){.size = sizeof(ingot_plan_options), .measure = 1}, &info));
    assert_int_equal(info.nodes, 19);
    ingot_graph_destroy(g);
    rig_close(r);
}

/* One misuse of each builder: what it says, and that the plan says it again. */
static void misuse(int number, ingot_graph *g, ingot_tensor *stranger) {
    ingot_tensor *f = plain(g, INGOT_TYPE_F32, 64, 3, 2, 1), *s = plain(g, INGOT_TYPE_F32, 63, 3, 2, 1);
    ingot_tensor *ids = plain(g, INGOT_TYPE_I32, 5, 1, 1, 1), *w = plain(g, INGOT_TYPE_Q4_0, 64, 10, 1, 1), bad = *f;
    ingot_tensor *k = plain(g, INGOT_TYPE_F16, 32, 9, 2, 1);
    switch (number) {
    case 0:
        ingot_get_rows(g, f, f);
        break;
    case 1:
        ingot_set_rows(g, f, s, ids);
        break;
    case 2:
        ingot_cpy(g, f, s);
        break;
    case 3:
        ingot_cast(g, f, INGOT_TYPE_I32);
        break;
    case 4:
        ingot_cast(g, s, INGOT_TYPE_Q8_0); /* rows of 63 */
        break;
    case 5:
        ingot_add(g, f, s);
        break;
    case 6:
        ingot_mul(g, s, f);
        break;
    case 7:
        ingot_rms_norm(g, ids, 0);
        break;
    case 8:
        ingot_rope(g, f, ids, NULL, NULL);
        break;
    case 9:
        ingot_silu(g, ids);
        break;
    case 10:
        ingot_glu(g, f, s, &swiglu);
        break;
    case 11:
        ingot_soft_max(g, f, ids, 1);
        break;
    case 12:
        ingot_mul_mat(g, w, s, INGOT_PREC_DEFAULT);
        break;
    case 13:
        ingot_attention(g, f, k, k, NULL, NULL);
        break;
    case 14:
        ingot_attention(g, f, k, k, NULL, &attention);
        break;
    case 15:
        ingot_view(g, f, 2, (int64_t[]){64, 6}, (size_t[]){0, 256}, 256);
        break;
    case 16:
        ingot_view(g, f, 1, (int64_t[]){4}, NULL, 2);
        break;
    case 17:
        ingot_reshape(g, f, 1, (int64_t[]){65});
        break;
    case 18:
        ingot_reshape(g, ingot_permute(g, f, 1, 0, 2, 3), 1, (int64_t[]){384});
        break;
    case 19:
        ingot_permute(g, f, 0, 1, 1, 3);
        break;
    case 20:
        ingot_permute(g, w, 1, 0, 2, 3);
        break;
    case 21:
        bad.ne[1] = -1;
        ingot_leaf(g, &bad);
        break;
    case 22:
        bad.type = INGOT_TYPE_Q4_0;
        bad.ne[0] = 65;
        ingot_weight(g, &bad);
        break;
    case 23:
        bad.ne[1] = (int64_t)1 << 40;
        bad.nb[1] = (size_t)1 << 40;
        ingot_leaf(g, &bad);
        break;
    case 24:
        ingot_leaf(g, NULL);
        break;
    case 25:
        ingot_silu(g, stranger);
        break;
    case 26:
        ingot_add(g, f, NULL);
        break;
    case 27:
        ingot_cpy(g, f, ingot_weight(g, &bad));
        break;
    case 28:
        ingot_output(g, NULL);
        break;
    default:
        ingot_view(g, f, 5, (int64_t[]){1, 1, 1, 1, 1}, (size_t[]){4, 4, 4, 4, 4}, 0);
        break;
    }
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void graph_misuse(void **state) {
    static const char *const names[] = {
        "get_rows", "set_rows", "cpy",     "cpy",       "cpy",       "add",  "mul",  "rms_norm", "rope",    "silu",
        "glu",      "soft_max", "mul_mat", "attention", "attention", "view", "view", "reshape",  "reshape", "permute",
        "permute",  "leaf",     "weight",  "leaf",      "leaf",      "silu", "add",  "weight",   "output",  "view"};
    static const char *const expected[COUNT(names)] = {[15] = "past the end at 1536",
                                                       [16] = "expected multiples of 4",
                                                       [17] = "65 elements, expected 384",
                                                       [22] = "expected a multiple of q4_0's block of 32"};
    struct rig *r = rig_open(true, true);
    ingot_graph *other = NULL;
    (void)state;
    RIG_OK(r, ingot_graph_create(r->ctx, &other));
    ingot_tensor *stranger = plain(other, INGOT_TYPE_F32, 64, 1, 1, 1);
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        ingot_graph *g = NULL;
        ingot_plan_info info;
        char first[INGOT_ERROR_TEXT];
        RIG_OK(r, ingot_graph_create(r->ctx, &g));
        misuse(i, g, stranger);
        snprintf(first, sizeof first, "%s", ingot_error(r->ctx));
        if (!strstr(first, names[i])) check_fail("misuse %d says \"%s\", not %s", i, first, names[i]);
        if (expected[i] && !strstr(first, expected[i]))
            check_fail("misuse %d says \"%s\", not %s", i, first, expected[i]);
        assert_null(ingot_add(g, NULL, NULL)); /* NULL passed on; the first error stays */
        assert_null(plain(g, INGOT_TYPE_F32, 4, 1, 1, 1));
        assert_int_equal(ingot_graph_plan(g, NULL, &info), INGOT_ERR_INVALID);
        assert_string_equal(ingot_error(r->ctx), first);
        assert_int_equal(ingot_graph_run(g), INGOT_ERR_STATE);
        ingot_graph_destroy(g);
    }
    ingot_graph_destroy(other);
    assert_int_equal(ingot_graph_create(r->ctx, NULL), INGOT_ERR_INVALID);
    assert_int_equal(ingot_graph_plan(NULL, NULL, NULL), INGOT_ERR_INVALID);
    assert_int_equal(ingot_graph_run(NULL), INGOT_ERR_INVALID);
    ingot_graph_destroy(NULL);
    rig_close(r);
}

/* ---- plans */

static void graph_plan_rules(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    ingot_plan_info a, b;
    (void)state;
    layer_make(r, &l, 2);
    assert_int_equal(ingot_graph_run(l.g), INGOT_ERR_STATE);
    assert_int_equal(ingot_graph_plan(l.g, &(ingot_plan_options){0}, NULL), INGOT_ERR_INVALID);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, &a));
    RIG_OK(r, ingot_graph_run(l.g));
    RIG_OK(r, ingot_graph_plan(l.g, NULL, &b));
    assert_true(rig_same_info(&a, &b));
    assert_int_equal(a.nodes, 14);
    assert_int_equal(a.fused, 4);             /* norm * row, two residuals, the gated product */
    assert_int_equal(a.launches, 14 - 4 + 1); /* roundings are done by producers, but a gated product's is not */
    assert_true(a.arena_bytes < a.naive_bytes);
    /* too late to add, but the plan stays good */
    assert_null(ingot_silu(l.g, l.y));
    assert_non_null(strstr(ingot_error(r->ctx), "planned"));
    RIG_OK(r, ingot_graph_run(l.g));
    RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
    ingot_graph_destroy(l.g);
    rig_close(r);
}

static void graph_measure(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    ingot_plan_info measured, planned;
    (void)state;
    layer_make(r, &l, 2);
    long device = r->calls[INGOT_MEMORY_DEVICE], live = r->live;
    ingot_plan_options options = {.size = sizeof options, .measure = 1};
    RIG_OK(r, ingot_graph_plan(l.g, &options, &measured));
    assert_int_equal(r->calls[INGOT_MEMORY_DEVICE], device);
    assert_int_equal(r->live, live);
    assert_int_equal(ingot_graph_run(l.g), INGOT_ERR_STATE);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, &planned));
    assert_int_equal(r->calls[INGOT_MEMORY_DEVICE], device + 1);
    assert_true(rig_same_info(&measured, &planned));
    ingot_graph_destroy(l.g);
    rig_close(r);
}

static void graph_callers_arena(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    ingot_plan_info info;
    ingot_plan_options options = {.size = sizeof options, .measure = 1};
    (void)state;
    layer_make(r, &l, 1);
    RIG_OK(r, ingot_graph_plan(l.g, &options, &info));
    size_t need = info.arena_bytes;
    ingot_tensor arena = rig_tensor(r, INGOT_TYPE_I8, (int64_t)need + 512, 1, 1, 1);
    options = (ingot_plan_options){sizeof options, arena.data, need - 1, 0};
    memset(&info, 0, sizeof info);
    assert_int_equal(ingot_graph_plan(l.g, &options, &info), INGOT_ERR_DEVICE_MEMORY);
    assert_int_equal(info.arena_bytes, need);
    assert_int_equal(ingot_graph_run(l.g), INGOT_ERR_STATE);
    options.arena = (char *)arena.data + 16;
    options.arena_bytes = need + 256;
    assert_int_equal(ingot_graph_plan(l.g, &options, &info), INGOT_ERR_INVALID);
    options.arena = (char *)arena.data + 256;
    options.arena_bytes = need;
    long device = r->calls[INGOT_MEMORY_DEVICE];
    RIG_OK(r, ingot_graph_plan(l.g, &options, &info));
    for (int i = 0; i < 3; i++) RIG_OK(r, ingot_graph_run(l.g));
    assert_int_equal(r->calls[INGOT_MEMORY_DEVICE], device);
    unsigned char *bytes = rig_read(r, &arena);
    for (size_t i = 0; i < 512; i++) assert_int_equal(bytes[i < 256 ? i : need + i], 0); /* as rig_tensor left them */
    free(bytes);
    ingot_graph_destroy(l.g);
    rig_close(r);
}

static void graph_null_and_overlapping_weights(void **state) {
    struct rig *r = rig_open(true, true);
    ingot_graph *g = NULL;
    ingot_tensor w = rig_tensor(r, INGOT_TYPE_F32, 8, 8, 1, 1), x = rig_tensor(r, INGOT_TYPE_F32, 8, 1, 1, 1);
    (void)state;
    for (int way = 0; way < 3; way++) {
        ingot_tensor here = w;
        RIG_OK(r, ingot_graph_create(r->ctx, &g));
        if (way == 0) here.data = NULL;
        ingot_tensor *y = ingot_mul_mat(g, ingot_weight(g, &here), ingot_leaf(g, &x), INGOT_PREC_F32);
        if (way == 1) ingot_cpy(g, y, ingot_view(g, ingot_leaf(g, &w), 1, (int64_t[]){8}, NULL, 32));
        if (way == 2) RIG_OK(r, ingot_graph_plan(g, NULL, NULL));
        else assert_int_equal(ingot_graph_plan(g, NULL, NULL), INGOT_ERR_INVALID);
        if (way != 2) assert_non_null(strstr(ingot_error(r->ctx), "weight f32"));
        ingot_graph_destroy(g);
    }
    rig_close(r);
}

static void graph_empty(void **state) {
    struct rig *r = rig_open(true, true);
    ingot_graph *g = NULL;
    ingot_plan_info info;
    (void)state;
    for (int way = 0; way < 2; way++) {
        RIG_OK(r, ingot_graph_create(r->ctx, &g));
        ingot_tensor *x = way ? ingot_silu(g, plain(g, INGOT_TYPE_F32, 64, 0, 1, 1)) : NULL;
        if (way) ingot_output(g, ingot_mul_mat(g, plain(g, INGOT_TYPE_Q4_0, 64, 4, 1, 1), x, INGOT_PREC_DEFAULT));
        ingot_status st = ingot_graph_plan(g, NULL, &info);
        assert_int_equal(st, way ? INGOT_ERR_INVALID : INGOT_OK); /* the weight of 4 rows has no data */
        ingot_graph_destroy(g);
    }
    RIG_OK(r, ingot_graph_create(r->ctx, &g));
    ingot_tensor w = rig_tensor(r, INGOT_TYPE_Q4_0, 64, 4, 1, 1);
    ingot_tensor *x = ingot_rms_norm(g, plain(g, INGOT_TYPE_F32, 64, 0, 1, 1), 0);
    ingot_output(g, ingot_mul_mat(g, ingot_weight(g, &w), x, INGOT_PREC_DEFAULT));
    RIG_OK(r, ingot_graph_plan(g, NULL, &info));
    assert_int_equal(info.launches, 0);
    for (int i = 0; i < 3; i++) RIG_OK(r, ingot_graph_run(g));
    ingot_graph_destroy(g);
    rig_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(graph_shapes),  CHECK_TEST(graph_misuse),        CHECK_TEST(graph_plan_rules),
        CHECK_TEST(graph_measure), CHECK_TEST(graph_callers_arena), CHECK_TEST(graph_null_and_overlapping_weights),
        CHECK_TEST(graph_empty),
    };
    return check_main("graph", tests, sizeof tests / sizeof tests[0]);
}
