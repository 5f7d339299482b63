/* SPDX-License-Identifier: Apache-2.0 */
/* Repacks weights while a model loads: row-major matrices into the packed order of abi.h (F16
 * becomes BF16), and GGUF blocks into the layout of gguf_layout.h. Quantizes rows of BF16 to int8.
 * Also unpacks matrices to BF16 before a GEMM. The kernels run on any number of thread blocks. */
#include "kernels/cuda/common/matrix_element.cuh"
#include "kernels/cuda/loading/repack_weights_launch.h"

/* Returns bytes from..from+15 of a row of row_bytes, with zeros beyond its end. */
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

/* Converts 8 values of F16 to BF16. */
EY_DEVICE uint4 bf16_of_f16(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        word[i] = bf16_pair(f16_bits_value((uint16_t)word[i]),
                            f16_bits_value((uint16_t)(word[i] >> 16)));
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Returns the packed offset of the 16 bytes at byte 16·quarter of chunk `chunk` in row `row`. */
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
        /* a warp takes 512 consecutive packed bytes: 8 rows of 64 bytes */
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

/* Converts columns from..from+15 of a BF16 row to float32. */
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

/* Quantizes 4 values to int8, the first in the lowest byte. */
EY_DEVICE uint32_t int8_quantized(const float v[4], float inverse)
{
    uint32_t quantized = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        quantized |= ((uint32_t)__float2int_rn(fminf(fmaxf(v[i] * inverse, -127.f), 127.f)) & 0xffu)
                     << (8 * i);
    return quantized;
}

/* One warp per row. */
EY_KERNEL(quantize_int8, struct quantize_int8_args, REPACK_THREADS, 4)
{
    wait_for_previous();
    int64_t n_chunks = packed_chunks(a.cols);
    int rows = (a.rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS;
    for (int row = (int)(global_thread() / 32); row < rows; row += (int)(global_threads() / 32)) {
        const bf16 *src = a.src + (int64_t)row * a.cols;
        int cols = row < a.rows ? a.cols : 0; /* padding rows are empty */
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

/* Unpacks any matrix: a thread takes eight columns of a row. */
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

/* A thread unpacks 32 columns of a row, which are that row's 64 bytes in one BF16 chunk. */
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

/* ---- GGUF ---- */

/* Returns value i of 32: the low nibbles of 16 bytes are values 0..15, the high ones 16..31. */
EY_DEVICE uint32_t gguf_nibble(const uint8_t *p, int i)
{
    return p[i % 16] >> (i / 16 * 4) & 15u;
}

EY_DEVICE uint32_t gguf_bit(const uint8_t *p, int i)
{
    return p[i / 8] >> (i % 8) & 1u;
}

/* Returns code i of unit `unit` of a file's block. */
EY_DEVICE uint32_t gguf_code_of(const uint8_t *p, int dtype, int unit, int i)
{
    const int four = unit % 4 * 2, two = unit % 2 * 4;
    switch (dtype) {
    case K_Q4_0:
    case K_IQ4_NL: return gguf_nibble(p + 2, i);
    case K_Q4_1: return gguf_nibble(p + 4, i);
    case K_Q5_0: return gguf_nibble(p + 6, i) | gguf_bit(p + 2, i) << 4;
    case K_Q5_1: return gguf_nibble(p + 8, i) | gguf_bit(p + 4, i) << 4;
    case K_Q8_0: return p[2 + i];
    case K_Q2_K: return p[16 + unit / 4 * 32 + i] >> four & 3u;
    case K_Q3_K: return (p[32 + unit / 4 * 32 + i] >> four & 3u) + (p[i] >> unit & 1u) * 4 + 4;
    case K_Q4_K: return p[16 + unit / 2 * 32 + i] >> two & 15u;
    case K_Q5_K: return (p[48 + unit / 2 * 32 + i] >> two & 15u) | (p[16 + i] >> unit & 1u) << 4;
    case K_Q6_K:
        return (p[unit / 4 * 64 + unit % 2 * 32 + i] >> (unit % 4 / 2 * 4) & 15u) |
               (p[128 + unit / 4 * 32 + i] >> four & 3u) << 4;
    case K_IQ4_XS: return gguf_nibble(p + 8 + unit * 16, i);
    case K_GGUF_MXFP4: return gguf_nibble(p + 1, i);
    default: return p[4 + 8 * (2 * unit + i / 16) + i % 8] >> (i % 16 / 8 * 4) & 15u;
    }
}

EY_DEVICE uint32_t gguf_half_bits(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

/* Extracts scale and minimum of a unit, six bits each, from twelve bytes. */
EY_DEVICE uint32_t gguf_scale_minimum(const uint8_t *c, int unit)
{
    if (unit < 4) return (c[unit] & 63u) | (c[unit + 4] & 63u) << 8;
    return (c[unit + 4] & 15u) | (uint32_t)(c[unit - 4] >> 6) << 4 |
           (c[unit + 4] >> 4 | (uint32_t)(c[unit] >> 6) << 4) << 8;
}

/* Returns a signed scale as a byte; it is stored in six bits with offset 32. */
EY_DEVICE uint32_t gguf_q3_scale(const uint8_t *c, int at)
{
    const uint32_t low = at < 8 ? c[at] & 15u : c[at - 8] >> 4;
    return ((low | (c[8 + at % 4] >> (at / 4 * 2) & 3u) << 4) - 32) & 255u;
}

/* Returns in .x the unit's own scales, as gguf_layout.h stores them, and in .y the float16 scales
 * that all units of a block of 256 columns share; 0 if the type has none. */
EY_DEVICE uint2 gguf_scale_and_d(const uint8_t *p, int dtype, int unit)
{
    switch (dtype) {
    case K_Q4_1:
    case K_Q5_1: return make_uint2(gguf_half_bits(p) | gguf_half_bits(p + 2) << 16, 0);
    case K_Q2_K:
        return make_uint2(gguf_half_bits(p + 2 * unit),
                          gguf_half_bits(p + 80) | gguf_half_bits(p + 82) << 16);
    case K_Q3_K:
        return make_uint2(gguf_q3_scale(p + 96, 2 * unit) | gguf_q3_scale(p + 96, 2 * unit + 1)
                                                                << 8,
                          gguf_half_bits(p + 108));
    case K_Q4_K:
    case K_Q5_K:
        return make_uint2(gguf_scale_minimum(p + 4, unit), gguf_half_bits(p) | gguf_half_bits(p + 2)
                                                                                   << 16);
    case K_Q6_K: return make_uint2(gguf_half_bits(p + 192 + 2 * unit), gguf_half_bits(p + 208));
    case K_IQ4_XS:
        return make_uint2(((p[4 + unit / 2] >> (unit % 2 * 4) & 15u) |
                           (gguf_half_bits(p + 2) >> (2 * unit) & 3u) << 4) -
                              32,
                          gguf_half_bits(p));
    case K_GGUF_MXFP4: return make_uint2(p[0], 0);
    case K_GGUF_NVFP4: return make_uint2(gguf_half_bits(p + 2 * unit), 0);
    default: return make_uint2(gguf_half_bits(p), 0);
    }
}

EY_DEVICE void gguf_put_bytes(uint8_t *to, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* Stores the bits of code i, which is byte b of word k in the layout of gguf_layout.h. */
template <int dtype> EY_DEVICE void gguf_put_code(uint32_t *low, uint32_t *high, int i, uint32_t c)
{
    typedef struct gguf_form<dtype> form;
    const int j = i / 8, odd = i % 2, b = i % 8 / 2, k = 2 * j + odd;
    if (form::bits == 8) {
        low[k] |= c << (8 * b);
        return;
    }
    low[j] |= (c & 15u) << (form::codes == GGUF_NUMBERS ? 8 * b + 4 * odd : 16 * odd + 4 * b);
    if (form::bits == 5) high[0] |= c >> 4 << (8 * b + k);
    if (form::bits == 6) high[k / 4] |= c >> 4 << (8 * b + 2 * (k % 4));
}

/* Repacks rows of the file to units, one thread per unit; missing rows are zeros. */
template <int dtype> EY_DEVICE void repack_gguf_as(const struct repack_gguf_args &a)
{
    typedef struct gguf_form<dtype> form;
    enum { block_values = form::d_bytes > 0 ? 256 : dtype == K_GGUF_NVFP4 ? 64 : 32 };
    const int records = gguf_records(dtype, a.cols), chunks = records * form::chunks,
              block_bytes = (int)(a.row_bytes / (a.cols / block_values));
    const int64_t units = (int64_t)((a.rows + PACK_ROWS - 1) / PACK_ROWS) * chunks * 64;
    for (int64_t n = global_thread(); n < units; n += global_threads()) {
        const int lane = (int)(n % 32), half = (int)(n / 32 % 2), chunk = (int)(n / 64 % chunks),
                  row = (int)(n / 64 / chunks) * PACK_ROWS + half * 8 + lane / 4,
                  column = chunk * GGUF_CHUNK_COLUMNS + lane % 4 * 32;
        const bool there = row < a.rows && column < a.cols;
        const uint8_t *block = a.src + row * a.row_bytes +
                               (int64_t)(column / block_values) * block_bytes;
        const int unit = column % block_values / 32;
        uint32_t low[8] = {0, 0, 0, 0, 0, 0, 0, 0}, high[2] = {0, 0};
        uint2 scale = make_uint2(0, 0);
        if (there) {
#pragma unroll
            for (int i = 0; i < 32; i++)
                gguf_put_code<dtype>(low, high, i, gguf_code_of(block, dtype, unit, i));
            scale = gguf_scale_and_d(block, dtype, unit);
        }
        uint8_t *record = a.dst + ((int64_t)((a.first_row + row) / PACK_ROWS) * records +
                                   chunk / form::chunks) *
                                      form::record_bytes,
                *to = record + chunk % form::chunks * form::chunk_bytes;
#pragma unroll
        for (int part = 0; part < form::parts; part++)
            *(uint4 *)(to + part * PACK_CHUNK + half * (PACK_CHUNK / 2) + lane * 16) = make_uint4(
                low[4 * part], low[4 * part + 1], low[4 * part + 2], low[4 * part + 3]);
        for (int i = 0; i < form::high_bytes / 4; i++)
            *(uint32_t *)(to + form::high_at + (lane * 2 + half) * form::high_bytes +
                          4 * i) = high[i];
        gguf_put_bytes(to + form::scales_at + (lane * 2 + half) * form::scale_bytes, scale.x,
                       form::scale_bytes);
        if (lane % 4 == 0 && chunk % form::chunks == 0)
            gguf_put_bytes(record + form::chunks * form::chunk_bytes +
                               (lane / 4 * 2 + half) * form::d_bytes,
                           scale.y, form::d_bytes);
    }
}

EY_KERNEL(repack_gguf, struct repack_gguf_args, REPACK_THREADS, 2)
{
    wait_for_previous();
    switch (a.dtype) {
#define GGUF_TYPE(id, ...)         \
    case K_##id:                   \
        repack_gguf_as<K_##id>(a); \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
}

/* A thread unpacks a unit of rows g and g + 8. The unit of a row is that row's 64 bytes in one BF16
 * chunk. */
template <int dtype> EY_DEVICE void unpack_gguf_as(const struct unpack_args &a)
{
    typedef struct gguf_form<dtype> form;
    const int records = gguf_records(dtype, a.w.cols), chunks = records * form::chunks;
    const int64_t wide_chunks = packed_chunks((int64_t)a.w.cols * 2),
                  first_block = a.first_row / PACK_ROWS,
                  items = (int64_t)((a.rows + PACK_ROWS - 1) / PACK_ROWS) * chunks * 32;
    for (int64_t n = global_thread(); n < items; n += global_threads()) {
        const int g = lane_index() / 4, t = lane_index() % 4;
        const int64_t chunk = n / 32 % chunks, block = n / 32 / chunks, wide = chunk * 4 + t;
        const uint8_t *record = (const uint8_t *)a.w.data +
                                ((first_block + block) * records + chunk / form::chunks) *
                                    form::record_bytes;
        struct gguf_unit<dtype> u;
        uint32_t d[2];
        gguf_fetch_unit<dtype>(u, record + chunk % form::chunks * form::chunk_bytes);
        gguf_fetch_d<dtype>(d, record);
        if (wide >= wide_chunks) continue;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct gguf_factors s = gguf_unit_scales<dtype>(u.scale, d, half);
            uint8_t *to = a.dst + (block * wide_chunks + wide) * PACK_CHUNK +
                          half * (PACK_CHUNK / 2) + g * 64;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint2 w = gguf_words_of<dtype>(u, half, j);
                const float times = s.times[j / 2] * a.w.global_scale,
                            plus = s.plus[j / 2] * a.w.global_scale;
                uint32_t pair[4];
#pragma unroll
                for (int b = 0; b < 4; b++)
                    pair[b] = bf16_pair(fmaf(gguf_code_value<dtype>(w.x, b), times, plus),
                                        fmaf(gguf_code_value<dtype>(w.y, b), times, plus));
                *(uint4 *)(to + j * 16) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
            }
        }
    }
}

EY_KERNEL(unpack_gguf, struct unpack_args, REPACK_THREADS, 2)
{
    wait_for_previous();
    switch (a.w.dtype) {
#define GGUF_TYPE(id, ...)         \
    case K_##id:                   \
        unpack_gguf_as<K_##id>(a); \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
}
