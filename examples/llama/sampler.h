// SPDX-License-Identifier: MIT
//
// Chooses the next token from logits: greedy, or by temperature, top-k and top-p with a seed. The
// same settings, seed and logits give the same tokens on every machine with the same exp().
//
// Random numbers are xoshiro256** (Blackman and Vigna, 2018), its state filled from the seed by
// splitmix64.
#ifndef LLAMA_SAMPLER_H
#define LLAMA_SAMPLER_H

#include "util.h"

struct sampler_options {
    double temperature; // 0: the highest logit, of equal ones the lowest id
    double top_p;       // keep the fewest likeliest tokens whose sum reaches it; 1: all
    int64_t top_k;      // keep the k likeliest first; 0: all
    uint64_t seed;
};

struct sampler;

// For logits of n tokens. NULL with err set for a temperature below 0, a top_p outside (0, 1], a
// negative top_k, n < 1, or no memory.
struct sampler *sampler_create(const struct sampler_options *options, int32_t n, struct err *err);

// Accepts NULL.
void sampler_free(struct sampler *s);

// The next token, 0 .. n-1. A NaN logit counts as -inf; +inf wins over everything finite. -1 when
// no logit is above -inf: there is nothing to choose from.
int32_t sampler_next(struct sampler *s, const float *logits);

// Uniform in [0, 1), 53 bits. Advances the state.
double sampler_uniform(struct sampler *s);

#endif
