// SPDX-License-Identifier: MIT
//
// The merge loop that byte-pair and SentencePiece vocabularies share: a row of symbols, of which
// the best adjacent pair is joined until no pair can be. A heap of candidate pairs makes it
// O(n log n), so a megabyte without a space is no trap.
#ifndef LLAMA_MERGE_H
#define LLAMA_MERGE_H

#include "util.h"

// A run of the text. id is its token, -1 when it is none. len 0 marks a symbol that was joined to
// the one on its left.
struct symbol {
    const char *s;
    size_t len;
    int32_t id;
    int64_t prev, next; // indices, -1 at the ends
};

// Whether a and its right neighbour b may be joined; *key (lower is better) and *id tell how.
typedef bool (*merge_lookup)(void *arg, const struct symbol *a, const struct symbol *b, double *key, int32_t *id);

// A row of symbols and the heap, kept between calls to spare allocations. All zero is empty.
struct merger {
    struct symbol *sym;
    size_t n, cap;
    struct merge_pair *heap;
    size_t heap_n, heap_cap;
};

// Empties the row (keeping memory).
void merge_reset(struct merger *m);

// Appends a symbol; those of one row must be adjacent in order, but gaps between them are legal.
bool merge_add(struct merger *m, const char *s, size_t len, int32_t id, struct err *err);

// Joins pairs until none is left: best key first, of equal keys the leftmost. The result is the
// chain from sym[0] along next (nothing when n is 0); a joined symbol's len is the sum of both.
bool merge_run(struct merger *m, merge_lookup lookup, void *arg, struct err *err);

void merge_free(struct merger *m);

#endif
