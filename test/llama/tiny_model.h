// SPDX-License-Identifier: MIT
//
// A llama model of a few kilobytes with random weights, as a GGUF file in memory, and its logits computed in double
// from the same weights, plainly. For test_model.
#ifndef TEST_LLAMA_TINY_MODEL_H
#define TEST_LLAMA_TINY_MODEL_H

#include <math.h>
#include <stdio.h>

#include "gguf_writer.h"

enum {
    TINY_VOCAB = 48,
    TINY_EMBD = 64,
    TINY_LAYERS = 2,
    TINY_HEADS = 4,
    TINY_KV_HEADS = 2,
    TINY_DIM = 16,
    TINY_FF = 96,
    TINY_CTX = 32,
    TINY_ROPE = 12,
    TINY_MOST_TENSORS = 32,
    TINY_F32 = 0,
    TINY_Q8_0 = 8,
};

// What to build, and what to get wrong. All zero is a good f32 model with tied embeddings.
struct tiny_config {
    bool quantised;    // matrices in q8_0, but attn_v and the head in f32, so that q, k, v are not of one type
    bool untied;       // an output.weight of its own
    bool rope_factors; // a rope_freqs.weight, and linear scaling by 2
    const char *arch, *drop_key, *drop_tensor, *grow_tensor, *f16_tensor, *extra_tensor, *scaling;
    uint32_t kv_heads, rope_dims, experts; // 0: the right ones
};

struct tiny_tensor {
    char name[48];
    uint32_t type;
    int64_t ne0, ne1; // ne1 0: one dimension
    double *w;
};

struct tiny {
    struct tiny_config c;
    struct tiny_tensor t[TINY_MOST_TENSORS];
    int n;
    uint64_t rng;
    struct bytes file;
};

// ---- the tiny model: file ----

static struct tiny_tensor *add_tensor(struct tiny *t, const char *name, uint32_t type, int64_t ne0, int64_t ne1) {
    struct tiny_tensor *x = &t->t[t->n];
    if (t->c.drop_tensor && !strcmp(name, t->c.drop_tensor)) return NULL;
    assert_true(t->n++ < TINY_MOST_TENSORS);
    snprintf(x->name, sizeof x->name, "%s", name);
    x->type = type;
    x->ne0 = ne0;
    x->ne1 = ne1 + (t->c.grow_tensor && !strcmp(name, t->c.grow_tensor));
    if (t->c.f16_tensor && !strcmp(name, t->c.f16_tensor)) x->type = 1;
    size_t n = (size_t)(x->ne0 * (x->ne1 ? x->ne1 : 1));
    x->w = malloc(n * sizeof *x->w);
    assert_non_null(x->w);
    for (size_t i = 0; i < n; i++) {
        // Multiples of 2^-9 are exact in every type that is used here.
        double q = (double)(int)(random_u64(&t->rng) % 255) - 127;
        x->w[i] = ne1 ? q / 512 : 1 + q / 1024;
    }
    return x;
}

static void add_layer_tensor(struct tiny *t, int il, const char *what, uint32_t type, int64_t ne0, int64_t ne1) {
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", il, what);
    add_tensor(t, name, type, ne0, ne1);
}

static void add_tensors(struct tiny *t) {
    uint32_t type = t->c.quantised ? TINY_Q8_0 : TINY_F32;
    int64_t kv = TINY_KV_HEADS * TINY_DIM, q = TINY_HEADS * TINY_DIM;
    add_tensor(t, "token_embd.weight", type, TINY_EMBD, TINY_VOCAB);
    for (int il = 0; il < TINY_LAYERS; il++) {
        add_layer_tensor(t, il, "attn_norm", TINY_F32, TINY_EMBD, 0);
        add_layer_tensor(t, il, "attn_q", type, TINY_EMBD, q);
        add_layer_tensor(t, il, "attn_k", type, TINY_EMBD, kv);
        add_layer_tensor(t, il, "attn_v", TINY_F32, TINY_EMBD, kv);
        add_layer_tensor(t, il, "attn_output", type, q, TINY_EMBD);
        add_layer_tensor(t, il, "ffn_norm", TINY_F32, TINY_EMBD, 0);
        add_layer_tensor(t, il, "ffn_gate", type, TINY_EMBD, TINY_FF);
        add_layer_tensor(t, il, "ffn_up", type, TINY_EMBD, TINY_FF);
        add_layer_tensor(t, il, "ffn_down", type, TINY_FF, TINY_EMBD);
    }
    add_tensor(t, "output_norm.weight", TINY_F32, TINY_EMBD, 0);
    if (t->c.untied) add_tensor(t, "output.weight", TINY_F32, TINY_EMBD, TINY_VOCAB);
    if (t->c.rope_factors) {
        struct tiny_tensor *f = add_tensor(t, "rope_freqs.weight", TINY_F32, TINY_ROPE / 2, 0);
        for (int i = 0; i < TINY_ROPE / 2; i++) f->w[i] = 1 + i / 4.0;
    }
    if (t->c.extra_tensor) add_tensor(t, t->c.extra_tensor, TINY_F32, TINY_EMBD, 0);
}

static uint64_t tensor_bytes(const struct tiny_tensor *x) {
    uint64_t n = (uint64_t)(x->ne0 * (x->ne1 ? x->ne1 : 1));
    return x->type == TINY_Q8_0 ? n / 32 * 34 : x->type == 1 ? n * 2 : n * 4;
}

static void put_tensor_data(struct bytes *b, const struct tiny_tensor *x) {
    int64_t n = x->ne0 * (x->ne1 ? x->ne1 : 1);
    for (int64_t i = 0; i < n; i++)
        if (x->type == TINY_F32) {
            put(b, &(float){(float)x->w[i]}, 4);
        } else if (x->type == 1) {
            put(b, "\0", 2); // only refused, never read
        } else {
            if (i % 32 == 0) put(b, &(uint16_t){(15 - 9) << 10}, 2); // the f16 2^-9
            put(b, &(int8_t){(int8_t)lrint(x->w[i] * 512)}, 1);
        }
}

static void key_u32(struct tiny *t, const char *key, uint32_t v, uint64_t *keys) {
    if (t->c.drop_key && !strcmp(key, t->c.drop_key)) return;
    put_key_u32(&t->file, key, v);
    ++*keys;
}

static void key_f32(struct tiny *t, const char *key, float v, uint64_t *keys) {
    if (t->c.drop_key && !strcmp(key, t->c.drop_key)) return;
    put_key(&t->file, key, GGUF_F32);
    put(&t->file, &v, 4);
    ++*keys;
}

static uint64_t put_keys(struct tiny *t) {
    uint64_t keys = 1;
    put_key_str(&t->file, "general.architecture", t->c.arch ? t->c.arch : "llama");
    key_u32(t, "llama.block_count", TINY_LAYERS, &keys);
    key_u32(t, "llama.context_length", TINY_CTX, &keys);
    key_u32(t, "llama.embedding_length", TINY_EMBD, &keys);
    key_u32(t, "llama.feed_forward_length", TINY_FF, &keys);
    key_u32(t, "llama.attention.head_count", TINY_HEADS, &keys);
    key_u32(t, "llama.attention.head_count_kv", t->c.kv_heads ? t->c.kv_heads : TINY_KV_HEADS, &keys);
    key_u32(t, "llama.rope.dimension_count", t->c.rope_dims ? t->c.rope_dims : TINY_ROPE, &keys);
    key_f32(t, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &keys);
    key_f32(t, "llama.rope.freq_base", 1000, &keys);
    if (t->c.experts) key_u32(t, "llama.expert_count", t->c.experts, &keys);
    if (t->c.rope_factors) key_f32(t, "llama.rope.scaling.factor", 2, &keys);
    if (t->c.scaling) {
        put_key_str(&t->file, "llama.rope.scaling.type", t->c.scaling);
        keys++;
    }
    return keys;
}

// Builds the file of t->c. Out of memory ends the test program.
static void tiny_build(struct tiny *t) {
    t->rng = 7;
    add_tensors(t);
    put_head(&t->file, 3, (uint64_t)t->n, 0);
    uint64_t keys = put_keys(t), at = 0;
    memcpy(t->file.p + 16, &keys, 8);
    for (int i = 0; i < t->n; i++) {
        const struct tiny_tensor *x = &t->t[i];
        uint64_t ne[2] = {(uint64_t)x->ne0, (uint64_t)x->ne1};
        put_tensor(&t->file, x->name, x->ne1 ? 2 : 1, ne, x->type, at);
        at += (tensor_bytes(x) + 31) / 32 * 32;
    }
    for (int i = 0; i < t->n; i++) {
        pad_to(&t->file, 32);
        put_tensor_data(&t->file, &t->t[i]);
    }
}

static void tiny_free(struct tiny *t) {
    for (int i = 0; i < t->n; i++) free(t->t[i].w);
    bytes_free(&t->file);
    *t = (struct tiny){.c = t->c};
}

// ---- the tiny model: reference ----

// The weights of a tensor of layer il, or of the whole model if il is -1; NULL when there are none.
static const double *weight(const struct tiny *t, int il, const char *what) {
    char name[48];
    if (il < 0) snprintf(name, sizeof name, "%s.weight", what);
    else snprintf(name, sizeof name, "blk.%d.%s.weight", il, what);
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->t[i].name, name)) return t->t[i].w;
    return NULL;
}

static void matvec(const double *w, const double *x, int k, int m, double *y) {
    for (int i = 0; i < m; i++) {
        y[i] = 0;
        for (int j = 0; j < k; j++) y[i] += w[i * k + j] * x[j];
    }
}

static void rms(const double *x, const double *w, double *y) {
    double sum = 0;
    for (int i = 0; i < TINY_EMBD; i++) sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / TINY_EMBD + (double)1e-5f);
    for (int i = 0; i < TINY_EMBD; i++) y[i] = x[i] * scale * w[i];
}

static void rotate(const struct tiny *t, double *x, int heads, int pos) {
    const double *factors = weight(t, -1, "rope_freqs");
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < TINY_ROPE / 2; i++) {
            double angle = pos * pow(1000, -2.0 * i / TINY_ROPE) / (factors ? 2 * factors[i] : 1);
            double *p = x + h * TINY_DIM + 2 * i, a = p[0], b = p[1];
            p[0] = a * cos(angle) - b * sin(angle);
            p[1] = a * sin(angle) + b * cos(angle);
        }
}

// Attention of one token over all keys up to its own.
static void attend(const double *q, double (*k)[TINY_KV_HEADS * TINY_DIM], double (*v)[TINY_KV_HEADS * TINY_DIM],
                   int pos, double *out) {
    for (int h = 0; h < TINY_HEADS; h++) {
        int g = h / (TINY_HEADS / TINY_KV_HEADS) * TINY_DIM;
        double p[TINY_CTX], sum = 0;
        for (int j = 0; j <= pos; j++) {
            double dot = 0;
            for (int i = 0; i < TINY_DIM; i++) dot += q[h * TINY_DIM + i] * k[j][g + i];
            sum += p[j] = exp(dot / sqrt(TINY_DIM));
        }
        for (int i = 0; i < TINY_DIM; i++) {
            out[h * TINY_DIM + i] = 0;
            for (int j = 0; j <= pos; j++) out[h * TINY_DIM + i] += p[j] / sum * v[j][g + i];
        }
    }
}

// logits[n][TINY_VOCAB] after each of the n tokens.
static void tiny_reference(const struct tiny *t, const int32_t *tokens, int n, double *logits) {
    static double k[TINY_LAYERS][TINY_CTX][TINY_KV_HEADS * TINY_DIM],
        v[TINY_LAYERS][TINY_CTX][TINY_KV_HEADS * TINY_DIM];
    enum { Q = TINY_HEADS * TINY_DIM, KV = TINY_KV_HEADS * TINY_DIM };
    double x[TINY_EMBD], h[TINY_EMBD], y[TINY_EMBD], q[Q], a[Q], gate[TINY_FF], up[TINY_FF];
    for (int pos = 0; pos < n; pos++) {
        memcpy(x, weight(t, -1, "token_embd") + tokens[pos] * TINY_EMBD, sizeof x);
        for (int il = 0; il < TINY_LAYERS; il++) {
            rms(x, weight(t, il, "attn_norm"), h);
            matvec(weight(t, il, "attn_q"), h, TINY_EMBD, Q, q);
            matvec(weight(t, il, "attn_k"), h, TINY_EMBD, KV, k[il][pos]);
            matvec(weight(t, il, "attn_v"), h, TINY_EMBD, KV, v[il][pos]);
            rotate(t, q, TINY_HEADS, pos);
            rotate(t, k[il][pos], TINY_KV_HEADS, pos);
            attend(q, k[il], v[il], pos, a);
            matvec(weight(t, il, "attn_output"), a, Q, TINY_EMBD, y);
            for (int i = 0; i < TINY_EMBD; i++) x[i] += y[i];
            rms(x, weight(t, il, "ffn_norm"), h);
            matvec(weight(t, il, "ffn_gate"), h, TINY_EMBD, TINY_FF, gate);
            matvec(weight(t, il, "ffn_up"), h, TINY_EMBD, TINY_FF, up);
            for (int i = 0; i < TINY_FF; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
            matvec(weight(t, il, "ffn_down"), gate, TINY_FF, TINY_EMBD, y);
            for (int i = 0; i < TINY_EMBD; i++) x[i] += y[i];
        }
        rms(x, weight(t, -1, "output_norm"), h);
        const double *head = weight(t, -1, "output");
        matvec(head ? head : weight(t, -1, "token_embd"), h, TINY_EMBD, TINY_VOCAB, logits + pos * TINY_VOCAB);
    }
}

#endif
