// SPDX-License-Identifier: MIT
/* table.c - which kernel a chip runs.  Rows whose code the chip can load and whose shared memory it has are entered,
 * better ones over lesser ones; a call is then one look-up.  Nothing here touches CUDA but the probe at the end. */
#include "table.h"
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* One entry of the build's lists: "75", "90a". */
struct level {
    int cc;
    char suffix; /* 0, 'a' (this chip only) or 'f' (its major version) */
};

/* Takes the next entry off a list; false at its end. */
static bool next_level(const char **list, struct level *out) {
    const char *p = *list;
    char *end;

    while (*p == ' ' || *p == ',') p++;
    if (*p < '0' || *p > '9') return false;
    out->cc = (int)strtol(p, &end, 10);
    out->suffix = *end == 'a' || *end == 'f' ? *end++ : '\0';
    *list = end;
    return true;
}

/* The instruction level that code for this entry is written in: 75, 80 or 90. */
static int arch_of(struct level level) {
    return level.cc < 80 ? 75 : level.cc == 90 && level.suffix == 'a' ? 90 : 80;
}

static unsigned class_of(int arch) {
    return arch == 75 ? INGOT_CLASS_75 : arch == 80 ? INGOT_CLASS_80 : INGOT_CLASS_90;
}

/* Machine code loads on chips of its major version and at least its minor one. */
static bool machine_code_runs(struct level level, int cc) {
    if (level.suffix == 'a') return level.cc == cc;
    return level.cc / 10 == cc / 10 && level.cc <= cc;
}

/* PTX is compiled for any later chip, unless it is bound to one. */
static bool ptx_runs(struct level level, int cc) {
    if (level.suffix == 'a') return level.cc == cc;
    if (level.suffix == 'f' && level.cc / 10 != cc / 10) return false;
    return level.cc <= cc;
}

/* The level of the row's code that the chip would run (the driver prefers machine code); 0 if there is none. */
static int code_level(const struct ingot_kernel *row, const char *archs, const char *ptx, int cc) {
    struct level level;
    int best = 0;

    if (strcmp(archs, "simt") == 0) {
        return row->arch <= arch_of((struct level){cc, cc == 90 ? 'a' : '\0'}) ? cc : 0;
    }
    while (next_level(&archs, &level)) {
        if ((row->serves & class_of(arch_of(level))) == 0 || !machine_code_runs(level, cc)) continue;
        if (level.cc > best) best = level.cc;
    }
    if (best != 0) return best;
    while (next_level(&ptx, &level)) {
        const int arch = arch_of(level);
        const bool built = row->arch == arch || (row->arch < arch && (row->serves & class_of(arch)) != 0);
        if (built && ptx_runs(level, cc) && level.cc > best) best = level.cc;
    }
    return best;
}

static int slot_of(int64_t tile) {
    return (int)(tile <= INGOT_TILE_FINE ? tile : INGOT_TILE_FINE + (tile - INGOT_TILE_FINE + 15) / 16);
}

void ingot_table_fill(struct ingot_table *table, const struct ingot_kernel *rows, int count, const char *archs,
                      const char *ptx, struct ingot_chip chip) {
    memset(table, 0, sizeof *table);
    table->rows = rows;
    table->count = count < INGOT_TABLE_ROWS ? count : INGOT_TABLE_ROWS;
    for (int i = 0; i < table->count; i++) {
        const struct ingot_kernel *row = &rows[i];
        const int level = code_level(row, archs, ptx, chip.cc);
        uint16_t *cell;

        if (level == 0 || row->smem > chip.shared || (chip.max_arch != 0 && row->arch > chip.max_arch)) continue;
        if (row->tile > INGOT_TILE_MAX || row->type >= INGOT_TYPE_SLOTS || row->family >= INGOT_FAMILY_COUNT) continue;
        if (level >= 90) table->flags[i] |= INGOT_ROW_WAITS;
        cell = &table->cell[row->family][row->type][slot_of(row->tile)];
        if (*cell == 0) table->used++;
        if (*cell == 0 || row->arch >= rows[*cell - 1].arch) *cell = (uint16_t)(i + 1);
    }
    for (int family = 0; family < INGOT_FAMILY_COUNT; family++) {
        for (int type = 0; type < INGOT_TYPE_SLOTS; type++) {
            uint16_t *cell = table->cell[family][type];
            for (int slot = INGOT_TILE_SLOTS - 2; slot >= 0; slot--) {
                if (cell[slot] == 0) cell[slot] = cell[slot + 1];
            }
        }
    }
}

size_t ingot_table_bytes(void) {
    return sizeof(struct ingot_table);
}

int ingot_table_used(const struct ingot_table *table) {
    return table->used;
}

const struct ingot_kernel *ingot_find(const struct ingot_table *table, enum ingot_family family, ingot_type type,
                                      int64_t tile) {
    uint16_t cell;

    if ((unsigned)family >= INGOT_FAMILY_COUNT || (unsigned)type >= INGOT_TYPE_SLOTS) return NULL;
    if (tile < 0 || tile > INGOT_TILE_MAX) return NULL;
    cell = table->cell[family][type][slot_of(tile)];
    return cell == 0 ? NULL : &table->rows[cell - 1];
}

const struct ingot_kernel *ingot_find_exact(const struct ingot_table *table, enum ingot_family family, ingot_type type,
                                            int64_t tile) {
    const struct ingot_kernel *kernel = ingot_find(table, family, type, tile);

    return kernel && kernel->tile == tile ? kernel : NULL;
}

uint8_t *ingot_table_flags(struct ingot_table *table, const struct ingot_kernel *kernel) {
    const uintptr_t first = (uintptr_t)table->rows, at = (uintptr_t)kernel;
    const size_t i = (at - first) / sizeof *kernel;

    return at >= first && i < (size_t)table->count ? &table->flags[i] : NULL;
}

bool ingot_table_waits(const struct ingot_table *table, const struct ingot_kernel *kernel) {
    const uint8_t *flags = ingot_table_flags((struct ingot_table *)table, kernel);

    return flags && (*flags & INGOT_ROW_WAITS) != 0;
}

ingot_status ingot_arch_from_env(ingot_context *ctx, int *max_arch) {
    static const struct {
        const char *name;
        int arch;
    } known[] = {{"sm75", 75}, {"sm80", 80}, {"sm90a", 90}};
    const char *value = getenv("INGOT_ARCH");

    *max_arch = 0;
    if (!value || !*value) return INGOT_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(value, known[i].name) == 0) *max_arch = known[i].arch;
    }
    if (*max_arch == 0) {
        return ingot_fail(ctx, INGOT_ERR_INVALID, "INGOT_ARCH=%.32s is unknown, expected sm75, sm80 or sm90a", value);
    }
    return INGOT_OK;
}

static ingot_status no_code(ingot_context *ctx, int max_arch, const char *why) {
    char cap[32] = "";

    if (max_arch != 0) strcpy(cap, max_arch == 75 ? ", INGOT_ARCH=sm75" : max_arch == 80 ? ", INGOT_ARCH=sm80" : "");
    return ingot_fail(ctx, INGOT_ERR_NO_CODE,
                      "no code for device %d (%s, compute capability %d.%d%s): this build has machine code for \"%s\" "
                      "and PTX for \"%s\"%s%s",
                      ctx->device, ctx->info.name, ctx->info.cc_major, ctx->info.cc_minor, cap, INGOT_ARCHS, INGOT_PTX,
                      *why ? "; " : "", why);
}

/* Loads the first row of each family that the table would answer with: a build for other chips is found out now, not
 * in the middle of a model. */
static ingot_status probe(ingot_context *ctx, struct ingot_table *table, int max_arch) {
    bool probed[INGOT_FAMILY_COUNT] = {false};

    if (table->used == 0) return no_code(ctx, max_arch, "");
    for (int i = 0; i < table->count; i++) {
        const struct ingot_kernel *row = &table->rows[i];
        struct cudaFuncAttributes attributes;
        ingot_status st;
        char why[INGOT_ERROR_TEXT / 2];

        if (probed[row->family]) continue;
        if (ingot_find_exact(table, (enum ingot_family)row->family, (ingot_type)row->type, row->tile) != row) continue;
        probed[row->family] = true;
        st = ingot_check_cuda(ctx, cudaFuncGetAttributes(&attributes, ingot_kernel_stub(row)), row->symbol);
        if (st == INGOT_OK) continue;
        if (st != INGOT_ERR_NO_CODE) return st;
        memcpy(why, ctx->error, sizeof why);
        why[sizeof why - 1] = '\0';
        return no_code(ctx, max_arch, why);
    }
    return INGOT_OK;
}

ingot_status ingot_table_create(ingot_context *ctx, struct ingot_table **out) {
    struct ingot_chip chip = {.cc = 10 * ctx->info.cc_major + ctx->info.cc_minor, .shared = ctx->info.shared_per_block};
    ingot_status st = INGOT_OK;
    void *memory = NULL;

    *out = NULL;
    INGOT_TRY(ingot_arch_from_env(ctx, &chip.max_arch), st, done);
    INGOT_TRY(ingot_alloc(ctx, INGOT_MEMORY_HOST, sizeof(struct ingot_table), &memory), st, done);
    ingot_table_fill(memory, ingot_kernels, ingot_kernel_count, INGOT_ARCHS, INGOT_PTX, chip);
    INGOT_TRY(probe(ctx, memory, chip.max_arch), st, done);
    *out = memory;
    memory = NULL;

done:
    ingot_free(ctx, INGOT_MEMORY_HOST, memory);
    return st;
}

void ingot_table_destroy(ingot_context *ctx, struct ingot_table *table) {
    ingot_free(ctx, INGOT_MEMORY_HOST, table);
}
