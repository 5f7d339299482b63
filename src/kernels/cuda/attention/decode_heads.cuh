/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the decode attention of one sequence and of many: norms and rotation of heads by a
 * warp, weights as the second operand of a matmul, and adding up parts. */
#ifndef EY_CUDA_DECODE_HEADS_CUH
#define EY_CUDA_DECODE_HEADS_CUH

#include "kernels/cuda/attention/flash_attention.cuh"
#include "kernels/cuda/attention/kv_cache.cuh"

EY_DEVICE int value_slot(int i, int t)
{
    return 2 * t + i % 2 + i / 2 * 8;
}

/* A lane's pairs of a head: columns i and i + DIM/2, i = lane + 32j. */
template <int DIM> struct head_pairs {
    float x[DIM / 64], y[DIM / 64];
};

template <int DIM> EY_DEVICE void load_head_norm(struct head_pairs<DIM> &w, const float *norm)
{
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        w.x[j] = norm ? norm[lane_index() + 32 * j] : 1.0f;
        w.y[j] = norm ? norm[lane_index() + 32 * j + DIM / 2] : 1.0f;
    }
}

template <int DIM> EY_DEVICE void put_head(void *row, const struct head_pairs<DIM> &h, int fp8)
{
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        put_element(row, lane_index() + 32 * j, h.x[j], fp8);
        put_element(row, lane_index() + 32 * j + DIM / 2, h.y[j], fp8);
    }
}

/* Transposes weights from keys in rows to heads in columns, for the second operand of a matmul over
 * the keys. Lane 4g + t has key g of heads 2t and 2t + 1, and gets keys 2t and 2t + 1 of head g. */
EY_DEVICE uint32_t weights_transposed(uint32_t heads_of_key)
{
    int g = lane_index() / 4, t = lane_index() % 4;
    uint32_t even = shuffle(heads_of_key, 8 * t + g / 2),
             odd = shuffle(heads_of_key, 8 * t + 4 + g / 2);
    return __byte_perm(even, odd, g % 2 ? 0x7632 : 0x5410);
}

/* Two columns of a head, merged over several parts. */
struct merged {
    float value[2], best, sum;
};

EY_DEVICE void merge_add_part(struct merged &m, float2 value, float sum, float factor)
{
    m.value[0] += value.x * factor;
    m.value[1] += value.y * factor;
    m.sum += sum * factor;
}

/* Adds N parts. weight: the maximum and the sum of weights of each; MINUS_INFINITY and 0 for a part
 * that is absent. */
template <int N>
EY_DEVICE void merge_add_parts(struct merged &m, const float2 (&value)[N],
                               const float2 (&weight)[N])
{
    float before = m.best;
#pragma unroll
    for (int i = 0; i < N; i++)
        m.best = fmaxf(m.best, weight[i].x);
    float factor = exp2_fast(before - m.best);
    m.value[0] *= factor;
    m.value[1] *= factor;
    m.sum *= factor;
#pragma unroll
    for (int i = 0; i < N; i++)
        merge_add_part(m, value[i], weight[i].y, exp2_fast(weight[i].x - m.best));
}

EY_DEVICE void store_mean(bf16 *o, const struct merged &m)
{
    *(uint32_t *)o = bf16_pair(m.value[0] / m.sum, m.value[1] / m.sum);
}

#endif
