/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of GGUF files → float32, by the book: formulas of (d · scale) · q - dmin · minimum are
 * computed in this order, which rounds at most once, and so to the same bits everywhere.
 *
 * A block has 32, 64 or 256 values of a row, and its scales; all types are read 32 values at a
 * time. Half of the types keep values e and e + 16 of 32 in one byte, low half first. */
#ifndef EY_TENSOR_GGUF_BLOCKS_H
#define EY_TENSOR_GGUF_BLOCKS_H

#include "tensor/tensor.h"

enum { GGUF_UNIT = 32 /* values that are read at once */ };

/* Columns first .. first+n-1 of a row, any of them. */
void dequantize_gguf(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n);
/* GGUF_UNIT values of a block from the unit-th GGUF_UNIT on, without the matrix's factor. */
void gguf_decode_unit(float *out, const uint8_t *block, enum dtype dtype, int unit);
/* Whether the scales of rows first .. first+n-1 are numbers, so that all values are. */
bool gguf_rows_are_finite(const struct tensor *w, int64_t first, int64_t n);

#endif
