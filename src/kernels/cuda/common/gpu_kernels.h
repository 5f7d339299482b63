/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of the kernels and of their families, from gpu_kernels.def. C for the host, C++ for nvcc. */
#ifndef EY_CUDA_GPU_KERNELS_H
#define EY_CUDA_GPU_KERNELS_H

/* clang-format off */
enum gpu_family {
#define GPU_FAMILY(id, name, fallback) FAMILY_##id,
#include "kernels/cuda/common/gpu_kernels.def"
    GPU_FAMILIES,
    FAMILY_NONE = GPU_FAMILIES
};

enum gpu_kernel {
    GPU_NO_KERNEL,
#define GPU_KERNEL(name, family, capability) GPU_##name,
#include "kernels/cuda/common/gpu_kernels.def"
    GPU_KERNELS
};
/* clang-format on */

struct gpu_kernel_entry {
    const char *name; /* in the module */
    enum gpu_family family;
    int capability;
};

static inline const struct gpu_kernel_entry *gpu_kernel_info(enum gpu_kernel kernel)
{
    static const struct gpu_kernel_entry entries[GPU_KERNELS] = {
        {"no kernel", FAMILY_NONE, 80},
#define GPU_KERNEL(name, family, capability) {#name, FAMILY_##family, capability},
#include "kernels/cuda/common/gpu_kernels.def"
    };
    return &entries[kernel];
}

static inline const char *gpu_kernel_name(enum gpu_kernel kernel)
{
    return gpu_kernel_info(kernel)->name;
}

#endif
