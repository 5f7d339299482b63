/* SPDX-License-Identifier: Apache-2.0 */
/* One element of a matrix as float32, whatever its dtype and layout: for kernels that read few of
 * them, or need not be fast. */
#ifndef EY_CUDA_MATRIX_ELEMENT_CUH
#define EY_CUDA_MATRIX_ELEMENT_CUH

#include "kernels/cuda/common/ptx.cuh"

EY_DEVICE int matrix_element_bytes(int dtype)
{
    return dtype == K_F32 ? 4 : dtype == K_F16 || dtype == K_BF16 ? 2 : 1;
}

/* Where element (row, column) lies, in bytes. */
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
    const unsigned char *at = (const unsigned char *)w.data + matrix_element_offset(w, row, column);
    switch (w.dtype) {
    case K_F32: return *(const float *)at;
    case K_F16: return f16_bits_value(*(const uint16_t *)at);
    case K_BF16: return bf16_value(*(const bf16 *)at);
    case K_FP8:
        return e4m3_value(*at) *
               w.scale[(int64_t)(row / SCALE_BLOCK) * ((w.cols + SCALE_BLOCK - 1) / SCALE_BLOCK) +
                       column / SCALE_BLOCK];
    default: return (float)*(const int8_t *)at * w.scale[row];
    }
}

#endif
