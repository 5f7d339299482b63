/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizes one block or group. Private to src/convert. */
#ifndef EY_CONVERT_QUANTIZE_INTERNAL_H
#define EY_CONVERT_QUANTIZE_INTERNAL_H

#include "convert/quantize.h"

/* A recipe and the memory for its result. */
struct quantize_job {
    const struct tensor *source;
    const float *importance; /* per column; NULL: all 1 */
    int64_t rows, cols;
    int group_size;
    uint8_t *quantized;
    float *scale;          /* FP8 */
    uint16_t *group_scale; /* int4, BF16 */
    uint32_t *group_zero;
};

/* ---- quantize_fp8.c ---- */

/* Quantizes the 128 x 128 block (smaller at the edges) of block row r and block column c. Returns
 * false if a value is not finite. */
bool quantize_fp8_block(const struct quantize_job *m, int64_t r, int64_t c);

/* ---- quantize_int4.c ---- */

struct int4_scale {
    uint16_t scale; /* a positive normal BF16 number */
    uint8_t zero;   /* 0 .. 15 */
};

/* Quantizes the group x[n] into quantized[n]. Sets *noise to the sum of h * (x - (q - zero) *
 * scale)^2. h[n]: importance; NULL: all 1. */
struct int4_scale quantize_int4_group(uint8_t *quantized, double *noise, const float *x,
                                      const float *h, int n);

/* Quantizes one row into quantized[cols/2] and out[cols/group], and adds to *error. Returns false
 * if a value is not finite. */
bool quantize_int4_row(const struct quantize_job *m, int64_t row, uint8_t *quantized,
                       struct int4_scale *out, struct quantize_error *error);

#endif
