// SPDX-License-Identifier: MIT
/* test_formats.c - every type of the build in the shapes that its blocks make hard: rows of one block and of odd numbers
 * of blocks, so that their bytes are no multiple of 16, 4 or 2; 1, 3, 31, 33 and 65537 rows; bases aligned to 32 bytes,
 * which is what GGUF promises, and views that start at any block.
 *
 * Weights are golden blocks, tiled at random.  What they decode to comes from the PyPI package `gguf`, bit for bit;
 * products are compared with float64 sums of these values and of the activations rounded as the header says.  All of the
 * result's buffer is compared, guards and gaps included. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "golden_blocks.h"
#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
static const int64_t block_counts[] = {1, 2, 3, 5, 7, 11}, row_counts[] = {1, 3, 31, 33};
static ingot_type types[CHECK_TYPES];
static size_t type_count;

/* ---- what is read: golden blocks at random */

struct source {
    struct tensor *a;
    const struct golden *g;
    int64_t blocks; /* of a row */
    int64_t *which; /* the golden block of each block */
};

static struct source source_new(ingot_type type, int64_t blocks, int64_t rows, const struct layout *how, bool wild) {
    struct source s = {.g = golden_of(type), .blocks = blocks};
    s.a = tensor_new(type, blocks * ingot_type_block(type), rows, 1, 1, how);
    s.which = check_alloc((size_t)(blocks * rows) * sizeof *s.which);
    for (int64_t i = 0; i < blocks * rows; i++) {
        s.which[i] = golden_choose(type, wild);
        memcpy(tensor_at(s.a, i % blocks, i / blocks, 0, 0), s.g->raw + (size_t)s.which[i] * ingot_type_size(type),
               ingot_type_size(type));
    }
    return s;
}

/* The values of block b of row r. */
static const float *values_at(const struct source *s, int64_t r, int64_t b) {
    return s->g->values + s->which[r * s->blocks + b] * s->g->per_block;
}

/* ---- what is written: dense, with gaps, elements of a row apart, one element behind an aligned address */

static const struct layout dense = {{0}, {0}, 0}, gapped = {{3, 7, 0, 0}, {0, 1, 2, 3}, 0},
                           transposed = {{1, 0, 0, 0}, {1, 0, 2, 3}, 0}, shifted = {{1, 0, 0, 0}, {0, 1, 2, 3}, 1};
static const struct layout *const ways[] = {&dense, &gapped, &transposed, &shifted};
enum { DENSE };

static struct tensor *result_new(ingot_type type, int64_t ne0, int64_t ne1, size_t way) {
    struct layout how = *ways[way % COUNT(ways)];
    how.offset *= ingot_type_size(type);
    return tensor_new(type, ne0, ne1, 1, 1, &how);
}

static void put_rounded(unsigned char *p, ingot_type type, float value) {
    const uint16_t half = type == INGOT_TYPE_F16 ? check_f32_to_f16(value) : check_f32_to_bf16(value);
    if (type == INGOT_TYPE_F32) memcpy(p, &value, 4);
    else memcpy(p, &half, 2);
}

static void run(struct op_case *c) {
    for (int i = 0; i < 2; i++)
        if (c->src[i]) tensor_upload(c->src[i]);
    tensor_upload(c->dst);
    const ingot_node node = case_node(c);
    if (ingot_supports(check_context(), &node) != INGOT_OK || ingot_compute(check_context(), &node) != INGOT_OK)
        check_fail("%s: %s", case_text(c), ingot_error(check_context()));
}

/* Row r of the result must be row order[r] of the source, or r, rounded; every other byte must be as it was. */
static void check_rows(struct op_case *c, const struct source *s, const int64_t *order) {
    struct tensor *dst = c->dst;
    unsigned char *image = check_alloc(dst->bytes);
    memcpy(image, dst->host, dst->bytes);
    for (int64_t r = 0; r < dst->t.ne[1]; r++)
        for (int64_t b = 0; b < s->blocks; b++) {
            const float *v = values_at(s, order ? order[r] : r, b);
            for (int64_t i = 0; i < s->g->per_block; i++)
                put_rounded(image + (tensor_at(dst, b * s->g->per_block + i, r, 0, 0) - dst->host), dst->t.type, v[i]);
        }
    run(c);
    tensor_download(dst);
    for (size_t i = 0; i < dst->bytes; i++)
        if (dst->host[i] != image[i])
            check_fail("%s to %s: byte %lld from the first element is %02x, expected %02x", case_text(c),
                       check_shape(&dst->t), (long long)i - (long long)dst->first, dst->host[i], image[i]);
    check_unchanged(s->a, case_text(c));
}

static void check_decoding(const struct source *s, size_t way) {
    for (size_t to = 0; to < COUNT(floats); to++) {
        struct op_case c = {.op = INGOT_OP_CPY, .src = {s->a}};
        c.dst = result_new(floats[to], s->a->t.ne[0], s->a->t.ne[1], way + to);
        check_rows(&c, s, NULL);
    }
}

static void check_get_rows(const struct source *s, int64_t count, size_t way) {
    struct op_case c = {.op = INGOT_OP_GET_ROWS, .src = {s->a, tensor_new(INGOT_TYPE_I32, count, 1, 1, 1, NULL)}};
    int64_t *order = check_alloc((size_t)count * sizeof *order);
    for (int64_t r = 0; r < count; r++) {
        order[r] = r == 0 ? s->a->t.ne[1] - 1 : check_range(0, s->a->t.ne[1] - 1);
        tensor_set(c.src[1], r, 0, 0, 0, (double)order[r]);
    }
    c.dst = result_new(INGOT_TYPE_F32, s->a->t.ne[0], count, way);
    check_rows(&c, s, order);
}

/* ---- products */

/* How far from the sum of exact products an f32 sum may be, for one unit of the terms' magnitude. */
static const double F32_SUM = 0x1p-19;

/* Whether the header says that activations are rounded to 8 bits. */
static bool rounds(ingot_type type, ingot_prec prec) {
    return check_is_block(type) && type != INGOT_TYPE_Q8_1 && type != INGOT_TYPE_Q8_K && prec == INGOT_PREC_DEFAULT;
}

/* Column j of B in float64, rounded to 8 bits in blocks of 32 or not. */
static double *column_of(const struct tensor *b, int64_t j, bool rounded) {
    const int64_t k = b->t.ne[0];
    double *x = check_alloc((size_t)k * sizeof *x);
    for (int64_t i = 0; i < k; i++) x[i] = tensor_get(b, i, j, 0, 0);
    if (!rounded) return x;
    int8_t *q = check_alloc((size_t)k);
    float *d = check_alloc((size_t)k / 32 * sizeof *d), *sums = check_alloc((size_t)k / 32 * sizeof *sums);
    check_quantize_row(x, k, q, d, sums);
    for (int64_t i = 0; i < k; i++) x[i] = (double)d[i / 32] * q[i];
    return x;
}

/* The sum of a row and a column, and the size of what is added: a block's weights may themselves be differences of terms
 * as large as the largest of them. */
static double product(const struct source *s, int64_t r, const double *x, double *size) {
    double sum = 0.0;
    *size = 0.0;
    for (int64_t b = 0; b < s->blocks; b++, x += s->g->per_block) {
        const float *w = values_at(s, r, b);
        double largest = 0.0, activations = 0.0;
        for (int64_t i = 0; i < s->g->per_block; i++) {
            sum += (double)w[i] * x[i];
            largest = fmax(largest, fabs((double)w[i]));
            activations += fabs(x[i]);
        }
        *size += largest * activations;
    }
    return sum;
}

static double worst; /* error of all products, for one unit of their bound */

static void check_product(const struct source *s, int64_t n, ingot_prec prec, ingot_type b, size_t way) {
    const int64_t m = s->a->t.ne[1];
    struct op_case c = {.op = INGOT_OP_MUL_MAT, .src = {s->a, result_new(b, s->a->t.ne[0], n, way + 1)}};
    c.node.params.mul_mat.prec = prec;
    tensor_fill_random(c.src[1], -2.0, 2.0);
    c.dst = result_new(INGOT_TYPE_F32, m, n, way);
    double *ref = check_alloc((size_t)(m * n) * sizeof *ref), *size = check_alloc((size_t)(m * n) * sizeof *size);
    for (int64_t j = 0; j < n; j++) {
        const double *x = column_of(c.src[1], j, rounds(s->a->t.type, prec));
        for (int64_t i = 0; i < m; i++) ref[j * m + i] = product(s, i, x, &size[j * m + i]);
    }
    run(&c);
    check_result(c.dst, ref, 1e30, case_text(&c)); /* all but the numbers */
    const double *got = tensor_values(c.dst);
    for (int64_t e = 0; e < m * n; e++) {
        const double bound = F32_SUM * size[e] + 0x1p-140;
        worst = fmax(worst, fabs(got[e] - ref[e]) / bound);
        if (!(fabs(got[e] - ref[e]) <= bound))
            check_fail("%s: row %lld, column %lld: %.9g, expected %.9g within %.2g", case_text(&c), (long long)(e % m),
                       (long long)(e / m), got[e], ref[e], bound);
    }
    check_unchanged(s->a, case_text(&c)), check_unchanged(c.src[1], case_text(&c));
}

/* ---- the tests, for each type */

static void shapes(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    size_t turn = (size_t)check_range(0, 7);
    for (size_t b = 0; b < COUNT(block_counts); b++)
        for (size_t r = 0; r < COUNT(row_counts); r++, turn++) {
            const struct layout how = {{turn % 3 == 2, 0, 0, 0}, {0, 1, 2, 3}, turn % 2 ? 32 : 0};
            struct source s = source_new(type, block_counts[b], row_counts[r], &how, true);
            check_decoding(&s, turn);
            check_get_rows(&s, 1 + (int64_t)turn % 5, turn);
            s = source_new(type, block_counts[b], row_counts[r], &how, false);
            check_product(&s, 1 + (int64_t)turn % 8, INGOT_PREC_DEFAULT, floats[turn % 3], turn);
            check_product(&s, 1 + (int64_t)(turn / 3) % 8, turn % 4 ? INGOT_PREC_DEFAULT : INGOT_PREC_F32,
                          INGOT_TYPE_F32, turn + 1);
            check_release();
        }
}

/* Views that begin at block `from` of something longer: only a block's own alignment is left. */
static void views(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    for (size_t from = 0; from < 17; from++) {
        const struct layout how = {{(int64_t)from % 4, 0, 0, 0}, {0, 1, 2, 3}, from * ingot_type_size(type)};
        const int64_t blocks = 1 + (int64_t)from % 5, n = 1 + (int64_t)from % 8;
        struct source s = source_new(type, blocks, 5, &how, true);
        check_decoding(&s, from);
        check_get_rows(&s, 3, from);
        s = source_new(type, blocks, 5, &how, false);
        check_product(&s, n, INGOT_PREC_DEFAULT, INGOT_TYPE_F32, from);
        check_product(&s, 9 - n, INGOT_PREC_F32, INGOT_TYPE_F32, from);
        check_release();
    }
}

/* More rows than a dimension of a grid has blocks.  The SIMT host takes its time for blocks of 256: there each run draws
 * one of the three for each of these types. */
static void many_rows(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const struct layout odd = {{0}, {0}, 32};
    const bool all = !check_device().simt || ingot_type_block(type) < 256;
    const int64_t one = check_range(0, 2);
    struct source s = source_new(type, 1, 65537, &odd, false);
    if (all || one == 0) {
        struct op_case c = {.op = INGOT_OP_CPY, .src = {s.a}};
        c.dst = result_new(floats[check_range(0, 2)], s.a->t.ne[0], 65537, DENSE);
        check_rows(&c, &s, NULL);
    }
    if (all || one == 1) check_get_rows(&s, 65537, DENSE);
    if (all || one == 2) check_product(&s, 1, INGOT_PREC_DEFAULT, INGOT_TYPE_F32, DENSE);
}

/* The shapes above have rows of which no word, half word or byte boundary can be relied on. */
static void odd_row_sizes(void **state) {
    (void)state;
    const size_t multiples[] = {16, 4, 2};
    int off[COUNT(multiples)] = {0};
    for (size_t t = 0; t < type_count; t++)
        for (size_t b = 0; b < COUNT(block_counts); b++)
            for (size_t i = 0; i < COUNT(multiples); i++)
                off[i] += (size_t)block_counts[b] * ingot_type_size(types[t]) % multiples[i] != 0;
    print_message("row sizes: %d no multiple of 16, %d of 4, %d of 2; products within %.2g of their bound\n", off[0],
                  off[1], off[2], worst);
    assert_true(off[0] > 0 && off[1] > 0);
    assert_true(off[2] > 0 || !check_in_build(INGOT_TYPE_MXFP4)); /* the one type of an odd size */
}

int main(void) {
    static const struct {
        const char *name;
        void (*test)(void **state);
    } kinds[] = {{"shapes", shapes}, {"views", views}, {"many_rows", many_rows}};
    static char names[COUNT(kinds) * CHECK_TYPES][48];
    static struct CMUnitTest tests[COUNT(kinds) * CHECK_TYPES + 1];
    type_count = check_types(types);
    size_t count = 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (size_t t = 0; t < type_count; t++, count++) {
            snprintf(names[count], sizeof names[count], "%s_%s", kinds[i].name, ingot_type_name(types[t]));
            tests[count] = (struct CMUnitTest){names[count], kinds[i].test, NULL, check_teardown, &types[t]};
        }
    tests[count++] = (struct CMUnitTest)CHECK_TEST(odd_row_sizes);
    return check_main("formats", tests, count);
}
