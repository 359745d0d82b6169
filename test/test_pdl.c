// SPDX-License-Identifier: MIT
/* test_pdl.c - programmatic dependent launch and the switch INGOT_PDL.  The linker puts __wrap_cudaLaunchKernelExC in
 * the place of the runtime's function, so what is counted is what the library hands to CUDA, on the GPU as on SIMT. */
#define _POSIX_C_SOURCE 200809L
#include "../src/kernels/table.h"
#include "check.h"

enum { PDL_K = 512, PDL_M = 77, PDL_RUNS = 3 };

cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *fn, void **args);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *fn, void **args);

static int launches, waiting, programmatic; /* waiting: of code that waits by itself */
static const struct ingot_table *table;     /* of the context that launches */

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *fn, void **args) {
    launches++;
    for (int i = 0; i < ingot_kernel_count && table != NULL; i++)
        if (ingot_kernel_stub(&ingot_kernels[i]) == fn) waiting += ingot_table_waits(table, &ingot_kernels[i]);
    for (unsigned i = 0; i < config->numAttrs; i++)
        programmatic += config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                        config->attrs[i].val.programmaticStreamSerializationAllowed != 0;
    return __real_cudaLaunchKernelExC(config, fn, args);
}

static ingot_context *context_with(const char *value) {
    ingot_context *ctx = NULL;
    if (value) setenv("INGOT_PDL", value, 1);
    else unsetenv("INGOT_PDL");
    ingot_status st = ingot_context_create(NULL, &ctx);
    unsetenv("INGOT_PDL");
    if (st != INGOT_OK) check_fail("no context with INGOT_PDL=%s: %s", value ? value : "(unset)", ingot_error(NULL));
    return ctx;
}

static void the_environment_decides(void **state) {
    static const struct {
        const char *value;
        bool on;
    } cases[] = {{NULL, true}, {"1", true},    {"yes", true}, {"2", true},     {"0", false},
                 {"", false},  {"off", false}, {"NO", false}, {"false", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ingot_context *ctx = context_with(cases[i].value);
        if (ctx->pdl != cases[i].on)
            check_fail("INGOT_PDL=%s: %d, expected %d", cases[i].value ? cases[i].value : "(unset)", ctx->pdl,
                       cases[i].on);
        ingot_context_destroy(ctx);
    }
}

/* A chain of dependent launches: two norms, two products of what they give, a sum; its last result after three runs. */
static void chain(ingot_context *ctx, const struct tensor *w, const struct tensor *w2, const struct tensor *x,
                  unsigned char *out, size_t bytes) {
    ingot_graph *g = NULL;
    struct tensor *y = tensor_new(INGOT_TYPE_F32, PDL_M, 1, 1, 1, NULL);
    tensor_upload(y);
    assert_int_equal(ingot_graph_create(ctx, &g), INGOT_OK);
    ingot_tensor *n = ingot_rms_norm(g, ingot_leaf(g, &x->t), 1e-5f);
    ingot_tensor *a = ingot_mul_mat(g, ingot_weight(g, &w->t), n, INGOT_PREC_DEFAULT);
    ingot_tensor *b = ingot_mul_mat(g, ingot_weight(g, &w2->t), ingot_rms_norm(g, a, 1e-5f), INGOT_PREC_DEFAULT);
    ingot_cpy(g, ingot_add(g, ingot_silu(g, b), b), ingot_leaf(g, &y->t));
    if (ingot_graph_plan(g, NULL, NULL) != INGOT_OK) check_fail("plan: %s", ingot_error(ctx));
    for (int run = 0; run < PDL_RUNS; run++)
        if (ingot_graph_run(g) != INGOT_OK) check_fail("run: %s", ingot_error(ctx));
    assert_int_equal(ingot_synchronize(ctx), INGOT_OK);
    ingot_graph_destroy(g);
    tensor_download(y);
    memcpy(out, tensor_at(y, 0, 0, 0, 0), bytes);
}

static void off_means_no_attribute_and_the_same_bits(void **state) {
    const size_t bytes = PDL_M * sizeof(float);
    ingot_type types[CHECK_TYPES];
    const size_t count = check_types(types);
    const bool modern = check_device().simt && check_device().cc_major >= 9;
    (void)state;
    for (size_t t = 0; t < count; t++) {
        struct tensor *w = tensor_new(types[t], PDL_K, PDL_K, 1, 1, NULL),
                      *w2 = tensor_new(types[t], PDL_K, PDL_M, 1, 1, NULL),
                      *x = tensor_new(INGOT_TYPE_F32, PDL_K, 1, 1, 1, NULL);
        unsigned char *out[2] = {check_alloc(bytes), check_alloc(bytes)};
        int count_of[2], waiting_of[2], programmatic_of[2];
        tensor_fill_random(w, -1.0, 1.0), tensor_fill_random(w2, -1.0, 1.0), tensor_fill_random(x, -1.0, 1.0);
        tensor_upload(w), tensor_upload(w2), tensor_upload(x);
        CHECK_OK(ingot_synchronize(check_context()));
        for (int on = 0; on < 2; on++) {
            ingot_context *ctx = context_with(on ? "1" : "0");
            table = ctx->table;
            launches = waiting = programmatic = 0;
            chain(ctx, w, w2, x, out[on], bytes);
            count_of[on] = launches, waiting_of[on] = waiting, programmatic_of[on] = programmatic;
            table = NULL;
            ingot_context_destroy(ctx);
        }
        const char *name = ingot_type_name(types[t]);
        if (count_of[0] < 4 || count_of[0] != count_of[1])
            check_fail("%s: %d launches without, %d with", name, count_of[0], count_of[1]);
        if (programmatic_of[0] != 0)
            check_fail("%s: %d programmatic launches with INGOT_PDL=0", name, programmatic_of[0]);
        if (programmatic_of[1] != waiting_of[1] || (modern && waiting_of[1] != count_of[1]))
            check_fail("%s: %d of %d launches are programmatic, %d run code that waits", name, programmatic_of[1],
                       count_of[1], waiting_of[1]);
        if (memcmp(out[0], out[1], bytes) != 0) check_fail("%s: other bits without programmatic launch", name);
        check_release();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_environment_decides),
        CHECK_TEST(off_means_no_attribute_and_the_same_bits),
    };
    return check_main("pdl", tests, sizeof tests / sizeof *tests);
}
