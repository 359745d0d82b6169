// SPDX-License-Identifier: MIT
/* bench.c - throughput of the kernels beside what the memory gives in the same run, and what a launch costs.
 *
 * All launches of a case are in one CUDA graph; each figure is the median of several replays, after a warm-up.  "us"
 * shares one rounding of the activations over the graph, "chain us" rounds them again before every product (what one
 * decode node costs by itself).  "read us" is the read kernel on the same bytes, in a graph of the same length; where
 * experts are chosen, on as many bytes as those of a launch are on average, in one piece.  "f16 us" is the product of
 * many columns with weights in f16 (cuBLASLt's, where the build has it); both convert their activations every time.
 *
 * cases.h says what is measured and how it is selected (OPS, TYPES, N, SHAPES, K; --list shows it); JSON=file gets the
 * same figures, for bench/compare.py.  Exit status: 0, 1 if something failed, 2 if the selection is wrong. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "bench/graphs.h"
#include "bench/measure.h"
#include "bench/report.h"

#define PIECE ((size_t)64 << 20)    /* of random bytes, which the pool is filled with */
#define STAGGER ((size_t)1 << 20)   /* pieces begin within so many bytes */
#define RESERVE ((size_t)256 << 20) /* what CUDA takes for graphs */

enum filling { NOTHING, BITS, FLOATS, FILLINGS };

struct machine {
    ingot_context *ctx, *with_pdl, *without_pdl; /* the last two are made when a launch case comes */
    ingot_device dev;
    size_t free, pool_bytes;
    ingot_buffer *pool, *x, *ids, *sink, *random[FILLINGS];
    enum filling filling; /* of the pool */
    int32_t *host_ids;
    struct bench_case read, f16; /* the cases that read_us and f16_us were measured for */
    double read_us, f16_us;
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}
static void ok(const ingot_context *ctx, ingot_status st, const char *what) {
    if (st != INGOT_OK) die(what, ingot_error(ctx));
}

/* ---- memory */

static size_t x_bytes(const struct bench_case *c) {
    return c->rest > BENCH_X ? c->rest : BENCH_X;
}
/* All that a case needs, with what every case does. */
static size_t needs(const struct bench_case *c) {
    return c->pool + x_bytes(c) + c->rest + 2 * (PIECE + STAGGER) + BENCH_IDS_MAX * sizeof(int32_t) + RESERVE;
}
static bool fits(const struct machine *m, const struct bench_case *c) {
    return !c->skip[0] && needs(c) <= m->free;
}

static ingot_buffer *device_memory(struct machine *m, size_t bytes) {
    ingot_buffer *b = NULL;
    ok(m->ctx, ingot_buffer_create(m->ctx, INGOT_MEMORY_DEVICE, bytes, &b), "device memory");
    return b;
}
static void upload(struct machine *m, ingot_buffer *to, const void *from, size_t bytes) {
    ok(m->ctx, ingot_buffer_set(to, 0, from, bytes), "copy to the device");
}

/* Random bits for the block formats.  Floats without the highest bit of their exponents: finite in f32, f16 and bf16. */
static void make_random(struct machine *m, size_t x_size) {
    const size_t bytes = PIECE + STAGGER;
    uint64_t s = 0x9e3779b97f4a7c15u, *words = malloc(bytes);
    if (!words) die("random data", "out of memory");
    for (size_t i = 0; i < bytes / 8; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        words[i] = s;
    }
    upload(m, m->random[BITS] = device_memory(m, bytes), words, bytes);
    for (size_t i = 0; i < bytes / 8; i++) words[i] &= ~(uint64_t)0x4000400040004000u;
    upload(m, m->random[FLOATS] = device_memory(m, bytes), words, bytes);

    float *x = malloc(x_size);
    if (!x) die("activations", "out of memory");
    for (size_t i = 0; i < x_size / sizeof *x; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        x[i] = (float)(int32_t)(s >> 32) / 2147483648.0f;
    }
    upload(m, m->x = device_memory(m, x_size), x, x_size);
    free(x);
    free(words);
}

/* Pieces that begin at different places of the random data. */
static void fill(struct machine *m, enum filling filling) {
    if (m->filling == filling) return;
    for (size_t at = 0, piece = 0; at < m->pool_bytes; at += PIECE, piece++) {
        const size_t from = piece * 1021 % (STAGGER / 256) * 256, left = m->pool_bytes - at;
        ok(m->ctx, ingot_buffer_copy(m->pool, at, m->random[filling], from, left < PIECE ? left : PIECE), "fill");
    }
    m->filling = filling;
}

static void start(struct machine *m, const struct bench_cases *cases) {
    size_t x_size = BENCH_X;
    const ingot_status st = ingot_context_create(NULL, &m->ctx);
    if (st == INGOT_ERR_NO_DEVICE) die("there is no GPU here to measure", ingot_error(NULL));
    ok(NULL, st, "context");
    ok(NULL, ingot_device_get(0, &m->dev), "device");
    m->free = m->dev.memory_free;
    for (int i = 0; i < cases->count; i++) {
        const struct bench_case *c = &cases->at[i];
        if (!fits(m, c)) continue;
        if (c->pool > m->pool_bytes) m->pool_bytes = c->pool;
        if (x_bytes(c) > x_size) x_size = x_bytes(c);
    }
    m->pool = device_memory(m, m->pool_bytes);
    m->ids = device_memory(m, BENCH_IDS_MAX * sizeof(int32_t));
    m->sink = device_memory(m, 256);
    m->host_ids = calloc(BENCH_IDS_MAX, sizeof *m->host_ids);
    if (!m->host_ids) die("ids", "out of memory");
    make_random(m, x_size);
    for (int i = 0; i < 16; i++) { /* clocks go up before the first figure is taken */
        m->filling = NOTHING;
        fill(m, BITS);
    }
    ok(m->ctx, ingot_synchronize(m->ctx), "fill");
}

static void stop(struct machine *m) {
    ingot_buffer *buffers[] = {m->pool, m->x, m->ids, m->sink, m->random[BITS], m->random[FLOATS]};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ingot_buffer_destroy(buffers[i]);
    ingot_context_destroy(m->ctx);
    ingot_context_destroy(m->with_pdl);
    ingot_context_destroy(m->without_pdl);
    free(m->host_ids);
}

/* ---- cases */

static struct bench_memory memory_of(const struct machine *m) {
    return (struct bench_memory){ingot_buffer_data(m->pool), ingot_buffer_data(m->x), ingot_buffer_data(m->ids)};
}

/* Microseconds of one launch (of one step) of a case; false, and `why`, if this build or device cannot do it. */
static bool time_graph(struct machine *m, ingot_context *ctx, const struct bench_case *c, bool alone, double *us,
                       int *launches, const char **why) {
    const struct bench_memory memory = memory_of(m);
    ingot_graph *g = NULL;
    ingot_plan_info info;
    const ingot_status st = bench_graph(ctx, c, &memory, alone, &g, &info);
    if (st == INGOT_ERR_UNSUPPORTED || st == INGOT_ERR_DEVICE_MEMORY) {
        *why = ingot_error(ctx);
        return false;
    }
    ok(ctx, st, c->name);
    ok(ctx, bench_graph_us(ctx, g, us), c->name);
    ingot_graph_destroy(g);
    *us /= c->launches;
    *launches = info.launches / c->launches;
    return true;
}

/* The read kernel's time; the last one again if the bytes are the same. */
static double read_us(struct machine *m, const struct bench_case *c) {
    const struct bench_case *r = &m->read;
    const char *why = "";
    if (r->bytes == c->bytes && r->slot == c->slot && r->launches == c->launches && r->matrices == c->matrices)
        return m->read_us;
    if (!bench_read_us(m->ctx, c, ingot_buffer_data(m->pool), ingot_buffer_data(m->sink), m->dev.sm_count, &m->read_us,
                       &why))
        die("read kernel", why);
    m->read = *c;
    return m->read_us;
}

static ingot_context *context_with_pdl(const char *on) {
    const char *was = getenv("INGOT_PDL");
    char *kept = was ? strdup(was) : NULL;
    ingot_context *ctx = NULL;
    setenv("INGOT_PDL", on, 1);
    ok(NULL, ingot_context_create(NULL, &ctx), "context");
    if (kept) setenv("INGOT_PDL", kept, 1);
    else unsetenv("INGOT_PDL");
    free(kept);
    return ctx;
}

static bool measure_launch(struct machine *m, const struct bench_case *c, struct bench_figures *f, const char **why) {
    if (!m->with_pdl) {
        m->with_pdl = context_with_pdl("1");
        m->without_pdl = context_with_pdl("0");
    }
    fill(m, FLOATS);
    memset(m->host_ids, 0, BENCH_IDS_MAX * sizeof *m->host_ids);
    upload(m, m->ids, m->host_ids, BENCH_IDS_MAX * sizeof *m->host_ids);
    ok(m->ctx, ingot_synchronize(m->ctx), "fill");
    return time_graph(m, m->with_pdl, c, false, &f->us, &f->launches, why) &&
           time_graph(m, m->without_pdl, c, false, &f->plain_us, &f->launches, why);
}

static bool measure_dequant(struct machine *m, const struct bench_case *c, struct bench_figures *f, const char **why) {
    fill(m, BITS);
    f->read_us = read_us(m, c);
    m->filling = NOTHING; /* its results lie in the pool */
    return time_graph(m, m->ctx, c, false, &f->us, &f->launches, why);
}

static void fill_weights(struct machine *m, const struct bench_case *c) {
    fill(m, ingot_type_block((ingot_type)c->type) > 1 ? BITS : FLOATS);
}

static bool measure_mmvq(struct machine *m, const struct bench_case *c, struct bench_figures *f, const char **why) {
    fill_weights(m, c);
    if (c->experts) {
        (void)bench_ids(c, m->host_ids);
        upload(m, m->ids, m->host_ids, BENCH_IDS_MAX * sizeof *m->host_ids);
    }
    f->read_us = read_us(m, c);
    return time_graph(m, m->ctx, c, false, &f->us, &f->launches, why) &&
           time_graph(m, m->ctx, c, true, &f->chain_us, &f->launches, why);
}

/* The product with weights in f16; the last one again if the shape is the same.  0 if this build cannot do it. */
static double f16_us(struct machine *m, const struct bench_case *c) {
    const struct bench_case twin = bench_f16_twin(c);
    const char *why;
    int launches;
    if (m->f16.m == c->m && m->f16.k == c->k && m->f16.n == c->n) return m->f16_us;
    fill(m, FLOATS);
    if (!time_graph(m, m->ctx, &twin, true, &m->f16_us, &launches, &why)) m->f16_us = 0;
    m->f16 = twin;
    return m->f16_us;
}

static bool measure_mmq(struct machine *m, const struct bench_case *c, struct bench_figures *f, const char **why) {
    f->f16_us = f16_us(m, c);
    fill_weights(m, c);
    f->read_us = read_us(m, c);
    return time_graph(m, m->ctx, c, true, &f->us, &f->launches, why);
}

static void measure(struct machine *m, const struct bench_case *c, struct bench_report *report) {
    static bool (*const how[])(struct machine *, const struct bench_case *, struct bench_figures *,
                               const char **) = {[BENCH_MMVQ] = measure_mmvq,
                                                 [BENCH_MMQ] = measure_mmq,
                                                 [BENCH_DEQUANT] = measure_dequant,
                                                 [BENCH_LAUNCH] = measure_launch};
    struct bench_figures f = {0};
    const char *why = c->skip;
    char text[64];
    if (!c->skip[0] && !fits(m, c)) {
        snprintf(text, sizeof text, "needs %.1f GB, free %.1f GB", (double)needs(c) / 1e9, (double)m->free / 1e9);
        why = text;
    } else if (!c->skip[0] && how[c->op](m, c, &f, &why)) {
        bench_report_row(report, c, &f);
        return;
    }
    bench_report_skip(report, c, why);
}

int main(int argc, char **argv) {
    struct bench_cases cases;
    struct bench_report report;
    struct machine m = {0};
    const char *path = getenv("JSON");
    FILE *json = NULL;
    int status;
    if (!bench_command(argc, argv, stdout, stderr, &cases, &status)) return status;
    start(&m, &cases);
    if (path && path[0] && !(json = fopen(path, "w"))) die(path, "cannot be written");
    bench_report_begin(&report, stdout, json, &m.dev);
    for (int i = 0; i < cases.count; i++) measure(&m, &cases.at[i], &report);
    bench_report_end(&report);
    if (json && (ferror(json) | fclose(json))) die(path, "could not be written");
    stop(&m);
    bench_cases_free(&cases);
    return 0;
}
