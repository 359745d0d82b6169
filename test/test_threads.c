// SPDX-License-Identifier: MIT
/* test_threads.c - contexts in several threads and on several devices, and allocations that fail.
 *
 * Threads share nothing but the library: each has its own context, and must get the bits that one thread gets alone.
 * Failure: the caller's allocator refuses the i-th request, for every i until a run needs no more: the call must say
 * out of memory, lose nothing, and succeed when tried again. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>

#include "../src/base/base.h"
#include "check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ============================================== Work for a thread ================================================= */

/* A product followed by a norm, with data that depends on `seed` alone.  cmocka's checks belong to the main thread, so
 * failures come back as text. */
struct job {
    int device, rounds;
    unsigned seed;
    ingot_type type;
    int64_t k, m, n;
    float *out;        /* m * n numbers of the last round */
    bool new_contexts; /* create and destroy a context each round */
    char error[256];
};

static bool job_failed(struct job *j, ingot_status st, const char *what, const ingot_context *ctx) {
    if (st == INGOT_OK) return false;
    if (!j->error[0])
        snprintf(j->error, sizeof j->error, "%s: %s: %.180s", what, ingot_status_name(st), ingot_error(ctx));
    return true;
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static unsigned char *job_weights(const struct job *j, size_t bytes) {
    unsigned char *w = calloc(bytes, 1);
    uint32_t state = j->seed;
    const size_t size = ingot_type_size(j->type);
    for (size_t i = 0; w && i < bytes; i++) w[i] = (unsigned char)next(&state);
    /* The scales of q4_0, q8_0: 2^-5. */
    for (size_t i = 0; w && ingot_type_block(j->type) == 32 && i < bytes; i += size) w[i] = 0x00, w[i + 1] = 0x28;
    if (w && j->type == INGOT_TYPE_F32)
        for (size_t i = 0; i < bytes; i += 4) {
            float f = (float)(next(&state) % 2001) / 1000.0f - 1.0f;
            memcpy(w + i, &f, 4);
        }
    return w;
}

static void job_round(struct job *j, ingot_context *ctx) {
    ingot_tensor w, x, y, z;
    ingot_buffer *buffers[4] = {NULL};
    ingot_tensor_init(&w, j->type, 2, (int64_t[]){j->k, j->m}, NULL);
    ingot_tensor_init(&x, INGOT_TYPE_F32, 2, (int64_t[]){j->k, j->n}, NULL);
    ingot_tensor_init(&y, INGOT_TYPE_F32, 2, (int64_t[]){j->m, j->n}, NULL);
    ingot_tensor_init(&z, INGOT_TYPE_F32, 2, (int64_t[]){j->m, j->n}, NULL);
    ingot_tensor *t[4] = {&w, &x, &y, &z};
    unsigned char *w_host = job_weights(j, ingot_tensor_size(&w));
    float *x_host = malloc(ingot_tensor_size(&x));
    uint32_t state = j->seed ^ 0x5555u;
    for (int64_t i = 0; x_host && i < j->k * j->n; i++) x_host[i] = (float)(next(&state) % 4001) / 1000.0f - 2.0f;
    for (int i = 0; i < 4; i++)
        if (job_failed(j, ingot_buffer_create_for(ctx, t[i], &buffers[i]), "buffer", ctx)) goto done;
    if (job_failed(j, ingot_buffer_set(buffers[0], 0, w_host, ingot_tensor_size(&w)), "set", ctx)) goto done;
    if (job_failed(j, ingot_buffer_set(buffers[1], 0, x_host, ingot_tensor_size(&x)), "set", ctx)) goto done;
    ingot_node product = {.op = INGOT_OP_MUL_MAT, .dst = y, .src = {&w, &x}};
    ingot_node norm = {.op = INGOT_OP_RMS_NORM, .dst = z, .src = {&y}, .params.rms_norm.eps = 1e-6f};
    if (job_failed(j, ingot_compute(ctx, &product), "mul_mat", ctx)) goto done;
    if (job_failed(j, ingot_compute(ctx, &norm), "rms_norm", ctx)) goto done;
    memset(j->out, 0xff, ingot_tensor_size(&z));
    if (job_failed(j, ingot_buffer_get(buffers[3], 0, j->out, ingot_tensor_size(&z)), "get", ctx)) goto done;
done:
    free(w_host);
    free(x_host);
    for (int i = 0; i < 4; i++) ingot_buffer_destroy(buffers[i]);
}

static void *job_run(void *arg) {
    struct job *j = arg;
    ingot_context *ctx = NULL;
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    const size_t bytes = (size_t)(j->m * j->n) * sizeof(float);
    float *first = malloc(bytes);
    options.device = j->device;
    for (int i = 0; i < j->rounds && !j->error[0]; i++) {
        if (!ctx && job_failed(j, ingot_context_create(&options, &ctx), "context", NULL)) break;
        job_round(j, ctx);
        if (i == 0) memcpy(first, j->out, bytes);
        else if (!j->error[0] && memcmp(first, j->out, bytes) != 0)
            snprintf(j->error, sizeof j->error, "round %d differs from round 0", i);
        if (j->new_contexts) {
            ingot_context_destroy(ctx);
            ctx = NULL;
        }
    }
    ingot_context_destroy(ctx);
    free(first);
    return NULL;
}

static int device_count(void) {
    int count = 0;
    CHECK_OK(ingot_device_count(&count));
    return count;
}

static void run_threads(int threads, bool new_contexts, int rounds) {
    const ingot_type types[] = {INGOT_TYPE_Q4_0, INGOT_TYPE_F32, INGOT_TYPE_Q8_0};
    const int64_t columns[] = {1, 13, 4};
    struct job jobs[16] = {0}, alone[16] = {0};
    pthread_t ids[16];
    const int devices = device_count();
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){.device = i % devices,
                               .rounds = rounds,
                               .seed = (unsigned)check_random(),
                               .type = types[i % 3],
                               .k = 96,
                               .m = 65,
                               .n = columns[i % 3],
                               .new_contexts = new_contexts};
        jobs[i].out = check_alloc((size_t)(jobs[i].m * jobs[i].n) * sizeof(float));
        alone[i] = jobs[i];
        alone[i].rounds = 1;
        alone[i].out = check_alloc((size_t)(jobs[i].m * jobs[i].n) * sizeof(float));
        job_run(&alone[i]);
        if (alone[i].error[0]) check_fail("alone: %s", alone[i].error);
        for (int64_t e = 0; e < jobs[i].m * jobs[i].n; e++)
            if (!isfinite(alone[i].out[e])) check_fail("alone: element %lld is %g", (long long)e, alone[i].out[e]);
    }
    for (int i = 0; i < threads; i++) assert_int_equal(pthread_create(&ids[i], NULL, job_run, &jobs[i]), 0);
    for (int i = 0; i < threads; i++) assert_int_equal(pthread_join(ids[i], NULL), 0);
    for (int i = 0; i < threads; i++) {
        if (jobs[i].error[0]) check_fail("thread %d: %s", i, jobs[i].error);
        if (memcmp(jobs[i].out, alone[i].out, (size_t)(jobs[i].m * jobs[i].n) * sizeof(float)) != 0)
            check_fail("thread %d: other bits than alone", i);
    }
}

static void two_threads(void **state) {
    (void)state;
    run_threads(2, false, 10);
}

static void eight_threads(void **state) {
    (void)state;
    run_threads(8, false, 5);
}

static void threads_that_come_and_go(void **state) {
    (void)state;
    run_threads(6, true, 6);
}

struct moved {
    struct job *job;
    ingot_context *ctx;
};

static void *moved_run(void *arg) {
    struct moved *m = arg;
    job_round(m->job, m->ctx);
    return NULL;
}

/* A context may pass from thread to thread. */
static void context_moves(void **state) {
    (void)state;
    ingot_context *ctx = NULL;
    CHECK_OK(ingot_context_create(NULL, &ctx));
    struct job a = {.seed = 7, .type = INGOT_TYPE_Q4_0, .k = 64, .m = 33, .n = 2}, b = a, c = a;
    a.out = check_alloc(66 * sizeof(float)), b.out = check_alloc(66 * sizeof(float)),
    c.out = check_alloc(66 * sizeof(float));
    struct moved m = {&b, ctx};
    pthread_t id;
    job_round(&a, ctx);
    assert_int_equal(pthread_create(&id, NULL, moved_run, &m), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    job_round(&c, ctx);
    ingot_context_destroy(ctx);
    if (a.error[0] || b.error[0] || c.error[0]) check_fail("%s%s%s", a.error, b.error, c.error);
    assert_memory_equal(a.out, b.out, 66 * sizeof(float));
    assert_memory_equal(a.out, c.out, 66 * sizeof(float));
}

/* The failure of a call without a context is the calling thread's own. */
static void *fail_without_context(void *arg) {
    ingot_device d;
    *(bool *)arg = ingot_error(NULL)[0] == '\0' && ingot_device_get(12345, &d) == INGOT_ERR_NO_DEVICE &&
                   ingot_error(NULL)[0] != '\0';
    return NULL;
}

static void error_text_per_thread(void **state) {
    (void)state;
    pthread_t id;
    bool good = false;
    ingot_tensor t;
    assert_int_equal(ingot_tensor_init(&t, INGOT_TYPE_F32, 9, (int64_t[]){1}, NULL), INGOT_ERR_INVALID);
    char mine[512];
    snprintf(mine, sizeof mine, "%s", ingot_error(NULL));
    assert_true(mine[0] != '\0');
    assert_int_equal(pthread_create(&id, NULL, fail_without_context, &good), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_true(good);
    assert_string_equal(mine, ingot_error(NULL));
}

/* ================================================= Two devices ==================================================== */

static void copies_between_devices(void **state) {
    (void)state;
    if (device_count() < 2) {
        print_message("one device here; the SIMT host shows two with INGOT_SIMT_DEVICES=2\n");
        skip();
    }
    ingot_context *ctx[2] = {NULL};
    ingot_buffer *a[2] = {NULL};
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    enum { BYTES = 1 << 20 };
    unsigned char *sent = check_alloc(BYTES), *got = check_alloc(BYTES);
    for (int d = 0; d < 2; d++) {
        options.device = d;
        CHECK_OK(ingot_context_create(&options, &ctx[d]));
        assert_int_equal(ingot_buffer_create(ctx[d], INGOT_MEMORY_DEVICE, BYTES, &a[d]), INGOT_OK);
    }
    const size_t sizes[] = {1, 3, 4096, 65537, BYTES};
    for (int round = 0; round < 20; round++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            const size_t n = sizes[s], at = n == BYTES ? 0 : (size_t)check_range(0, (int64_t)(BYTES - n));
            for (size_t i = 0; i < n; i++) sent[i] = (unsigned char)check_random();
            assert_int_equal(ingot_buffer_fill(a[0], 0, 0xee, BYTES), INGOT_OK);
            assert_int_equal(ingot_buffer_fill(a[1], 0, 0xdd, BYTES), INGOT_OK);
            /* There and back without a host wait between: each hop is ordered after the one before, on both streams. */
            assert_int_equal(ingot_buffer_set_async(a[0], at, sent, n), INGOT_OK);
            assert_int_equal(ingot_buffer_copy(a[1], at, a[0], at, n), INGOT_OK);
            assert_int_equal(ingot_buffer_fill(a[0], 0, 0xee, BYTES), INGOT_OK);
            assert_int_equal(ingot_buffer_copy(a[0], at, a[1], at, n), INGOT_OK);
            assert_int_equal(ingot_buffer_get(a[0], 0, got, BYTES), INGOT_OK);
            assert_memory_equal(got + at, sent, n);
            for (size_t i = 0; i < BYTES; i++)
                if ((i < at || i >= at + n) && got[i] != 0xee)
                    check_fail("byte %zu beside a copy of %zu at %zu was changed", i, n, at);
            assert_int_equal(ingot_buffer_get(a[1], 0, got, BYTES), INGOT_OK);
            for (size_t i = 0; i < BYTES; i++)
                if (got[i] != (i < at || i >= at + n ? 0xdd : sent[i - at]))
                    check_fail("other device, byte %zu of a copy of %zu at %zu", i, n, at);
        }
    for (int d = 0; d < 2; d++) {
        ingot_buffer_destroy(a[d]);
        ingot_context_destroy(ctx[d]);
    }
}

static void same_bits_on_each_device(void **state) {
    (void)state;
    const int devices = device_count();
    if (devices < 2) {
        print_message("one device here; the SIMT host shows two with INGOT_SIMT_DEVICES=2\n");
        skip();
    }
    float *out[2] = {check_alloc(65 * 3 * sizeof(float)), check_alloc(65 * 3 * sizeof(float))};
    for (int d = 0; d < 2; d++) {
        struct job j = {
            .device = d, .rounds = 2, .seed = 99, .type = INGOT_TYPE_Q8_0, .k = 160, .m = 65, .n = 3, .out = out[d]};
        job_run(&j);
        if (j.error[0]) check_fail("device %d: %s", d, j.error);
    }
    assert_memory_equal(out[0], out[1], 65 * 3 * sizeof(float));
}

/* =========================================== Allocations that fail ================================================ */

struct meter {
    ingot_allocator below;
    long live, calls, fail_at; /* fail_at: the number of the request that fails, -1 for none */
    bool all_after;            /* and all later ones */
};

static void *meter_alloc(void *user, ingot_memory kind, size_t bytes) {
    struct meter *m = user;
    const long number = m->calls++;
    if (m->fail_at >= 0 && (number == m->fail_at || (m->all_after && number > m->fail_at))) return NULL;
    void *p = m->below.alloc(m->below.user, kind, bytes);
    m->live += p != NULL;
    return p;
}

static void meter_free(void *user, ingot_memory kind, void *p) {
    struct meter *m = user;
    m->live--;
    m->below.free(m->below.user, kind, p);
}

static bool out_of_memory(ingot_status st) {
    return st == INGOT_ERR_HOST_MEMORY || st == INGOT_ERR_DEVICE_MEMORY;
}

/* Calls work(user, ctx) in a fresh context whose allocator refuses request number i of the call, i = 0, 1, ..., until
 * none was refused; once that request alone, which the call may survive with a smaller one, and once all from it on,
 * which must make it fail.  The same call right after it must succeed; nothing may be lost.  Returns how often a call
 * said "out of memory". */
static int refuse_each(ingot_status (*work)(void *user, ingot_context *ctx), void *user, const char *what) {
    int refused = 0;
    for (long i = 0;; i++) {
        bool reached = false;
        for (int all_after = 0; all_after < 2; all_after++) {
            struct meter m = {.below = ingot_default_allocator(), .fail_at = -1, .all_after = all_after};
            ingot_allocator allocator = {meter_alloc, meter_free, &m};
            ingot_context_options options = INGOT_CONTEXT_OPTIONS;
            ingot_context *ctx = NULL;
            options.allocator = &allocator;
            if (ingot_context_create(&options, &ctx) != INGOT_OK)
                check_fail("%s: no context: %s", what, ingot_error(NULL));
            m.fail_at = m.calls + i;
            ingot_status st = work(user, ctx);
            reached = m.calls > m.fail_at;
            if (st != INGOT_OK && !(reached && out_of_memory(st)))
                check_fail("%s: request %ld %srefused: %s: %s", what, i, reached ? "" : "not ", ingot_status_name(st),
                           ingot_error(ctx));
            if (reached && all_after && st == INGOT_OK)
                check_fail("%s: all requests from %ld on refused, but the call succeeds", what, i);
            if (st != INGOT_OK && ingot_error(ctx)[0] == '\0')
                check_fail("%s: request %ld refused without a text", what, i);
            refused += st != INGOT_OK;
            m.fail_at = -1;
            st = work(user, ctx);
            if (st != INGOT_OK)
                check_fail("%s: after request %ld was refused: %s: %s", what, i, ingot_status_name(st),
                           ingot_error(ctx));
            ingot_context_destroy(ctx);
            if (m.live != 0) check_fail("%s: request %ld refused: %ld blocks were never freed", what, i, m.live);
        }
        if (!reached) return refused;
        if (i > 10000) check_fail("%s: no end of requests", what);
    }
}

static void refuse_context(void **state) {
    (void)state;
    long i = 0;
    for (;; i++) {
        struct meter m = {.below = ingot_default_allocator(), .fail_at = i};
        ingot_allocator allocator = {meter_alloc, meter_free, &m};
        ingot_context_options options = INGOT_CONTEXT_OPTIONS;
        ingot_context *ctx = (ingot_context *)&m; /* must become NULL */
        options.allocator = &allocator;
        ingot_status st = ingot_context_create(&options, &ctx);
        if (m.calls <= i) { /* nothing was refused */
            assert_int_equal(st, INGOT_OK);
            ingot_context_destroy(ctx);
            assert_int_equal(m.live, 0);
            break;
        }
        if (!out_of_memory(st)) check_fail("request %ld refused, but %s", i, ingot_status_name(st));
        assert_null(ctx);
        assert_true(ingot_error(NULL)[0] != '\0');
        if (m.live != 0) check_fail("request %ld refused: %ld blocks were never freed", i, m.live);
    }
    assert_true(i >= 2);
}

/* A product on memory that belongs to another context, so that the call's own requests are counted alone. */
struct product {
    struct tensor *a, *b, *dst;
    ingot_prec prec;
    double *ref;
};

static ingot_status run_product(void *user, ingot_context *ctx) {
    struct product *p = user;
    ingot_node node = {
        .op = INGOT_OP_MUL_MAT, .dst = p->dst->t, .src = {&p->a->t, &p->b->t}, .params.mul_mat.prec = p->prec};
    tensor_poison(p->dst);
    tensor_upload(p->dst);
    ingot_status st = ingot_compute(ctx, &node);
    if (st != INGOT_OK) {
        CHECK_OK(ingot_synchronize(ctx));
        return st;
    }
    CHECK_OK(ingot_synchronize(ctx));
    check_result(p->dst, p->ref, 1e-3, "product");
    return INGOT_OK;
}

static void refuse_mul_mat(void **state) {
    (void)state;
    const struct layout strided = {{1, 0, 0, 0}, {1, 0, 2, 3}, 0}, gapped = {{1, 0, 0, 0}, {0, 1, 2, 3}, 0};
    const struct {
        ingot_type a, b;
        int64_t n;
        ingot_prec prec;
        const struct layout *a_how, *b_how, *d_how;
    } cases[] = {
        {INGOT_TYPE_Q4_0, INGOT_TYPE_F32, 1, INGOT_PREC_DEFAULT, NULL, NULL, NULL},
        {INGOT_TYPE_Q4_0, INGOT_TYPE_F32, 20, INGOT_PREC_DEFAULT, NULL, NULL, NULL},
        {INGOT_TYPE_Q6_K, INGOT_TYPE_F16, 20, INGOT_PREC_F32, NULL, NULL, NULL},
        {INGOT_TYPE_Q4_K, INGOT_TYPE_F32, 3, INGOT_PREC_F32, NULL, NULL, NULL},
        {INGOT_TYPE_F16, INGOT_TYPE_F32, 1, INGOT_PREC_DEFAULT, &strided, NULL, NULL},
        {INGOT_TYPE_F16, INGOT_TYPE_F32, 20, INGOT_PREC_DEFAULT, &gapped, &strided, &strided},
        {INGOT_TYPE_BF16, INGOT_TYPE_BF16, 4, INGOT_PREC_DEFAULT, NULL, &strided, NULL},
        {INGOT_TYPE_F32, INGOT_TYPE_F16, 20, INGOT_PREC_DEFAULT, &strided, NULL, &strided},
        {INGOT_TYPE_Q8_0, INGOT_TYPE_BF16, 20, INGOT_PREC_DEFAULT, &gapped, &strided, &strided},
    };
    int refused = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct product p = {.prec = cases[i].prec};
        p.a = tensor_new(cases[i].a, 256, 17, 1, 1, cases[i].a_how);
        p.b = tensor_new(cases[i].b, 256, cases[i].n, 1, 1, cases[i].b_how);
        p.dst = tensor_new(INGOT_TYPE_F32, 17, cases[i].n, 1, 1, cases[i].d_how);
        tensor_fill_random(p.a, -1.0, 1.0), tensor_fill_random(p.b, -1.0, 1.0);
        const double *a = tensor_values(p.a), *b = tensor_values(p.b);
        p.ref = check_alloc((size_t)(17 * cases[i].n) * sizeof *p.ref);
        for (int64_t n = 0; n < cases[i].n; n++)
            for (int64_t m = 0; m < 17; m++) {
                p.ref[n * 17 + m] = 0.0;
                for (int64_t k = 0; k < 256; k++) p.ref[n * 17 + m] += a[m * 256 + k] * b[n * 256 + k];
            }
        tensor_upload(p.a), tensor_upload(p.b);
        refused += refuse_each(run_product, &p, check_shape(&p.a->t));
    }
    assert_true(refused > 0); /* scratch for the activations at least */
}

static ingot_status run_buffers(void *user, ingot_context *ctx) {
    ingot_buffer *device = NULL, *pinned = NULL;
    ingot_event *event = NULL;
    (void)user;
    ingot_status st = ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, 1000, &device);
    if (st == INGOT_OK) st = ingot_buffer_create(ctx, INGOT_MEMORY_PINNED, 1000, &pinned);
    if (st == INGOT_OK) st = ingot_event_create(ctx, &event);
    if (st == INGOT_OK) st = ingot_event_record(event, ctx);
    ingot_event_destroy(event);
    ingot_buffer_destroy(pinned);
    ingot_buffer_destroy(device);
    return st;
}

static void refuse_buffers(void **state) {
    (void)state;
    assert_true(refuse_each(run_buffers, NULL, "buffers") >= 2);
}

/* norm, two products, glu, product, add: built, planned and run.  Building reports at the plan. */
static ingot_status run_graph(void *user, ingot_context *ctx) {
    struct product *p = user;
    ingot_graph *g = NULL;
    ingot_plan_info info;
    ingot_status st = ingot_graph_create(ctx, &g);
    if (st != INGOT_OK) return st;
    tensor_poison(p->dst);
    tensor_upload(p->dst);
    ingot_tensor *w = ingot_weight(g, &p->a->t), *x = ingot_leaf(g, &p->b->t), *out = ingot_leaf(g, &p->dst->t);
    ingot_tensor *h = ingot_rms_norm(g, x, 1e-5f);
    ingot_tensor *y = ingot_mul_mat(g, w, h, INGOT_PREC_DEFAULT);
    ingot_tensor *z = ingot_mul_mat(g, w, ingot_silu(g, h), INGOT_PREC_DEFAULT);
    ingot_cpy(g, ingot_glu(g, ingot_add(g, y, z), y, &(ingot_glu_params){.kind = INGOT_GLU_SWIGLU}), out);
    st = ingot_graph_plan(g, NULL, &info);
    for (int i = 0; i < 3 && st == INGOT_OK; i++) st = ingot_graph_run(g);
    CHECK_OK(ingot_synchronize(ctx));
    ingot_graph_destroy(g);
    if (st != INGOT_OK) return st;
    tensor_download(p->dst);
    double *got = tensor_values(p->dst);
    if (!p->ref) p->ref = got;
    else assert_memory_equal(got, p->ref, (size_t)ingot_tensor_elements(&p->dst->t) * sizeof *got);
    for (int64_t i = 0; i < ingot_tensor_elements(&p->dst->t); i++)
        if (!isfinite(got[i])) check_fail("element %lld is %g", (long long)i, got[i]);
    return INGOT_OK;
}

static void refuse_graph(void **state) {
    (void)state;
    const int64_t n[] = {1, 20};
    for (size_t i = 0; i < COUNT(n); i++) {
        struct product p = {0};
        p.a = tensor_new(INGOT_TYPE_Q4_1, 64, 33, 1, 1, NULL);
        p.b = tensor_new(INGOT_TYPE_F32, 64, n[i], 1, 1, NULL);
        p.dst = tensor_new(INGOT_TYPE_F32, 33, n[i], 1, 1, NULL);
        tensor_fill_random(p.a, 0, 0), tensor_fill_random(p.b, -1.0, 1.0);
        tensor_upload(p.a), tensor_upload(p.b);
        assert_true(refuse_each(run_graph, &p, "graph") >= 3);
        check_release();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(two_threads),
        CHECK_TEST(eight_threads),
        CHECK_TEST(threads_that_come_and_go),
        CHECK_TEST(context_moves),
        CHECK_TEST(error_text_per_thread),
        CHECK_TEST(copies_between_devices),
        CHECK_TEST(same_bits_on_each_device),
        CHECK_TEST(refuse_context),
        CHECK_TEST(refuse_buffers),
        CHECK_TEST(refuse_mul_mat),
        CHECK_TEST(refuse_graph),
    };
    return check_main("threads", tests, COUNT(tests));
}
