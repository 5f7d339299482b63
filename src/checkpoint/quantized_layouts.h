/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts in which files store a weight, quantized ones in several tensors: a name and a shape
 * → struct tensor, which points into the file. Callers do not see which layout it was. */
#ifndef EY_CHECKPOINT_QUANTIZED_LAYOUTS_H
#define EY_CHECKPOINT_QUANTIZED_LAYOUTS_H

#include "checkpoint/tensor_source.h"

/* A matrix [rows, cols]: BF16, F16, F32, or F8_E4M3 with `NAME_scale_inv` [ceil(rows/128),
 * ceil(cols/128)], or int4 as `NAME_packed` I32 [rows, cols/8] with `NAME_scale` BF16 [rows,
 * cols/group] and, unless all zeros are 8, `NAME_zero_point` I32 [ceil(rows/8), cols/group]. */
bool source_matrix(struct tensor_source *s, struct tensor *out, const char *name, int64_t rows,
                   int64_t cols, ey_err *e);
/* A plain tensor of any number of dimensions: a vector as one row, else dims[0] rows and the
 * product of the others columns. */
bool source_plain(struct tensor_source *s, struct tensor *out, const char *name,
                  const int64_t *dims, int n_dims, ey_err *e);
/* Rows first .. first+rows-1 of a matrix. Of a quantized one, `first` must begin a block: of 128
 * rows, or of the 8 whose zeros are packed. */
bool matrix_rows(struct tensor *out, const struct tensor *whole, int64_t first, int64_t rows,
                 ey_err *e);

#endif
