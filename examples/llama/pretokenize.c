// SPDX-License-Identifier: MIT
//
// The pre-tokeniser rules. A rule is a sequence of stages; a stage gives the length of the next
// piece of a text (a match of its pattern or the gap before the next match), and each piece goes
// on to the next stage by itself, so a look-ahead at the end of a piece sees the end of the text.
#include "pretokenize.h"

#include <string.h>

#include "unicode.h"

// Length, 1 or more, of the first piece of s[0..n), n >= 1.
typedef size_t (*stage_fn)(const char *s, size_t n);

struct ch {
    uint32_t cp;
    size_t len; // 0 at the end of the text
    enum unicode_class cls;
};

static struct ch peek(const char *s, size_t n, size_t at) {
    struct ch c = {0, 0, UNICODE_OTHER};
    if (at < n) {
        c.len = utf8_decode(s + at, n - at, &c.cp);
        c.cls = unicode_class_of(c.cp);
    }
    return c;
}

// Whether c matches [^\s\p{L}\p{N}].
static bool is_symbol(struct ch c) {
    return c.len && (c.cls == UNICODE_OTHER || c.cls == UNICODE_PUNCT);
}

static bool is_newline(struct ch c) {
    return c.len && (c.cp == '\r' || c.cp == '\n');
}

// Where the run of code points of one class (or of symbols, for UNICODE_OTHER) from `at` ends,
// after at most `most` of them.
static size_t run_end(const char *s, size_t n, size_t at, enum unicode_class cls, size_t most) {
    while (most--) {
        struct ch c = peek(s, n, at);
        if (!c.len || (cls == UNICODE_OTHER ? !is_symbol(c) : c.cls != cls)) break;
        at += c.len;
    }
    return at;
}

// Length of 's 't 're 've 'm 'll 'd at s, or 0. With fold, of any case; U+017F is a form of s.
static size_t contraction(const char *s, size_t n, bool fold) {
    static const char *const tails[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (n < 2 || s[0] != '\'') return 0;
    if (fold && n >= 3 && memcmp(s + 1, "\xc5\xbf", 2) == 0) return 3;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t len = strlen(tails[i]), k = 0;
        while (k < len && 1 + k < n &&
               (fold && s[1 + k] >= 'A' && s[1 + k] <= 'Z' ? s[1 + k] + 32 : s[1 + k]) == tails[i][k])
            k++;
        if (k == len) return 1 + len;
    }
    return 0;
}

// \s+(?!\S)|\s+ : white space but for the last one before something else, unless it is alone.
static size_t white_space(const char *s, size_t n) {
    size_t at = 0, before_last = 0, count = 0;
    for (struct ch c; (c = peek(s, n, at)).len && c.cls == UNICODE_SPACE; at += c.len, count++) before_last = at;
    return at == n || count == 1 ? at : before_last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
static size_t stage_gpt2(const char *s, size_t n) {
    size_t len = contraction(s, n, false);
    if (len) return len;
    size_t at = s[0] == ' ';
    struct ch c = peek(s, n, at);
    if (!c.len || c.cls == UNICODE_SPACE) return white_space(s, n);
    return run_end(s, n, at, is_symbol(c) ? UNICODE_OTHER : c.cls, SIZE_MAX);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
static size_t stage_llama3(const char *s, size_t n) {
    size_t len = contraction(s, n, true);
    if (len) return len;
    struct ch c = peek(s, n, 0), next = peek(s, n, c.len);
    if (c.cls == UNICODE_LETTER) return run_end(s, n, 0, UNICODE_LETTER, SIZE_MAX);
    if (!is_newline(c) && c.cls != UNICODE_NUMBER && next.len && next.cls == UNICODE_LETTER)
        return run_end(s, n, c.len, UNICODE_LETTER, SIZE_MAX);
    if (c.cls == UNICODE_NUMBER) return run_end(s, n, 0, UNICODE_NUMBER, 3);
    if (is_symbol(c) || (c.cp == ' ' && is_symbol(next))) {
        size_t at = run_end(s, n, c.cp == ' ' ? 1 : 0, UNICODE_OTHER, SIZE_MAX);
        while (at < n && (s[at] == '\r' || s[at] == '\n')) at++;
        return at;
    }
    size_t newline_end = 0;
    for (size_t at = 0; (c = peek(s, n, at)).len && c.cls == UNICODE_SPACE;) {
        at += c.len;
        if (is_newline(c)) newline_end = at;
    }
    return newline_end ? newline_end : white_space(s, n);
}

// \p{N} : every number by itself.
static size_t stage_one_number(const char *s, size_t n) {
    struct ch c = peek(s, n, 0);
    size_t at = c.len;
    if (c.cls != UNICODE_NUMBER)
        while ((c = peek(s, n, at)).len && c.cls != UNICODE_NUMBER) at += c.len;
    return at;
}

// \p{N}+
static size_t stage_numbers(const char *s, size_t n) {
    struct ch c = peek(s, n, 0);
    bool number = c.cls == UNICODE_NUMBER;
    size_t at = c.len;
    while ((c = peek(s, n, at)).len && (c.cls == UNICODE_NUMBER) == number) at += c.len;
    return at;
}

// [\p{P}\$\+<=>\^~\|]+
static size_t stage_punctuation(const char *s, size_t n) {
    size_t at = 0;
    bool first = false;
    for (struct ch c; (c = peek(s, n, at)).len; at += c.len) {
        bool hit = c.cls == UNICODE_PUNCT || (c.cp && c.cp < 0x80 && strchr("$+<=>^~|", (int)c.cp));
        if (at == 0) first = hit;
        else if (hit != first) break;
    }
    return at;
}

// [0-9][0-9][0-9]
static size_t stage_three_digits(const char *s, size_t n) {
    size_t digits = 0;
    for (size_t at = 0; at < n; at++) {
        digits = s[at] >= '0' && s[at] <= '9' ? digits + 1 : 0;
        if (digits == 3) return at == 2 ? 3 : at - 2;
    }
    return n;
}

enum { MAX_STAGES = 4, MAX_NAMES = 5 };

struct pre_rule {
    const char *names[MAX_NAMES];
    stage_fn stages[MAX_STAGES];
    bool whole;
};

static const struct pre_rule rules[] = {
    {{"gpt-2", "gpt2", "mpt", "olmo", "phi-2"}, {stage_gpt2}, false},
    {{"smollm", "starcoder", "refact", "command-r"}, {stage_one_number, stage_gpt2}, false},
    {{"llama-bpe", "llama3", "llama-v3"}, {stage_llama3}, true},
    {{"default"}, {stage_punctuation, stage_gpt2, stage_numbers, stage_three_digits}, false},
};

const struct pre_rule *pre_find(const char *name, uint64_t n) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int k = 0; k < MAX_NAMES && rules[i].names[k]; k++)
            if (strlen(rules[i].names[k]) == n && memcmp(rules[i].names[k], name, n) == 0) return &rules[i];
    return NULL;
}

const char *pre_names(void) {
    return "smollm, gpt-2, llama-bpe, starcoder, refact, command-r, mpt, olmo, phi-2 or default";
}

bool pre_takes_whole(const struct pre_rule *rule) {
    return rule->whole;
}

static bool split(const struct pre_rule *rule, int stage, const char *s, size_t n, pre_sink sink, void *arg) {
    while (n) {
        size_t len = rule->stages[stage](s, n);
        bool last = stage + 1 == MAX_STAGES || !rule->stages[stage + 1];
        if (!(last ? sink(arg, s, len) : split(rule, stage + 1, s, len, sink, arg))) return false;
        s += len;
        n -= len;
    }
    return true;
}

bool pre_split(const struct pre_rule *rule, const char *s, size_t n, pre_sink sink, void *arg) {
    return split(rule, 0, s, n, sink, arg);
}
