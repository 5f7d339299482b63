/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the fake driver instead of libcuda.so.1. Link it before the backend. */
#include <stdlib.h>

#include "cuda/fake_driver.h"

static const struct fake_gpu *gpu_to_open = &fake_small_gpu;
static const char *failing_member;
static int failing_call;
static CUresult failure;

/* Keeps the self-test's results in the build folder, not the user's cache. */
__attribute__((constructor)) static void keep_selftest_results_here(void)
{
    setenv("XDG_CACHE_HOME", EY_TEST_CACHE, 1);
}

void fake_open_gpu(const struct fake_gpu *found)
{
    gpu_to_open = found;
}

void fake_open_fail(const char *member, int nth, CUresult error)
{
    failing_member = member;
    failing_call = nth;
    failure = error;
}

bool cuda_driver_open(struct cuda_driver *driver, ey_err *e)
{
    *driver = (struct cuda_driver){0};
    if (!gpu_to_open) return ey_fail(e, EY_NO_DEVICE, "no NVIDIA driver");
    fake_driver_fill(driver, gpu_to_open);
    fake_driver_fail(failing_member, failing_call, failure);
    failing_member = NULL;
    return true;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    *driver = (struct cuda_driver){0};
}
