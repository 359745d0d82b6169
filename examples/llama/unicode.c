// SPDX-License-Identifier: MIT
//
// UTF-8 decoding and code point classes; the ranges come from unicode_table.inc, which
// unicode_table.py writes.
#include "unicode.h"

#include <string.h>

struct range {
    uint32_t first, last;
    uint8_t cls;
};

enum { L = UNICODE_LETTER, N = UNICODE_NUMBER, P = UNICODE_PUNCT, S = UNICODE_SPACE };
static const struct range ranges[] = {
#include "unicode_table.inc"
};

enum unicode_class unicode_class_of(uint32_t cp) {
    size_t lo = 0, hi = sizeof ranges / sizeof *ranges;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > ranges[mid].last) lo = mid + 1;
        else if (cp < ranges[mid].first) hi = mid;
        else return (enum unicode_class)ranges[mid].cls;
    }
    return UNICODE_OTHER;
}

// Length that the first byte announces, 0 when it can begin no sequence.
static size_t announced(unsigned char c) {
    return c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
}

// How many of the n bytes at s (at most what the first announces) can begin a well-formed
// sequence: the bounds of the second byte exclude over-long forms, surrogates and too large values.
static size_t valid_prefix(const unsigned char *s, size_t n) {
    size_t want = announced(s[0]), i;
    if (want < 2) return want;
    unsigned char lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    for (i = 1; i < want && i < n; i++) {
        if (s[i] < lo || s[i] > hi) break;
        lo = 0x80;
        hi = 0xbf;
    }
    return i;
}

size_t utf8_decode(const char *str, size_t n, uint32_t *cp) {
    const unsigned char *s = (const unsigned char *)str;
    size_t want = announced(s[0]);
    if (want == 0 || valid_prefix(s, n) < want) {
        *cp = UTF8_BAD;
        return 1;
    }
    *cp = want == 1 ? s[0] : s[0] & (0x7fu >> want);
    for (size_t i = 1; i < want; i++) *cp = *cp << 6 | (s[i] & 0x3f);
    return want;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    if (n == 1) {
        out[0] = (char)cp;
        return 1;
    }
    for (size_t i = n; i-- > 1; cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> n) | cp);
    return n;
}

static bool add_replacement(struct bytes *out, struct err *err) {
    return bytes_add(out, "\xef\xbf\xbd", 3, err);
}

bool utf8_push(struct utf8_stream *u, const char *s, size_t n, struct bytes *out, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        u->held[u->n++] = s[i];
        // At most two rounds: a byte that breaks a sequence may begin the next.
        while (u->n > 0) {
            const unsigned char *h = (const unsigned char *)u->held;
            size_t want = announced(h[0]), good = want ? valid_prefix(h, u->n) : 0, used;
            if (want && good == u->n && good < want) break;
            if (want && good == want) {
                if (!bytes_add(out, u->held, want, err)) return false;
                used = want;
            } else {
                if (!add_replacement(out, err)) return false;
                used = good ? good : 1;
            }
            memmove(u->held, u->held + used, u->n - used);
            u->n -= used;
        }
    }
    return true;
}

bool utf8_flush(struct utf8_stream *u, struct bytes *out, struct err *err) {
    bool held = u->n > 0;
    u->n = 0;
    return !held || add_replacement(out, err);
}
