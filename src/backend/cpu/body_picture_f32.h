/* SPDX-License-Identifier: Apache-2.0 */
/* A picture's attention with values in float32 and scores from int16 (body_picture.h); included by
 * a small file for each way of multiplying pairs, which sets LANES and PICTURE (the table's name).
 *
 * Values are [patches, dim rounded up to LANES]. */
#include "backend/cpu/body_vectors.h"

#include "backend/cpu/body_picture.h"

enum { PATCHES = 1 }; /* of a word */

INLINE size_t padded_dim(int dim)
{
    return ((size_t)dim + LANES - 1) / LANES * LANES;
}

static size_t value_bytes(int dim)
{
    return padded_dim(dim) * sizeof(float);
}

static void store_values(void *values, size_t patch, const float *in, size_t stride, int n, int dim)
{
    float *out = (float *)values + patch * padded_dim(dim);
    for (int i = 0; i < n; i++, in += stride)
        for (size_t d = 0; d < padded_dim(dim); d += LANES, out += LANES)
            store(out, (vf)numbers_at(in, d, (size_t)dim));
}

INLINE vf with_weight(vf acc, vf values, const float *weight)
{
    return acc + values * *weight;
}

INLINE void put_weights(float *words, const vf weights[KEY_VECTORS])
{
    UNROLL
    for (int u = 0; u < KEY_VECTORS; u++)
        store(words + u * LANES, weights[u]);
}

#include "backend/cpu/body_picture_tile.h"

const struct picture_kernels PICTURE = {key_bytes, value_bytes,  room_bytes,
                                        store_key, store_values, attend_picture};
