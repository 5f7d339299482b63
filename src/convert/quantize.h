/* SPDX-License-Identifier: Apache-2.0 */
/* On-load quantization: block FP8 as the official files have it, or int4 in groups
 * (docs/guides/quantization.md has the formulas). Knows weights, not models: src/models/
 * on_load_quantization.c chooses the matrices. */
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
bool can_quantize(const struct tensor *stored, enum dtype to, int group);

/* Bytes of a recipe's result, quantized or in another layout: values, then scales at a multiple of
 * 64. */
size_t quantized_bytes(const struct tensor *recipe);

/* Quantizes into memory[quantized_bytes()], aligned to 64; *out points into it. Groups and blocks
 * are independent, so the result does not depend on the number of threads. False: a value is not
 * finite. */
bool quantize_weight(struct tensor *out, void *memory, const struct tensor *recipe,
                     struct pool *pool);

/* ---- the error that it makes ---- */

struct quantize_error {
    double noise;  /* sum of importance * error^2 over the samples */
    double signal; /* sum of importance * value^2 */
};

enum { QUANTIZE_SAMPLE_ROWS = 64 };

/* What quantize_weight() would do to QUANTIZE_SAMPLE_ROWS rows of an int4 recipe, evenly spaced, or
 * all where there are fewer. False: a value is not finite. */
bool quantize_sample_error(struct quantize_error *out, const struct tensor *recipe,
                           struct pool *pool);
/* Relative: sqrt(noise / signal); 0 where there is no signal. */
double quantize_relative_error(const struct quantize_error *error);

#endif
