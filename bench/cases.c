// SPDX-License-Identifier: MIT
/* cases.c - see cases.h. */
#include "bench/cases.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench/graphs.h"
#include "src/kernels/kernels.h"

enum { TYPES = 64, SHAPES = 64, EDGE = 256 };

struct shape {
    int64_t m, k, experts;
};

/* A selection with every word understood. */
struct choice {
    bool ops[BENCH_OPS], types[TYPES], columns[BENCH_MANY_MAX + 1];
    bool all_types, own_shapes;
    struct shape shapes[SHAPES];
    int shape_count;
    const char *pattern;
};

static const char default_shapes[] = "4096x14336 14336x4096 4096x4096 1024x4096 151936x4096 768x2048x128";
static const char default_columns[] = "1 2 4 8 16 64 256 1024 4096";

const char *bench_op_name(enum bench_op op) {
    static const char *const names[] = {
#define BENCH_OP(NAME, name) #name,
#include "bench/ops.inc"
#undef BENCH_OP
    };
    return names[op];
}

static bool refuse(struct bench_cases *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct bench_cases *out, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->error, sizeof out->error, fmt, args);
    va_end(args);
    return false;
}

/* ---- words */

/* The next word of a list into `word`, cut off if it is too long to be right; false at the end. */
static bool next_word(const char **list, char word[64]) {
    const char *p = *list;
    size_t n = 0;
    while (isspace((unsigned char)*p)) p++;
    for (; *p && !isspace((unsigned char)*p); p++)
        if (n < 63) word[n++] = *p;
    word[n] = '\0';
    *list = p;
    return n > 0;
}

/* A decimal number from `low` to `high` at *text, which moves past it. */
static bool number(const char **text, int64_t low, int64_t high, int64_t *out) {
    const char *p = *text;
    int64_t value = 0;
    if (!isdigit((unsigned char)*p)) return false;
    for (; isdigit((unsigned char)*p); p++) {
        value = 10 * value + (*p - '0');
        if (value > high) return false;
    }
    *text = p;
    *out = value;
    return value >= low;
}

/* True if the build's list of types has this word. */
static bool in_build(const char *name) {
    const char *list = ingot_build_info().types;
    char word[64];
    while (next_word(&list, word))
        if (strcmp(word, name) == 0) return true;
    return false;
}

static bool read_ops(const char *list, struct choice *c, struct bench_cases *out) {
    char word[64], known[128] = "";
    for (int op = 0; op < BENCH_OPS; op++) {
        strcat(known, " ");
        strcat(known, bench_op_name((enum bench_op)op));
    }
    while (next_word(&list, word)) {
        bool found = strcmp(word, "all") == 0;
        for (int op = 0; op < BENCH_OPS; op++)
            if (strcmp(word, "all") == 0 || strcmp(word, bench_op_name((enum bench_op)op)) == 0)
                c->ops[op] = found = true;
        if (!found) return refuse(out, "OPS: there are no cases named \"%s\"; there are:%s", word, known);
    }
    return true;
}

static bool read_types(const char *list, struct choice *c, struct bench_cases *out) {
    char word[64];
    while (next_word(&list, word)) {
        bool found = false;
        for (int type = 0; type < TYPES; type++)
            if (strcmp(word, ingot_type_name((ingot_type)type)) == 0 && in_build(word)) c->types[type] = found = true;
        if (!found)
            return refuse(out, "TYPES: this build has no type \"%s\"; it has: %s", word, ingot_build_info().types);
    }
    return true;
}

static bool read_columns(const char *list, struct choice *c, struct bench_cases *out) {
    char word[64];
    while (next_word(&list, word)) {
        const char *p = word;
        int64_t n;
        if (!number(&p, 1, BENCH_MANY_MAX, &n) || *p)
            return refuse(out, "N: \"%s\" is no number from 1 to %d", word, BENCH_MANY_MAX);
        c->columns[n] = true;
    }
    return true;
}

static bool read_shapes(const char *list, struct choice *c, struct bench_cases *out) {
    char word[64];
    while (next_word(&list, word)) {
        struct shape s = {0, 0, 0};
        const char *p = word;
        bool good = number(&p, 1, INT32_MAX, &s.m) && *p++ == 'x' && number(&p, 1, INT32_MAX, &s.k), again = false;
        if (good && *p) good = *p++ == 'x' && number(&p, BENCH_USED, BENCH_EXPERTS_MAX, &s.experts) && !*p;
        if (!good)
            return refuse(out,
                          "SHAPES: \"%s\" is no shape; expected rows x columns of the weights, as 4096x14336, or with "
                          "%d to %d experts, as 768x2048x128",
                          word, BENCH_USED, BENCH_EXPERTS_MAX);
        for (int i = 0; i < c->shape_count; i++) again = again || memcmp(&c->shapes[i], &s, sizeof s) == 0;
        if (again) continue;
        if (c->shape_count == SHAPES) return refuse(out, "SHAPES: more than %d shapes", SHAPES);
        c->shapes[c->shape_count++] = s;
    }
    return true;
}

/* ---- sizes */

static size_t up(size_t bytes) {
    return (bytes + EDGE - 1) / EDGE * EDGE;
}
static int64_t within(int64_t low, int64_t value, int64_t high) {
    return value < low ? low : value > high ? high : value;
}
static int64_t rounds(size_t total, size_t part) {
    return (int64_t)((total + part - 1) / part);
}

static uint32_t draw(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

double bench_ids(const struct bench_case *c, int32_t *ids) {
    int32_t deck[BENCH_EXPERTS_MAX];
    uint64_t state = (uint64_t)c->n;
    int64_t touched = 0;
    for (int32_t e = 0; e < c->experts; e++) deck[e] = e;
    for (int launch = 0; launch < c->launches; launch++) {
        bool seen[BENCH_EXPERTS_MAX] = {false};
        for (int64_t token = 0; token < c->n; token++)
            for (int64_t i = 0; i < BENCH_USED; i++) { /* a card from what is left of the deck */
                const int64_t j = i + draw(&state) % (uint32_t)(c->experts - i);
                const int32_t e = deck[j];
                deck[j] = deck[i];
                deck[i] = e;
                touched += !seen[e];
                seen[e] = true;
                if (ids) *ids++ = e;
            }
    }
    return (double)touched / c->launches;
}

/* Matrices and launches of cold cases; a launch reads `part` bytes of the pool's slots. */
static void lay_out(struct bench_case *c, size_t slot, size_t part, size_t cold) {
    c->slot = up(slot);
    c->launches = (int)within(BENCH_LAUNCHES_MIN, rounds(BENCH_COLD, part), BENCH_LAUNCHES_MAX);
    c->matrices = slot > BENCH_ALONE && c->experts == 0 ? 1 : (int)within(1, rounds(cold, c->slot), c->launches);
    c->pool = (size_t)c->matrices * c->slot;
}

/* Bytes of a contiguous tensor; 0, and `skip` says why, if there is none such. */
static size_t size_of(struct bench_case *c, ingot_type type, int64_t k, int64_t m, int64_t experts) {
    ingot_tensor t;
    if (k % ingot_type_block(type) != 0) {
        snprintf(c->skip, sizeof c->skip, "k = %" PRId64 " is no multiple of %s's block of %" PRId64, k,
                 ingot_type_name(type), ingot_type_block(type));
        return 0;
    }
    if (ingot_tensor_init(&t, type, 3, (int64_t[]){k, m, experts}, NULL) != INGOT_OK) {
        snprintf(c->skip, sizeof c->skip, "%.150s", ingot_error(NULL));
        return 0;
    }
    return ingot_tensor_size(&t);
}

/* ---- cases */

static bool add_case(struct bench_cases *out, const struct choice *choice, const struct bench_case *c) {
    if (choice->pattern[0] && fnmatch(choice->pattern, c->name, 0) != 0) return true;
    if ((out->count & (out->count - 1)) == 0) { /* room for the next power of two */
        const size_t room = out->count ? 2 * (size_t)out->count : 1;
        struct bench_case *at = realloc(out->at, room * sizeof *at);
        if (!at) return refuse(out, "out of memory");
        out->at = at;
    }
    out->at[out->count++] = *c;
    return true;
}

static bool has_kernels(int type, enum ingot_family family, enum ingot_family other) {
    for (int i = 0; i < ingot_kernel_count; i++)
        if (ingot_kernels[i].type == type && (ingot_kernels[i].family == family || ingot_kernels[i].family == other))
            return true;
    return false;
}

static bool has_mat_vec(int type) {
    return has_kernels(type, INGOT_FAMILY_MMVQ, INGOT_FAMILY_MMVF);
}

static struct bench_case mat_vec(int type, const struct shape *s, int64_t n) {
    struct bench_case c = {.op = BENCH_MMVQ, .type = type, .m = s->m, .k = s->k, .n = n, .experts = s->experts};
    char experts[32] = "";
    if (s->experts) snprintf(experts, sizeof experts, " e%" PRId64, s->experts);
    snprintf(c.name, sizeof c.name, "mmvq %s m%" PRId64 " k%" PRId64 "%s n%" PRId64, ingot_type_name((ingot_type)type),
             s->m, s->k, experts, n);
    const size_t one = size_of(&c, (ingot_type)type, s->k, s->m, 1);
    const size_t all = s->experts ? size_of(&c, (ingot_type)type, s->k, s->m, s->experts) : one;
    const int64_t results = s->experts ? n * BENCH_USED : n;
    if (c.skip[0]) return c;
    if (s->experts) {
        lay_out(&c, all, (size_t)within(1, n * BENCH_USED, s->experts) * one, 2 * BENCH_COLD);
        c.bytes = (size_t)(bench_ids(&c, NULL) * (double)one + 0.5);
    } else {
        lay_out(&c, all, up(all), BENCH_COLD);
        c.bytes = all;
    }
    /* activations, the same rounded, results */
    c.rest = up((size_t)(s->k * n) * 4) + up((size_t)(s->k * n) * 2) + up((size_t)(s->m * results) * 4);
    return c;
}

static bool add_mat_vec(struct bench_cases *out, const struct choice *choice) {
    for (int s = 0; s < choice->shape_count; s++)
        for (int type = 0; type < TYPES; type++)
            for (int64_t n = 1; n <= BENCH_COLUMNS_MAX && choice->types[type] && has_mat_vec(type); n++) {
                if (!choice->columns[n]) continue;
                const struct bench_case c = mat_vec(type, &choice->shapes[s], n);
                if (!add_case(out, choice, &c)) return false;
            }
    return true;
}

static struct bench_case mat_mat(int type, int64_t m, int64_t k, int64_t n) {
    struct bench_case c = mat_vec(type, &(struct shape){m, k, 0}, n);
    c.op = BENCH_MMQ;
    snprintf(c.name, sizeof c.name, "mmq %s m%" PRId64 " k%" PRId64 " n%" PRId64, ingot_type_name((ingot_type)type), m,
             k, n);
    return c;
}

struct bench_case bench_f16_twin(const struct bench_case *c) {
    return mat_mat(INGOT_TYPE_F16, c->m, c->k, c->n);
}

static bool add_mat_mat(struct bench_cases *out, const struct choice *choice) {
    static const struct shape own[] = {{4096, 14336, 0}, {14336, 4096, 0}, {4096, 4096, 0}};
    const struct shape *shapes = choice->own_shapes ? choice->shapes : own;
    const int count = choice->own_shapes ? choice->shape_count : (int)(sizeof own / sizeof *own);
    for (int s = 0; s < count; s++)
        for (int type = 0; type < TYPES; type++)
            for (int64_t n = BENCH_COLUMNS_MAX + 1; n <= BENCH_MANY_MAX; n++) {
                if (shapes[s].experts || !choice->types[type] || !choice->columns[n] || !has_mat_vec(type)) continue;
                struct bench_case c = mat_mat(type, shapes[s].m, shapes[s].k, n);
                const struct bench_case twin = bench_f16_twin(&c);
                if (c.pool < twin.pool) c.pool = twin.pool; /* it lies there in turn */
                if (!add_case(out, choice, &c)) return false;
            }
    return true;
}

static bool add_dequant(struct bench_cases *out, const struct choice *choice) {
    static const struct shape square = {4096, 4096, 0};
    const struct shape *shapes = choice->own_shapes ? choice->shapes : &square;
    const int count = choice->own_shapes ? choice->shape_count : 1;
    for (int s = 0; s < count; s++)
        for (int type = 0; type < TYPES; type++) {
            struct bench_case c = {.op = BENCH_DEQUANT, .type = type, .m = shapes[s].m, .k = shapes[s].k};
            if (shapes[s].experts || !choice->types[type] || ingot_type_block((ingot_type)type) < 2) continue;
            snprintf(c.name, sizeof c.name, "dequant %s f16 m%" PRId64 " k%" PRId64, ingot_type_name((ingot_type)type),
                     c.m, c.k);
            const size_t from = size_of(&c, (ingot_type)type, c.k, c.m, 1),
                         to = size_of(&c, INGOT_TYPE_F16, c.k, c.m, 1);
            if (!c.skip[0]) lay_out(&c, up(from) + to, up(from) + to, BENCH_COLD);
            c.bytes = from + to;
            if (!add_case(out, choice, &c)) return false;
        }
    return true;
}

static bool add_launch(struct bench_cases *out, const struct choice *choice) {
    for (int step = 0; step < bench_step_count; step++) {
        const struct bench_step *s = &bench_steps[step];
        struct bench_case c = {
            .op = BENCH_LAUNCH, .type = s->type, .m = s->m, .k = s->k, .n = s->m ? 1 : 0, .step = step};
        if (s->type != BENCH_NO_TYPE && !choice->all_types && !choice->types[s->type]) continue;
        snprintf(c.name, sizeof c.name, "launch %s", s->name);
        c.launches = BENCH_CHAIN;
        c.matrices = 1;
        c.pool = c.slot = BENCH_SMALL;
        if (s->type != BENCH_NO_TYPE) {
            c.bytes = size_of(&c, (ingot_type)s->type, s->k, s->m, 1);
            if (!has_mat_vec(s->type))
                snprintf(c.skip, sizeof c.skip, "the build has no %s", ingot_type_name((ingot_type)s->type));
        }
        if (!add_case(out, choice, &c)) return false;
    }
    return true;
}

static const char *or_default(const char *given, const char *otherwise) {
    char word[64];
    const char *p = given ? given : "";
    return next_word(&p, word) ? given : otherwise;
}

bool bench_select(const struct bench_wish *wish, struct bench_cases *out) {
    struct choice c = {.pattern = wish->pattern ? wish->pattern : ""};
    const char *types = or_default(wish->types, NULL);
    const char *shapes = or_default(wish->shapes, NULL);
    *out = (struct bench_cases){0};
    c.all_types = types == NULL;
    c.own_shapes = shapes != NULL;
    if (!read_ops(or_default(wish->ops, "all"), &c, out)) return false;
    if (!read_types(types ? types : ingot_build_info().types, &c, out)) return false;
    if (!read_columns(or_default(wish->columns, default_columns), &c, out)) return false;
    if (!read_shapes(shapes ? shapes : default_shapes, &c, out)) return false;
    if ((c.ops[BENCH_MMVQ] && !add_mat_vec(out, &c)) || (c.ops[BENCH_MMQ] && !add_mat_mat(out, &c)) ||
        (c.ops[BENCH_DEQUANT] && !add_dequant(out, &c)) || (c.ops[BENCH_LAUNCH] && !add_launch(out, &c))) {
        bench_cases_free(out);
        return false;
    }
    if (out->count == 0)
        return refuse(out, "no case is left by OPS=\"%s\" TYPES=\"%s\" N=\"%s\" SHAPES=\"%s\" K=\"%s\"",
                      wish->ops ? wish->ops : "", wish->types ? wish->types : "", wish->columns ? wish->columns : "",
                      wish->shapes ? wish->shapes : "", c.pattern);
    return true;
}

void bench_cases_free(struct bench_cases *cases) {
    free(cases->at);
    cases->at = NULL;
    cases->count = 0;
}

/* ---- the command line */

void bench_list(const struct bench_cases *cases, FILE *to) {
    fprintf(to, "%-38s %9s %9s %12s %9s\n", "case", "launches", "matrices", "bytes", "pool MB");
    for (int i = 0; i < cases->count; i++) {
        const struct bench_case *c = &cases->at[i];
        fprintf(to, "%-38s ", c->name);
        if (c->skip[0]) fprintf(to, "skipped: %s\n", c->skip);
        else fprintf(to, "%9d %9d %12zu %9.1f\n", c->launches, c->matrices, c->bytes, (double)c->pool / 1e6);
    }
}

static const char help[] =
    "usage: bench [--list]\n"
    "  --list   shows the cases that are selected, and measures nothing\n"
    "Selection, from the environment (`make bench` passes it on):\n"
    "  OPS      mmvq, mmq, dequant, launch     TYPES    \"q4_0 q4_K\"     N    \"1 8 512\": columns\n"
    "  SHAPES   rows x columns of the weights, \"4096x14336\", or x experts, \"768x2048x128\"\n"
    "  K        pattern of cases, 'mmvq q4_0*'     JSON   file for the same figures\n";

bool bench_command(int argc, char *const *argv, FILE *out, FILE *err, struct bench_cases *cases, int *status) {
    const struct bench_wish wish = {getenv("OPS"), getenv("TYPES"), getenv("N"), getenv("SHAPES"), getenv("K")};
    const bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    *cases = (struct bench_cases){0};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, out);
        *status = 0;
        return false;
    }
    if (argc > 1 && !list) {
        fprintf(err, "bench: unknown argument \"%s\"\n%s", argv[strcmp(argv[1], "--list") == 0 ? 2 : 1], help);
        *status = 2;
        return false;
    }
    if (!bench_select(&wish, cases)) {
        fprintf(err, "bench: %s\n", cases->error);
        *status = 2;
        return false;
    }
    if (list) {
        bench_list(cases, out);
        bench_cases_free(cases);
    }
    *status = 0;
    return !list;
}
