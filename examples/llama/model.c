// SPDX-License-Identifier: MIT
//
// Opening a model and running tokens through it; contracts are in model.h. Inputs go up and logits come down through
// pinned memory, one asynchronous copy each; every pass ends with a synchronisation, so the pinned blocks are free
// again for the next.
#include "model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP_RUNS = 3 }; // launches, then records, then replays the CUDA graph

struct model {
    struct hparams hp;
    ingot_device device;
    ingot_context *ctx;
    struct weights w;
    struct kv_cache kv;
    ingot_buffer *input, *pinned_input, *pinned_logits;
    struct step one, full, tail; // passes over 1 token, `batch` tokens, and the rest of the last prompt
    int64_t batch, past;
    ingot_prec prec;
};

static bool open_context(struct model *m, int device, struct err *err) {
    ingot_context_options options = INGOT_CONTEXT_OPTIONS;
    options.device = device;
    return status_ok(NULL, ingot_device_get(device, &m->device), "device", err) &&
           status_ok(NULL, ingot_context_create(&options, &m->ctx), "device", err);
}

static bool open_buffers(struct model *m, struct err *err) {
    size_t input_bytes = (size_t)(2 * m->batch + 1) * sizeof(int32_t);
    size_t logits_bytes = (size_t)m->hp.n_vocab * sizeof(float);
    return status_ok(m->ctx, ingot_buffer_create(m->ctx, INGOT_MEMORY_DEVICE, input_bytes, &m->input), "memory", err) &&
           status_ok(m->ctx, ingot_buffer_create(m->ctx, INGOT_MEMORY_PINNED, input_bytes, &m->pinned_input),
                     "pinned memory", err) &&
           status_ok(m->ctx, ingot_buffer_create(m->ctx, INGOT_MEMORY_PINNED, logits_bytes, &m->pinned_logits),
                     "pinned memory", err);
}

// Runs the one-token pass until its CUDA graph replays, so that no token waits for that. Position 0 is overwritten by
// the first real token.
static bool warm_up(struct model *m, struct err *err) {
    int32_t token = 0;
    for (int i = 0; i < WARM_UP_RUNS && !m->device.simt; i++) {
        m->past = 0;
        if (!model_eval(m, &token, 1, NULL, err)) return false;
    }
    m->past = 0;
    return true;
}

struct model *model_open(const struct gguf *g, const struct model_options *o, struct err *err) {
    struct model *m = new_array(1, sizeof *m, "the model", err);
    if (!m) return NULL;
    if (!hparams_load(&m->hp, g, err) || !open_context(m, o->device, err)) goto failed;
    m->prec = o->prec;
    int64_t train = m->hp.n_ctx_train;
    int64_t n_ctx = o->n_ctx ? o->n_ctx : train < MODEL_DEFAULT_CTX ? train : MODEL_DEFAULT_CTX;
    m->batch = o->batch ? o->batch : m->device.simt ? MODEL_BATCH_SIMT : MODEL_BATCH;
    if (m->batch > n_ctx) m->batch = n_ctx;
    if (!weights_load(&m->w, &m->hp, g, m->ctx, o->progress, o->progress_arg, err) ||
        !kv_create(&m->kv, &m->hp, n_ctx, m->ctx, err) || !open_buffers(m, err) ||
        !step_build(&m->one, &m->hp, &m->w, &m->kv, m->input, 1, m->prec, m->ctx, err) || !warm_up(m, err))
        goto failed;
    return m;
failed:
    model_close(m);
    return NULL;
}

void model_close(struct model *m) {
    if (!m) return;
    step_free(&m->one);
    step_free(&m->full);
    step_free(&m->tail);
    ingot_buffer_destroy(m->input);
    ingot_buffer_destroy(m->pinned_input);
    ingot_buffer_destroy(m->pinned_logits);
    kv_free(&m->kv);
    weights_free(&m->w);
    ingot_context_destroy(m->ctx);
    free(m);
}

// The step for a pass over n tokens, built if need be. NULL with err set on failure.
static struct step *step_for(struct model *m, int64_t n, struct err *err) {
    struct step *s = n == 1 ? &m->one : n == m->batch ? &m->full : &m->tail;
    if (s->n == n) return s;
    step_free(s);
    return step_build(s, &m->hp, &m->w, &m->kv, m->input, n, m->prec, m->ctx, err) ? s : NULL;
}

// Queues a pass over n tokens, at most `batch`; the logits stay on the device.
static struct step *run(struct model *m, const int32_t *tokens, int64_t n, struct err *err) {
    struct step *s = step_for(m, n, err);
    if (!s) return NULL;
    int32_t *in = ingot_buffer_data(m->pinned_input);
    memcpy(in, tokens, (size_t)n * sizeof *in);
    for (int64_t i = 0; i < n; i++) in[n + i] = (int32_t)(m->past + i);
    in[2 * n] = (int32_t)(m->past + n);
    if (!status_ok(m->ctx, ingot_buffer_set_async(m->input, 0, in, (size_t)(2 * n + 1) * sizeof *in), "tokens", err) ||
        !status_ok(m->ctx, ingot_graph_run(s->graph), "a pass", err))
        return NULL;
    return s;
}

bool model_eval(struct model *m, const int32_t *tokens, int64_t n, const float **logits, struct err *err) {
    if (n < 1 || n > m->kv.n_ctx - m->past)
        return err_set(err, "%" PRId64 " tokens after %" PRId64 " do not fit a context of %" PRId64, n, m->past,
                       m->kv.n_ctx);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->hp.n_vocab)
            return err_set(err, "token %" PRId32 " at %" PRId64 ", expected 0 to %" PRId64, tokens[i], i,
                           m->hp.n_vocab - 1);
    int64_t before = m->past;
    for (int64_t at = 0, part; at < n; at += part) {
        part = n - at < m->batch ? n - at : m->batch;
        struct step *s = run(m, tokens + at, part, err);
        float *out = ingot_buffer_data(m->pinned_logits);
        bool last = at + part == n;
        if (!s ||
            (last && logits &&
             !status_ok(m->ctx,
                        ingot_buffer_get_async(s->arena, s->logits_at, out, ingot_buffer_size(m->pinned_logits)),
                        "logits", err)) ||
            !status_ok(m->ctx, ingot_synchronize(m->ctx), "a pass", err)) {
            m->past = before;
            return false;
        }
        m->past += part;
        if (last && logits) *logits = out;
    }
    return true;
}

int64_t model_past(const struct model *m) {
    return m->past;
}

void model_forget(struct model *m) {
    m->past = 0;
}

const struct hparams *model_hparams(const struct model *m) {
    return &m->hp;
}

const ingot_device *model_device(const struct model *m) {
    return &m->device;
}

int64_t model_n_ctx(const struct model *m) {
    return m->kv.n_ctx;
}

int model_launches(const struct model *m) {
    return m->one.info.launches;
}

uint64_t model_bytes(const struct model *m) {
    return m->w.bytes;
}

uint64_t model_bytes_per_token(const struct model *m) {
    return m->w.bytes_per_token;
}
