// SPDX-License-Identifier: MIT
/* test_copy.c - CPY of every type to itself, bit by bit: any strides, shapes and views that start at any block; CPY from
 * block formats to floats of another shape; the views and copies of a graph; GET_ROWS of integers. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "ref.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Every type of GGUF. */
static ingot_type types[CHECK_TYPES];
static int type_count;

static void list_types(void) {
    for (int t = 0; t < CHECK_TYPES; t++)
        if (ingot_type_block((ingot_type)t) > 0) types[type_count++] = (ingot_type)t;
}

/* Packed, gaps everywhere, rows and matrices swapped, elements of a row apart, one unit behind an aligned address.  Blocks
 * of a row lie side by side, so a block format takes gaps for the fourth. */
static const struct layout layouts[] = {
    {{0}, {0}, 0},
    {{3, 7, 5, 0}, {0, 1, 2, 3}, 0},
    {{1, 0, 2, 0}, {0, 2, 1, 3}, 0},
    {{1, 2, 0, 0}, {1, 0, 2, 3}, 0},
    {{1, 0, 0, 0}, {0, 1, 2, 3}, 1},
};
enum { PACKED, GAPPED, SWAPPED, TRANSPOSED, SHIFTED, LAYOUTS };

static struct tensor *new (ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, size_t which) {
    struct layout l = layouts[which == TRANSPOSED && check_is_block(type) ? GAPPED : which];
    l.offset *= ingot_type_size(type);
    return tensor_new(type, ne0, ne1, ne2, ne3, &l);
}

static void randomize(struct tensor *t) {
    for (size_t i = 0; i < t->bytes; i++) t->host[i] = (unsigned char)check_random();
}

/* Where unit number i of a tensor lies in its image. */
static unsigned char *unit(const struct tensor *t, int64_t i) {
    int64_t at[4];
    for (int d = 0; d < 4; d++) {
        const int64_t n = d == 0 ? t->t.ne[0] / ingot_type_block(t->t.type) : t->t.ne[d];
        at[d] = i % n;
        i /= n;
    }
    return tensor_at(t, at[0], at[1], at[2], at[3]);
}

/* dst's image with src's units in their places. */
static unsigned char *copied(const struct tensor *src, const struct tensor *dst) {
    unsigned char *image = check_alloc(dst->bytes);
    const int64_t units = ingot_tensor_elements(&dst->t) / ingot_type_block(dst->t.type);
    memcpy(image, dst->host, dst->bytes);
    for (int64_t i = 0; i < units; i++)
        memcpy(image + (unit(dst, i) - dst->host), unit(src, i), ingot_type_size(dst->t.type));
    return image;
}

static void same_image(struct tensor *dst, const unsigned char *image, const char *what) {
    tensor_download(dst);
    for (size_t i = 0; i < dst->bytes; i++)
        if (dst->host[i] != image[i])
            check_fail("%s to %s: byte %lld from the first unit is %02x, expected %02x", what, check_shape(&dst->t),
                       (long long)i - (long long)dst->first, dst->host[i], image[i]);
}

/* Random bytes everywhere; all of both buffers is compared. */
static void check_copy(struct tensor *src, struct tensor *dst) {
    ingot_node node = {.op = INGOT_OP_CPY, .dst = dst->t, .src = {&src->t}};
    randomize(src), randomize(dst);
    const unsigned char *image = copied(src, dst);
    tensor_upload(src), tensor_upload(dst);
    if (ingot_supports(check_context(), &node) != INGOT_OK || ingot_compute(check_context(), &node) != INGOT_OK)
        check_fail("cpy %s to %s: %s", check_shape(&src->t), check_shape(&dst->t), ingot_error(check_context()));
    same_image(dst, image, check_shape(&src->t));
    check_unchanged(src, "cpy");
}

static void strided(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type), units[] = {1, 2, 3, 8, 16, 33};
    for (size_t ls = 0; ls < LAYOUTS; ls++)
        for (size_t ld = 0; ld < LAYOUTS; ld++)
            for (size_t n = 0; n < COUNT(units); n++) {
                const int64_t k = units[n] * block;
                check_copy(new (type, k, 5, 3, 2, ls), new (type, k, 5, 3, 2, ld));
                check_release();
            }
    if (ingot_type_size(type) <= 34) /* rows without end take long where blocks are large */
        check_copy(new (type, block, 65537, 1, 1, GAPPED), new (type, block, 65537, 1, 1, PACKED));
}

static void reshaped(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type);
    const int64_t shapes[][4] = {{24, 5, 3, 2}, {720, 1, 1, 1}, {1, 720, 1, 1},
                                 {5, 3, 2, 24}, {2, 3, 4, 30},  {48, 15, 1, 1}};
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < COUNT(shapes); j++)
            for (size_t l = 0; l < LAYOUTS; l++) {
                const int64_t *a = shapes[i], *b = shapes[j];
                check_copy(new (type, a[0] * block, a[1], a[2], a[3], (l + i) % LAYOUTS),
                           new (type, b[0] * block, b[1], b[2], b[3], l));
                check_release();
            }
}

/* Views that start at any unit: of one row, and of rows in the middle of longer ones. */
static void from_any_unit(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type);
    const size_t size = ingot_type_size(type);
    for (size_t from = 0; from < 17; from++)
        for (size_t to = from % 3; to < 17; to += 3) {
            const struct layout one = {{0}, {0}, from * size}, other = {{0}, {0}, to * size};
            const struct layout in = {{(int64_t)from, 1, 0, 0}, {0, 1, 2, 3}, from * size},
                                out = {{(int64_t)to, 0, 2, 0}, {0, 1, 2, 3}, to * size};
            check_copy(tensor_new(type, 19 * block, 1, 1, 1, &one), tensor_new(type, 19 * block, 1, 1, 1, &other));
            check_copy(tensor_new(type, 4 * block, 3, 2, 1, &in), tensor_new(type, 4 * block, 3, 2, 1, &out));
            check_release();
        }
}

static void repeated(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type);
    for (int d = check_is_block(type) ? 1 : 0; d < 4; d++) {
        struct tensor *src = new (type, 16 * block, 3, 2, 2, PACKED);
        src->t.nb[d] = 0; /* the same memory for each index */
        check_copy(src, new (type, 16 * block, 3, 2, 2, GAPPED));
        src->t.nb[d == 1 ? 2 : 1] = 0;
        check_copy(src, new (type, 16 * block, 12, 1, 1, PACKED));
        check_release();
    }
}

static void nothing(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type);
    check_copy(new (type, 0, 5, 1, 1, PACKED), new (type, 0, 5, 1, 1, PACKED));
    check_copy(new (type, 2 * block, 0, 3, 1, PACKED), new (type, block, 3, 0, 1, PACKED));
    check_copy(new (type, block, 1, 1, 1, SHIFTED), new (type, block, 1, 1, 1, PACKED));
}

/* ---- in graphs: cont and cast of views, cpy into them */

static void check_graph(struct tensor *src, struct tensor *dst, ingot_graph *g, ingot_tensor *result,
                        const char *what) {
    if (result) ingot_cpy(g, result, ingot_leaf(g, &dst->t));
    CHECK_OK(ingot_graph_plan(g, NULL, NULL));
    unsigned char *image = copied(src, dst);
    for (int run = 0; run < 3; run++) { /* at once, recorded, replayed */
        tensor_poison(dst);
        tensor_upload(dst);
        CHECK_OK(ingot_graph_run(g));
        same_image(dst, image, what);
    }
    ingot_graph_destroy(g);
}

static void in_a_graph(void **state) {
    const ingot_type type = *(const ingot_type *)*state;
    const int64_t block = ingot_type_block(type);
    const size_t size = ingot_type_size(type);
    struct tensor *whole = new (type, 7 * block, 5, 3, 1, PACKED);
    randomize(whole);
    tensor_upload(whole);
    for (int64_t first = 0; first < 7; first++) { /* a view from block `first` of row 1 on, two blocks wide or one */
        const int64_t wide = first < 6 ? 2 : 1, ne[3] = {wide * block, 4, 3};
        const size_t offset = whole->t.nb[1] + (size_t)first * size;
        struct tensor part = *whole, *dst = tensor_new(type, ne[0], ne[1], ne[2], 1, NULL);
        part.first += offset;
        memcpy(part.t.ne, ne, sizeof ne);
        ingot_graph *g = NULL;
        CHECK_OK(ingot_graph_create(check_context(), &g));
        ingot_tensor *view = ingot_view(g, ingot_leaf(g, &whole->t), 3, ne, whole->t.nb, offset);
        check_graph(&part, dst, g, first % 2 ? ingot_cont(g, view) : ingot_cast(g, view, type), "cont of a view");
    }
    /* Rows and matrices change places; the copy is seen as one row. */
    struct tensor turned = *whole, *dst = tensor_new(type, 7 * 5 * 3 * block, 1, 1, 1, NULL);
    turned.t.ne[1] = 3, turned.t.ne[2] = 5;
    turned.t.nb[1] = whole->t.nb[2], turned.t.nb[2] = whole->t.nb[1];
    ingot_graph *g = NULL;
    CHECK_OK(ingot_graph_create(check_context(), &g));
    ingot_tensor *t = ingot_permute(g, ingot_leaf(g, &whole->t), 0, 2, 1, 3);
    check_graph(&turned, dst, g, ingot_reshape(g, ingot_cont(g, t), 1, dst->t.ne), "cont of a permuted tensor");
    /* cpy into a view */
    struct tensor *cache = tensor_new(type, 4 * block, 3, 1, 1, NULL), *x = tensor_new(type, 2 * block, 3, 1, 1, NULL);
    struct tensor part = *cache;
    part.first += size;
    part.t.ne[0] = 2 * block;
    randomize(x);
    tensor_upload(x);
    CHECK_OK(ingot_graph_create(check_context(), &g));
    ingot_cpy(g, ingot_leaf(g, &x->t), ingot_view(g, ingot_leaf(g, &cache->t), 2, part.t.ne, part.t.nb, size));
    check_graph(x, &part, g, NULL, "cpy into a view");
}

/* ---- how wide the pieces are */

static char logged[1024];

static void keep_log(void *user, const char *text) {
    (void)user;
    snprintf(logged, sizeof logged, "%s", text);
}

static void takes_pieces(ingot_context *ctx, const struct tensor *src, const struct tensor *dst, int piece) {
    ingot_node node = {.op = INGOT_OP_CPY, .dst = dst->t, .src = {&src->t}};
    char expected[48];
    snprintf(expected, sizeof expected, "-> ingot_move_i8_b%d_", piece);
    logged[0] = '\0';
    assert_int_equal(ingot_compute(ctx, &node), INGOT_OK);
    if (!strstr(logged, expected))
        check_fail("%s to %s: %s, expected %s", check_shape(&src->t), check_shape(&dst->t), logged, expected);
}

static void pieces(void **state) {
    (void)state;
    static const struct {
        ingot_type type;
        int64_t units, rows, gap;
        int offset, piece; /* units; bytes */
    } cases[] = {
        {INGOT_TYPE_F32, 64, 3, 0, 0, 16}, {INGOT_TYPE_F32, 3, 4, 0, 0, 16},  {INGOT_TYPE_F32, 63, 3, 1, 0, 4},
        {INGOT_TYPE_F32, 64, 3, 0, 1, 4},  {INGOT_TYPE_F32, 64, 3, 2, 0, 8},  {INGOT_TYPE_F32, 64, 3, 4, 0, 16},
        {INGOT_TYPE_F16, 64, 3, 1, 0, 2},  {INGOT_TYPE_I8, 16, 3, 16, 0, 16}, {INGOT_TYPE_I8, 16, 3, 1, 0, 1},
        {INGOT_TYPE_F64, 3, 3, 2, 0, 8},   {INGOT_TYPE_Q4_0, 1, 8, 0, 0, 16}, {INGOT_TYPE_Q4_0, 8, 5, 8, 0, 16},
        {INGOT_TYPE_Q4_0, 8, 5, 0, 1, 2},  {INGOT_TYPE_Q4_0, 8, 5, 4, 0, 8},  {INGOT_TYPE_Q4_0, 1, 5, 1, 0, 2},
        {INGOT_TYPE_MXFP4, 1, 3, 1, 0, 1}, {INGOT_TYPE_Q4_K, 1, 3, 1, 1, 16}, {INGOT_TYPE_Q6_K, 1, 3, 1, 0, 2},
    };
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    ingot_context *ctx = NULL;
    options.log = keep_log;
    assert_int_equal(ingot_context_create(&options, &ctx), INGOT_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t size = ingot_type_size(cases[i].type);
        const struct layout l = {{cases[i].gap, 0, 0, 0}, {0, 1, 2, 3}, (size_t)cases[i].offset * size};
        const int64_t k = cases[i].units * ingot_type_block(cases[i].type);
        struct tensor *odd = tensor_new(cases[i].type, k, cases[i].rows, 1, 1, &l);
        struct tensor *even = tensor_new(cases[i].type, k, cases[i].rows, 1, 1, NULL);
        takes_pieces(ctx, odd, even, cases[i].piece);
        takes_pieces(ctx, even, odd, cases[i].piece);
    }
    /* The stride of a dimension of 1 is never used; dimensions that go on where the one before ends are one. */
    const struct layout column = {{0}, {1, 2, 0, 3}, 0};
    takes_pieces(ctx, tensor_new(INGOT_TYPE_F16, 1, 16, 3, 1, &column), tensor_new(INGOT_TYPE_F16, 1, 16, 3, 1, NULL),
                 16);
    takes_pieces(ctx, tensor_new(INGOT_TYPE_I16, 1, 9, 8, 5, &column), tensor_new(INGOT_TYPE_I16, 3, 3, 8, 5, NULL),
                 16);
    ingot_context_destroy(ctx);
}

/* ---- from block formats to floats of another shape */

static void decoded_and_reshaped(void **state) {
    (void)state;
    const ingot_type floats[] = {INGOT_TYPE_F32, INGOT_TYPE_F16, INGOT_TYPE_BF16};
    const int64_t shapes[][4] = {{512, 3, 2, 1}, {3072, 1, 1, 1}, {1, 3072, 1, 1},
                                 {7, 1, 1, 1},   {96, 4, 4, 2},   {3, 4, 8, 32}};
    ingot_type of[CHECK_TYPES];
    const size_t count = check_types(of);
    for (size_t t = 3; t < count; t++)
        for (size_t i = 0; i < COUNT(shapes); i++)
            for (size_t l = 0; l < LAYOUTS; l++) {
                const int64_t *b = shapes[i][0] == 7 ? shapes[0] : shapes[i];
                struct op_case c = {.op = INGOT_OP_CPY,
                                    .dst = new (floats[(i + l) % 3], b[0], b[1], b[2], b[3], l),
                                    .src = {new (of[t], 256, 4, 3, 1, (l + i) % LAYOUTS)}};
                tensor_fill_wild(c.src[0]);
                case_check(&c, 0.0);
                check_release();
            }
}

/* ---- integers picked by ids */

static void get_rows_i32(void **state) {
    (void)state;
    const int64_t k[] = {1, 3, 4, 8, 33, 128};
    for (size_t i = 0; i < COUNT(k); i++)
        for (size_t l = 0; l < LAYOUTS; l++) {
            struct tensor *table = new (INGOT_TYPE_I32, k[i], 7, 2, 3, l), *ids = new (INGOT_TYPE_I32, 5, 2, 3, 1, l);
            tensor_fill_random(table, -2147483648.0, 2147483647.0);
            for (int64_t e = 0; e < 30; e++) tensor_set(ids, e % 5, e / 5 % 2, e / 10, 0, (double)check_range(-1, 7));
            struct op_case c = {.op = INGOT_OP_GET_ROWS,
                                .dst = new (INGOT_TYPE_I32, k[i], 5, 2, 3, (l + i) % LAYOUTS),
                                .src = {table, ids}};
            case_check(&c, 0.0);
            tensor_fill(c.dst, 5.0); /* so that the poison is not taken for -1 */
            case_check(&c, 0.0);
            check_release();
        }
    ingot_graph *g = NULL;
    CHECK_OK(ingot_graph_create(check_context(), &g));
    struct tensor *table = new (INGOT_TYPE_I32, 8, 4, 1, 1, PACKED), *ids = new (INGOT_TYPE_I32, 3, 1, 1, 1, PACKED);
    ingot_tensor *rows = ingot_get_rows(g, ingot_leaf(g, &table->t), ingot_leaf(g, &ids->t));
    assert_non_null(rows);
    assert_int_equal(rows->type, INGOT_TYPE_I32);
    ingot_graph_destroy(g);
}

int main(void) {
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } each[] = {{"strided", strided},   {"reshaped", reshaped}, {"from_any_unit", from_any_unit},
                {"repeated", repeated}, {"nothing", nothing},   {"in_a_graph", in_a_graph}};
    static char names[CHECK_TYPES * COUNT(each)][48];
    static struct CMUnitTest tests[CHECK_TYPES * COUNT(each) + 3];
    size_t count = 0;
    list_types();
    for (int t = 0; t < type_count; t++)
        for (size_t i = 0; i < COUNT(each); i++, count++) {
            snprintf(names[count], sizeof names[count], "%s_%s", each[i].name, ingot_type_name(types[t]));
            tests[count] = (struct CMUnitTest){names[count], each[i].run, NULL, check_teardown, &types[t]};
        }
    tests[count++] = (struct CMUnitTest)CHECK_TEST(pieces);
    tests[count++] = (struct CMUnitTest)CHECK_TEST(decoded_and_reshaped);
    tests[count++] = (struct CMUnitTest)CHECK_TEST(get_rows_i32);
    return check_main("copy", tests, count);
}
