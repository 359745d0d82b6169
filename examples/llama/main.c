// SPDX-License-Identifier: MIT
//
// llama: a demo of ingot. It reads a GGUF file, uploads its weights, and continues a prompt or chats, one CUDA graph
// launch per token. Read on in this order: gguf.h, tokenizer.h, model.h, forward.c (the transformer), session.c.
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

static volatile sig_atomic_t stop;

// The second signal ends the program as usual.
static void on_signal(int number) {
    stop = 1;
    signal(number, SIG_DFL);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal}; // without SA_RESTART: a read from the terminal ends
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

// Progress of the upload, in whole percents, on a terminal.
static void show_progress(void *arg, uint64_t done, uint64_t total) {
    int *shown = arg, percent = total ? (int)(done * 100 / total) : 100;
    if (percent == *shown) return;
    *shown = percent;
    fprintf(stderr, "\rloading %d %%", percent);
}

static void print_version(void) {
    ingot_build b = ingot_build_info();
    printf("llama, with ingot %s (%s; ptx %s; %s; %d kernels; cuBLASLt %s)\n", b.version, b.archs, b.ptx, b.types,
           b.kernels, b.cublaslt ? "yes" : "no");
}

static bool open_model(struct session *s, const struct options *o, const struct gguf *g, struct err *err) {
    int shown = -1;
    bool tty = !o->quiet && isatty(STDERR_FILENO);
    struct model_options m = {.device = (int)o->device,
                              .n_ctx = o->n_ctx,
                              .batch = o->batch,
                              .prec = o->exact ? INGOT_PREC_F32 : INGOT_PREC_DEFAULT,
                              .progress = tty ? show_progress : NULL,
                              .progress_arg = &shown};
    if (!o->quiet && !tty) fprintf(stderr, "loading %s\n", o->model);
    s->model = model_open(g, &m, err);
    if (tty) fputs("\r\033[K", stderr);
    if (!s->model) return false;
    const struct hparams *hp = model_hparams(s->model);
    if (!o->quiet) {
        fprintf(stderr, "%s: %" PRId64 " layers, %.1f MB of weights on %s, context %" PRId64 "\n", o->model,
                hp->n_layer, 1e-6 * (double)model_bytes(s->model), model_device(s->model)->name, model_n_ctx(s->model));
        if (model_n_ctx(s->model) > hp->n_ctx_train)
            fprintf(stderr, "note: the model was trained with a context of %" PRId64 "\n", hp->n_ctx_train);
    }
    return true;
}

static bool open_session(struct session *s, const struct options *o, const struct gguf *g, struct err *err) {
    struct err why;
    s->tok = tok_create(g, err);
    if (!s->tok) return false;
    if ((o->mode == MODE_CHAT || (o->interactive && o->mode == MODE_DEFAULT))) {
        s->is_chat = chat_detect(&s->chat, g, s->tok, &why);
        if (!s->is_chat) fprintf(stderr, "note: no chat: %s; the prompt is continued as it is\n", why.text);
    }
    if (!open_model(s, o, g, err)) return false;
    int64_t n_vocab = model_hparams(s->model)->n_vocab;
    if (tok_count(s->tok) != n_vocab)
        return err_set(err, "the vocabulary has %" PRId32 " tokens, token_embd.weight has %" PRId64 " rows",
                       tok_count(s->tok), n_vocab);
    s->sampler = sampler_create(&o->sampler, (int32_t)n_vocab, err);
    return s->sampler != NULL;
}

static bool run(const struct options *o, struct err *err) {
    struct session s = {.o = o, .stop = &stop};
    struct gguf *g = gguf_open(o->model, err);
    bool ok = g && open_session(&s, o, g, err);
    if (ok) {
        catch_signals();
        ok = o->logits ? session_write_logits(&s, err) : session_run(&s, err);
        if (!o->quiet && (ok || s.generated)) session_report(&s);
    }
    sampler_free(s.sampler);
    model_close(s.model);
    chat_free(&s.chat);
    tok_free(s.tok);
    gguf_close(g);
    return ok;
}

int main(int argc, char **argv) {
    struct options o;
    struct err err = {""};
    bool ok = options_parse(&o, argc, argv, &err);
    if (ok && o.help) options_help(stdout);
    else if (ok && o.version) print_version();
    else if (ok) ok = run(&o, &err);
    if (ok && (ferror(stdout) || fflush(stdout) != 0)) ok = err_set(&err, "writing to standard output failed");
    options_free(&o);
    if (!ok) fprintf(stderr, "llama: %s\n", err.text);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
