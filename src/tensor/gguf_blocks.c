/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes any columns of a row of GGUF blocks in plain C. */
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

/* Offsets of a block's half-precision scales, at most two; other types have one float32, or
 * exponent bytes. */
struct scale_places {
    int n;
    uint8_t at[2];
};

static struct scale_places halves_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: return (struct scale_places){2, {0, 2}};
    case DTYPE_Q2_K: return (struct scale_places){2, {80, 82}};
    case DTYPE_Q3_K: return (struct scale_places){1, {108}};
    case DTYPE_Q6_K: return (struct scale_places){1, {208}};
    case DTYPE_Q8_K:
    case DTYPE_GGUF_MXFP4:
    case DTYPE_GGUF_NVFP4: return (struct scale_places){0};
    default: return (struct scale_places){1, {0}};
    }
}

static bool is_finite_block(const uint8_t *block, enum dtype dtype, struct scale_places places)
{
    enum {
        LARGEST_EXPONENT =
            252 /* of a power of two that can be multiplied with 6 without overflow */
    };
    bool finite = true;
    for (int i = 0; i < places.n; i++)
        finite = finite && (block[places.at[i] + 1] & 0x7c) != 0x7c;
    if (dtype == DTYPE_GGUF_MXFP4) finite = block[0] <= LARGEST_EXPONENT;
    if (dtype == DTYPE_Q8_K)
        finite = (block[3] & 0x7f) < 0x7c; /* below 2^121, so that times 128 is finite */
    return finite;
}

bool gguf_rows_are_finite(const struct tensor *w, int64_t first, int64_t n)
{
    const struct scale_places places = halves_of(w->dtype);
    const size_t size = dtype_info(w->dtype)->bytes, row = weight_row_bytes(w);
    const uint8_t *at = (const uint8_t *)w->data + (size_t)first * row, *end = at + (size_t)n * row;
    for (; at < end; at += size)
        if (!is_finite_block(at, w->dtype, places)) return false;
    return true;
}
