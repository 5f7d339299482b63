/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes blocks of GGUF files to float32. Formulas such as (d · scale) · q - dmin · minimum are
 * computed in this order, which rounds at most once, so all implementations give the same bits.
 *
 * A block has 32, 64 or 256 values of a row with their scales; all types are decoded 32 values at a
 * time. Many types store values e and e + 16 of 32 in one byte, low half first. */
#ifndef EY_TENSOR_GGUF_BLOCKS_H
#define EY_TENSOR_GGUF_BLOCKS_H

#include "tensor/tensor.h"

enum { GGUF_UNIT = 32 /* values decoded at a time */ };

/* Decodes columns first .. first+n-1 of a row; `first` and n are arbitrary. */
void dequantize_gguf(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n);
/* Decodes values unit · GGUF_UNIT .. +GGUF_UNIT-1 of a block, without the matrix's factor. */
void gguf_decode_unit(float *out, const uint8_t *block, enum dtype dtype, int unit);
/* Whether the scales of rows first .. first+n-1 are finite, so that all values are. */
bool gguf_rows_are_finite(const struct tensor *w, int64_t first, int64_t n);

#endif
