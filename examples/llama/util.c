// SPDX-License-Identifier: MIT
//
// Error texts, growable buffers and checked allocation for the demo; contracts are in util.h.
#include "util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool err_set(struct err *err, const char *fmt, ...) {
    if (!err) return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return false;
}

bool err_in(struct err *err, const char *fmt, ...) {
    if (!err) return false;
    struct err old = *err;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    for (const char *p = ": "; *p && n + 1 < sizeof err->text; p++) err->text[n++] = *p;
    for (const char *p = old.text; *p && n + 1 < sizeof err->text; p++) err->text[n++] = *p;
    err->text[n] = 0;
    return false;
}

const char *quoted(char buf[QUOTED_BYTES], const char *s, uint64_t n) {
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    buf[at++] = '"';
    for (uint64_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        // Room for one \xNN, the dots, the quote and the end.
        if (at + 4 + 3 + 2 > QUOTED_BYTES) {
            memcpy(buf + at, "...", 3);
            at += 3;
            break;
        }
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            buf[at++] = (char)c;
        } else {
            buf[at++] = '\\';
            buf[at++] = 'x';
            buf[at++] = hex[c >> 4];
            buf[at++] = hex[c & 15];
        }
    }
    buf[at++] = '"';
    buf[at] = 0;
    return buf;
}

// Makes room for n more elements of `size` bytes in an array that has `used` of `*cap`.
static bool grow(void **p, size_t used, size_t *cap, size_t n, size_t size, struct err *err) {
    if (n <= *cap - used) return true;
    uint64_t want, total;
    if (!add_u64(used, n, &want) || !mul_u64(want, 2, &want) || !mul_u64(want, size, &total) || total > SIZE_MAX)
        return err_set(err, "out of memory: a buffer of %zu + %zu elements", used, n);
    void *q = realloc(*p, (size_t)total);
    if (!q) return err_set(err, "out of memory: %llu bytes", (unsigned long long)total);
    *p = q;
    *cap = (size_t)want;
    return true;
}

bool bytes_add(struct bytes *b, const void *p, size_t n, struct err *err) {
    if (n == 0) return true;
    void *q = b->p;
    if (!grow(&q, b->n, &b->cap, n, 1, err)) return false;
    b->p = q;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}

void bytes_free(struct bytes *b) {
    free(b->p);
    *b = (struct bytes){0};
}

bool ids_add(struct ids *b, int32_t id, struct err *err) {
    void *q = b->p;
    if (!grow(&q, b->n, &b->cap, 1, sizeof id, err)) return false;
    b->p = q;
    b->p[b->n++] = id;
    return true;
}

void ids_free(struct ids *b) {
    free(b->p);
    *b = (struct ids){0};
}

void *new_array(uint64_t n, uint64_t size, const char *what, struct err *err) {
    uint64_t total;
    void *p = NULL;
    if (mul_u64(n, size, &total) && total < SIZE_MAX) p = calloc(total ? (size_t)total : 1, 1);
    if (!p)
        err_set(err, "out of memory: %llu x %llu bytes for %s", (unsigned long long)n, (unsigned long long)size, what);
    return p;
}
