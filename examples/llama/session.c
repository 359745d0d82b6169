// SPDX-License-Identifier: MIT
//
// Prompting, generating, chatting and the figures; contracts are in session.h.
#define _POSIX_C_SOURCE 200809L
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unicode.h"

enum { DEFAULT_TOKENS = 128 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool write_text(const struct bytes *text, struct err *err) {
    if ((text->n && fwrite(text->p, 1, text->n, stdout) != text->n) || fflush(stdout) != 0)
        return err_set(err, "writing to standard output: %s", strerror(errno));
    return true;
}

// Prints what a token completes.
static bool print_token(struct session *s, int32_t id, struct utf8_stream *u, struct err *err) {
    struct bytes piece = {0}, text = {0};
    bool ok =
        tok_decode(s->tok, id, 0, &piece, err) && utf8_push(u, piece.p, piece.n, &text, err) && write_text(&text, err);
    bytes_free(&piece);
    bytes_free(&text);
    return ok;
}

// Runs the prompt and then generates until an end token, `most` tokens, a full context or a signal. *ended tells that
// the last token was an end token, which is then in the context if there was room.
static bool answer(struct session *s, const struct ids *prompt, int64_t most, bool *ended, struct err *err) {
    const float *logits = NULL;
    struct utf8_stream u = {{0}, 0};
    struct bytes rest = {0};
    bool ok = false, cut = false;
    double t0 = now();
    *ended = false;
    if (!model_eval(s->model, prompt->p, (int64_t)prompt->n, &logits, err)) return false;
    double t1 = now();
    s->prompt_tokens += (int64_t)prompt->n;
    s->prompt_seconds += t1 - t0;
    for (int64_t i = 0; i < most && !*s->stop; i++) {
        int32_t id = sampler_next(s->sampler, logits);
        if (id < 0) {
            err_set(err, "no logit after %" PRId64 " tokens is a number above -inf", model_past(s->model));
            goto done;
        }
        *ended = tok_is_end(s->tok, id);
        if (!*ended && !print_token(s, id, &u, err)) goto done;
        if (model_past(s->model) == model_n_ctx(s->model)) {
            cut = !*ended && i + 1 < most;
            break;
        }
        // The last token is run too when more is to come after it.
        if ((*ended || i + 1 == most) && !s->o->interactive) break;
        if (!model_eval(s->model, &id, 1, &logits, err)) goto done;
        s->generated++;
        if (*ended) break;
    }
    ok = utf8_flush(&u, &rest, err) && bytes_add(&rest, "\n", 1, err) && write_text(&rest, err);
    if (cut && !s->o->quiet) fprintf(stderr, "[the context of %" PRId64 " tokens is full]\n", model_n_ctx(s->model));
done:
    s->generate_seconds += now() - t1;
    bytes_free(&rest);
    return ok;
}

// The turn's tokens after what is in the context already. `fresh`: nothing is; `ended`: the last answer closed itself.
static bool turn_tokens(struct session *s, const char *text, size_t n, bool fresh, bool ended, struct ids *out,
                        struct err *err) {
    if (!s->is_chat) {
        size_t dropped;
        if (!tok_encode(s->tok, text, n, TOK_SPECIAL | (fresh ? TOK_BOS : 0), out, &dropped, err)) return false;
        if (dropped && !s->o->quiet)
            fprintf(stderr, "note: %zu bytes of the prompt have no token in this vocabulary\n", dropped);
        return true;
    }
    const char *system = s->o->system ? s->o->system : s->chat.system.p;
    size_t system_n = s->o->system ? strlen(system) : s->chat.system.n;
    if (!fresh && !chat_close_answer(&s->chat, s->tok, ended, out, err)) return false;
    if (fresh && !tok_encode(s->tok, "", 0, TOK_BOS, out, NULL, err)) return false;
    if (fresh && system_n && !chat_turn(&s->chat, s->tok, "system", system, system_n, out, err)) return false;
    return chat_turn(&s->chat, s->tok, "user", text, n, out, err) && chat_open_answer(&s->chat, s->tok, out, err);
}

// One turn. A prompt that no longer fits after earlier turns starts the conversation again.
static bool turn(struct session *s, const char *text, size_t n, bool *ended, struct err *err) {
    struct ids ids = {0};
    int64_t past = model_past(s->model), n_ctx = model_n_ctx(s->model);
    int64_t most = s->o->n >= 0 ? s->o->n : s->o->interactive ? INT64_MAX : DEFAULT_TOKENS;
    bool ok = turn_tokens(s, text, n, past == 0, *ended, &ids, err);
    if (ok && past && (int64_t)ids.n > n_ctx - past) {
        fprintf(stderr, "[the context of %" PRId64 " tokens is full: the conversation starts again]\n", n_ctx);
        model_forget(s->model);
        ids.n = 0;
        ok = turn_tokens(s, text, n, true, false, &ids, err);
    }
    if (ok && ids.n == 0) ok = err_set(err, "the prompt is empty: it has no tokens");
    if (ok && (int64_t)ids.n > n_ctx)
        ok = err_set(err, "the prompt has %zu tokens, expected at most the context's %" PRId64 " (see -c)", ids.n,
                     n_ctx);
    // On a terminal the eye wants the beginning of the text that is continued.
    if (ok && !s->is_chat && !s->o->quiet && isatty(STDOUT_FILENO)) fwrite(text, 1, n, stderr);
    ok = ok && answer(s, &ids, most, ended, err);
    ids_free(&ids);
    return ok;
}

// Reads a line without its end. False at the end of input or on a signal.
static bool read_line(char **line, size_t *cap, size_t *n) {
    if (isatty(STDIN_FILENO)) fputs("> ", stderr);
    ssize_t got = getline(line, cap, stdin);
    if (got < 0) return false;
    while (got > 0 && ((*line)[got - 1] == '\n' || (*line)[got - 1] == '\r')) got--;
    *n = (size_t)got;
    return true;
}

bool session_run(struct session *s, struct err *err) {
    char *line = NULL;
    size_t cap = 0, n;
    bool ended = false, ok = true;
    if (s->o->has_tokens) {
        int64_t n_ctx = model_n_ctx(s->model);
        if ((int64_t)s->o->tokens.n > n_ctx)
            return err_set(err, "%zu tokens, expected at most the context's %" PRId64 " (see -c)", s->o->tokens.n,
                           n_ctx);
        return answer(s, &s->o->tokens, s->o->n >= 0 ? s->o->n : DEFAULT_TOKENS, &ended, err);
    }
    if (s->o->prompt) {
        ok = turn(s, s->o->prompt, strlen(s->o->prompt), &ended, err);
    }
    while (ok && s->o->interactive && !*s->stop && read_line(&line, &cap, &n))
        if (n) ok = turn(s, line, n, &ended, err);
    free(line);
    return ok;
}

bool session_write_logits(struct session *s, struct err *err) {
    const struct ids *ids = &s->o->tokens;
    size_t n_vocab = (size_t)model_hparams(s->model)->n_vocab;
    struct stat st;
    bool ok = false;
    if ((int64_t)ids->n > model_n_ctx(s->model))
        return err_set(err, "%zu tokens, expected at most the context's %" PRId64 " (see -c)", ids->n,
                       model_n_ctx(s->model));
    FILE *f = fopen(s->o->logits, "wb");
    if (!f) return err_set(err, "%s: %s", s->o->logits, strerror(errno));
    double t0 = now();
    for (size_t i = 0; i < ids->n; i++) {
        const float *logits;
        if (*s->stop) {
            err_set(err, "stopped by a signal after %zu of %zu tokens", i, ids->n);
            goto done;
        }
        if (!model_eval(s->model, &ids->p[i], 1, &logits, err)) goto done;
        s->generated++;
        if (fwrite(logits, sizeof *logits, n_vocab, f) != n_vocab) {
            err_set(err, "%s: %s", s->o->logits, strerror(errno));
            goto done;
        }
    }
    ok = true;
done:
    s->generate_seconds += now() - t0;
    // a part of a file is worth nothing; a device or a pipe is not ours to remove
    bool partial = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode);
    if (fclose(f) != 0 && ok) ok = err_set(err, "%s: %s", s->o->logits, strerror(errno));
    if (!ok && partial) remove(s->o->logits);
    return ok;
}

void session_report(const struct session *s) {
    const ingot_device *d = model_device(s->model);
    double bytes = (double)model_bytes_per_token(s->model);
    fprintf(stderr, "device      %s\n", d->name);
    if (s->prompt_tokens)
        fprintf(stderr, "prompt      %" PRId64 " tokens, %.1f tokens/s\n", s->prompt_tokens,
                (double)s->prompt_tokens / s->prompt_seconds);
    if (s->generated)
        fprintf(stderr, "generation  %" PRId64 " tokens, %.1f tokens/s, %.0f us per token, %d launches each\n",
                s->generated, (double)s->generated / s->generate_seconds,
                1e6 * s->generate_seconds / (double)s->generated, model_launches(s->model));
    if (d->memory_bandwidth > 0)
        fprintf(stderr, "floor       %.0f us per token: %.1f MB of weights at %.0f GB/s\n",
                1e6 * bytes / d->memory_bandwidth, 1e-6 * bytes, 1e-9 * d->memory_bandwidth);
}
