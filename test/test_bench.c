// SPDX-License-Identifier: MIT
/* test_bench.c - the bench without its clock: what a selection selects, what it refuses, where a case's data lies, what
 * its graph launches, and what the report says, which bench/compare.py must be able to read. */
#define _POSIX_C_SOURCE 200809L
#include "bench/graphs.h"
#include "bench/report.h"
#include "check.h"
#include "src/graph/graph.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct bench_cases select_cases(const char *ops, const char *types, const char *columns, const char *shapes,
                                       const char *pattern) {
    const struct bench_wish wish = {ops, types, columns, shapes, pattern};
    struct bench_cases cases;
    if (!bench_select(&wish, &cases)) check_fail("refused: %s", cases.error);
    return cases;
}

static int count_of(const struct bench_cases *cases, enum bench_op op, int type) {
    int count = 0;
    for (int i = 0; i < cases->count; i++) count += cases->at[i].op == op && cases->at[i].type == type;
    return count;
}

static bool decoded_first(ingot_type type) {
    return type == INGOT_TYPE_Q8_1 || type == INGOT_TYPE_Q8_K;
}

/* ---- selections */

static void everything_by_default(void **state) {
    static const struct {
        int64_t m, k, experts;
    } shapes[] = {{4096, 14336, 0}, {14336, 4096, 0},  {4096, 4096, 0},
                  {1024, 4096, 0},  {151936, 4096, 0}, {768, 2048, 128}};
    ingot_type types[CHECK_TYPES];
    const size_t count = check_types(types);
    (void)state;
    struct bench_cases cases = select_cases(NULL, "", "  ", NULL, ""),
                       same = select_cases("all", NULL, NULL, NULL, NULL);
    assert_int_equal(cases.count, same.count);
    int rest = cases.count;
    for (size_t t = 0; t < count; t++) {
        const int products = count_of(&cases, BENCH_MMVQ, (int)types[t]);
        const int decodings = count_of(&cases, BENCH_DEQUANT, (int)types[t]);
        const int many = count_of(&cases, BENCH_MMQ, (int)types[t]);
        if (products != (decoded_first(types[t]) ? 0 : 24) || many != products / 24 * 15 ||
            decodings != check_is_block(types[t]))
            check_fail("%s: %d products, %d of many columns, %d decodings", ingot_type_name(types[t]), products, many,
                       decodings);
        rest -= products + many + decodings;
        for (size_t s = 0; s < COUNT(shapes) && products; s++)
            for (int64_t n = 1; n <= 8; n *= 2) {
                int found = 0;
                for (int i = 0; i < cases.count; i++) {
                    const struct bench_case *c = &cases.at[i];
                    found += c->op == BENCH_MMVQ && c->type == (int)types[t] && c->m == shapes[s].m && c->n == n &&
                             c->k == shapes[s].k && c->experts == shapes[s].experts && !c->skip[0];
                }
                assert_int_equal(found, 1);
            }
    }
    assert_int_equal(rest, bench_step_count);
    bench_cases_free(&cases);
    bench_cases_free(&same);
}

static void words_select(void **state) {
    (void)state;
    struct bench_cases c = select_cases("mmvq", "f16 f32  f16", "8 1 8", "7x64 7x64 9x96x8", NULL);
    assert_int_equal(c.count, 2 * 2 * 2);
    for (int i = 0; i < c.count; i++) {
        assert_int_equal(c.at[i].n, i % 2 ? 8 : 1);
        assert_int_equal(c.at[i].type, i / 2 % 2 ? INGOT_TYPE_F16 : INGOT_TYPE_F32);
        assert_int_equal(c.at[i].m, i < 4 ? 7 : 9);
        assert_int_equal(c.at[i].k, i < 4 ? 64 : 96);
        assert_int_equal(c.at[i].experts, i < 4 ? 0 : 8);
    }
    assert_string_equal(c.at[0].name, "mmvq f32 m7 k64 n1");
    assert_string_equal(c.at[7].name, "mmvq f16 m9 k96 e8 n8");
    bench_cases_free(&c);
    c = select_cases("launch dequant", "f16", NULL, "7x64 9x96x8", NULL);
    assert_int_equal(count_of(&c, BENCH_DEQUANT, INGOT_TYPE_F16), 0);
    assert_int_equal(count_of(&c, BENCH_LAUNCH, INGOT_TYPE_F16), 1);
    assert_int_equal(count_of(&c, BENCH_LAUNCH, INGOT_TYPE_Q4_0), 0);
    assert_true(count_of(&c, BENCH_LAUNCH, BENCH_NO_TYPE) > 5);
    bench_cases_free(&c);
    c = select_cases(NULL, NULL, NULL, NULL, "mmvq f32 m4096 k* n2");
    assert_int_equal(c.count, 2);
    bench_cases_free(&c);
    /* A shape that a type does not have is shown, not dropped; experts are for products only. */
    c = select_cases("mmvq dequant", NULL, "1", "5x100 5x100x8", NULL);
    for (int i = 0; i < c.count; i++) {
        char why[96];
        const ingot_type type = (ingot_type)c.at[i].type;
        snprintf(why, sizeof why, "k = 100 is no multiple of %s's block of %d", ingot_type_name(type),
                 (int)ingot_type_block(type));
        assert_string_equal(c.at[i].skip, check_is_block(type) ? why : "");
        const bool products = !decoded_first(type);
        assert_int_equal(count_of(&c, BENCH_MMVQ, c.at[i].type), products ? 2 : 0);
        assert_int_equal(count_of(&c, BENCH_DEQUANT, c.at[i].type), check_is_block(type));
    }
    assert_int_equal(count_of(&c, BENCH_MMVQ, INGOT_TYPE_F32), 2);
    bench_cases_free(&c);
    c = select_cases("mmvq", "f32", "1", "2147483647x2147483647x1024", NULL);
    assert_non_null(strstr(c.at[0].skip, "63"));
    bench_cases_free(&c);
}

static char *text_of(void (*write)(FILE *to, void *user), void *user) {
    char *text = NULL, *copy;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    write(to, user);
    fclose(to);
    copy = check_alloc(bytes + 1);
    memcpy(copy, text, bytes + 1);
    free(text);
    return copy;
}

struct command {
    const char *name, *value;
    char *argv[4];
    int argc, status;
    bool measures;
    struct bench_cases cases;
    FILE *other; /* the stream that is not looked at */
    bool errors; /* look at stderr */
};
static void run_command(FILE *to, void *user) {
    struct command *c = user;
    static const char *const variables[] = {"OPS", "TYPES", "N", "SHAPES", "K"};
    char *kept = getenv("K") ? strdup(getenv("K")) : NULL; /* this program's own pattern */
    for (size_t i = 0; i < COUNT(variables); i++) unsetenv(variables[i]);
    if (c->name) setenv(c->name, c->value, 1);
    c->measures =
        bench_command(c->argc, c->argv, c->errors ? c->other : to, c->errors ? to : c->other, &c->cases, &c->status);
    for (size_t i = 0; i < COUNT(variables); i++) unsetenv(variables[i]);
    if (kept) setenv("K", kept, 1);
    free(kept);
}

static void malformed_values_are_refused(void **state) {
    static const char *const bad[][3] = {
        /* variable, value, what the message must have */
        {"OPS", "mmvx", "\"mmvx\"; there are: mmvq mmq dequant launch"},
        {"OPS", "mmvq MMVQ", "\"MMVQ\""},
        {"TYPES", "f32 q9_0", "\"q9_0\"; it has: f32"},
        {"TYPES", "F32", "\"F32\""},
        {"TYPES", "i32", "\"i32\""},
        {"TYPES", "?", "\"?\""},
        {"N", "0", "\"0\" is no number from 1 to 8192"},
        {"N", "8193", "\"8193\""},
        {"N", "-1", "\"-1\""},
        {"N", "1,2", "\"1,2\""},
        {"N", "18446744073709551617", "\"18446744073709551617\""},
        {"SHAPES", "4096", "\"4096\""},
        {"SHAPES", "4096x", "\"4096x\""},
        {"SHAPES", "x4096", "\"x4096\""},
        {"SHAPES", "0x4096", "\"0x4096\""},
        {"SHAPES", "4096x0", "\"4096x0\""},
        {"SHAPES", "1x32 4096*32", "\"4096*32\""},
        {"SHAPES", "4096x4096x7", "\"4096x4096x7\""},
        {"SHAPES", "4096x4096x1025", "\"4096x4096x1025\""},
        {"SHAPES", "4096x4096x8x", "\"4096x4096x8x\""},
        {"SHAPES", "2147483648x32", "\"2147483648x32\""},
        {"SHAPES", "99999999999999999999x32", "\"99999999999999999999x32\""},
        {"K", "no such case", "no case is left"},
    };
    FILE *other = tmpfile();
    (void)state;
    assert_non_null(other);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct command c = {bad[i][0], bad[i][1], {(char *)"bench"}, 1, -1, true, {0}, other, true};
        const char *text = text_of(run_command, &c);
        if (c.status != 2 || c.measures || !strstr(text, bad[i][2]) || strncmp(text, "bench: ", 7) != 0)
            check_fail("%s=\"%s\": status %d, \"%s\"", bad[i][0], bad[i][1], c.status, text);
        if (strcmp(bad[i][0], "K") != 0 && !strstr(text, bad[i][0])) check_fail("%s is not named: %s", bad[i][0], text);
    }
    char *const wrong[][2] = {{(char *)"--lists", NULL}, {(char *)"--list", (char *)"x"}, {(char *)"", NULL}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct command c = {
            NULL, NULL, {(char *)"bench", wrong[i][0], wrong[i][1]}, wrong[i][1] ? 3 : 2, -1, true, {0}, other, true};
        const char *text = text_of(run_command, &c);
        if (c.status != 2 || c.measures || !strstr(text, "usage")) check_fail("status %d, \"%s\"", c.status, text);
    }
    fclose(other);
}

static void lists_and_goes_on(void **state) {
    ingot_type types[CHECK_TYPES];
    FILE *other = tmpfile();
    (void)state;
    assert_non_null(other);
    struct command list = {"SHAPES", "96x64 9x100", {(char *)"bench", (char *)"--list"}, 2, -1, true, {0},
                           other,    false};
    const char *text = text_of(run_command, &list);
    assert_int_equal(list.status, 0);
    assert_false(list.measures);
    assert_non_null(strstr(text, "\nmmvq f32 m96 k64 n8 ")); /* 24576 bytes by 1024 launches */
    assert_non_null(strstr(text, " 24576      25.2\n"));
    assert_non_null(strstr(text, "\nmmvq f16 m9 k100 n1 "));
    assert_true(check_types(types) == 3 || strstr(text, " skipped: k = 100 is no multiple of ") != NULL);
    struct command go = {"K", "mmvq f32 m4096 k4096 n1", {(char *)"bench"}, 1, -1, false, {0}, other, false};
    assert_string_equal(text_of(run_command, &go), "");
    assert_true(go.measures);
    assert_int_equal(go.cases.count, 1);
    bench_cases_free(&go.cases);
    assert_int_equal(ftell(other), 0); /* nothing on stderr */
    fclose(other);
}

/* ---- where data lies */

static void weights_are_cold(void **state) {
    (void)state;
    struct bench_cases cases = select_cases("mmvq dequant", NULL, "1 3 8", NULL, NULL);
    for (int i = 0; i < cases.count; i++) {
        const struct bench_case *c = &cases.at[i];
        const size_t wanted = c->experts ? 2 * BENCH_COLD : BENCH_COLD;
        ingot_tensor w;
        CHECK_OK(
            ingot_tensor_init(&w, (ingot_type)c->type, 3, (int64_t[]){c->k, c->m, c->experts ? c->experts : 1}, NULL));
        const size_t weights = ingot_tensor_size(&w);
        const bool alone = c->matrices == 1 && weights > BENCH_ALONE;
        if (c->pool != (size_t)c->matrices * c->slot || c->slot < weights || c->slot % 256 != 0 || c->slot < c->bytes)
            check_fail("%s: %d slots of %zu", c->name, c->matrices, c->slot);
        if ((c->pool < wanted && !alone) || c->pool > wanted + c->slot || c->matrices > c->launches ||
            c->launches < BENCH_LAUNCHES_MIN || c->launches > BENCH_LAUNCHES_MAX)
            check_fail("%s: %d launches, %d matrices, %zu bytes", c->name, c->launches, c->matrices, c->pool);
        if (c->op == BENCH_MMVQ && !c->experts && c->bytes != weights) check_fail("%s: %zu bytes", c->name, c->bytes);
        if (c->op == BENCH_DEQUANT && c->bytes != weights + (size_t)(c->m * c->k) * 2)
            check_fail("%s: %zu bytes", c->name, c->bytes);
    }
    bench_cases_free(&cases);
}

static void experts_are_distinct_and_counted(void **state) {
    int32_t *ids = check_alloc(BENCH_IDS_MAX * sizeof *ids), *again = check_alloc(BENCH_IDS_MAX * sizeof *ids);
    (void)state;
    struct bench_cases cases = select_cases("mmvq", "f32", "1 2 3 8", "768x2048x128 32x32x8 32x32x1024 64x32x9", NULL);
    assert_int_equal(cases.count, 16);
    for (int i = 0; i < cases.count; i++) {
        const struct bench_case *c = &cases.at[i];
        const size_t count = (size_t)c->launches * (size_t)(BENCH_USED * c->n);
        assert_true(count <= BENCH_IDS_MAX);
        const double mean = bench_ids(c, ids);
        assert_true(bench_ids(c, again) == mean);
        assert_memory_equal(ids, again, count * sizeof *ids);
        size_t touched = 0, used[1024] = {0}, repeated = 0;
        for (int l = 0; l < c->launches; l++) {
            const int32_t *of = ids + (size_t)l * (size_t)(BENCH_USED * c->n);
            bool seen[1024] = {false};
            for (int64_t e = 0; e < BENCH_USED * c->n; e++) {
                if (of[e] < 0 || of[e] >= c->experts) check_fail("%s: expert %d", c->name, of[e]);
                for (int64_t f = e / BENCH_USED * BENCH_USED; f < e; f++)
                    if (of[f] == of[e]) check_fail("%s: expert %d twice for one token", c->name, of[e]);
                touched += !seen[of[e]];
                seen[of[e]] = true;
                used[of[e]]++;
            }
            repeated += l > 0 && memcmp(of, of - BENCH_USED * c->n, (size_t)(BENCH_USED * c->n) * 4) == 0;
        }
        assert_true((double)touched / c->launches == mean);
        assert_int_equal((int64_t)c->bytes, (int64_t)(mean * (double)(c->m * c->k * 4) + 0.5));
        if (repeated > (size_t)c->launches / 100)
            check_fail("%s: the same experts %zu times in a row", c->name, repeated);
        for (int64_t e = 0; e < c->experts && count > 40 * (size_t)c->experts; e++)
            if (used[e] == 0) check_fail("%s: expert %d is never chosen", c->name, (int)e);
    }
    bench_cases_free(&cases);
}

/* ---- graphs */

/* Each product has a slot of its own, in turn, and its own ids; else the figures are those of weights in the L2. */
static void check_places(const struct bench_case *c, const struct bench_memory *memory, const struct ingot_graph *g) {
    int products = 0;
    for (int i = 0; i < g->command_count; i++) {
        struct ingot_mmv_args args;
        const char *family = ingot_family_name((enum ingot_family)g->commands[i].kernel->family);
        if (strncmp(family, "mmv", 3) != 0 && strcmp(family, "mmq") != 0) continue;
        memcpy(&args, g->commands[i].u.args, sizeof args);
        const char *ids = memory->ids + (size_t)products * (size_t)(BENCH_USED * c->n) * sizeof(int32_t);
        if ((const char *)args.w != memory->pool + (size_t)(products % c->matrices) * c->slot ||
            (const char *)args.ids != (c->experts ? ids : NULL))
            check_fail("%s: product %d reads other weights or ids", c->name, products);
        products++;
    }
    if (products != c->launches) check_fail("%s: %d products", c->name, products);
}

/* Builds and runs a case of few launches; the launches of a replay. */
static int launches_of(const struct bench_case *c, const struct bench_memory *memory, bool alone) {
    ingot_context *ctx = check_context();
    ingot_graph *g = NULL;
    ingot_plan_info info;
    CHECK_OK(bench_graph(ctx, c, memory, alone, &g, &info));
    if (c->op == BENCH_MMVQ || (c->op == BENCH_MMQ && !ctx->blas)) check_places(c, memory, g);
    for (int run = 0; run < 3; run++) CHECK_OK(ingot_graph_run(g));
    CHECK_OK(ingot_synchronize(ctx));
    ingot_graph_destroy(g);
    return info.launches;
}

static void graphs_launch_what_they_say(void **state) {
    ingot_context *ctx = check_context();
    ingot_buffer *pool = NULL, *x = NULL, *ids = NULL;
    int32_t *host_ids = check_alloc(BENCH_IDS_MAX * sizeof *host_ids);
    const size_t pool_bytes = BENCH_SMALL;
    unsigned char *before = check_alloc(pool_bytes), *after = check_alloc(pool_bytes);
    size_t seen[BENCH_OPS] = {0};
    (void)state;
    for (size_t i = 0; i < pool_bytes; i += 8) {
        const uint64_t bits = check_random() & ~(uint64_t)0x4000400040004000u;
        memcpy(before + i, &bits, 8);
    }
    CHECK_OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, pool_bytes, &pool));
    CHECK_OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, BENCH_X, &x));
    CHECK_OK(ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, BENCH_IDS_MAX * sizeof *host_ids, &ids));
    CHECK_OK(ingot_buffer_set(pool, 0, before, pool_bytes));
    CHECK_OK(ingot_buffer_set(x, 0, before, BENCH_X));
    struct bench_memory memory = {ingot_buffer_data(pool), ingot_buffer_data(x), ingot_buffer_data(ids)};
    struct bench_cases cases = select_cases(NULL, NULL, "1 3 20", "40x256 24x512x8", NULL);
    for (int i = 0; i < cases.count; i++) {
        struct bench_case c = cases.at[i];
        if (c.skip[0]) continue;
        c.launches = 5;
        c.matrices = c.op == BENCH_LAUNCH ? 1 : 3;
        memset(host_ids, 0, BENCH_IDS_MAX * sizeof *host_ids);
        if (c.experts) (void)bench_ids(&c, host_ids);
        CHECK_OK(ingot_buffer_set(ids, 0, host_ids, BENCH_IDS_MAX * sizeof *host_ids));
        const bool block = c.type != BENCH_NO_TYPE && check_is_block((ingot_type)c.type);
        if (c.op == BENCH_MMQ) { /* a GEMM converts both operands, or neither */
            const int alone = launches_of(&c, &memory, true), least = c.launches, most = 3 * c.launches;
            seen[c.op]++;
            if (ctx->blas ? alone < least || alone > most : alone != (block ? 2 : 1) * c.launches)
                check_fail("%s: %d launches", c.name, alone);
            continue;
        }
        const int shared = launches_of(&c, &memory, false);
        int expected = c.launches;
        if (c.op == BENCH_MMVQ) expected += block; /* one rounding */
        if (c.op == BENCH_LAUNCH && block) expected += bench_steps[c.step].rounded ? c.launches : 1;
        if (shared != expected) check_fail("%s: %d launches, expected %d", c.name, shared, expected);
        if (c.op == BENCH_MMVQ) {
            const int alone = launches_of(&c, &memory, true);
            expected = block ? 2 * c.launches : c.launches;
            if (alone != expected) check_fail("%s: %d launches alone, expected %d", c.name, alone, expected);
        }
        CHECK_OK(ingot_buffer_get(pool, 0, after, pool_bytes));
        if (c.op != BENCH_DEQUANT && memcmp(before, after, pool_bytes) != 0)
            check_fail("%s writes its weights", c.name);
        for (int slot = 0; slot < c.matrices && c.op == BENCH_DEQUANT; slot++) {
            const size_t at = (size_t)slot * c.slot, from = c.bytes - (size_t)(c.m * c.k) * 2;
            if (memcmp(before + at, after + at, from) != 0) check_fail("%s writes its weights", c.name);
            if (memcmp(before + at + from, after + at + from, c.slot - from) == 0) check_fail("%s: no result", c.name);
            CHECK_OK(ingot_buffer_set(pool, at, before + at, c.slot));
        }
        seen[c.op]++;
    }
    for (int op = 0; op < BENCH_OPS; op++)
        if (!seen[op]) check_fail("no case of %s was run", bench_op_name((enum bench_op)op));
    bench_cases_free(&cases);
    ingot_buffer_destroy(pool);
    ingot_buffer_destroy(x);
    ingot_buffer_destroy(ids);
}

/* ---- the report */

struct run {
    FILE *json;
    double factor;
};
static void write_report(FILE *to, void *user) {
    const struct run *run = user;
    struct bench_report r;
    ingot_device dev = {.name = "a \"card\" \\ \n", .sm_count = 7, .cc_major = 9};
    const struct bench_case product = {.op = BENCH_MMVQ,
                                       .name = "mmvq q4_0 m2 k32 n1",
                                       .type = INGOT_TYPE_Q4_0,
                                       .bytes = 5000},
                            step = {.op = BENCH_LAUNCH, .name = "launch add", .type = BENCH_NO_TYPE},
                            large = {.op = BENCH_MMVQ, .name = "mmvq f32", .type = INGOT_TYPE_F32};
    bench_report_begin(&r, to, run->json, &dev);
    bench_report_row(&r, &product, &(struct bench_figures){.us = 5 * run->factor, .chain_us = 6, .read_us = 4.24});
    bench_report_skip(&r, &large, "needs 3.0 GB, free 1.0 GB");
    bench_report_row(&r, &step, &(struct bench_figures){.us = 1, .plain_us = 2.5, .launches = 1});
    bench_report_end(&r);
}

static int compare(const char *a, const char *b) {
    char command[512];
    const char *python = getenv("PYTHON") ? getenv("PYTHON") : "python3";
    snprintf(command, sizeof command, "%s bench/compare.py %s %s >/dev/null", python, a, b);
    const int status = system(command);
    return status >= 0 && status % 256 == 0 ? status / 256 : -1;
}

static void report_is_read_by_compare(void **state) {
    char names[3][32] = {"/tmp/ingot-bench-XXXXXX", "/tmp/ingot-bench-XXXXXX", "/tmp/ingot-bench-XXXXXX"};
    const double factors[] = {1, 1.04, 1.06};
    const char *text = "";
    (void)state;
    for (int i = 0; i < 3; i++) {
        const int fd = mkstemp(names[i]);
        struct run run = {fd >= 0 ? fdopen(fd, "w") : NULL, factors[i]};
        if (!run.json) check_fail("%s cannot be written", names[i]);
        text = text_of(write_report, &run);
        fclose(run.json);
    }
    const int status[] = {compare(names[0], names[0]), compare(names[0], names[1]), compare(names[0], names[2]),
                          compare(names[2], names[0])};
    for (int i = 0; i < 3; i++) remove(names[i]);
    assert_int_equal(status[0], 0);
    assert_int_equal(status[1], 0);
    assert_int_equal(status[2], 1);
    assert_int_equal(status[3], 0);
    /* of the last file: 5000 bytes in 5.3 us */
    if (!strstr(text, "us/read\n") || !strstr(text, "      5.30      6.00      4.24        1     1.25\n"))
        check_fail("no product in\n%s", text);
    if (!strstr(text, "us without PDL") || !strstr(text, "     1.00            2.50      1.50         1\n"))
        check_fail("no launch in\n%s", text);
    if (!strstr(text, "skipped: needs 3.0 GB, free 1.0 GB\n") || !strstr(text, "\n2 measured, 1 skipped\n"))
        check_fail("no count in\n%s", text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(everything_by_default),
        CHECK_TEST(words_select),
        CHECK_TEST(malformed_values_are_refused),
        CHECK_TEST(lists_and_goes_on),
        CHECK_TEST(weights_are_cold),
        CHECK_TEST(experts_are_distinct_and_counted),
        CHECK_TEST(graphs_launch_what_they_say),
        CHECK_TEST(report_is_read_by_compare),
    };
    return check_main("bench", tests, COUNT(tests));
}
