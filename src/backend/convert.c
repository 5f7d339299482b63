/* Stored element types → float32, exactly: every value of the narrow types is a float32. */
#include "backend/convert.h"

#include <string.h>

static float f16_value(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0) { /* zero and subnormals: mantissa · 2^-24 */
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    uint32_t wide = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
    float f;
    memcpy(&f, &wide, sizeof(f));
    return f;
}

/* e4m3fn (spec 2.5), all 256 codes: no infinities, 0x7f and 0xff are NaN. */
#define MAGNITUDE(b)                                                                                                   \
    (((b)&127) == 127 ? __builtin_nanf("")                                                                            \
     : ((b) >> 3 & 15) ? (float)(8 + ((b)&7)) * 0x1p-10f * (float)(1 << ((b) >> 3 & 15))                               \
                       : (float)((b)&7) * 0x1p-9f)
#define CODE(b) ((b)&128 ? -MAGNITUDE(b) : MAGNITUDE(b))
#define CODES8(b) CODE(b), CODE((b) + 1), CODE((b) + 2), CODE((b) + 3), CODE((b) + 4), CODE((b) + 5), CODE((b) + 6), CODE((b) + 7)
#define CODES64(b) CODES8(b), CODES8((b) + 8), CODES8((b) + 16), CODES8((b) + 24), CODES8((b) + 32), CODES8((b) + 40), CODES8((b) + 48), CODES8((b) + 56)
static const float e4m3_value[256] = {CODES64(0), CODES64(64), CODES64(128), CODES64(192)};

static void decode_bf16(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, 2);
        out[i] = bf16_float(bits);
    }
}

static void decode_f16(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, in + 2 * i, 2);
        out[i] = f16_value(bits);
    }
}

static void decode_e4m3(float *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = e4m3_value[in[i]];
}

void weight_floats(float *out, const void *in, enum dtype dtype, size_t n)
{
    switch (dtype) {
    case DTYPE_BF16: decode_bf16(out, in, n); break;
    case DTYPE_F16: decode_f16(out, in, n); break;
    case DTYPE_F8_E4M3: decode_e4m3(out, in, n); break;
    default: memcpy(out, in, n * sizeof(float)); break; /* F32; others are refused when weights are bound */
    }
}
