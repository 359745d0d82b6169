// SPDX-License-Identifier: MIT
/* overlap.c - whether strided tensors share bytes.  Views of one parent often interleave (the Q and K parts of a merged
 * QKV tensor), so comparing address ranges alone would refuse legal calls.
 *
 * A tensor is seen as nested runs: `width` contiguous bytes, repeated n[0] times at stride[0], that repeated n[1] times
 * at stride[1], and so on, strides growing.  Two of them are compared from the outside in, skipping all pairs of slices
 * whose ranges are disjoint. */
#include "rules.h"

struct runs {
    uintptr_t at;
    uint64_t  width;
    int       levels;
    int64_t   n[4];
    uint64_t  stride[4];
};

enum { SEARCH_STEPS = 4096 }; /* pairs of slices looked at before "they overlap" is assumed */

/* The runs of a non-empty tensor.  Dimensions that repeat the same memory are dropped, dense ones merged. */
static struct runs runs_of(const ingot_tensor *t)
{
    struct runs r = {(uintptr_t)t->data, ingot_type_size(t->type), 0, {0}, {0}};
    int         count = 0;

    for (int i = 0; i < 4; i++) { /* insertion sort by stride */
        int64_t n = i == 0 ? t->ne[0] / ingot_type_block(t->type) : t->ne[i];
        int     j;
        if (n <= 1 || t->nb[i] == 0) continue;
        for (j = count++; j > 0 && r.stride[j - 1] > t->nb[i]; j--) {
            r.stride[j] = r.stride[j - 1];
            r.n[j] = r.n[j - 1];
        }
        r.stride[j] = t->nb[i];
        r.n[j] = n;
    }
    for (int i = 0; i < count; i++) {
        if (r.levels == 0 && r.stride[i] == r.width) {
            r.width *= (uint64_t)r.n[i];
        } else if (r.levels > 0 && r.stride[i] == r.stride[r.levels - 1] * (uint64_t)r.n[r.levels - 1]) {
            r.n[r.levels - 1] *= r.n[i];
        } else {
            r.stride[r.levels] = r.stride[i];
            r.n[r.levels++] = r.n[i];
        }
    }
    return r;
}

static uint64_t extent(const struct runs *r)
{
    uint64_t bytes = r->width;

    for (int i = 0; i < r->levels; i++) bytes += (uint64_t)(r->n[i] - 1) * r->stride[i];
    return bytes;
}

static bool ranges_meet(const struct runs *a, const struct runs *b)
{
    return a->at < b->at + extent(b) && b->at < a->at + extent(a);
}

/* Takes the outermost level off `r`; gives its count and stride. */
static int64_t peel(struct runs *r, uint64_t *stride)
{
    r->levels--;
    *stride = r->stride[r->levels];
    return r->n[r->levels];
}

static bool search(struct runs a, struct runs b, int *steps);

/* Both have the same outer stride: only the distance between the two slices matters. */
static bool search_pairs(struct runs a, struct runs b, int *steps)
{
    uint64_t  stride;
    int64_t   na = peel(&a, &stride), nb = peel(&b, &stride);
    uintptr_t a0 = a.at, b0 = b.at;
    uint64_t  b_extent = extent(&b), a_extent = extent(&a);
    int64_t   first = -(nb - 1), last = na - 1;

    /* slice i of a against slice j of b, d = i - j: a0 + d*stride must lie in (b0 - a_extent, b0 + b_extent) */
    int64_t gap = (int64_t)(b0 - a0);
    int64_t low = (gap - (int64_t)a_extent) / (int64_t)stride - 1;
    int64_t high = (gap + (int64_t)b_extent) / (int64_t)stride + 1;
    if (first < low) first = low;
    if (last > high) last = high;
    for (int64_t d = first; d <= last; d++) {
        a.at = a0;
        b.at = b0;
        if (d >= 0) a.at += (uint64_t)d * stride; else b.at += (uint64_t)-d * stride;
        if (ranges_meet(&a, &b) && search(a, b, steps)) return true;
    }
    return false;
}

static bool search(struct runs a, struct runs b, int *steps)
{
    uint64_t  stride;
    int64_t   n;
    uintptr_t start;

    if (++*steps > SEARCH_STEPS) return true;
    if (a.levels == 0 && b.levels == 0) return true; /* the caller saw that the ranges meet */
    if (a.levels > 0 && b.levels > 0 && a.stride[a.levels - 1] == b.stride[b.levels - 1])
        return search_pairs(a, b, steps);
    if (a.levels == 0 || (b.levels > 0 && b.stride[b.levels - 1] > a.stride[a.levels - 1])) {
        struct runs t = a;
        a = b;
        b = t;
    }
    n = peel(&a, &stride);
    start = a.at;
    int64_t first = b.at > start + extent(&a) ? (int64_t)((b.at - start - extent(&a)) / stride) : 0;
    for (int64_t i = first; i < n; i++) {
        a.at = start + (uint64_t)i * stride;
        if (a.at >= b.at + extent(&b)) break;
        if (++*steps > SEARCH_STEPS) return true;
        if (ranges_meet(&a, &b) && search(a, b, steps)) return true;
    }
    return false;
}

bool ingot_tensors_overlap(const ingot_tensor *a, const ingot_tensor *b)
{
    struct runs ra, rb;
    int         steps = 0;

    if (ingot_is_empty(a) || ingot_is_empty(b)) return false;
    ra = runs_of(a);
    rb = runs_of(b);
    return ranges_meet(&ra, &rb) && search(ra, rb, &steps);
}

bool ingot_tensors_equal(const ingot_tensor *a, const ingot_tensor *b)
{
    if (a->data != b->data || a->type != b->type) return false;
    for (int i = 0; i < 4; i++)
        if (a->ne[i] != b->ne[i] || (a->ne[i] > 1 && a->nb[i] != b->nb[i])) return false;
    return true;
}

bool ingot_tensor_is_injective(const ingot_tensor *t)
{
    struct runs r;
    uint64_t    inner;

    if (ingot_is_empty(t)) return true;
    for (int i = 0; i < 4; i++)
        if ((i == 0 ? t->ne[0] / ingot_type_block(t->type) : t->ne[i]) > 1 && t->nb[i] == 0) return false;
    r = runs_of(t);
    inner = r.width;
    for (int i = 0; i < r.levels; i++) {
        if (r.stride[i] < inner) return false;
        inner += (uint64_t)(r.n[i] - 1) * r.stride[i];
    }
    return true;
}
