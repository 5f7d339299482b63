/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a weight of any stored layout into a struct tensor, which points into the file if possible.
 * Callers need not know the layout, nor that a quantized weight has several tensors. */
#ifndef EY_CHECKPOINT_QUANTIZED_LAYOUTS_H
#define EY_CHECKPOINT_QUANTIZED_LAYOUTS_H

#include "checkpoint/tensor_source.h"

/* Reads the matrix `name` [rows, cols]. Layouts:
 *   NAME                 BF16, F16, F32, or a type of GGUF
 *   NAME, F8_E4M3        with `NAME_scale_inv` or `NAME_scale`: a scale per tensor, row or
 *                        128 x 128 block, or an exponent per 32 columns
 *   NAME, I8             with `NAME_scale`
 *   NAME, U8             pairs of e2m1 with `NAME_scale` (ModelOpt)
 *   NAME_packed, I32/U8  compressed-tensors
 *   qweight, I32         AutoAWQ, GPTQ, AutoRound (docs/guides/quantization.md)
 * Layouts that kernels cannot read in place get a repacking recipe (repack.h). */
bool source_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                   int64_t cols, ey_err *e);
/* Reads an unquantized tensor: a vector becomes one row; otherwise rows = dims[0] and cols = the
 * product of the other dimensions. */
bool source_plain(struct tensor_source *s, struct tensor *out, const char *name,
                  const int64_t *dims, int n_dims, ey_err *e);
/* Whether the matrix exists in any layout. */
bool source_has_matrix(const struct tensor_source *s, const char *name);
/* Sets *out to the rows first .. first+rows-1 of a matrix. `first` must be a multiple of 128 if
 * FP8 blocks have different scales, and of 8 if zero points are packed and used in place. */
bool matrix_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
                 ey_err *e);

#endif
