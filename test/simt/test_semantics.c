/* SPDX-License-Identifier: MIT
 *
 * test_semantics.c - every wrapper of device.cuh against a scalar reference written here. Uses the
 * CUDA runtime only, so the same file, built with nvcc's objects, checks a GPU.
 */
#include <math.h>

#include "test/simt/common.h"

/* ---- scalar references --------------------------------------------------------------------------- */

static float half_value(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(h & 0x8000 ? -v : v);
}
static float bf16_value(uint16_t b) {
    return float_of((uint32_t)b << 16);
}

/* Nearest even by search: slow and obviously right. `value` grows with the pattern up to `inf`. */
static uint16_t nearest(float f, uint16_t inf, float (*value)(uint16_t)) {
    const uint16_t sign = bits_of(f) >> 31 ? 0x8000 : 0;
    const double x = fabs((double)f);
    uint32_t lo = 0, hi = inf; /* value(lo) <= x */
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (value((uint16_t)mid) <= x) lo = mid;
        else hi = mid;
    }
    const double a = value((uint16_t)lo), b = hi == inf ? 2 * a - value((uint16_t)(lo - 1)) : value((uint16_t)hi);
    const uint32_t r = x - a < b - x ? lo : x - a > b - x ? hi : lo & 1 ? hi : lo;
    return (uint16_t)(sign | r);
}
static int s8(uint32_t v, int i) {
    return (int8_t)(v >> (8 * i));
}
static int u8(uint32_t v, int i) {
    return (uint8_t)(v >> (8 * i));
}
static uint32_t dot(uint32_t a, uint32_t b, uint32_t c, int unsigned_a) {
    for (int i = 0; i < 4; i++) c += (uint32_t)((unsigned_a ? u8(a, i) : s8(a, i)) * s8(b, i));
    return c;
}
static uint32_t permute(uint32_t a, uint32_t b, uint32_t sel, int sign_mode) {
    const uint64_t v = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t k = sel >> (4 * i) & 15;
        uint32_t c = (uint32_t)(v >> (8 * (k & 7))) & 255;
        if (sign_mode && k & 8) c = c & 128 ? 255 : 0;
        r |= c << (8 * i);
    }
    return r;
}

/* ---- warp collectives ------------------------------------------------------------------------------- */

static void shuffles_votes_and_reductions(void **state) {
    (void)state;
    uint32_t v[32], o[SHUFFLE_ROWS][32], add = 0, mx = 0, xr = 0, ballot = 0;
    int32_t mn = INT32_MAX;
    for (int i = 0; i < 32; i++) {
        v[i] = random_u32();
        add += v[i];
        xr ^= v[i];
        ballot |= (v[i] & 1) << i;
        if (v[i] > mx) mx = v[i];
        if ((int32_t)v[i] < mn) mn = (int32_t)v[i];
    }
    void *in = on_device(v, sizeof v), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_shuffle, 1, 32, 0, 0, (struct test_args){.in = in, .out = out}));
    to_host(o, out, sizeof o);
    for (int l = 0; l < 32; l++) {
        assert_int_equal(o[0][l], v[(l * 7 + 3) & 31]);
        assert_int_equal(o[1][l], v[l < 3 ? l : l - 3]);
        assert_int_equal(o[2][l], v[l + 5 > 31 ? l : l + 5]);
        assert_int_equal(o[3][l], v[l ^ 9]);
        assert_int_equal(o[4][l], v[(l & ~7) + 5]);
        assert_int_equal(o[5][l], v[(l ^ 12) >= (l & ~7) + 8 ? l : l ^ 12]);
        assert_int_equal(o[6][l], v[l ^ 1]);
        assert_int_equal(o[7][l], v[(l & 15) + 2 > 15 ? l : l + 2]);
        assert_int_equal(o[8][l], ballot);
        assert_int_equal(o[9][l], 1);
        assert_int_equal(o[10][l], l / 3 == 10 ? 3u << 30 : 7u << (l / 3 * 3));
        assert_int_equal(o[11][l], add);
        assert_int_equal(o[12][l], (uint32_t)mn);
        assert_int_equal(o[13][l], mx);
        assert_int_equal(o[14][l], xr);
        assert_int_equal(o[15][l], l ^ 1);
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
}
/* The xor butterfly, distance W / 2 first. */
static void butterfly(float *v, int width, int maximum) {
    float t[32];
    for (int o = width / 2; o; o /= 2) {
        for (int l = 0; l < 32; l++) t[l] = maximum ? fmaxf(v[l], v[l ^ o]) : v[l] + v[l ^ o];
        memcpy(v, t, sizeof t);
    }
}
static void float_reductions_are_bit_exact(void **state) {
    (void)state;
    static const struct {
        int width, maximum;
    } row[] = {{2, 0}, {4, 0}, {8, 0}, {16, 0}, {32, 0}, {2, 1}, {8, 1}, {32, 0}, {32, 1}};
    float v[32], o[REDUCE_ROWS][32], w[32];
    for (int i = 0; i < 32; i++) v[i] = random_float() * 100.0f;
    void *in = on_device(v, sizeof v), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_reduce, 1, 32, 0, 0, (struct test_args){.in = in, .out = out}));
    to_host(o, out, sizeof o);
    for (int r = 0; r < 9; r++) {
        memcpy(w, v, sizeof w);
        butterfly(w, row[r].width, row[r].maximum);
        assert_memory_equal(o[r], w, sizeof w);
    }
    for (int i = 0; i < 4; i++) {
        for (int l = 0; l < 32; l++) w[l] = i == 0 ? v[l] : i == 1 ? v[l] * 2.0f : i == 2 ? v[l] * v[l] : -v[l];
        butterfly(w, 32, 0);
        assert_memory_equal(o[9 + i], w, sizeof w);
    }
    for (int l = 0; l < 32; l++) assert_true(o[13][l] == 496 - 32 * 7);
    for (int i = 0; i < 12; i++) { /* sums handed out: four over groups of 16, eight over the warp */
        const int row = i < 4 ? 14 : 15, width = i < 4 ? 16 : 32, share = 4, k = i < 4 ? i : i - 4;
        for (int l = 0; l < 32; l++)
            w[l] = i < 4 ? (k == 0   ? v[l]
                            : k == 1 ? v[l] * 2.0f
                            : k == 2 ? v[l] * v[l]
                                     : -v[l])
                         : (k == 1   ? -v[l]
                            : k == 3 ? v[l] * v[l]
                            : k == 6 ? v[l] * 3.0f
                                     : v[l]);
        butterfly(w, width, 0);
        for (int l = 0; l < 32; l++)
            if (l % width / share == k) assert_int_equal(bits_of(o[row][l]), bits_of(w[l]));
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
}

/* ---- scalars ------------------------------------------------------------------------------------------ */

static uint32_t bytes_reference(int row, uint32_t x, uint32_t y, uint32_t z) {
    const uint32_t a[4] = {x, y, z, x ^ y}, b[4] = {y, z, x, z ^ y};
    uint32_t r = 0;
    switch (row) {
    case 0:
    case 17:
        return dot(x, y, z, 0);
    case 1:
        return dot(x, y, z, 1);
    case 2:
    case 3:
        r = row == 2 ? 11 : 12;
        for (int i = 0; i < 4; i++) r = dot(a[i], b[i], r, row == 3);
        return r;
    case 4:
        return permute(x, y, z, 1);
    case 5:
        return permute(x, y, z, 0);
    case 6:
        for (int i = 0; i < 4; i++) {
            const int d = s8(x, i) - s8(y, i);
            r |= (uint32_t)(uint8_t)(d > 127 ? 127 : d < -128 ? -128 : d) << (8 * i);
        }
        return r;
    case 7:
        return (uint32_t)(((uint64_t)y << 32 | x) >> (z & 31));
    case 8:
        return (uint32_t)(((uint64_t)y << 32 | x) << (z & 31) >> 32);
    case 9:
        for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
        return r;
    case 10:
        for (x >>= z & 31; r < 32 && !(x >> (31 - r) & 1);) r++;
        return r;
    case 11:
        x <<= z & 31;
        for (uint32_t i = 0; i < 32; i++)
            if (x >> i & 1) return i + 1;
        return 0;
    case 12:
        for (int i = 0; i < 32; i++) r += x >> i & 1;
        return r;
    case 13:
        return (uint32_t)((uint64_t)x * y >> 32);
    case 14:
        return (uint32_t)((int64_t)(int32_t)x * (int32_t)y >> 32);
    case 15:
        for (int i = 0; i < 4; i++) r |= (uint32_t)((u8(x, i) + u8(y, i)) & 255) << (8 * i);
        return r;
    case 18:
        return z + (x & 0xffff) * (uint32_t)s8(y, 0) + (x >> 16) * (uint32_t)s8(y, 1);
    default:
        for (int i = 0; i < 4; i++) r |= (u8(x, i) > u8(y, i) ? 255u : 0u) << (8 * i);
        return r;
    }
}
static void byte_and_bit_intrinsics(void **state) {
    (void)state;
    enum { N = 1000 };
    uint32_t *in = malloc(3 * N * 4), *o = malloc(BYTES_ROWS * N * 4);
    static const uint32_t edge[] = {0, 0xffffffffu, 0x80808080u, 0x7f7f7f7fu, 0x80000000u, 1};
    for (int i = 0; i < 3 * N; i++) in[i] = random_u32();
    for (int i = 0; i < 36; i++) in[i] = edge[i % 6], in[N + i] = edge[i / 6];
    void *din = on_device(in, 3 * N * 4), *out = on_device(NULL, BYTES_ROWS * N * 4);
    OK(launch(ingot_t_bytes, (N + 127) / 128, 128, 0, 0, (struct test_args){.in = din, .out = out, .n = N}));
    to_host(o, out, BYTES_ROWS * N * 4);
    for (int r = 0; r < BYTES_ROWS; r++)
        for (int i = 0; i < N; i++)
            if (o[r * N + i] != bytes_reference(r, in[i], in[N + i], in[2 * N + i]))
                fail_msg("row %d, %08x %08x %08x: %08x", r, in[i], in[N + i], in[2 * N + i], o[r * N + i]);
    OK(cudaFree(din));
    OK(cudaFree(out));
    free(in);
    free(o);
}
static void every_half_and_bf16_pattern(void **state) {
    (void)state;
    enum { N = 65536 };
    uint32_t *o = malloc(3 * N * 4);
    void *out = on_device(NULL, 3 * N * 4);
    OK(launch(ingot_t_half, N / 128, 128, 0, 0, (struct test_args){.out = out, .n = N}));
    to_host(o, out, 3 * N * 4);
    for (uint32_t i = 0; i < N; i++) {
        const float want = half_value((uint16_t)i), got = float_of(o[i]);
        if (isnan(want)) {
            assert_true(isnan(got) && isnan(half_value((uint16_t)o[N + i])));
        } else {
            assert_int_equal(bits_of(got), bits_of(want));
            assert_int_equal(o[N + i], i);
        }
        assert_int_equal(o[2 * N + i], i << 16);
    }
    OK(cudaFree(out));
    free(o);
}
static void narrowing_rounds_to_nearest_even(void **state) {
    (void)state;
    enum { N = 4096 };
    float *in = malloc(N * 4);
    uint32_t *o = malloc(4 * N * 4);
    static const float edge[] = {0.0f,          -0.0f,         65504.0f,      65519.9f,  65520.0f, 1e30f,
                                 3.3961776e38f, 2.9802322e-8f, 2.9802326e-8f, 6e-5f,     1e-40f,   2049.0f,
                                 2051.0f,       0.333f,        -1.0f,         6.1005e-5f};
    for (int i = 0; i < N; i++)
        in[i] = i % 4 == 0   ? random_float() * 65536.0f
                : i % 4 == 1 ? random_float() * 1e-4f
                : i % 4 == 2 ? float_of(random_u32() & 0xbfffffffu)
                             : random_float();
    memcpy(in, edge, sizeof edge);
    in[20] = INFINITY, in[21] = -INFINITY, in[22] = NAN, in[23] = float_of(0x7f800001u), in[24] = float_of(0xffffffffu);
    void *din = on_device(in, N * 4), *out = on_device(NULL, 4 * N * 4);
    OK(launch(ingot_t_narrow, N / 128, 128, 0, 0, (struct test_args){.in = din, .out = out, .n = N}));
    to_host(o, out, 4 * N * 4);
    for (int i = 0; i < N; i++) {
        if (isnan(in[i])) {
            assert_true(isnan(half_value((uint16_t)o[i])) && isnan(bf16_value((uint16_t)o[N + i])));
            continue;
        }
        const uint16_t h = isinf(in[i]) ? (in[i] > 0 ? 0x7c00 : 0xfc00) : nearest(in[i], 0x7c00, half_value);
        const uint16_t b = isinf(in[i]) ? (in[i] > 0 ? 0x7f80 : 0xff80) : nearest(in[i], 0x7f80, bf16_value);
        if (o[i] != h || o[N + i] != b)
            fail_msg("%.9g: half %04x, want %04x; bf16 %04x, want %04x", (double)in[i], o[i], h, o[N + i], b);
        assert_int_equal(o[2 * N + i], 0x3c000000u | h);
        assert_int_equal(o[3 * N + i], (uint32_t)b << 16 | 0x3f80u);
    }
    OK(cudaFree(din));
    OK(cudaFree(out));
    free(in);
    free(o);
}
static void loads_and_stores_of_every_width(void **state) {
    (void)state;
    uint32_t w[32 * 4], o[32 * 8];
    for (int i = 0; i < 128; i++) w[i] = random_u32();
    void *in = on_device(w, sizeof w), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_loads, 1, 32, 0, 0, (struct test_args){.in = in, .out = out}));
    to_host(o, out, sizeof o);
    for (int l = 0; l < 32; l++) {
        const uint32_t *q = w + 4 * l;
        uint32_t s = 3 * (q[0] + 3 * q[1] + 5 * q[2] + 7 * q[3]);
        s += q[2] + q[3] + q[2] + 2 * q[3] + q[1] + q[1] + (q[0] >> 16) + (q[0] >> 16) + (q[1] >> 16 | q[2] << 16);
        const uint32_t want[8] = {q[0], q[1], q[2], q[3], q[2], q[3], s, (s & 0xffff) | 7u << 16};
        assert_memory_equal(o + 8 * l, want, sizeof want);
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
}
static void math_functions(void **state) {
    (void)state;
    enum { N = 512 };
    float in[N], *o = malloc(MATH_ROWS * N * 4);
    for (int i = 0; i < N; i++) in[i] = random_float() * 30.0f;
    void *din = on_device(in, sizeof in), *out = on_device(NULL, MATH_ROWS * N * 4);
    OK(launch(ingot_t_math, N / 128, 128, 0, 0, (struct test_args){.in = din, .out = out, .n = N}));
    to_host(o, out, MATH_ROWS * N * 4);
    for (int i = 0; i < N; i++) {
        const double x = in[i], y = x * 1e8 > 2147483647.0    ? 2147483647.0
                                    : x * 1e8 < -2147483648.0 ? -2147483648.0
                                                              : rint((double)(in[i] * 1e8f));
        const double want[8] = {exp2(x),
                                exp(x),
                                sin(x),
                                cos(x),
                                pow(fabs(x), 1.5),
                                1 / sqrt((double)(fabsf(in[i]) + 1.0f)),
                                exp2(x),
                                1 / (double)(in[i] + 100.0f)};
        for (int r = 0; r < 8; r++)
            if (!(fabs((double)o[r * N + i] - want[r]) <= 1e-6 * (fabs(want[r]) + (r == 2 || r == 3))))
                fail_msg("row %d of %g: %g, want %g", r, x, (double)o[r * N + i], want[r]);
        assert_int_equal((int32_t)bits_of(o[8 * N + i]), (int32_t)y);
    }
    OK(cudaFree(din));
    OK(cudaFree(out));
    free(o);
}

/* ---- matrices -------------------------------------------------------------------------------------------- */

static void mma_of_signed_bytes(void **state) {
    (void)state;
    int8_t a[16][32], b[8][32];
    int32_t o[2][16][8];
    for (int i = 0; i < 512; i++) a[i / 32][i % 32] = (int8_t)(random_u32() >> 24);
    for (int i = 0; i < 256; i++) b[i / 32][i % 32] = (int8_t)(random_u32() >> 24);
    memset(a[3], -128, 32), memset(b[3], -128, 32);
    void *da = on_device(a, sizeof a), *db = on_device(b, sizeof b), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_mma_s8, 1, 32, 0, 0, (struct test_args){.in = da, .in2 = db, .out = out}));
    to_host(o, out, sizeof o);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            int s[2] = {0, 0};
            for (int k = 0; k < 32; k++) s[0] += a[m][k] * b[n][k], s[1] += k < 16 ? a[m][k] * b[n][k] : 0;
            assert_int_equal(o[0][m][n], s[0]);
            assert_int_equal(o[1][m][n], s[1]);
        }
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(out));
}
static void mma_of_half_and_bf16(void **state) {
    (void)state;
    uint16_t a[2][16][16], b[2][16][8];
    float o[2][16][8];
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 256; i++)
            a[t][i / 16][i % 16] = nearest(random_float(), t ? 0x7f80 : 0x7c00, t ? bf16_value : half_value);
        for (int i = 0; i < 128; i++)
            b[t][i / 8][i % 8] = nearest(random_float(), t ? 0x7f80 : 0x7c00, t ? bf16_value : half_value);
    }
    void *da = on_device(a, sizeof a), *db = on_device(b, sizeof b), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_mma_f16, 1, 32, 0, 0, (struct test_args){.in = da, .in2 = db, .out = out}));
    to_host(o, out, sizeof o);
    for (int t = 0; t < 2; t++)
        for (int m = 0; m < 16; m++)
            for (int n = 0; n < 8; n++) {
                double s = 0.5;
                for (int k = 0; k < 16; k++)
                    s += t ? (double)bf16_value(a[t][m][k]) * bf16_value(b[t][k][n])
                           : (double)half_value(a[t][m][k]) * half_value(b[t][k][n]);
                if (!(fabs((double)o[t][m][n] - s) < 2e-6))
                    fail_msg("%s [%d][%d]: %.9g, want %.9g", t ? "bf16" : "f16", m, n, (double)o[t][m][n], s);
            }
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(out));
}
static void ldmatrix_fragments(void **state) {
    (void)state;
    uint16_t m[4][8][8];
    uint32_t o[32][12];
    for (int i = 0; i < 256; i++) m[i / 64][i / 8 % 8][i % 8] = (uint16_t)(i * 257 + 3);
    void *in = on_device(m, sizeof m), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_ldmatrix, 1, 32, 0, 0, (struct test_args){.in = in, .out = out}));
    to_host(o, out, sizeof o);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 4; j++) {
            const int r = l / 4, c = l % 4 * 2;
            const uint32_t x = m[j][r][c] | (uint32_t)m[j][r][c + 1] << 16,
                           t = m[j][c][r] | (uint32_t)m[j][c + 1][r] << 16;
            assert_int_equal(o[l][j], x);
            assert_int_equal(o[l][4 + j], t);
            if (j < 2) assert_int_equal(o[l][8 + j], x);
            if (j < 2) assert_int_equal(o[l][10 + j], t);
        }
    OK(cudaFree(in));
    OK(cudaFree(out));
}

/* ---- copies, barriers, indices, atomics --------------------------------------------------------------------- */

static void asynchronous_copy_ring(void **state) {
    (void)state;
    for (int tiles = 1; tiles <= 7; tiles++) {
        uint32_t *w = malloc((size_t)tiles * 2048), o[128];
        for (int i = 0; i < tiles * 512; i++) w[i] = random_u32();
        void *in = on_device(w, (size_t)tiles * 2048), *out = on_device(NULL, sizeof o);
        OK(launch(ingot_t_pipeline, 1, 128, 3 * 128 * 16, 0, (struct test_args){.in = in, .out = out, .n = tiles}));
        to_host(o, out, sizeof o);
        for (int t = 0; t < 128; t++) {
            uint32_t s = 0;
            for (int i = 0; i < tiles; i++)
                for (int j = 0; j < 4; j++) s += w[i * 512 + (t ^ 1) * 4 + j];
            assert_int_equal(o[t], s);
        }
        OK(cudaFree(in));
        OK(cudaFree(out));
        free(w);
    }
}
static void partial_copies_fill_with_zeros(void **state) {
    (void)state;
    uint8_t w[512], o[1024];
    for (int i = 0; i < 512; i++) w[i] = (uint8_t)(random_u32() | 1);
    void *in = on_device(w, sizeof w), *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_partial_copy, 1, 32, 0, 0, (struct test_args){.in = in, .out = out}));
    to_host(o, out, sizeof o);
    for (int i = 0; i < 512; i++) assert_int_equal(o[i], i % 16 < i / 16 % 17 ? w[i] : 0);
    assert_memory_equal(o + 512, w, 512);
    OK(cudaFree(in));
    OK(cudaFree(out));
}
static void barriers_and_votes(void **state) {
    (void)state;
    static const int threads[] = {32, 64, 96, 256};
    for (int i = 0; i < 4; i++) {
        const int n = threads[i];
        int o[3][5];
        void *out = on_device(NULL, sizeof o);
        OK(launch(ingot_t_barriers, 3, (unsigned)n, (size_t)n * 4, 0, (struct test_args){.out = out}));
        to_host(o, out, sizeof o);
        for (int b = 0; b < 3; b++) {
            const int want[5] = {n * (n - 1) / 2 + n * b, (n + 2) / 3, 1, 1, n};
            assert_memory_equal(o[b], want, sizeof want);
        }
        OK(cudaFree(out));
    }
}
static void named_barriers(void **state) {
    (void)state;
    int o[96];
    void *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_named, 1, 96, 0, 0, (struct test_args){.out = out, .n = 5}));
    to_host(o, out, sizeof o);
    for (int t = 0; t < 96; t++) assert_int_equal(o[t], t / 32 * (1000 + 5 * (31 - t % 32)));
    OK(cudaFree(out));
}
static void indices_in_three_dimensions(void **state) {
    (void)state;
    static const unsigned shape[][6] = {
        {3, 2, 4, 8, 4, 2}, {1, 1, 1, 32, 1, 1}, {5, 1, 1, 16, 2, 1}, {2, 3, 1, 4, 8, 2}, {1, 1, 2, 32, 1, 1}};
    for (int s = 0; s < 5; s++) {
        const unsigned *d = shape[s], n = d[0] * d[1] * d[2] * d[3] * d[4] * d[5];
        uint32_t *o = malloc(n * 4);
        void *out = on_device(NULL, n * 4);
        OK(launch3(ingot_t_index, dim(d[0], d[1], d[2]), dim(d[3], d[4], d[5]), 0, 0, (struct test_args){.out = out}));
        to_host(o, out, n * 4);
        for (unsigned i = 0; i < n; i++) {
            const unsigned per = d[3] * d[4] * d[5], t = i % per, b = i / per;
            assert_int_equal(o[i], t % d[3] | t / d[3] % d[4] << 5 | t / (d[3] * d[4]) << 10 | b % d[0] << 15 |
                                       b / d[0] % d[1] << 20 | b / (d[0] * d[1]) << 25);
        }
        OK(cudaFree(out));
        free(o);
    }
}
static void atomics_over_many_blocks(void **state) {
    (void)state;
    enum { BLOCKS = 200, N = BLOCKS * 128 };
    int o[12] = {0};
    void *out = on_device(o, sizeof o);
    OK(launch(ingot_t_atomics, BLOCKS, 128, 0, 0, (struct test_args){.out = out}));
    to_host(o, out, sizeof o);
    int x = 0;
    for (int i = 0; i < N; i++) x ^= i;
    assert_int_equal(o[0], N);
    assert_int_equal(o[1], N - 1);
    assert_int_equal(o[2], -(N - 1));
    assert_int_equal(o[3], -1);
    assert_int_equal(o[4], x);
    assert_true(float_of((uint32_t)o[5]) == (float)N);
    assert_in_range(o[6], 1, N);
    assert_int_equal(o[7], 1);
    assert_int_equal(o[8], N % 10);
    assert_int_equal(o[11], N);
    OK(cudaFree(out));
}
static void early_exits_spins_and_big_shared(void **state) {
    (void)state;
    int o[256];
    void *out = on_device(NULL, sizeof o);
    OK(launch(ingot_t_reverse, 1, 256, 0, 0, (struct test_args){.out = out, .n = 77}));
    to_host(o, out, sizeof o);
    for (int i = 0; i < 77; i++) assert_int_equal(o[i], 76 - i);
    OK(cudaMemset(out, 0, 8));
    OK(launch(ingot_t_spin, 1, 64, 0, 0, (struct test_args){.out = out}));
    to_host(o, out, 8);
    assert_int_equal(o[1], 2);
    OK(cudaFuncSetAttribute((const void *)ingot_t_big_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    OK(launch(ingot_t_big_shared, 2, 32, 60000, 0, (struct test_args){.out = out, .n = 15000}));
    to_host(o, out, sizeof o);
    for (int i = 0; i < 32; i++) assert_int_equal(o[i], 2 * (31 - i));
    OK(cudaFree(out));
}

/* ---- bulk copies ----------------------------------------------------------------------------------------- */

static uint32_t words_of(const uint32_t *w) {
    return w[0] + 3 * w[1] + 5 * w[2] + 7 * w[3];
}

/* The kernels have no image below 9.0, where this is all there is to see. */
static int no_bulk_copies(kernel_fn fn, struct test_args a) {
    int major = 0;
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major >= 9) return 0;
    FAILS(launch(fn, 1, 32, 0, 0, a), cudaErrorNoKernelImageForDevice);
    return 1;
}
static void rings_of_bulk_copies(void **state) {
    (void)state;
    enum { MOST = 300 * 512 };
    static const int shape[][3] = {
        {300, 512, 5}, {61, 272, 4}, {64, 16, 3}, {3, 144, 2}, {1, 512, 1}}; /* rows, bytes, blocks */
    uint32_t *v = malloc(MOST), *o = malloc(MOST + 300 * 4);
    for (int i = 0; i < MOST / 4; i++) v[i] = random_u32();
    void *in = on_device(v, MOST), *out = on_device(NULL, MOST + 300 * 4);
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        const int n = shape[s][0], k = shape[s][1], pieces = k / 16;
        const struct test_args a = {.in = in, .out = out, .n = n, .k = k};
        if (no_bulk_copies(ingot_t_bulk_ring_sm90, a)) break;
        OK(cudaMemset(out, 0xcd, MOST + 300 * 4));
        OK(launch(ingot_t_bulk_ring_sm90, (unsigned)shape[s][2], 64, 0, 0, a));
        to_host(o, out, MOST + 300 * 4);
        for (int r = 0; r < n; r++) {
            uint32_t sum = 0;
            for (int p = 0; p < pieces; p++) {
                const uint32_t *from = v + (r * pieces + ((p ^ 1) < pieces ? p ^ 1 : p)) * 4;
                assert_memory_equal(o + (r * pieces + p) * 4, from, 16);
                sum += words_of(from);
            }
            assert_int_equal(o[n * k / 4 + r], sum);
        }
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
    free(v);
    free(o);
}
static void bulk_copies_between_roles(void **state) {
    (void)state;
    enum { ROWS = 23 };
    uint32_t v[ROWS * 128], o[64];
    for (int i = 0; i < ROWS * 128; i++) v[i] = random_u32();
    void *in = on_device(v, sizeof v), *out = on_device(NULL, sizeof o);
    for (int n = 1; n <= ROWS; n += 11) {
        const struct test_args a = {.in = in, .out = out, .n = n};
        if (no_bulk_copies(ingot_t_bulk_roles_sm90, a)) break;
        OK(launch(ingot_t_bulk_roles_sm90, 1, 96, 0, 0, a));
        to_host(o, out, sizeof o);
        for (int l = 0; l < 32; l++) {
            uint32_t sum = 0;
            for (int i = 0; i < n; i++) sum += (uint32_t)(i + 1) * words_of(v + i * 128 + (31 - l) * 4);
            assert_int_equal(o[l], sum);
            assert_int_equal(o[32 + l], sum);
        }
    }
    OK(cudaFree(in));
    OK(cudaFree(out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_votes_and_reductions),
        cmocka_unit_test(float_reductions_are_bit_exact),
        cmocka_unit_test(byte_and_bit_intrinsics),
        cmocka_unit_test(every_half_and_bf16_pattern),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(loads_and_stores_of_every_width),
        cmocka_unit_test(math_functions),
        cmocka_unit_test(mma_of_signed_bytes),
        cmocka_unit_test(mma_of_half_and_bf16),
        cmocka_unit_test(ldmatrix_fragments),
        cmocka_unit_test(asynchronous_copy_ring),
        cmocka_unit_test(partial_copies_fill_with_zeros),
        cmocka_unit_test(barriers_and_votes),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(indices_in_three_dimensions),
        cmocka_unit_test(atomics_over_many_blocks),
        cmocka_unit_test(early_exits_spins_and_big_shared),
        cmocka_unit_test(rings_of_bulk_copies),
        cmocka_unit_test(bulk_copies_between_roles),
    };
    return cmocka_run_group_tests_name("simt semantics", tests, NULL, NULL);
}
