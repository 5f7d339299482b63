/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test on the fake GPU: all kernels pass; a broken one is found, cached and replaced; a
 * broken one without a fallback, and a GPU that a kernel crashes, give an error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/open/open_backend.h"
#include "cuda/fake_driver.h"
#include "cuda/kernel_test_matrices.h"

static char folder[] = "/tmp/eyelet-check-XXXXXX";
static struct pool *pool;

/* Each test has its own cache folder. */
static int fresh_cache(void **state)
{
    static char path[64];
    static int n;
    (void)state;
    snprintf(path, sizeof(path), "%s/%d", folder, n++);
    return setenv("XDG_CACHE_HOME", path, 1);
}

static struct backend *opened(struct fake_counts *counts)
{
    struct cuda_driver driver;
    struct backend *be;
    ey_err e;
    fake_driver_fill(&driver, &fake_small_gpu);
    if (!backend_cuda_create_on(&be, &driver, pool, true, &e)) fail_msg("%s", e.text);
    if (counts) *counts = fake_driver_counts();
    return be;
}

static void closed(struct backend *be)
{
    be->ops->destroy(be);
    struct fake_counts n = fake_driver_counts();
    assert_int_equal(n.device_allocations + n.host_allocations + n.pinned_ranges + n.contexts +
                         n.modules + n.streams + n.events + n.graphs,
                     0);
}

static const struct selftest_result *result_of(const struct selftest_report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->kernel[i].name, name) == 0) return &r->kernel[i];
    fail_msg("no kernel family %s", name);
    return NULL;
}

static void all_pass_and_are_remembered(void **state)
{
    struct fake_counts before, after;
    struct selftest_report r, again;
    ey_err e;
    (void)state;
    struct backend *be = opened(&before);
    if (!backend_selftest(be, pool, false, &r, &e)) fail_msg("%s", e.text);
    after = fake_driver_counts();
    assert_int_equal(after.device_bytes, before.device_bytes);
    assert_false(r.cached);
    for (int i = 0; i < r.n; i++) {
        if (r.kernel[i].absent) continue;
        print_message("%-20s %.2e%s\n", r.kernel[i].name, (double)r.kernel[i].error,
                      r.kernel[i].failed ? " failed" : "");
        assert_true(r.kernel[i].was_run && r.kernel[i].error >= 0);
    }
    assert_int_equal(r.n_failed, 0);
    print_message("%.2f s\n", r.seconds);
    assert_true(backend_selftest(be, pool, false, &again, &e));
    assert_true(again.cached);
    assert_int_equal(fake_driver_counts().launches, after.launches);
    for (int i = 0; i < r.n; i++)
        assert_true(fabsf(again.kernel[i].error - r.kernel[i].error) <= 1e-3f * r.kernel[i].error);
    closed(be);
}

/* Runs x[n, rows] += in · wᵀ on the backend and compares it with doubles. */
static void assert_multiplies(struct backend *be, int n)
{
    enum { ROWS = 48, COLS = 128 };
    struct matrix m = random_matrix(K_BF16, ROWS, COLS, 0);
    struct tensor in = {.data = m.dev.data, .dtype = DTYPE_BF16, .rows = ROWS, .cols = COLS};
    struct placed *w;
    const struct backend_limits limits = {
        .max_rows = 64, .max_seqs = 1, .max_logits = 1, .max_blocks = 1, .max_width = 256};
    float *x = random_floats(64 * COLS, 1), *y = random_floats(64 * ROWS, 1), got[64 * ROWS];
    ey_err e;
    for (int i = 0; i < n * COLS; i++)
        x[i] = bf16_float(float_bf16(x[i]));
    if (!be->ops->memory->place(be, &w, &in, ROLE_TEXT, PLACE_RESIDENT, &e) ||
        !be->ops->memory->reserve(be, &limits, &e))
        fail_msg("%s", e.text);
    dev device_x = be->ops->memory->alloc(be, sizeof(float) * 64 * COLS, &e),
        device_y = be->ops->memory->alloc(be, sizeof(float) * 64 * ROWS, &e);
    be->ops->memory->write(be, device_x, x, ELEMENT_ACTIVATION, (size_t)(n * COLS));
    be->ops->memory->write(be, device_y, y, ELEMENT_RESIDUAL, (size_t)(n * ROWS));
    be->ops->compute->project_add(be, device_y, device_x, w, n, 0);
    if (!be->ops->compute->finish(be, &e)) fail_msg("%s", e.text);
    be->ops->memory->read(be, got, device_y, ELEMENT_RESIDUAL, (size_t)(n * ROWS));
    for (int i = 0; i < n * ROWS; i++) {
        double want = (double)y[i];
        for (int c = 0; c < COLS; c++)
            want += (double)x[i / ROWS * COLS + c] * m.value[i % ROWS * COLS + c];
        assert_true(fabs((double)got[i] - want) < 1e-3);
    }
    be->ops->memory->release(be, device_x);
    be->ops->memory->release(be, device_y);
    be->ops->memory->release(be, (dev)(uintptr_t)cuda_weight_of(w)->matrix.data);
}

/* The kernel, which n_kernels entries of the report use, fails and is replaced; the next start
 * reads that from the cache. */
static void is_replaced(const char *kernel, const char *kernel_id, int n_kernels, int n,
                        bool repaired)
{
    struct selftest_report r;
    ey_err e;
    for (int start = 0; start < 2; start++) {
        struct backend *be = opened(NULL);
        fake_driver_break(kernel);
        if (!backend_selftest(be, pool, false, &r, &e)) fail_msg("%s", e.text);
        assert_int_equal(r.n_failed, n_kernels);
        assert_true(result_of(&r, kernel_id)->failed);
        assert_true(result_of(&r, kernel_id)->error > 0.1f);
        assert_int_equal(r.cached, start == 1);
        if (n) assert_multiplies(be, n);
        if (start == 1 && repaired) { /* a new self-test passes */
            fake_driver_break(NULL);
            assert_true(backend_selftest(be, pool, true, &r, &e));
            assert_int_equal(r.n_failed, 0);
        }
        closed(be);
    }
}

static void wrong_gemv(void **state)
{
    (void)state;
    is_replaced("gemv_bf16_act_add_8", "gemv_bf16", 1, 5, true);
}

static void wrong_gemv1(void **state)
{
    (void)state;
    is_replaced("gemv_m1_fp8_act_add", "gemv_m1", 1, 0, false);
}

static void wrong_tile(void **state)
{
    (void)state;
    is_replaced("gemm_bf16_32x64", "gemm_bf16_32x64", 1, 40, false);
}

static void wrong_small_matmul(void **state)
{
    (void)state;
    is_replaced("matmul_small_fp8_32", "matmul_small_fp8", 1, 0, true);
}

static void wrong_w8a8(void **state)
{
    (void)state;
    is_replaced("gemm_w8a8", "gemm_w8a8", 1, 0, true);
}

/* Quantizing rows is tested with the FP8 matmul. If it is wrong, prefill uses BF16, and
 * supports_fp8_prompts says why. */
static void wrong_quantizing(void **state)
{
    struct selftest_report r;
    struct backend *be;
    bool slow;
    ey_err e;
    (void)state;
    is_replaced("quantize_rows", "gemm_w8a8", 1, 0, false);
    be = opened(NULL);
    assert_true(be->ops->compute->supports_fp8_prompts(be, &slow, &e));
    assert_true(backend_selftest(be, pool, false, &r, &e)); /* from the cache */
    assert_false(be->ops->compute->supports_fp8_prompts(be, &slow, &e));
    assert_non_null(strstr(e.text, "computes wrongly"));
    closed(be);
}

/* An RTX 30 does not even load the kernel. */
static void older_gpus_have_no_fp8(void **state)
{
    struct fake_gpu gpu = fake_small_gpu;
    struct cuda_driver driver;
    struct backend *be;
    bool slow;
    ey_err e;
    (void)state;
    gpu.major = 8;
    gpu.minor = 6;
    fake_driver_fill(&driver, &gpu);
    if (!backend_cuda_create_on(&be, &driver, pool, true, &e)) fail_msg("%s", e.text);
    assert_false(be->ops->compute->supports_fp8_prompts(be, &slow, &e));
    assert_non_null(strstr(e.text, "compute capability 8.6"));
    closed(be);
}

/* An H100 has its own tiles; each is launched and tested. */
static void gpus_of_9_0_have_more_tiles(void **state)
{
    struct fake_gpu gpu = fake_small_gpu;
    struct cuda_driver driver;
    struct selftest_report r;
    struct backend *be;
    ey_err e;
    (void)state;
    gpu.major = 9;
    gpu.shared_per_block = 227 << 10;
    fake_driver_fill(&driver, &gpu);
    if (!backend_cuda_create_on(&be, &driver, pool, true, &e)) fail_msg("%s", e.text);
    fake_driver_break("gemm_sm90_bf16_128x104");
    if (!backend_selftest(be, pool, true, &r, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < r.n; i++)
        if (!r.kernel[i].was_run && !r.kernel[i].absent)
            fail_msg("%s was not tested", r.kernel[i].name);
    assert_true(result_of(&r, "matmul_small_sm90")->absent); /* not emulated */
    assert_int_equal(r.n_failed, 1);
    assert_true(result_of(&r, "gemm_sm90_bf16_128x104")->failed);
    closed(be);
}

static void missing_kernels_are_named(void **state)
{
    struct cuda_driver driver;
    struct backend *be;
    ey_err e;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *kernel = i ? "quantize_rows" : "copy_words";
        fake_driver_fill(&driver, &fake_small_gpu);
        fake_driver_hide(kernel);
        assert_false(backend_cuda_create_on(&be, &driver, pool, true, &e));
        assert_int_equal(e.code, EY_INTERNAL);
        assert_non_null(strstr(e.text, kernel));
    }
}

static void wrong_attention(void **state)
{
    (void)state;
    is_replaced("attention_128", "attention_128_fp8", 2, 0,
                false); /* one kernel for both types of KV cache */
}

static void kernels_without_fallback_are_errors(void **state)
{
    struct selftest_report r;
    ey_err e;
    (void)state;
    for (int start = 0; start < 2; start++) {
        struct backend *be = opened(NULL);
        fake_driver_break("norm_rows");
        assert_false(backend_selftest(be, pool, false, &r, &e));
        assert_non_null(strstr(e.text, "norm_rows"));
        assert_non_null(strstr(e.text, "--device cpu"));
        closed(be);
    }
}

/* All launches from the nth on fail; the earlier results stay valid. */
static void a_refused_launch_is_a_failure(void **state)
{
    struct selftest_report r;
    ey_err e;
    (void)state;
    struct backend *be = opened(NULL);
    int before = fake_driver_counts().launches;
    fake_driver_fail("launch", 8, 700); /* while testing row or vision kernels */
    bool ok = backend_selftest(be, pool, false, &r, &e);
    assert_true(fake_driver_counts().launches > before);
    assert_true(ok ? r.n_failed == 1 : strstr(e.text, "kernel") != NULL);
    closed(be);
}

static void a_damaged_file_is_a_new_selftest(void **state)
{
    struct selftest_report r;
    ey_err e;
    char command[128];
    (void)state;
    struct backend *be = opened(NULL);
    fake_driver_break("norm_rows"); /* fails this start, but is not written to the file */
    assert_false(backend_selftest(be, pool, false, &r, &e));
    fake_driver_break(NULL);
    snprintf(command, sizeof(command), "for f in %s/eyelet/*; do echo '{\"key\": 3' > \"$f\"; done",
             getenv("XDG_CACHE_HOME"));
    assert_int_equal(system(command), 0);
    assert_true(backend_selftest(be, pool, false, &r, &e));
    assert_false(r.cached);
    setenv("XDG_CACHE_HOME", "/proc/nowhere",
           1); /* without a writable cache the result is kept in memory */
    assert_true(backend_selftest(be, pool, false, &r, &e));
    assert_false(r.cached);
    closed(be);
}

/* Fills the cache for tests of engines, so that they start fast. */
static void fill(void **state)
{
    struct selftest_report r;
    ey_err e;
    (void)state;
    struct backend *be = opened(NULL);
    if (!backend_selftest(be, pool, true, &r, &e)) fail_msg("%s", e.text);
    assert_int_equal(r.n_failed, 0);
    closed(be);
}

static int begin(void **state)
{
    ey_err e;
    (void)state;
    return mkdtemp(folder) && pool_create(&pool, 1, &e) ? 0 : -1;
}

static int end(void **state)
{
    char command[64];
    pool_destroy(&pool);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return free_all(state) || system(command);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest filling[] = {cmocka_unit_test(fill)};
    if (argc > 1 && strcmp(argv[1], "fill") == 0)
        return cmocka_run_group_tests(filling, begin, end);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_pass_and_are_remembered, fresh_cache),
        cmocka_unit_test_setup(wrong_gemv, fresh_cache),
        cmocka_unit_test_setup(wrong_gemv1, fresh_cache),
        cmocka_unit_test_setup(wrong_tile, fresh_cache),
        cmocka_unit_test_setup(wrong_small_matmul, fresh_cache),
        cmocka_unit_test_setup(wrong_w8a8, fresh_cache),
        cmocka_unit_test_setup(wrong_quantizing, fresh_cache),
        cmocka_unit_test(older_gpus_have_no_fp8),
        cmocka_unit_test_setup(gpus_of_9_0_have_more_tiles, fresh_cache),
        cmocka_unit_test(missing_kernels_are_named),
        cmocka_unit_test_setup(wrong_attention, fresh_cache),
        cmocka_unit_test_setup(kernels_without_fallback_are_errors, fresh_cache),
        cmocka_unit_test_setup(a_refused_launch_is_a_failure, fresh_cache),
        cmocka_unit_test_setup(a_damaged_file_is_a_new_selftest, fresh_cache),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
