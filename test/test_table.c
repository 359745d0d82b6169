// SPDX-License-Identifier: MIT
/* test_table.c - which kernel a chip runs: the table filled from made-up rows for made-up chips, against what each
 * build must answer, against a slow search over random rows, and over the rows of this build. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "../src/kernels/table.h"
#include "../src/kernels/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define C75 INGOT_CLASS_75
#define C80 INGOT_CLASS_80
#define C90 INGOT_CLASS_90
#define KIB 1024
#define ROW(sym, fam, typ, til, arc, srv, sm)                                                                          \
    {                                                                                                                  \
        .symbol = sym, .family = INGOT_FAMILY_##fam, .type = INGOT_TYPE_##typ, .tile = til, .arch = arc,               \
        .serves = srv, .threads = 128, .smem = sm, .unit = 1, .fn = NULL                                               \
    }

static const struct ingot_kernel rows[] = {
    ROW("deq_75", DEQUANT, Q4_0, INGOT_TYPE_F16, 75, C75 | C80 | C90, 0),
    ROW("mmv1_75", MMVQ, Q4_0, 1, 75, C75, 0),
    ROW("mmv1_80", MMVQ, Q4_0, 1, 80, C80 | C90, 0),
    ROW("mmv4_75", MMVQ, Q4_0, 4, 75, C75 | C80 | C90, 48 * KIB),
    ROW("mmv8_75", MMVQ, Q4_0, 8, 75, C75, 64 * KIB),
    ROW("mmv8_80", MMVQ, Q4_0, 8, 80, C80, 100 * KIB),
    ROW("mmv8_90", MMVQ, Q4_0, 8, 90, C90, 200 * KIB),
    ROW("attn80_75", ATTN, F16, 80, 75, C75 | C80 | C90, 0),
    ROW("attn256_75", ATTN, F16, 256, 75, C75 | C80 | C90, 49 * KIB),
};
#define ROWS ((int)(sizeof rows / sizeof *rows))

static const char DEFAULT_ARCHS[] = "75 80 86 87 89 90a 100 103 110 120 121";

static struct ingot_table *fill(const char *archs, const char *ptx, int cc, size_t shared, int max_arch) {
    struct ingot_table *table = malloc(ingot_table_bytes());

    assert_non_null(table);
    ingot_table_fill(table, rows, ROWS, archs, ptx, (struct ingot_chip){cc, shared, max_arch});
    return table;
}

static const char *symbol(const struct ingot_kernel *kernel) {
    return kernel ? kernel->symbol : "-";
}

/* One case: the symbols for MMVQ tiles 1, 4, 8 and DEQUANT to f16, "-" where there is no row. */
struct expectation {
    const char *archs, *ptx;
    int cc;
    size_t shared;
    int max_arch;
    const char *mmv1, *mmv4, *mmv8, *deq;
};

static void chips_run_what_the_build_has(void **state) {
    static const struct expectation cases[] = {
        /* the default build on each chip */
        {DEFAULT_ARCHS, "80", 75, 64 * KIB, 0, "mmv1_75", "mmv4_75", "mmv8_75", "deq_75"},
        {DEFAULT_ARCHS, "80", 80, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {DEFAULT_ARCHS, "80", 87, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {DEFAULT_ARCHS, "80", 89, 99 * KIB, 0, "mmv1_80", "mmv4_75", "-", "deq_75"},
        {DEFAULT_ARCHS, "80", 90, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_90", "deq_75"},
        {DEFAULT_ARCHS, "80", 100, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {DEFAULT_ARCHS, "80", 110, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {DEFAULT_ARCHS, "80", 120, 99 * KIB, 0, "mmv1_80", "mmv4_75", "-", "deq_75"},
        /* machine code goes to its major version and upwards only */
        {"80", "", 87, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"87", "", 80, 163 * KIB, 0, "-", "-", "-", "-"},
        {"80", "", 90, 227 * KIB, 0, "-", "-", "-", "-"},
        {"75", "", 80, 163 * KIB, 0, "-", "-", "-", "-"},
        {"90a", "", 100, 227 * KIB, 0, "-", "-", "-", "-"},
        {"90a", "", 89, 99 * KIB, 0, "-", "-", "-", "-"},
        {"100", "", 103, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"120", "", 121, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"120", "", 110, 163 * KIB, 0, "-", "-", "-", "-"},
        {"", "", 90, 227 * KIB, 0, "-", "-", "-", "-"},
        /* PTX goes upwards without end; it holds the rows of its class and those that serve it */
        {"", "80", 75, 64 * KIB, 0, "-", "-", "-", "-"},
        {"", "80", 80, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"", "80", 120, 163 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"", "75", 90, 227 * KIB, 0, "mmv1_75", "mmv4_75", "mmv8_75", "deq_75"},
        {"", "90a", 90, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_90", "deq_75"},
        {"", "90a", 100, 227 * KIB, 0, "-", "-", "-", "-"},
        {"90a", "75", 90, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_90", "deq_75"},
        /* a forced class */
        {"90a", "75", 90, 227 * KIB, 75, "mmv1_75", "mmv4_75", "mmv8_75", "deq_75"},
        {"90a", "80", 90, 227 * KIB, 80, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"90a", "", 90, 227 * KIB, 80, "mmv1_80", "mmv4_75", "-", "deq_75"},
        {"90a", "", 90, 227 * KIB, 75, "-", "mmv4_75", "-", "deq_75"},
        /* the limit without opting in, reached exactly */
        {DEFAULT_ARCHS, "80", 90, 48 * KIB, 0, "mmv1_80", "mmv4_75", "-", "deq_75"},
        {DEFAULT_ARCHS, "80", 90, 48 * KIB - 1, 0, "mmv1_80", "-", "-", "deq_75"},
        {DEFAULT_ARCHS, "80", 90, 200 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_90", "deq_75"},
        {DEFAULT_ARCHS, "80", 90, 200 * KIB - 1, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        /* the SIMT host runs every class at or below its own */
        {"simt", "", 75, 227 * KIB, 0, "mmv1_75", "mmv4_75", "mmv8_75", "deq_75"},
        {"simt", "", 80, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_80", "deq_75"},
        {"simt", "", 90, 227 * KIB, 0, "mmv1_80", "mmv4_75", "mmv8_90", "deq_75"},
        {"simt", "", 90, 227 * KIB, 75, "mmv1_75", "mmv4_75", "mmv8_75", "deq_75"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct expectation *c = &cases[i];
        struct ingot_table *t = fill(c->archs, c->ptx, c->cc, c->shared, c->max_arch);
        const char *got[] = {symbol(ingot_find_exact(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q4_0, 1)),
                             symbol(ingot_find_exact(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q4_0, 4)),
                             symbol(ingot_find_exact(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q4_0, 8)),
                             symbol(ingot_find_exact(t, INGOT_FAMILY_DEQUANT, INGOT_TYPE_Q4_0, INGOT_TYPE_F16))};
        const char *want[] = {c->mmv1, c->mmv4, c->mmv8, c->deq};
        for (int k = 0; k < 4; k++) {
            if (strcmp(got[k], want[k]) != 0) {
                fail_msg("archs \"%s\" ptx \"%s\" chip %d, %zu bytes, cap %d, column %d: %s, expected %s", c->archs,
                         c->ptx, c->cc, c->shared, c->max_arch, k, got[k], want[k]);
            }
        }
        free(t);
    }
}

static void tiles_round_up(void **state) {
    struct ingot_table *t = fill("simt", "", 75, 227 * KIB, 0);
    static const struct {
        int64_t tile;
        const char *mmv, *attn;
    } cases[] = {
        {-1, "-", "-"},
        {0, "mmv1_75", "attn80_75"},
        {1, "mmv1_75", "attn80_75"},
        {2, "mmv4_75", "attn80_75"},
        {4, "mmv4_75", "attn80_75"},
        {5, "mmv8_75", "attn80_75"},
        {8, "mmv8_75", "attn80_75"},
        {9, "-", "attn80_75"},
        {64, "-", "attn80_75"},
        {65, "-", "attn80_75"},
        {80, "-", "attn80_75"},
        {81, "-", "attn256_75"},
        {96, "-", "attn256_75"},
        {255, "-", "attn256_75"},
        {256, "-", "attn256_75"},
        {257, "-", "-"},
        {1024, "-", "-"},
        {1025, "-", "-"},
        {INT64_MAX, "-", "-"},
        {INT64_MIN, "-", "-"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t tile = cases[i].tile;
        assert_string_equal(symbol(ingot_find(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q4_0, tile)), cases[i].mmv);
        assert_string_equal(symbol(ingot_find(t, INGOT_FAMILY_ATTN, INGOT_TYPE_F16, tile)), cases[i].attn);
    }
    assert_null(ingot_find_exact(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q4_0, 3));
    assert_null(ingot_find_exact(t, INGOT_FAMILY_ATTN, INGOT_TYPE_F16, 79));
    assert_null(ingot_find(t, INGOT_FAMILY_MMVQ, INGOT_TYPE_Q8_0, 1));
    assert_null(ingot_find(t, INGOT_FAMILY_COUNT, INGOT_TYPE_Q4_0, 1));
    assert_null(ingot_find(t, (enum ingot_family) - 1, INGOT_TYPE_Q4_0, 1));
    assert_null(ingot_find(t, INGOT_FAMILY_MMVQ, (ingot_type)-1, 1));
    assert_null(ingot_find(t, INGOT_FAMILY_MMVQ, (ingot_type)1000000, 1));
    free(t);
}

/* Dependent launches need code that can wait: of level 9.0, whatever the chip. */
static void only_code_of_90_waits(void **state) {
    static const struct {
        const char *archs, *ptx;
        int cc;
        bool waits;
    } cases[] = {
        {"90a", "", 90, true},   {"", "75", 90, false},  {"", "80", 90, false},   {"", "80", 120, false},
        {"120", "", 120, true},  {"80", "", 80, false},  {"90a", "80", 90, true}, {"", "80 100", 110, true},
        {"simt", "", 80, false}, {"simt", "", 90, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ingot_table *t = fill(cases[i].archs, cases[i].ptx, cases[i].cc, 227 * KIB, 0);
        const struct ingot_kernel *k = ingot_find(t, INGOT_FAMILY_DEQUANT, INGOT_TYPE_Q4_0, INGOT_TYPE_F16);
        assert_non_null(k);
        assert_int_equal(ingot_table_waits(t, k), cases[i].waits);
        assert_false(ingot_table_waits(t, rows + ROWS));
        assert_false(ingot_table_waits(t, NULL));
        free(t);
    }
}

static void lists_are_read_leniently(void **state) {
    struct ingot_table *t;

    (void)state;
    t = fill("  80,90a ", "", 90, 227 * KIB, 0);
    assert_int_equal(ingot_table_used(t), 6);
    free(t);
    t = fill("nonsense", "more", 90, 227 * KIB, 0);
    assert_int_equal(ingot_table_used(t), 0);
    free(t);
}

/* A slow reference: the eligible row of the smallest tile that is large enough, of the highest arch. */
static const struct ingot_kernel *search(const struct ingot_kernel *all, int count, struct ingot_chip chip, int family,
                                         int type, int64_t tile) {
    const struct ingot_kernel *best = NULL;

    for (int i = 0; i < count; i++) {
        const struct ingot_kernel *k = &all[i];
        const int chip_arch = chip.cc == 90 ? 90 : chip.cc < 80 ? 75 : 80;
        if (k->family != family || k->type != type || k->tile < tile || k->smem > chip.shared) continue;
        if (k->arch > chip_arch || (chip.max_arch != 0 && k->arch > chip.max_arch)) continue;
        if (!best || k->tile < best->tile || (k->tile == best->tile && k->arch > best->arch)) best = k;
    }
    return best;
}

static unsigned next(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void agrees_with_a_slow_search(void **state) {
    static const int archs[] = {75, 80, 90}, chips[] = {75, 80, 87, 90, 120};
    struct ingot_kernel random[40];
    struct ingot_table *t = malloc(ingot_table_bytes());
    unsigned seed = 12345;

    (void)state;
    assert_non_null(t);
    for (int round = 0; round < 200; round++) {
        int count = 0;
        for (int i = 0; i < 40; i++) {
            struct ingot_kernel k = {.symbol = "r",
                                     .family = next(&seed) % 2,
                                     .type = next(&seed) % 3,
                                     .serves = 7,
                                     .arch = (uint8_t)archs[next(&seed) % 3],
                                     .threads = 32,
                                     .smem = next(&seed) % 4 * 64 * KIB};
            const unsigned tile = next(&seed) % 40;
            bool taken = false;
            k.tile = (uint16_t)(tile < 20 ? tile : (tile - 15) * 16);
            for (int j = 0; j < count; j++) {
                taken = taken || (random[j].family == k.family && random[j].type == k.type &&
                                  random[j].tile == k.tile && random[j].arch == k.arch);
            }
            if (!taken) random[count++] = k;
        }
        const struct ingot_chip chip = {
            .cc = chips[round % 5],
            .shared = 48 * KIB + next(&seed) % 4 * 64 * KIB,
            .max_arch = round % 3 ? 0 : archs[round / 3 % 3],
        };
        ingot_table_fill(t, random, count, "simt", "", chip);
        for (int family = 0; family < 2; family++) {
            for (int type = 0; type < 3; type++) {
                for (int64_t tile = 0; tile <= 420; tile++) {
                    assert_ptr_equal(ingot_find(t, (enum ingot_family)family, (ingot_type)type, tile),
                                     search(random, count, chip, family, type, tile));
                }
            }
        }
    }
    free(t);
}

/* Every row of this build is what some chip runs; no chip of the default list lacks a kernel that another has. */
static void every_row_is_reachable(void **state) {
    static const int chips[] = {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    struct ingot_table *t = malloc(ingot_table_bytes());
    unsigned char *reached = calloc((size_t)ingot_kernel_count + 1, 1);

    (void)state;
    assert_non_null(t);
    assert_non_null(reached);
    assert_true(ingot_kernel_count > 0);
    for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
        const size_t shared = chips[c] == 75                                            ? 64 * KIB
                              : chips[c] / 10 == 12 || chips[c] == 86 || chips[c] == 89 ? 99 * KIB
                                                                                        : 163 * KIB;
        ingot_table_fill(t, ingot_kernels, ingot_kernel_count, DEFAULT_ARCHS, "80",
                         (struct ingot_chip){chips[c], chips[c] == 90 ? 227 * KIB : shared, 0});
        for (int i = 0; i < ingot_kernel_count; i++) {
            const struct ingot_kernel *k = &ingot_kernels[i];
            const struct ingot_kernel *f =
                ingot_find_exact(t, (enum ingot_family)k->family, (ingot_type)k->type, k->tile);
            if (f) reached[f - ingot_kernels] = 1;
            if (!f && k->arch == 75) fail_msg("no kernel like %s on chip %d", k->symbol, chips[c]);
        }
    }
    for (int i = 0; i < ingot_kernel_count; i++) {
        if (!reached[i]) fail_msg("no chip runs %s", ingot_kernels[i].symbol);
    }
    free(reached);
    free(t);
}

static void build_info_names_the_rows(void **state) {
    const ingot_build build = ingot_build_info();

    (void)state;
    assert_string_equal(build.version, "0.1.0");
    assert_string_equal(build.archs, INGOT_ARCHS);
    assert_string_equal(build.ptx, INGOT_PTX);
    assert_int_equal(build.kernels, ingot_kernel_count);
    assert_int_equal(build.cublaslt, INGOT_CUBLASLT);
    for (int i = 0; i < ingot_kernel_count; i++) {
        const ingot_type type = (ingot_type)ingot_kernels[i].type;
        char list[512], word[32];
        if (!ingot_is_block_type(type) && !ingot_is_float_type(type)) continue;
        snprintf(list, sizeof list, " %s ", build.types);
        snprintf(word, sizeof word, " %s ", ingot_type_name(type));
        assert_non_null(strstr(list, word));
    }
    assert_ptr_equal(ingot_build_info().types, build.types);
    for (int family = 0; family < INGOT_FAMILY_COUNT; family++) {
        assert_string_not_equal(ingot_family_name((enum ingot_family)family), "?");
    }
    assert_string_equal(ingot_family_name(INGOT_FAMILY_COUNT), "?");
}

static void forced_arch_is_parsed_by_value(void **state) {
    ingot_context ctx = {0};
    int arch = -1;

    (void)state;
    unsetenv("INGOT_ARCH");
    assert_int_equal(ingot_arch_from_env(&ctx, &arch), INGOT_OK);
    assert_int_equal(arch, 0);
    setenv("INGOT_ARCH", "", 1);
    assert_int_equal(ingot_arch_from_env(&ctx, &arch), INGOT_OK);
    assert_int_equal(arch, 0);
    setenv("INGOT_ARCH", "sm75", 1);
    assert_int_equal(ingot_arch_from_env(&ctx, &arch), INGOT_OK);
    assert_int_equal(arch, 75);
    setenv("INGOT_ARCH", "sm90a", 1);
    assert_int_equal(ingot_arch_from_env(&ctx, &arch), INGOT_OK);
    assert_int_equal(arch, 90);
    setenv("INGOT_ARCH", "sm86", 1);
    assert_int_equal(ingot_arch_from_env(&ctx, &arch), INGOT_ERR_INVALID);
    assert_non_null(strstr(ctx.error, "sm86"));
    assert_non_null(strstr(ctx.error, "sm75, sm80 or sm90a"));
    unsetenv("INGOT_ARCH");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chips_run_what_the_build_has), cmocka_unit_test(tiles_round_up),
        cmocka_unit_test(only_code_of_90_waits),        cmocka_unit_test(lists_are_read_leniently),
        cmocka_unit_test(agrees_with_a_slow_search),    cmocka_unit_test(every_row_is_reachable),
        cmocka_unit_test(build_info_names_the_rows),    cmocka_unit_test(forced_arch_is_parsed_by_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
