// SPDX-License-Identifier: MIT
//
// Tokenizers. Small vocabularies built in memory serve what needs no model: round trips of any
// bytes, special tokens, refusals. With INGOT_TEST_MODEL (a GGUF with the SmolLM2 vocabulary) the
// ids of thousands of strings are compared with those of the Python packages `tokenizers` and
// `sentencepiece`, which tokenizer_expected.py asks; without model or packages these tests are
// skipped with the reason. PYTHON names the interpreter (else the one that the tests' set-up makes, else python3),
// INGOT_TEST_LLAMA the folder of the script.
#define _XOPEN_SOURCE 700 // mkdtemp
#include "gguf_writer.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/llama/pretokenize.h"
#include "../../examples/llama/tokenizer.h"
#include "../../examples/llama/unicode.h"

// A byte-level vocabulary: 256 byte letters, two merges' tokens, two special tokens. Byte `hole`
// gets a text that stands for nothing (-1: all are there).
enum { ID_HE = 256, ID_HEL, ID_MARK, ID_USER, N_BPE };

static struct bytes bpe_file(const char *model, const char *pre, int hole) {
    struct bytes b = {0};
    put_head(&b, 3, 0, pre ? 5 : 4);
    put_key_str(&b, "tokenizer.ggml.model", model);
    if (pre) put_key_str(&b, "tokenizer.ggml.pre", pre);
    put_key(&b, "tokenizer.ggml.tokens", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, N_BPE);
    uint32_t next = 256;
    for (int i = 0; i < 256; i++) {
        bool self = (i > 32 && i < 127) || (i > 160 && i != 173);
        char text[4];
        size_t n = utf8_encode(self ? (uint32_t)i : next++, text);
        put_strn(&b, i == hole ? "?hole?" : text, i == hole ? 6 : n);
    }
    put_str(&b, "he");
    put_str(&b, "hel");
    put_str(&b, "<mark>");
    put_str(&b, "<user>");
    put_key(&b, "tokenizer.ggml.token_type", GGUF_ARRAY);
    put_array(&b, GGUF_I32, N_BPE);
    for (int i = 0; i < N_BPE; i++) put_u32(&b, i == ID_MARK ? 3 : i == ID_USER ? 4 : 1);
    put_key(&b, "tokenizer.ggml.merges", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, 2);
    put_str(&b, "h e");
    put_str(&b, "he l");
    return b;
}

// A file with its tokenizer.
struct loaded {
    struct bytes b;
    struct gguf *g;
    struct tokenizer *t;
};

static struct loaded load(struct bytes b) {
    struct err err = {""};
    struct loaded l = {b, gguf_parse(b.p, b.n, &err), NULL};
    if (l.g) l.t = tok_create(l.g, &err);
    if (!l.t) fail_msg("%s", err.text);
    return l;
}

static void unload(struct loaded *l) {
    tok_free(l->t);
    gguf_close(l->g);
    bytes_free(&l->b);
}

static void refuse(struct bytes b, const char *want) {
    struct err err = {""};
    struct gguf *g = gguf_parse(b.p, b.n, &err);
    assert_non_null(g);
    struct tokenizer *t = tok_create(g, &err);
    if (t || !strstr(err.text, want)) print_error("expected \"%s\", got \"%s\"\n", want, t ? "no error" : err.text);
    assert_null(t);
    assert_non_null(strstr(err.text, want));
    gguf_close(g);
    bytes_free(&b);
}

static void check_ids(struct tokenizer *t, const char *s, unsigned flags, const int32_t *want, size_t n) {
    struct ids ids = {0};
    struct err err = {""};
    assert_true(tok_encode(t, s, strlen(s), flags, &ids, NULL, &err));
    assert_int_equal(ids.n, n);
    if (n) assert_memory_equal(ids.p, want, n * sizeof *want);
    ids_free(&ids);
}

#define IDS(t, s, flags, ...)                                                                                          \
    check_ids(t, s, flags, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void decodes_utf8(void **state) {
    (void)state;
    static const struct {
        const char *s;
        size_t n, len;
        uint32_t cp;
    } cases[] = {
        {"A", 1, 1, 'A'},
        {"\xc3\xa9", 2, 2, 0xe9},
        {"\xe2\x82\xac", 3, 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
        {"\xc3", 1, 1, UTF8_BAD},
        {"\x80", 1, 1, UTF8_BAD},
        {"\xc0\x80", 2, 1, UTF8_BAD},
        {"\xe0\x80\x80", 3, 1, UTF8_BAD},
        {"\xed\xa0\x80", 3, 1, UTF8_BAD},
        {"\xf4\x90\x80\x80", 4, 1, UTF8_BAD},
        {"\xf5\x80\x80\x80", 4, 1, UTF8_BAD},
        {"\xe2\x82", 2, 1, UTF8_BAD},
        {"\xf0\x80\x80\x80", 4, 1, UTF8_BAD},
        {"\0", 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t cp = 1;
        assert_int_equal(utf8_decode(cases[i].s, cases[i].n, &cp), cases[i].len);
        assert_int_equal(cp, cases[i].cp);
    }
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char s[4];
        uint32_t back;
        if (cp >= 0xd800 && cp < 0xe000) continue;
        size_t n = utf8_encode(cp, s);
        assert_int_equal(utf8_decode(s, n, &back), n);
        assert_int_equal(back, cp);
    }
    assert_int_equal(unicode_class_of('a'), UNICODE_LETTER);
    assert_int_equal(unicode_class_of('7'), UNICODE_NUMBER);
    assert_int_equal(unicode_class_of('!'), UNICODE_PUNCT);
    assert_int_equal(unicode_class_of('+'), UNICODE_OTHER);
    assert_int_equal(unicode_class_of(0xa0), UNICODE_SPACE);
    assert_int_equal(unicode_class_of(0x2167), UNICODE_NUMBER);
    assert_int_equal(unicode_class_of(0x301), UNICODE_OTHER);
    assert_int_equal(unicode_class_of(0x4e00), UNICODE_LETTER);
    assert_int_equal(unicode_class_of(UTF8_BAD), UNICODE_OTHER);
}

static void stream(const char *in, size_t step, const char *want) {
    struct utf8_stream u = {{0}, 0};
    struct bytes out = {0};
    struct err err;
    size_t n = strlen(in);
    for (size_t at = 0; at < n; at += step)
        assert_true(utf8_push(&u, in + at, step < n - at ? step : n - at, &out, &err));
    assert_true(utf8_flush(&u, &out, &err));
    assert_int_equal(out.n, strlen(want));
    assert_memory_equal(out.p, want, out.n);
    bytes_free(&out);
}

static void holds_back_cut_sequences(void **state) {
    (void)state;
    for (size_t step = 1; step <= 4; step++) {
        stream("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", step, "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
        stream("\xe2\x82"
               "a",
               step,
               "\xef\xbf\xbd"
               "a");
        stream("\xff\xf0\x9f\xc3\xa9", step, "\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9");
        stream("x\xf0\x9f\x98", step, "x\xef\xbf\xbd");
    }
    struct utf8_stream u = {{0}, 0};
    struct bytes out = {0};
    assert_true(utf8_push(&u, "\xe2\x82", 2, &out, NULL));
    assert_int_equal(out.n, 0);
    assert_true(utf8_push(&u, "\xac", 1, &out, NULL));
    assert_int_equal(out.n, 3);
    bytes_free(&out);
}

static void encodes_by_merges(void **state) {
    (void)state;
    struct loaded l = load(bpe_file("gpt2", "gpt-2", -1));
    IDS(l.t, "hello", 0, ID_HEL, 'l', 'o');
    IDS(l.t, "h ehe", 0, 'h', ' ', 'e', ID_HE);
    IDS(l.t, "a<mark>b", 0, 'a', '<', 'm', 'a', 'r', 'k', '>', 'b');
    IDS(l.t, "a<mark>b", TOK_SPECIAL | TOK_BOS, 'a', ID_MARK, 'b');
    IDS(l.t, "<user><user", 0, ID_USER, '<', 'u', 's', 'e', 'r');
    check_ids(l.t, "", TOK_BOS, NULL, 0);
    struct bytes out = {0};
    struct err err;
    assert_true(tok_decode(l.t, ID_MARK, 0, &out, &err));
    assert_int_equal(out.n, 0);
    assert_true(tok_decode(l.t, ID_MARK, TOK_SPECIAL, &out, &err));
    assert_true(tok_decode(l.t, ID_USER, 0, &out, &err));
    assert_true(tok_decode(l.t, ID_HEL, 0, &out, &err));
    assert_int_equal(out.n, 15);
    assert_memory_equal(out.p, "<mark><user>hel", 15);
    assert_false(tok_decode(l.t, N_BPE, 0, &out, &err));
    assert_false(tok_decode(l.t, -1, 0, &out, &err));
    assert_int_equal(tok_find(l.t, "<mark>"), ID_MARK);
    assert_int_equal(tok_find(l.t, "<marks>"), -1);
    bytes_free(&out);
    unload(&l);
}

// Encodes, decodes and compares. Bytes of text are all representable in these vocabularies.
static void round_trip(struct tokenizer *t, const char *s, size_t n) {
    struct ids ids = {0};
    struct bytes out = {0};
    struct err err = {""};
    size_t dropped = 99;
    assert_true(tok_encode(t, s, n, TOK_SPECIAL, &ids, &dropped, &err));
    assert_int_equal(dropped, 0);
    for (size_t i = 0; i < ids.n; i++) assert_true(tok_decode(t, ids.p[i], TOK_SPECIAL, &out, &err));
    assert_int_equal(out.n, n);
    if (n) assert_memory_equal(out.p, s, n);
    ids_free(&ids);
    bytes_free(&out);
}

static void round_trips(void **state) {
    (void)state;
    static const char *const pres[] = {"gpt-2", "smollm", "llama-bpe", "default"};
    for (size_t k = 0; k < 4; k++) {
        // llama-bpe adds bos unless told otherwise, which needs a bos id.
        struct bytes b = bpe_file("gpt2", pres[k], -1);
        b.p[16]++;
        put_key_bool(&b, "tokenizer.ggml.add_bos_token", 0);
        struct loaded l = load(b);
        uint64_t rng = k;
        char buf[256];
        for (int i = 0; i < 4000; i++) {
            size_t n = 0, most = random_u64(&rng) % 60;
            while (n < most)
                if (i & 1) {
                    buf[n++] = (char)random_u64(&rng);
                } else {
                    uint32_t cp = (uint32_t)(random_u64(&rng) % (i & 2 ? 0x110000 : 0x300));
                    n += utf8_encode(cp >= 0xd800 && cp < 0xe000 ? 'x' : cp, buf + n);
                }
            round_trip(l.t, buf, n);
        }
        unload(&l);
    }
}

static void long_words_are_no_trap(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    char *s = malloc(N);
    assert_non_null(s);
    for (size_t i = 0; i < N; i++) s[i] = "hel"[i % 3];
    struct loaded l = load(bpe_file("gpt2", "gpt-2", -1));
    round_trip(l.t, s, N);
    memset(s, ' ', N);
    round_trip(l.t, s, N);
    unload(&l);
    free(s);
}

static void counts_dropped_bytes(void **state) {
    (void)state;
    struct loaded l = load(bpe_file("gpt2", NULL, 4));
    struct ids ids = {0};
    size_t dropped = 0;
    assert_true(tok_encode(l.t, "h\4e\4", 4, 0, &ids, &dropped, NULL));
    assert_int_equal(dropped, 2);
    ids_free(&ids);
    unload(&l);
}

static void refuses_unknown_kinds(void **state) {
    (void)state;
    refuse(bpe_file("wordpiece", NULL, -1), "tokenizer model \"wordpiece\" is not supported");
    refuse(bpe_file("gpt2", "strange", -1), "pre-tokeniser \"strange\" is not supported");
    refuse(bpe_file("llama", NULL, -1), "\"tokenizer.ggml.scores\" is missing");
    refuse(bpe_file("gpt2", NULL, 'h'), "tokenizer.ggml.merges entry 0, \"h e\": the left part");
    refuse(bpe_file("gpt2", "llama-bpe", -1), "tokenizer.ggml.bos_token_id is missing");
    struct bytes b = {0};
    put_head(&b, 3, 0, 0);
    refuse(b, "key \"tokenizer.ggml.model\" is missing");
    b = bpe_file("gpt2", NULL, -1);
    b.p[16]++;
    put_key_u32(&b, "tokenizer.ggml.eos_token_id", N_BPE);
    refuse(b, "key \"tokenizer.ggml.eos_token_id\" is 260, expected a token, 0 to 259");
}

// Files whose vocabulary is damaged are refused or work; nothing reads out of bounds.
static void survives_random_bytes(void **state) {
    (void)state;
    enum { ROUNDS = 3000 };
    struct bytes good = bpe_file("gpt2", "smollm", -1);
    uint64_t rng = 3;
    int accepted = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct bytes bad = {0};
        struct ids ids = {0};
        struct bytes out = {0};
        put(&bad, good.p, good.n);
        for (int k = 0; k <= i % 2; k++) {
            uint64_t r = random_u64(&rng);
            bad.p[r % bad.n] = (char)(r >> 48);
        }
        struct gguf *g = gguf_parse(bad.p, bad.n, NULL);
        struct tokenizer *t = g ? tok_create(g, NULL) : NULL;
        accepted += t != NULL;
        if (t) {
            assert_true(tok_encode(t, "hello <mark> h\xc3\xa9 12", 18, TOK_SPECIAL | TOK_BOS, &ids, NULL, NULL));
            for (int32_t id = 0; id < tok_count(t); id++) assert_true(tok_decode(t, id, TOK_SPECIAL, &out, NULL));
        }
        tok_free(t);
        gguf_close(g);
        ids_free(&ids);
        bytes_free(&out);
        bytes_free(&bad);
    }
    print_message("    %d of %d damaged vocabularies were still usable\n", accepted, (int)ROUNDS);
    bytes_free(&good);
}

enum { SPM_UNK, SPM_BOS, SPM_BYTE0, SPM_SPACE = SPM_BYTE0 + 256, SPM_A, SPM_B, SPM_AB, SPM_SAB };

static struct bytes spm_file(void) {
    static const char *const words[] = {"\xe2\x96\x81", "a", "b", "ab",
                                        "\xe2\x96\x81"
                                        "ab"};
    enum { N = SPM_SAB + 1 };
    struct bytes b = {0};
    put_head(&b, 3, 0, 5);
    put_key_str(&b, "tokenizer.ggml.model", "llama");
    put_key(&b, "tokenizer.ggml.tokens", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, N);
    put_str(&b, "<unk>");
    put_str(&b, "<s>");
    for (unsigned i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        put_str(&b, text);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) put_str(&b, words[i]);
    put_key(&b, "tokenizer.ggml.token_type", GGUF_ARRAY);
    put_array(&b, GGUF_I32, N);
    for (int i = 0; i < N; i++) put_u32(&b, i == 0 ? 2 : i == 1 ? 3 : i < SPM_SPACE ? 6 : 1);
    put_key(&b, "tokenizer.ggml.scores", GGUF_ARRAY);
    put_array(&b, GGUF_F32, N);
    for (int i = 0; i < N; i++) put(&b, &(float){i == SPM_SAB ? -2.f : i == SPM_AB ? -1.f : 0.f}, 4);
    put_key_u32(&b, "tokenizer.ggml.bos_token_id", SPM_BOS);
    return b;
}

static void encodes_by_scores(void **state) {
    (void)state;
    struct loaded l = load(spm_file());
    IDS(l.t, "ab", TOK_BOS, SPM_BOS, SPM_SAB);
    IDS(l.t, "ab abb", 0, SPM_SAB, SPM_SAB, SPM_B);
    IDS(l.t, "x", 0, SPM_SPACE, SPM_BYTE0 + 'x');
    IDS(l.t, "a<s>b", TOK_SPECIAL, SPM_SPACE, SPM_A, SPM_BOS, SPM_SPACE, SPM_B);
    check_ids(l.t, "", 0, NULL, 0);
    unload(&l);
    struct bytes b = spm_file();
    b.p[16]++;
    put_key_bool(&b, "tokenizer.ggml.add_space_prefix", 0);
    l = load(b);
    IDS(l.t, "abx", 0, SPM_AB, SPM_BYTE0 + 'x');
    uint64_t rng = 5;
    for (int i = 0; i < 4000; i++) {
        char buf[64];
        size_t n = random_u64(&rng) % sizeof buf;
        for (size_t k = 0; k < n; k++) buf[k] = i & 1 ? "ab  \xe2\xff"[random_u64(&rng) % 6] : (char)random_u64(&rng);
        round_trip(l.t, buf, n);
    }
    unload(&l);
}

// ---- comparison with the Python packages ----

static char folder[] = "/tmp/ingot-test-tok-XXXXXX";
static const char *skip_reason;

static int make_expected(void **state) {
    (void)state;
    const char *model = getenv("INGOT_TEST_MODEL"), *python = getenv("PYTHON");
    const char *here = getenv("INGOT_TEST_LLAMA");
    static const char venv[] = "build/venv/bin/python"; // what the set-up of the tests makes
    char command[2048];
    if (!mkdtemp(folder)) return -1;
    if (!model) {
        skip_reason = "INGOT_TEST_MODEL names no model";
        return 0;
    }
    snprintf(command, sizeof command, "\"%s\" \"%s/tokenizer_expected.py\" \"%s\" \"%s\"",
             python                    ? python
             : access(venv, X_OK) == 0 ? venv
                                       : "python3",
             here ? here : "test/llama", model, folder);
    int status = system(command);
    if (status != 0 && WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
        skip_reason = "Python or one of its packages is missing (see above)";
    else if (status != 0) return -1;
    return 0;
}

static int remove_expected(void **state) {
    (void)state;
    static const char *const names[] = {"bpe.txt", "pieces.txt", "spm.txt", "spm.gguf", "spm.model", "spm.vocab"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    return 0;
}

// A line of an expected file.
struct expected {
    char rule[32];
    struct bytes text;
    struct ids numbers;
};

// Reads the next line into *e (whose buffers are reused). False at the end.
static bool next_expected(FILE *f, struct expected *e, char **line, size_t *cap) {
    if (getline(line, cap, f) < 0) return false;
    char *save = NULL, *rule = strtok_r(*line, " \n", &save), *hex = strtok_r(NULL, " \n", &save);
    char *list = strtok_r(NULL, " \n", &save);
    assert_non_null(list);
    snprintf(e->rule, sizeof e->rule, "%s", rule);
    e->text.n = e->numbers.n = 0;
    for (; hex[0] != '-' && hex[0]; hex += 2) {
        char two[3] = {hex[0], hex[1], 0};
        put(&e->text, &(char){(char)strtoul(two, NULL, 16)}, 1);
    }
    for (char *p = list; *p && *p != '-'; p += *p == ',')
        assert_true(ids_add(&e->numbers, (int32_t)strtol(p, &p, 10), NULL));
    return true;
}

static bool add_length(void *arg, const char *s, size_t n) {
    (void)s;
    return ids_add(arg, (int32_t)n, NULL);
}

// Compares every line of folder/name: pieces when t is NULL, else ids. Skips, with the reason,
// when the file is not there.
static void compare_all(const char *name, struct tokenizer *t) {
    char path[256], *line = NULL, q[QUOTED_BYTES];
    size_t cap = 0, checked = 0, wrong = 0;
    struct expected e = {"", {0}, {0}};
    struct ids got = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; next_expected(f, &e, &line, &cap); checked++) {
        got.n = 0;
        if (t)
            assert_true(tok_encode(t, e.text.p, e.text.n, strcmp(e.rule, "spm") ? TOK_SPECIAL : 0, &got, NULL, NULL));
        else assert_true(pre_split(pre_find(e.rule, strlen(e.rule)), e.text.p, e.text.n, add_length, &got));
        if (got.n == e.numbers.n && (!got.n || !memcmp(got.p, e.numbers.p, got.n * sizeof *got.p))) continue;
        if (wrong++ >= 10) continue;
        print_error("%s %s:", e.rule, quoted(q, e.text.p, e.text.n));
        for (size_t i = 0; i < got.n; i++) print_error(" %d", got.p[i]);
        print_error(", expected");
        for (size_t i = 0; i < e.numbers.n; i++) print_error(" %d", e.numbers.p[i]);
        print_error("\n");
    }
    print_message("    %s: %zu strings compared, %zu differ\n", name, checked, wrong);
    fclose(f);
    free(line);
    bytes_free(&e.text);
    ids_free(&e.numbers);
    ids_free(&got);
    assert_int_equal(wrong, 0);
    assert_true(checked > 1000);
}

static void skip_if(const char *reason) {
    if (reason) {
        print_message("    1 test skipped: %s\n", reason);
        skip();
    }
}

static void pieces_agree(void **state) {
    (void)state;
    skip_if(skip_reason);
    compare_all("pieces.txt", NULL);
}

static void bpe_ids_agree(void **state) {
    (void)state;
    skip_if(skip_reason);
    struct err err = {""};
    struct loaded l = {{0}, gguf_open(getenv("INGOT_TEST_MODEL"), &err), NULL};
    l.t = l.g ? tok_create(l.g, &err) : NULL;
    if (!l.t) fail_msg("%s", err.text);
    compare_all("bpe.txt", l.t);
    assert_true(tok_is_end(l.t, tok_find(l.t, "<|im_end|>")));
    assert_true(tok_is_end(l.t, tok_find(l.t, "<|endoftext|>")));
    assert_false(tok_is_end(l.t, tok_find(l.t, "<|im_start|>")));
    unload(&l);
}

static void spm_ids_agree(void **state) {
    (void)state;
    char path[256];
    struct err err = {""};
    snprintf(path, sizeof path, "%s/spm.txt", folder);
    skip_if(skip_reason ? skip_reason : access(path, R_OK) ? "the Python package sentencepiece is missing" : NULL);
    snprintf(path, sizeof path, "%s/spm.gguf", folder);
    struct loaded l = {{0}, gguf_open(path, &err), NULL};
    l.t = l.g ? tok_create(l.g, &err) : NULL;
    if (!l.t) fail_msg("%s", err.text);
    compare_all("spm.txt", l.t);
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_utf8),          cmocka_unit_test(holds_back_cut_sequences),
        cmocka_unit_test(encodes_by_merges),     cmocka_unit_test(encodes_by_scores),
        cmocka_unit_test(round_trips),           cmocka_unit_test(long_words_are_no_trap),
        cmocka_unit_test(counts_dropped_bytes),  cmocka_unit_test(refuses_unknown_kinds),
        cmocka_unit_test(survives_random_bytes), cmocka_unit_test(pieces_agree),
        cmocka_unit_test(bpe_ids_agree),         cmocka_unit_test(spm_ids_agree),
    };
    return cmocka_run_group_tests_name("llama/tokenizer", tests, make_expected, remove_expected);
}
