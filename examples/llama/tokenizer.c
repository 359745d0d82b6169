// SPDX-License-Identifier: MIT
//
// The part that both vocabulary models share: special tokens are cut out of the text first, what
// lies between goes to bpe.c or spm.c. Contracts are in tokenizer.h.
#include "tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bpe.h"
#include "spm.h"

struct special {
    struct gguf_str text;
    int32_t id;
    bool control;
};

struct tokenizer {
    struct vocab vocab;
    bool is_spm;
    struct bpe bpe;
    struct spm spm;
    struct merger merger;
    int32_t bos, eos, eot, unknown; // -1: none
    bool add_bos, add_space_prefix;
    struct special *specials; // by first byte, then longest first
    size_t n_specials, bucket[257];
};

static const char *const end_names[] = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "<end_of_turn>", "</s>",
};

static bool load_id(const struct tokenizer *t, const struct gguf *g, const char *key, int32_t *out, struct err *err) {
    uint64_t v = UINT64_MAX;
    // Some files write -1, as 32 bits, where there is no such token.
    if (!gguf_get_uint(g, key, GGUF_OPTIONAL, UINT32_MAX, &v, err)) return false;
    *out = -1;
    if (v == UINT64_MAX || v == UINT32_MAX) return true;
    if (v >= (uint64_t)t->vocab.n)
        return err_set(err, "key \"%s\" is %" PRIu64 ", expected a token, 0 to %" PRId32, key, v, t->vocab.n - 1);
    *out = (int32_t)v;
    return true;
}

static int compare_specials(const void *pa, const void *pb) {
    const struct special *a = pa, *b = pb;
    unsigned char ca = (unsigned char)a->text.s[0], cb = (unsigned char)b->text.s[0];
    if (ca != cb) return ca < cb ? -1 : 1;
    if (a->text.n != b->text.n) return a->text.n > b->text.n ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool load_specials(struct tokenizer *t, struct err *err) {
    const struct vocab *v = &t->vocab;
    for (int pass = 0; pass < 2; pass++) {
        t->n_specials = 0;
        for (int32_t id = 0; id < v->n; id++) {
            bool control = v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_UNKNOWN;
            if (v->text[id].n == 0 || !(control || v->type[id] == TOKEN_USER)) continue;
            if (pass) t->specials[t->n_specials] = (struct special){v->text[id], id, control};
            t->n_specials++;
        }
        if (!pass && !(t->specials = new_array(t->n_specials, sizeof *t->specials, "the special tokens", err)))
            return false;
    }
    qsort(t->specials, t->n_specials, sizeof *t->specials, compare_specials);
    for (size_t c = 0, at = 0; c <= 256; c++) {
        t->bucket[c] = at;
        while (at < t->n_specials && (unsigned char)t->specials[at].text.s[0] == c) at++;
    }
    return true;
}

static bool load(struct tokenizer *t, const struct gguf *g, struct err *err) {
    char q[QUOTED_BYTES];
    struct gguf_str model;
    if (!gguf_get_str(g, "tokenizer.ggml.model", GGUF_REQUIRED, &model, err)) return false;
    t->is_spm = gguf_str_is(model, "llama");
    if (!t->is_spm && !gguf_str_is(model, "gpt2"))
        return err_set(err, "tokenizer model %s is not supported, expected \"gpt2\" or \"llama\"",
                       quoted(q, model.s, model.n));
    if (!vocab_load(&t->vocab, g, err) || !load_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, err) ||
        !load_id(t, g, "tokenizer.ggml.eos_token_id", &t->eos, err) ||
        !load_id(t, g, "tokenizer.ggml.eot_token_id", &t->eot, err) ||
        !load_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unknown, err))
        return false;
    if (!(t->is_spm ? spm_load(&t->spm, &t->vocab, t->unknown, err) : bpe_load(&t->bpe, &t->vocab, g, err)))
        return false;
    // Where the file is silent: SentencePiece and llama-bpe vocabularies were trained with bos.
    t->add_bos = t->is_spm || pre_takes_whole(t->bpe.pre);
    t->add_space_prefix = t->is_spm;
    if (!gguf_get_bool(g, "tokenizer.ggml.add_bos_token", GGUF_OPTIONAL, &t->add_bos, err) ||
        !gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", GGUF_OPTIONAL, &t->add_space_prefix, err))
        return false;
    if (t->add_bos && t->bos < 0)
        return err_set(err, "the vocabulary asks for a bos token, but tokenizer.ggml.bos_token_id is "
                            "missing");
    return load_specials(t, err);
}

struct tokenizer *tok_create(const struct gguf *g, struct err *err) {
    struct tokenizer *t = new_array(1, sizeof *t, "the tokenizer", err);
    if (t && !load(t, g, err)) {
        tok_free(t);
        t = NULL;
    }
    return t;
}

void tok_free(struct tokenizer *t) {
    if (!t) return;
    vocab_free(&t->vocab);
    bpe_free(&t->bpe);
    merge_free(&t->merger);
    free(t->specials);
    free(t);
}

int32_t tok_count(const struct tokenizer *t) {
    return t->vocab.n;
}

int32_t tok_find(const struct tokenizer *t, const char *text) {
    return vocab_find(&t->vocab, text, strlen(text));
}

bool tok_is_end(const struct tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocab.n) return false;
    if (id == t->eos || id == t->eot) return true;
    if (t->vocab.type[id] != TOKEN_CONTROL) return false;
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
        if (gguf_str_is(t->vocab.text[id], end_names[i])) return true;
    return false;
}

// The longest special token at the start of s[0..n), or NULL.
static const struct special *special_at(const struct tokenizer *t, const char *s, size_t n, unsigned flags) {
    size_t c = (unsigned char)s[0];
    for (size_t i = t->bucket[c]; i < t->bucket[c + 1]; i++) {
        const struct special *p = &t->specials[i];
        if (p->text.n <= n && (!p->control || (flags & TOK_SPECIAL)) && memcmp(p->text.s, s, p->text.n) == 0) return p;
    }
    return NULL;
}

bool tok_encode(struct tokenizer *t, const char *s, size_t n, unsigned flags, struct ids *out, size_t *dropped,
                struct err *err) {
    size_t lost = 0, from = 0, at = 0;
    bool prefix = t->add_space_prefix;
    if (dropped) *dropped = 0;
    if ((flags & TOK_BOS) && t->add_bos && !ids_add(out, t->bos, err)) return false;
    for (;;) {
        const struct special *p = at < n ? special_at(t, s + at, n - at, flags) : NULL;
        if (at < n && !p) {
            at++;
            continue;
        }
        // The text before the special token, or before the end.
        if (at > from &&
            !(t->is_spm ? spm_encode(&t->spm, &t->vocab, &t->merger, s + from, at - from, prefix, out, &lost, err)
                        : bpe_encode(&t->bpe, &t->vocab, &t->merger, s + from, at - from, out, &lost, err)))
            return false;
        if (!p) break;
        if (!ids_add(out, p->id, err)) return false;
        from = at += p->text.n;
    }
    if (dropped) *dropped = lost;
    return true;
}

bool tok_decode(const struct tokenizer *t, int32_t id, unsigned flags, struct bytes *out, struct err *err) {
    if (id < 0 || id >= t->vocab.n)
        return err_set(err, "token %" PRId32 ", expected 0 to %" PRId32, id, t->vocab.n - 1);
    struct gguf_str text = t->vocab.text[id];
    switch (t->vocab.type[id]) {
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
        return !(flags & TOK_SPECIAL) || bytes_add(out, text.s, text.n, err);
    case TOKEN_USER:
        return bytes_add(out, text.s, text.n, err);
    default:
        return t->is_spm ? spm_decode(&t->spm, &t->vocab, id, out, err) : bpe_decode(text, out, err);
    }
}
