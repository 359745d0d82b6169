// SPDX-License-Identifier: MIT
//
// The merge loop; contracts are in merge.h. A pair in the heap is stale when one of its symbols
// has grown or gone since it was pushed, which their lengths tell: they only grow, or become 0.
#include "merge.h"

#include <stdlib.h>

struct merge_pair {
    double key;
    int64_t left, right;
    size_t left_len, right_len;
    int32_t id;
};

void merge_reset(struct merger *m) {
    m->n = 0;
    m->heap_n = 0;
}

void merge_free(struct merger *m) {
    free(m->sym);
    free(m->heap);
    *m = (struct merger){0};
}

// Makes room for one more element of `size` bytes.
static bool room(void **p, size_t n, size_t *cap, size_t size, struct err *err) {
    if (n < *cap) return true;
    size_t want = *cap ? 2 * *cap : 64;
    void *q = want <= SIZE_MAX / size ? realloc(*p, want * size) : NULL;
    if (!q) return err_set(err, "out of memory: %zu symbols of text", want);
    *p = q;
    *cap = want;
    return true;
}

bool merge_add(struct merger *m, const char *s, size_t len, int32_t id, struct err *err) {
    void *p = m->sym;
    if (!room(&p, m->n, &m->cap, sizeof *m->sym, err)) return false;
    m->sym = p;
    m->sym[m->n] = (struct symbol){s, len, id, (int64_t)m->n - 1, -1};
    if (m->n) m->sym[m->n - 1].next = (int64_t)m->n;
    m->n++;
    return true;
}

static bool before(const struct merge_pair *a, const struct merge_pair *b) {
    return a->key < b->key || (a->key == b->key && a->left < b->left);
}

static bool push(struct merger *m, struct merge_pair pair, struct err *err) {
    void *p = m->heap;
    if (!room(&p, m->heap_n, &m->heap_cap, sizeof *m->heap, err)) return false;
    m->heap = p;
    size_t i = m->heap_n++;
    for (; i > 0 && before(&pair, &m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = pair;
    return true;
}

static struct merge_pair pop(struct merger *m) {
    struct merge_pair top = m->heap[0], last = m->heap[--m->heap_n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->heap_n; i = child) {
        if (child + 1 < m->heap_n && before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!before(&m->heap[child], &last)) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

// Pushes the pair (left, its right neighbour) if both exist and may be joined.
static bool consider(struct merger *m, int64_t left, merge_lookup lookup, void *arg, struct err *err) {
    if (left < 0 || m->sym[left].next < 0) return true;
    const struct symbol *a = &m->sym[left], *b = &m->sym[a->next];
    struct merge_pair pair = {0, left, a->next, a->len, b->len, -1};
    return !lookup(arg, a, b, &pair.key, &pair.id) || push(m, pair, err);
}

bool merge_run(struct merger *m, merge_lookup lookup, void *arg, struct err *err) {
    for (size_t i = 0; i + 1 < m->n; i++)
        if (!consider(m, (int64_t)i, lookup, arg, err)) return false;
    while (m->heap_n) {
        struct merge_pair pair = pop(m);
        struct symbol *a = &m->sym[pair.left], *b = &m->sym[pair.right];
        if (a->len != pair.left_len || b->len != pair.right_len) continue;
        a->len += b->len;
        a->id = pair.id;
        a->next = b->next;
        b->len = 0;
        if (a->next >= 0) m->sym[a->next].prev = pair.left;
        if (!consider(m, a->prev, lookup, arg, err) || !consider(m, pair.left, lookup, arg, err)) return false;
    }
    return true;
}
