/* SPDX-License-Identifier: Apache-2.0 */
/* BF12: BF16 matrices in 12 bits a weight without loss, so that a decode step reads three quarters
 * of the bytes.
 *
 * The weights of a row have few exponents. The row's 15 largest exponents, and that of zero and
 * denormals, are numbered with four bits; sign and fraction take a byte. The few weights with
 * smaller exponents are outliers, stored separately with all their bits. A block of 16 rows with
 * too many outliers (an infinity makes most weights of its row outliers) is read uncompressed.
 *
 * A block is a sequence of steps of 64 columns. A step has 64 bytes of signs and fractions for each
 * of 16 rows, then 64 bytes of exponent numbers for each pair of rows, the first row's in the low
 * halves. Within 64 bytes column c is at bf12_column_at(c). */
#ifndef EY_TENSOR_BF12_H
#define EY_TENSOR_BF12_H

#include "tensor/tensor.h"

enum {
    BF12_EXPONENTS = 16,
    BF12_COLUMNS = 64,                          /* columns of a step */
    BF12_SIGN_BYTES = BF12_ROWS * BF12_COLUMNS, /* signs and fractions of a step */
    BF12_STEP = BF12_SIGN_BYTES + BF12_SIGN_BYTES / 2,
    BF12_MAX_OUTLIERS = 63,
    BF12_PAGE = 4096
};
#define BF12_UNCOMPRESSED UINT32_MAX

struct bf12_block {
    struct {
        uint8_t high[BF12_EXPONENTS], low[BF12_EXPONENTS]; /* an exponent's upper seven bits;
                                                              its lowest bit, as bit 7 */
    } row[BF12_ROWS];
    uint32_t n_outliers,
        reserved; /* n_outliers is BF12_UNCOMPRESSED if the block is read from the BF16 rows */
    struct {
        uint32_t at, bits; /* column · BF12_ROWS + row of the block, ascending by step */
    } outlier[BF12_MAX_OUTLIERS];
};
_Static_assert(sizeof(struct bf12_block) == 1024,
               "the headers of a matrix are an array of 1,024 bytes each");

/* Returns the index (0 to 63) of the byte that holds column `c`. Unpacking 64 bytes in this order
 * gives two vectors of 32 columns each, in the order of columns. Interleaved int8 rows use the same
 * order. */
static inline size_t bf12_column_at(size_t c)
{
    return c % 32 / 8 * 16 + c / 32 * 8 + c % 8;
}

static inline size_t bf12_block_bytes(const struct tensor *w)
{
    return (size_t)w->cols / BF12_COLUMNS * BF12_STEP;
}

/* Returns the offset of the first step, which is page-aligned. */
static inline size_t bf12_data_offset(const struct tensor *w)
{
    return (weight_bf12_blocks(w) * sizeof(struct bf12_block) + BF12_PAGE - 1) / BF12_PAGE *
           BF12_PAGE;
}

static inline size_t bf12_bytes(const struct tensor *w)
{
    return bf12_data_offset(w) + weight_bf12_blocks(w) * bf12_block_bytes(w);
}

/* Returns the header of the block that contains `row` in a matrix's BF12 form. */
static inline const struct bf12_block *bf12_block_at(const void *bf12, int64_t row)
{
    return (const struct bf12_block *)bf12 + row / BF12_ROWS;
}

static inline const uint8_t *bf12_steps(const void *bf12, const struct tensor *w, int64_t row)
{
    return (const uint8_t *)bf12 + bf12_data_offset(w) +
           (size_t)(row / BF12_ROWS) * bf12_block_bytes(w);
}

/* Whether the matrix is BF16 with whole steps of columns. */
static inline bool bf12_supports(const struct tensor *w)
{
    return w->dtype == DTYPE_BF16 && !w->recipe && w->cols % BF12_COLUMNS == 0;
}

/* Encodes the block that begins with `row`, a multiple of BF12_ROWS. `to` points to the BF12
 * form of the whole matrix, which has bf12_bytes(w) bytes. */
void bf12_encode(void *to, const struct tensor *w, int64_t row);
/* Decodes one row of a matrix's BF12 form to float32. */
void bf12_decode_row(float *out, const void *bf12, const struct tensor *w, int64_t row);

#endif
