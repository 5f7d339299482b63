/* SPDX-License-Identifier: Apache-2.0 */
/* Rescoring: top-k logits of an 8-bit head (PLACE_EIGHT_BIT), recomputed from the BF16 rows. The
 * host and the GPU (kernels/cuda/sampling/topk.cu) do it with the same bits, so that an answer does
 * not depend on which of them did: float32, every product and sum rounded by itself, and one order
 * of sums.
 *
 * tensor/rescore_order.h has the order. */
#ifndef EY_BACKEND_RESCORE_H
#define EY_BACKEND_RESCORE_H

#include <stddef.h>

#include "tensor/rescore_order.h"

/* out[n] = x · (scale · norm), scale = 1 / sqrt(mean(x²) + eps): RMSNorm. out may be x. */
void rescore_norm(float *out, const float *x, const float *norm, size_t n, float eps);

/* The product of a normed row and a BF16 row at any alignment, both [n]. */
float rescore_dot(const float *normed, const void *row, size_t n);

#endif
