// SPDX-License-Identifier: MIT
/* bench.c - throughput of the kernels beside what the memory gives in the same run.
 *
 * Weights are cold: a case rotates over a pool of at least 640 MB of random bytes, one launch per matrix, all of them in
 * one CUDA graph.  Each figure is the median of several replays, after a warm-up.  "product" shares one rounding of the
 * activations over the graph, "chain" rounds them again before every product (what one decode node costs by itself).
 * "read" is the read kernel on the same bytes, in a graph of the same length.
 *
 *   K=pattern   only cases whose name matches, e.g. K='mmvq q4_0*'
 *   JSON=file   the same figures, machine-readable */
#include <cuda_runtime_api.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/read.h"
#include "include/ingot.h"

#define POOL_BYTES ((size_t)640 << 20)
#define MAX_REPS 256
#define MAX_TYPES 64
#define REPLAYS 9

struct bench {
    ingot_context *ctx;
    ingot_device dev;
    ingot_buffer *pool, *x, *y;
    unsigned *sink;
    const char *pattern;
    FILE *json;
    int rows;
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}
static void ok(ingot_context *ctx, ingot_status st, const char *what) {
    if (st != INGOT_OK) die(what, ingot_error(ctx));
}
static void cuda(cudaError_t e, const char *what) {
    if (e != cudaSuccess) die(what, cudaGetErrorString(e));
}
static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median microseconds per launch of something that launches `reps` times. */
static double median_us(struct bench *b, void (*go)(struct bench *, void *), void *arg, int reps) {
    float ms[REPLAYS];
    ingot_event *e0, *e1;
    ok(NULL, ingot_event_create(b->ctx, &e0), "event");
    ok(NULL, ingot_event_create(b->ctx, &e1), "event");
    for (int i = 0; i < 3; i++) go(b, arg);
    for (int i = 0; i < REPLAYS; i++) {
        ok(b->ctx, ingot_event_record(e0, b->ctx), "record");
        go(b, arg);
        ok(b->ctx, ingot_event_record(e1, b->ctx), "record");
        ok(b->ctx, ingot_event_elapsed(e0, e1, &ms[i]), "elapsed");
    }
    ingot_event_destroy(e0);
    ingot_event_destroy(e1);
    qsort(ms, REPLAYS, sizeof ms[0], by_value);
    return 1e3 * ms[REPLAYS / 2] / reps;
}
static void run_graph(struct bench *b, void *arg) {
    ok(b->ctx, ingot_graph_run(arg), "run");
}
static void run_exec(struct bench *b, void *arg) {
    cuda(cudaGraphLaunch(arg, (cudaStream_t)ingot_context_stream(b->ctx)), "cudaGraphLaunch");
}

static int repetitions(size_t bytes) {
    size_t n = POOL_BYTES / ((bytes + 255) / 256 * 256);
    return n > MAX_REPS ? MAX_REPS : n < 1 ? 1 : (int)n;
}
static void *pool_at(struct bench *b, size_t bytes, int i) {
    return (char *)ingot_buffer_data(b->pool) + (size_t)i * ((bytes + 255) / 256 * 256);
}

/* The read kernel on the same matrices, in one graph; the fastest variant. */
static double read_us(struct bench *b, size_t bytes) {
    cudaStream_t st = (cudaStream_t)ingot_context_stream(b->ctx);
    int reps = repetitions(bytes);
    double best = 1e30;
    for (int v = 0; v < BENCH_READ_VARIANTS; v++) {
        cudaGraph_t g;
        cudaGraphExec_t x;
        cuda(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal), "capture");
        for (int i = 0; i < reps; i++)
            cuda(bench_read(v, pool_at(b, bytes, i), bytes / 16 * 16, b->sink, b->dev.sm_count, st), "read kernel");
        cuda(cudaStreamEndCapture(st, &g), "capture");
        cuda(cudaGraphInstantiate(&x, g, 0), "instantiate");
        double us = median_us(b, run_exec, x, reps);
        if (us < best) best = us;
        cuda(cudaGraphExecDestroy(x), "destroy");
        cuda(cudaGraphDestroy(g), "destroy");
    }
    return best;
}

static int wanted(const struct bench *b, const char *name) {
    return !b->pattern[0] || fnmatch(b->pattern, name, 0) == 0;
}
static void report(struct bench *b, const char *name, double us, double chain, double read, double bytes) {
    if (!b->rows++) printf("%-34s %9s %9s %9s %8s %10s\n", "case", "us", "chain us", "read us", "GB/s", "read/us");
    printf("%-34s %9.2f ", name, us);
    if (chain > 0) printf("%9.2f ", chain);
    else printf("%9s ", "-");
    printf("%9.2f %8.0f %10.2f\n", read, bytes / us / 1e3, read / us);
    fflush(stdout);
    if (b->json)
        fprintf(b->json,
                "%s\n  {\"case\": \"%s\", \"us\": %.3f, \"chain_us\": %.3f, \"read_us\": %.3f, \"bytes\": %.0f}",
                b->rows > 1 ? "," : "", name, us, chain, read, bytes);
}

/* One graph of `reps` products with different weights; `shared`: all take the same activations. */
static double product_us(struct bench *b, const ingot_tensor *w, int64_t n, int shared) {
    size_t bytes = ingot_tensor_size(w);
    int reps = repetitions(bytes);
    ingot_graph *g;
    ingot_tensor x, y, m = *w;
    ok(b->ctx, ingot_graph_create(b->ctx, &g), "graph");
    ok(NULL, ingot_tensor_init(&x, INGOT_TYPE_F32, 2, (int64_t[]){w->ne[0], n}, ingot_buffer_data(b->x)), "x");
    ok(NULL, ingot_tensor_init(&y, INGOT_TYPE_F32, 2, (int64_t[]){w->ne[1], n}, ingot_buffer_data(b->y)), "y");
    ingot_tensor *xs = ingot_leaf(g, &x);
    for (int i = 0; i < reps; i++) {
        m.data = pool_at(b, bytes, i);
        ingot_mul_mat(g, ingot_weight(g, &m), shared ? xs : ingot_leaf(g, &x), INGOT_PREC_DEFAULT);
    }
    ok(b->ctx, ingot_graph_plan(g, NULL, NULL), "plan");
    double us = median_us(b, run_graph, g, reps);
    ingot_graph_destroy(g);
    return us;
}

/* The types of weights that the build has kernels for; their number. */
static size_t build_types(ingot_type *out, int blocks_only) {
    size_t count = 0;
    for (int type = 0; type < MAX_TYPES; type++) {
        const char *name = ingot_type_name((ingot_type)type), *p = ingot_build_info().types;
        size_t length = strlen(name);
        if (blocks_only && ingot_type_block((ingot_type)type) < 2) continue;
        for (; (p = strstr(p, name)) != NULL; p += length)
            if ((p == ingot_build_info().types || p[-1] == ' ') && (p[length] == ' ' || !p[length])) {
                out[count++] = (ingot_type)type;
                break;
            }
    }
    return count;
}

static void bench_mul_mat(struct bench *b) {
    ingot_type types[MAX_TYPES];
    const size_t n_types = build_types(types, 0);
    static const int64_t shapes[][2] = {{4096, 14336}, {14336, 4096}, {4096, 4096}, {1024, 4096}};
    static const int64_t ns[] = {1, 2, 4, 8};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t t = 0; t < n_types; t++) {
            ingot_tensor w;
            double read = 0;
            ok(NULL, ingot_tensor_init(&w, types[t], 2, (int64_t[]){shapes[s][1], shapes[s][0]}, NULL), "w");
            for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
                char name[64];
                snprintf(name, sizeof name, "mmvq %s m%d k%d n%d", ingot_type_name(types[t]), (int)shapes[s][0],
                         (int)shapes[s][1], (int)ns[i]);
                if (!wanted(b, name)) continue;
                if (read == 0) read = read_us(b, ingot_tensor_size(&w));
                double us = product_us(b, &w, ns[i], 1), chain = product_us(b, &w, ns[i], 0);
                report(b, name, us, chain, read, (double)ingot_tensor_size(&w));
            }
        }
}

static void bench_dequant(struct bench *b) {
    ingot_type types[MAX_TYPES];
    const size_t n_types = build_types(types, 1);
    int64_t k = 4096, m = 4096;
    for (size_t t = 0; t < n_types; t++) {
        char name[64];
        ingot_tensor w, f;
        ingot_graph *g;
        snprintf(name, sizeof name, "dequant %s f16 m%d k%d", ingot_type_name(types[t]), (int)m, (int)k);
        if (!wanted(b, name)) continue;
        ok(NULL, ingot_tensor_init(&w, types[t], 2, (int64_t[]){k, m}, NULL), "w");
        ok(NULL, ingot_tensor_init(&f, INGOT_TYPE_F16, 2, (int64_t[]){k, m}, ingot_buffer_data(b->y)), "f");
        size_t bytes = ingot_tensor_size(&w), moved = bytes + ingot_tensor_size(&f);
        int reps = repetitions(bytes);
        ok(b->ctx, ingot_graph_create(b->ctx, &g), "graph");
        ingot_tensor *dst = ingot_leaf(g, &f);
        for (int i = 0; i < reps; i++) {
            w.data = pool_at(b, bytes, i);
            ingot_cpy(g, ingot_weight(g, &w), dst);
        }
        ok(b->ctx, ingot_graph_plan(g, NULL, NULL), "plan");
        report(b, name, median_us(b, run_graph, g, reps), 0, read_us(b, moved), (double)moved);
        ingot_graph_destroy(g);
    }
}

/* What one launch of a decoder's small kernels costs in a chain: each waits for the one before it.  The shapes are
 * those of a 135M model; weights and activations fit the L2, so this is latency, not bandwidth. */
struct small {
    struct bench *b;
    ingot_graph *g;
    ingot_tensor *x, *q, *wide, *ids, *pos, *len, *cache, *row;
};
static ingot_tensor *leaf(struct small *s, ingot_type type, int n_dims, const int64_t *ne, void *data) {
    ingot_tensor t;
    ok(NULL, ingot_tensor_init(&t, type, n_dims, ne, data), "tensor");
    return ingot_leaf(s->g, &t);
}
static void small_norm(struct small *s) {
    s->x = ingot_mul(s->g, ingot_rms_norm(s->g, s->x, 1e-5f), s->row);
}
static void small_add(struct small *s) {
    s->x = ingot_add(s->g, s->x, s->row);
}
static void small_glu(struct small *s) {
    ingot_glu(s->g, s->wide, NULL, &(ingot_glu_params){.kind = INGOT_GLU_SWIGLU});
}
static void small_rope(struct small *s) {
    ingot_rope_params p = {
        .mode = INGOT_ROPE_NORMAL, .n_dims = 64, .freq_base = 1e5f, .freq_scale = 1, .attn_factor = 1};
    s->q = ingot_rope(s->g, s->q, s->pos, NULL, &p);
}
static void small_set_rows(struct small *s) {
    ingot_set_rows(s->g, s->cache, s->row, s->ids);
}
static void attend(struct small *s, int64_t kv) {
    ingot_attention_params p = {.scale = 0.125f, .causal = 1};
    char *kd = ingot_buffer_data(s->b->pool);
    ingot_tensor *k = ingot_permute(s->g, leaf(s, INGOT_TYPE_F16, 3, (int64_t[]){64, 3, kv}, kd), 0, 2, 1, 3);
    ingot_tensor *v =
        ingot_permute(s->g, leaf(s, INGOT_TYPE_F16, 3, (int64_t[]){64, 3, kv}, kd + (1 << 20)), 0, 2, 1, 3);
    ingot_attention(s->g, ingot_permute(s->g, s->q, 0, 2, 1, 3), k, v, NULL, &p);
}
static void small_attention128(struct small *s) {
    attend(s, 128);
}
static void small_attention1024(struct small *s) {
    attend(s, 1024);
}
static void product(struct small *s, ingot_type type, int64_t k, int64_t m, ingot_tensor *x) {
    ingot_tensor w;
    ok(NULL, ingot_tensor_init(&w, type, 2, (int64_t[]){k, m}, ingot_buffer_data(s->b->pool)), "w");
    ingot_mul_mat(s->g, ingot_weight(s->g, &w), x, INGOT_PREC_DEFAULT);
}
static void small_mv_qkv(struct small *s) {
    product(s, INGOT_TYPE_Q4_1, 576, 960, s->row);
}
static void small_mv_out(struct small *s) {
    product(s, INGOT_TYPE_Q4_1, 576, 576, s->row);
}
static void small_mv_up(struct small *s) {
    product(s, INGOT_TYPE_Q4_1, 576, 3072, s->row);
}
static void small_mv_down(struct small *s) {
    product(s, INGOT_TYPE_Q4_1, 1536, 576, ingot_view(s->g, s->wide, 1, (int64_t[]){1536}, NULL, 0));
}
static void small_mv_head(struct small *s) {
    product(s, INGOT_TYPE_Q8_0, 576, 49152, s->row);
}

static void bench_small(struct bench *b) {
    static const struct {
        const char *name;
        void (*step)(struct small *);
    } cases[] = {{"rms_norm 576", small_norm},
                 {"add 576", small_add},
                 {"swiglu 3072", small_glu},
                 {"rope 12x64", small_rope},
                 {"set_rows 576", small_set_rows},
                 {"attention 9/3x64 kv128", small_attention128},
                 {"attention 9/3x64 kv1024", small_attention1024},
                 {"mmvq q4_1 960x576", small_mv_qkv},
                 {"mmvq q4_1 576x576", small_mv_out},
                 {"mmvq q4_1 3072x576", small_mv_up},
                 {"mmvq q4_1 576x1536", small_mv_down},
                 {"mmvq q8_0 49152x576", small_mv_head}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char name[64];
        struct small s = {.b = b};
        char *at = ingot_buffer_data(b->x);
        snprintf(name, sizeof name, "launch %s", cases[c].name);
        if (!wanted(b, name)) continue;
        ok(b->ctx, ingot_graph_create(b->ctx, &s.g), "graph");
        s.x = leaf(&s, INGOT_TYPE_F32, 1, (int64_t[]){576}, at);
        s.row = leaf(&s, INGOT_TYPE_F32, 1, (int64_t[]){576}, at + (1 << 20));
        s.wide = leaf(&s, INGOT_TYPE_F32, 1, (int64_t[]){3072}, at + (2 << 20));
        s.q = leaf(&s, INGOT_TYPE_F32, 3, (int64_t[]){64, 9, 1}, at + (3 << 20));
        s.cache = leaf(&s, INGOT_TYPE_F16, 2, (int64_t[]){576, 64}, ingot_buffer_data(b->y));
        s.ids = leaf(&s, INGOT_TYPE_I32, 1, (int64_t[]){1}, (char *)ingot_buffer_data(b->y) + (1 << 20));
        s.pos = leaf(&s, INGOT_TYPE_I32, 1, (int64_t[]){1}, (char *)ingot_buffer_data(b->y) + (1 << 20));
        for (int i = 0; i < 256; i++) cases[c].step(&s);
        ingot_plan_info info;
        ok(b->ctx, ingot_graph_plan(s.g, NULL, &info), "plan");
        printf("%-34s %9.2f us a launch, %d launches in one graph\n", name, median_us(b, run_graph, s.g, info.launches),
               info.launches);
        ingot_graph_destroy(s.g);
    }
}

int main(void) {
    struct bench b = {.pattern = getenv("K") ? getenv("K") : ""};
    ok(NULL, ingot_context_create(NULL, &b.ctx), "context");
    ok(NULL, ingot_device_get(0, &b.dev), "device");
    ok(b.ctx, ingot_buffer_create(b.ctx, INGOT_MEMORY_DEVICE, POOL_BYTES, &b.pool), "pool");
    ok(b.ctx, ingot_buffer_create(b.ctx, INGOT_MEMORY_DEVICE, (size_t)64 << 20, &b.x), "x");
    ok(b.ctx, ingot_buffer_create(b.ctx, INGOT_MEMORY_DEVICE, (size_t)256 << 20, &b.y), "y");
    cuda(cudaMalloc((void **)&b.sink, 4), "cudaMalloc");
    if (getenv("JSON") && !(b.json = fopen(getenv("JSON"), "w"))) die(getenv("JSON"), "cannot be written");

    /* random bytes for the weights, random floats for the activations; only their being random matters here */
    uint64_t s = 0x9e3779b97f4a7c15u;
    size_t n = POOL_BYTES / 8;
    uint64_t *rnd = malloc(POOL_BYTES);
    if (!rnd) die("malloc", "out of memory");
    for (size_t i = 0; i < n; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        rnd[i] = s;
    }
    ok(b.ctx, ingot_buffer_set(b.pool, 0, rnd, POOL_BYTES), "set");
    float *x = (float *)rnd;
    for (size_t i = 0; i < ((size_t)64 << 20) / 4; i++) x[i] = (float)(int32_t)((uint32_t *)rnd)[i] / 2147483648.0f;
    ok(b.ctx, ingot_buffer_set(b.x, 0, x, (size_t)64 << 20), "set");
    free(rnd);

    printf("%s, %d SMs, build %s\n", b.dev.name, b.dev.sm_count, ingot_build_info().archs);
    if (b.json) fprintf(b.json, "{\"device\": \"%s\", \"rows\": [", b.dev.name);
    bench_mul_mat(&b);
    bench_dequant(&b);
    bench_small(&b);
    if (b.json) fprintf(b.json, "]}\n"), fclose(b.json);
    cuda(cudaFree(b.sink), "cudaFree");
    ingot_buffer_destroy(b.pool);
    ingot_buffer_destroy(b.x);
    ingot_buffer_destroy(b.y);
    ingot_context_destroy(b.ctx);
    return 0;
}
