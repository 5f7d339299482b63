/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one element of a matrix as float32, whatever its dtype and layout: for kernels that read
 * few elements or need not be fast. */
#ifndef EY_CUDA_MATRIX_ELEMENT_CUH
#define EY_CUDA_MATRIX_ELEMENT_CUH

#include "kernels/cuda/common/gguf_unit.cuh"

EY_DEVICE int matrix_element_bytes(int dtype)
{
    return dtype == K_F32 ? 4 : dtype == K_F16 || dtype == K_BF16 ? 2 : 1;
}

/* Returns the row scale of an FP8 row, or 1 without one. */
EY_DEVICE float row_scale_of(const struct dev_matrix &w, int row)
{
    return w.row_scale && row < w.rows ? w.row_scale[row] : 1.0f;
}

/* ---- packed int4 ---- */

/* Loads scale and zero of rows g and g + 8 for a lane's columns in one load. */
EY_DEVICE uint2 load_scale_zero(const uint32_t *words, bool wide)
{
    return wide ? load_weight_8(words) : make_uint2(load_weight_4(words), 0);
}

/* Returns one row's scale as float16 with the zero point in the upper half. */
EY_DEVICE uint32_t scale_zero_of_row(uint2 loaded, int half, bool wide)
{
    const uint32_t word = half ? loaded.x >> 16 : loaded.x;
    return wide ? (half ? loaded.y : loaded.x) : (word & 0xfff0u) >> 1 | (word & 15u) << 16;
}

/* ---- in groups, row-major ---- */

EY_DEVICE float group_scale_at(const struct dev_matrix &w, int64_t at)
{
    const unsigned char byte = ((const unsigned char *)w.row_group_scale)[at];
    switch (w.scale_dtype) {
    case K_F32: return ((const float *)w.row_group_scale)[at];
    case K_F16: return f16_bits_value(((const uint16_t *)w.row_group_scale)[at]);
    case K_BF16: return bf16_value(((const bf16 *)w.row_group_scale)[at]);
    case K_FP8: return e4m3_value(byte);
    default: return bits_float(byte ? (uint32_t)byte << 23 : 0x00400000u);
    }
}

EY_DEVICE int group_zero_at(const struct dev_matrix &w, int row, int groups, int group)
{
    if (w.dtype == K_UINT8)
        return ((const unsigned char *)w.row_group_zero)[(int64_t)row * groups + group];
    return (int)(((const uint32_t *)w.row_group_zero)[(int64_t)(row / 8) * groups + group] >>
                     (row % 8 * 4) &
                 15u);
}

/* e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. */
EY_DEVICE float e2m1_value(int code)
{
    const int exponent = code >> 1 & 3,
              twice = exponent ? (2 + (code & 1)) << (exponent - 1) : code & 1;
    return (code & 8 ? -0.5f : 0.5f) * (float)twice;
}

EY_DEVICE bool is_grouped_dtype(int dtype)
{
    return dtype == K_INT4 || dtype == K_UINT8 || dtype == K_FP4 || dtype == K_MXFP8;
}

EY_DEVICE float grouped_element(const struct dev_matrix &w, int row, int column)
{
    const int place = w.place ? w.place[column] : column, groups = w.cols / w.group_size,
              group = place / w.group_size;
    const bool half = w.dtype == K_INT4 || w.dtype == K_FP4;
    const int byte = half ? ((const unsigned char *)w.data)[(int64_t)row * (w.cols / 2) + place / 2]
                          : ((const unsigned char *)w.data)[(int64_t)row * w.cols + place],
              code = half ? byte >> (place % 2 * 4) & 15 : byte;
    const float scale = group_scale_at(w, (int64_t)row * groups + group);
    if (w.dtype == K_MXFP8) return e4m3_value((unsigned char)code) * scale;
    if (w.dtype != K_FP4) return (float)(code - group_zero_at(w, row, groups, group)) * scale;
    const float value = e2m1_value(code) * scale;
    return w.divisor != 0 ? value / w.divisor : w.multiplier != 0 ? value * w.multiplier : value;
}

/* ---- any ---- */

/* Returns the byte offset of element (row, column). */
EY_DEVICE int64_t matrix_element_offset(const struct dev_matrix &w, int row, int column)
{
    int64_t row_bytes = (int64_t)w.cols * matrix_element_bytes(w.dtype),
            byte = (int64_t)column * matrix_element_bytes(w.dtype);
    if (!w.packed) return row * row_bytes + byte;
    int64_t chunk = row / PACK_ROWS * ((row_bytes + PACK_BYTES - 1) / PACK_BYTES) +
                    byte / PACK_BYTES;
    int half = row % PACK_ROWS / 8, lane = row % 8 * 4 + (int)(byte % PACK_BYTES) / 16;
    return chunk * PACK_CHUNK + half * (PACK_CHUNK / 2) + lane * 16 + byte % 16;
}

EY_DEVICE float matrix_element(const struct dev_matrix &w, int row, int column)
{
    if (is_grouped_dtype(w.dtype)) return grouped_element(w, row, column);
    if (kernel_dtype_is_gguf(w.dtype)) return gguf_any_element(w, row, column);
    const unsigned char *at = (const unsigned char *)w.data + matrix_element_offset(w, row, column);
    switch (w.dtype) {
    case K_F32: return *(const float *)at;
    case K_F16: return f16_bits_value(*(const uint16_t *)at);
    case K_BF16: return bf16_value(*(const bf16 *)at);
    case K_FP8:
        return e4m3_value(*at) *
               w.scale[(int64_t)(row / SCALE_BLOCK) * ((w.cols + SCALE_BLOCK - 1) / SCALE_BLOCK) +
                       column / SCALE_BLOCK] *
               row_scale_of(w, row);
    default: return (float)*(const int8_t *)at * w.scale[row];
    }
}

#endif
