/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention with float32 values and scores from int16 (attention_vision_scores_tmpl.h).
 * Each instruction set that multiplies pairs of int16 has a small file, which sets LANES and
 * VISION_ATTENTION (the table's name) and includes this one.
 *
 * Values are [patches, dim rounded up to LANES]. */
#include "kernels/cpu/common/simd_tmpl.h"

#include "kernels/cpu/attention/attention_vision_scores_tmpl.h"

enum { PATCHES_PER_WORD = 1 };

static size_t value_bytes_f32(int dim)
{
    return padded_dim(dim) * sizeof(float);
}

static void store_values_f32(void *values, size_t patch, const float *in, size_t stride, int n,
                             int dim)
{
    float *out = (float *)values + patch * padded_dim(dim);
    for (int i = 0; i < n; i++, in += stride)
        for (size_t d = 0; d < padded_dim(dim); d += LANES, out += LANES)
            store_vf(out, (vf)load_padded(in, d, (size_t)dim));
}

INLINE vf fma_values_f32(vf acc, vf values, const float *weight)
{
    return acc + values * *weight;
}

INLINE void store_weights_f32(float *words, const vf weights[KEY_BLOCK_VECTORS])
{
    UNROLL
    for (int u = 0; u < KEY_BLOCK_VECTORS; u++)
        store_vf(words + u * LANES, weights[u]);
}

#define FMA_VALUES fma_values_f32
#define STORE_WEIGHTS store_weights_f32
#include "kernels/cpu/attention/attention_vision_tmpl.h"

const struct vision_attention_kernels VISION_ATTENTION = {
    vision_key_bytes, value_bytes_f32,  vision_state_bytes,
    store_vision_key, store_values_f32, vision_attention_of_tile};
