// SPDX-License-Identifier: MIT
/* golden_blocks.c - see golden_blocks.h. */
#define _POSIX_C_SOURCE 200809L
#include "golden_blocks.h"

#include <math.h>

static void *keep(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) check_fail("out of host memory: %zu bytes", bytes);
    return p;
}

static void read_golden(struct golden *g, ingot_type type, const char *kind) {
    const char *folder = getenv("INGOT_GOLDEN_DIR");
    char path[1024];
    if (!folder || !*folder)
        check_fail("%s.%s is needed and INGOT_GOLDEN_DIR is not set: run  make_golden.py DIR  and set it to DIR",
                   ingot_type_name(type), kind);
    snprintf(path, sizeof path, "%s/%s.%s", folder, ingot_type_name(type), kind);
    FILE *f = fopen(path, "rb");
    if (!f) check_fail("%s cannot be opened: make_golden.py writes it", path);
    unsigned char head[16];
    if (fread(head, 1, 16, f) != 16 || memcmp(head, "INGOTGV1", 8) != 0)
        check_fail("%s is no file of golden vectors", path);
    uint32_t number, blocks;
    memcpy(&number, head + 8, 4);
    memcpy(&blocks, head + 12, 4);
    if (number != (uint32_t)type || blocks == 0) check_fail("%s: type %u with %u blocks", path, number, blocks);
    g->blocks = blocks;
    g->per_block = ingot_type_block(type);
    const size_t bytes = blocks * ingot_type_size(type), count = blocks * (size_t)g->per_block;
    unsigned char *raw = keep(bytes);
    g->values = keep(count * sizeof *g->values);
    if (fread(raw, 1, bytes, f) != bytes || fread(g->values, 4, count, f) != count || fgetc(f) != EOF)
        check_fail("%s has the wrong length", path);
    fclose(f);
    g->raw = raw;
}

const struct golden *golden_of(ingot_type type) {
    static struct golden read[CHECK_TYPES]; /* until the program ends */
    if ((int)type < 0 || (int)type >= CHECK_TYPES) check_fail("no golden vectors of type %d", (int)type);
    struct golden *g = &read[type];
    if (!g->raw) read_golden(g, type, "golden");
    return g;
}

struct golden golden_exhaustive(ingot_type type) {
    struct golden g = {0};
    read_golden(&g, type, "exhaustive");
    return g;
}

void golden_free(struct golden *g) {
    free(g->raw);
    free(g->values);
    *g = (struct golden){0};
}

void golden_decode(ingot_type type, const unsigned char *block, double *out) {
    const struct golden *g = golden_of(type);
    const size_t size = ingot_type_size(type);
    for (int64_t b = 0; b < g->blocks; b++)
        if (memcmp(g->raw + (size_t)b * size, block, size) == 0) {
            for (int64_t i = 0; i < g->per_block; i++) out[i] = (double)g->values[b * g->per_block + i];
            return;
        }
    check_fail("%s has no decoder in blocks.c, and the block is none of its golden vectors", ingot_type_name(type));
}

static bool is_mild(const struct golden *g, int64_t b) {
    float largest = 0.0f;
    for (int64_t i = 0; i < g->per_block; i++) largest = fmaxf(largest, fabsf(g->values[b * g->per_block + i]));
    return largest >= 0x1p-10f && largest <= 0x1p10f;
}

int64_t golden_choose(ingot_type type, bool wild) {
    const struct golden *g = golden_of(type);
    const int64_t start = check_range(0, g->blocks - 1);
    for (int64_t i = 0; i < g->blocks; i++) {
        const int64_t b = (start + i) % g->blocks;
        if (wild || is_mild(g, b)) return b;
    }
    check_fail("%s.golden has no block of moderate values", ingot_type_name(type));
}

void golden_random(ingot_type type, unsigned char *block, bool wild) {
    const int64_t b = golden_choose(type, wild);
    memcpy(block, golden_of(type)->raw + (size_t)b * ingot_type_size(type), ingot_type_size(type));
}

bool golden_ones(ingot_type type, unsigned char *block) {
    const struct golden *g = golden_of(type);
    for (int64_t b = g->blocks - 1; b >= 0; b--) {
        int64_t i = 0;
        while (i < g->per_block && g->values[b * g->per_block + i] == 1.0f) i++;
        if (i < g->per_block) continue;
        memcpy(block, g->raw + (size_t)b * ingot_type_size(type), ingot_type_size(type));
        return true;
    }
    return false;
}
