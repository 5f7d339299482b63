/* SPDX-License-Identifier: Apache-2.0 */
/* Rescoring: top-k logits of an 8-bit head (PLACE_EIGHT_BIT), recomputed from the BF16 rows. The
 * host and the GPU (kernels/cuda/sampling/topk.cu) do it with the same bits, so that an answer does
 * not depend on which of them did: float32, every product and sum rounded by itself, and one order
 * of sums.
 *
 * A sum over n values has RESCORE_STRIDE partial sums: value i goes to i % RESCORE_STRIDE, in
 * ascending order. Of these each RESCORE_NEIGHBORS neighbours are added as (0 + 1) + (2 + 3), and
 * what that leaves as a tree in which i takes in i + half: half 16, 8, 4, 2, 1. */
#ifndef EY_BACKEND_EXACT_H
#define EY_BACKEND_EXACT_H

#include <stddef.h>

enum {
    RESCORE_LANES = 32,
    RESCORE_NEIGHBORS = 4,
    RESCORE_STRIDE = RESCORE_LANES * RESCORE_NEIGHBORS
};

/* out[n] = x · (scale · norm), scale = 1 / sqrt(mean(x²) + eps): RMSNorm. out may be x. */
void rescore_norm(float *out, const float *x, const float *norm, size_t n, float eps);

/* The product of a normed row and a BF16 row at any alignment, both [n]. */
float rescore_dot(const float *normed, const void *row, size_t n);

#endif
