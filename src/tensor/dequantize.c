/* SPDX-License-Identifier: Apache-2.0 */
/* Stored element types → float32, exactly: every value of the narrow types is a float32. */
#include "tensor/dequantize.h"

#include <assert.h>
#include <string.h>

#include "tensor/gguf_blocks.h"

/* e4m3fn (spec 2.5), all 256 quantized values: no infinities, 0x7f and 0xff are NaN. */
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
    const float *scale = weight_row_scale(w, row);
    dequantize_elements(out, w, row, first, n);
    for (size_t i = 0; scale && i < n; i++)
        out[i] *= scale[(first + (int64_t)i) / FP8_BLOCK];
}

uint16_t weight_group_scale(const struct tensor *w, int64_t row, int64_t group)
{
    uint16_t bits;
    memcpy(&bits, (const uint16_t *)w->group_scale + row * weight_groups(w) + group, sizeof(bits));
    return bits;
}

int weight_group_zero(const struct tensor *w, int64_t row, int64_t group)
{
    uint32_t word;
    memcpy(&word, (const uint32_t *)w->group_zero + row / 8 * weight_groups(w) + group,
           sizeof(word));
    return (int)(word >> (row % 8 * 4) & 15);
}

static void dequantize_int4(float *out, const struct tensor *w, int64_t row, int64_t first,
                            size_t n)
{
    const uint8_t *quantized = (const uint8_t *)w->data + row * (w->cols / 2);
    for (int64_t col = first, end = first + (int64_t)n; col < end;) {
        const int64_t group = col / w->group_size, border = (group + 1) * w->group_size;
        const float scale = bf16_to_f32(weight_group_scale(w, row, group));
        const int zero = weight_group_zero(w, row, group);
        for (; col < border && col < end; col++)
            *out++ = (float)((quantized[col / 2] >> (col % 2 * 4) & 15) - zero) * scale;
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
    dequantizers[w->dtype](out, w, row, first, n);
}
