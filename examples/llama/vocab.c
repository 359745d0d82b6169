// SPDX-License-Identifier: MIT
//
// Loading of the token table and its hash index; contracts are in vocab.h.
#include "vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t hash_u64(uint64_t x) {
    x ^= x >> 32;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

uint64_t hash_bytes(const char *s, uint64_t n) {
    uint64_t h = n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = hash_u64(h ^ w);
    }
    uint64_t tail = 0;
    memcpy(&tail, s, n);
    return hash_u64(h ^ tail);
}

// The slot that holds this text, or the free one where it belongs.
static uint64_t find_slot(const struct vocab *v, const char *s, uint64_t n) {
    uint64_t at = hash_bytes(s, n) & v->mask;
    for (; v->slot[at] >= 0; at = (at + 1) & v->mask) {
        struct gguf_str t = v->text[v->slot[at]];
        if (t.n == n && memcmp(t.s, s, n) == 0) break;
    }
    return at;
}

int32_t vocab_find(const struct vocab *v, const char *s, uint64_t n) {
    return v->slot[find_slot(v, s, n)];
}

static bool load_texts(struct vocab *v, const struct gguf *g, struct err *err) {
    struct gguf_array a;
    if (!gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_REQUIRED, GGUF_STRING, &a, err)) return false;
    if (a.count < 1 || a.count > INT32_MAX / 4)
        return err_set(err, "tokenizer.ggml.tokens has %" PRIu64 " entries, expected 1 to %d", a.count, INT32_MAX / 4);
    v->n = (int32_t)a.count;
    // At most half full.
    uint64_t slots = 4;
    while (slots < 2 * a.count) slots *= 2;
    v->mask = slots - 1;
    v->text = new_array(a.count, sizeof *v->text, "the vocabulary", err);
    v->type = new_array(a.count, sizeof *v->type, "the vocabulary", err);
    v->slot = new_array(slots, sizeof *v->slot, "the vocabulary", err);
    if (!v->text || !v->type || !v->slot) return false;
    memset(v->slot, 0xff, slots * sizeof *v->slot);
    const unsigned char *at = a.data;
    for (int32_t i = 0; i < v->n; i++) {
        v->text[i] = gguf_next_str(&at);
        v->type[i] = TOKEN_NORMAL;
        uint64_t slot = find_slot(v, v->text[i].s, v->text[i].n);
        if (v->slot[slot] < 0) v->slot[slot] = i;
    }
    return true;
}

static bool load_types(struct vocab *v, const struct gguf *g, struct err *err) {
    struct gguf_array a = {GGUF_I32, 0, NULL};
    if (!gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_OPTIONAL, GGUF_I32, &a, err)) return false;
    if (!a.data) return true;
    if (a.count != (uint64_t)v->n)
        return err_set(err,
                       "tokenizer.ggml.token_type has %" PRIu64 " entries, expected %" PRId32 ", one for each token",
                       a.count, v->n);
    for (int32_t i = 0; i < v->n; i++) {
        int32_t type;
        memcpy(&type, a.data + 4 * (size_t)i, 4);
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return err_set(err, "tokenizer.ggml.token_type of token %" PRId32 " is %" PRId32 ", expected %d to %d", i,
                           type, TOKEN_NORMAL, TOKEN_BYTE);
        v->type[i] = (uint8_t)type;
    }
    return true;
}

static bool load_scores(struct vocab *v, const struct gguf *g, struct err *err) {
    struct gguf_array a = {GGUF_F32, 0, NULL};
    if (!gguf_get_array(g, "tokenizer.ggml.scores", GGUF_OPTIONAL, GGUF_F32, &a, err)) return false;
    if (!a.data) return true;
    if (a.count != (uint64_t)v->n)
        return err_set(err, "tokenizer.ggml.scores has %" PRIu64 " entries, expected %" PRId32 ", one for each token",
                       a.count, v->n);
    v->score = new_array(a.count, sizeof *v->score, "the scores", err);
    if (!v->score) return false;
    memcpy(v->score, a.data, a.count * sizeof *v->score);
    for (int32_t i = 0; i < v->n; i++)
        if (isnan(v->score[i])) return err_set(err, "tokenizer.ggml.scores of token %" PRId32 " is NaN", i);
    return true;
}

bool vocab_load(struct vocab *v, const struct gguf *g, struct err *err) {
    *v = (struct vocab){0};
    if (load_texts(v, g, err) && load_types(v, g, err) && load_scores(v, g, err)) return true;
    vocab_free(v);
    return false;
}

void vocab_free(struct vocab *v) {
    free(v->text);
    free(v->type);
    free(v->score);
    free(v->slot);
    *v = (struct vocab){0};
}
