// SPDX-License-Identifier: MIT
/* ingot.h - the public API of ingot: CUDA kernels for GGUF-quantised inference, cast ahead of time.
 *
 * Introduction
 * ------------
 * One header, one archive.  The link line of a program is
 *
 *     cc app.c -lingot -lcublasLt -lcudart_static -ldl -lrt -lpthread -lm
 *
 * Three levels, each built on the one below; stop at the one that fits:
 *   1. op calls   ingot_compute() runs one operation on tensors the caller owns
 *   2. graphs     build nodes, plan once (memory, kernels, fusion), run many times as one CUDA graph
 *   3. buffers    device and pinned memory, copies, events, device enumeration
 *
 * Example: y[m,n] = W[k,m] * x[k,n], W in q4_K blocks as they lie in a GGUF file
 *
 *     ingot_context *ctx = NULL;
 *     ingot_buffer  *wb = NULL, *xb = NULL, *yb = NULL;
 *     ingot_tensor   w, x, y;
 *     if (ingot_context_create(NULL, &ctx) != INGOT_OK) { puts(ingot_error(NULL)); return 1; }
 *     ingot_tensor_init(&w, INGOT_TYPE_Q4_K, 2, (int64_t[]){k, m}, NULL);
 *     ingot_tensor_init(&x, INGOT_TYPE_F32,  2, (int64_t[]){k, n}, NULL);
 *     ingot_tensor_init(&y, INGOT_TYPE_F32,  2, (int64_t[]){m, n}, NULL);
 *     ingot_buffer_create_for(ctx, &w, &wb);  ingot_buffer_set(wb, 0, w_host, ingot_tensor_size(&w));
 *     ingot_buffer_create_for(ctx, &x, &xb);  ingot_buffer_set(xb, 0, x_host, ingot_tensor_size(&x));
 *     ingot_buffer_create_for(ctx, &y, &yb);
 *     ingot_node node = {.op = INGOT_OP_MUL_MAT, .dst = y, .src = {&w, &x}};
 *     if (ingot_compute(ctx, &node) != INGOT_OK) puts(ingot_error(ctx));
 *     ingot_buffer_get(yb, 0, y_host, ingot_tensor_size(&y));
 *
 * Rules that hold everywhere
 * --------------------------
 * Status     Every function that can fail returns an ingot_status.  Nothing aborts, exits or prints (INGOT_LOG=1 in
 *            the environment asks for messages on stderr).  ingot_error() gives the text of the last failure.  After a
 *            failure the context is usable, except after INGOT_ERR_LOST.
 * Async      Every call that takes device memory is ordered on the context's stream and returns before the work is
 *            done, unless its comment says "synchronises".
 * Threads    Different contexts may be used from different threads at once; one context from one thread at a time.
 *            A context makes its device current for the calling thread during a call and restores the one before.
 * Ownership  Handles belong to the caller, who destroys them; destroy functions accept NULL.  Tensors are plain data:
 *            the library copies the descriptor and never owns or frees tensor data that the caller passed.
 * Shapes     GGUF order: ne[0] is the contiguous dimension.  A dimension of 0 makes an empty tensor: a success that
 *            does nothing if it is dst.  Sums over k = 0 are 0.
 * Absent     An optional source is a NULL pointer.
 *
 * Environment: INGOT_LOG=1 messages on stderr; INGOT_ARCH=sm75|sm80|sm90a at most this class of kernels;
 * INGOT_FUSE=0 plan without fusion; INGOT_GRAPH=0 run without CUDA graphs; INGOT_PDL=0 no programmatic dependent launch
 * (a kernel starts when the one before is done; same results).  Of the switches "", "0", "off", "no" and "false" mean
 * off, anything else on.  Values are read at context creation.
 */
#ifndef INGOT_H
#define INGOT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INGOT_VERSION_MAJOR 0
#define INGOT_VERSION_MINOR 1
#define INGOT_VERSION_PATCH 0

/* ===================================================== Status ===================================================== */

/* Values are part of the ABI; groups leave room. */
typedef enum ingot_status {
    INGOT_OK                = 0,
    INGOT_ERR_INVALID       = 1,  /* an argument is wrong: null pointer, shape, range, overlap */
    INGOT_ERR_UNSUPPORTED   = 2,  /* legal, but no kernel of this build does it on this device */
    INGOT_ERR_STATE         = 3,  /* legal call at the wrong time: a graph that is not planned, say */
    INGOT_ERR_HOST_MEMORY   = 10, /* out of host memory */
    INGOT_ERR_DEVICE_MEMORY = 11, /* out of device or pinned memory */
    INGOT_ERR_NO_DEVICE     = 20, /* no CUDA device, no driver, or no device of that number */
    INGOT_ERR_NO_CODE       = 21, /* the build holds no code for the device's architecture */
    INGOT_ERR_CUDA          = 22, /* the CUDA runtime reported an error */
    INGOT_ERR_BLAS          = 23, /* cuBLASLt reported an error */
    INGOT_ERR_LOST          = 24  /* the device context is lost (illegal access, hang): destroy it, create another */
} ingot_status;

/* "INGOT_ERR_INVALID" for INGOT_ERR_INVALID; "unknown status" for others.  Static storage. */
const char *ingot_status_name(ingot_status status);

typedef struct ingot_context ingot_context;
typedef struct ingot_buffer  ingot_buffer;
typedef struct ingot_event   ingot_event;
typedef struct ingot_graph   ingot_graph;

/* Text of the last failed call on `ctx`: the op, the shapes, what was wrong and what was expected.  With NULL: of the
 * calling thread's last failed call that had no context.  "" if there was none.  Valid until the next failure. */
const char *ingot_error(const ingot_context *ctx);

/* ================================================== Tensor types ================================================== */

/* Values are those of GGUF (ggml_type), so a type read from a file can be cast. */
typedef enum ingot_type {
    INGOT_TYPE_F32     = 0,
    INGOT_TYPE_F16     = 1,
    INGOT_TYPE_Q4_0    = 2,
    INGOT_TYPE_Q4_1    = 3,
    INGOT_TYPE_Q5_0    = 6,
    INGOT_TYPE_Q5_1    = 7,
    INGOT_TYPE_Q8_0    = 8,
    INGOT_TYPE_Q8_1    = 9,
    INGOT_TYPE_Q2_K    = 10,
    INGOT_TYPE_Q3_K    = 11,
    INGOT_TYPE_Q4_K    = 12,
    INGOT_TYPE_Q5_K    = 13,
    INGOT_TYPE_Q6_K    = 14,
    INGOT_TYPE_Q8_K    = 15,
    INGOT_TYPE_IQ2_XXS = 16,
    INGOT_TYPE_IQ2_XS  = 17,
    INGOT_TYPE_IQ3_XXS = 18,
    INGOT_TYPE_IQ1_S   = 19,
    INGOT_TYPE_IQ4_NL  = 20,
    INGOT_TYPE_IQ3_S   = 21,
    INGOT_TYPE_IQ2_S   = 22,
    INGOT_TYPE_IQ4_XS  = 23,
    INGOT_TYPE_I8      = 24,
    INGOT_TYPE_I16     = 25,
    INGOT_TYPE_I32     = 26,
    INGOT_TYPE_I64     = 27,
    INGOT_TYPE_F64     = 28,
    INGOT_TYPE_IQ1_M   = 29,
    INGOT_TYPE_BF16    = 30,
    INGOT_TYPE_TQ1_0   = 34,
    INGOT_TYPE_TQ2_0   = 35,
    INGOT_TYPE_MXFP4   = 39,
    INGOT_TYPE_NVFP4   = 40
} ingot_type;

/* Elements per block (1 for plain types) and bytes per block; 0 for a number that is no type. */
int64_t     ingot_type_block(ingot_type type);
size_t      ingot_type_size(ingot_type type);
/* GGUF spelling: "q4_K", "f16"; "?" for a number that is no type.  Static storage. */
const char *ingot_type_name(ingot_type type);

/* A tensor is plain data.  Element (i0,i1,i2,i3) of a plain type lies at data + i0*nb[0] + i1*nb[1] + i2*nb[2] +
 * i3*nb[3]; for block formats i0 counts blocks and nb[0] is the bytes of one block. */
typedef struct ingot_tensor {
    ingot_type type;
    int64_t    ne[4]; /* elements per dimension; unused ones are 1 */
    size_t     nb[4]; /* stride in bytes per dimension */
    void      *data;  /* device memory (or pinned host memory the device can address) */
} ingot_tensor;

/* Describes a contiguous tensor of `n_dims` (1..4) dimensions ne[0..n_dims).  `data` may be NULL and be set later.
 * INGOT_ERR_INVALID: null pointer, unknown type, n_dims out of range, a negative dimension, ne[0] no multiple of the
 * type's block, or a size that does not fit in 63 bits. */
ingot_status ingot_tensor_init(ingot_tensor *t, ingot_type type, int n_dims, const int64_t *ne, void *data);

/* Bytes from the first to one past the last byte the tensor addresses, with its strides; 0 if empty. */
size_t  ingot_tensor_size(const ingot_tensor *t);
/* Product of the dimensions. */
int64_t ingot_tensor_elements(const ingot_tensor *t);

/* ==================================================== Devices ===================================================== */

typedef struct ingot_device {
    char     name[256];
    int      cc_major, cc_minor;  /* compute capability */
    int      sm_count;            /* streaming multiprocessors */
    size_t   memory_total;        /* bytes */
    size_t   memory_free;         /* bytes, at the time of the call */
    size_t   l2_size;             /* bytes */
    size_t   shared_per_block;    /* bytes a block may opt in to, clamped to 48 KiB .. 256 KiB */
    double   memory_bandwidth;    /* bytes per second as the memory clock and bus width tell; 0 if unknown */
    int      integrated;          /* 1 if the GPU shares the host's memory */
    int      simt;                /* 1 if this is the SIMT host, which runs kernels on the CPU */
    char     pci_bus_id[16];      /* "0000:17:00.0"; "" if there is none */
} ingot_device;

/* Number of devices.  INGOT_ERR_NO_DEVICE if there is no driver or no device (*count is then 0). */
ingot_status ingot_device_count(int *count);
/* Properties of device `index`.  INGOT_ERR_INVALID: null pointer.  INGOT_ERR_NO_DEVICE: no such device. */
ingot_status ingot_device_get(int index, ingot_device *out);

typedef struct ingot_build {
    const char *version;    /* "0.1.0" */
    const char *archs;      /* chips with machine code: "75 80 90a"; "simt" for the SIMT host */
    const char *ptx;        /* PTX levels: "80" */
    const char *types;      /* formats with kernels: "f32 f16 q4_0 ..." */
    int         kernels;    /* rows in the kernel table */
    int         cublaslt;   /* 1 if cuBLASLt serves the f16/bf16/f32 GEMMs */
} ingot_build;

/* What is compiled in.  Strings are static. */
ingot_build ingot_build_info(void);

/* ==================================================== Context ===================================================== */

/* Where a block of memory lives. */
typedef enum ingot_memory {
    INGOT_MEMORY_HOST   = 0, /* pageable host memory: the library's own bookkeeping */
    INGOT_MEMORY_PINNED = 1, /* page-locked host memory, addressable by every device */
    INGOT_MEMORY_DEVICE = 2
} ingot_memory;

/* The caller's allocator.  Every block the library takes comes from it.  alloc returns NULL on failure, memory aligned
 * to 256 bytes (device, pinned) or 16 (host), for the device that is current on the calling thread.  free is never
 * called with NULL.  Both may be called from any thread that uses a context made with it. */
typedef struct ingot_allocator {
    void *(*alloc)(void *user, ingot_memory kind, size_t bytes);
    void  (*free)(void *user, ingot_memory kind, void *ptr);
    void  *user;
} ingot_allocator;

/* A message without newline.  Called on the thread that uses the context. */
typedef void (*ingot_log_fn)(void *user, const char *text);

typedef struct ingot_context_options {
    size_t                 size;            /* sizeof(ingot_context_options); see INGOT_CONTEXT_OPTIONS */
    int                    device;          /* device number */
    struct CUstream_st    *stream;          /* the caller's stream; NULL: the context makes its own */
    const ingot_allocator *allocator;       /* copied; NULL: cudaMalloc, cudaMallocHost, malloc */
    size_t                 blas_workspace;  /* bytes of cuBLASLt workspace; 0: 32 MiB */
    ingot_log_fn           log;             /* NULL: stderr if INGOT_LOG=1, else nothing */
    void                  *log_user;
} ingot_context_options;
#define INGOT_CONTEXT_OPTIONS {sizeof(ingot_context_options), 0, NULL, NULL, 0, NULL, NULL}

/* Creates a context on a device: stream, pool, cuBLASLt handle and workspace, kernel look-up.  `options` NULL means the
 * defaults (device 0).  Allocates; may synchronise the device.  On failure *out is NULL and ingot_error(NULL) tells.
 * INGOT_ERR_INVALID, INGOT_ERR_NO_DEVICE, INGOT_ERR_NO_CODE (names the device's architecture and the compiled ones),
 * INGOT_ERR_HOST_MEMORY, INGOT_ERR_DEVICE_MEMORY, INGOT_ERR_CUDA, INGOT_ERR_BLAS, INGOT_ERR_LOST (another context of
 * the device is lost and not destroyed yet). */
ingot_status ingot_context_create(const ingot_context_options *options, ingot_context **out);

/* Waits for the context's stream and frees what the context owns.  Buffers, events and graphs made from it must be
 * destroyed before.  Accepts NULL. */
void ingot_context_destroy(ingot_context *ctx);

/* The stream all work of the context is ordered on.  Never NULL. */
struct CUstream_st *ingot_context_stream(const ingot_context *ctx);

/* Waits until all work of the context is done.  Synchronises.
 * INGOT_ERR_INVALID, INGOT_ERR_CUDA, INGOT_ERR_LOST (also for faults of earlier asynchronous work). */
ingot_status ingot_synchronize(ingot_context *ctx);

/* Bytes the context's pool holds: in use by calls on the stream, and in total.  Either pointer may be NULL. */
ingot_status ingot_context_memory(const ingot_context *ctx, size_t *in_use, size_t *held);

/* ==================================================== Buffers ===================================================== */

/* A block of device or pinned memory of `bytes` (0 is legal) on the context's device, aligned to 256 bytes.  Allocates
 * (may synchronise the device).  INGOT_ERR_INVALID (also for INGOT_MEMORY_HOST), INGOT_ERR_HOST_MEMORY,
 * INGOT_ERR_DEVICE_MEMORY. */
ingot_status ingot_buffer_create(ingot_context *ctx, ingot_memory kind, size_t bytes, ingot_buffer **out);
/* Device memory for `t`, and t->data pointed at it.  INGOT_ERR_INVALID also for a tensor that has no size: unknown type,
 * negative dimension, strides beyond 63 bits. */
ingot_status ingot_buffer_create_for(ingot_context *ctx, ingot_tensor *t, ingot_buffer **out);
/* Waits for work of its context that may still use the memory, then frees it.  Accepts NULL. */
void   ingot_buffer_destroy(ingot_buffer *buffer);
void  *ingot_buffer_data(const ingot_buffer *buffer); /* NULL for 0 bytes or a NULL buffer */
size_t ingot_buffer_size(const ingot_buffer *buffer);

/* Copies between host memory and bytes [offset, offset + bytes) of a buffer.  The plain forms synchronise: set returns
 * when `src` may be reused, get when `dst` is filled.  The async forms are stream-ordered: pinned host memory must
 * stay valid and unchanged until the stream has passed; pageable memory is staged by the CUDA runtime.
 * INGOT_ERR_INVALID (null pointer, range past the end), INGOT_ERR_CUDA, INGOT_ERR_LOST. */
ingot_status ingot_buffer_set(ingot_buffer *dst, size_t offset, const void *src, size_t bytes);
ingot_status ingot_buffer_get(const ingot_buffer *src, size_t offset, void *dst, size_t bytes);
ingot_status ingot_buffer_set_async(ingot_buffer *dst, size_t offset, const void *src, size_t bytes);
ingot_status ingot_buffer_get_async(const ingot_buffer *src, size_t offset, void *dst, size_t bytes);
/* Fills bytes [offset, offset + bytes) with `value`.  Stream-ordered. */
ingot_status ingot_buffer_fill(ingot_buffer *dst, size_t offset, int value, size_t bytes);
/* Copies between buffers, also of different contexts and devices: ordered after the work submitted so far to both
 * contexts, and both contexts' later work is ordered after it.  Ranges of one buffer must not overlap.  Does not
 * synchronise.  INGOT_ERR_INVALID, INGOT_ERR_CUDA, INGOT_ERR_LOST. */
ingot_status ingot_buffer_copy(ingot_buffer *dst, size_t dst_offset, const ingot_buffer *src, size_t src_offset,
                               size_t bytes);

/* ===================================================== Events ===================================================== */

/* INGOT_ERR_INVALID, INGOT_ERR_HOST_MEMORY, INGOT_ERR_CUDA. */
ingot_status ingot_event_create(ingot_context *ctx, ingot_event **out);
void         ingot_event_destroy(ingot_event *event); /* accepts NULL */
/* Marks this point of `ctx`'s stream.  `ctx` must be on the event's device. */
ingot_status ingot_event_record(ingot_event *event, ingot_context *ctx);
/* Makes later work of `ctx` (any device) wait for the event.  Does not block the host. */
ingot_status ingot_event_wait(ingot_event *event, ingot_context *ctx);
/* Blocks the host until the event has happened.  Synchronises. */
ingot_status ingot_event_synchronize(ingot_event *event);
/* Milliseconds between two recorded events of one device.  Synchronises with `end`. */
ingot_status ingot_event_elapsed(ingot_event *start, ingot_event *end, float *milliseconds);

/* ===================================================== Ops ======================================================== */

/* One operation; src[] and params of each are listed here.  "float" = f32, f16 or bf16.
 *
 * op         src[0]               src[1]              src[2]            dst                       params
 * ---------  -------------------  ------------------  ----------------  ------------------------  ---------
 * GET_ROWS   table [k,r,b,c] any  ids [n,b,c] i32                       [k,n,b,c] f32
 * SET_ROWS   rows [k,n,b,c] any   ids [n,B,C] i32/64                    [k,r,b,c] float, updated
 * CPY        any                                                        float, same elements
 * ADD MUL    [..] float           broadcast into src0                   shape of src[0]
 * RMS_NORM   [k,..] f32                                                 shape of src[0], f32      rms_norm
 * ROPE       [d,h,n,b] f32 f16    pos [n] i32         factors [r/2]     shape and type of src[0]  rope
 * SILU       float                                                      shape and type of src[0]
 * RELU GELU  float                                                      shape and type of src[0]
 * GELU_ERF   float                                                      shape and type of src[0]
 * GELU_QUICK float                                                      shape and type of src[0]
 * GLU        gate float           up or absent                          see below                 glu
 * SOFT_MAX   [k,q,h,b] f32        mask f32/f16                          shape of src[0], f32      soft_max
 * MUL_MAT    A [k,m,b,c] any      B [k,n,B,C] float                     [m,n,B,C] f32             mul_mat
 * MUL_MAT_ID A [k,m,E] any        B [k,s,t] float     ids [u,t] i32     [m,u,t] f32               mul_mat
 * ATTENTION  Q [d,q,h,b] f32      K [d,s,g,b] f16     V [d,s,g,b] f16   [d,h,q,b] f32             attention
 *
 * All strides are honoured; dst must not overlap itself.  "any" = every type the build has kernels for.  SET_ROWS and
 * CPY also round floats to q4_0, q4_1, q5_0, q5_1, q8_0 and iq4_nl, and CPY copies every type of GGUF to itself.
 * In place (dst on exactly src[0]'s memory with the same strides) is legal for ADD, MUL, RMS_NORM, ROPE, SILU, RELU,
 * the GELUs, SOFT_MAX and two-source GLU (on either source); any other overlap of dst with a source is
 * INGOT_ERR_INVALID.
 *
 * GET_ROWS   dst row (i,j,l) = table row ids(i,j,l) of matrix (j,l).  An id outside 0..r-1 reads nothing and gives a
 *            row of NaN.  An i32 table gives i32, and -1 for NaN.
 * SET_ROWS   dst row ids(i,j%B,l%C) of matrix (j,l) = row (i,j,l); b % B = 0, c % C = 0.  Ids outside 0..r-1 write
 *            nothing.  Ids of one matrix must be distinct, or which row wins is not defined.  Rows of a block format go
 *            to floats only.
 * CPY        Element i of src in ne order goes to element i of dst; the shapes may differ (reshape).  A type is copied
 *            to itself bit by bit.  Floats round to nearest even, infinities stay, and a NaN stays one, of whatever
 *            bits; to a block format floats round as ggml's reference does (for iq4_nl without an importance matrix),
 *            and a block with a NaN decodes to NaN.
 * ADD, MUL   src[1]'s dimensions divide src[0]'s: it is repeated.  Type pairs: equal, or src[1] f32.  dst has src[0]'s
 *            type.
 * RMS_NORM   y = x / sqrt(mean(x^2) + eps) over dimension 0.
 * ROPE       Rotates pairs of the first n_dims elements by pos * theta_i, theta_i = freq_base^(-2i/n_dims) /
 *            factors[i], scaled as YaRN (Peng et al. 2023, arXiv 2309.00071) says.  mode NORMAL pairs (2i, 2i+1), NEOX
 *            pairs (i, i + n_dims/2).  Elements from n_dims on are copied.
 * SILU       x / (1 + exp(-x)).  RELU, GELU (the tanh form), GELU_ERF and GELU_QUICK are the functions of the gate in
 *            REGLU, GEGLU, GEGLU_ERF and GEGLU_QUICK below.
 * GLU        act(gate) * up, act by params.glu.kind.  With src[1] absent src[0] is [2f, ..]: the first f elements of a
 *            row are the gate, the rest is up, and dst is [f, ..].
 * SOFT_MAX   softmax(scale * x + mask) over dimension 0.  mask [k, >= q, h' , b'] with h % h' = 0, b % b' = 0.  A row
 *            that is wholly masked (-inf) gives 0.
 * MUL_MAT    dst(i,j) = sum over k of A(k,i) * B(k,j); B % b = 0 and C % c = 0: matrix (j,l) of B meets
 *            matrix (j / (B/b), l / (C/c)) of A.  With prec DEFAULT and a block format A, B is rounded to 8-bit
 *            blocks of 32, or for more than 8 columns, where there is cuBLASLt, to f16; with an f16 or bf16 A and
 *            more than 8 columns it may be rounded to A's type.  With F32 nothing is rounded, nor up to 8 columns
 *            with an A in q8_1 or q8_K, which are no formats of weights.  Sums are f32.
 * MUL_MAT_ID dst(:,e,i) = A(:,:,ids(e,i))^T B(:,e % s,i): token i by the u experts that its ids choose, out of E; u % s
 *            = 0.  Ids are device data.  An id outside 0..E-1 reads nothing and gives NaN.  Rounds as MUL_MAT does with
 *            one column; with prec F32 all E matrices of a block format are decoded first.
 * ATTENTION  dst(:,h,i) = sum over j of softmax_j(scale * Q(:,i,h) . K(:,j,g)) * V(:,j,g), g = h / (heads / groups).
 *            src[3], optional: i32 [1] or [b], the number of valid keys (device data; clamped to 0..s).  causal: query
 *            i sees keys 0 .. len - q + i.  A query that sees no key gives 0.  d is at most 256. */
typedef enum ingot_op {
    INGOT_OP_NONE = 0,
    INGOT_OP_GET_ROWS,
    INGOT_OP_SET_ROWS,
    INGOT_OP_CPY,
    INGOT_OP_ADD,
    INGOT_OP_MUL,
    INGOT_OP_RMS_NORM,
    INGOT_OP_ROPE,
    INGOT_OP_SILU,
    INGOT_OP_RELU,
    INGOT_OP_GELU,
    INGOT_OP_GELU_ERF,
    INGOT_OP_GELU_QUICK,
    INGOT_OP_GLU,
    INGOT_OP_SOFT_MAX,
    INGOT_OP_MUL_MAT,
    INGOT_OP_MUL_MAT_ID,
    INGOT_OP_ATTENTION,
    INGOT_OP_COUNT
} ingot_op;

/* "mul_mat" for INGOT_OP_MUL_MAT; "?" for a number that is no op.  Static storage. */
const char *ingot_op_name(ingot_op op);

typedef enum ingot_prec { INGOT_PREC_DEFAULT = 0, INGOT_PREC_F32 = 1 } ingot_prec;
typedef enum ingot_rope_mode { INGOT_ROPE_NORMAL = 0, INGOT_ROPE_NEOX = 2 } ingot_rope_mode; /* ggml's values */

typedef struct ingot_rms_norm_params { float eps; } ingot_rms_norm_params;
typedef struct ingot_rope_params {
    ingot_rope_mode mode;
    int32_t n_dims;       /* rotated elements of a head: even, 2 .. d */
    int32_t n_ctx_orig;   /* context the model was trained with (YaRN) */
    float   freq_base;    /* 10000 in the first Llama */
    float   freq_scale;   /* 1: none; 1/s: linear scaling by s */
    float   ext_factor;   /* 0: no YaRN; 1: YaRN's mix of interpolation and extrapolation */
    float   attn_factor;  /* magnitude of the rotated vector, 1 as a rule */
    float   beta_fast, beta_slow; /* YaRN's ramp, 32 and 1 as a rule */
} ingot_rope_params;
/* ggml's values.  g is the gate, y is up. */
typedef enum ingot_glu_kind {
    INGOT_GLU_REGLU       = 0, /* max(g, 0) * y */
    INGOT_GLU_GEGLU       = 1, /* g/2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))) * y */
    INGOT_GLU_SWIGLU      = 2, /* g / (1 + exp(-g)) * y */
    INGOT_GLU_SWIGLU_OAI  = 3, /* g' / (1 + exp(-alpha g')) * (y' + 1), g' = min(g, limit), y' = y within +-limit */
    INGOT_GLU_GEGLU_ERF   = 4, /* g/2 (1 + erf(g / sqrt(2))) * y */
    INGOT_GLU_GEGLU_QUICK = 5  /* g / (1 + exp(-1.702 g)) * y */
} ingot_glu_kind;
typedef struct ingot_glu_params {
    ingot_glu_kind kind;
    float alpha, limit; /* of SWIGLU_OAI: finite; at least 0 (infinity: no limit) */
} ingot_glu_params;
typedef struct ingot_soft_max_params { float scale; } ingot_soft_max_params;
typedef struct ingot_mul_mat_params { ingot_prec prec; } ingot_mul_mat_params;
typedef struct ingot_attention_params { float scale; int causal; } ingot_attention_params;

#define INGOT_MAX_SRC 4

typedef struct ingot_node {
    ingot_op            op;
    ingot_tensor        dst;
    const ingot_tensor *src[INGOT_MAX_SRC];
    union {
        ingot_rms_norm_params  rms_norm;
        ingot_rope_params      rope;
        ingot_glu_params       glu;
        ingot_soft_max_params  soft_max;
        ingot_mul_mat_params   mul_mat;
        ingot_attention_params attention;
    } params;
} ingot_node;

/* Level 1: runs one op.  Stream-ordered; scratch comes from the context's pool (which may allocate and then
 * synchronise, until it is as large as the largest call needs).
 * INGOT_ERR_INVALID (shapes, types, null data, overlap), INGOT_ERR_UNSUPPORTED (no kernel for this type pair or head
 * size), INGOT_ERR_HOST_MEMORY, INGOT_ERR_DEVICE_MEMORY, INGOT_ERR_CUDA, INGOT_ERR_BLAS, INGOT_ERR_LOST. */
ingot_status ingot_compute(ingot_context *ctx, const ingot_node *node);

/* What ingot_compute would answer for shapes and types alone, decided by the same table: INGOT_OK,
 * INGOT_ERR_UNSUPPORTED or INGOT_ERR_INVALID.  Data pointers are not looked at and may be NULL; nothing runs. */
ingot_status ingot_supports(ingot_context *ctx, const ingot_node *node);

/* ===================================================== Graphs ===================================================== */

/* Level 2.  Building functions return a tensor that belongs to the graph and lives as long as it does, or NULL on an
 * error; NULL passed on gives NULL, so a whole model can be built without a check: ingot_graph_plan() reports the
 * first error.  Nodes run in the order in which they were built.  What changes from run to run is data in device
 * tensors, never a pointer or a shape.
 *
 * A graph is used by one thread at a time.  Several graphs may share tensors' data; runs on one context are ordered. */

/* INGOT_ERR_INVALID, INGOT_ERR_HOST_MEMORY. */
ingot_status ingot_graph_create(ingot_context *ctx, ingot_graph **out);
/* Waits for its runs, then frees.  Accepts NULL. */
void ingot_graph_destroy(ingot_graph *graph);

/* A tensor whose data the caller owns and keeps while the graph lives: an input, an output, a cache. */
ingot_tensor *ingot_leaf(ingot_graph *g, const ingot_tensor *t);
/* The same for data that nothing writes while the graph runs: kernels may read it ahead of the nodes before. */
ingot_tensor *ingot_weight(ingot_graph *g, const ingot_tensor *t);

/* Views: no node, no copy.  view: `n_dims` dimensions ne[], byte strides nb[1..n_dims) (nb[0] is kept), starting
 * `offset` bytes into `a`, at any element or block; must stay inside what `a` addresses.  reshape: `a` contiguous, same
 * element count.  permute: dimension i of `a` becomes dimension axis[i]. */
ingot_tensor *ingot_view(ingot_graph *g, ingot_tensor *a, int n_dims, const int64_t *ne, const size_t *nb, size_t offset);
ingot_tensor *ingot_reshape(ingot_graph *g, ingot_tensor *a, int n_dims, const int64_t *ne);
ingot_tensor *ingot_permute(ingot_graph *g, ingot_tensor *a, int axis0, int axis1, int axis2, int axis3);

/* Nodes: the ops above with their results shaped by the rules there.  set_rows and cpy return `dst`, whose memory they
 * write.  cast and cont make a new contiguous tensor, of any type that cpy takes (cont is ggml's dup, too). */
ingot_tensor *ingot_get_rows(ingot_graph *g, ingot_tensor *table, ingot_tensor *ids);
ingot_tensor *ingot_set_rows(ingot_graph *g, ingot_tensor *dst, ingot_tensor *rows, ingot_tensor *ids);
ingot_tensor *ingot_cpy(ingot_graph *g, ingot_tensor *src, ingot_tensor *dst);
ingot_tensor *ingot_cast(ingot_graph *g, ingot_tensor *a, ingot_type type);
ingot_tensor *ingot_cont(ingot_graph *g, ingot_tensor *a);
ingot_tensor *ingot_add(ingot_graph *g, ingot_tensor *a, ingot_tensor *b);
ingot_tensor *ingot_mul(ingot_graph *g, ingot_tensor *a, ingot_tensor *b);
ingot_tensor *ingot_rms_norm(ingot_graph *g, ingot_tensor *a, float eps);
ingot_tensor *ingot_rope(ingot_graph *g, ingot_tensor *a, ingot_tensor *pos, ingot_tensor *factors,
                         const ingot_rope_params *params);
/* The same over `a` itself, which it returns: a part of a product's result may be rotated where it lies. */
ingot_tensor *ingot_rope_inplace(ingot_graph *g, ingot_tensor *a, ingot_tensor *pos, ingot_tensor *factors,
                                 const ingot_rope_params *params);
ingot_tensor *ingot_silu(ingot_graph *g, ingot_tensor *a);
ingot_tensor *ingot_relu(ingot_graph *g, ingot_tensor *a);
ingot_tensor *ingot_gelu(ingot_graph *g, ingot_tensor *a);
ingot_tensor *ingot_gelu_erf(ingot_graph *g, ingot_tensor *a);
ingot_tensor *ingot_gelu_quick(ingot_graph *g, ingot_tensor *a);
/* up NULL: split form. */
ingot_tensor *ingot_glu(ingot_graph *g, ingot_tensor *gate, ingot_tensor *up, const ingot_glu_params *params);
ingot_tensor *ingot_soft_max(ingot_graph *g, ingot_tensor *a, ingot_tensor *mask, float scale);
ingot_tensor *ingot_mul_mat(ingot_graph *g, ingot_tensor *a, ingot_tensor *b, ingot_prec prec);
ingot_tensor *ingot_mul_mat_id(ingot_graph *g, ingot_tensor *a, ingot_tensor *b, ingot_tensor *ids, ingot_prec prec);
ingot_tensor *ingot_attention(ingot_graph *g, ingot_tensor *q, ingot_tensor *k, ingot_tensor *v, ingot_tensor *kv_len,
                              const ingot_attention_params *params);

/* Keeps `t` readable after a run: its memory is not reused, and t->data is valid from ingot_graph_plan on. */
void ingot_output(ingot_graph *g, ingot_tensor *t);

typedef struct ingot_plan_options {
    size_t size;         /* sizeof(ingot_plan_options) */
    void  *arena;        /* the caller's device memory for intermediates, aligned to 256; NULL: the graph allocates */
    size_t arena_bytes;  /* its size */
    int    measure;      /* 1: fill in `info` only, allocate nothing; plan again before running */
} ingot_plan_options;

typedef struct ingot_plan_info {
    size_t arena_bytes;   /* device memory for intermediates and scratch */
    size_t naive_bytes;   /* what they would take without reuse */
    int    nodes;         /* as built */
    int    launches;      /* kernels and GEMMs per run */
    int    fused;         /* nodes that fusion made disappear */
} ingot_plan_info;

/* Checks the graph, picks every kernel, fuses, lays intermediates out.  Allocates (unless the caller brings an arena).
 * One launch each become: rms_norm * row; a mul_mat or mul_mat_id of few columns with up to two sums (a bias, a
 * residual); two products of the same activations, or one, with the GLU of what they give.
 * Nodes may not be added afterwards; planning again is legal and gives the same plan.  `options`, `info` may be NULL.
 * INGOT_ERR_INVALID (the first building error, a null weight), INGOT_ERR_UNSUPPORTED, INGOT_ERR_STATE,
 * INGOT_ERR_HOST_MEMORY, INGOT_ERR_DEVICE_MEMORY (also: arena too small; `info` tells the size). */
ingot_status ingot_graph_plan(ingot_graph *g, const ingot_plan_options *options, ingot_plan_info *info);

/* Runs the planned graph on the context's stream.  Only launches: no synchronisation, no device allocation.  The first
 * run launches each kernel, the second records a CUDA graph, later ones launch that.
 * INGOT_ERR_INVALID, INGOT_ERR_STATE (not planned), INGOT_ERR_CUDA, INGOT_ERR_BLAS, INGOT_ERR_LOST. */
ingot_status ingot_graph_run(ingot_graph *g);

#ifdef __cplusplus
}
#endif
#endif
