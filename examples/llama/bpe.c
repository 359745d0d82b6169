// SPDX-License-Identifier: MIT
//
// Byte-level BPE over the file's own vocabulary and merges; contracts are in bpe.h.
#include "bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "unicode.h"

enum { FIRST_STAND_IN = 256, N_STAND_INS = 68 }; // 256 bytes less 94 + 12 + 82 printable ones

static bool stands_for_itself(uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

// The code point that stands for each byte.
static void byte_letters(uint32_t letter[256]) {
    uint32_t next = FIRST_STAND_IN;
    for (uint32_t b = 0; b < 256; b++) letter[b] = stands_for_itself(b) ? b : next++;
}

// The byte that a code point stands for, or -1.
static int letter_byte(uint32_t cp) {
    if (cp < 256) return stands_for_itself(cp) ? (int)cp : -1;
    if (cp >= FIRST_STAND_IN + N_STAND_INS) return -1;
    uint32_t letter[256];
    byte_letters(letter);
    for (int b = 0; b < 256; b++)
        if (letter[b] == cp) return b;
    return -1;
}

static struct bpe_merge *merge_slot(const struct bpe *b, uint64_t pair) {
    uint64_t at = hash_u64(pair) & b->mask;
    while (b->merges[at].rank >= 0 && b->merges[at].pair != pair) at = (at + 1) & b->mask;
    return &b->merges[at];
}

// Adds the merge "left right" with this rank. `joined` is scratch for the text of both.
static bool add_merge(struct bpe *b, const struct vocab *v, struct gguf_str text, int32_t rank, struct bytes *joined,
                      struct err *err) {
    char q[QUOTED_BYTES];
    const char *space = text.n > 2 ? memchr(text.s + 1, ' ', text.n - 2) : NULL;
    if (!space)
        return err_set(err,
                       "tokenizer.ggml.merges entry %" PRId32 " is %s, expected two texts "
                       "with a space between",
                       rank, quoted(q, text.s, text.n));
    uint64_t left_n = (uint64_t)(space - text.s), right_n = text.n - left_n - 1;
    joined->n = 0;
    if (!bytes_add(joined, text.s, left_n, err) || !bytes_add(joined, space + 1, right_n, err)) return false;
    int32_t left = vocab_find(v, text.s, left_n), right = vocab_find(v, space + 1, right_n);
    int32_t id = vocab_find(v, joined->p, joined->n);
    if (left < 0 || right < 0 || id < 0)
        return err_set(err, "tokenizer.ggml.merges entry %" PRId32 ", %s: %s is no token", rank,
                       quoted(q, text.s, text.n),
                       left < 0    ? "the left part"
                       : right < 0 ? "the right part"
                                   : "the whole");
    uint64_t pair = (uint64_t)left << 32 | (uint64_t)right;
    struct bpe_merge *slot = merge_slot(b, pair);
    if (slot->rank < 0) *slot = (struct bpe_merge){pair, rank, id};
    return true;
}

static bool load_merges(struct bpe *b, const struct vocab *v, const struct gguf *g, struct err *err) {
    struct gguf_array a;
    struct bytes joined = {0};
    bool ok = false;
    if (!gguf_get_array(g, "tokenizer.ggml.merges", GGUF_REQUIRED, GGUF_STRING, &a, err)) return false;
    if (a.count > INT32_MAX / 4)
        return err_set(err, "tokenizer.ggml.merges has %" PRIu64 " entries, expected at most %d", a.count,
                       INT32_MAX / 4);
    uint64_t slots = 4;
    while (slots < 2 * a.count) slots *= 2;
    b->mask = slots - 1;
    b->merges = new_array(slots, sizeof *b->merges, "the merges", err);
    if (!b->merges) goto done;
    for (uint64_t i = 0; i < slots; i++) b->merges[i].rank = -1;
    const unsigned char *at = a.data;
    for (int32_t i = 0; i < (int32_t)a.count; i++)
        if (!add_merge(b, v, gguf_next_str(&at), i, &joined, err)) goto done;
    ok = true;
done:
    bytes_free(&joined);
    return ok;
}

bool bpe_load(struct bpe *b, const struct vocab *v, const struct gguf *g, struct err *err) {
    char q[QUOTED_BYTES], text[4];
    struct gguf_str pre = {"default", 7};
    uint32_t letter[256];
    *b = (struct bpe){0};
    if (!gguf_get_str(g, "tokenizer.ggml.pre", GGUF_OPTIONAL, &pre, err)) return false;
    b->pre = pre_find(pre.s, pre.n);
    if (!b->pre)
        return err_set(err, "pre-tokeniser %s is not supported, expected one of %s", quoted(q, pre.s, pre.n),
                       pre_names());
    byte_letters(letter);
    for (int i = 0; i < 256; i++) b->byte_id[i] = vocab_find(v, text, utf8_encode(letter[i], text));
    if (load_merges(b, v, g, err)) return true;
    bpe_free(b);
    return false;
}

void bpe_free(struct bpe *b) {
    free(b->merges);
    *b = (struct bpe){0};
}

// What encoding one piece needs, as the sink of pre_split gets one pointer.
struct encode {
    const struct bpe *bpe;
    const struct vocab *vocab;
    struct merger *m;
    struct ids *out;
    struct bytes letters; // scratch
    size_t *dropped;
    struct err *err;
};

static bool lookup(void *arg, const struct symbol *a, const struct symbol *b, double *key, int32_t *id) {
    const struct encode *e = arg;
    const struct bpe_merge *m = merge_slot(e->bpe, (uint64_t)(uint32_t)a->id << 32 | (uint32_t)b->id);
    *key = m->rank;
    *id = m->id;
    return m->rank >= 0;
}

// *id = the token that is the whole piece, or -1.
static bool whole_piece(struct encode *e, const char *s, size_t n, int32_t *id) {
    uint32_t letter[256];
    byte_letters(letter);
    e->letters.n = 0;
    for (size_t i = 0; i < n; i++) {
        char text[4];
        size_t len = utf8_encode(letter[(unsigned char)s[i]], text);
        if (!bytes_add(&e->letters, text, len, e->err)) return false;
    }
    *id = vocab_find(e->vocab, e->letters.p, e->letters.n);
    return true;
}

static bool encode_piece(void *arg, const char *s, size_t n) {
    struct encode *e = arg;
    if (pre_takes_whole(e->bpe->pre)) {
        int32_t id;
        if (!whole_piece(e, s, n, &id)) return false;
        if (id >= 0) return ids_add(e->out, id, e->err);
    }
    merge_reset(e->m);
    for (size_t i = 0; i < n; i++) {
        int32_t id = e->bpe->byte_id[(unsigned char)s[i]];
        if (id < 0) ++*e->dropped;
        else if (!merge_add(e->m, s + i, 1, id, e->err)) return false;
    }
    if (!merge_run(e->m, lookup, e, e->err)) return false;
    for (int64_t i = e->m->n ? 0 : -1; i >= 0; i = e->m->sym[i].next)
        if (!ids_add(e->out, e->m->sym[i].id, e->err)) return false;
    return true;
}

bool bpe_encode(const struct bpe *b, const struct vocab *v, struct merger *m, const char *s, size_t n, struct ids *out,
                size_t *dropped, struct err *err) {
    struct encode e = {b, v, m, out, {0}, dropped, err};
    bool ok = pre_split(b->pre, s, n, encode_piece, &e);
    bytes_free(&e.letters);
    return ok;
}

bool bpe_decode(struct gguf_str text, struct bytes *out, struct err *err) {
    for (uint64_t at = 0; at < text.n;) {
        uint32_t cp;
        size_t len = utf8_decode(text.s + at, text.n - at, &cp);
        int byte = letter_byte(cp);
        char c = (char)byte;
        // A letter outside the alphabet can only be meant as it is.
        if (!bytes_add(out, byte < 0 ? text.s + at : &c, byte < 0 ? len : 1, err)) return false;
        at += len;
    }
    return true;
}
