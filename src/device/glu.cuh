/* SPDX-License-Identifier: MIT */
#ifndef INGOT_GLU_CUH
#define INGOT_GLU_CUH
#include "src/device/device.cuh"
INGOT_DEV float glu(int kind, float gate, float up, float alpha, float limit) {
    (void)kind, (void)alpha, (void)limit;
    return gate / (1.0f + exp_f32(-gate)) * up;
}
#endif
