/* SPDX-License-Identifier: Apache-2.0 */
/* Converts weights of types without blocks or groups (F32, BF16, F16, e4m3, int8) to float32, two
 * vectors at a time. Also converts any number of e4m3 values. */
#ifndef EY_KERNELS_CPU_DEQUANTIZE_TMPL_H
#define EY_KERNELS_CPU_DEQUANTIZE_TMPL_H

#include "kernels/cpu/common/gguf_tmpl.h"
#include "kernels/cpu/common/int4_tmpl.h"
#include "tensor/bf12.h"

#if LANES == 4
INLINE vf f16_to_vf(const uint8_t *bits)
{
    float f[LANES];
    elements_to_f32(f, bits, DTYPE_F16, LANES);
    return load_vf(f);
}
#elif LANES == 8
INLINE vf f16_to_vf(const uint8_t *bits)
{
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)bits));
}
#else
INLINE vf f16_to_vf(const uint8_t *bits)
{
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)bits));
}
#endif

/* Loads two vectors of e4m3 values as float32 times 2^-8, by moving their bits to the fields of a
 * half; that is right for subnormals, too. The other factor of products is multiplied by 2^8. NaNs
 * come out as 480 · 2^-8: see has_nan_e4m3(). */
enum { FP8_LOAD_FACTOR = 256 };

INLINE void load_fp8_pair(vf out[2], const uint8_t *quantized)
{
#if LANES == 16
    __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)quantized));
    __m512i half = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((short)0xbf80));
    out[0] = (vf)_mm512_cvtph_ps(_mm512_castsi512_si256(half));
    out[1] = (vf)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
#elif LANES == 8
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)quantized));
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbf80));
    out[0] = (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(half));
    out[1] = (vf)_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
#else
    float f[2 * LANES];
    elements_to_f32(f, quantized, DTYPE_F8_E4M3, 2 * LANES);
    out[0] = load_vf(f) * (1.0f / FP8_LOAD_FACTOR);
    out[1] = load_vf(f + LANES) * (1.0f / FP8_LOAD_FACTOR);
#endif
}

/* Loads two vectors of int8 values. */
INLINE void load_int8_pair(vf out[2], const uint8_t *quantized)
{
#if LANES == 16
    __m256i q = _mm256_loadu_si256((const __m256i *)quantized);
    out[0] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(q)));
    out[1] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(q, 1)));
#elif LANES == 8
    __m128i q = _mm_loadu_si128((const __m128i *)quantized);
    out[0] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    out[1] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));
#else
    float f[2 * LANES];
    for (size_t i = 0; i < 2 * LANES; i++)
        f[i] = (float)(int8_t)quantized[i];
    out[0] = load_vf(f);
    out[1] = load_vf(f + LANES);
#endif
}

INLINE void load_weight_pair(vf out[2], enum dtype dtype, const uint8_t *p)
{
    switch (dtype) {
    case DTYPE_F8_E4M3: load_fp8_pair(out, p); break;
    case DTYPE_I8: load_int8_pair(out, p); break;
    case DTYPE_BF16:
        out[0] = load_bf16(p);
        out[1] = load_bf16(p + 2 * LANES);
        break;
    case DTYPE_F16:
        out[0] = f16_to_vf(p);
        out[1] = f16_to_vf(p + 2 * LANES);
        break;
    default:
        memcpy(&out[0], p, sizeof(vf));
        memcpy(&out[1], p + sizeof(vf), sizeof(vf));
        break;
    }
}

enum { STEP = 2 * LANES };

typedef uint8_t magnitudes __attribute__((vector_size(4 * LANES)));

/* Returns, for each lane, the largest of `most` and the magnitudes of CPU_K_STEP quantized values.
 */
INLINE magnitudes max_magnitudes(magnitudes most, const uint8_t *quantized)
{
    for (size_t i = 0; i < CPU_K_STEP; i += sizeof(most)) {
        magnitudes code;
        memcpy(&code, quantized + i, sizeof(code));
        code &= 0x7f;
#if LANES == 16
        most = (magnitudes)_mm512_max_epu8((__m512i)most, (__m512i)code);
#elif LANES == 8
        most = (magnitudes)_mm256_max_epu8((__m256i)most, (__m256i)code);
#else
        magnitudes larger = (magnitudes)(code > most);
        most = (code & larger) | (most & ~larger);
#endif
    }
    return most;
}

INLINE bool has_nan_e4m3(magnitudes most)
{
#if LANES == 16
    return _mm512_cmpeq_epi8_mask((__m512i)most, _mm512_set1_epi8(0x7f));
#elif LANES == 8
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8((__m256i)most, _mm256_set1_epi8(0x7f)));
#else
    bool found = false;
    for (size_t i = 0; i < sizeof(most); i++)
        found |= most[i] == 0x7f;
    return found;
#endif
}

/* Converts n quantized values to float32 times `unit` / FP8_LOAD_FACTOR, without scales. */
static __attribute__((unused)) void fp8_to_f32(float *out, const uint8_t *quantized, size_t n,
                                               float unit)
{
    for (size_t k = 0; k < n; k += STEP) {
        uint8_t tail[STEP] = {0};
        float all[STEP];
        vf values[2];
        size_t count = n - k < STEP ? n - k : STEP;
        float *to = count < STEP ? all : out + k;
        load_fp8_pair(values, count < STEP ? memcpy(tail, quantized + k, count) : quantized + k);
        store_vf(to, values[0] * unit);
        store_vf(to + LANES, values[1] * unit);
        if (to == all) memcpy(out + k, all, count * sizeof(float));
    }
    for (size_t k = 0; k < n; k++)
        if ((quantized[k] & 0x7f) == 0x7f) out[k] = NAN;
}

#endif
