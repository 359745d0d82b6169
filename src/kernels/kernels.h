// SPDX-License-Identifier: MIT
/* kernels.h - the table of generated kernels, the look-up for one device, the one launch function, and cuBLASLt.
 *
 * generated/kernels.inc holds rows
 *     INGOT_KERNEL(family, type, tile, arch, serves, threads, smem, unit, symbol)
 * family   an enum ingot_family name without prefix        type   an ingot_type name without prefix
 * tile     columns (MMV*), an ingot_type (DEQUANT..), a head size (ATTN), or 0: see args.h
 * arch     75, 80 or 90: the instruction level it is written for (90 means sm_90a)
 * serves   INGOT_CLASS_75 | INGOT_CLASS_80 | INGOT_CLASS_90: classes of chips for which no better row of the same
 *          family, type and tile exists; the build compiles the row for the chosen chips of these classes
 * threads  per block     smem   dynamic shared memory in bytes     unit   items per block (args.h's families say what)
 * and generated/families.inc holds INGOT_FAMILY(NAME, name) in the order of enum ingot_family.  The build filters the
 * rows by ARCHS, QUANTS and OPS into kernels.inc of its build folder, which is the one that C code includes. */
#ifndef INGOT_KERNELS_H
#define INGOT_KERNELS_H

#include "../memory/memory.h"
#include "args.h"

enum ingot_family {
#define INGOT_FAMILY(NAME, name) INGOT_FAMILY_##NAME,
#include "generated/families.inc"
#undef INGOT_FAMILY
    INGOT_FAMILY_COUNT
};

/* Chip classes: 75; 80..89 and 100 onwards; 90a. */
enum { INGOT_CLASS_75 = 1, INGOT_CLASS_80 = 2, INGOT_CLASS_90 = 4 };

struct ingot_kernel {
    const char *symbol;
    uint8_t     family, type, serves, arch;
    uint16_t    tile, threads;
    uint32_t    smem, unit;
    void      (*fn)(void); /* the host stub of the __global__ function */
};

/* Every row of the build. */
extern const struct ingot_kernel ingot_kernels[];
extern const int                 ingot_kernel_count;
const char *ingot_family_name(enum ingot_family family);

/* A chip as the chooser sees it; tests make up their own. */
struct ingot_chip {
    int    cc;        /* 10*major + minor */
    size_t shared;    /* opt-in shared memory per block */
    int    max_arch;  /* INGOT_ARCH: 75, 80, 90 */
};

/* The look-up of one chip: for each family, type and tile the best row that has code for it and fits it.  A context
 * owns one (a few microseconds to fill), so nothing is shared between threads. */
struct ingot_table;

/* Fills a table from rows.  `archs` and `ptx` are the build's lists ("75 80 90a", "80"; "simt" in place of both).
 * Pure: no CUDA call.  A row has code for a chip if the build compiled it for a listed arch of the chip's major version and
 * at most its minor one ("a" variants: exactly its), or to PTX of at most its level.  At most INGOT_TABLE_ROWS rows. */
#define INGOT_TABLE_ROWS 4096
void ingot_table_fill(struct ingot_table *table, const struct ingot_kernel *rows, int count, const char *archs,
                      const char *ptx, struct ingot_chip chip);
size_t ingot_table_bytes(void);
/* Rows that some look-up can answer. */
int ingot_table_used(const struct ingot_table *table);
/* True if the code of this row is of level 9.0 or later, where a kernel can wait for the launch before it by itself. */
bool ingot_table_waits(const struct ingot_table *table, const struct ingot_kernel *kernel);

/* The table of the context's device, with INGOT_ARCH obeyed.  Loads one kernel of each family as a probe
 * (INGOT_ERR_NO_CODE names the device's capability and what is compiled). */
ingot_status ingot_table_create(ingot_context *ctx, struct ingot_table **out);
void         ingot_table_destroy(ingot_context *ctx, struct ingot_table *table);

/* The row for `tile`, or the smallest larger tile of the family and type; NULL if there is none. */
const struct ingot_kernel *ingot_find(const struct ingot_table *table, enum ingot_family family, ingot_type type,
                                      int64_t tile);
/* The row for exactly `tile`, or NULL. */
const struct ingot_kernel *ingot_find_exact(const struct ingot_table *table, enum ingot_family family,
                                            ingot_type type, int64_t tile);

/* How a kernel is launched: blocks, 1 .. 2^31-1; threads of a block and bytes of its dynamic shared memory, 0: the row's. */
struct ingot_grid {
    int64_t  blocks;
    uint32_t threads, smem;
};

/* Launches `kernel` on the context's stream with one argument struct.  Where its code
 * is of level 9.0 or later the launch is programmatic-dependent (INGOT_PDL=0: none is): every kernel waits by itself
 * before it touches what others wrote.  A failure's text names kernel, grid, block and shared memory. */
ingot_status ingot_launch(ingot_context *ctx, const struct ingot_kernel *kernel, struct ingot_grid grid, const void *args);
/* One log line "what -> symbol, N blocks" if the context has a log. */
void ingot_log_choice(const ingot_context *ctx, const char *what, const struct ingot_kernel *kernel, int64_t blocks);

/* ---- GEMM by cuBLASLt.  d (f32, m x n, column j at d + j*ldd) = a^T b: a is k x m with column stride lda, b k x n,
 * both of `type` (f32, f16, bf16), strides in elements; `batch` products with strides in elements. */
struct ingot_gemm {
    ingot_type  type;
    int64_t     m, n, k, lda, ldb, ldd, batch, stride_a, stride_b, stride_d;
    const void *a, *b;
    float      *d;
};
ingot_status ingot_blas_create(ingot_context *ctx, size_t workspace, struct ingot_blas **out);
void         ingot_blas_destroy(ingot_context *ctx, struct ingot_blas *blas);
/* Runs it on the context's stream with the handle's own workspace; legal under capture.  INGOT_ERR_UNSUPPORTED if
 * cuBLASLt has no algorithm for this shape or alignment. */
ingot_status ingot_blas_gemm(ingot_context *ctx, const struct ingot_gemm *gemm);
/* Whether ingot_blas_gemm has an algorithm for these shapes and strides at any pointers aligned to their elements; the
 * pointers in `gemm` are not looked at.  Records no failure.  False without a handle. */
bool ingot_blas_supports(ingot_context *ctx, const struct ingot_gemm *gemm);

#endif
