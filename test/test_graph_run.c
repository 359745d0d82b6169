// SPDX-License-Identifier: MIT
/* test_graph_run.c - planned graphs on the stream: replays with changed data, caches, aliasing, capture by the caller,
 * failures of every allocation, two threads, no growth. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "layer.h"

/* ---- the layer op by op */

static ingot_tensor step_to(struct rig *r, ingot_node node, ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    ingot_tensor t = rig_tensor(r, type, ne0, ne1, ne2, 1);
    rig_compute(r, node, t);
    return t;
}

static ingot_tensor direct_product(struct rig *r, const ingot_tensor *w, const ingot_tensor *x) {
    return step_to(r, (ingot_node){.op = INGOT_OP_MUL_MAT, .src = {w, x}}, INGOT_TYPE_F32, w->ne[1], x->ne[1], 1);
}

static ingot_tensor direct_two(struct rig *r, ingot_op op, const ingot_tensor *a, const ingot_tensor *b) {
    ingot_node node = {.op = op, .src = {a, b}, .params.rms_norm = {1e-5f}};
    if (op == INGOT_OP_GLU) node.params.glu = swiglu;
    return step_to(r, node, INGOT_TYPE_F32, op == INGOT_OP_GLU ? a->ne[0] / 2 : a->ne[0], a->ne[1], 1);
}

/* What layer_build describes, by direct calls; updates the same cache. */
static ingot_tensor layer_direct(struct rig *r, const struct layer *l) {
    int64_t n = l->x.ne[1];
    ingot_tensor cache = l->cache, h = direct_two(r, INGOT_OP_RMS_NORM, &l->x, NULL);
    h = direct_two(r, INGOT_OP_MUL, &h, &l->norm_w);
    ingot_tensor q = direct_product(r, &l->wq, &h), k = direct_product(r, &l->wk, &h), a, kv = cache;
    ingot_tensor split = q;
    ingot_tensor_init(&split, INGOT_TYPE_F32, 3, (int64_t[]){32, 2, n}, q.data);
    q = step_to(r, (ingot_node){.op = INGOT_OP_ROPE, .src = {&split, &l->pos}, .params.rope = rope}, INGOT_TYPE_F32, 32,
                2, n);
    rig_compute(r, (ingot_node){.op = INGOT_OP_SET_ROWS, .src = {&k, &l->ids}}, cache);
    split = q;
    split.ne[1] = n, split.ne[2] = 2, split.nb[1] = q.nb[2], split.nb[2] = q.nb[1];
    kv.ne[0] = 32, kv.ne[2] = 2, kv.nb[1] = K * 2, kv.nb[2] = 64;
    a = step_to(
        r, (ingot_node){.op = INGOT_OP_ATTENTION, .src = {&split, &kv, &kv, &l->len}, .params.attention = attention},
        INGOT_TYPE_F32, 32, 2, n);
    ingot_tensor_init(&a, INGOT_TYPE_F32, 2, (int64_t[]){K, n}, a.data);
    a = direct_product(r, &l->wo, &a);
    ingot_tensor x = direct_two(r, INGOT_OP_ADD, &l->x, &a);
    h = direct_two(r, INGOT_OP_RMS_NORM, &x, NULL);
    h = direct_product(r, &l->up, &h);
    h = direct_two(r, INGOT_OP_GLU, &h, NULL);
    h = direct_product(r, &l->down, &h);
    return direct_two(r, INGOT_OP_ADD, &h, &x);
}

/* ---- runs */

static void generation(bool fuse, bool graphs, int n) {
    struct rig *r = rig_open(fuse, graphs);
    struct layer l, twin;
    layer_make(r, &l, n);
    twin = l;
    twin.cache = rig_twin(r, &l.cache);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
    for (int step = 0; step < 6; step++) {
        layer_step(r, &l, step);
        RIG_OK(r, ingot_graph_run(l.g));
        int count = r->buffer_count;
        ingot_tensor y = layer_direct(r, &twin);
        if (!rig_equal(r, l.y, &y)) check_fail("step %d: the result differs (fuse %d, replay %d)", step, fuse, graphs);
        if (!rig_equal(r, &l.cache, &twin.cache)) check_fail("step %d: the cache differs", step);
        while (r->buffer_count > count) ingot_buffer_destroy(r->buffers[--r->buffer_count]);
    }
    assert_int_equal(l.g->replay != NULL, graphs);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    ingot_graph_destroy(l.g);
    rig_close(r);
}

static void graph_generates_like_direct_calls(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) generation(way & 1, way & 2, 1 + way);
}

/* INGOT_FUSE and INGOT_GRAPH as the environment gives them. */
static void graph_environment(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        ingot_context *ctx = NULL;
        setenv("INGOT_FUSE", on ? "1" : "0", 1);
        setenv("INGOT_GRAPH", on ? "1" : "off", 1);
        assert_int_equal(ingot_context_create(NULL, &ctx), INGOT_OK);
        assert_int_equal(ctx->fuse, on);
        assert_int_equal(ctx->graphs, on);
        ingot_context_destroy(ctx);
    }
    unsetenv("INGOT_FUSE");
    unsetenv("INGOT_GRAPH");
}

/* Nothing may be taken while running: 1000 replays, most of them without any wait. */
static void graph_runs_take_no_memory(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    size_t held = 0, held_after = 0;
    (void)state;
    layer_make(r, &l, 1);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
    layer_step(r, &l, 0);
    RIG_OK(r, ingot_graph_run(l.g));
    RIG_OK(r, ingot_context_memory(r->ctx, NULL, &held));
    unsigned char *first = rig_read(r, l.y);
    long live = r->live, calls = r->calls[0] + r->calls[1] + r->calls[2];
    for (int i = 0; i < 1000; i++) RIG_OK(r, ingot_graph_run(l.g));
    unsigned char *last = rig_read(r, l.y);
    assert_memory_equal(first, last, ingot_tensor_size(l.y));
    assert_int_equal(r->live, live);
    assert_int_equal(r->calls[0] + r->calls[1] + r->calls[2], calls);
    RIG_OK(r, ingot_context_memory(r->ctx, NULL, &held_after));
    assert_int_equal(held, held_after);
    free(first);
    free(last);
    ingot_graph_destroy(l.g);
    rig_close(r);
}

/* All intermediates kept: none may lie on another. */
static void graph_outputs_are_kept(void **state) {
    struct rig *r = rig_open(true, true);
    ingot_graph *g = NULL;
    ingot_tensor *t[12], x = rig_tensor(r, INGOT_TYPE_F32, 100, 3, 1, 1), direct[12];
    (void)state;
    RIG_OK(r, ingot_graph_create(r->ctx, &g));
    t[0] = ingot_leaf(g, &x);
    direct[0] = x;
    for (int i = 1; i < 12; i++) {
        t[i] = i % 2 ? ingot_silu(g, t[i - 1]) : ingot_add(g, t[i - 1], t[0]);
        ingot_output(g, i % 3 ? t[i] : ingot_reshape(g, t[i], 1, (int64_t[]){300})); /* through a view as well */
        direct[i] = direct_two(r, i % 2 ? INGOT_OP_SILU : INGOT_OP_ADD, &direct[i - 1], i % 2 ? NULL : &x);
    }
    RIG_OK(r, ingot_graph_plan(g, NULL, NULL));
    for (int run = 0; run < 4; run++) {
        RIG_OK(r, ingot_graph_run(g));
        for (int i = 1; i < 12; i++) assert_true(rig_equal(r, t[i], &direct[i]));
    }
    ingot_graph_destroy(g);
    rig_close(r);
}

/* r <- W x + r, over and over: the residual is read where the result goes. */
static void graph_residual_in_place(void **state) {
    struct rig *r = rig_open(true, true);
    ingot_graph *g = NULL;
    ingot_plan_info info;
    ingot_tensor w = rig_tensor(r, INGOT_TYPE_Q4_0, 64, 64, 1, 1), x = rig_tensor(r, INGOT_TYPE_F32, 64, 2, 1, 1);
    ingot_tensor sum = rig_tensor(r, INGOT_TYPE_F32, 64, 2, 1, 1), direct = rig_twin(r, &sum);
    (void)state;
    RIG_OK(r, ingot_graph_create(r->ctx, &g));
    ingot_tensor *s = ingot_leaf(g, &sum);
    ingot_tensor *p = ingot_mul_mat(g, ingot_weight(g, &w), ingot_leaf(g, &x), INGOT_PREC_DEFAULT);
    ingot_cpy(g, ingot_add(g, s, p), s);
    RIG_OK(r, ingot_graph_plan(g, NULL, &info));
    assert_int_equal(info.fused, 1);
    for (int run = 0; run < 4; run++) {
        RIG_OK(r, ingot_graph_run(g));
        ingot_tensor product = direct_product(r, &w, &x);
        direct = direct_two(r, INGOT_OP_ADD, &direct, &product);
        assert_true(rig_equal(r, &sum, &direct));
    }
    /* the op itself, as a later fusion may call it: dst is the residual */
    ingot_tensor product = direct_product(r, &w, &x), expected = direct_two(r, INGOT_OP_ADD, &product, &sum);
    struct ingot_call call = {.op = INGOT_OP_MUL_MAT, .dst = &sum, .src = {&w, &x}, .add = {&sum}};
    assert_true(ingot_mul_mat_takes_add(r->ctx, &call, &sum));
    ingot_graph_destroy(g);
    RIG_OK(r, ingot_graph_create(r->ctx, &g));
    ingot_tensor *d = ingot_leaf(g, &sum);
    call.dst = call.add[0] = d;
    call.src[0] = ingot_weight(g, &w);
    call.src[1] = ingot_leaf(g, &x);
    g->nodes = ingot_grow(r->ctx, NULL, &g->node_capacity, 0, sizeof call);
    g->nodes[g->node_count++] = call;
    RIG_OK(r, ingot_graph_plan(g, NULL, NULL));
    RIG_OK(r, ingot_graph_run(g));
    assert_true(rig_equal(r, &sum, &expected));
    ingot_graph_destroy(g);
    rig_close(r);
}

/* c = a + b; d = norm(c) * w + z, d copied onto a, then onto b; w as wide as c (fused) and half as wide (not). */
static void graph_norm_chain_written_over_its_inputs(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        struct rig *r = rig_open(way & 1, true);
        ingot_graph *g = NULL;
        ingot_tensor t[4], c, d;
        for (int i = 0; i < 4; i++)
            t[i] = rig_tensor(r, INGOT_TYPE_F32, i == 2 && (way & 2) ? 32 : 64, i == 2 ? 1 : 3, 1, 1);
        c = direct_two(r, INGOT_OP_ADD, &t[0], &t[1]);
        c = direct_two(r, INGOT_OP_RMS_NORM, &c, NULL);
        c = direct_two(r, INGOT_OP_MUL, &c, &t[2]);
        d = direct_two(r, INGOT_OP_ADD, &c, &t[3]);
        RIG_OK(r, ingot_graph_create(r->ctx, &g));
        ingot_tensor *a = ingot_leaf(g, &t[0]), *b = ingot_leaf(g, &t[1]);
        ingot_tensor *y = ingot_mul(g, ingot_rms_norm(g, ingot_add(g, a, b), 1e-5f), ingot_weight(g, &t[2]));
        ingot_cpy(g, ingot_add(g, y, ingot_leaf(g, &t[3])), way & 4 ? a : b);
        RIG_OK(r, ingot_graph_plan(g, NULL, NULL));
        RIG_OK(r, ingot_graph_run(g));
        assert_true(rig_equal(r, way & 4 ? &t[0] : &t[1], &d));
        ingot_graph_destroy(g);
        rig_close(r);
    }
}

/* ---- capture */

/* The caller records two runs into a graph of its own. */
static void graph_in_callers_capture(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    cudaGraph_t outer = NULL;
    cudaGraphExec_t exec = NULL;
    (void)state;
    layer_make(r, &l, 1);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
    layer_step(r, &l, 0);
    RIG_OK(r, ingot_graph_run(l.g));
    unsigned char *expected = rig_read(r, l.y);
    assert_int_equal(cudaStreamBeginCapture(r->ctx->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    RIG_OK(r, ingot_graph_run(l.g));
    assert_int_equal(ingot_graph_plan(l.g, NULL, NULL), INGOT_ERR_STATE);
    RIG_OK(r, ingot_graph_run(l.g));
    assert_int_equal(cudaStreamEndCapture(r->ctx->stream, &outer), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, outer, 0), cudaSuccess);
    rig_fill(r, l.y);
    assert_int_equal(cudaGraphLaunch(exec, r->ctx->stream), cudaSuccess);
    unsigned char *got = rig_read(r, l.y);
    assert_memory_equal(expected, got, ingot_tensor_size(l.y));
    free(expected);
    free(got);
    assert_int_equal(cudaGraphExecDestroy(exec), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(outer), cudaSuccess);
    ingot_graph_destroy(l.g);
    rig_close(r);
}

/* The legacy stream cannot be captured: runs go on one launch at a time and leave no error. */
static void graph_without_capture(void **state) {
    struct rig *r = rig_open_on(true, true, check_random(), cudaStreamLegacy);
    struct layer l;
    (void)state;
    layer_make(r, &l, 1);
    RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
    layer_step(r, &l, 0);
    RIG_OK(r, ingot_graph_run(l.g));
    unsigned char *expected = rig_read(r, l.y);
    char text[INGOT_ERROR_TEXT];
    snprintf(text, sizeof text, "%s", ingot_error(r->ctx));
    for (int i = 0; i < 3; i++) RIG_OK(r, ingot_graph_run(l.g));
    assert_null(l.g->replay);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_string_equal(text, ingot_error(r->ctx));
    unsigned char *got = rig_read(r, l.y);
    assert_memory_equal(expected, got, ingot_tensor_size(l.y));
    free(expected);
    free(got);
    ingot_graph_destroy(l.g);
    rig_close(r);
}

/* ---- failures */

static ingot_status build_plan_run(struct layer *l, ingot_context *ctx) {
    ingot_status st = ingot_graph_create(ctx, &l->g);
    if (st != INGOT_OK) return st;
    layer_build(l);
    INGOT_TRY(ingot_graph_plan(l->g, NULL, NULL), st, done);
    for (int i = 0; i < 3; i++) INGOT_TRY(ingot_graph_run(l->g), st, done);
    st = ingot_synchronize(ctx);
done:
    return st;
}

static void graph_every_allocation_fails(void **state) {
    struct rig *r = rig_open(true, true);
    struct layer l;
    int failures = 0;
    (void)state;
    layer_data(r, &l, 2);
    layer_step(r, &l, 0);
    for (;; failures++) {
        long live = r->live;
        r->fail_in = failures;
        ingot_status st = build_plan_run(&l, r->ctx);
        bool reached = r->fail_in < 0;
        r->fail_in = -1;
        if (reached && st != INGOT_ERR_HOST_MEMORY && st != INGOT_ERR_DEVICE_MEMORY)
            check_fail("allocation %d fails: %s", failures, ingot_status_name(st));
        if (reached) assert_string_not_equal(ingot_error(r->ctx), "");
        if (!reached) RIG_OK(r, st);
        ingot_graph_destroy(l.g);
        assert_int_equal(r->live, live);
        if (!reached) break;
    }
    assert_true(failures >= 8);
    RIG_OK(r, build_plan_run(&l, r->ctx));
    ingot_graph_destroy(l.g);
    rig_close(r);
}

/* ---- threads */

static void *generate_alone(void *seed) {
    struct rig *r = rig_open_on(true, true, *(const uint64_t *)seed, NULL);
    struct layer l;
    for (int round = 0; round < 4; round++) {
        layer_make(r, &l, 1 + round % 2);
        RIG_OK(r, ingot_graph_plan(l.g, NULL, NULL));
        for (int step = 0; step < 4; step++) {
            layer_step(r, &l, step);
            RIG_OK(r, ingot_graph_run(l.g));
        }
        struct layer twin = l;
        twin.cache = rig_twin(r, &l.cache); /* holds this step's row already: writing it again changes nothing */
        ingot_tensor y = layer_direct(r, &twin);
        RIG_MUST(rig_equal(r, l.y, &y));
        ingot_graph_destroy(l.g);
        rig_clear(r);
    }
    rig_close(r);
    return NULL;
}

static void graph_two_threads(void **state) {
    pthread_t threads[2];
    uint64_t seeds[2] = {check_random(), check_random()};
    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, generate_alone, &seeds[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(graph_generates_like_direct_calls), CHECK_TEST(graph_environment),
        CHECK_TEST(graph_runs_take_no_memory),         CHECK_TEST(graph_outputs_are_kept),
        CHECK_TEST(graph_residual_in_place),           CHECK_TEST(graph_norm_chain_written_over_its_inputs),
        CHECK_TEST(graph_in_callers_capture),          CHECK_TEST(graph_without_capture),
        CHECK_TEST(graph_every_allocation_fails),      CHECK_TEST(graph_two_threads),
    };
    return check_main("graph_run", tests, sizeof tests / sizeof tests[0]);
}
