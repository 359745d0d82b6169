// SPDX-License-Identifier: MIT
/* check.h - what the tests share: random data, number formats, block decoders, guarded device tensors, comparisons.
 *
 * A test fills host images of tensors, uploads them, runs an op and compares whole buffers: every element of the result
 * against a float64 reference (ref.h), every other byte of every buffer against what it held before.  Results, gaps
 * between rows and guards on both sides hold 0xFF before a run, which is NaN in each float type: what a kernel forgets
 * to write, or reads and should not have read, shows. */
#ifndef INGOT_TEST_CHECK_H
#define INGOT_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../include/ingot.h"

/* ---- running */

/* Runs the tests whose name matches the pattern in the environment variable K (fnmatch; all if unset), with a context
 * for them.  Returns main's exit code. */
int check_main(const char *group, const struct CMUnitTest *tests, size_t count);

/* The context of this program, on device 0. */
ingot_context *check_context(void);
ingot_device   check_device(void);

/* Fails the test with the library's own text unless the status is the expected one. */
void check_status_at(ingot_status got, ingot_status expected, const ingot_context *ctx, const char *file, int line);
#define CHECK_OK(call) check_status_at((call), INGOT_OK, check_context(), __FILE__, __LINE__)
#define CHECK_STATUS(call, expected) check_status_at((call), (expected), check_context(), __FILE__, __LINE__)

/* Fails the test with a printf text. */
void check_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Memory that lives until the test ends. */
void *check_alloc(size_t bytes);
/* Frees memory and tensors of the running test: each test's teardown calls it; a loop inside a test may, too. */
void  check_release(void);
int   check_teardown(void **state);
#define CHECK_TEST(f) cmocka_unit_test_teardown(f, check_teardown)

/* ---- random numbers: a new seed each run, printed; INGOT_TEST_SEED repeats one */

uint64_t check_random(void);
int64_t  check_range(int64_t low, int64_t high); /* both ends included */
double   check_uniform(double low, double high);

/* ---- number formats */

float    check_f16_to_f32(uint16_t h);
uint16_t check_f32_to_f16(float f);  /* to nearest even */
float    check_bf16_to_f32(uint16_t h);
uint16_t check_f32_to_bf16(float f);
/* `x` rounded to a plain type: f32, f16 or bf16. */
double   check_round(ingot_type type, double x);

/* f32, f16, bf16, then the block formats of the build; their number. */
enum { CHECK_TYPES = 256 };
size_t check_types(ingot_type types[CHECK_TYPES]);
bool check_in_build(ingot_type type);
bool check_is_block(ingot_type type);

/* One block to `ingot_type_block(type)` numbers, from the format's definition.  Exact.  A format without a decoder in
 * blocks.c is looked up in its golden vectors, and its random blocks are drawn from them. */
bool check_has_decoder(ingot_type type);
void check_decode_block(ingot_type type, const unsigned char *block, double *out);
/* A block of random bits with finite scales: `wild` draws them from all finite f16, else of magnitude 2^-7 .. 2^-4. */
void check_random_block(ingot_type type, unsigned char *block, bool wild);
/* A block whose elements are all 1. */
void check_ones_block(ingot_type type, unsigned char *block);

/* Rounding a row of activations to 8 bits as src/kernels/args.h defines: k a multiple of 32. */
void check_quantize_row(const double *x, int64_t k, int8_t *q, float *d, float *s);

/* ---- tensors */

/* How a tensor lies in memory.  All 0: contiguous. */
struct layout {
    int64_t gap[4];   /* blocks or elements left free behind each row, matrix, ... in order of `order` */
    int     order[4]; /* dimensions from the innermost out; all 0 means 0 1 2 3 */
    size_t  offset;   /* bytes the first element is moved from an aligned address */
};

struct tensor {
    ingot_tensor   t;       /* t.data points into device memory */
    ingot_buffer  *buffer;
    unsigned char *host;    /* image of the whole buffer as last uploaded or downloaded */
    size_t         bytes;   /* of the buffer */
    size_t         first;   /* of the first element in the buffer */
    struct layout  how;
    struct tensor *next;
};

/* A tensor with its own buffer, all bytes 0xFF, not yet uploaded.  Lives until the test ends. */
struct tensor *tensor_new(ingot_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3, const struct layout *how);
/* Dimensions and layout of another (which is not a permuted view). */
struct tensor *tensor_like(const struct tensor *a, ingot_type type);
/* Another view of the same memory: dimension i of `a` becomes dimension axis[i] (plain types). */
struct tensor *tensor_permuted(struct tensor *a, int axis0, int axis1, int axis2, int axis3);

/* Where block or element (i0, ..) of the host image lies; i0 counts blocks for block formats. */
unsigned char *tensor_at(const struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
/* One element of a plain type. */
void   tensor_set(struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value);
double tensor_get(const struct tensor *a, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
/* All elements decoded, contiguous in ne order.  Lives until the test ends. */
double *tensor_values(const struct tensor *a);

void tensor_fill_random(struct tensor *a, double low, double high); /* block formats: random blocks */
void tensor_fill_wild(struct tensor *a);                            /* any finite bit pattern */
void tensor_fill_ones(struct tensor *a);
void tensor_fill(struct tensor *a, double value);                   /* plain types */
/* Plain types: element number e in ne order becomes f(e). */
void tensor_fill_by(struct tensor *a, double (*f)(int64_t e));
void tensor_poison(struct tensor *a); /* the whole image 0xFF */

void tensor_upload(struct tensor *a);
void tensor_download(struct tensor *a);

/* ---- comparisons */

/* sum((out-ref)^2) / sum(ref^2); infinite if an element of `out` is NaN where ref is not, or the reverse.  Elements
 * that are NaN in both, or infinite with one sign in both, count as equal. */
double check_nmse(const double *out, const double *ref, int64_t count);

/* Downloads `dst` and compares it with `ref` (contiguous float64):
 *   nmse 0   each element must be ref rounded to dst's type, bit for bit (any NaN for a NaN)
 *   nmse > 0 NMSE within the bound; f16 and bf16 also within 0.51 of the last place of each element (and
 *            the f32 rounding of the largest)
 * and all bytes of the buffer that belong to no element must be as they were uploaded.  `what` names the case. */
void check_result(struct tensor *dst, const double *ref, double nmse, const char *what);
/* The bytes of the buffer have not changed since the upload. */
void check_unchanged(struct tensor *a, const char *what);

/* "q4_0 [64,3,1,1]" for messages; a few buffers in turn. */
const char *check_shape(const ingot_tensor *t);

#endif
