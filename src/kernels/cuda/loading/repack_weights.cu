/* SPDX-License-Identifier: Apache-2.0 */
/* Repacks weights while a model loads: row-major matrices → the packed order of abi.h (F16 becomes
 * BF16), BF16 → int8 rows, and int4 → BF16 before a GEMM. Any number of blocks shares the work. */
#include "kernels/cuda/common/matrix_element.cuh"
#include "kernels/cuda/loading/repack_weights_launch.h"

/* Bytes from..from+15 of a row of row_bytes; zeros beyond its end. */
EY_DEVICE uint4 row_bytes_at(const uint8_t *row, int64_t from, int64_t row_bytes)
{
    uint32_t word[4] = {0, 0, 0, 0};
    if (from + 16 <= row_bytes && (uintptr_t)(row + from) % 16 == 0)
        return *(const uint4 *)(row + from);
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (from + i < row_bytes) word[i / 4] |= (uint32_t)row[from + i] << (i % 4 * 8);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Whether one of 4 e4m3 values is NaN: the addition carries into a byte's top bit only from
 * 0x7f. */
EY_DEVICE bool packed_has_nan(uint32_t quantized)
{
    return ((quantized & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
}

/* 8 values of F16 as BF16. */
EY_DEVICE uint4 bf16_of_f16(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        word[i] = bf16_pair(f16_bits_value((uint16_t)word[i]),
                            f16_bits_value((uint16_t)(word[i] >> 16)));
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Where in the packed matrix the 16 bytes lie that begin at byte 16·quarter of chunk `chunk` in row
 * `row`. */
EY_DEVICE int64_t packed_offset(int64_t row, int64_t chunk, int quarter, int64_t n_chunks)
{
    int in_block = (int)(row % PACK_ROWS);
    return (row / PACK_ROWS * n_chunks + chunk) * PACK_CHUNK + (in_block * 4 + quarter) * 16;
}

EY_KERNEL(repack, struct repack_args, REPACK_THREADS, 4)
{
    wait_for_previous();
    int64_t n_chunks = packed_chunks(a.row_bytes), quarters = n_chunks * 4;
    int64_t rows = (a.rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS;
    uint32_t nan = 0;
    for (int64_t i = global_thread(); i < rows * quarters; i += global_threads()) {
        /* a warp takes what is 512 packed bytes in a row: 8 rows of 64 bytes */
        int64_t chunk = i / 64 % n_chunks, block = i / 64 / n_chunks;
        int row = (int)(block * PACK_ROWS) + (int)(i % 64) / 4, quarter = (int)(i % 4);
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row < a.rows)
            v = row_bytes_at(a.src + row * a.row_bytes, chunk * PACK_BYTES + quarter * 16,
                             a.row_bytes);
        if (a.from_f16) v = bf16_of_f16(v);
        if (a.found_nan && (packed_has_nan(v.x) || packed_has_nan(v.y) || packed_has_nan(v.z) ||
                            packed_has_nan(v.w)))
            nan = 1;
        *(uint4 *)(a.dst + packed_offset(a.first_row + row, chunk, quarter, n_chunks)) = v;
    }
    if (nan) *a.found_nan = 1;
}

/* Columns from..from+15 of a BF16 row as float32. */
EY_DEVICE void row_values(float v[16], const bf16 *row, int from, int cols)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 bits = row_bytes_at((const uint8_t *)row, (int64_t)from * 2 + half * 16,
                                  (int64_t)cols * 2);
        const uint32_t pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[half * 8 + 2 * i] = bf16_low(pair[i]);
            v[half * 8 + 2 * i + 1] = bf16_high(pair[i]);
        }
    }
}

EY_DEVICE float row_maximum(const bf16 *row, int cols)
{
    float most = 0, v[16];
    for (int from = lane_index() * 16; from < cols; from += 32 * 16) {
        row_values(v, row, from, cols);
#pragma unroll
        for (int i = 0; i < 16; i++)
            most = fmaxf(most, fabsf(v[i]));
    }
    return warp_max(most);
}

/* 4 values as int8 values, the first in the lowest byte. */
EY_DEVICE uint32_t int8_quantized(const float v[4], float inverse)
{
    uint32_t quantized = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        quantized |= ((uint32_t)__float2int_rn(fminf(fmaxf(v[i] * inverse, -127.f), 127.f)) & 0xffu)
                     << (8 * i);
    return quantized;
}

/* A warp a row. */
EY_KERNEL(quantize_int8, struct quantize_int8_args, REPACK_THREADS, 4)
{
    wait_for_previous();
    int64_t n_chunks = packed_chunks(a.cols);
    int rows = (a.rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS;
    for (int row = (int)(global_thread() / 32); row < rows; row += (int)(global_threads() / 32)) {
        const bf16 *src = a.src + (int64_t)row * a.cols;
        int cols = row < a.rows ? a.cols : 0; /* rows of the padding are empty */
        float most = row_maximum(src, cols), inverse = most > 0 ? 127.f / most : 0.f, v[16];
        for (int quarter = lane_index(); quarter < n_chunks * 4; quarter += 32) {
            row_values(v, src, quarter * 16, cols);
            *(uint4 *)(a.dst +
                       packed_offset(a.first_row + row, quarter / 4, quarter % 4, n_chunks)) =
                make_uint4(int8_quantized(v, inverse), int8_quantized(v + 4, inverse),
                           int8_quantized(v + 8, inverse), int8_quantized(v + 12, inverse));
        }
        if (row < a.rows && lane_index() == 0) a.scale[a.first_row + row] = most / 127.f;
    }
}

/* Any matrix: a thread takes eight columns of a row. */
EY_DEVICE void unpack_elements(const struct unpack_args &a)
{
    const int64_t n_chunks = packed_chunks((int64_t)a.w.cols * 2),
                  rows = (a.rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS;
    for (int64_t i = global_thread(); i < rows * n_chunks * 4; i += global_threads()) {
        const int64_t chunk = i / 64 % n_chunks, block = i / 64 / n_chunks;
        const int row = (int)(block * PACK_ROWS) + (int)(i % 64) / 4, quarter = (int)(i % 4),
                  column = (int)(chunk * 4 + quarter) * 8;
        uint32_t pair[4] = {0, 0, 0, 0};
        for (int k = 0; k < 4; k++) {
            float v[2] = {0, 0};
            for (int j = 0; j < 2; j++)
                if (row < a.rows && column + 2 * k + j < a.w.cols)
                    v[j] = matrix_element(a.w, a.first_row + row, column + 2 * k + j);
            pair[k] = bf16_pair(v[0], v[1]);
        }
        *(uint4 *)(a.dst + packed_offset(row, chunk, quarter, n_chunks)) = make_uint4(
            pair[0], pair[1], pair[2], pair[3]);
    }
}

/* A thread takes 32 columns of a row, which are the four lanes' of a row in one BF16 chunk. */
EY_KERNEL(unpack_int4, struct unpack_args, REPACK_THREADS, 4)
{
    wait_for_previous();
    if (a.w.dtype != K_INT4 || !a.w.packed) {
        unpack_elements(a);
        return;
    }
    const int64_t n_chunks = packed_chunks(a.w.cols / 2),
                  wide_chunks = packed_chunks((int64_t)a.w.cols * 2),
                  first_block = a.first_row / PACK_ROWS;
    const int64_t items = (a.rows + PACK_ROWS - 1) / PACK_ROWS * n_chunks * 64;
    for (int64_t i = global_thread(); i < items; i += global_threads()) {
        const int lane = (int)(i % 32), half = (int)(i / 32 % 2), g = lane / 4, t = lane % 4;
        const int64_t chunk = i / 64 % n_chunks, block = i / 64 / n_chunks, wide = chunk * 4 + t;
        if (wide >= wide_chunks) continue;
        const int64_t at = (first_block + block) * n_chunks + chunk;
        const uint4 quantized = load_weight((const uint8_t *)a.w.data + at * PACK_CHUNK +
                                            half * (PACK_CHUNK / 2) + lane * 16);
        const uint32_t word[4] = {quantized.x, quantized.y, quantized.z, quantized.w},
                       *scales = (const uint32_t *)a.w.group_scales +
                                 (((at * 8 + g) * a.w.groups_per_128 + t * a.w.groups_per_128 / 4)
                                  << a.w.wide_scales),
                       scale_zero = scale_zero_of_row(load_scale_zero(scales, a.w.wide_scales),
                                                      half, a.w.wide_scales);
        const float scale = f16_bits_value((uint16_t)scale_zero) * a.w.global_scale,
                    zero = (float)(scale_zero >> 16);
        uint8_t *to = a.dst + (block * wide_chunks + wide) * PACK_CHUNK + half * (PACK_CHUNK / 2) +
                      g * 64;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t pair[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const uint32_t two = word[j] >> (8 * k);
                pair[k] = bf16_pair(((float)(two & 15u) - zero) * scale,
                                    ((float)(two >> 4 & 15u) - zero) * scale);
            }
            *(uint4 *)(to + j * 16) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
        }
    }
}
