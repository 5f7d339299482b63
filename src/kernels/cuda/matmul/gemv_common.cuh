/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the GEMV kernels (few tokens): positions of row blocks, and x in the matrix unit's
 * layout. */
#ifndef EY_CUDA_GEMV_COMMON_CUH
#define EY_CUDA_GEMV_COMMON_CUH

#include "kernels/cuda/common/matrix_element.cuh"

/* warp_index(), known by the compiler to be uniform over the warp. */
EY_DEVICE int uniform_warp(void)
{
    return (int)shuffle((uint32_t)warp_index(), 0);
}

EY_DEVICE int row_blocks(const struct dev_matrix &w)
{
    return (w.rows + PACK_ROWS - 1) / PACK_ROWS;
}

/* A row block: its segment and its number there. With two tiles a row block is one of gate and the
 * same one of up. */
struct row_block {
    int segment, number;
};

template <int tiles> EY_DEVICE struct row_block find_block(const struct matmul_args &a, int number)
{
    struct row_block b = {0, number};
    for (; tiles == 1 && b.segment + 1 < a.n_segments &&
           b.number >= row_blocks(a.segment[b.segment].w);
         b.segment++)
        b.number -= row_blocks(a.segment[b.segment].w);
    return b;
}

struct float8 {
    float v[8];
};

EY_DEVICE void put_floats(float v[4], uint4 bits)
{
    v[0] = bits_float(bits.x);
    v[1] = bits_float(bits.y);
    v[2] = bits_float(bits.z);
    v[3] = bits_float(bits.w);
}

EY_DEVICE struct float8 float8_of(uint4 low, uint4 high)
{
    struct float8 e;
    put_floats(e.v, low);
    put_floats(e.v + 4, high);
    return e;
}

EY_DEVICE struct float8 float8_of_bf16(uint4 pairs)
{
    struct float8 e = {{bf16_low(pairs.x), bf16_high(pairs.x), bf16_low(pairs.y),
                        bf16_high(pairs.y), bf16_low(pairs.z), bf16_high(pairs.z),
                        bf16_low(pairs.w), bf16_high(pairs.w)}};
    return e;
}

/* Return the sum (or maximum) over the lanes that hold a chunk's pieces. */
template <int pieces> EY_DEVICE float sum_of_pieces(float v)
{
#pragma unroll
    for (int mask = pieces / 2; mask; mask /= 2)
        v += shuffle_xor(v, mask);
    return v;
}

template <int pieces> EY_DEVICE float max_of_pieces(float v)
{
#pragma unroll
    for (int mask = pieces / 2; mask; mask /= 2)
        v = fmaxf(v, shuffle_xor(v, mask));
    return v;
}

/* Converts eight values to float16 times 2^s, with s such that the chunk's largest is 2^14 .. 2^15;
 * *scale becomes 2^-s. */
template <int pieces> EY_DEVICE uint4 scaled_f16(const struct float8 &e, float *scale)
{
    float biggest = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        biggest = fmaxf(biggest, fabsf(e.v[i]));
    uint32_t exponent = float_bits(max_of_pieces<pieces>(biggest)) >> 23;
    if (exponent < 30) exponent = 30;
    float factor = bits_float((268 - exponent) << 23);
    *scale = bits_float((exponent - 14) << 23);
    return make_uint4(
        f16_pair(e.v[0] * factor, e.v[1] * factor), f16_pair(e.v[2] * factor, e.v[3] * factor),
        f16_pair(e.v[4] * factor, e.v[5] * factor), f16_pair(e.v[6] * factor, e.v[7] * factor));
}

EY_DEVICE uint4 float8_to_bf16(const struct float8 &e)
{
    return make_uint4(bf16_pair(e.v[0], e.v[1]), bf16_pair(e.v[2], e.v[3]),
                      bf16_pair(e.v[4], e.v[5]), bf16_pair(e.v[6], e.v[7]));
}

/* 8 columns of x in flight: float32 (with a norm) or BF16. */
template <bool rms> struct raw_piece {
    uint4 half[rms ? 2 : 1];
};

/* Loads from offset `at` of x; zeros for -1. */
template <bool rms>
EY_DEVICE void load_piece(struct raw_piece<rms> &raw, const struct matmul_args &a, int at)
{
    raw.half[0] = make_uint4(0, 0, 0, 0);
    raw.half[rms] = raw.half[0];
    if (at < 0) return;
    raw.half[0] = load_fresh((const char *)a.x + (int64_t)at * (rms ? 4 : 2));
    if (rms) raw.half[rms] = load_fresh((const float *)a.x + at + 4);
}

EY_DEVICE struct float8 load_norm8(const struct matmul_args &a, int column)
{
    uint4 low = make_uint4(0, 0, 0, 0), high = low;
    if (column < a.k) {
        low = *(const uint4 *)(a.norm + column);
        high = *(const uint4 *)(a.norm + column + 4);
    }
    return float8_of(low, high);
}

#endif
