/* SPDX-License-Identifier: MIT
 *
 * kernels.h - the sample kernels of the SIMT tests, as C sees them: good.cu holds those whose results
 * are compared with scalar references, ring.cu those with bulk copies, bad.cu those that are wrong on purpose.
 */
#ifndef INGOT_TEST_SIMT_KERNELS_H
#define INGOT_TEST_SIMT_KERNELS_H

#include <stdint.h>

struct test_args {
    const void *in, *in2;
    void *out;
    int n, k;
};

/* Sizes of the outputs in 32-bit words. */
enum {
    SHUFFLE_ROWS = 16, /* x 32 lanes */
    REDUCE_ROWS = 16,  /* x 32 lanes */
    BYTES_ROWS = 19,   /* x n */
    MATH_ROWS = 9      /* x n */
};
enum { RING_SLOTS = 3 };

#define TEST_GOOD_KERNELS(X)                                                                       \
    X(ingot_t_shuffle) X(ingot_t_reduce) X(ingot_t_bytes) X(ingot_t_half) X(ingot_t_narrow)        \
    X(ingot_t_loads) X(ingot_t_math) X(ingot_t_mma_s8) X(ingot_t_mma_f16) X(ingot_t_ldmatrix)      \
    X(ingot_t_pipeline) X(ingot_t_partial_copy) X(ingot_t_barriers) X(ingot_t_named) X(ingot_t_index)             \
    X(ingot_t_atomics) X(ingot_t_add_one) X(ingot_t_reverse) X(ingot_t_spin) X(ingot_t_big_shared) X(ingot_t_arch_sm80) X(ingot_t_arch_sm90a) \
    X(ingot_t_bulk_ring_sm90) X(ingot_t_bulk_roles_sm90)
#define TEST_BAD_KERNELS(X)                                                                        \
    X(ingot_b_oob_shared) X(ingot_b_oob_dynamic) X(ingot_b_oob_global) X(ingot_b_oob_local)        \
    X(ingot_b_deadlock) X(ingot_b_endless) X(ingot_b_sleep) X(ingot_b_shift) X(ingot_b_misaligned) \
    X(ingot_b_block_race) X(ingot_b_warp_race) X(ingot_b_copy_race) X(ingot_b_overflow)            \
    X(ingot_b_mask) X(ingot_b_no_wait) X(ingot_b_static_limit) X(ingot_b_divergent) X(ingot_b_lane_exits)         \
    X(ingot_b_trap) X(ingot_b_divide) X(ingot_b_uninitialised) X(ingot_b_ldmatrix) X(ingot_b_barrier_count) X(ingot_b_partial_warp) \
    X(ingot_b_bulk_rules) X(ingot_b_bulk_hang) X(ingot_b_bulk_no_wait) X(ingot_b_bulk_race) X(ingot_b_bulk_end)

#if !defined(__cplusplus) /* the kernel files define them, with their true parameter */
#define DECLARE(name) void name(void);
TEST_GOOD_KERNELS(DECLARE)
TEST_BAD_KERNELS(DECLARE)
#undef DECLARE
#endif

#endif
