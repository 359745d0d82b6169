// SPDX-License-Identifier: MIT
/* args.h - the one argument of each kernel family, shared by the C launcher and the CUDA kernels.
 *
 * Every generated kernel takes one of these structs by value, so that one C function launches them all.  Plain C11 that
 * is also C++: fixed-width integers, no padding surprises (8-byte members first).  Strides are in bytes and 64 bits
 * wide.  Grids are one-dimensional: a kernel finds its rows from blockIdx.x, and the grid comes from the family's
 * grid function in src/ops beside the code that fills the struct. */
#ifndef INGOT_ARGS_H
#define INGOT_ARGS_H

#include <stdint.h>

/* A tensor as a kernel sees it. */
struct ingot_arg_tensor {
    void   *data;
    int64_t ne[4];
    int64_t nb[4];
};

/* Activations rounded to 8 bits ("q8"), one column after the other, written by QUANTIZE (and by RMS_NORM, GLU and
 * ATTENTION when the planner asks), read by MMVQ.
 *
 *   qs      column c, element i:   qs[c*k + i]                 int8, k a multiple of 32, base aligned to 16
 *   scales  column c, block b:     scales[c*(k/32) + b]        {d, s}: x ~ d*q, s = d * (sum of q over the block)
 *
 * d = max|x| / 127 over the block of 32 (0 for a block of zeros), q = round to nearest even of x/d. */
struct ingot_q8_scale {
    float d, s;
};
struct ingot_arg_q8 {
    int8_t                *qs;
    struct ingot_q8_scale *scales;
};

/* DEQUANT type -> tile (an ingot_type: f32, f16, bf16).  dst has src's shape, any strides on both sides; src row
 * elements are contiguous blocks (nb[0] = block bytes) for block formats, any nb[0] for plain types. */
struct ingot_dequant_args {
    struct ingot_arg_tensor src, dst;
};

/* COPY plain type -> tile (another plain type): element i of src in ne order goes to element i of dst; shapes may
 * differ. */
struct ingot_copy_args {
    struct ingot_arg_tensor src, dst;
};

/* MOVE: bits, tile = bytes of a piece (1, 2, 4, 8, 16).  ne and nb count pieces, whatever the type: piece i of src in ne
 * order goes to piece i of dst; shapes may differ.  All addresses are multiples of the piece. */
struct ingot_move_args {
    struct ingot_arg_tensor src, dst;
};

/* QUANTIZE f32/f16/bf16 -> q8.  src [k, n, B, C] becomes n*B*C columns in that order. */
struct ingot_quantize_args {
    struct ingot_arg_tensor src;
    struct ingot_arg_q8     dst;
};

/* ingot_glu_kind, for kernels. */
enum ingot_arg_glu {
    INGOT_ARG_REGLU, INGOT_ARG_GEGLU, INGOT_ARG_SWIGLU, INGOT_ARG_SWIGLU_OAI, INGOT_ARG_GEGLU_ERF, INGOT_ARG_GEGLU_QUICK
};

/* A tensor [m, n, ne2, ne3] of f32 that a product adds; stride 0 repeats it over a dimension (a bias).  NULL: none. */
struct ingot_mmv_add {
    const float *data;
    int64_t nb1, nb2, nb3;
};

/* MMVQ (block-format weights, q8 activations) and MMVF (plain weights, f32 activations), tile = columns per pass.
 *   y(i, j, b, c) = sum_k w(k, i, b / ratio2, c / ratio3) * x(k, j, b mod x_ne2, c)
 *   dst = y + add[0] + add[1]                                  one matrix
 *   dst = glu(y + add[0], y2 + add[1])                         two: y is the gate, y2 = the same sum with w2
 * With ids, the matrix of (b, c) is number ids(b, c) of w (and of w2) instead: product by chosen experts, n = 1; b counts
 * the experts of a token, c the tokens.  An id outside 0 .. experts-1 reads no weight and gives NaN.
 * Columns beyond the tile are done in further passes (more blocks), so any n works with any tile.
 *
 * MMQ: the same, of one matrix without ids, by tiles of `unit` rows and `tile` columns on int8 tensor cores. */
struct ingot_mmv_args {
    /* What a block needs first comes first: arguments arrive by lines of 64 bytes, each a wait when a launch is new. */
    struct ingot_mmv_shape {      /* of launches that src/ops/mmv.c plans block by block */
        int32_t flags;            /* INGOT_MMV_ */
        int32_t blocks;           /* per matrix of dst; MMQ: tiles down */
        int32_t grain;            /* rows: what a block has is a multiple, but for the last rows of a matrix */
        int32_t share, rest;      /* a block has share grains, the first `rest` blocks one more */
        int32_t across;           /* warps along k; MMQ: tiles along columns */
        int32_t inverse;          /* warp * inverse >> 16 is warp / across */
        int32_t units;            /* columns of a row, in units of 64, slabs of 256 or (MMVF_WIDE) chunks */
        int32_t depth;            /* slots of a warp's ring */
        int32_t log_width;        /* 1 << log_width lanes share a row: 8, 16 or 32 */
        int32_t log_slot;         /* a slot holds 1 << log_slot rows of each matrix */
        int32_t step;             /* rows that the block's slots of one turn hold, of each matrix; MMVF_WIDE: tiles; MMVQ_MMA:
                                   * slabs / across */
        int32_t last;             /* bytes of a row's last slice */
        int32_t stride;           /* bytes between rows in a slot; MMVF_WIDE: between columns in a stage; MMVQ_MMA: of a stage */
        int32_t stages;           /* where the warps' stages begin in shared memory */
        int32_t x_stages;         /* MMVF_WIDE: chunks of activations in shared memory; MMVQ_MMA: slabs % across */
    } shape;
    const void *w;                /* row i of matrix (b, c): w + i*w_nb1 + b*w_nb2 + c*w_nb3 */
    int64_t w_nb1;
    struct ingot_arg_q8 q8;       /* MMVQ: column j of (b, c) is q8 column (c*x_ne2 + b mod x_ne2)*n + j */
    int64_t m, n, k;              /* rows of w, columns of x, depth (a multiple of w's block) */
    float  *dst;                  /* row-contiguous: dst_nb0 is 4 */
    int64_t dst_nb1, dst_nb2, dst_nb3;
    struct ingot_mmv_add add[2];  /* what is added (may be dst itself where there is one matrix) */
    const void *w2;               /* NULL, or a second matrix of the same strides */
    int64_t w_nb2, w_nb3;
    int64_t ne2, ne3;             /* of dst */
    int64_t x_ne2;                /* of x: ne2, or a divisor of it with ids */
    int64_t ratio2, ratio3;       /* dst's matrices per w's matrix */
    const void *x;                /* MMVF: f32, element stride x_nb0 */
    int64_t x_nb0, x_nb1, x_nb2, x_nb3;
    const int32_t *ids;           /* NULL, or the expert of (b, c) at ids + b*ids_nb0 + c*ids_nb1 (bytes) */
    int64_t ids_nb0, ids_nb1, experts;
    int32_t w_is_constant;        /* 1: nothing on the stream writes w or w2, they may be read early */
    int32_t glu;                  /* two matrices: an ingot_glu_kind */
    float   glu_alpha, glu_limit;
};
enum {
    INGOT_MMV_EARLY = 1, /* w is constant and known: read it before the wait for the launch before */
    INGOT_MMV_LATE  = 2, /* let the next launch in only after that wait */
    INGOT_MMV_PAIR  = 4, /* two matrices and a GLU */
    INGOT_MMV_ADD   = 8, /* there is something to add */
    INGOT_MMV_MANY  = 16 /* more than one matrix of dst, or chosen by ids */
};

/* GET_ROWS type -> f32 (i32 -> i32).  dst [k, n, b, c], ids i32 [n, b, c]. */
struct ingot_get_rows_args {
    struct ingot_arg_tensor src, ids, dst;
};

/* SET_ROWS tile (f32; f16 too for block formats) -> type.  ids i32 or i64 (ids_size 4 or 8), repeated over dimensions 2
 * and 3 of src.  Block formats: ids with NULL data name each row's own number. */
struct ingot_set_rows_args {
    struct ingot_arg_tensor src, ids, dst;
    int32_t ids_size, reserved;
};

/* ADD, MUL: type of a and dst, tile = type of b.  b's dimensions divide a's. */
struct ingot_binary_args {
    struct ingot_arg_tensor a, b, dst;
};

/* RMS_NORM f32.  mul: NULL data, or a row [k] (f32, contiguous) the result is multiplied with.  dst: NULL data if only
 * q8 is wanted; q8: NULL qs if not wanted (k is then any number, else a multiple of 32). */
struct ingot_rms_norm_args {
    struct ingot_arg_tensor src, dst, mul;
    struct ingot_arg_q8     q8;
    float   eps;
    int32_t reserved;
};

/* A number as the sum of two floats, hi the nearest float to it and lo the nearest to the rest. */
struct ingot_two_float {
    float hi, lo;
};
enum { INGOT_ROPE_POWERS = 16 };

/* ROPE type (f32, f16).  x, dst [d, h, n, b]; pos i32 [n], stride pos_nb0; factors NULL or f32 [n_dims/2].
 * theta(i) = pos * freq_base^(-2i/n_dims) / factors[i]; then YaRN with ramp limits corr_low, corr_high (computed on the
 * host from beta_fast, beta_slow, n_ctx_orig) and magnitude `magnitude` (attn_factor and YaRN's correction included).
 * power[j] = freq_base^(-2 * 2^j / n_dims), computed on the host in double: the kernel multiplies those of the bits of
 * i, which keeps far positions exact where log2(freq_base) as one float would not.  So n_dims is at most 2^17.
 * pair: 0 NORMAL (2i, 2i+1), 1 NEOX (i, i + n_dims/2). */
struct ingot_rope_args {
    struct ingot_arg_tensor x, dst;
    const int32_t *pos;
    int64_t        pos_nb0;
    const float   *factors;
    int32_t n_dims, pair;
    struct ingot_two_float power[INGOT_ROPE_POWERS];
    float   freq_scale, ext_factor, magnitude, corr_low, corr_high, reserved;
};

/* UNARY type: the function of the gate in the GLU of this kind. */
struct ingot_unary_args {
    struct ingot_arg_tensor src, dst;
    int32_t kind, reserved;
};

/* GLU type: gate and up of dst's shape (the split form arrives as two views).  dst: NULL data if only q8 is wanted;
 * q8 (f32 only): NULL qs if not wanted. */
struct ingot_glu_args {
    struct ingot_arg_tensor gate, up, dst;
    struct ingot_arg_q8     q8;
    int32_t kind; /* an ingot_glu_kind */
    float   alpha, limit;
    int32_t reserved;
};

/* SOFT_MAX f32, tile = type of mask (f32, f16; f32 with NULL data when absent). */
struct ingot_soft_max_args {
    struct ingot_arg_tensor src, mask, dst;
    float   scale;
    int32_t reserved;
};

/* ATTN type of K and V (f16), tile = largest head size the kernel holds.  q [d, n_q, h, b] f32, k and v
 * [d, s, g, b], dst [d, h, n_q, b] f32.  kv_len NULL: s.  len_nb0: 0 if one length serves every batch.
 * dst: NULL data if only q8 is wanted; q8 (d a multiple of 32): the column of (query i, batch b) is b*n_q + i, its
 * element hd*d + e. */
struct ingot_attention_args {
    struct ingot_arg_tensor q, k, v, dst;
    struct ingot_arg_q8     q8;
    const int32_t *kv_len;
    int64_t        len_nb0;
    float   scale;
    int32_t causal;
};

#endif
