/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices made smaller while they are loaded: block FP8 as the official files have it, or groups
 * of four-bit codes (docs/quantization.md has the formulas). Knows weights, not models: which
 * matrices are quantised is src/models/on_load_quantization.c's affair. */
#ifndef EY_QUANTIZE_H
#define EY_QUANTIZE_H

#include "tensor/tensor.h"
#include "base/pool.h"

enum { INT4_MIN_GROUP = 32, INT4_DEFAULT_GROUP = 128, INT4_MAX_GROUP = 128 };

/* What to make of matrices. */
struct quantize_choice {
    enum dtype dtype; /* DTYPE_F8_E4M3, DTYPE_INT4; DTYPE_NONE: as stored */
    int group_size;   /* of int4 */
};

/* Whether a stored matrix can become that: F32, BF16 or F16, for int4 also block FP8, in rows of
 * whole groups. */
bool can_quantize(const struct weight *stored, enum dtype to, int group);

/* Bytes that a recipe's result takes: codes, and multipliers behind them at a multiple of 64. */
size_t quantized_bytes(const struct weight *recipe);

/* Makes what the recipe says, in memory[quantized_bytes()] aligned to 64, which *out points into.
 * Every group and block is computed for itself, so the result is the same for any number of
 * threads. False: a value is not finite. */
bool quantize_weight(struct weight *out, void *memory, const struct weight *recipe,
                     struct pool *pool);

/* ---- how well ---- */

struct quantize_error {
    double noise,
        signal; /* sums over what was looked at of importance · error² and importance · value² */
};

enum { QUANTIZE_SAMPLE_ROWS = 64 };

/* What quantize_weight() would do to QUANTIZE_SAMPLE_ROWS rows of an int4 recipe, evenly spaced, or
 * all where there are fewer. False: a value is not finite. */
bool quantize_sample_error(struct quantize_error *out, const struct weight *recipe,
                           struct pool *pool);
/* Relative: sqrt(noise / signal); 0 where there is no signal. */
double quantize_relative_error(const struct quantize_error *error);

#endif
