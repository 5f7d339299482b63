/* The kernels for AVX-512 with BF16 dot products and byte permutes (VBMI). */
#define LANES 16
#define KERNELS cpu_kernels_avx512bf16
#define LEVEL CPU_AVX512BF16
#define LEVEL_NAME "avx512bf16"
#define HAVE_BF16
#include <stdint.h>

/* BF16 bits of e4m3 magnitudes (spec 2.5), every one exact: subnormals m · 2^-9, then (8 + m) · 2^(e-10); 0x7f is NaN.
 * In two tables of bytes, because that is what a byte permute looks up. */
#define SUBNORMALS(F) F(0), F(118 << 7), F(119 << 7), F(119 << 7 | 64), F(120 << 7), F(120 << 7 | 32), F(120 << 7 | 64), F(120 << 7 | 96)
#define SEVEN(F, b) F(b), F((b) | 16), F((b) | 32), F((b) | 48), F((b) | 64), F((b) | 80), F((b) | 96)
#define NORMALS(F, e) SEVEN(F, ((e) + 120) << 7), F(((e) + 120) << 7 | 112)
#define MAGNITUDES(F)                                                                                                  \
    SUBNORMALS(F), NORMALS(F, 1), NORMALS(F, 2), NORMALS(F, 3), NORMALS(F, 4), NORMALS(F, 5), NORMALS(F, 6),           \
        NORMALS(F, 7), NORMALS(F, 8), NORMALS(F, 9), NORMALS(F, 10), NORMALS(F, 11), NORMALS(F, 12), NORMALS(F, 13),   \
        NORMALS(F, 14), SEVEN(F, 135 << 7), F(0x7fc0)
#define LOW(bits) (uint8_t)((bits)&255)
#define HIGH(bits) (uint8_t)((bits) >> 8)
static const uint8_t fp8_low[128] = {MAGNITUDES(LOW)}, fp8_high[128] = {MAGNITUDES(HIGH)};

#include "backend/cpu/kernels_body.h"
