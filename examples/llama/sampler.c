// SPDX-License-Identifier: MIT
//
// Sampling from logits; contracts are in sampler.h. Top-k and top-p take candidates off a heap,
// likeliest first, so that a vocabulary is never sorted whole for the few tokens that count.
#include "sampler.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct candidate {
    double p; // not normalised: the likeliest has 1
    int32_t id;
};

struct sampler {
    struct sampler_options o;
    int32_t n;
    uint64_t state[4];
    struct candidate *c;
};

static uint64_t rotl(uint64_t x, int k) {
    return x << k | x >> (64 - k);
}

static uint64_t next_u64(uint64_t s[4]) {
    uint64_t out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

static void seed_state(uint64_t s[4], uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        s[i] = z ^ z >> 31;
    }
}

struct sampler *sampler_create(const struct sampler_options *o, int32_t n, struct err *err) {
    // Written so that NaN fails.
    if (!(o->temperature >= 0) || !isfinite(o->temperature)) {
        err_set(err, "temperature %g, expected 0 or more", o->temperature);
        return NULL;
    }
    if (!(o->top_p > 0 && o->top_p <= 1)) {
        err_set(err, "top-p %g, expected above 0 and at most 1", o->top_p);
        return NULL;
    }
    if (o->top_k < 0 || n < 1) {
        err_set(err, "top-k %" PRId64 " of %" PRId32 " tokens, expected 0 or more of at least 1", o->top_k, n);
        return NULL;
    }
    struct sampler *s = new_array(1, sizeof *s, "the sampler", err);
    if (!s) return NULL;
    s->o = *o;
    s->n = n;
    seed_state(s->state, o->seed);
    s->c = new_array((uint64_t)n, sizeof *s->c, "the sampler", err);
    if (!s->c) {
        sampler_free(s);
        return NULL;
    }
    return s;
}

void sampler_free(struct sampler *s) {
    if (!s) return;
    free(s->c);
    free(s);
}

double sampler_uniform(struct sampler *s) {
    return (double)(next_u64(s->state) >> 11) * 0x1p-53;
}

// The first of the highest logits, -1 if none is above -inf. In lanes, as this runs once a token over the whole
// vocabulary: a single running maximum waits for itself at every step.
static int32_t argmax(const float *logits, int32_t n) {
    enum { LANES = 16 };
    float top[LANES];
    int32_t i = 0;
    for (int k = 0; k < LANES; k++) top[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) top[k] = logits[i + k] > top[k] ? logits[i + k] : top[k]; // NaN is not above
    for (; i < n; i++) top[0] = logits[i] > top[0] ? logits[i] : top[0];
    for (int k = 1; k < LANES; k++) top[0] = top[k] > top[0] ? top[k] : top[0];
    if (top[0] == -INFINITY) return -1;
    for (i = 0; logits[i] != top[0];) i++;
    return i;
}

static bool likelier(const struct candidate *a, const struct candidate *b) {
    return a->p > b->p || (a->p == b->p && a->id < b->id);
}

// Restores the heap order (likeliest at 0) below i.
static void sift(struct candidate *c, int32_t n, int32_t i) {
    struct candidate x = c[i];
    for (int32_t child; i < n / 2; i = child) {
        child = 2 * i + 1;
        if (child + 1 < n && likelier(&c[child + 1], &c[child])) child++;
        if (!likelier(&c[child], &x)) break;
        c[i] = c[child];
    }
    c[i] = x;
}

// Takes the likeliest tokens off the heap c[0..n) until top-k or, without it, top-p is reached and
// leaves them in c[n - kept .. n), likeliest last. Returns how many; *sum is the sum of their p.
static int32_t take_top(const struct sampler *s, struct candidate *c, int32_t n, double *sum) {
    int32_t k = s->o.top_k && s->o.top_k < n ? (int32_t)s->o.top_k : n, kept = 0;
    double enough = s->o.top_k ? INFINITY : s->o.top_p * *sum;
    for (int32_t i = n / 2; i-- > 0;) sift(c, n, i);
    *sum = 0;
    while (kept < k && *sum < enough) {
        struct candidate top = c[0];
        int32_t last = n - 1 - kept++;
        *sum += top.p;
        c[0] = c[last];
        sift(c, last, 0);
        c[last] = top;
    }
    return kept;
}

// Of the `kept` likeliest, which end at c[n - 1], the fewest that reach top-p of their sum.
static int32_t cut_top_p(const struct sampler *s, const struct candidate *c, int32_t n, int32_t kept, double *sum) {
    double enough = s->o.top_p * *sum;
    int32_t cut = 0;
    *sum = 0;
    while (cut < kept && *sum < enough) *sum += c[n - 1 - cut++].p;
    return cut;
}

int32_t sampler_next(struct sampler *s, const float *logits) {
    int32_t best = argmax(logits, s->n), n = 0;
    if (best < 0 || s->o.temperature == 0 || isinf(logits[best])) return best;
    double top = (double)logits[best], sum = 0;
    for (int32_t i = 0; i < s->n; i++) {
        double p = exp(((double)logits[i] - top) / s->o.temperature);
        if (p > 0) { // false for NaN
            s->c[n++] = (struct candidate){p, i};
            sum += p;
        }
    }
    struct candidate *c = s->c;
    if (s->o.top_p < 1 || s->o.top_k) {
        int32_t kept = take_top(s, c, n, &sum);
        if (s->o.top_k && s->o.top_p < 1) kept = cut_top_p(s, c, n, kept, &sum);
        c += n - kept;
        n = kept;
    }
    double left = sampler_uniform(s) * sum;
    for (int32_t i = 0; i < n; i++) {
        left -= c[i].p;
        if (left < 0) return c[i].id;
    }
    // Rounding can leave a little: the likeliest is in every set.
    return best;
}
