// SPDX-License-Identifier: MIT
//
// Chat turns: what is recognised as ChatML, the tokens of turns, and marks inside a user's text.
#include "gguf_writer.h"

#include <stdio.h>

#include "../../examples/llama/chat.h"
#include "../../examples/llama/unicode.h"

enum { ID_START = 256, ID_END, N_TOKENS };

// A vocabulary of single bytes and, if `marks`, the two marks of ChatML.
static struct bytes chat_file(const char *chat_template, bool marks) {
    struct bytes b = {0};
    put_head(&b, 3, 0, chat_template ? 5 : 4);
    put_key_str(&b, "tokenizer.ggml.model", "gpt2");
    put_key(&b, "tokenizer.ggml.tokens", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, N_TOKENS);
    uint32_t next = 256;
    for (int i = 0; i < 256; i++) {
        bool self = (i > 32 && i < 127) || (i > 160 && i != 173);
        char text[4];
        put_strn(&b, text, utf8_encode(self ? (uint32_t)i : next++, text));
    }
    put_str(&b, marks ? "<|im_start|>" : "<start>");
    put_str(&b, marks ? "<|im_end|>" : "<end>");
    put_key(&b, "tokenizer.ggml.token_type", GGUF_ARRAY);
    put_array(&b, GGUF_I32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) put_u32(&b, i >= ID_START ? 3 : 1);
    put_key(&b, "tokenizer.ggml.merges", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, 0);
    if (chat_template) put_key_str(&b, "tokenizer.chat_template", chat_template);
    return b;
}

// Detects the chat of a file and, where that works, appends a dialogue's tokens as text to *out: "(" and ")" stand for
// the marks.
static bool dialogue(const char *chat_template, bool marks, struct bytes *out, struct err *err) {
    struct bytes b = chat_file(chat_template, marks);
    struct gguf *g = gguf_parse(b.p, b.n, err);
    struct tokenizer *t = tok_create(g, err);
    struct chat c;
    struct ids ids = {0};
    assert_non_null(t);
    bool ok = chat_detect(&c, g, t, err);
    if (ok) {
        put(out, c.system.p, c.system.n);
        put(out, "|", 1);
        assert_true(chat_turn(&c, t, "user", "a<|im_end|>b", 12, &ids, err));
        assert_true(chat_open_answer(&c, t, &ids, err));
        assert_true(chat_close_answer(&c, t, false, &ids, err));
        assert_true(chat_close_answer(&c, t, true, &ids, err));
    }
    for (size_t i = 0; i < ids.n; i++)
        if (ids.p[i] >= ID_START) put(out, ids.p[i] == ID_START ? "(" : ")", 1);
        else assert_true(tok_decode(t, ids.p[i], 0, out, err));
    put(out, "", 1);
    ids_free(&ids);
    chat_free(&c);
    tok_free(t);
    gguf_close(g);
    bytes_free(&b);
    return ok;
}

static void check(const char *chat_template, const char *want) {
    struct bytes out = {0};
    struct err err = {""};
    if (!dialogue(chat_template, true, &out, &err)) fail_msg("%s", err.text);
    assert_string_equal(out.p, want);
    bytes_free(&out);
}

static void writes_turns(void **state) {
    (void)state;
#define TURNS "|(user\na<|im_end|>b)\n(assistant\n)\n\n"
    check("{{'<|im_start|>' + role + '\n' + content + '<|im_end|>'}}", TURNS);
    check("{{'<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>'}}", "Be kind." TURNS);
    check("{{'<|im_start|>system\\nBe kind.<|im_end|>'}}", "Be kind." TURNS);
    check("{{'<|im_start|>system\n' + text + '<|im_end|>'}}", TURNS);
    check("<|im_start|>system\n{{x}}<|im_end|>", TURNS);
    check("<|im_end|><|im_start|>system", TURNS);
    check("<|im_end|><|im_start|>system\n", TURNS);
}

static void refuse(const char *chat_template, bool marks, const char *want) {
    struct bytes out = {0};
    struct err err = {""};
    assert_false(dialogue(chat_template, marks, &out, &err));
    assert_non_null(strstr(err.text, want));
    bytes_free(&out);
}

static void tells_why_there_is_no_chat(void **state) {
    (void)state;
    refuse(NULL, true, "\"tokenizer.chat_template\" is missing");
    refuse("[INST] {{content}} [/INST]", true, "not ChatML");
    refuse("<|im_start|>", true, "not ChatML");
    refuse("<|im_start|><|im_end|>", false, "its marks are no tokens");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_turns),
        cmocka_unit_test(tells_why_there_is_no_chat),
    };
    return cmocka_run_group_tests_name("llama/chat", tests, NULL, NULL);
}
