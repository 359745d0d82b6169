// SPDX-License-Identifier: MIT
/* test_large.c - tensors beyond 2^31 bytes and 2^31 elements.  Only on a GPU with at least 32 GB of memory: each case
 * says why it is skipped elsewhere.
 *
 * Data is made on the device: a pattern is uploaded once and doubled by copies, rows of interest are set by hand, and
 * only these and random others are read back.  Results are poisoned before. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define GB 1000000000u

static void needs(double gigabytes) {
    ingot_device d = check_device();
    if (d.simt) {
        print_message("a GPU with 32 GB is needed; this is the SIMT host\n");
        skip();
    }
    if (d.memory_total < (size_t)32 * GB || (double)d.memory_free < (gigabytes + 2.0) * 1e9) {
        print_message("%.0f GB free on a GPU of at least 32 GB are needed; %s has %.1f of %.1f GB free\n",
                      gigabytes + 2.0, d.name, (double)d.memory_free / 1e9, (double)d.memory_total / 1e9);
        skip();
    }
}

/* A tensor with device memory and no host image; freed by teardown. */
enum { MAX_BUFFERS = 8 };
static ingot_buffer *buffers[MAX_BUFFERS];
static int buffer_count;

struct big {
    ingot_tensor t;
    ingot_buffer *b;
};

static int free_all(void **state) {
    while (buffer_count > 0) ingot_buffer_destroy(buffers[--buffer_count]);
    return check_teardown(state);
}

/* `stride` 0: rows of their own length; else bytes from row to row. */
static struct big big_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t stride) {
    struct big x;
    CHECK_OK(ingot_tensor_init(&x.t, type, 4, (int64_t[]){ne0, ne1, ne2, ne3}, NULL));
    if (stride) {
        x.t.nb[1] = stride;
        x.t.nb[2] = stride * (size_t)ne1;
        x.t.nb[3] = x.t.nb[2] * (size_t)ne2;
    }
    assert_true(buffer_count < MAX_BUFFERS);
    CHECK_OK(ingot_buffer_create(check_context(), INGOT_MEMORY_DEVICE, ingot_tensor_size(&x.t), &x.b));
    x.t.data = ingot_buffer_data(x.b);
    buffers[buffer_count++] = x.b;
    CHECK_OK(ingot_buffer_fill(x.b, 0, 0xff, ingot_tensor_size(&x.t)));
    return x;
}

/* Repeats `bytes` of a pattern over the whole buffer. */
static void big_repeat(struct big x, const void *pattern, size_t bytes) {
    const size_t size = ingot_buffer_size(x.b);
    size_t filled = bytes < size ? bytes : size;
    CHECK_OK(ingot_buffer_set(x.b, 0, pattern, filled));
    while (filled < size) {
        const size_t n = filled < size - filled ? filled : size - filled;
        CHECK_OK(ingot_buffer_copy(x.b, filled, x.b, 0, n));
        filled += n;
    }
}

static size_t offset_of(struct big x, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return (size_t)i0 * x.t.nb[0] + (size_t)i1 * x.t.nb[1] + (size_t)i2 * x.t.nb[2] + (size_t)i3 * x.t.nb[3];
}

static float f32_at(struct big x, size_t offset) {
    float f;
    CHECK_OK(ingot_buffer_get(x.b, offset, &f, 4));
    return f;
}

static float f16_at(struct big x, size_t offset) {
    uint16_t h;
    CHECK_OK(ingot_buffer_get(x.b, offset, &h, 2));
    return check_f16_to_f32(h);
}

static void compute(ingot_node node) {
    CHECK_OK(ingot_compute(check_context(), &node));
}

/* Row numbers on both sides of where `per_row` units reach 2^31 and 2^32, the first, the last and random ones. */
static int rows_of_interest(int64_t rows, int64_t per_row, int64_t *out) {
    int n = 0;
    out[n++] = 0;
    out[n++] = rows - 1;
    for (int bit = 30; bit <= 34; bit++)
        for (int64_t d = -1; d <= 1; d++) {
            const int64_t r = ((int64_t)1 << bit) / per_row + d;
            if (r > 0 && r < rows) out[n++] = r;
        }
    for (int i = 0; i < 40; i++) out[n++] = check_range(0, rows - 1);
    return n;
}
enum { MAX_ROWS = 64 };

static void add_R01(void **state) {
    (void)state;
    const int64_t width[] = {262144, 176384};
    needs(26.0);
    for (size_t w = 0; w < COUNT(width); w++) {
        struct big a = big_new(INGOT_TYPE_F32, width[w], 8192, 1, 1, 0),
                   b = big_new(INGOT_TYPE_F32, width[w], 8192, 1, 1, 0),
                   c = big_new(INGOT_TYPE_F32, width[w], 8192, 1, 1, 0);
        float pattern[1024];
        for (int i = 0; i < 1024; i++) pattern[i] = (float)i;
        big_repeat(a, pattern, sizeof pattern);
        for (int i = 0; i < 1024; i++) pattern[i] = 2.0f;
        big_repeat(b, pattern, sizeof pattern);
        compute((ingot_node){.op = INGOT_OP_ADD, .dst = c.t, .src = {&a.t, &b.t}});
        const int64_t total = width[w] * 8192,
                      fixed[] = {0,        1 << 29, (1 << 30) - 1, 1 << 30, (int64_t)0x7ffffffe, (int64_t)0x7fffffff,
                                 total - 1};
        for (int i = 0; i < 200; i++) {
            int64_t e = i < (int)COUNT(fixed) ? fixed[i] : check_range(0, total - 1);
            if (e >= total) continue;
            float got = f32_at(c, (size_t)e * 4);
            if (got != (float)(e % 1024) + 2.0f)
                check_fail("element %lld of %lld: %g, expected %g", (long long)e, (long long)total, got,
                           (double)(e % 1024) + 2.0);
        }
        free_all(NULL);
    }
}

static void cpy_R02(void **state) {
    (void)state;
    needs(14.0);
    /* f32 [64,128,270000], seen as [128,64,270000], to f16: 8.8 GB of source. */
    struct big a = big_new(INGOT_TYPE_F32, 64, 128, 270000, 1, 0), c = big_new(INGOT_TYPE_F16, 128, 64, 270000, 1, 0);
    float pattern[1024];
    for (int i = 0; i < 1024; i++) pattern[i] = (float)i;
    big_repeat(a, pattern, sizeof pattern);
    ingot_tensor view = a.t;
    view.ne[0] = 128, view.ne[1] = 64;
    view.nb[0] = a.t.nb[1], view.nb[1] = a.t.nb[0];
    compute((ingot_node){.op = INGOT_OP_CPY, .dst = c.t, .src = {&view}});
    for (int i = 0; i < 300; i++) {
        /* Source bytes around 2^31, 2^32, 2^33, then anywhere. */
        int64_t flat = i < 90 ? (((int64_t)1 << (29 + i / 30)) - 15 + i % 30) : check_range(0, 64 * 128 * 270000ll - 1);
        int64_t x = flat % 64, y = flat / 64 % 128, z = flat / 8192;
        float got = f16_at(c, offset_of(c, y, x, z, 0));
        if (got != (float)(flat % 1024))
            check_fail("source element %lld: %g, expected %lld", (long long)flat, got, (long long)(flat % 1024));
    }
}

static void mul_mat_R04(void **state) {
    (void)state;
    needs(6.0);
    /* q4_0 [14336, 250880]: rows of zeros but those around element 2^31 and byte 2^31, which are ones. */
    enum { K = 14336, M = 250880 };
    const int64_t ones[] = {0, 149796, 149797, 250879, 100000};
    struct big a = big_new(INGOT_TYPE_Q4_0, K, M, 1, 1, 0);
    unsigned char *row = check_alloc(K / 32 * 18);
    for (int i = 0; i < K / 32; i++) check_ones_block(INGOT_TYPE_Q4_0, row + i * 18);
    CHECK_OK(ingot_buffer_fill(a.b, 0, 0, ingot_buffer_size(a.b)));
    for (size_t i = 0; i < COUNT(ones); i++)
        CHECK_OK(ingot_buffer_set(a.b, offset_of(a, 0, ones[i], 0, 0), row, K / 32 * 18));
    for (int64_t n = 1; n <= 64; n *= 8) { /* mat-vec of one column and of many, GEMM */
        struct big b = big_new(INGOT_TYPE_F32, K, n, 1, 1, 0), c = big_new(INGOT_TYPE_F32, M, n, 1, 1, 0);
        float one[256], *got = check_alloc((size_t)M * 4);
        for (int i = 0; i < 256; i++) one[i] = 1.0f;
        big_repeat(b, one, sizeof one);
        compute((ingot_node){.op = INGOT_OP_MUL_MAT, .dst = c.t, .src = {&a.t, &b.t}});
        for (int64_t j = 0; j<n; j += n> 1 ? n - 1 : 1) {
            CHECK_OK(ingot_buffer_get(c.b, offset_of(c, 0, j, 0, 0), got, (size_t)M * 4));
            for (int64_t i = 0; i < M; i++) {
                bool is_one = false;
                for (size_t o = 0; o < COUNT(ones); o++) is_one = is_one || ones[o] == i;
                if (!(is_one ? fabsf(got[i] - K) <= K / 1000.0f : got[i] == 0.0f))
                    check_fail("n=%d: row %lld of column %lld: %g, expected %d", (int)n, (long long)i, (long long)j,
                               got[i], is_one ? K : 0);
            }
        }
        ingot_buffer_destroy(buffers[--buffer_count]);
        ingot_buffer_destroy(buffers[--buffer_count]);
    }
}

static void mul_mat_f16_wide(void **state) {
    (void)state;
    needs(12.0);
    /* f16 [14336, 250880] = 7.2 GB, n = 1 and 16. */
    enum { K = 14336, M = 250880 };
    struct big a = big_new(INGOT_TYPE_F16, K, M, 1, 1, 0);
    uint16_t ones[K];
    int64_t rows[MAX_ROWS];
    const int n_rows = rows_of_interest(M, K, rows);
    for (int i = 0; i < K; i++) ones[i] = 0x3c00;
    CHECK_OK(ingot_buffer_fill(a.b, 0, 0, ingot_buffer_size(a.b)));
    for (int r = 0; r < n_rows; r++) CHECK_OK(ingot_buffer_set(a.b, offset_of(a, 0, rows[r], 0, 0), ones, sizeof ones));
    for (int64_t n = 1; n <= 16; n += 15) {
        struct big b = big_new(INGOT_TYPE_F32, K, n, 1, 1, 0), c = big_new(INGOT_TYPE_F32, M, n, 1, 1, 0);
        float one[256], *got = check_alloc((size_t)M * 4);
        double sum = 0.0;
        for (int i = 0; i < 256; i++) one[i] = 1.0f;
        big_repeat(b, one, sizeof one);
        compute((ingot_node){.op = INGOT_OP_MUL_MAT, .dst = c.t, .src = {&a.t, &b.t}});
        CHECK_OK(ingot_buffer_get(c.b, offset_of(c, 0, n - 1, 0, 0), got, (size_t)M * 4));
        for (int r = 0; r < n_rows; r++)
            if (got[rows[r]] != (float)K)
                check_fail("n=%d: row %lld: %g, expected %d", (int)n, (long long)rows[r], got[rows[r]], K);
        for (int64_t i = 0; i < M; i++) sum += got[i];
        /* Rows of interest may repeat; all others are zero. */
        int64_t distinct = 0;
        for (int r = 0; r < n_rows; r++) {
            bool seen = false;
            for (int s = 0; s < r; s++) seen = seen || rows[s] == rows[r];
            distinct += !seen;
        }
        assert_true(sum == (double)distinct * K);
        ingot_buffer_destroy(buffers[--buffer_count]);
        ingot_buffer_destroy(buffers[--buffer_count]);
    }
}

static void dequant_R06(void **state) {
    (void)state;
    needs(8.0);
    /* q8_0 of 2^31 + 65536 elements to f16; element i is (i mod 127): the pattern has a period of 32 * 127. */
    const int64_t n = ((int64_t)1 << 31) + 65536;
    struct big a = big_new(INGOT_TYPE_Q8_0, 4096, n / 4096, 1, 1, 0),
               c = big_new(INGOT_TYPE_F16, 4096, n / 4096, 1, 1, 0);
    unsigned char *period = check_alloc(127 * 34);
    for (int b = 0; b < 127; b++) {
        check_ones_block(INGOT_TYPE_Q8_0, period + b * 34);
        for (int i = 0; i < 32; i++) period[b * 34 + 2 + i] = (unsigned char)((b * 32 + i) % 127);
    }
    big_repeat(a, period, 127 * 34);
    compute((ingot_node){.op = INGOT_OP_CPY, .dst = c.t, .src = {&a.t}});
    for (int i = 0; i < 400; i++) {
        int64_t e = i < 64    ? ((int64_t)1 << 31) - 32 + i
                    : i < 128 ? n - 64 + i - 64
                    : i < 192 ? ((int64_t)1 << 30) - 32 + i - 128
                              : check_range(0, n - 1);
        float got = f16_at(c, (size_t)e * 2);
        if (got != (float)(e % 127))
            check_fail("element %lld: %g, expected %lld", (long long)e, got, (long long)(e % 127));
    }
}

static void rms_norm_R08(void **state) {
    (void)state;
    needs(13.0);
    /* A narrow view of a wide parent: rows of 96 lie 9728 elements apart, 11.7 GB from first to last. */
    enum { K = 96, ROWS = 300000 };
    struct big a = big_new(INGOT_TYPE_F32, K, ROWS, 1, 1, 9728 * 4), c = big_new(INGOT_TYPE_F32, K, ROWS, 1, 1, 0);
    float three[K], *got = check_alloc((size_t)K * ROWS * 4);
    for (int i = 0; i < K; i++) three[i] = 3.0f;
    for (int64_t r = 0; r < ROWS; r++)
        if (r < 1000 || r >= 219000)
            CHECK_OK(ingot_buffer_set_async(a.b, offset_of(a, 0, r, 0, 0), three, sizeof three));
    compute((ingot_node){.op = INGOT_OP_RMS_NORM, .dst = c.t, .src = {&a.t}, .params.rms_norm.eps = 1e-12f});
    CHECK_OK(ingot_buffer_get(c.b, 0, got, (size_t)K * ROWS * 4));
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < K && (r < 1000 || r >= 219000); i++)
            if (!(fabsf(got[r * K + i] - 1.0f) <= 1e-6f))
                check_fail("row %lld, element %lld: %g, expected 1", (long long)r, (long long)i, got[r * K + i]);
}

static void rows_beyond_R07(void **state) {
    (void)state;
    needs(10.0);
    /* get_rows and set_rows on f16 [4096, 800000] = 6.5 GB, 3.3e9 elements. */
    enum { K = 4096, R = 800000 };
    struct big table = big_new(INGOT_TYPE_F16, K, R, 1, 1, 0);
    int64_t rows[MAX_ROWS];
    const int n = rows_of_interest(R, K, rows);
    struct big rows_in = big_new(INGOT_TYPE_F32, K, n, 1, 1, 0), ids = big_new(INGOT_TYPE_I64, n, 1, 1, 1, 0),
               ids32 = big_new(INGOT_TYPE_I32, n, 1, 1, 1, 0), out = big_new(INGOT_TYPE_F32, K, n, 1, 1, 0);
    float *host = check_alloc((size_t)K * (size_t)n * 4), *got = check_alloc((size_t)K * (size_t)n * 4);
    int32_t narrow[MAX_ROWS];
    /* The same row twice gets the same content, so that the winner does not matter. */
    for (int r = 0; r < n; r++) {
        narrow[r] = (int32_t)rows[r];
        for (int i = 0; i < K; i++) host[r * K + i] = (float)((rows[r] + i) % 2048);
    }
    CHECK_OK(ingot_buffer_set(rows_in.b, 0, host, (size_t)K * (size_t)n * 4));
    CHECK_OK(ingot_buffer_set(ids.b, 0, rows, (size_t)n * 8));
    CHECK_OK(ingot_buffer_set(ids32.b, 0, narrow, (size_t)n * 4));
    compute((ingot_node){.op = INGOT_OP_SET_ROWS, .dst = table.t, .src = {&rows_in.t, &ids.t}});
    for (int r = 0; r < n; r++)
        if (f16_at(table, offset_of(table, 77, rows[r], 0, 0)) != (float)((rows[r] + 77) % 2048))
            check_fail("set_rows: row %lld", (long long)rows[r]);
    compute((ingot_node){.op = INGOT_OP_GET_ROWS, .dst = out.t, .src = {&table.t, &ids32.t}});
    CHECK_OK(ingot_buffer_get(out.b, 0, got, (size_t)K * (size_t)n * 4));
    assert_memory_equal(got, host, (size_t)K * (size_t)n * 4);
}

static void soft_max_wide(void **state) {
    (void)state;
    needs(20.0);
    /* [32768, 70000] f32 = 9.2 GB with a pattern of 256 scores: each element is its own share / 128 repeats. */
    enum { K = 32768, ROWS = 70000 };
    struct big a = big_new(INGOT_TYPE_F32, K, ROWS, 1, 1, 0), c = big_new(INGOT_TYPE_F32, K, ROWS, 1, 1, 0);
    float pattern[256];
    double sum = 0.0;
    for (int i = 0; i < 256; i++) sum += exp((double)(pattern[i] = (float)(i % 17) / 4.0f));
    big_repeat(a, pattern, sizeof pattern);
    compute((ingot_node){.op = INGOT_OP_SOFT_MAX, .dst = c.t, .src = {&a.t}, .params.soft_max.scale = 1.0f});
    int64_t rows[MAX_ROWS];
    const int n = rows_of_interest(ROWS, K, rows);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < 4; i++) {
            int64_t e = i ? check_range(0, K - 1) : K - 1;
            double got = f32_at(c, offset_of(c, e, rows[r], 0, 0)),
                   expected = exp((double)pattern[e % 256]) / sum / (K / 256);
            if (!(fabs(got - expected) <= 1e-5 * expected))
                check_fail("row %lld, element %lld: %g, expected %g", (long long)rows[r], (long long)e, got, expected);
        }
}

static void attention_R05(void **state) {
    (void)state;
    needs(8.0);
    /* K and V of 1600 x 16 x 729 x 72: 1.3e9 elements, 2.7e9 bytes.  V of batch b is constant (b mod 4) / 2. */
    enum { D = 72, KEYS = 729, HEADS = 16, BATCHES = 1600 };
    struct big q = big_new(INGOT_TYPE_F32, D, 2, HEADS, BATCHES, 0),
               k = big_new(INGOT_TYPE_F16, D, KEYS, HEADS, BATCHES, 0),
               v = big_new(INGOT_TYPE_F16, D, KEYS, HEADS, BATCHES, 0),
               out = big_new(INGOT_TYPE_F32, D, HEADS, 2, BATCHES, 0);
    float q_pattern[333];
    uint16_t k_pattern[1021];
    for (size_t i = 0; i < COUNT(q_pattern); i++) q_pattern[i] = (float)check_uniform(-1.0, 1.0);
    for (size_t i = 0; i < COUNT(k_pattern); i++) k_pattern[i] = check_f32_to_f16((float)check_uniform(-1.0, 1.0));
    big_repeat(q, q_pattern, sizeof q_pattern);
    big_repeat(k, k_pattern, sizeof k_pattern);
    for (int64_t b = 0; b < BATCHES; b++) {
        const uint16_t h = check_f32_to_f16((float)(b % 4) * 0.5f);
        const size_t bytes = v.t.nb[3];
        /* 0, 0.5, 1, 1.5 are 0000, 3800, 3c00, 3e00: set one row, double it. */
        uint16_t row[D];
        size_t filled = sizeof row;
        for (int i = 0; i < D; i++) row[i] = h;
        if (b >= 4) {
            CHECK_OK(ingot_buffer_copy(v.b, (size_t)b * bytes, v.b, (size_t)(b % 4) * bytes, bytes));
            continue;
        }
        CHECK_OK(ingot_buffer_set(v.b, (size_t)b * bytes, row, sizeof row));
        while (filled < bytes) {
            const size_t n = filled < bytes - filled ? filled : bytes - filled;
            CHECK_OK(ingot_buffer_copy(v.b, (size_t)b * bytes + filled, v.b, (size_t)b * bytes, n));
            filled += n;
        }
    }
    compute((ingot_node){
        .op = INGOT_OP_ATTENTION, .dst = out.t, .src = {&q.t, &k.t, &v.t}, .params.attention.scale = 0.1f});
    const size_t count = (size_t)D * HEADS * 2 * BATCHES;
    float *got = check_alloc(count * 4);
    CHECK_OK(ingot_buffer_get(out.b, 0, got, count * 4));
    for (size_t i = 0; i < count; i++) {
        const float expected = (float)(i / (D * HEADS * 2) % 4) * 0.5f;
        if (!(fabsf(got[i] - expected) <= 1e-5f)) check_fail("element %zu: %g, expected %g", i, got[i], expected);
    }
}

static void element_wise_in_place(void **state) {
    (void)state;
    needs(14.0);
    /* silu and mul in place on 3.3e9 f16 elements: 6.6 GB. */
    enum { K = 65536, ROWS = 50000 };
    struct big a = big_new(INGOT_TYPE_F16, K, ROWS, 1, 1, 0), scale = big_new(INGOT_TYPE_F32, 1, ROWS, 1, 1, 0);
    uint16_t pattern[512];
    float *s = check_alloc(ROWS * 4);
    for (int i = 0; i < 512; i++) pattern[i] = check_f32_to_f16((float)(i - 256) / 64.0f);
    for (int i = 0; i < ROWS; i++) s[i] = (float)(1 + i % 3);
    big_repeat(a, pattern, sizeof pattern);
    CHECK_OK(ingot_buffer_set(scale.b, 0, s, ROWS * 4));
    compute((ingot_node){.op = INGOT_OP_SILU, .dst = a.t, .src = {&a.t}});
    compute((ingot_node){.op = INGOT_OP_MUL, .dst = a.t, .src = {&a.t, &scale.t}});
    int64_t rows[MAX_ROWS];
    const int n = rows_of_interest(ROWS, K, rows);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < 4; i++) {
            int64_t e = i ? check_range(0, K - 1) : K - 1;
            double x = check_f16_to_f32(pattern[e % 512]), expected = x / (1.0 + exp(-x)) * s[rows[r]];
            double got = f16_at(a, offset_of(a, e, rows[r], 0, 0));
            if (!(fabs(got - expected) <= 2e-3 * fabs(expected) + 1e-6))
                check_fail("row %lld, element %lld: %g, expected %g", (long long)rows[r], (long long)e, got, expected);
        }
}

int main(void) {
#define LARGE_TEST(f) cmocka_unit_test_teardown(f, free_all)
    const struct CMUnitTest tests[] = {
        LARGE_TEST(add_R01),         LARGE_TEST(cpy_R02),
        LARGE_TEST(mul_mat_R04),     LARGE_TEST(mul_mat_f16_wide),
        LARGE_TEST(dequant_R06),     LARGE_TEST(rms_norm_R08),
        LARGE_TEST(rows_beyond_R07), LARGE_TEST(soft_max_wide),
        LARGE_TEST(attention_R05),   LARGE_TEST(element_wise_in_place),
    };
    return check_main("large", tests, COUNT(tests));
}
