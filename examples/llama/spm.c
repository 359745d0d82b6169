// SPDX-License-Identifier: MIT
//
// SentencePiece-style encoding; contracts are in spm.h.
#include "spm.h"

#include <stdio.h>
#include <string.h>

#include "unicode.h"

static const char space_mark[] = "\xe2\x96\x81"; // U+2581
enum { SPACE_MARK_BYTES = 3 };

bool spm_load(struct spm *p, const struct vocab *v, int32_t unknown, struct err *err) {
    if (!v->score) return err_set(err, "key \"tokenizer.ggml.scores\" is missing, expected one score a token");
    p->unknown = unknown;
    for (unsigned i = 0; i < 256; i++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", i);
        p->byte_id[i] = vocab_find(v, text, (uint64_t)n);
    }
    return true;
}

static bool lookup(void *arg, const struct symbol *a, const struct symbol *b, double *key, int32_t *id) {
    const struct vocab *v = arg;
    *id = vocab_find(v, a->s, a->len + b->len);
    if (*id < 0 || v->type[*id] == TOKEN_CONTROL || v->type[*id] == TOKEN_UNKNOWN) return false;
    *key = -(double)v->score[*id];
    return true;
}

// Appends a symbol of the final row: its token, or a token for each byte.
static bool emit(const struct spm *p, const struct symbol *sym, struct ids *out, size_t *dropped, struct err *err) {
    if (sym->id >= 0) return ids_add(out, sym->id, err);
    for (size_t i = 0; i < sym->len; i++) {
        int32_t id = p->byte_id[(unsigned char)sym->s[i]];
        if (id < 0) id = p->unknown;
        if (id < 0) ++*dropped;
        else if (!ids_add(out, id, err)) return false;
    }
    return true;
}

bool spm_encode(const struct spm *p, const struct vocab *v, struct merger *m, const char *s, size_t n, bool prefix,
                struct ids *out, size_t *dropped, struct err *err) {
    struct bytes text = {0};
    bool ok = !prefix || bytes_add(&text, space_mark, SPACE_MARK_BYTES, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = s[i] == ' ' ? bytes_add(&text, space_mark, SPACE_MARK_BYTES, err) : bytes_add(&text, s + i, 1, err);
    merge_reset(m);
    for (size_t at = 0, len; ok && at < text.n; at += len) {
        uint32_t cp;
        len = utf8_decode(text.p + at, text.n - at, &cp);
        int32_t id = vocab_find(v, text.p + at, len);
        if (id >= 0 && (v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_UNKNOWN)) id = -1;
        ok = merge_add(m, text.p + at, len, id, err);
    }
    ok = ok && merge_run(m, lookup, (void *)(uintptr_t)v, err);
    for (int64_t i = ok && m->n ? 0 : -1; ok && i >= 0; i = m->sym[i].next) ok = emit(p, &m->sym[i], out, dropped, err);
    bytes_free(&text);
    return ok;
}

bool spm_decode(const struct spm *p, const struct vocab *v, int32_t id, struct bytes *out, struct err *err) {
    struct gguf_str text = v->text[id];
    if (v->type[id] == TOKEN_BYTE)
        for (int i = 0; i < 256; i++)
            if (p->byte_id[i] == id) {
                char c = (char)i;
                return bytes_add(out, &c, 1, err);
            }
    for (uint64_t at = 0; at < text.n;) {
        bool space = text.n - at >= SPACE_MARK_BYTES && memcmp(text.s + at, space_mark, SPACE_MARK_BYTES) == 0;
        if (!bytes_add(out, space ? " " : text.s + at, 1, err)) return false;
        at += space ? SPACE_MARK_BYTES : 1;
    }
    return true;
}
