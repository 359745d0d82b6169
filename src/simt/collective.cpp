/* SPDX-License-Identifier: MIT
 *
 * collective.cpp - what the warp collectives compute. Each body runs once per exchange, in the last
 * lane that arrived, for all lanes of `mask`: it reads the operands the lanes left in the warp and
 * writes their results there, or through the pointers they gave.
 */
#include <cuda_fp16.h>

#include "src/simt/internal.h"
#include "src/simt/prim.h"

#if defined(__AVX2__) && defined(__F16C__)
#define SIMT_X86_VECTORS 1
#include <immintrin.h>
#endif

#define FOR_LANES(l, mask)                                                                         \
    for (uint32_t m_ = (mask), l; m_ && ((l = (uint32_t)__builtin_ctz(m_)), 1); m_ &= m_ - 1)

static void need_all(const simt_warp *w, uint32_t mask) {
    const simt_fiber *f = w->lane0 + __builtin_ctz(mask); /* a lane in the call: the current one may be exiting */
    if (mask != ~0u) simt_error(cudaErrorLaunchFailure, "%s needs all 32 lanes, got 0x%08x (%s:%d)", f->what, mask, f->file, f->line);
}

/* ---- shuffles, votes, integer reductions ----------------------------------------------------------- */

extern "C" void simt_do_nothing(simt_warp *, uint32_t) {}

/* Reading a lane that does not take part gives the own value, or all ones under INGOT_SIMT_STRICT. */
extern "C" void simt_do_shuffle(simt_warp *w, uint32_t mask) {
    if (mask == ~0u) {
        for (int l = 0; l < 32; l++) w->res[l] = w->val[w->sel[l] & 31];
        return;
    }
    FOR_LANES(l, mask) {
        const uint32_t src = (uint32_t)w->sel[l] & 31u;
        w->res[l] = mask >> src & 1 ? w->val[src] : simt_opt.strict ? ~0ull : w->val[l];
    }
}
extern "C" void simt_do_ballot(simt_warp *w, uint32_t mask) {
    uint32_t r = 0;
    FOR_LANES(l, mask) r |= (uint32_t)(w->val[l] & 1) << l;
    FOR_LANES(k, mask) w->res[k] = r;
}
extern "C" void simt_do_match(simt_warp *w, uint32_t mask) {
    FOR_LANES(l, mask) {
        uint32_t r = 0;
        for (uint32_t k = 0; k < 32; k++)
            if (mask >> k & 1) r |= (uint32_t)(w->val[k] == w->val[l]) << k;
        w->res[l] = r;
    }
}
static uint32_t reduce_pair(int op, uint32_t a, uint32_t b) {
    switch (op) {
    case SIMT_ADD: return a + b;
    case SIMT_MAX_U: return a > b ? a : b;
    case SIMT_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
    case SIMT_MIN_U: return a < b ? a : b;
    case SIMT_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
    case SIMT_AND: return a & b;
    case SIMT_OR: return a | b;
    default: return a ^ b;
    }
}
extern "C" void simt_do_reduce(simt_warp *w, uint32_t mask) {
    const uint32_t first = (uint32_t)__builtin_ctz(mask);
    uint32_t r = (uint32_t)w->val[first];
    FOR_LANES(l, mask & (mask - 1)) r = reduce_pair(w->sel[first], r, (uint32_t)w->val[l]);
    FOR_LANES(k, mask) w->res[k] = r;
}

/* ---- float reductions. A tree that halves the distance adds in the order of the xor butterfly, and as
 * addition commutes every lane of the butterfly has these very bits. ------------------------------------ */

struct add { static float of(float x, float y) { return x + y; } };
struct larger { static float of(float x, float y) { return fmaxf(x, y); } };

template <class Op> static void group_reduce(simt_warp *w, uint32_t mask) {
    need_all(w, mask);
    const int width = w->sel[0];
    float v[32];
    for (int l = 0; l < 32; l++) v[l] = __uint_as_float((uint32_t)w->val[l]);
    for (int base = 0; base < 32; base += width) {
        for (int o = width / 2; o; o >>= 1)
            for (int l = 0; l < o; l++) v[base + l] = Op::of(v[base + l], v[base + l + o]);
        for (int l = 0; l < width; l++) w->res[base + l] = __float_as_uint(v[base]);
    }
}
extern "C" void simt_do_group_sum(simt_warp *w, uint32_t mask) { group_reduce<add>(w, mask); }
extern "C" void simt_do_group_max(simt_warp *w, uint32_t mask) { group_reduce<larger>(w, mask); }

extern "C" void simt_do_warp_sum_n(simt_warp *w, uint32_t mask) {
    need_all(w, mask);
    for (int i = 0, n = w->sel[0]; i < n; i++) {
        float v[32];
        for (int l = 0; l < 32; l++) v[l] = ((const float *)w->arg[l])[i];
        for (int l = 0; l < 16; l++) v[l] += v[l + 16];
        for (int l = 0; l < 8; l++) v[l] += v[l + 8];
        for (int l = 0; l < 4; l++) v[l] += v[l + 4];
        const float r = (v[0] + v[2]) + (v[1] + v[3]);
        for (int l = 0; l < 32; l++) ((float *)w->arg[l])[i] = r;
    }
}

extern "C" void simt_do_group_sum_each(simt_warp *w, uint32_t mask) {
    need_all(w, mask);
    simt_sums *lanes[32];
    for (int l = 0; l < 32; l++) lanes[l] = (simt_sums *)w->arg[l];
    const int n = lanes[0]->n, width = lanes[0]->width, share = width / n;
    for (int base = 0; base < 32; base += width)
        for (int i = 0; i < n; i++) {
            float v[32];
            for (int l = 0; l < width; l++) v[l] = lanes[base + l]->v[i];
            for (int o = width / 2; o > 0; o /= 2)
                for (int l = 0; l < o; l++) v[l] += v[l + o];
            for (int l = 0; l < share; l++) lanes[base + i * share + l]->sum = v[0];
        }
}

/* ---- ldmatrix: lane l's row (t[0..3]) is row l & 7 of matrix l >> 3 ------------------------------------- */

static const simt_fragments *fragments(const simt_warp *w, int lane) { return (const simt_fragments *)w->arg[lane]; }

static void ldmatrix(simt_warp *w, uint32_t mask, int matrices) {
    need_all(w, mask);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < matrices; j++) ((uint32_t *)fragments(w, l)->d)[j] = fragments(w, j * 8 + (l >> 2))->a[l & 3];
}
static uint32_t half_of(const uint32_t *row, int i) { return row[i >> 1] >> (16 * (i & 1)) & 0xffffu; }
static void ldmatrix_trans(simt_warp *w, uint32_t mask, int matrices) {
    need_all(w, mask);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < matrices; j++) {
            const int r = (l & 3) * 2, c = l >> 2;
            ((uint32_t *)fragments(w, l)->d)[j] =
                half_of(fragments(w, j * 8 + r)->a, c) | half_of(fragments(w, j * 8 + r + 1)->a, c) << 16;
        }
}
extern "C" void simt_do_ldmatrix_x4(simt_warp *w, uint32_t mask) { ldmatrix(w, mask, 4); }
extern "C" void simt_do_ldmatrix_x2(simt_warp *w, uint32_t mask) { ldmatrix(w, mask, 2); }
extern "C" void simt_do_ldmatrix_x4_trans(simt_warp *w, uint32_t mask) { ldmatrix_trans(w, mask, 4); }
extern "C" void simt_do_ldmatrix_x2_trans(simt_warp *w, uint32_t mask) { ldmatrix_trans(w, mask, 2); }

/* ---- mma. Fragments of lane l, with r = l >> 2 and q = l & 3: A holds rows r and r + 8, B column r,
 * four bytes (s8) or two halves at k offset 4q or 2q in each half of k; D holds columns 2q and 2q + 1. --- */

/* d(16x8) += A B with A as [m][k], B as [n][k] bytes; K is 16 or 32. */
template <int K> static void mma_s8_product(const int8_t (*A)[32], const int8_t (*B)[32], int (*D)[8]) {
#if defined(SIMT_X86_VECTORS)
    alignas(32) int16_t pair[K / 2][8][2]; /* pair[j][n]: elements k = 2j, 2j + 1 of column n */
    for (int n = 0; n < 8; n++)
        for (int j = 0; j < K / 2; j++) {
            pair[j][n][0] = B[n][2 * j];
            pair[j][n][1] = B[n][2 * j + 1];
        }
    for (int m = 0; m < 16; m++) {
        alignas(32) int16_t a[K];
        for (int k = 0; k < K; k += 16)
            _mm256_store_si256((__m256i *)(a + k), _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(A[m] + k))));
        __m256i s0 = _mm256_setzero_si256(), s1 = s0;
        for (int j = 0; j < K / 2; j += 2) {
            int p0, p1;
            memcpy(&p0, a + 2 * j, 4);
            memcpy(&p1, a + 2 * j + 2, 4);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_set1_epi32(p0), _mm256_load_si256((const __m256i *)pair[j])));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_set1_epi32(p1), _mm256_load_si256((const __m256i *)pair[j + 1])));
        }
        _mm256_store_si256((__m256i *)D[m], _mm256_add_epi32(s0, s1));
    }
#else
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++) {
            D[m][n] = 0;
            for (int k = 0; k < K; k++) D[m][n] += A[m][k] * B[n][k];
        }
#endif
}
template <int K> static void mma_s8(simt_warp *w, uint32_t mask) {
    need_all(w, mask);
    alignas(64) int8_t A[16][32], B[8][32];
    alignas(32) int D[16][8];
    for (int l = 0; l < 32; l++) {
        const simt_fragments *g = fragments(w, l);
        const int r = l >> 2, c = (l & 3) * 4;
        for (int h = 0; h < K / 16; h++) {
            memcpy(&A[r][c + 16 * h], &g->a[2 * h], 4);
            memcpy(&A[r + 8][c + 16 * h], &g->a[2 * h + 1], 4);
            memcpy(&B[r][c + 16 * h], &g->b[h], 4);
        }
    }
    mma_s8_product<K>(A, B, D);
    for (int l = 0; l < 32; l++) {
        uint32_t *d = (uint32_t *)fragments(w, l)->d; /* s32 sums wrap */
        const int r = l >> 2, c = (l & 3) * 2;
        d[0] += (uint32_t)D[r][c];
        d[1] += (uint32_t)D[r][c + 1];
        d[2] += (uint32_t)D[r + 8][c];
        d[3] += (uint32_t)D[r + 8][c + 1];
    }
}
extern "C" void simt_do_mma_k32_s8(simt_warp *w, uint32_t mask) { mma_s8<32>(w, mask); }
extern "C" void simt_do_mma_k16_s8(simt_warp *w, uint32_t mask) { mma_s8<16>(w, mask); }

/* Widens eight pairs of 16-bit floats. */
struct from_half {
    static void widen(float *out, const uint32_t *in) {
#if defined(SIMT_X86_VECTORS)
        for (int h = 0; h < 2; h++) _mm256_store_ps(out + 8 * h, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(in + 4 * h))));
#else
        for (int k = 0; k < 16; k++) out[k] = simt_half_to_float((uint16_t)(in[k >> 1] >> (16 * (k & 1))));
#endif
    }
};
struct from_bf16 {
    static void widen(float *out, const uint32_t *in) {
        for (int k = 0; k < 16; k++) out[k] = __uint_as_float(k & 1 ? in[k >> 1] & 0xffff0000u : in[k >> 1] << 16);
    }
};
template <class From> static void mma_16bit(simt_warp *w, uint32_t mask) {
    typedef float f32x8 __attribute__((vector_size(32)));
    need_all(w, mask);
    alignas(64) uint32_t a16[16][8], b16[8][8]; /* [m][k / 2], [n][k / 2] */
    alignas(64) float A[16][16], bt[8][16], B[16][8], D[16][8];
    for (int l = 0; l < 32; l++) {
        const simt_fragments *g = fragments(w, l);
        const float *d = (const float *)g->d;
        const int r = l >> 2, q = l & 3;
        a16[r][q] = g->a[0];
        a16[r + 8][q] = g->a[1];
        a16[r][q + 4] = g->a[2];
        a16[r + 8][q + 4] = g->a[3];
        b16[r][q] = g->b[0];
        b16[r][q + 4] = g->b[1];
        D[r][2 * q] = d[0];
        D[r][2 * q + 1] = d[1];
        D[r + 8][2 * q] = d[2];
        D[r + 8][2 * q + 1] = d[3];
    }
    for (int m = 0; m < 16; m++) From::widen(A[m], a16[m]);
    for (int n = 0; n < 8; n++) From::widen(bt[n], b16[n]);
    for (int k = 0; k < 16; k++)
        for (int n = 0; n < 8; n++) B[k][n] = bt[n][k];
    for (int m = 0; m < 16; m++) {
        f32x8 s;
        memcpy(&s, D[m], 32);
        for (int k = 0; k < 16; k++) {
            f32x8 b;
            memcpy(&b, B[k], 32);
            s += A[m][k] * b;
        }
        memcpy(D[m], &s, 32);
    }
    for (int l = 0; l < 32; l++) {
        float *d = (float *)fragments(w, l)->d;
        const int r = l >> 2, q = l & 3;
        d[0] = D[r][2 * q];
        d[1] = D[r][2 * q + 1];
        d[2] = D[r + 8][2 * q];
        d[3] = D[r + 8][2 * q + 1];
    }
}
extern "C" void simt_do_mma_f16(simt_warp *w, uint32_t mask) { mma_16bit<from_half>(w, mask); }
extern "C" void simt_do_mma_bf16(simt_warp *w, uint32_t mask) { mma_16bit<from_bf16>(w, mask); }
