// SPDX-License-Identifier: MIT
/* test_graph_random.c - graphs that no one thought of.
 *
 * A random graph is built and, node by node, computed at once into buffers of its own.  Then it is planned and run, and
 * every result that the graph keeps must have the bits of the direct calls: so no two live tensors share memory, no
 * fusion moves a read across a write, and a replay does what the first run did.  Results are overwritten in the middle
 * of things (cpy, set_rows, also into intermediates and parts of them), since that is where fusion goes wrong. */
#include "rig.h"

enum { WIDTH = 64, HEAD = 32, CACHE_ROWS = 8, MAX_VALUES = 256 };

struct val {
    ingot_tensor *g; /* in the graph */
    ingot_tensor e;  /* computed at once */
};

struct play {
    struct rig *r;
    ingot_graph *g;
    int n;                       /* columns */
    struct val pool[MAX_VALUES]; /* [WIDTH, n] f32 */
    int count;
    struct val leaves[16]; /* with the data they start with */
    unsigned char *start[16];
    int leaf_count;
    struct val row, wq, wq2, wf, wh, experts, cache, ids, pos, len;
};

static struct val leaf(struct play *p, ingot_tensor t, bool weight) {
    struct val v = {.e = rig_twin(p->r, &t)};
    v.g = weight ? ingot_weight(p->g, &t) : ingot_leaf(p->g, &t);
    if (!weight) {
        p->start[p->leaf_count] = rig_read(p->r, &t);
        p->leaves[p->leaf_count++] = v;
    }
    return v;
}

/* The node of both worlds: the graph made `g`; the same is computed into memory of its own. */
static struct val made(struct play *p, ingot_tensor *g, ingot_node node) {
    struct val v = {.g = g};
    if (!g) check_fail("building: %s", ingot_error(p->r->ctx));
    v.e = rig_tensor(p->r, g->type, g->ne[0], g->ne[1], g->ne[2], g->ne[3]);
    rig_compute(p->r, node, v.e);
    return v;
}

static struct val viewed(struct val of, ingot_tensor *g, size_t offset) {
    struct val v = {.g = g, .e = *g};
    v.e.data = (char *)of.e.data + offset;
    return v;
}

static struct val any(struct play *p) {
    int recent = p->count > 6 && rig_below(p->r, 3) ? 6 : p->count;
    return p->pool[p->count - 1 - rig_below(p->r, recent)];
}

static void keep(struct play *p, struct val v) {
    if (p->count < MAX_VALUES) p->pool[p->count++] = v;
    if (rig_below(p->r, 6) == 0) ingot_output(p->g, v.g);
}

/* ---- nodes */

static const ingot_glu_params swiglu = {.kind = INGOT_GLU_SWIGLU};

static struct val two(struct play *p, ingot_op op, struct val a, struct val b) {
    ingot_tensor *g = op == INGOT_OP_ADD   ? ingot_add(p->g, a.g, b.g)
                      : op == INGOT_OP_MUL ? ingot_mul(p->g, a.g, b.g)
                                           : ingot_glu(p->g, a.g, b.g, &swiglu);
    return made(p, g, (ingot_node){.op = op, .src = {&a.e, &b.e}, .params.glu = swiglu});
}

static struct val norm(struct play *p, struct val a) {
    return made(p, ingot_rms_norm(p->g, a.g, 1e-5f),
                (ingot_node){.op = INGOT_OP_RMS_NORM, .src = {&a.e}, .params.rms_norm = {1e-5f}});
}

static struct val product(struct play *p, struct val w, struct val x) {
    return made(p, ingot_mul_mat(p->g, w.g, x.g, INGOT_PREC_DEFAULT),
                (ingot_node){.op = INGOT_OP_MUL_MAT, .src = {&w.e, &x.e}});
}

static void overwrite(struct play *p, struct val from, struct val to) {
    if (from.e.data == to.e.data) return;
    if (!ingot_cpy(p->g, from.g, to.g)) check_fail("cpy: %s", ingot_error(p->r->ctx));
    rig_compute(p->r, (ingot_node){.op = INGOT_OP_CPY, .src = {&from.e}}, to.e);
}

/* Column `j` as a view. */
static struct val column(struct play *p, struct val a, int j) {
    size_t offset = (size_t)j * WIDTH * 4;
    return viewed(a, ingot_view(p->g, a.g, 1, (int64_t[]){WIDTH}, NULL, offset), offset);
}

static struct val heads(struct play *p, struct val a) {
    return viewed(a, ingot_reshape(p->g, a.g, 3, (int64_t[]){HEAD, WIDTH / HEAD, p->n}), 0);
}

static struct val flat(struct play *p, struct val a) {
    return viewed(a, ingot_reshape(p->g, a.g, 2, (int64_t[]){WIDTH, p->n}), 0);
}

static struct val turned(struct play *p, struct val a) {
    ingot_rope_params rope = {.mode = rig_below(p->r, 2) ? INGOT_ROPE_NEOX : INGOT_ROPE_NORMAL,
                              .n_dims = HEAD,
                              .freq_base = 10000,
                              .freq_scale = 1,
                              .attn_factor = 1,
                              .beta_fast = 32,
                              .beta_slow = 1};
    struct val h = heads(p, a);
    ingot_node node = {.op = INGOT_OP_ROPE, .src = {&h.e, &p->pos.e}, .params.rope = rope};
    return flat(p, made(p, ingot_rope(p->g, h.g, p->pos.g, NULL, &rope), node));
}

static void store_rows(struct play *p, struct val a) {
    if (!ingot_set_rows(p->g, p->cache.g, a.g, p->ids.g)) check_fail("set_rows: %s", ingot_error(p->r->ctx));
    rig_compute(p->r, (ingot_node){.op = INGOT_OP_SET_ROWS, .src = {&a.e, &p->ids.e}}, p->cache.e);
}

static struct val attend(struct play *p, struct val a) {
    ingot_attention_params params = {.scale = 0.2f, .causal = rig_below(p->r, 2)};
    struct val h = heads(p, a), q = viewed(h, ingot_permute(p->g, h.g, 0, 2, 1, 3), 0);
    const int64_t ne[3] = {HEAD, CACHE_ROWS, WIDTH / HEAD};
    const size_t nb[3] = {0, WIDTH * 2, HEAD * 2};
    struct val k = viewed(p->cache, ingot_view(p->g, p->cache.g, 3, ne, nb, 0), 0);
    ingot_node node = {.op = INGOT_OP_ATTENTION, .src = {&q.e, &k.e, &k.e, &p->len.e}, .params.attention = params};
    return flat(p, made(p, ingot_attention(p->g, q.g, k.g, k.g, p->len.g, &params), node));
}

static struct val transposed(struct play *p, struct val a) {
    struct val t = viewed(a, ingot_permute(p->g, a.g, 1, 0, 2, 3), 0);
    struct val c = made(p, ingot_cont(p->g, t.g), (ingot_node){.op = INGOT_OP_CPY, .src = {&t.e}});
    return viewed(c, ingot_reshape(p->g, c.g, 2, (int64_t[]){WIDTH, p->n}), 0);
}

static struct val narrow(struct play *p, struct val a) {
    struct val wide = product(p, p->wq2, a);
    return made(p, ingot_glu(p->g, wide.g, NULL, &swiglu),
                (ingot_node){.op = INGOT_OP_GLU, .src = {&wide.e}, .params.glu = swiglu});
}

/* A product by the experts that `ids` chooses: there are as many as rows of the cache. */
static struct val by_ids(struct play *p, struct val a) {
    struct val x = viewed(a, ingot_reshape(p->g, a.g, 3, (int64_t[]){WIDTH, 1, p->n}), 0);
    struct val ids = viewed(p->ids, ingot_reshape(p->g, p->ids.g, 2, (int64_t[]){1, p->n}), 0);
    return made(p, ingot_mul_mat_id(p->g, p->experts.g, x.g, ids.g, INGOT_PREC_DEFAULT),
                (ingot_node){.op = INGOT_OP_MUL_MAT_ID, .src = {&p->experts.e, &x.e, &ids.e}});
}

static void simple_node(struct play *p) {
    struct val a = any(p), b = any(p);
    switch (rig_below(p->r, 10)) {
    case 0:
        keep(p, two(p, INGOT_OP_ADD, a, b));
        break;
    case 1:
        keep(p, two(p, INGOT_OP_GLU, a, b));
        break;
    case 2:
        keep(p, made(p, ingot_silu(p->g, a.g), (ingot_node){.op = INGOT_OP_SILU, .src = {&a.e}}));
        break;
    case 3:
        keep(p, made(p, ingot_soft_max(p->g, a.g, NULL, 2.0f),
                     (ingot_node){.op = INGOT_OP_SOFT_MAX, .src = {&a.e}, .params.soft_max = {2.0f}}));
        break;
    case 4:
        keep(p, turned(p, a));
        break;
    case 5:
        keep(p, transposed(p, a));
        break;
    case 6:
        store_rows(p, a);
        break;
    case 7:
        overwrite(p, a, b);
        break;
    case 8:
        overwrite(p, column(p, a, rig_below(p->r, p->n)), column(p, b, rig_below(p->r, p->n)));
        break;
    default:
        keep(p, two(p, INGOT_OP_ADD, a, column(p, b, rig_below(p->r, p->n))));
        break;
    }
}

/* Two products and a GLU of them: of the same activations as a rule, with biases or not, and things in between. */
static void gated_nodes(struct play *p) {
    struct val a = any(p), b = rig_below(p->r, 8) ? a : any(p), c[2];
    const bool chosen = rig_below(p->r, 3) == 0;
    const struct val weights[] = {p->wq, p->wf, p->wh};
    const int w = rig_below(p->r, 3);
    for (int i = 0; i < 2; i++) {
        if (i && rig_below(p->r, 4) == 0) simple_node(p);
        if (i && rig_below(p->r, 6) == 0) overwrite(p, column(p, a, 0), p->row);
        c[i] = chosen ? by_ids(p, i ? b : a) : product(p, rig_below(p->r, 12) ? weights[w] : p->wh, i ? b : a);
        if (rig_below(p->r, 3) == 0) c[i] = two(p, INGOT_OP_ADD, c[i], rig_below(p->r, 2) || chosen ? p->row : any(p));
        if (!chosen && rig_below(p->r, 8) == 0) keep(p, c[i]);
    }
    if (rig_below(p->r, 6) == 0) overwrite(p, p->row, column(p, a, 0));
    if (!chosen && rig_below(p->r, 12) == 0) overwrite(p, p->row, column(p, c[0], 0));
    struct val y = two(p, INGOT_OP_GLU, c[0], c[1]);
    keep(p, chosen ? flat(p, y) : y);
}

/* What fusion looks for, with something in between now and then. */
static void fusible_nodes(struct play *p) {
    struct val a = any(p), b = any(p), c;
    if (rig_below(p->r, 5) == 0) {
        gated_nodes(p);
        return;
    }
    switch (rig_below(p->r, 5)) {
    case 0:
        c = norm(p, a);
        break;
    case 1:
        c = product(p, rig_below(p->r, 3) ? p->wq : rig_below(p->r, 2) ? p->wf : p->wh, a);
        break;
    case 2:
        c = attend(p, a);
        break;
    case 3:
        c = narrow(p, a);
        break;
    default:
        c = two(p, INGOT_OP_GLU, a, b);
        break;
    }
    if (rig_below(p->r, 5) == 0) keep(p, c);
    for (int i = rig_below(p->r, 3); i > 0; i--) simple_node(p);
    if (rig_below(p->r, 8) == 0) overwrite(p, column(p, a, 0), p->row);
    if (rig_below(p->r, 8) == 0) overwrite(p, any(p), a);
    if (rig_below(p->r, 3) == 0) b = any(p);
    switch (rig_below(p->r, 4)) {
    case 0:
        c = two(p, INGOT_OP_MUL, c, p->row);
        break;
    case 1:
        c = rig_below(p->r, 2) ? two(p, INGOT_OP_ADD, c, b) : two(p, INGOT_OP_ADD, b, c);
        break;
    case 2:
        c = product(p, p->wq, c);
        break;
    default:
        keep(p, product(p, p->wq, c));
        break;
    }
    keep(p, c);
}

/* ---- a play */

static void start(struct play *p, struct rig *r) {
    int32_t ids[4], pos[4], len = 1 + rig_below(r, CACHE_ROWS);
    memset(p, 0, sizeof *p);
    p->r = r;
    p->n = 1 + rig_below(r, 3);
    RIG_OK(r, ingot_graph_create(r->ctx, &p->g));
    for (int i = 0; i < p->n; i++) {
        ids[i] = i * 2 + rig_below(r, 2);
        pos[i] = rig_below(r, 100);
    }
    p->row = leaf(p, rig_tensor(r, INGOT_TYPE_F32, WIDTH, 1, 1, 1), false);
    p->cache = leaf(p, rig_tensor(r, INGOT_TYPE_F16, WIDTH, CACHE_ROWS, 1, 1), false);
    p->wq = leaf(p, rig_tensor(r, INGOT_TYPE_Q4_0, WIDTH, WIDTH, 1, 1), true);
    p->wq2 = leaf(p, rig_tensor(r, INGOT_TYPE_Q4_0, WIDTH, 2 * WIDTH, 1, 1), true);
    p->wf = leaf(p, rig_tensor(r, INGOT_TYPE_F32, WIDTH, WIDTH, 1, 1), true);
    p->wh = leaf(p, rig_tensor(r, INGOT_TYPE_F16, WIDTH, WIDTH, 1, 1), true);
    const ingot_type of_experts = rig_below(r, 2) ? INGOT_TYPE_Q4_0 : INGOT_TYPE_F16;
    p->experts = leaf(p, rig_tensor(r, of_experts, WIDTH, WIDTH, CACHE_ROWS, 1), true);
    p->ids = leaf(p, rig_i32(r, p->n, ids), false);
    p->pos = leaf(p, rig_i32(r, p->n, pos), false);
    p->len = leaf(p, rig_i32(r, 1, &len), false);
    for (int i = 0; i < 3; i++) p->pool[p->count++] = leaf(p, rig_tensor(r, INGOT_TYPE_F32, WIDTH, p->n, 1, 1), false);
}

static void compare(struct play *p, const char *when) {
    for (int i = 0; i < p->leaf_count; i++)
        if (!rig_equal(p->r, p->leaves[i].g, &p->leaves[i].e)) check_fail("%s: leaf %d differs", when, i);
    for (int i = 0; i < p->count; i++) {
        if (!ingot_value_of(p->pool[i].g)->base->output) continue;
        if (!rig_equal(p->r, p->pool[i].g, &p->pool[i].e)) check_fail("%s: value %d differs", when, i);
    }
}

static void play_once(struct rig *r, int length) {
    struct play p;
    ingot_plan_info info, again;
    start(&p, r);
    while (p.count < length) rig_below(r, 2) ? fusible_nodes(&p) : simple_node(&p);
    ingot_output(p.g, p.pool[p.count - 1].g);
    RIG_OK(r, ingot_graph_plan(p.g, NULL, &info));
    assert_true(info.arena_bytes <= info.naive_bytes);
    for (int run = 0; run < 5; run++) {
        for (int i = 0; i < p.leaf_count; i++) rig_write(r, p.leaves[i].g, p.start[i]);
        RIG_OK(r, ingot_graph_run(p.g));
        compare(&p, run == 0 ? "first run" : run == 1 ? "second run" : "replay");
        if (run != 2) continue;
        RIG_OK(r, ingot_graph_plan(p.g, NULL, &again));
        assert_true(rig_same_info(&info, &again));
    }
    ingot_graph_destroy(p.g);
    for (int i = 0; i < p.leaf_count; i++) free(p.start[i]);
    rig_clear(r);
}

static void play_many(bool fuse, bool graphs) {
    struct rig *r = rig_open(fuse, graphs);
    for (int i = 0; i < 12; i++) {
        uint64_t seed = r->random;
        print_message("graph from random state %#llx\n", (unsigned long long)seed);
        play_once(r, 8 + rig_below(r, 25));
    }
    rig_close(r);
}

static void graph_random_plain(void **state) {
    (void)state;
    play_many(false, false);
}

static void graph_random_fused(void **state) {
    (void)state;
    play_many(true, false);
}

static void graph_random_replayed(void **state) {
    (void)state;
    play_many(true, true);
}

/* ---- places */

static void check_places(const struct ingot_planner *p) {
    size_t busiest = 0;
    for (int a = 0; a < p->block_count; a++) {
        const struct ingot_block *x = &p->blocks[a];
        size_t sum = 0;
        assert_int_equal(x->offset % 256, 0);
        assert_true(x->offset + x->bytes <= p->arena_bytes);
        for (int b = 0; b < p->block_count; b++) {
            const struct ingot_block *y = &p->blocks[b];
            if (y->first <= x->first && x->first <= y->last) sum += y->bytes;
            bool apart = x->last < y->first || y->last < x->first || x->offset + x->bytes <= y->offset ||
                         y->offset + y->bytes <= x->offset || x->bytes == 0 || y->bytes == 0;
            if (a != b && !apart) check_fail("blocks %d and %d of %d share memory", a, b, p->block_count);
        }
        if (sum > busiest) busiest = sum;
    }
    assert_true(busiest <= p->arena_bytes && p->arena_bytes <= p->naive_bytes);
}

static void graph_places_are_apart(void **state) {
    struct rig *r = rig_open(true, true);
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct ingot_planner p = {.ctx = r->ctx};
        int n = rig_below(r, 80), steps = 1 + rig_below(r, 60);
        for (int i = 0; i < n; i++) {
            int b = ingot_block_new(&p, (size_t)rig_below(r, 1 << (1 + rig_below(r, 16))), NULL);
            assert_int_equal(b, i);
            p.blocks[b].first = rig_below(r, steps);
            p.blocks[b].last = p.blocks[b].first + rig_below(r, 1 + rig_below(r, steps));
        }
        CHECK_OK(ingot_place_blocks(&p));
        check_places(&p);
        ingot_free(r->ctx, INGOT_MEMORY_HOST, p.blocks);
    }
    rig_close(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(graph_places_are_apart),
        CHECK_TEST(graph_random_plain),
        CHECK_TEST(graph_random_fused),
        CHECK_TEST(graph_random_replayed),
    };
    return check_main("graph_random", tests, sizeof tests / sizeof tests[0]);
}
