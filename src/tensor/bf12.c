/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes BF16 rows as BF12 blocks and decodes them (bf12.h). */
#include "tensor/bf12.h"

#include <string.h>

#include "tensor/dequantize.h"

/* ---- encoding ---- */

static int bf16_exponent(uint16_t word)
{
    return word >> 7 & 0xff;
}

/* Returns the row's `least`: exponent number i, from 1 to 15, stands for the exponent least + i. */
static int least_exponent(const uint8_t *row, size_t cols)
{
    uint16_t max_exponent[BF12_COLUMNS] = {0}, words[BF12_COLUMNS], largest = 0;
    for (size_t k = 0; k < cols; k += BF12_COLUMNS) {
        memcpy(words, row + k * sizeof(uint16_t), sizeof(words));
        for (size_t c = 0; c < BF12_COLUMNS; c++) {
            const uint16_t exponent = words[c] & 0x7f80;
            max_exponent[c] = exponent > max_exponent[c] ? exponent : max_exponent[c];
        }
    }
    for (size_t c = 0; c < BF12_COLUMNS; c++)
        largest = max_exponent[c] > largest ? max_exponent[c] : largest;
    return bf16_exponent(largest) < BF12_EXPONENTS ? 0
                                                   : bf16_exponent(largest) - BF12_EXPONENTS + 1;
}

/* Encodes 64 columns as signs with fractions, and exponent numbers. Returns whether they have
 * outliers. */
static bool encode_columns(uint8_t bytes[BF12_COLUMNS], uint8_t numbers[BF12_COLUMNS],
                           const uint16_t words[BF12_COLUMNS], int least)
{
    uint16_t outliers = 0;
    for (size_t c = 0; c < BF12_COLUMNS; c++) {
        const int16_t exponent = words[c] >> 7 & 0xff, number = (int16_t)(exponent - least),
                      fits = (int16_t) - (number > 0 && exponent > 0);
        bytes[c] = (uint8_t)((words[c] & 0x7f) | (words[c] >> 8 & 0x80));
        numbers[c] = (uint8_t)(number & fits);
        outliers |= (uint16_t)(~fits & exponent);
    }
    return outliers != 0;
}

/* Returns false if there are too many outliers. */
static bool add_outlier(struct bf12_block *s, const uint16_t words[BF12_COLUMNS], int least,
                        size_t k, int row)
{
    for (size_t c = 0; c < BF12_COLUMNS; c++) {
        if (bf16_exponent(words[c]) == 0 || bf16_exponent(words[c]) > least) continue;
        if (s->n_outliers == BF12_MAX_OUTLIERS) return false;
        s->outlier[s->n_outliers].at = (uint32_t)((k + c) * BF12_ROWS) + (uint32_t)row;
        s->outlier[s->n_outliers++].bits = words[c];
    }
    return true;
}

/* Stores the columns in their interleaved order, eight at a time. */
static void bf12_put_columns(uint8_t *to, const uint8_t from[BF12_COLUMNS])
{
    for (size_t c = 0; c < BF12_COLUMNS; c += 8)
        memcpy(to + bf12_column_at(c), from + c, 8);
}

void bf12_encode(void *to, const struct tensor *w, int64_t row)
{
    struct bf12_block *s = (struct bf12_block *)to + row / BF12_ROWS;
    uint8_t *step = (uint8_t *)to + bf12_data_offset(w) +
                    (size_t)(row / BF12_ROWS) * bf12_block_bytes(w);
    const size_t cols = (size_t)w->cols, stride = weight_row_bytes(w);
    const uint8_t *in = (const uint8_t *)w->data + (size_t)row * stride;
    const int n = w->rows - row < BF12_ROWS ? (int)(w->rows - row) : BF12_ROWS;
    int least[BF12_ROWS] = {0};
    memset(s, 0, sizeof(*s));
    for (int a = 0; a < n; a++) {
        least[a] = least_exponent(in + (size_t)a * stride, cols);
        for (int i = 1; i < BF12_EXPONENTS; i++) {
            s->row[a].high[i] = (uint8_t)((least[a] + i) >> 1);
            s->row[a].low[i] = (uint8_t)((least[a] + i) << 7);
        }
    }
    for (size_t k = 0; k < cols; k += BF12_COLUMNS, step += BF12_STEP)
        for (int a = 0; a < BF12_ROWS; a += 2) {
            uint8_t bytes[BF12_COLUMNS], numbers[2][BF12_COLUMNS];
            for (int i = 0; i < 2; i++) {
                uint16_t words[BF12_COLUMNS] = {0};
                if (a + i < n)
                    memcpy(words, in + (size_t)(a + i) * stride + k * sizeof(uint16_t),
                           sizeof(words));
                if (encode_columns(bytes, numbers[i], words, least[a + i]) &&
                    !add_outlier(s, words, least[a + i], k, a + i)) {
                    s->n_outliers = BF12_UNCOMPRESSED;
                    return;
                }
                bf12_put_columns(step + (a + i) * BF12_COLUMNS, bytes);
            }
            for (size_t c = 0; c < BF12_COLUMNS; c++)
                numbers[0][c] |= (uint8_t)(numbers[1][c] << 4);
            bf12_put_columns(step + BF12_SIGN_BYTES + a / 2 * BF12_COLUMNS, numbers[0]);
        }
}

/* ---- decoding ---- */

void bf12_decode_row(float *out, const void *bf12, const struct tensor *w, int64_t row)
{
    const struct bf12_block *s = bf12_block_at(bf12, row);
    const size_t cols = (size_t)w->cols, r = (size_t)(row % BF12_ROWS);
    if (s->n_outliers == BF12_UNCOMPRESSED) {
        elements_to_f32(out, (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w),
                        DTYPE_BF16, cols);
        return;
    }
    const uint8_t *step = bf12_steps(bf12, w, row);
    for (size_t k = 0; k < cols; k += BF12_COLUMNS, step += BF12_STEP)
        for (size_t c = 0; c < BF12_COLUMNS; c++) {
            const size_t at = bf12_column_at(c);
            const uint8_t byte = step[r * BF12_COLUMNS + at],
                          number = (step[BF12_SIGN_BYTES + r / 2 * BF12_COLUMNS + at] >>
                                    (r % 2 * 4)) &
                                   15;
            const unsigned high = (byte & 0x80u) | s->row[r].high[number],
                           low = (byte & 0x7fu) | s->row[r].low[number];
            out[k + c] = bf16_to_f32((uint16_t)(high << 8 | low));
        }
    for (uint32_t i = 0; i < s->n_outliers; i++)
        if (s->outlier[i].at % BF12_ROWS == r)
            out[s->outlier[i].at / BF12_ROWS] = bf16_to_f32((uint16_t)s->outlier[i].bits);
}
