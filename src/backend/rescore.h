/* SPDX-License-Identifier: Apache-2.0 */
/* Rescoring: recomputes the top-k logits of an 8-bit head (PLACE_EIGHT_BIT) from the BF16 rows.
 * Host and GPU (kernels/cuda/sampling/rescore.cu) give the same bits, so that an answer does not
 * depend on which of them does it: float32, every product and sum rounded separately, and one
 * summation order (tensor/rescore_order.h). */
#ifndef EY_BACKEND_RESCORE_H
#define EY_BACKEND_RESCORE_H

#include <stddef.h>

#include "tensor/rescore_order.h"

/* RMSNorm: out[n] = x · (scale · norm), scale = 1 / sqrt(mean(x²) + eps). out may be x. */
void rescore_norm(float *out, const float *x, const float *norm, size_t n, float eps);

/* Returns the dot product of a normed row and a BF16 row at any alignment, both [n]. */
float rescore_dot(const float *normed, const void *row, size_t n);

#endif
