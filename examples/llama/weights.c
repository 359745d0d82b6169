// SPDX-License-Identifier: MIT
//
// Placing and uploading weights; contracts are in weights.h. One function walks the model's tensors in order and is
// called twice: first to check and to add up sizes, then, with the buffer there, to point tensors at it and to upload.
#include "weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, NAME_BYTES = 64 };

struct loader {
    const struct gguf *g;
    ingot_context *ctx;
    ingot_buffer *buffer; // NULL in the first walk
    uint64_t at, done;    // bytes placed, of them uploaded
    uint64_t total;       // what the first walk found
    bool *used;           // for each tensor of the file
    load_progress progress;
    void *arg;
    struct err *err;
};

bool status_ok(const ingot_context *ctx, ingot_status status, const char *what, struct err *err) {
    return status == INGOT_OK || err_set(err, "%s: %s: %s", what, ingot_status_name(status), ingot_error(ctx));
}

// The file's tensor `name` of shape [ne0] or [ne0, ne1], marked as used; NULL with err set otherwise.
static const struct gguf_tensor *need(struct loader *l, const char *name, int n_dims, int64_t ne0, int64_t ne1) {
    const struct gguf_tensor *t = gguf_find_tensor(l->g, name);
    if (!t) {
        err_set(l->err, "tensor \"%s\" is missing", name);
        return NULL;
    }
    if (t->ne[0] != ne0 || t->ne[1] != ne1 || t->ne[2] != 1 || t->ne[3] != 1) {
        char want[NAME_BYTES];
        snprintf(want, sizeof want, n_dims == 1 ? "[%" PRId64 "]" : "[%" PRId64 ", %" PRId64 "]", ne0, ne1);
        err_set(l->err,
                "tensor \"%s\" has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], expected %s by the "
                "metadata",
                name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], want);
        return NULL;
    }
    l->used[t - gguf_tensor_at(l->g, 0)] = true;
    return t;
}

// Gives the tensor its place (right after the one before if `joined`) and, in the second walk, its data.
static bool place(struct loader *l, const struct gguf_tensor *t, bool joined, ingot_tensor *out) {
    char what[NAME_BYTES + 16];
    if (!joined) l->at = (l->at + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
    if (!status_ok(NULL, ingot_tensor_init(out, (ingot_type)t->type, t->n_dims, t->ne, NULL), "a tensor", l->err))
        return false;
    if (l->buffer) {
        out->data = (char *)ingot_buffer_data(l->buffer) + l->at;
        snprintf(what, sizeof what, "uploading %.*s", (int)(t->name.n < 48 ? t->name.n : 48), t->name.s);
        if (!status_ok(l->ctx, ingot_buffer_set(l->buffer, l->at, t->data, t->bytes), what, l->err)) return false;
        l->done += t->bytes;
        if (l->progress) l->progress(l->arg, l->done, l->total);
    } else {
        l->total += t->bytes;
    }
    l->at += t->bytes;
    return true;
}

static bool place_f32(struct loader *l, const char *name, int64_t n, ingot_tensor *out) {
    const struct gguf_tensor *t = need(l, name, 1, n, 1);
    if (!t) return false;
    if (t->type != INGOT_TYPE_F32)
        return err_set(l->err, "tensor \"%s\" has type %s, expected f32", name, ingot_type_name((ingot_type)t->type));
    return place(l, t, false, out);
}

// Whether the build has a product for this matrix, asked before gigabytes are uploaded.
static bool can_multiply(struct loader *l, const char *name, const ingot_tensor *a) {
    ingot_tensor x;
    ingot_node node = {.op = INGOT_OP_MUL_MAT, .src = {a, &x}};
    ingot_tensor_init(&x, INGOT_TYPE_F32, 1, (int64_t[]){a->ne[0]}, NULL);
    ingot_tensor_init(&node.dst, INGOT_TYPE_F32, 1, (int64_t[]){a->ne[1]}, NULL);
    return status_ok(l->ctx, ingot_supports(l->ctx, &node), name, l->err);
}

static bool place_matrix(struct loader *l, const char *name, int64_t ne0, int64_t ne1, ingot_tensor *out) {
    const struct gguf_tensor *t = need(l, name, 2, ne0, ne1);
    return t && place(l, t, false, out) && (l->buffer || can_multiply(l, name, out));
}

// Places the matrices names[0..n) of layer il, all with ne0 columns, as one bundle.
static bool place_bundle(struct loader *l, int64_t il, int n, const char *const *names, int64_t ne0,
                         const int64_t *rows, struct bundle *b) {
    b->n_parts = n;
    b->n_mats = 0;
    for (int p = 0; p < n; p++) {
        char name[NAME_BYTES];
        ingot_tensor part;
        snprintf(name, sizeof name, "blk.%" PRId64 ".%s.weight", il, names[p]);
        const struct gguf_tensor *t = need(l, name, 2, ne0, rows[p]);
        if (!t) return false;
        bool joined = p > 0 && b->mat[b->n_mats - 1].type == (ingot_type)t->type;
        if (!place(l, t, joined, &part) || !(l->buffer || can_multiply(l, name, &part))) return false;
        if (!joined) b->mat[b->n_mats++] = part;
        ingot_tensor *mat = &b->mat[b->n_mats - 1];
        b->mat_of[p] = b->n_mats - 1;
        b->row[p] = joined ? mat->ne[1] : 0;
        b->rows[p] = rows[p];
        int64_t ne[2] = {ne0, b->row[p] + rows[p]};
        if (!status_ok(NULL, ingot_tensor_init(mat, mat->type, 2, ne, mat->data), name, l->err)) return false;
    }
    return true;
}

static bool walk_layer(struct loader *l, const struct hparams *hp, int64_t il, struct layer *y) {
    static const char *const qkv[] = {"attn_q", "attn_k", "attn_v"}, *const gate_up[] = {"ffn_gate", "ffn_up"};
    int64_t q = hp->n_head * hp->head_dim, kv = hp->n_head_kv * hp->head_dim;
    char name[4][NAME_BYTES];
    static const char *const parts[] = {"attn_norm", "attn_output", "ffn_norm", "ffn_down"};
    for (int i = 0; i < 4; i++) snprintf(name[i], NAME_BYTES, "blk.%" PRId64 ".%s.weight", il, parts[i]);
    return place_f32(l, name[0], hp->n_embd, &y->attn_norm) &&
           place_bundle(l, il, 3, qkv, hp->n_embd, (int64_t[]){q, kv, kv}, &y->qkv) &&
           place_matrix(l, name[1], q, hp->n_embd, &y->o) && place_f32(l, name[2], hp->n_embd, &y->ffn_norm) &&
           place_bundle(l, il, 2, gate_up, hp->n_embd, (int64_t[]){hp->n_ff, hp->n_ff}, &y->gate_up) &&
           place_matrix(l, name[3], hp->n_ff, hp->n_embd, &y->down);
}

static bool walk(struct loader *l, const struct hparams *hp, struct weights *w) {
    uint64_t head_at = 0;
    l->at = 0;
    if (!place_matrix(l, "token_embd.weight", hp->n_embd, hp->n_vocab, &w->embd)) return false;
    w->head = w->embd;
    if (gguf_find_tensor(l->g, "output.weight")) {
        head_at = l->at;
        if (!place_matrix(l, "output.weight", hp->n_embd, hp->n_vocab, &w->head)) return false;
    }
    for (int64_t il = 0; il < hp->n_layer; il++)
        if (!walk_layer(l, hp, il, &w->layers[il])) return false;
    if (!place_f32(l, "output_norm.weight", hp->n_embd, &w->out_norm)) return false;
    if (gguf_find_tensor(l->g, "rope_freqs.weight") &&
        !place_f32(l, "rope_freqs.weight", hp->rope.n_dims / 2, &w->rope_factors))
        return false;
    w->bytes = l->at;
    // Of an embedding table that is not the head too, one row is read.
    w->bytes_per_token = l->at - head_at;
    return true;
}

static bool check_all_used(const struct loader *l) {
    char q[QUOTED_BYTES];
    for (uint64_t i = 0; i < gguf_n_tensors(l->g); i++) {
        struct gguf_str name = gguf_tensor_at(l->g, i)->name;
        // Old converters stored the rotation's frequencies, which follow from the metadata.
        static const char old[] = ".attn.rot_embd.inv_freq", old2[] = ".attn_rot_embd";
        bool ignored =
            (name.n > sizeof old - 1 && !memcmp(name.s + name.n - (sizeof old - 1), old, sizeof old - 1)) ||
            (name.n > sizeof old2 - 1 && !memcmp(name.s + name.n - (sizeof old2 - 1), old2, sizeof old2 - 1));
        if (!l->used[i] && !ignored)
            return err_set(l->err, "tensor %s is no part of a llama model as this program knows it",
                           quoted(q, name.s, name.n));
    }
    return true;
}

bool weights_load(struct weights *w, const struct hparams *hp, const struct gguf *g, ingot_context *ctx,
                  load_progress progress, void *arg, struct err *err) {
    struct loader l = {.g = g, .ctx = ctx, .progress = progress, .arg = arg, .err = err};
    bool ok = false;
    *w = (struct weights){0};
    w->layers = new_array((uint64_t)hp->n_layer, sizeof *w->layers, "the layers", err);
    l.used = new_array(gguf_n_tensors(g), sizeof *l.used, "the tensors", err);
    if (!w->layers || !l.used) goto done;
    if (!walk(&l, hp, w) || !check_all_used(&l)) goto done;
    if (!status_ok(ctx, ingot_buffer_create(ctx, INGOT_MEMORY_DEVICE, w->bytes, &w->buffer), "memory for the weights",
                   err))
        goto done;
    l.buffer = w->buffer;
    ok = walk(&l, hp, w);
done:
    free(l.used);
    if (!ok) weights_free(w);
    return ok;
}

void weights_free(struct weights *w) {
    ingot_buffer_destroy(w->buffer);
    free(w->layers);
    *w = (struct weights){0};
}
