/* SPDX-License-Identifier: Apache-2.0 */
/* Any columns of a row of GGUF blocks, in plain C. */
#include "tensor/gguf_blocks.h"

#include "tensor/gguf_units_tmpl.h"

void gguf_decode_unit(float *out, const uint8_t *block, enum dtype dtype, int unit)
{
    gguf_unit_of(out, block, dtype, unit);
}

void dequantize_gguf(float *out, const struct tensor *w, int64_t row, int64_t first, size_t n)
{
    const struct dtype_traits *type = dtype_info(w->dtype);
    const int64_t end = first + (int64_t)n;
    const uint8_t *data = (const uint8_t *)w->data + (size_t)row * weight_row_bytes(w);
    for (int64_t col = first, next; col < end; col = next) {
        const int64_t begin = col / GGUF_UNIT * GGUF_UNIT;
        const int unit = (int)(begin % type->values / GGUF_UNIT);
        float values[GGUF_UNIT];
        next = begin + GGUF_UNIT < end ? begin + GGUF_UNIT : end;
        gguf_unit_of(values, data + begin / type->values * type->bytes, w->dtype, unit);
        memcpy(out, values + (col - begin), (size_t)(next - col) * sizeof(*out));
        for (int64_t i = col; w->factor && i < next; i++)
            out[i - col] *= *w->factor;
        out += next - col;
    }
}
