/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts in which files store a weight, quantized ones in several tensors: a name and a shape
 * → struct tensor, which points into the file. Callers do not see which layout it was. */
#ifndef EY_CHECKPOINT_QUANTIZED_LAYOUTS_H
#define EY_CHECKPOINT_QUANTIZED_LAYOUTS_H

#include "checkpoint/tensor_source.h"

/* A matrix [rows, cols]. At NAME: BF16, F16, F32, F8_E4M3 with `NAME_scale_inv` or `NAME_scale`
 * (one, one a row, one for 128 x 128, U8 exponents for 32 columns), I8 with `NAME_scale`, or U8
 * pairs of e2m1 with `NAME_scale` (ModelOpt). Without NAME: `NAME_packed` of compressed-tensors,
 * I32 or U8, or `qweight` of AutoAWQ, GPTQ and AutoRound (docs/guides/quantization.md). Those whose
 * codes lie otherwise than kernels read them have a recipe. */
bool source_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                   int64_t cols, ey_err *e);
/* A plain tensor of any number of dimensions: a vector as one row, else dims[0] rows and the
 * product of the others columns. */
bool source_plain(struct tensor_source *s, struct tensor *out, const char *name,
                  const int64_t *dims, int n_dims, ey_err *e);
/* Whether there is such a matrix, in any layout. */
bool source_has_matrix(const struct tensor_source *s, const char *name);
/* Rows first .. first+rows-1 of a matrix. Of a quantized one, `first` must begin a block: of 128
 * rows, or of the 8 whose zeros are packed. */
bool matrix_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
                 ey_err *e);

#endif
