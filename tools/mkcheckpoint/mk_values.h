/* SPDX-License-Identifier: Apache-2.0 */
/* The values of made-up tensors. They are the same bytes on every machine, with every compiler and
 * with any number of threads.
 *
 * An element is (base + step · d) · 2^-exponent with a triangular d in -255..255 (the sum of two
 * random bytes). All arithmetic is in integers, and the float's bits are built from them. A
 * counter-based generator makes d, so any piece of a tensor can be made by itself. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_VALUES_H
#define EY_TOOLS_MKCHECKPOINT_MK_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct recipe {
    int32_t base, step;
    int exponent;
};

/* Exponents that select other values: random bits; and GPTQ's g_idx for `base` columns in groups of
 * `step`, reordered so that column c is in the group of column 7c mod base. */
enum { ANY_BITS = -1, GROUP_INDEX = -2 };

/* Returns the recipe for weights of mean 0 and a standard deviation of about quarters / 4 /
 * sqrt(fan_in). */
struct recipe recipe_weight(int64_t fan_in, int quarters);
/* Returns the recipe for the values of block FP8, which fill ±448. Its scales come from
 * recipe_scale(). */
struct recipe recipe_fp8_code(void);
/* Returns the recipe for block scales. They are 0.5 to 1.5 times the mean that gives weights a
 * standard deviation of quarters / 4 / sqrt(fan_in). */
struct recipe recipe_scale(int64_t fan_in, int quarters);

/* Like recipe_scale(), for quantized values whose mean square is `variance`. */
struct recipe recipe_scale_of(int64_t variance, int64_t fan_in, int quarters);

/* Returns the generator's key for a tensor. */
uint64_t values_key(const char *family, uint64_t seed, const char *name);
/* Writes elements [first, first + n) of the tensor, little-endian. `first` must be a multiple of 4.
 */
void values_fill(uint8_t *out, enum dtype dtype, struct recipe r, uint64_t key, uint64_t first,
                 size_t n);
/* Returns the bits of m · 2^-exponent as F32, F16, BF16 or F8_E4M3, rounded half to even and
 * saturated. */
uint32_t float_bits(enum dtype dtype, int64_t m, int exponent);

#endif
