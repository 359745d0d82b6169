// SPDX-License-Identifier: MIT
//
// Reads and checks the metadata of a llama model; contracts are in hparams.h. The limits here are far above any model
// and keep every product of them inside 64 bits.
#include "hparams.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_LAYERS = 4096, MOST_HEADS = 4096, MOST_WIDTH = 1 << 20, MOST_HEAD_DIM = 256 };

static bool positive(const struct gguf *g, const char *key, enum gguf_need need, uint64_t max, int64_t *out,
                     struct err *err) {
    uint64_t v = (uint64_t)*out;
    if (!gguf_get_uint(g, key, need, max, &v, err)) return false;
    if (v == 0) return err_set(err, "key \"%s\" is 0, expected 1 to %" PRIu64, key, max);
    *out = (int64_t)v;
    return true;
}

static bool real(const struct gguf *g, const char *key, enum gguf_need need, float *out, struct err *err) {
    double v = (double)*out;
    if (!gguf_get_f64(g, key, need, &v, err)) return false;
    if (!isfinite(v)) return err_set(err, "key \"%s\" is %g, expected a finite number", key, v);
    *out = (float)v;
    return true;
}

static bool load_rope_scaling(struct hparams *hp, const struct gguf *g, struct err *err) {
    char q[QUOTED_BYTES];
    struct gguf_str type = {"linear", 6};
    int64_t n_ctx_orig = hp->n_ctx_train;
    float factor = 1;
    ingot_rope_params *r = &hp->rope;
    if (!gguf_get_str(g, "llama.rope.scaling.type", GGUF_OPTIONAL, &type, err) ||
        !real(g, "llama.rope.scale_linear", GGUF_OPTIONAL, &factor, err) ||
        !real(g, "llama.rope.scaling.factor", GGUF_OPTIONAL, &factor, err) ||
        !positive(g, "llama.rope.scaling.original_context_length", GGUF_OPTIONAL, INT32_MAX, &n_ctx_orig, err))
        return false;
    bool yarn = gguf_str_is(type, "yarn");
    if (!yarn && !gguf_str_is(type, "linear") && !gguf_str_is(type, "none"))
        return err_set(err, "llama.rope.scaling.type is %s, expected \"none\", \"linear\" or \"yarn\"",
                       quoted(q, type.s, type.n));
    if (!(factor >= 0)) return err_set(err, "llama.rope.scaling.factor is %g, expected 0 or more", (double)factor);
    r->n_ctx_orig = (int32_t)n_ctx_orig;
    // Some files write 0 for "no scaling".
    r->freq_scale = gguf_str_is(type, "none") || factor == 0 ? 1 : 1 / factor;
    r->ext_factor = yarn ? 1 : 0;
    r->attn_factor = 1;
    r->beta_fast = 32;
    r->beta_slow = 1;
    return real(g, "llama.rope.scaling.attn_factor", GGUF_OPTIONAL, &r->attn_factor, err) &&
           real(g, "llama.rope.scaling.yarn_ext_factor", GGUF_OPTIONAL, &r->ext_factor, err) &&
           real(g, "llama.rope.scaling.yarn_attn_factor", GGUF_OPTIONAL, &r->attn_factor, err) &&
           real(g, "llama.rope.scaling.yarn_beta_fast", GGUF_OPTIONAL, &r->beta_fast, err) &&
           real(g, "llama.rope.scaling.yarn_beta_slow", GGUF_OPTIONAL, &r->beta_slow, err);
}

static bool load_rope(struct hparams *hp, const struct gguf *g, struct err *err) {
    int64_t dims = hp->head_dim;
    ingot_rope_params *r = &hp->rope;
    // The converter to GGUF reorders the q and k weights of this architecture for adjacent pairs.
    *r = (ingot_rope_params){.mode = INGOT_ROPE_NORMAL, .freq_base = 10000};
    if (!positive(g, "llama.rope.dimension_count", GGUF_OPTIONAL, (uint64_t)hp->head_dim, &dims, err) ||
        !real(g, "llama.rope.freq_base", GGUF_OPTIONAL, &r->freq_base, err))
        return false;
    if (dims % 2) return err_set(err, "llama.rope.dimension_count is %" PRId64 ", expected an even number", dims);
    if (!(r->freq_base > 0)) return err_set(err, "llama.rope.freq_base is %g, expected above 0", (double)r->freq_base);
    r->n_dims = (int32_t)dims;
    return load_rope_scaling(hp, g, err);
}

static bool check_architecture(const struct gguf *g, struct err *err) {
    char q[QUOTED_BYTES];
    struct gguf_str arch;
    uint64_t experts = 0;
    if (!gguf_get_str(g, "general.architecture", GGUF_REQUIRED, &arch, err)) return false;
    if (!gguf_str_is(arch, "llama"))
        return err_set(err, "architecture %s is not supported, expected \"llama\"", quoted(q, arch.s, arch.n));
    if (!gguf_get_uint(g, "llama.expert_count", GGUF_OPTIONAL, UINT32_MAX, &experts, err)) return false;
    if (experts)
        return err_set(err, "architecture \"llama\" with %" PRIu64 " experts is not supported, expected a dense model",
                       experts);
    return true;
}

bool hparams_load(struct hparams *hp, const struct gguf *g, struct err *err) {
    *hp = (struct hparams){0};
    if (!check_architecture(g, err) ||
        !positive(g, "llama.block_count", GGUF_REQUIRED, MOST_LAYERS, &hp->n_layer, err) ||
        !positive(g, "llama.context_length", GGUF_REQUIRED, INT32_MAX, &hp->n_ctx_train, err) ||
        !positive(g, "llama.embedding_length", GGUF_REQUIRED, MOST_WIDTH, &hp->n_embd, err) ||
        !positive(g, "llama.feed_forward_length", GGUF_REQUIRED, MOST_WIDTH, &hp->n_ff, err) ||
        !positive(g, "llama.attention.head_count", GGUF_REQUIRED, MOST_HEADS, &hp->n_head, err) ||
        !real(g, "llama.attention.layer_norm_rms_epsilon", GGUF_REQUIRED, &hp->rms_eps, err))
        return false;
    hp->n_head_kv = hp->n_head;
    if (!positive(g, "llama.attention.head_count_kv", GGUF_OPTIONAL, (uint64_t)hp->n_head, &hp->n_head_kv, err))
        return false;
    if (hp->n_head % hp->n_head_kv)
        return err_set(err, "%" PRId64 " heads over %" PRId64 " key/value heads, expected a multiple", hp->n_head,
                       hp->n_head_kv);
    int64_t value_dim = hp->head_dim = hp->n_embd / hp->n_head;
    if (!gguf_has(g, "llama.attention.key_length") && hp->n_embd % hp->n_head)
        return err_set(err, "embedding length %" PRId64 " over %" PRId64 " heads, expected a multiple", hp->n_embd,
                       hp->n_head);
    if (!positive(g, "llama.attention.key_length", GGUF_OPTIONAL, MOST_HEAD_DIM, &hp->head_dim, err) ||
        !positive(g, "llama.attention.value_length", GGUF_OPTIONAL, MOST_HEAD_DIM, &value_dim, err))
        return false;
    if (value_dim != hp->head_dim || hp->head_dim < 1 || hp->head_dim > MOST_HEAD_DIM)
        return err_set(err, "heads of %" PRId64 " key and %" PRId64 " value elements, expected equal ones, 1 to %d",
                       hp->head_dim, value_dim, MOST_HEAD_DIM);
    if (!(hp->rms_eps >= 0))
        return err_set(err, "llama.attention.layer_norm_rms_epsilon is %g, expected 0 or more", (double)hp->rms_eps);
    const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    if (!embd) return err_set(err, "tensor \"token_embd.weight\" is missing");
    if (embd->ne[1] > INT32_MAX / 4)
        return err_set(err, "token_embd.weight has %" PRId64 " rows, expected at most %d", embd->ne[1], INT32_MAX / 4);
    hp->n_vocab = embd->ne[1];
    return load_rope(hp, g, err);
}
