// SPDX-License-Identifier: MIT
//
// Reading the command line; contracts are in options.h. One table lists every option: its names, what kind of value it
// takes, where that goes, its range and its line in the help text.
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, INTEGER, REAL, SEED, TOKENS, CHAT, RAW };

enum { HELP_COLUMN = 22 };

struct spec {
    const char *shorter, *longer, *value;
    enum kind kind;
    size_t at; // offset in struct options
    int64_t min, max;
    const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct spec specs[] = {
    {"-m", "--model", "FILE", TEXT, AT(model), 0, 0, "the model, a GGUF file of architecture llama"},
    {"-p", "--prompt", "TEXT", TEXT, AT(prompt), 0, 0, "the prompt"},
    {"-n", "--n-predict", "N", INTEGER, AT(n), 0, INT32_MAX,
     "generate at most N tokens (128; with -i until the answer ends)"},
    {"-c", "--context", "N", INTEGER, AT(n_ctx), 1, INT32_MAX,
     "room for N tokens of prompt and answer (2048, or what the model was trained with)"},
    {"-b", "--batch", "N", INTEGER, AT(batch), 1, 1 << 16, "prompt tokens of one pass (512; 8 on the SIMT host)"},
    {"-t", "--temp", "X", REAL, AT(sampler.temperature), 0, 1000, "temperature; 0 takes the likeliest token (0)"},
    {NULL, "--top-p", "X", REAL, AT(sampler.top_p), 0, 1, "choose among the likeliest tokens that sum to X (1: all)"},
    {NULL, "--top-k", "N", INTEGER, AT(sampler.top_k), 0, INT32_MAX, "choose among the N likeliest tokens (0: all)"},
    {"-s", "--seed", "N", SEED, AT(sampler.seed), 0, 0, "seed of the random numbers (0)"},
    {"-i", "--interactive", NULL, FLAG, AT(interactive), 0, 0, "read turns from standard input until its end"},
    {NULL, "--chat", NULL, CHAT, AT(mode), 0, 0, "treat the prompt as a chat turn (default with -i)"},
    {NULL, "--raw", NULL, RAW, AT(mode), 0, 0, "continue the prompt as it is (default with -p)"},
    {NULL, "--system", "TEXT", TEXT, AT(system), 0, 0, "system text of a chat (the one in the model's template)"},
    {NULL, "--exact", NULL, FLAG, AT(exact), 0, 0, "do not round activations to 8 bits in products (slower)"},
    {NULL, "--device", "N", INTEGER, AT(device), 0, 1 << 16, "device number (0)"},
    {NULL, "--tokens", "LIST", TOKENS, AT(tokens), 0, 0, "token ids \"1,2,3\" instead of a prompt"},
    {NULL, "--logits", "FILE", TEXT, AT(logits), 0, 0,
     "run --tokens one by one and write the logits after each, f32 [n_tokens][n_vocab]"},
    {"-q", "--quiet", NULL, FLAG, AT(quiet), 0, 0, "only the text and errors: no progress, no figures"},
    {"-h", "--help", NULL, FLAG, AT(help), 0, 0, "this text"},
    {NULL, "--version", NULL, FLAG, AT(version), 0, 0, "the version and what the library is built for"},
};

enum { N_SPECS = sizeof specs / sizeof *specs };

void options_help(FILE *out) {
    fprintf(out, "llama: text from a GGUF model, by the kernels of ingot\n\n"
                 "  llama -m FILE -p TEXT [options]    continue a prompt\n"
                 "  llama -m FILE -i [options]         chat\n\n");
    for (int i = 0; i < N_SPECS; i++) {
        char left[40];
        int n = snprintf(left, sizeof left, "%s%s%s%s%s", specs[i].shorter ? specs[i].shorter : "  ",
                         specs[i].shorter ? ", " : "  ", specs[i].longer, specs[i].value ? " " : "",
                         specs[i].value ? specs[i].value : "");
        fprintf(out, "  %s%*s%s\n", left, n < HELP_COLUMN ? HELP_COLUMN - n : 1, "", specs[i].help);
    }
    fprintf(out,
            "\nThe text goes to standard output, everything else to standard error. Exit status 1 on any error.\n");
}

static bool read_integer(const char *name, const char *text, int64_t min, int64_t max, int64_t *out, struct err *err) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || v < min || v > max)
        return err_set(err, "%s: \"%.60s\", expected a whole number, %" PRId64 " to %" PRId64, name, text, min, max);
    *out = v;
    return true;
}

static bool read_real(const char *name, const char *text, double min, double max, double *out, struct err *err) {
    char *end;
    double v = strtod(text, &end);
    // Written so that NaN fails.
    if (end == text || *end || !(v >= min && v <= max))
        return err_set(err, "%s: \"%.60s\", expected a number, %g to %g", name, text, min, max);
    *out = v;
    return true;
}

static bool read_seed(const char *name, const char *text, uint64_t *out, struct err *err) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-'))
        return err_set(err, "%s: \"%.60s\", expected a whole number, 0 to %" PRIu64, name, text, UINT64_MAX);
    return true;
}

static bool read_tokens(const char *name, const char *text, struct options *o, struct err *err) {
    o->tokens.n = 0;
    for (const char *p = text;;) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX || (*end && *end != ','))
            return err_set(err, "%s: \"%.60s\" at byte %td, expected token ids separated by commas", name, p, p - text);
        if (!ids_add(&o->tokens, (int32_t)v, err)) return false;
        if (!*end) return true;
        p = end + 1;
    }
}

// Stores one option's value; `value` is not looked at for those without. `name` is the option as it was typed.
static bool store(struct options *o, const struct spec *s, const char *name, const char *value, struct err *err) {
    void *field = (char *)o + s->at;
    switch (s->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case CHAT:
    case RAW:
        if (o->mode != MODE_DEFAULT && o->mode != (s->kind == CHAT ? MODE_CHAT : MODE_RAW))
            return err_set(err, "--chat and --raw exclude each other");
        o->mode = s->kind == CHAT ? MODE_CHAT : MODE_RAW;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case INTEGER:
        return read_integer(name, value, s->min, s->max, field, err);
    case REAL:
        return read_real(name, value, (double)s->min, (double)s->max, field, err);
    case SEED:
        return read_seed(name, value, field, err);
    case TOKENS:
        o->has_tokens = true;
        return read_tokens(name, value, o, err);
    }
    return false;
}

// The option that arg names. *value is set to what follows '=' in "--option=value", else to NULL.
static const struct spec *find(const char *arg, const char **value) {
    const char *equals = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    *value = equals ? equals + 1 : NULL;
    for (int i = 0; i < N_SPECS; i++)
        if ((strlen(specs[i].longer) == n && memcmp(specs[i].longer, arg, n) == 0) ||
            (specs[i].shorter && strcmp(specs[i].shorter, arg) == 0))
            return &specs[i];
    return NULL;
}

static bool check(const struct options *o, struct err *err) {
    if (!o->model) return err_set(err, "no model: give -m FILE");
    if (o->logits && !o->has_tokens) return err_set(err, "--logits needs --tokens LIST");
    if (o->has_tokens && o->prompt) return err_set(err, "-p and --tokens exclude each other");
    if (o->has_tokens && o->interactive) return err_set(err, "-i and --tokens exclude each other");
    if (o->has_tokens && o->mode == MODE_CHAT) return err_set(err, "--chat and --tokens exclude each other");
    if (!o->has_tokens && !o->prompt && !o->interactive)
        return err_set(err, "no prompt: give -p TEXT, --tokens LIST or -i");
    return true;
}

bool options_parse(struct options *o, int argc, char **argv, struct err *err) {
    *o = (struct options){.n = -1, .sampler = {.temperature = 0, .top_p = 1}};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value;
        const struct spec *s = find(name, &value);
        if (!s) return err_set(err, "unknown option \"%.60s\", see --help", name);
        if (value && !s->value) return err_set(err, "%s takes no value", s->longer);
        if (value) name = s->longer;
        if (s->value && !value && ++i == argc) return err_set(err, "%s needs a value: %s", name, s->value);
        if (!store(o, s, name, value ? value : argv[i], err)) return false;
        if (o->help || o->version) return true;
    }
    return check(o, err);
}

void options_free(struct options *o) {
    ids_free(&o->tokens);
}
