/* SPDX-License-Identifier: Apache-2.0 */
/* Converts stored element types to float32, exactly: every value of the narrow types is a
 * float32. */
#include "tensor/dequantize.h"

#include <assert.h>
#include <string.h>

#include "tensor/gguf_blocks.h"

/* Magnitudes of e4m3fn (spec 2.5) for all 256 bytes: no infinities, 0x7f and 0xff are NaN. */
#define E4M3_MAGNITUDE(b)                                                                \
    (((b)&127) == 127  ? __builtin_nanf("")                                              \
     : ((b) >> 3 & 15) ? (float)(8 + ((b)&7)) * 0x1p-10f * (float)(1 << ((b) >> 3 & 15)) \
                       : (float)((b)&7) * 0x1p-9f)
#define E4M3_VALUE(b) ((b)&128 ? -E4M3_MAGNITUDE(b) : E4M3_MAGNITUDE(b))
#define E4M3_VALUES_8(b)                                                          \
    E4M3_VALUE(b), E4M3_VALUE((b) + 1), E4M3_VALUE((b) + 2), E4M3_VALUE((b) + 3), \
        E4M3_VALUE((b) + 4), E4M3_VALUE((b) + 5), E4M3_VALUE((b) + 6), E4M3_VALUE((b) + 7)
#define E4M3_VALUES_64(b)                                                                       \
    E4M3_VALUES_8(b), E4M3_VALUES_8((b) + 8), E4M3_VALUES_8((b) + 16), E4M3_VALUES_8((b) + 24), \
        E4M3_VALUES_8((b) + 32), E4M3_VALUES_8((b) + 40), E4M3_VALUES_8((b) + 48),              \
        E4M3_VALUES_8((b) + 56)
static const float e4m3_value[256] = {E4M3_VALUES_64(0), E4M3_VALUES_64(64), E4M3_VALUES_64(128),
                                      E4M3_VALUES_64(192)};

float e4m3_to_f32(uint8_t byte)
{
    return e4m3_value[byte];
}

static void decode_bf16(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, 2);
        out[i] = bf16_to_f32(bits);
    }
}

static void decode_f16(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, 2);
        out[i] = f16_to_f32(bits);
    }
}

static void decode_e4m3(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = e4m3_value[in[i]];
}

void elements_to_f32(float *out, const void *in, enum dtype dtype, size_t n)
{
    switch (dtype) {
    case DTYPE_BF16: decode_bf16(out, in, n); break;
    case DTYPE_F16: decode_f16(out, in, n); break;
    case DTYPE_F8_E4M3: decode_e4m3(out, in, n); break;
    default:
        memcpy(out, in, n * sizeof(float));
        break; /* F32; others are refused when weights are bound */
    }
}

/* ---- rows of matrices ---- */

static void dequantize_elements(float *out, const struct tensor *w, int64_t row, int64_t first,
                                size_t n)
{
    elements_to_f32(
        out, (const uint8_t *)w->data + (size_t)(row * w->cols + first) * dtype_size(w->dtype),
        w->dtype, n);
}

static void dequantize_fp8(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n)
{
    const float *scale = weight_row_scale(w, row), of_row = w->row_scale ? w->row_scale[row] : 1;
    dequantize_elements(out, w, row, first, n);
    for (size_t i = 0; scale && i < n; i++)
        out[i] *= scale[(first + (int64_t)i) / FP8_BLOCK] * of_row;
}

float weight_group_scale(const struct tensor *w, int64_t row, int64_t group)
{
    const int64_t at = row * weight_groups(w) + group;
    const uint8_t *p = (const uint8_t *)w->group_scale + (size_t)at * weight_scale_size(w);
    float scale;
    if (w->scale_dtype == DTYPE_F8_E8M0) return e8m0_to_f32(*p);
    elements_to_f32(&scale, p, w->scale_dtype ? w->scale_dtype : DTYPE_BF16, 1);
    return scale;
}

int weight_group_zero(const struct tensor *w, int64_t row, int64_t group)
{
    uint32_t word;
    if (w->dtype == DTYPE_UINT8)
        return ((const uint8_t *)w->group_zero)[row * weight_groups(w) + group];
    memcpy(&word, (const uint32_t *)w->group_zero + row / 8 * weight_groups(w) + group,
           sizeof(word));
    return (int)(word >> (row % 8 * 4) & 15);
}

/* Scale and zero of the columns from `col` to `end` of a row, which belong to one group. */
struct group_part {
    float scale;
    int64_t end;
    int zero;
};

static struct group_part group_at(const struct tensor *w, int64_t row, int64_t col, int64_t end,
                                  bool zeros)
{
    const int64_t group = col / w->group_size, border = (group + 1) * w->group_size;
    return (struct group_part){weight_group_scale(w, row, group), border < end ? border : end,
                               zeros ? weight_group_zero(w, row, group) : 0};
}

static void dequantize_int4(float *out, const struct tensor *w, int64_t row, int64_t first,
                            size_t n)
{
    const uint8_t *quantized = (const uint8_t *)w->data + row * (w->cols / 2);
    for (int64_t col = first, end = first + (int64_t)n; col < end;) {
        const struct group_part g = group_at(w, row, col, end, true);
        for (; col < g.end; col++)
            *out++ = (float)((quantized[col / 2] >> (col % 2 * 4) & 15) - g.zero) * g.scale;
    }
}

static void dequantize_uint8(float *out, const struct tensor *w, int64_t row, int64_t first,
                             size_t n)
{
    const uint8_t *codes = (const uint8_t *)w->data + row * w->cols;
    for (int64_t col = first, end = first + (int64_t)n; col < end;) {
        const struct group_part g = group_at(w, row, col, end, true);
        for (; col < g.end; col++)
            *out++ = (float)(codes[col] - g.zero) * g.scale;
    }
}

/* Applies the matrix's own factor last: the products of values and scales before it are exact. */
static float whole_scaled(const struct tensor *w, float value)
{
    if (w->divisor != 0) return value / w->divisor;
    return w->multiplier != 0 ? value * w->multiplier : value;
}

static void dequantize_fp4(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n)
{
    static const float e2m1[16] = {0,     0.5f,  1,     1.5f,  2,     3,     4,     6,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const uint8_t *codes = (const uint8_t *)w->data + row * (w->cols / 2);
    for (int64_t col = first, end = first + (int64_t)n; col < end;) {
        const struct group_part g = group_at(w, row, col, end, false);
        for (; col < g.end; col++)
            *out++ = whole_scaled(w, e2m1[codes[col / 2] >> (col % 2 * 4) & 15] * g.scale);
    }
}

static void dequantize_mxfp8(float *out, const struct tensor *w, int64_t row, int64_t first,
                             size_t n)
{
    const uint8_t *codes = (const uint8_t *)w->data + row * w->cols;
    for (int64_t col = first, end = first + (int64_t)n; col < end;) {
        const struct group_part g = group_at(w, row, col, end, false);
        for (; col < g.end; col++)
            *out++ = e4m3_value[codes[col]] * g.scale;
    }
}

void dequantize_columns(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n)
{
    static void (*const dequantizers[])(float *, const struct tensor *, int64_t, int64_t,
                                        size_t) = {
#define TENSOR_TYPE(id, name, values, bytes, use, scales, dequantizer) dequantizer,
#include "tensor/types.def"
#undef TENSOR_TYPE
    };
    assert(dequantizers[w->dtype]); /* others are refused when weights are bound */
    if (!w->place) {
        dequantizers[w->dtype](out, w, row, first, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        dequantizers[w->dtype](out + i, w, row, w->place[first + (int64_t)i], 1);
}
