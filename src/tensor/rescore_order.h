/* SPDX-License-Identifier: Apache-2.0 */
/* The summation order of rescoring, the same on host and GPU (backend/rescore.h,
 * kernels/cuda/sampling/rescore.cu).
 *
 * A sum over n values has RESCORE_STRIDE partial sums: value i is added to sum i % RESCORE_STRIDE,
 * in ascending order. Each RESCORE_NEIGHBORS adjacent sums are added as (0 + 1) + (2 + 3), and the
 * RESCORE_LANES results as a tree in which i adds i + half, for half 16, 8, 4, 2, 1. */
#ifndef EY_TENSOR_RESCORE_ORDER_H
#define EY_TENSOR_RESCORE_ORDER_H

enum {
    RESCORE_LANES = 32,
    RESCORE_NEIGHBORS = 4,
    RESCORE_STRIDE = RESCORE_LANES * RESCORE_NEIGHBORS
};

#endif
