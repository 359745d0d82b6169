// SPDX-License-Identifier: MIT
//
// The sampler: greedy choice, the distribution it draws from, determinism, NaN and infinity.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/llama/sampler.h"

static struct sampler *make(double temperature, double top_p, int32_t top_k, uint64_t seed, int32_t n) {
    struct err err = {""};
    struct sampler_options o = {temperature, top_p, top_k, seed};
    struct sampler *s = sampler_create(&o, n, &err);
    if (!s) fail_msg("%s", err.text);
    return s;
}

static void greedy_takes_the_highest(void **state) {
    (void)state;
    struct sampler *s = make(0, 1, 0, 1, 5);
    assert_int_equal(sampler_next(s, (float[]){1, 5, 2, 5, 0}), 1);
    assert_int_equal(sampler_next(s, (float[]){NAN, -3, -2, NAN, -9}), 2);
    assert_int_equal(sampler_next(s, (float[]){1, 2, INFINITY, 3, NAN}), 2);
    assert_int_equal(sampler_next(s, (float[]){-INFINITY, -INFINITY, -1e30f, NAN, NAN}), 2);
    assert_int_equal(sampler_next(s, (float[]){NAN, NAN, NAN, NAN, NAN}), -1);
    assert_int_equal(sampler_next(s, (float[]){NAN, -INFINITY, NAN, NAN, NAN}), -1);
    sampler_free(s);
}

// Draws many tokens and compares the counts with the expected shares: within 5 standard deviations
// each, and never a token of share 0.
static void check_shares(struct sampler *s, const float *logits, const double *share, int n) {
    enum { DRAWS = 200000, MOST = 8 };
    int count[MOST] = {0};
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sampler_next(s, logits);
        assert_in_range(id, 0, n - 1);
        count[id]++;
    }
    for (int i = 0; i < n; i++) {
        double want = share[i] * DRAWS, sd = sqrt(want * (1 - share[i]));
        if (fabs(count[i] - want) > 5 * sd)
            fail_msg("token %d drawn %d times, expected %.0f +- %.0f", i, count[i], want, sd);
    }
}

static void draws_the_distribution(void **state) {
    (void)state;
    const float logits[] = {logf(1), logf(4), NAN, logf(2), logf(3), -INFINITY};
    struct sampler *s = make(1, 1, 0, 42, 6);
    check_shares(s, logits, (double[]){.1, .4, 0, .2, .3, 0}, 6);
    sampler_free(s);
    // At temperature 0.5 shares go with the squares: 1 16 4 9 of 30.
    s = make(0.5, 1, 0, 42, 6);
    check_shares(s, logits, (double[]){1 / 30., 16 / 30., 0, 4 / 30., 9 / 30., 0}, 6);
    sampler_free(s);
    // 0.4 + 0.3 reach 0.65, so two are kept.
    s = make(1, 0.65, 0, 42, 6);
    check_shares(s, logits, (double[]){0, 4 / 7., 0, 0, 3 / 7., 0}, 6);
    sampler_free(s);
    s = make(1, 1, 3, 42, 6);
    check_shares(s, logits, (double[]){0, 4 / 9., 0, 2 / 9., 3 / 9., 0}, 6);
    sampler_free(s);
    // Of the three likeliest, 4 + 3 of 9 reach 0.7.
    s = make(1, 0.7, 3, 42, 6);
    check_shares(s, logits, (double[]){0, 4 / 7., 0, 0, 3 / 7., 0}, 6);
    sampler_free(s);
    // The likeliest is kept however small top-p is.
    s = make(1, 1e-9, 0, 42, 6);
    check_shares(s, logits, (double[]){0, 1, 0, 0, 0, 0}, 6);
    sampler_free(s);
}

static void extremes_do_not_break_it(void **state) {
    (void)state;
    struct sampler *s = make(1e-300, 0.9, 0, 3, 3);
    assert_int_equal(sampler_next(s, (float[]){1, 2, 1.5f}), 1);
    sampler_free(s);
    s = make(2, 0.9, 0, 3, 3);
    assert_int_equal(sampler_next(s, (float[]){1, INFINITY, 3}), 1);
    assert_int_equal(sampler_next(s, (float[]){NAN, NAN, NAN}), -1);
    assert_int_equal(sampler_next(s, (float[]){-3e38f, 3e38f, -3e38f}), 1);
    sampler_free(s);
    s = make(1, 0.5, 0, 3, 1);
    assert_int_equal(sampler_next(s, (float[]){-7}), 0);
    sampler_free(s);
    sampler_free(NULL);
}

static void one_seed_gives_one_sequence(void **state) {
    (void)state;
    enum { N = 1000, DRAWS = 200 };
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = (float)((i * 7919) % 101) / 20;
    struct sampler *a = make(0.8, 0.95, 0, 7, N), *b = make(0.8, 0.95, 0, 7, N);
    struct sampler *c = make(0.8, 0.95, 0, 8, N);
    int same = 0;
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sampler_next(a, logits);
        assert_int_equal(id, sampler_next(b, logits));
        same += id == sampler_next(c, logits);
    }
    assert_true(same < DRAWS / 4);
    sampler_free(a);
    sampler_free(b);
    sampler_free(c);
}

static void uniform_is_uniform(void **state) {
    (void)state;
    enum { DRAWS = 100000, BINS = 10 };
    int count[BINS] = {0};
    struct sampler *s = make(1, 1, 0, 0, 1);
    for (int i = 0; i < DRAWS; i++) {
        double u = sampler_uniform(s);
        assert_true(u >= 0 && u < 1);
        count[(int)(u * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) assert_in_range(count[i], DRAWS / BINS - 500, DRAWS / BINS + 500);
    sampler_free(s);
}

static void refuses_bad_settings(void **state) {
    (void)state;
    static const struct {
        struct sampler_options o;
        int32_t n;
        const char *want;
    } cases[] = {
        {{-1, 1, 0, 0}, 5, "temperature -1, expected 0 or more"},
        {{NAN, 1, 0, 0}, 5, "temperature"},
        {{INFINITY, 1, 0, 0}, 5, "temperature inf"},
        {{1, 0, 0, 0}, 5, "top-p 0, expected above 0 and at most 1"},
        {{1, 1.5, 0, 0}, 5, "top-p 1.5"},
        {{1, NAN, 0, 0}, 5, "top-p"},
        {{1, 1, -1, 0}, 5, "top-k -1"},
        {{1, 1, 0, 0}, 0, "of 0 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {""};
        assert_null(sampler_create(&cases[i].o, cases[i].n, &err));
        assert_non_null(strstr(err.text, cases[i].want));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_highest), cmocka_unit_test(draws_the_distribution),
        cmocka_unit_test(extremes_do_not_break_it), cmocka_unit_test(one_seed_gives_one_sequence),
        cmocka_unit_test(uniform_is_uniform),       cmocka_unit_test(refuses_bad_settings),
    };
    return cmocka_run_group_tests_name("llama/sampler", tests, NULL, NULL);
}
