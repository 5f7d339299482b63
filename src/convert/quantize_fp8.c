/* SPDX-License-Identifier: Apache-2.0 */
/* Block FP8: each 128 x 128 block is scaled so that its largest magnitude becomes 448, the largest
 * e4m3 number. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "convert/quantize_internal.h"

#define E4M3_MAX 448.0f

/* Rounds to e4m3, half to even, saturating at 448. Branch-free, so that it vectorizes. */
static uint8_t f32_to_e4m3(float value)
{
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 24 & 0x80;
    bits &= 0x7fffffff;
    float magnitude, tiny;
    memcpy(&magnitude, &bits, sizeof(magnitude));
    tiny = magnitude + 0x1p14f; /* its last bit is worth 2^-9, e4m3's smallest step */
    uint32_t small, large = (bits + 0x7ffff + (bits >> 20 & 1)) >> 20;
    memcpy(&small, &tiny, sizeof(small));
    small -= 0x46800000; /* the bits of 2^14 */
    large = large > (120u << 3) + 126 ? 126 : large - (120u << 3);
    return (uint8_t)(sign | (bits < 0x3c800000 ? small : large)); /* subnormal below 2^-6 */
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool quantize_fp8_block(const struct quantize_job *m, int64_t r, int64_t c)
{
    float values[FP8_BLOCK], max_magnitude = 0;
    const int64_t first = c * FP8_BLOCK;
    const int64_t n = min_i64(m->cols - first, FP8_BLOCK);
    const int64_t begin = r * FP8_BLOCK;
    const int64_t end = min_i64(m->rows, begin + FP8_BLOCK);
    bool finite = true;
    for (int64_t row = begin; row < end; row++) {
        dequantize_columns(values, m->source, row, first, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            float magnitude = fabsf(values[i]);
            finite &= magnitude <= FLT_MAX;
            max_magnitude = magnitude > max_magnitude ? magnitude : max_magnitude;
        }
    }
    const float inverse_scale = max_magnitude >= 0x1p-100f ? E4M3_MAX / max_magnitude
                                                           : 1; /* a block of zeros */
    for (int64_t row = begin; row < end; row++) {
        uint8_t *out = m->quantized + row * m->cols + first;
        dequantize_columns(values, m->source, row, first, (size_t)n);
        for (int64_t i = 0; i < n; i++)
            out[i] = f32_to_e4m3(values[i] * inverse_scale);
    }
    m->scale[r * fp8_blocks(m->cols) + c] = 1 / inverse_scale;
    return finite;
}
