/* SPDX-License-Identifier: Apache-2.0 */
/* Converts x of one token to integers of two signed bytes, which the matrix unit multiplies with
 * byte-sized quantized values (explained in gemv_m1_int4.cu; gemv_m1_gguf.cu does the same). A warp
 * converts two chunks of 128 columns at a time, in shared memory of its own. */
#ifndef EY_CUDA_GEMV_M1_DIGITS_CUH
#define EY_CUDA_GEMV_M1_DIGITS_CUH

#include "kernels/cuda/matmul/gemv_m1.cuh"
#include "kernels/cuda/matmul/gemv_m1_launch.h"

enum {
    PAIR = GEMV_M1_INT4_PAIR,    /* chunks whose x a warp loads at a time, eight columns per lane */
    COLUMNS = 2 * PACK_BYTES,    /* columns of a chunk */
    DIGITS = 2 * COLUMNS,        /* their bytes in shared memory: [lane's columns, digit, 32] */
    X_SCALES_AT = PAIR * DIGITS, /* [chunk, lane's columns] */
    X_SCALE_BYTES = 4 * 16,      /* scale bytes of a chunk */
    /* 32 zero bytes for lanes that need no x, in banks 0 to 7 and again in 16 to 23: such a lane
     * reads the copy whose banks the other lanes do not read at the same time */
    OTHER_ZEROS_AT = X_SCALES_AT + PAIR * X_SCALE_BYTES,
    ZEROS_AT = OTHER_ZEROS_AT + 64,
    WARP_SHARED = 6 * 128,
};

/* The scale and sums of 32 columns of x. */
struct __align__(16) m1_x_scale
{
    float scale;
    int sum, first; /* sum: of all numbers; first: of the first 16 */
    int unused;
};

/* ---- x ---- */

/* Eight columns of x in flight, float32 or BF16. */
template <int out> struct raw {
    uint4 half[out == EPI_ADD ? 1 : 2];
};

/* Loads from column `column` on of the row at offset `row`. */
template <int out>
EY_DEVICE void m1_load_x(struct raw<out> *x, const struct matmul_args &a, int64_t row, int column)
{
    enum { LAST = out != EPI_ADD };
    x->half[0] = make_uint4(0, 0, 0, 0);
    x->half[LAST] = x->half[0];
    if (column >= a.k) return;
    if (LAST) {
        x->half[0] = load_fresh((const float *)a.x + row + column);
        x->half[LAST] = load_fresh((const float *)a.x + row + column + 4);
    } else
        x->half[0] = load_fresh((const bf16 *)a.x + row + column);
}

/* Loads the norm's weights of the same columns. */
EY_DEVICE void m1_load_norm(uint4 norm[2], const struct matmul_args &a, int column)
{
    norm[0] = norm[1] = make_uint4(0, 0, 0, 0);
    if (column < a.k) {
        norm[0] = load_weight(a.norm + column);
        norm[1] = load_weight(a.norm + column + 4);
    }
}

/* Writes the zeros for lanes that need no x. */
EY_DEVICE void m1_put_zeros(unsigned char *own)
{
    const int lane = lane_index();
    if (lane < 4)
        *(uint4 *)(own + (lane / 2 ? OTHER_ZEROS_AT : ZEROS_AT) + lane % 2 * 16) = make_uint4(0, 0,
                                                                                              0, 0);
}

/* Returns the address at which the lane reads its own columns of x, or zeros in place of another
 * lane's. The next chunk's are *next bytes further. */
EY_DEVICE const unsigned char *m1_find_x(const unsigned char *x, int *next)
{
    const int lane = lane_index(), t = lane % 4, column = lane / 4;
    const bool mine = column / 2 == t;
    *next = mine ? DIGITS : 0;
    return x + (mine ? t * 64 + column % 2 * 32 : lane / 8 % 2 ? OTHER_ZEROS_AT : ZEROS_AT);
}

EY_DEVICE float4 m1_floats(uint4 bits)
{
    return make_float4(bits_float(bits.x), bits_float(bits.y), bits_float(bits.z),
                       bits_float(bits.w));
}

EY_DEVICE float m1_absmax(float4 v)
{
    return max_or_nan(max_or_nan(fabsf(v.x), fabsf(v.y)), max_or_nan(fabsf(v.z), fabsf(v.w)));
}

/* The result's lower two bytes are nearest(v · factor) + 128: the second byte is the upper digit,
 * the first the lower digit with its sign inverted. Sums of such results exceed the true sum by
 * ROUNDED per word. */
enum { ROUNDED = 0x4b400080 }; /* 1.5 · 2^23 + 128 */

EY_DEVICE uint32_t m1_round(float v, float factor)
{
    return float_bits(fmaf(v, factor, 12583040.0f));
}

/* Returns the digits of four numbers in order: .x the upper ones, .y the lower ones. */
EY_DEVICE uint2 digits_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t first = __byte_perm(a, b, 0x5140),
                   last = __byte_perm(c, d, 0x5140); /* lower, lower, upper, upper */
    return make_uint2(__byte_perm(first, last, 0x7632),
                      __byte_perm(first, last, 0x5410) ^ 0x80808080u);
}

/* Stores eight columns in the warp's shared memory: even ones and odd ones side by side, in the
 * order of unpacked quantized values. */
EY_DEVICE void put_x(unsigned char *x, float4 v, float4 w)
{
    const int lane = lane_index(), chunk = lane / 16, piece = lane % 16;
    float most = max_or_nan(m1_absmax(v), m1_absmax(w));
    most = max_or_nan(most, shuffle_xor(most, 1));
    most = max_or_nan(most, shuffle_xor(most, 2));
    const uint32_t exponent = max(float_bits(most + most * 0x1p-7f) >> 23,
                                  30u); /* so the largest is at most 32,514 */
    const float factor = bits_float((268u - exponent) << 23);
    const uint32_t n[8] = {m1_round(v.x, factor), m1_round(v.y, factor), m1_round(v.z, factor),
                           m1_round(v.w, factor), m1_round(w.x, factor), m1_round(w.y, factor),
                           m1_round(w.z, factor), m1_round(w.w, factor)};
    uint32_t sum = n[0] + n[1] + n[2] + n[3] + (n[4] + n[5] + n[6] + n[7]) - 8u * (uint32_t)ROUNDED;
    const uint2 even = digits_of(n[0], n[2], n[4], n[6]), odd = digits_of(n[1], n[3], n[5], n[7]);
    unsigned char *to = x + chunk * DIGITS + piece / 4 * 64 + piece % 4 * 8;
    *(uint2 *)to = make_uint2(even.x, odd.x);
    *(uint2 *)(to + 32) = make_uint2(even.y, odd.y);
    sum += shuffle_xor(sum, 1);
    const uint32_t all = sum + shuffle_xor(sum, 2);
    if (piece % 4) return;
    const struct m1_x_scale f = {bits_float((exponent - 14u) << 23) + (most - most), (int)all,
                                 (int)sum, 0}; /* NaN if x has no finite maximum */
    *(struct m1_x_scale *)(x + X_SCALES_AT + chunk * X_SCALE_BYTES + piece / 4 * 16) = f;
}

/* Stores x; with a norm, x is multiplied by its weights, and its squares are added to *squares. */
template <int out>
EY_DEVICE void stage(unsigned char *x, const struct raw<out> &raw, const uint4 norm[2],
                     float *squares)
{
    __syncwarp(); /* all lanes have read the old contents */
    if (out == EPI_ADD) {
        const uint4 v = raw.half[0];
        put_x(x, make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y)),
              make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w)));
    } else {
        const float4 v = m1_floats(raw.half[0]), w = m1_floats(raw.half[out != EPI_ADD]),
                     m = m1_floats(norm[0]), n = m1_floats(norm[1]);
        *squares += m1_sum_squares(v) + m1_sum_squares(w);
        put_x(x, make_float4(v.x * m.x, v.y * m.y, v.z * m.z, v.w * m.w),
              make_float4(w.x * n.x, w.y * n.y, w.z * n.z, w.w * n.w));
    }
    __syncwarp();
}

/* Returns the scale of the lane's columns in chunk i. */
EY_DEVICE struct m1_x_scale m1_x_scale_of(const unsigned char *x, int i)
{
    return *(const struct m1_x_scale *)(x + X_SCALES_AT + i * X_SCALE_BYTES +
                                        lane_index() % 4 * 16);
}

/* ---- sums of warps ---- */

/* A block's shared memory. */
template <int matrices> struct m1_shared {
    unsigned char x[GEMV_M1_WARPS][WARP_SHARED];
    float squares[GEMV_M1_WARPS], part[GEMV_M1_WARPS][matrices * PACK_ROWS];
};

/* Adds the warps' sums of rows g and g + 8 and turns them into results. */
template <int out, int matrices>
EY_DEVICE void m1_finish(struct m1_shared<matrices> &shared, float sum[matrices][2], float square,
                         const struct matmul_args &a, const struct m1_rows &at)
{
    const int lane = lane_index(), warps = (int)(blockDim.x / 32);
#pragma unroll
    for (int m = 0; m < matrices; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = sum[m][i];
            v += shuffle_xor(v, 1);
            v += shuffle_xor(v, 2);
            if (lane % 4 == 0) shared.part[warp_index()][m * PACK_ROWS + i * 8 + lane / 4] = v;
        }
    if (out != EPI_ADD) {
        square = warp_sum(square);
        if (lane == 0) shared.squares[warp_index()] = square;
    }
    __syncthreads();
    if ((int)threadIdx.x >= PACK_ROWS) return;
    float total[matrices] = {}, all = 0;
    for (int w = 0; w < warps; w++) {
#pragma unroll
        for (int m = 0; m < matrices; m++)
            total[m] += shared.part[w][m * PACK_ROWS + (int)threadIdx.x];
        if (out != EPI_ADD) all += shared.squares[w];
    }
    const float scale = out == EPI_ADD ? 1.0f : rsqrtf(__fdividef(all, (float)a.k) + a.eps);
#pragma unroll
    for (int m = 0; m < matrices; m++)
        total[m] *= a.segment[at.segment + m].w.global_scale * scale;
    m1_store<out>(a.segment[at.segment], at.block * PACK_ROWS + (int)threadIdx.x, total[0],
                  total[matrices - 1]);
}

#endif
