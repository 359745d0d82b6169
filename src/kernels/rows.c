// SPDX-License-Identifier: MIT
/* rows.c - the rows of this build as data, and what the build holds in words. */
#include "build.h"
#include "table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define INGOT_KERNEL(family, type, tile, arch, serves, threads, smem, unit, symbol)                                    \
    extern void symbol(void);                                                                                          \
    _Static_assert((tile) <= INGOT_TILE_FINE || ((tile) <= INGOT_TILE_MAX && (tile) % 16 == 0),                        \
                   "the look-up has no slot for the tile of " #symbol);                                                \
    _Static_assert(INGOT_TYPE_##type < INGOT_TYPE_SLOTS, "the look-up has no slot for the type of " #symbol);          \
    _Static_assert((threads) > 0 && (threads) <= 1024, "no block has this many threads: " #symbol);
#include "generated/kernels.inc"
#undef INGOT_KERNEL

#define INGOT_KERNEL(family, type, tile, arch, serves, threads, smem, unit, symbol)                                    \
    {#symbol, INGOT_FAMILY_##family, INGOT_TYPE_##type, serves, arch, tile, threads, smem, unit, symbol},
const struct ingot_kernel ingot_kernels[] = {
#include "generated/kernels.inc"
    {0} /* a build may have no row at all, an array in C may not */
};
#undef INGOT_KERNEL

#define ROWS (sizeof ingot_kernels / sizeof *ingot_kernels - 1)
_Static_assert(ROWS <= INGOT_TABLE_ROWS, "more rows than a table holds: raise INGOT_TABLE_ROWS");
const int ingot_kernel_count = (int)ROWS;

const char *ingot_family_name(enum ingot_family family) {
    static const char *const names[] = {
#define INGOT_FAMILY(NAME, name) #name,
#include "generated/families.inc"
#undef INGOT_FAMILY
    };

    return (size_t)family < sizeof names / sizeof *names ? names[family] : "?";
}

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

static char type_list[INGOT_TYPE_SLOTS * 10];
static pthread_once_t type_list_once = PTHREAD_ONCE_INIT;

/* Names of the float and block formats that some row reads. */
static void make_type_list(void) {
    size_t used = 0;

    for (int type = 0; type < INGOT_TYPE_SLOTS; type++) {
        bool found = false;
        for (int i = 0; i < ingot_kernel_count && !found; i++) found = ingot_kernels[i].type == type;
        if (!found || !(ingot_is_float_type((ingot_type)type) || ingot_is_block_type((ingot_type)type))) continue;
        used += (size_t)snprintf(type_list + used, sizeof type_list - used, "%s%s", used ? " " : "",
                                 ingot_type_name((ingot_type)type));
    }
}

ingot_build ingot_build_info(void) {
    ingot_build build = {
        .version = TEXT(INGOT_VERSION_MAJOR) "." TEXT(INGOT_VERSION_MINOR) "." TEXT(INGOT_VERSION_PATCH),
        .archs = INGOT_ARCHS,
        .ptx = INGOT_PTX,
        .types = type_list,
        .kernels = ingot_kernel_count,
        .cublaslt = INGOT_CUBLASLT,
    };

    pthread_once(&type_list_once, make_type_list);
    return build;
}
