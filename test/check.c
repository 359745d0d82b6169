// SPDX-License-Identifier: MIT
/* check.c - see check.h. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <fnmatch.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

/* ==================================================== Running ===================================================== */

static ingot_context *context;

ingot_context *check_context(void) {
    return context;
}

ingot_device check_device(void) {
    ingot_device d;
    memset(&d, 0, sizeof d);
    if (ingot_device_get(0, &d) != INGOT_OK) check_fail("no device: %s", ingot_error(NULL));
    return d;
}

static int open_context(void **state) {
    (void)state;
    ingot_status st = ingot_context_create(NULL, &context);
    if (st != INGOT_OK) fprintf(stderr, "no context: %s: %s\n", ingot_status_name(st), ingot_error(NULL));
    return st == INGOT_OK ? 0 : -1;
}

static int close_context(void **state) {
    (void)state;
    /* A fault of the last test's asynchronous work must not get lost. */
    ingot_status st = ingot_synchronize(context);
    if (st != INGOT_OK) fprintf(stderr, "at the end: %s: %s\n", ingot_status_name(st), ingot_error(context));
    ingot_context_destroy(context);
    context = NULL;
    return st == INGOT_OK ? 0 : -1;
}

int check_main(const char *group, const struct CMUnitTest *tests, size_t count) {
    const char *pattern = getenv("K");
    struct CMUnitTest *chosen = calloc(count ? count : 1, sizeof *chosen);
    size_t n = 0;
    if (!chosen) return 1;
    for (size_t i = 0; i < count; i++)
        if (!pattern || !*pattern || fnmatch(pattern, tests[i].name, 0) == 0) chosen[n++] = tests[i];
    (void)check_random(); /* prints the seed before the first test */
    int failed = n ? _cmocka_run_group_tests(group, chosen, n, open_context, close_context) : 0;
    free(chosen);
    return failed ? 1 : 0;
}

void check_status_at(ingot_status got, ingot_status expected, const ingot_context *ctx, const char *file, int line) {
    if (got == expected) return;
    print_error("%s:%d: %s, expected %s: %s\n", file, line, ingot_status_name(got), ingot_status_name(expected),
                ingot_error(ctx));
    fail();
}

void check_fail(const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_error("%s\n", text);
    fail();
    abort(); /* fail() does not return */
}

/* Memory of the running test: a list of blocks, each with a header. */
struct block {
    struct block *next;
    max_align_t data[];
};
static struct block *blocks;
static struct tensor *tensors;

void *check_alloc(size_t bytes) {
    struct block *b = malloc(sizeof *b + (bytes ? bytes : 1));
    if (!b) check_fail("out of host memory: %zu bytes", bytes);
    b->next = blocks;
    blocks = b;
    return b->data;
}

void check_release(void) {
    for (; tensors; tensors = tensors->next) ingot_buffer_destroy(tensors->buffer);
    while (blocks) {
        struct block *b = blocks;
        blocks = b->next;
        free(b);
    }
}

int check_teardown(void **state) {
    (void)state;
    check_release();
    return 0;
}

/* ================================================= Random numbers ================================================= */

static uint64_t random_state;

uint64_t check_random(void) {
    if (!random_state) {
        const char *given = getenv("INGOT_TEST_SEED");
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        random_state = given && *given
                           ? strtoull(given, NULL, 0)
                           : ((uint64_t)now.tv_sec << 20 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40);
        random_state = random_state ? random_state : 1;
        printf("INGOT_TEST_SEED=%llu\n", (unsigned long long)random_state);
        fflush(stdout);
    }
    /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t check_range(int64_t low, int64_t high) {
    return low + (int64_t)(check_random() % (uint64_t)(high - low + 1));
}

double check_uniform(double low, double high) {
    return low + (high - low) * ((double)(check_random() >> 11) * 0x1p-53);
}

/* ================================================= Number formats ================================================= */

static float bits_to_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t float_to_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float check_f16_to_f32(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(1024 + fraction), exponent - 25);
}

uint16_t check_f32_to_f16(float f) {
    uint16_t sign = signbit(f) ? 0x8000 : 0;
    double a = fabs((double)f);
    if (isnan(f)) return 0x7fff;
    if (a >= 65520.0) return (uint16_t)(sign | 0x7c00);
    /* The spacing of f16 around a; below 2^-14 it stays 2^-24.  rint() rounds to even. */
    int exponent;
    (void)frexp(a, &exponent);
    if (a == 0.0 || exponent < -13) return (uint16_t)(sign | (uint16_t)rint(ldexp(a, 24)));
    uint32_t fraction = (uint32_t)rint(ldexp(a, 11 - exponent)); /* 1024 .. 2048 */
    return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + fraction - 1024));
}

float check_bf16_to_f32(uint16_t h) {
    return bits_to_float((uint32_t)h << 16);
}

uint16_t check_f32_to_bf16(float f) {
    uint32_t u = float_to_bits(f);
    if (isnan(f)) return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

double check_round(ingot_type type, double x) {
    switch (type) {
    case INGOT_TYPE_F32:
        return (float)x;
    case INGOT_TYPE_F16:
        return check_f16_to_f32(check_f32_to_f16((float)x));
    case INGOT_TYPE_BF16:
        return check_bf16_to_f32(check_f32_to_bf16((float)x));
    default:
        return x;
    }
}

void check_quantize_row(const double *x, int64_t k, int8_t *q, float *d, float *s) {
    for (int64_t b = 0; b < k / 32; b++) {
        float largest = 0.0f;
        int sum = 0;
        for (int i = 0; i < 32; i++) largest = fmaxf(largest, fabsf((float)x[b * 32 + i]));
        d[b] = largest / 127.0f;
        for (int i = 0; i < 32; i++) {
            q[b * 32 + i] = d[b] > 0.0f ? (int8_t)rintf((float)x[b * 32 + i] / d[b]) : 0;
            sum += q[b * 32 + i];
        }
        s[b] = d[b] * (float)sum;
    }
}

/* ==================================================== Tensors ===================================================== */

enum { GUARD = 512 }; /* bytes on each side */

struct tensor *tensor_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                          const struct layout *how) {
    static const struct layout plain = {{0, 0, 0, 0}, {0, 1, 2, 3}, 0};
    struct layout l = how ? *how : plain;
    struct tensor *a = check_alloc(sizeof *a);
    int64_t block = ingot_type_block(type);
    memset(a, 0, sizeof *a);
    if (!(l.order[0] | l.order[1] | l.order[2] | l.order[3])) memcpy(l.order, plain.order, sizeof l.order);
    a->how = l;
    a->t.type = type;
    memcpy(a->t.ne, (int64_t[]){ne0, ne1, ne2, ne3}, sizeof a->t.ne);
    if (block == 0 || ne0 % block)
        check_fail("%lld elements are no whole blocks of %s", (long long)ne0, ingot_type_name(type));

    size_t unit = ingot_type_size(type), stride = unit, span = unit;
    bool empty = false;
    for (int i = 0; i < 4; i++) {
        int dim = l.order[i];
        int64_t n = dim == 0 ? ne0 / block : a->t.ne[dim];
        a->t.nb[dim] = stride;
        empty = empty || n == 0;
        if (n > 0) span += stride * (size_t)(n - 1);
        stride = stride * (size_t)(n ? n : 1) + (size_t)l.gap[i] * unit;
    }
    a->first = GUARD + l.offset;
    a->bytes = a->first + (empty ? 0 : span) + GUARD;
    a->host = check_alloc(a->bytes);
    memset(a->host, 0xff, a->bytes);
    ingot_status st = ingot_buffer_create(check_context(), INGOT_MEMORY_DEVICE, a->bytes, &a->buffer);
    if (st != INGOT_OK) check_fail("buffer of %zu bytes: %s", a->bytes, ingot_error(check_context()));
    a->t.data = (unsigned char *)ingot_buffer_data(a->buffer) + a->first;
    a->next = tensors;
    tensors = a;
    return a;
}

struct tensor *tensor_like(const struct tensor *a, ingot_type type) {
    return tensor_new(type, a->t.ne[0], a->t.ne[1], a->t.ne[2], a->t.ne[3], &a->how);
}

struct tensor *tensor_permuted(struct tensor *a, int axis0, int axis1, int axis2, int axis3) {
    const int axis[4] = {axis0, axis1, axis2, axis3};
    struct tensor *b = check_alloc(sizeof *b);
    *b = *a; /* not in the list of tensors: `a` owns the buffer */
    for (int i = 0; i < 4; i++) {
        b->t.ne[axis[i]] = a->t.ne[i];
        b->t.nb[axis[i]] = a->t.nb[i];
    }
    return b;
}

unsigned char *tensor_at(const struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return a->host + a->first + (size_t)i0 * a->t.nb[0] + (size_t)i1 * a->t.nb[1] + (size_t)i2 * a->t.nb[2] +
           (size_t)i3 * a->t.nb[3];
}

static void put(ingot_type type, unsigned char *p, double value) {
    float f = (float)value;
    uint16_t h;
    int32_t i;
    int64_t l;
    switch (type) {
    case INGOT_TYPE_F32:
        memcpy(p, &f, 4);
        break;
    case INGOT_TYPE_F16:
        h = check_f32_to_f16(f), memcpy(p, &h, 2);
        break;
    case INGOT_TYPE_BF16:
        h = check_f32_to_bf16(f), memcpy(p, &h, 2);
        break;
    case INGOT_TYPE_I32:
        i = (int32_t)value, memcpy(p, &i, 4);
        break;
    case INGOT_TYPE_I64:
        l = (int64_t)value, memcpy(p, &l, 8);
        break;
    default:
        check_fail("cannot set an element of %s", ingot_type_name(type));
    }
}

static double take(ingot_type type, const unsigned char *p) {
    float f;
    uint16_t h;
    int32_t i;
    int64_t l;
    switch (type) {
    case INGOT_TYPE_F32:
        memcpy(&f, p, 4);
        return f;
    case INGOT_TYPE_F16:
        memcpy(&h, p, 2);
        return check_f16_to_f32(h);
    case INGOT_TYPE_BF16:
        memcpy(&h, p, 2);
        return check_bf16_to_f32(h);
    case INGOT_TYPE_I32:
        memcpy(&i, p, 4);
        return i;
    case INGOT_TYPE_I64:
        memcpy(&l, p, 8);
        return (double)l;
    default:
        check_fail("cannot read an element of %s", ingot_type_name(type));
    }
}

void tensor_set(struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value) {
    put(a->t.type, tensor_at(a, i0, i1, i2, i3), value);
}

double tensor_get(const struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return take(a->t.type, tensor_at(a, i0, i1, i2, i3));
}

/* Calls f for each block (or element) in ne order. */
static void each(const struct tensor *a,
                 void (*f)(const struct tensor *a, unsigned char *p, int64_t number, void *user), void *user) {
    const int64_t n0 = a->t.ne[0] / ingot_type_block(a->t.type);
    int64_t number = 0;
    for (int64_t i3 = 0; i3 < a->t.ne[3]; i3++)
        for (int64_t i2 = 0; i2 < a->t.ne[2]; i2++)
            for (int64_t i1 = 0; i1 < a->t.ne[1]; i1++) {
                unsigned char *p = tensor_at(a, 0, i1, i2, i3);
                for (int64_t i0 = 0; i0 < n0; i0++) f(a, p + (size_t)i0 * a->t.nb[0], number++, user);
            }
}

static void decode_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    double *out = user;
    if (check_is_block(a->t.type)) check_decode_block(a->t.type, p, out + number * ingot_type_block(a->t.type));
    else out[number] = take(a->t.type, p);
}

double *tensor_values(const struct tensor *a) {
    double *out = check_alloc((size_t)ingot_tensor_elements(&a->t) * sizeof *out);
    each(a, decode_one, out);
    return out;
}

static void random_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    const double *limits = user;
    (void)number;
    if (check_is_block(a->t.type)) check_random_block(a->t.type, p, false);
    else put(a->t.type, p, check_uniform(limits[0], limits[1]));
}

void tensor_fill_random(struct tensor *a, double low, double high) {
    double limits[2] = {low, high};
    each(a, random_one, limits);
}

static void wild_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    (void)number, (void)user;
    if (check_is_block(a->t.type)) {
        check_random_block(a->t.type, p, true);
        return;
    }
    do
        for (size_t i = 0; i < ingot_type_size(a->t.type); i++) p[i] = (unsigned char)check_random();
    while (!isfinite(take(a->t.type, p)));
}

void tensor_fill_wild(struct tensor *a) {
    each(a, wild_one, NULL);
}

static void ones_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    (void)number, (void)user;
    if (check_is_block(a->t.type)) check_ones_block(a->t.type, p);
    else put(a->t.type, p, 1.0);
}

void tensor_fill_ones(struct tensor *a) {
    each(a, ones_one, NULL);
}

static void fill_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    (void)number;
    put(a->t.type, p, *(double *)user);
}

void tensor_fill(struct tensor *a, double value) {
    each(a, fill_one, &value);
}

struct by {
    double (*f)(int64_t);
};

static void by_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    put(a->t.type, p, ((struct by *)user)->f(number));
}

void tensor_fill_by(struct tensor *a, double (*f)(int64_t e)) {
    struct by by = {f};
    each(a, by_one, &by);
}

void tensor_poison(struct tensor *a) {
    memset(a->host, 0xff, a->bytes);
}

void tensor_upload(struct tensor *a) {
    CHECK_OK(ingot_buffer_set(a->buffer, 0, a->host, a->bytes));
}

void tensor_download(struct tensor *a) {
    CHECK_OK(ingot_buffer_get(a->buffer, 0, a->host, a->bytes));
}

/* ================================================== Comparisons =================================================== */

const char *check_shape(const ingot_tensor *t) {
    static char text[8][128];
    static int turn;
    char *s = text[turn = (turn + 1) % 8];
    snprintf(s, 128, "%s [%lld,%lld,%lld,%lld] nb [%zu,%zu,%zu,%zu]", ingot_type_name(t->type), (long long)t->ne[0],
             (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3], t->nb[0], t->nb[1], t->nb[2], t->nb[3]);
    return s;
}

double check_nmse(const double *out, const double *ref, int64_t count) {
    double error = 0.0, power = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (out[i] == ref[i] || (isnan(out[i]) && isnan(ref[i]))) {
            if (isfinite(ref[i])) power += ref[i] * ref[i];
            continue;
        }
        if (!isfinite(out[i]) || !isfinite(ref[i])) return INFINITY;
        error += (out[i] - ref[i]) * (out[i] - ref[i]);
        power += ref[i] * ref[i];
    }
    return error == 0.0 ? 0.0 : power > 0.0 ? error / power : INFINITY;
}

/* The distance of neighbouring numbers of a type around x. */
static double last_place(ingot_type type, double x) {
    int exponent;
    (void)frexp(x, &exponent);
    if (type == INGOT_TYPE_F16) return ldexp(1.0, (x == 0.0 || exponent < -13 ? -13 : exponent) - 11);
    return ldexp(1.0, (x == 0.0 || exponent < -125 ? -125 : exponent) - 8);
}

static void check_elements(const struct tensor *dst, const double *out, const double *ref, double nmse,
                           const char *what) {
    const ingot_type type = dst->t.type;
    const int64_t count = ingot_tensor_elements(&dst->t);
    int64_t bad = 0, first = -1;
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(ref[i])) largest = fmax(largest, fabs(ref[i]));
    /* A small difference of large numbers carries their f32 rounding. */
    const double slack = nmse > 0.0 ? 0x1p-21 * largest : 0.0;
    for (int64_t i = 0; i < count; i++) {
        bool good;
        if (isnan(ref[i]) || isnan(out[i])) good = isnan(ref[i]) && isnan(out[i]);
        else if (nmse == 0.0) good = out[i] == check_round(type, ref[i]);
        else if (type == INGOT_TYPE_F16 || type == INGOT_TYPE_BF16)
            good =
                out[i] == check_round(type, ref[i]) || fabs(out[i] - ref[i]) <= 0.51 * last_place(type, ref[i]) + slack;
        else good = true; /* NMSE decides */
        if (!good && bad++ == 0) first = i;
    }
    if (bad) {
        const int64_t *ne = dst->t.ne;
        check_fail(
            "%s: dst %s: %lld of %lld elements are wrong, the first at (%lld,%lld,%lld,%lld): %.9g, expected %.9g",
            what, check_shape(&dst->t), (long long)bad, (long long)count, (long long)(first % ne[0]),
            (long long)(first / ne[0] % ne[1]), (long long)(first / ne[0] / ne[1] % ne[2]),
            (long long)(first / ne[0] / ne[1] / ne[2]), out[first], check_round(type, ref[first]));
    }
    double e = check_nmse(out, ref, count);
    if (type == INGOT_TYPE_F32 && nmse > 0.0 && !(e <= nmse)) {
        int64_t worst = 0;
        for (int64_t i = 0; i < count; i++)
            if (fabs(out[i] - ref[i]) > fabs(out[worst] - ref[worst])) worst = i;
        const int64_t *ne = dst->t.ne;
        check_fail("%s: dst %s: NMSE %.3e, at most %.1e expected; worst at (%lld,%lld,%lld,%lld): %.9g, expected %.9g",
                   what, check_shape(&dst->t), e, nmse, (long long)(worst % ne[0]), (long long)(worst / ne[0] % ne[1]),
                   (long long)(worst / ne[0] / ne[1] % ne[2]), (long long)(worst / ne[0] / ne[1] / ne[2]), out[worst],
                   ref[worst]);
    }
}

struct covered {
    const unsigned char *host;
    unsigned char *image;
};

static void cover_one(const struct tensor *a, unsigned char *p, int64_t number, void *user) {
    const struct covered *c = user;
    (void)number;
    memcpy(c->image + (p - c->host), p, ingot_type_size(a->t.type));
}

void check_result(struct tensor *dst, const double *ref, double nmse, const char *what) {
    unsigned char *before = check_alloc(dst->bytes);
    memcpy(before, dst->host, dst->bytes);
    tensor_download(dst);
    check_elements(dst, tensor_values(dst), ref, nmse, what);
    /* With the result's own elements put into the old image the two must be equal. */
    struct covered c = {dst->host, before};
    each(dst, cover_one, &c);
    for (size_t i = 0; i < dst->bytes; i++)
        if (before[i] != dst->host[i])
            check_fail(
                "%s: dst %s: byte %lld from the first element is outside the tensor and was changed from %02x to "
                "%02x",
                what, check_shape(&dst->t), (long long)i - (long long)dst->first, before[i], dst->host[i]);
}

void check_unchanged(struct tensor *a, const char *what) {
    unsigned char *now = check_alloc(a->bytes);
    CHECK_OK(ingot_buffer_get(a->buffer, 0, now, a->bytes));
    for (size_t i = 0; i < a->bytes; i++)
        if (now[i] != a->host[i])
            check_fail("%s: source %s: byte %lld from the first element was changed from %02x to %02x", what,
                       check_shape(&a->t), (long long)i - (long long)a->first, a->host[i], now[i]);
}
