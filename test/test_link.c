// SPDX-License-Identifier: MIT
/* test_link.c - an appliance's program: plain C, the public header, the link line of the README, nothing else.
 * test/link.sh compiles and runs it.  Without a device it must end in peace, with a status and a text. */
#include <stdio.h>
#include <string.h>

#include "ingot.h"

int main(void) {
    ingot_build build = ingot_build_info();
    ingot_context *ctx = NULL;
    ingot_buffer *wb = NULL, *xb = NULL, *yb = NULL;
    ingot_tensor w, x, y;
    int devices = -1;
    float w_host[3 * 4], x_host[4] = {1, 2, 3, 4}, y_host[3] = {-1, -1, -1};

    printf("ingot %s for \"%s\", %d kernels\n", build.version, build.archs, build.kernels);
    ingot_status st = ingot_device_count(&devices);
    if (st == INGOT_ERR_NO_DEVICE) {
        const int peaceful = devices == 0 && ingot_error(NULL)[0] != '\0' &&
                             ingot_context_create(NULL, &ctx) == INGOT_ERR_NO_DEVICE && !ctx;
        printf("no device: %s\n", ingot_error(NULL));
        return peaceful ? 0 : 1;
    }
    if (st != INGOT_OK || ingot_context_create(NULL, &ctx) != INGOT_OK) {
        printf("%s: %s\n", ingot_status_name(st), ingot_error(NULL));
        return 1;
    }
    for (int i = 0; i < 12; i++) w_host[i] = (float)(i / 4 + 1);
    ingot_tensor_init(&w, INGOT_TYPE_F32, 2, (int64_t[]){4, 3}, NULL);
    ingot_tensor_init(&x, INGOT_TYPE_F32, 2, (int64_t[]){4, 1}, NULL);
    ingot_tensor_init(&y, INGOT_TYPE_F32, 2, (int64_t[]){3, 1}, NULL);
    if (ingot_buffer_create_for(ctx, &w, &wb) || ingot_buffer_set(wb, 0, w_host, ingot_tensor_size(&w)) ||
        ingot_buffer_create_for(ctx, &x, &xb) || ingot_buffer_set(xb, 0, x_host, ingot_tensor_size(&x)) ||
        ingot_buffer_create_for(ctx, &y, &yb)) {
        printf("buffers: %s\n", ingot_error(ctx));
        return 1;
    }
    ingot_node node = {.op = INGOT_OP_MUL_MAT, .dst = y, .src = {&w, &x}};
    if (ingot_compute(ctx, &node) || ingot_buffer_get(yb, 0, y_host, sizeof y_host)) {
        printf("mul_mat: %s\n", ingot_error(ctx));
        return 1;
    }
    printf("%g %g %g\n", y_host[0], y_host[1], y_host[2]);
    ingot_buffer_destroy(wb);
    ingot_buffer_destroy(xb);
    ingot_buffer_destroy(yb);
    ingot_context_destroy(ctx);
    return y_host[0] == 10 && y_host[1] == 20 && y_host[2] == 30 ? 0 : 1;
}
