// SPDX-License-Identifier: MIT
/* quantize.c - activations to q8 columns, and how those lie in memory:
 *
 *   base                              aligned up to 16
 *   | qs: columns x k bytes           | scales: columns x k/32 x {d, s} |
 */
#include "emit.h"

static size_t q8_scales_at(const ingot_tensor *src) {
    return ((size_t)ingot_tensor_elements(src) + 15) / 16 * 16;
}

size_t ingot_q8_bytes(const ingot_tensor *src) {
    return q8_scales_at(src) + (size_t)ingot_tensor_elements(src) / 32 * sizeof(struct ingot_q8_scale);
}

struct ingot_arg_q8 ingot_q8_at(void *base, const ingot_tensor *src) {
    struct ingot_arg_q8 q8 = {base, NULL};

    if (base != NULL) q8.scales = (struct ingot_q8_scale *)((uintptr_t)base + q8_scales_at(src));
    return q8;
}

ingot_status ingot_emit_q8(struct ingot_emitter *em, const ingot_tensor *src, struct ingot_arg_q8 q8) {
    struct ingot_quantize_args args = {ingot_arg(src), q8};
    const struct ingot_kernel *kernel;
    ingot_status st = ingot_need_kernel(em, INGOT_FAMILY_QUANTIZE, src->type, 0, &kernel);

    if (st != INGOT_OK) return st;
    return ingot_emit_kernel(em, kernel, ingot_tensor_elements(src) / 32, 1, &args, sizeof args);
}

ingot_status ingot_emit_quantize(struct ingot_emitter *em, const struct ingot_call *call) {
    return ingot_emit_q8(em, call->src[0], call->q8_out);
}
