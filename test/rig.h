// SPDX-License-Identifier: MIT
/* rig.h - what the graph tests share: a context of its own with a counting allocator that can be told to fail, tensors
 * with random data, and reading results back.  Nothing here is shared between rigs, so each thread may have one. */
#ifndef INGOT_TEST_RIG_H
#define INGOT_TEST_RIG_H

#include "check.h"

#include "../src/graph/graph.h"

enum { RIG_BUFFERS = 4096 };

struct rig {
    ingot_context  *ctx;
    ingot_allocator below;      /* where the memory really comes from */
    long            live;       /* blocks taken and not given back */
    long            calls[3];   /* allocations of each kind so far */
    long            fail_in;    /* this many allocations succeed, then one fails; -1: none fails */
    uint64_t        random;
    ingot_buffer   *buffers[RIG_BUFFERS];
    int             buffer_count;
};

static inline void *rig_take(void *user, ingot_memory kind, size_t bytes)
{
    struct rig *r = user;
    r->calls[kind]++;
    if (r->fail_in >= 0 && r->fail_in-- == 0) return NULL;
    void *p = r->below.alloc(r->below.user, kind, bytes);
    r->live += p != NULL;
    return p;
}

static inline void rig_give(void *user, ingot_memory kind, void *p)
{
    struct rig *r = user;
    r->live--;
    r->below.free(r->below.user, kind, p);
}

/* For threads, where cmocka's assertions may not be used. */
#define RIG_MUST(condition)                                                                                            \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)
#define RIG_OK(r, call)                                                                                                \
    do {                                                                                                               \
        ingot_status rig_status = (call);                                                                              \
        if (rig_status != INGOT_OK) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, ingot_status_name(rig_status),                      \
                    ingot_error((r)->ctx));                                                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A context that fuses or not and replays or not. */
static inline struct rig *rig_open_on(bool fuse, bool graphs, uint64_t seed, struct CUstream_st *stream)
{
    struct rig *r = calloc(1, sizeof *r);
    RIG_MUST(r);
    r->below = ingot_default_allocator();
    r->fail_in = -1;
    r->random = seed;
    ingot_allocator       allocator = {rig_take, rig_give, r};
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    options.allocator = &allocator;
    options.stream = stream;
    RIG_OK(r, ingot_context_create(&options, &r->ctx));
    r->ctx->fuse = fuse; /* as INGOT_FUSE and INGOT_GRAPH would, without the process-wide environment */
    r->ctx->graphs = graphs;
    return r;
}

static inline struct rig *rig_open(bool fuse, bool graphs)
{
    return rig_open_on(fuse, graphs, check_random(), NULL);
}

/* Drops the tensors made so far. */
static inline void rig_clear(struct rig *r)
{
    while (r->buffer_count) ingot_buffer_destroy(r->buffers[--r->buffer_count]);
}

static inline void rig_close(struct rig *r)
{
    rig_clear(r);
    ingot_context_destroy(r->ctx);
    RIG_MUST(r->live == 0);
    free(r);
}

static inline uint64_t rig_random(struct rig *r)
{
    uint64_t z = r->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int rig_below(struct rig *r, int n)
{
    return (int)(rig_random(r) % (uint64_t)n);
}

static inline void rig_write(struct rig *r, const ingot_tensor *t, const void *from)
{
    RIG_OK(r, ingot_check_cuda(r->ctx, cudaMemcpyAsync(t->data, from, ingot_tensor_size(t), cudaMemcpyHostToDevice,
                                                       r->ctx->stream), "write"));
    RIG_OK(r, ingot_synchronize(r->ctx));
}

/* A copy of a tensor's bytes, to be freed. */
static inline unsigned char *rig_read(struct rig *r, const ingot_tensor *t)
{
    size_t         bytes = ingot_tensor_size(t);
    unsigned char *to = malloc(bytes ? bytes : 1);
    RIG_MUST(to);
    RIG_OK(r, ingot_check_cuda(r->ctx, cudaMemcpyAsync(to, t->data, bytes, cudaMemcpyDeviceToHost, r->ctx->stream),
                               "read"));
    RIG_OK(r, ingot_synchronize(r->ctx));
    return to;
}

static inline void rig_fill(struct rig *r, const ingot_tensor *t)
{
    size_t         bytes = ingot_tensor_size(t);
    unsigned char *data = malloc(bytes ? bytes : 1);
    RIG_MUST(data);
    for (size_t at = 0; at < bytes; at += ingot_type_size(t->type)) {
        float x = (float)((double)(rig_random(r) >> 11) * 0x1p-52 - 1);
        if (t->type == INGOT_TYPE_F32) {
            memcpy(data + at, &x, 4);
        } else if (t->type == INGOT_TYPE_F16) {
            uint16_t h = check_f32_to_f16(x);
            memcpy(data + at, &h, 2);
        } else if (t->type == INGOT_TYPE_Q4_0) { /* an f16 scale, 16 bytes of quants */
            uint16_t h = check_f32_to_f16(0.02f + 0.02f * x);
            memcpy(data + at, &h, 2);
            for (size_t i = 2; i < 18; i++) data[at + i] = (unsigned char)rig_random(r);
        } else {
            memset(data + at, 0, ingot_type_size(t->type));
        }
    }
    rig_write(r, t, data);
    free(data);
}

/* A contiguous tensor with its own memory and random data (zeros for integers). */
static inline ingot_tensor rig_tensor(struct rig *r, ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2,
                                      int64_t ne3)
{
    ingot_tensor t;
    RIG_MUST(r->buffer_count < RIG_BUFFERS);
    RIG_OK(r, ingot_tensor_init(&t, type, 4, (int64_t[]){ne0, ne1, ne2, ne3}, NULL));
    RIG_OK(r, ingot_buffer_create_for(r->ctx, &t, &r->buffers[r->buffer_count]));
    r->buffer_count++;
    if (ingot_tensor_size(&t)) rig_fill(r, &t);
    return t;
}

static inline ingot_tensor rig_i32(struct rig *r, int n, const int32_t *values)
{
    ingot_tensor t = rig_tensor(r, INGOT_TYPE_I32, n, 1, 1, 1);
    rig_write(r, &t, values);
    return t;
}

/* A second tensor with the same bytes in other memory. */
static inline ingot_tensor rig_twin(struct rig *r, const ingot_tensor *a)
{
    ingot_tensor   t = rig_tensor(r, a->type, a->ne[0], a->ne[1], a->ne[2], a->ne[3]);
    unsigned char *data = rig_read(r, a);
    rig_write(r, &t, data);
    free(data);
    return t;
}

static inline bool rig_equal(struct rig *r, const ingot_tensor *a, const ingot_tensor *b)
{
    unsigned char *x = rig_read(r, a), *y = rig_read(r, b);
    bool           same = ingot_tensor_size(a) == ingot_tensor_size(b) && !memcmp(x, y, ingot_tensor_size(a));
    free(x);
    free(y);
    return same;
}

static inline bool rig_same_info(const ingot_plan_info *a, const ingot_plan_info *b)
{
    return a->arena_bytes == b->arena_bytes && a->naive_bytes == b->naive_bytes && a->nodes == b->nodes &&
           a->launches == b->launches && a->fused == b->fused;
}

/* One op at once, into `dst`. */
static inline void rig_compute(struct rig *r, ingot_node node, ingot_tensor dst)
{
    node.dst = dst;
    RIG_OK(r, ingot_compute(r->ctx, &node));
}

#endif
