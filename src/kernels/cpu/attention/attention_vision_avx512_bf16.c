/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention with values and their weights in BF16 (AVX512-BF16: 32 products per instruction);
 * scores come from int16 (attention_vision_scores_tmpl.h).
 *
 * A block's values are [CPU_KEY_BLOCK / 2, dim rounded up to LANES, 2] BF16: two patches
 * interleaved, as dot products read them. With an odd number of patches the last one is paired with
 * zeros. */
#define LANES 16
#include "kernels/cpu/common/simd_tmpl.h"

#include "kernels/cpu/attention/attention_vision_scores_tmpl.h"

enum { PATCHES_PER_WORD = 2 };

static size_t value_bytes_bf16(int dim)
{
    return padded_dim(dim) * sizeof(uint16_t);
}

/* Converts 16 numbers from `d` on to BF16 in words, with zeros after their end. */
INLINE __m512i value_words(const float *in, size_t d, size_t dim)
{
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(load_padded(in, d, dim)));
}

static void store_values_bf16(void *values, size_t patch, const float *in, size_t stride, int n,
                              int dim)
{
    const size_t padded = padded_dim(dim);
    for (size_t i = patch; i < patch + (size_t)n; i++, in += stride) {
        uint32_t *pair = (uint32_t *)values + i / 2 * padded; /* pairs of a head are consecutive */
        for (size_t d = 0; d < padded; d += LANES) {
            const __m512i words = value_words(in, d, (size_t)dim);
            _mm512_storeu_si512(pair + d, i % 2 ? _mm512_or_si512(_mm512_loadu_si512(pair + d),
                                                                  _mm512_slli_epi32(words, 16))
                                                : words);
        }
    }
}

INLINE vf fma_values_bf16(vf acc, vf values, const float *weight)
{
    int pair;
    memcpy(&pair, weight, sizeof(pair));
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)values, (__m512bh)_mm512_set1_epi32(pair));
}

INLINE void store_weights_bf16(float *words, const vf weights[KEY_BLOCK_VECTORS])
{
    UNROLL
    for (int u = 0; u < KEY_BLOCK_VECTORS; u += 2)
        _mm512_storeu_si512(words + u / 2 * LANES, (__m512i)_mm512_cvtne2ps_pbh(
                                                       (__m512)weights[u + 1], (__m512)weights[u]));
}

#define FMA_VALUES fma_values_bf16
#define STORE_WEIGHTS store_weights_bf16
#include "kernels/cpu/attention/attention_vision_tmpl.h"

const struct vision_attention_kernels cpu_vision_attention_avx512_bf16 = {
    vision_key_bytes, value_bytes_bf16,  vision_state_bytes,
    store_vision_key, store_values_bf16, vision_attention_of_tile};
