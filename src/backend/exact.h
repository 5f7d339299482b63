/* SPDX-License-Identifier: Apache-2.0 */
/* Logits computed again from a head's stored rows, beside a head of 8 bits (PLACE_EIGHT_BIT). The
 * host and the card (cuda/candidates.cu) do it with the same bits, so that an answer does not
 * depend on which of them did: float32, every product and sum rounded by itself, and one order of
 * sums.
 *
 * A sum over n values has EXACT_STRIDE partial sums: value i goes to i % EXACT_STRIDE, in ascending
 * order. Of these each EXACT_EACH neighbours are added as (0 + 1) + (2 + 3), and what that leaves
 * as a tree in which i takes in i + half: half 16, 8, 4, 2, 1. */
#ifndef EY_BACKEND_EXACT_H
#define EY_BACKEND_EXACT_H

#include <stddef.h>

enum { EXACT_LANES = 32, EXACT_EACH = 4, EXACT_STRIDE = EXACT_LANES * EXACT_EACH };

/* out[n] = x · (scale · norm), scale = 1 / sqrt(mean(x²) + eps): RMSNorm. out may be x. */
void exact_norm(float *out, const float *x, const float *norm, size_t n, float eps);

/* The product of a normed row and a BF16 row at any alignment, both [n]. */
float exact_logit(const float *normed, const void *row, size_t n);

#endif
