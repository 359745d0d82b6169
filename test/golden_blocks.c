// SPDX-License-Identifier: MIT
/* golden_blocks.c - golden vectors for any test.  A file <type>.golden, little endian: "INGOTGV1", u32 type, u32 blocks,
 * the raw blocks, then their f32 values. */
#include "golden_blocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 64 };

static struct golden read_golden(ingot_type type) {
    const char *folder = getenv("INGOT_GOLDEN_DIR");
    char path[512];
    if (!folder || !*folder) check_fail("INGOT_GOLDEN_DIR is not set: run  make_golden.py DIR  and set it to DIR");
    snprintf(path, sizeof path, "%s/%s.golden", folder, ingot_type_name(type));
    FILE *f = fopen(path, "rb");
    if (!f) check_fail("%s cannot be opened", path);
    unsigned char head[16];
    if (fread(head, 1, 16, f) != 16 || memcmp(head, "INGOTGV1", 8) != 0)
        check_fail("%s is no file of golden vectors", path);
    uint32_t number, blocks;
    memcpy(&number, head + 8, 4);
    memcpy(&blocks, head + 12, 4);
    if (number != (uint32_t)type || blocks == 0) check_fail("%s: type %u with %u blocks", path, number, blocks);
    struct golden g = {.blocks = blocks, .per_block = ingot_type_block(type)};
    const size_t raw = blocks * ingot_type_size(type), count = blocks * (size_t)g.per_block;
    g.raw = malloc(raw);
    g.values = malloc(count * sizeof *g.values);
    if (!g.raw || !g.values) check_fail("out of memory");
    if (fread(g.raw, 1, raw, f) != raw || fread(g.values, 4, count, f) != count || fgetc(f) != EOF)
        check_fail("%s has the wrong length", path);
    fclose(f);
    return g;
}

const struct golden *golden_of(ingot_type type) {
    static struct golden kept[MAX_TYPES];
    if ((int)type < 0 || (int)type >= MAX_TYPES) check_fail("type %d is past the table of golden vectors", (int)type);
    if (!kept[type].raw) kept[type] = read_golden(type);
    return &kept[type];
}

static bool ordinary(const struct golden *g, int64_t block) {
    float largest = 0.0f;
    for (int64_t i = 0; i < g->per_block; i++) largest = fmaxf(largest, fabsf(g->values[block * g->per_block + i]));
    return largest > 1e-3f && largest < 1e3f;
}

void golden_random_block(ingot_type type, unsigned char *block, bool wild) {
    const struct golden *g = golden_of(type);
    int64_t at = check_range(0, g->blocks - 1);
    for (int64_t tries = 0; !wild && tries < g->blocks && !ordinary(g, at); tries++) at = (at + 1) % g->blocks;
    memcpy(block, g->raw + (size_t)at * ingot_type_size(type), ingot_type_size(type));
}

void golden_decode_block(ingot_type type, const unsigned char *block, double *out) {
    const struct golden *g = golden_of(type);
    const size_t size = ingot_type_size(type);
    for (int64_t b = 0; b < g->blocks; b++)
        if (memcmp(g->raw + (size_t)b * size, block, size) == 0) {
            for (int64_t i = 0; i < g->per_block; i++) out[i] = (double)g->values[b * g->per_block + i];
            return;
        }
    check_fail("%s: a block that is no golden vector, and check.c has no decoder of this format",
               ingot_type_name(type));
}
