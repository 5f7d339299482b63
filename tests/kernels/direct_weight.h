/* SPDX-License-Identifier: Apache-2.0 */
/* Weights for tests that call the cpu backend's matmul directly. */
#ifndef EY_TESTS_KERNELS_DIRECT_WEIGHT_H
#define EY_TESTS_KERNELS_DIRECT_WEIGHT_H

#include "backend/cpu/cpu_matmul.h"

/* Like place(), but the backend does not keep the weight. */
static inline struct cpu_weight direct_weight(const struct backend *be, const struct tensor *tensor,
                                              enum weight_role role)
{
    struct cpu_weight w = {.m.tensor = *tensor, .role = role};
    cpu_choose_matmul((const struct cpu *)be, &w);
    return w;
}

#endif
