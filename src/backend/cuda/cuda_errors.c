/* SPDX-License-Identifier: Apache-2.0 */
/* Turns driver errors into messages. */
#include "backend/cuda/cuda_driver.h"

/* Returns what the user can do about it. */
static const char *cuda_error_hint(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_NO_DEVICE:
        return "; there is no NVIDIA GPU, or it is hidden (CUDA_VISIBLE_DEVICES)";
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_NOT_PERMITTED:
        return "; this user may not use the GPU: check the permissions of /dev/nvidia* (in a "
               "container: --gpus all)";
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return "; the driver is older than this build's kernels: install a newer one (under WSL2: "
               "on Windows)";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "; the driver's library and its kernel module differ: restart the machine";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "; the driver is not ready: restart the machine, or start its services";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "; another program may have taken the GPU's memory since the plan was made";
    default: return "";
    }
}

bool cuda_ok(const struct cuda_driver *d, CUresult result, const char *what, ey_err *e)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS) return true;
    d->error_name(result, &name);
    d->error_string(result, &text);
    ey_code code = result == CUDA_ERROR_OUT_OF_MEMORY ? EY_NO_MEMORY
                   : result == CUDA_ERROR_NO_DEVICE   ? EY_NO_DEVICE
                                                      : EY_INTERNAL;
    return ey_fail(e, code, "the GPU: %s: %s (%s)%s", what, text ? text : "unknown error",
                   name ? name : "?", cuda_error_hint(result));
}
