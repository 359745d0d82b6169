// SPDX-License-Identifier: MIT
//
// The model on a device: logits of tiny random models against plain C in double, prompt passes against single tokens,
// what happens at the end of the context, and a refusal for every way in which a file can contradict itself.
#include "../../examples/llama/model.h"
#include "tiny_model.h"

enum { N = 13, BATCH = 4 };

static const int32_t tokens[N] = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 38};

// A tiny model, opened.
struct fixture {
    struct tiny tiny;
    struct gguf *g;
    struct model *m;
};

static struct model_options options(int64_t n_ctx) {
    return (struct model_options){.n_ctx = n_ctx, .batch = BATCH};
}

static void open_tiny(struct fixture *f, struct tiny_config c, int64_t n_ctx) {
    struct err err = {""};
    struct model_options o = options(n_ctx);
    f->tiny = (struct tiny){.c = c};
    tiny_build(&f->tiny);
    f->g = gguf_parse(f->tiny.file.p, f->tiny.file.n, &err);
    f->m = f->g ? model_open(f->g, &o, &err) : NULL;
    if (!f->m) fail_msg("%s", err.text);
}

static void close_tiny(struct fixture *f) {
    model_close(f->m);
    gguf_close(f->g);
    tiny_free(&f->tiny);
}

// sum((out - ref)^2) / sum(ref^2); NaN if anything is.
static double nmse(const float *out, const double *ref, int n) {
    double d = 0, r = 0;
    for (int i = 0; i < n; i++) {
        d += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
        r += ref[i] * ref[i];
    }
    return d / r;
}

static void check_config(struct tiny_config c, double bound) {
    struct fixture f;
    double ref[N * TINY_VOCAB], worst = 0;
    float first[TINY_VOCAB];
    const float *logits;
    struct err err = {""};
    open_tiny(&f, c, TINY_CTX);
    tiny_reference(&f.tiny, tokens, N, ref);
    for (int i = 0; i < N; i++) {
        assert_true(model_eval(f.m, &tokens[i], 1, &logits, &err));
        double e = nmse(logits, ref + i * TINY_VOCAB, TINY_VOCAB);
        assert_true(e <= bound); // false for NaN
        worst = e > worst ? e : worst;
        if (i == 0) memcpy(first, logits, sizeof first);
    }
    assert_int_equal(model_past(f.m), N);
    // The same tokens in passes of 4, 4, 4 and 1, then a rest of 3.
    model_forget(f.m);
    assert_true(model_eval(f.m, tokens, N, &logits, &err));
    double batched = nmse(logits, ref + (N - 1) * TINY_VOCAB, TINY_VOCAB);
    assert_true(batched <= bound);
    model_forget(f.m);
    assert_true(model_eval(f.m, tokens, BATCH + 3, &logits, &err));
    assert_true(nmse(logits, ref + (BATCH + 2) * TINY_VOCAB, TINY_VOCAB) <= bound);
    assert_true(model_eval(f.m, tokens + BATCH + 3, 1, &logits, &err));
    assert_true(nmse(logits, ref + (BATCH + 3) * TINY_VOCAB, TINY_VOCAB) <= bound);
    model_forget(f.m);
    assert_true(model_eval(f.m, tokens, 1, &logits, &err));
    assert_memory_equal(first, logits, sizeof first);
    print_message("    NMSE at most %.1e by single tokens, %.1e by passes of %d\n", worst, batched, (int)BATCH);
    close_tiny(&f);
}

static void f32_logits_agree(void **state) {
    (void)state;
    check_config((struct tiny_config){0}, 1e-5);
}

static void mixed_types_agree(void **state) {
    (void)state;
    check_config((struct tiny_config){.quantised = true, .untied = true}, 2e-3);
}

static void rope_factors_agree(void **state) {
    (void)state;
    check_config((struct tiny_config){.rope_factors = true}, 1e-5);
}

static void context_ends_cleanly(void **state) {
    (void)state;
    struct fixture f;
    struct err err = {""};
    const float *logits;
    open_tiny(&f, (struct tiny_config){0}, 6);
    assert_false(model_eval(f.m, tokens, 7, &logits, &err));
    assert_string_equal(err.text, "7 tokens after 0 do not fit a context of 6");
    assert_false(model_eval(f.m, tokens, 0, &logits, &err));
    assert_false(model_eval(f.m, (int32_t[]){1, TINY_VOCAB}, 2, &logits, &err));
    assert_string_equal(err.text, "token 48 at 1, expected 0 to 47");
    assert_false(model_eval(f.m, (int32_t[]){-1}, 1, &logits, &err));
    assert_int_equal(model_past(f.m), 0);
    assert_true(model_eval(f.m, tokens, 6, &logits, &err));
    double ref[6 * TINY_VOCAB];
    tiny_reference(&f.tiny, tokens, 6, ref);
    assert_true(nmse(logits, ref + 5 * TINY_VOCAB, TINY_VOCAB) <= 1e-5);
    assert_false(model_eval(f.m, tokens, 1, &logits, &err));
    assert_string_equal(err.text, "1 tokens after 6 do not fit a context of 6");
    close_tiny(&f);
}

static void refuses_contradictions(void **state) {
    (void)state;
    static const struct {
        struct tiny_config c;
        const char *want;
    } cases[] = {
        {{.arch = "mamba"}, "architecture \"mamba\" is not supported, expected \"llama\""},
        {{.experts = 8}, "with 8 experts is not supported"},
        {{.drop_key = "llama.block_count"}, "key \"llama.block_count\" is missing"},
        {{.drop_key = "llama.attention.layer_norm_rms_epsilon"}, "layer_norm_rms_epsilon\" is missing"},
        {{.kv_heads = 3}, "4 heads over 3 key/value heads, expected a multiple"},
        {{.kv_heads = 8}, "key \"llama.attention.head_count_kv\" is 8, expected 0 to 4"},
        {{.kv_heads = 4}, "tensor \"blk.0.attn_k.weight\" has shape [64, 32, 1, 1], expected [64, 64]"},
        {{.rope_dims = 7}, "llama.rope.dimension_count is 7, expected an even number"},
        {{.rope_dims = 18}, "key \"llama.rope.dimension_count\" is 18, expected 0 to 16"},
        {{.scaling = "longrope"}, "llama.rope.scaling.type is \"longrope\""},
        {{.drop_tensor = "token_embd.weight"}, "tensor \"token_embd.weight\" is missing"},
        {{.drop_tensor = "blk.1.ffn_down.weight"}, "tensor \"blk.1.ffn_down.weight\" is missing"},
        {{.grow_tensor = "blk.1.attn_q.weight"}, "tensor \"blk.1.attn_q.weight\" has shape [64, 65, 1, 1]"},
        {{.f16_tensor = "blk.0.ffn_norm.weight"}, "tensor \"blk.0.ffn_norm.weight\" has type f16, expected f32"},
        {{.extra_tensor = "blk.0.attn_q.bias"}, "tensor \"blk.0.attn_q.bias\" is no part of a llama model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tiny t = {.c = cases[i].c};
        struct err err = {""};
        struct model_options o = options(0);
        tiny_build(&t);
        struct gguf *g = gguf_parse(t.file.p, t.file.n, &err);
        assert_non_null(g);
        struct model *m = model_open(g, &o, &err);
        if (m || !strstr(err.text, cases[i].want))
            print_error("expected \"%s\", got \"%s\"\n", cases[i].want, m ? "no error" : err.text);
        assert_null(m);
        assert_non_null(strstr(err.text, cases[i].want));
        gguf_close(g);
        tiny_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_logits_agree),       cmocka_unit_test(mixed_types_agree),
        cmocka_unit_test(rope_factors_agree),     cmocka_unit_test(context_ends_cleanly),
        cmocka_unit_test(refuses_contradictions),
    };
    return cmocka_run_group_tests_name("llama/model", tests, NULL, NULL);
}
