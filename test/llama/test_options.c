// SPDX-License-Identifier: MIT
//
// The command line: what is read, and the text for everything that is wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/llama/options.h"

enum { MOST_ARGS = 24 };

// Parses a command line given as words separated by '|'.
static bool parse(const char *line, struct options *o, struct err *err, char *copy, size_t cap) {
    char *argv[MOST_ARGS] = {"llama"};
    int argc = 1;
    assert_true(strlen(line) < cap);
    strcpy(copy, line);
    for (char *p = *copy ? copy : NULL; p; argc++) {
        assert_true(argc < MOST_ARGS);
        argv[argc] = p;
        p = strchr(p, '|');
        if (p) *p++ = 0;
    }
    err->text[0] = 0;
    return options_parse(o, argc, argv, err);
}

static void reads_every_option(void **state) {
    (void)state;
    char copy[512];
    struct options o;
    struct err err;
    assert_true(parse("-m|f.gguf|-p|hello|-n|7|-c|99|-b|4|-t|0.5|--top-p=0.9|--top-k|40|-s|18446744073709551615|-q", &o,
                      &err, copy, sizeof copy));
    assert_string_equal(o.model, "f.gguf");
    assert_string_equal(o.prompt, "hello");
    assert_int_equal(o.n, 7);
    assert_int_equal(o.n_ctx, 99);
    assert_int_equal(o.batch, 4);
    assert_true(o.sampler.temperature == 0.5);
    assert_true(o.sampler.top_p == 0.9);
    assert_int_equal(o.sampler.top_k, 40);
    assert_true(o.sampler.seed == UINT64_MAX);
    assert_true(o.quiet && !o.interactive && !o.help);
    options_free(&o);
    assert_true(parse("-m|f|-i|--chat|--system|be brief|--device|1", &o, &err, copy, sizeof copy));
    assert_true(o.interactive);
    assert_int_equal(o.mode, MODE_CHAT);
    assert_string_equal(o.system, "be brief");
    assert_int_equal(o.device, 1);
    assert_int_equal(o.n, -1);
    options_free(&o);
    assert_true(parse("--model|f|--tokens|1,22,333|--logits|out", &o, &err, copy, sizeof copy));
    assert_int_equal(o.tokens.n, 3);
    assert_int_equal(o.tokens.p[2], 333);
    assert_string_equal(o.logits, "out");
    options_free(&o);
    assert_true(parse("--help", &o, &err, copy, sizeof copy));
    assert_true(o.help);
    options_free(&o);
    assert_true(parse("--version|--nonsense", &o, &err, copy, sizeof copy));
    assert_true(o.version);
    options_free(&o);
}

static void names_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"", "no model: give -m FILE"},
        {"-m|f", "no prompt: give -p TEXT"},
        {"-m", "-m needs a value: FILE"},
        {"-m|f|-p|x|-z", "unknown option \"-z\""},
        {"-m|f|-p|x|--promt", "unknown option \"--promt\""},
        {"-m|f|-p|x|stray", "unknown option \"stray\""},
        {"-m|f|-p|x|-n|1.5", "-n: \"1.5\", expected a whole number, 0 to 2147483647"},
        {"-m|f|-p|x|-n|", "-n: \"\", expected a whole number"},
        {"-m|f|-p|x|-n|-1", "-n: \"-1\""},
        {"-m|f|-p|x|-n|99999999999999999999", "-n: \"99999999999999999999\""},
        {"-m|f|-p|x|-c|0", "-c: \"0\", expected a whole number, 1 to"},
        {"-m|f|-p|x|--temp=-1", "--temp: \"-1\", expected a number, 0 to 1000"},
        {"-m|f|-p|x|-t|nan", "-t: \"nan\""},
        {"-m|f|-p|x|-t|1e999", "-t: \"1e999\""},
        {"-m|f|-p|x|--top-p|1.01", "--top-p: \"1.01\", expected a number, 0 to 1"},
        {"-m|f|-p|x|-s|-1", "-s: \"-1\", expected a whole number, 0 to 18446744073709551615"},
        {"-m|f|-p|x|-s|1x", "-s: \"1x\""},
        {"-m|f|--tokens|", "--tokens: \"\" at byte 0, expected token ids"},
        {"-m|f|--tokens|1,2,", "--tokens: \"\" at byte 4"},
        {"-m|f|--tokens|1;2", "--tokens: \"1;2\" at byte 0"},
        {"-m|f|--tokens|4294967296", "--tokens: \"4294967296\" at byte 0"},
        {"-m|f|--tokens|1|-p|x", "-p and --tokens exclude each other"},
        {"-m|f|--tokens|1|-i", "-i and --tokens exclude each other"},
        {"-m|f|--tokens|1|--chat", "--chat and --tokens exclude each other"},
        {"-m|f|-p|x|--chat|--raw", "--chat and --raw exclude each other"},
        {"-m|f|-p|x|--logits|y", "--logits needs --tokens LIST"},
        {"-m|f|-p|x|--quiet=1", "--quiet takes no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char copy[512];
        struct options o;
        struct err err;
        bool ok = parse(cases[i].line, &o, &err, copy, sizeof copy);
        if (ok || !strstr(err.text, cases[i].want))
            print_error("%s: expected \"%s\", got \"%s\"\n", cases[i].line, cases[i].want, ok ? "no error" : err.text);
        assert_false(ok);
        assert_non_null(strstr(err.text, cases[i].want));
        options_free(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_option),
        cmocka_unit_test(names_what_is_wrong),
    };
    return cmocka_run_group_tests_name("llama/options", tests, NULL, NULL);
}
