/* SPDX-License-Identifier: MIT
 *
 * test_faults.c - each mistake of bad.cu is found, described, and survived. Every row runs in a child
 * process of this program with its own environment: options are read once, and a sanitizer ends the
 * process it reports on. Rows name the build they belong to.
 */
#include <sys/wait.h>

#include "test/simt/common.h"

#if defined(__SANITIZE_ADDRESS__)
#define BUILD "asan"
#elif defined(__SANITIZE_THREAD__)
#define BUILD "tsan"
#else
#define BUILD "plain"
#endif
#if defined(SIMT_UBSAN)
#define UBSAN 1
#else
#define UBSAN 0
#endif

/* A child prints `error NAME` for what synchronising returned, `value HEX` for out[0], and `next
 * launch ok`. Output (stderr included) must hold every text of `want` and none that starts with '!'. */
struct row {
    const char *name, *build, *env;
    kernel_fn fn;
    unsigned block, smem;
    int k;
    const char *want[6];
};
#define SURVIVED "next launch ok"
static const struct row rows[] = {
    {"deadlock",
     "plain",
     "",
     ingot_b_deadlock,
     64,
     0,
     0,
     {"DEADLOCK", "kernel 'ingot_b_deadlock'", "__syncthreads (test/simt/bad.cu:", "threads 0-47\n",
      "warp 1 misses lanes 0x0000ffff", "error cudaErrorLaunchTimeout"}},
    {"deadlock survived", "plain", "", ingot_b_deadlock, 64, 0, 0, {SURVIVED}},
    {"endless loop",
     "plain",
     "INGOT_SIMT_WATCHDOG=1",
     ingot_b_endless,
     64,
     0,
     0,
     {"has run for 1 s", "kernel 'ingot_b_endless'", "error cudaErrorLaunchTimeout", SURVIVED}},
    {"all threads sleep",
     "plain",
     "",
     ingot_b_sleep,
     64,
     0,
     0,
     {"DEADLOCK", "waiting at __nanosleep", "threads 0-63", "error cudaErrorLaunchTimeout", SURVIVED}},
    {"stack overflow",
     "plain",
     "",
     ingot_b_overflow,
     32,
     0,
     0,
     {"stack overflow", "thread (0,0,0)", "error cudaErrorHardwareStackError", SURVIVED}},
    {"stack made larger", "plain", "INGOT_SIMT_STACK_KB=400", ingot_b_overflow, 32, 0, 0, {"error cudaSuccess"}},
    {"wrong mask",
     "plain",
     "",
     ingot_b_mask,
     32,
     0,
     0,
     {"lacks the calling lane 16", "bad.cu:", "error cudaErrorLaunchFailure", SURVIVED}},
    {"static shared memory",
     "plain",
     "",
     ingot_b_static_limit,
     32,
     0,
     0,
     {"exceed 49152", "error cudaErrorInvalidValue", SURVIVED}},
    {"trap",
     "plain",
     "",
     ingot_b_trap,
     64,
     0,
     0,
     {"__trap() at test/simt/bad.cu:", "thread (33,0,0) [linear 33, warp 1 lane 1]", "error cudaErrorLaunchFailure",
      SURVIVED}},
    {"trap with workers",
     "plain",
     "INGOT_SIMT_THREADS=3",
     ingot_b_trap,
     64,
     0,
     0,
     {"error cudaErrorLaunchFailure", SURVIVED}},
    {"trap in a lazy stream",
     "plain",
     "INGOT_SIMT_LAZY=1",
     ingot_b_trap,
     64,
     0,
     0,
     {"error cudaErrorLaunchFailure", SURVIVED}},
    {"abort on request", "plain", "INGOT_SIMT_ABORT=1", ingot_b_trap, 64, 0, 0, {"__trap()", "!error"}},
    {"division by zero",
     "plain",
     "",
     ingot_b_divide,
     32,
     0,
     0,
     {"Floating point exception", "kernel 'ingot_b_divide'", "error cudaErrorIllegalInstruction", SURVIVED}},
    {"wild pointer",
     "plain",
     "",
     ingot_b_oob_global,
     32,
     0,
     1 << 30,
     {"Segmentation fault", "thread (", "error cudaErrorIllegalAddress", SURVIVED}},
    {"past the end, guarded",
     "plain",
     "INGOT_SIMT_GUARD=1",
     ingot_b_oob_global,
     64,
     0,
     1024 - 63,
     {"(0 bytes past the end of the 4096-byte device allocation", "thread (63,0,0)", "error cudaErrorIllegalAddress",
      SURVIVED}},
    {"host touches device memory",
     "plain",
     "INGOT_SIMT_GUARD=1",
     NULL,
     0,
     0,
     0,
     {"host code touched", "byte 4 of the 4096-byte device allocation", "!error"}},
    {"misaligned ldmatrix",
     "plain",
     "",
     ingot_b_ldmatrix,
     32,
     0,
     0,
     {"ldmatrix: misaligned", "error cudaErrorMisalignedAddress", SURVIVED}},
    {"barrier counts differ",
     "plain",
     "",
     ingot_b_barrier_count,
     64,
     0,
     0,
     {"barrier 1: 64 threads expected", "error cudaErrorLaunchFailure", SURVIVED}},
    {"half a warp in a reduction",
     "plain",
     "",
     ingot_b_partial_warp,
     64,
     0,
     0,
     {"warp_sum needs all 32 lanes", "error cudaErrorLaunchFailure", SURVIVED}},
    {"divergent barrier",
     "plain",
     "INGOT_SIMT_STRICT=1",
     ingot_b_divergent,
     32,
     0,
     0,
     {"divergent barrier", "error cudaErrorLaunchFailure", SURVIVED}},
    {"exited lane in a mask",
     "plain",
     "INGOT_SIMT_STRICT=1",
     ingot_b_lane_exits,
     32,
     0,
     0,
     {"exit", "error cudaErrorLaunchFailure", SURVIVED}},
    {"switches are off by value",
     "plain",
     "INGOT_SIMT_STRICT=0 INGOT_SIMT_LAZY=off INGOT_SIMT_FILL=",
     ingot_b_lane_exits,
     32,
     0,
     0,
     {"error cudaSuccess"}},
    {"copy not waited for", "plain", "", ingot_b_no_wait, 32, 0, 0, {"error cudaSuccess", "value 00000000"}},
    {"the same, copies at once", "plain", "INGOT_SIMT_ASYNC=early", ingot_b_no_wait, 32, 0, 0, {"value 01010101"}},
    {"uninitialised shared memory", "plain", "INGOT_SIMT_FILL=1", ingot_b_uninitialised, 32, 0, 0, {"value ffffffff"}},
    {"missing barrier, by its result", "plain", "INGOT_SIMT_FILL=1", ingot_b_block_race, 64, 0, 0, {"value ffffffff"}},

    {"shared array",
     "asan",
     "",
     ingot_b_oob_shared,
     64,
     0,
     4,
     {"use-after-poison", "kernel 'ingot_b_oob_shared'", "thread (60,0,0)", "bad.cu:"}},
    {"dynamic shared memory", "asan", "", ingot_b_oob_dynamic, 64, 256, 4, {"use-after-poison", "thread (60,0,0)"}},
    {"global memory",
     "asan",
     "",
     ingot_b_oob_global,
     64,
     0,
     1024 - 60,
     {"heap-buffer-overflow", "kernel 'ingot_b_oob_global'", "thread (6"}},
    {"local array",
     "asan",
     "",
     ingot_b_oob_local,
     32,
     0,
     4,
     {"kernel 'ingot_b_oob_local'", "bad.cu:", "!error cuda"}}, /* by ASan, or by UBSan where both are in */
    {"deadlock", "asan", "", ingot_b_deadlock, 64, 0, 0, {"DEADLOCK", "error cudaErrorLaunchTimeout", SURVIVED}},
    {"endless loop",
     "asan",
     "INGOT_SIMT_WATCHDOG=1",
     ingot_b_endless,
     64,
     0,
     0,
     {"error cudaErrorLaunchTimeout", SURVIVED}},
    {"shift", "ubsan", "", ingot_b_shift, 32, 0, 4, {"shift exponent", "kernel 'ingot_b_shift'", "thread (28,0,0)"}},
    {"misaligned vector",
     "ubsan",
     "",
     ingot_b_misaligned,
     32,
     0,
     1,
     {"misaligned address", "kernel 'ingot_b_misaligned'"}},

    {"missing __syncthreads", "tsan", "", ingot_b_block_race, 64, 0, 0, {"data race", "ingot_b_block_race"}},
    {"with it", "tsan", "", ingot_b_block_race, 64, 0, 1, {"!data race", "error cudaSuccess"}},
    {"missing __syncwarp", "tsan", "", ingot_b_warp_race, 64, 0, 0, {"data race"}},
    {"with it", "tsan", "", ingot_b_warp_race, 64, 0, 1, {"!data race", "error cudaSuccess"}},
    {"ring slot overwritten", "tsan", "", ingot_b_copy_race, 64, 0, 0, {"data race"}},
    {"with a second barrier", "tsan", "", ingot_b_copy_race, 64, 0, 1, {"!data race", "error cudaSuccess"}},
    {"deadlock", "tsan", "", ingot_b_deadlock, 64, 0, 0, {"DEADLOCK", "error cudaErrorLaunchTimeout", SURVIVED}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int child(const struct row *r) {
    void *out, *in;
    uint32_t v = 0;
    cudaStream_t s;
    if (cudaMalloc(&out, 4096) || cudaMalloc(&in, 4096)) return 1;
    cudaMemset(out, 0, 4096);
    cudaMemset(in, 1, 4096);
    cudaStreamCreate(&s);
    cudaDeviceSynchronize();
    if (!r->fn) return ((volatile int *)out)[1]; /* host code must not */
    launch(r->fn, 4, r->block, r->smem, s, (struct test_args){.in = in, .out = out, .k = r->k});
    printf("error %s\n", cudaGetErrorName(cudaStreamSynchronize(s)));
    cudaMemcpy(&v, out, 4, cudaMemcpyDeviceToHost);
    printf("value %08x\n", v);
    cudaMemset(out, 0, 4096);
    cudaError_t e = launch(ingot_t_add_one, 4, 256, 0, s, (struct test_args){.out = out, .n = 1024, .k = 7});
    if (!e) e = cudaStreamSynchronize(s);
    if (!e) e = cudaMemcpy(&v, (int *)out + 1023, 4, cudaMemcpyDeviceToHost);
    if (!e && v == 7) printf(SURVIVED "\n");
    return 0;
}

static const char *self;

static void check_row(void **state) {
    const struct row *r = *state;
    char command[512], out[16384];
    snprintf(command, sizeof command, "%s %s %d 2>&1", r->env, self, (int)(r - rows));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    const size_t n = fread(out, 1, sizeof out - 1, p);
    out[n] = 0;
    while (fgetc(p) != EOF) {
    }
    pclose(p);
    for (int i = 0; i < 6 && r->want[i]; i++) {
        const char *w = r->want[i];
        if (*w == '!' ? !!strstr(out, w + 1) : !strstr(out, w))
            fail_msg("%s '%s' in:\n%s", *w == '!' ? "unwanted" : "no", *w == '!' ? w + 1 : w, out);
    }
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) return child(&rows[atoi(argv[1]) % ROWS]);
    struct CMUnitTest tests[ROWS];
    size_t n = 0;
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].build, BUILD) || (UBSAN && !strcmp(rows[i].build, "ubsan")))
            tests[n++] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, (void *)&rows[i]};
    return _cmocka_run_group_tests("simt faults, " BUILD, tests, n, NULL, NULL);
}
