// SPDX-License-Identifier: MIT
//
// The command line of the demo.
#ifndef LLAMA_OPTIONS_H
#define LLAMA_OPTIONS_H

#include <stdio.h>

#include "sampler.h"

enum run_mode { MODE_DEFAULT, MODE_CHAT, MODE_RAW };

struct options {
    const char *model, *prompt, *system, *logits; // NULL: not given
    struct ids tokens;                            // --tokens
    bool has_tokens, interactive, exact, quiet, help, version;
    enum run_mode mode;
    int64_t n, n_ctx, batch, device; // n -1: not given
    struct sampler_options sampler;
};

// Reads argv. False with err set for an unknown option, a missing or bad value, or options that contradict each other.
// After --help or --version nothing else is asked for. Free with options_free in any case.
bool options_parse(struct options *o, int argc, char **argv, struct err *err);
void options_free(struct options *o);

// The text of --help.
void options_help(FILE *out);

#endif
