/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizes weights to block FP8, as in official checkpoints, or to int4 in groups (formulas:
 * docs/guides/quantization.md). src/models/on_load_quantization.c chooses the matrices. */
#ifndef EY_QUANTIZE_H
#define EY_QUANTIZE_H

#include "tensor/tensor.h"
#include "base/pool.h"

enum { INT4_MIN_GROUP = 32, INT4_DEFAULT_GROUP = 128, INT4_MAX_GROUP = 128 };

/* The target type. */
struct quantize_choice {
    enum dtype dtype; /* DTYPE_F8_E4M3, DTYPE_INT4, or DTYPE_NONE to keep the stored type */
    int group_size;   /* for int4 */
};

/* Returns whether a stored matrix can be quantized to `to`. It must be F32, BF16 or F16; for int4,
 * block FP8 is allowed, too, and `group` must divide the number of columns. */
bool can_quantize(const struct tensor *stored, enum dtype to, int group);

/* Returns the bytes of memory that a recipe's result needs (quantized or repacked). Values, scales
 * and zero points are each aligned to 64. */
size_t quantized_bytes(const struct tensor *recipe);

/* Quantizes into memory[quantized_bytes()], aligned to 64 bytes; *out points into it. The result
 * does not depend on the number of threads, because groups and blocks are independent. Returns
 * false if a value is not finite. */
bool quantize_weight(struct tensor *out, void *memory, const struct tensor *recipe,
                     struct pool *pool);

/* ---- quantization error ---- */

struct quantize_error {
    double noise;  /* sum of importance * error^2 over the samples */
    double signal; /* sum of importance * value^2 */
};

enum { QUANTIZE_SAMPLE_ROWS = 64 };

/* Measures the error of quantize_weight() on QUANTIZE_SAMPLE_ROWS evenly spaced rows of an int4
 * recipe (all rows if it has fewer). Returns false if a value is not finite. */
bool quantize_sample_error(struct quantize_error *out, const struct tensor *recipe,
                           struct pool *pool);
/* Returns the relative error, sqrt(noise / signal), or 0 if there is no signal. */
double quantize_relative_error(const struct quantize_error *error);

#endif
