// SPDX-License-Identifier: MIT
//
// ChatML turns; contracts are in chat.h.
#define _GNU_SOURCE // memmem
#include "chat.h"

#include <string.h>

static const char start_mark[] = "<|im_start|>", end_mark[] = "<|im_end|>";

// The literal text of a system turn in the template, as far as it is one: no expression and no
// quote up to the end mark. A line end is written as itself or as \n.
static bool find_system(struct chat *c, struct gguf_str tmpl, struct err *err) {
    static const char head[] = "<|im_start|>system";
    const char *p = memmem(tmpl.s, tmpl.n, head, sizeof head - 1);
    if (!p) return true;
    p += sizeof head - 1;
    const char *end = memmem(p, (size_t)(tmpl.s + tmpl.n - p), end_mark, sizeof end_mark - 1);
    if (end && end - p >= 1 && *p == '\n') p++;
    else if (end && end - p >= 2 && p[0] == '\\' && p[1] == 'n') p += 2;
    else return true;
    for (const char *q = p; q < end; q++)
        if (strchr("'\"{}\\", *q)) return true;
    return bytes_add(&c->system, p, (size_t)(end - p), err);
}

bool chat_detect(struct chat *c, const struct gguf *g, const struct tokenizer *t, struct err *err) {
    struct gguf_str tmpl;
    *c = (struct chat){tok_find(t, start_mark), tok_find(t, end_mark), {0}};
    if (!gguf_get_str(g, "tokenizer.chat_template", GGUF_REQUIRED, &tmpl, err)) return false;
    if (!memmem(tmpl.s, tmpl.n, start_mark, sizeof start_mark - 1) ||
        !memmem(tmpl.s, tmpl.n, end_mark, sizeof end_mark - 1))
        return err_set(err, "the chat template is not ChatML");
    if (c->start < 0 || c->end < 0) return err_set(err, "the chat template is ChatML, but its marks are no tokens");
    return find_system(c, tmpl, err);
}

void chat_free(struct chat *c) {
    bytes_free(&c->system);
}

bool chat_turn(const struct chat *c, struct tokenizer *t, const char *role, const char *text, size_t n, struct ids *out,
               struct err *err) {
    // Text between marks is tokenised in one piece, as it was in training.
    struct bytes body = {0};
    bool ok = bytes_add(&body, role, strlen(role), err) && bytes_add(&body, "\n", 1, err) &&
              bytes_add(&body, text, n, err) && ids_add(out, c->start, err) &&
              tok_encode(t, body.p, body.n, 0, out, NULL, err) && ids_add(out, c->end, err) &&
              tok_encode(t, "\n", 1, 0, out, NULL, err);
    bytes_free(&body);
    return ok;
}

bool chat_open_answer(const struct chat *c, struct tokenizer *t, struct ids *out, struct err *err) {
    static const char head[] = "assistant\n";
    return ids_add(out, c->start, err) && tok_encode(t, head, sizeof head - 1, 0, out, NULL, err);
}

bool chat_close_answer(const struct chat *c, struct tokenizer *t, bool ended, struct ids *out, struct err *err) {
    return (ended || ids_add(out, c->end, err)) && tok_encode(t, "\n", 1, 0, out, NULL, err);
}
