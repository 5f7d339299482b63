/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of made-up tensors: the same bytes on every machine, compiler and number of threads.
 *
 * An element is (base + step · d) · 2^-exponent with d in -255..255, triangular (the sum of two
 * random bytes): everything is integer arithmetic and the float's bits are built from integers. d
 * comes from a counter-based generator, so any piece of any tensor can be made alone. */
#ifndef MK_VALUES_H
#define MK_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct recipe {
    int32_t base, step;
    int exponent;
};

/* What is no number of that kind: any bits; and of GPTQ's g_idx, groups of `step` of `base`
 * columns, which lie in an order of their own (column c is in the group of column 7c mod base). */
enum { ANY_BITS = -1, GROUP_INDEX = -2 }; /* exponents */

/* Zero mean, standard deviation about quarters / 4 / sqrt(fan_in). */
struct recipe recipe_weight(int64_t fan_in, int quarters);
/* Codes of a block-quantised weight, which fill ±448; goes with recipe_scale. */
struct recipe recipe_fp8_code(void);
/* Block multipliers, each within half and one and a half times the mean that gives the weight the
 * standard deviation quarters / 4 / sqrt(fan_in). */
struct recipe recipe_scale(int64_t fan_in, int quarters);

/* The same for values whose squares are `variance` on average. */
struct recipe recipe_scale_of(int64_t variance, int64_t fan_in, int quarters);

/* The generator's key of a tensor. */
uint64_t values_key(const char *family, uint64_t seed, const char *name);
/* Elements [first, first + n) of the tensor, little-endian; `first` is a multiple of 4. */
void values_fill(uint8_t *out, enum dtype dtype, struct recipe r, uint64_t key, uint64_t first,
                 size_t n);
/* (m · 2^-exponent) rounded to nearest even, as the bits of a F32, F16, BF16 or F8_E4M3; saturates.
 */
uint32_t float_bits(enum dtype dtype, int64_t m, int exponent);

#endif
