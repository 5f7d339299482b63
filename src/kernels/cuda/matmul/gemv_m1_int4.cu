/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV of one token with int4 matrices, as gemv_m1_fp8.cu for FP8: small blocks of threads, weights
 * on their way before the kernel before has ended. Quantized values come twice as fast as FP8
 * weights, so each may cost half as much. The matrix unit multiplies them as they are, as bytes,
 * with x as whole numbers of 16 bits: a lane's 32 columns of x share a power of two, so that they
 * are off by 2^-15 of their largest at most, and each number is two signed bytes, which are two
 * columns for the matrix unit. It has eight: two for each of the four lanes that share a row, zero
 * where columns of x are another lane's. So a lane is given the sums over the columns that it
 * holds, to which one scale belongs whatever the size of groups. All that is exact in 32 bits,
 * zero · (sum of x) taken off; only then it becomes float32.
 *
 * Chunk c of a row block belongs to warp c % warps, with its columns of x: a warp brings x for
 * itself and waits for no other before the end. */
#include "kernels/cuda/matmul/gemv_m1.cuh"
#include "kernels/cuda/matmul/gemv_m1_launch.h"

enum {
    PAIR = GEMV_M1_INT4_PAIR,    /* chunks whose x a warp brings at once, a lane eight columns */
    COLUMNS = 2 * PACK_BYTES,    /* of a chunk */
    DIGITS = 2 * COLUMNS,        /* bytes of them in shared memory: [lane's columns, digit, 32] */
    X_SCALES_AT = PAIR * DIGITS, /* [chunk, lane's columns] */
    X_SCALE_BYTES = 4 * 8,       /* of a chunk */
    ZEROS_AT = X_SCALES_AT +
               PAIR * X_SCALE_BYTES, /* 32 bytes for lanes that read nothing: in banks 16 to 23, and
                                again in 0 to 7; each reads where x is not read with them */
    OTHER_ZEROS_AT = ZEROS_AT + 64,
    WARP_SHARED = 6 * 128,
};

/* Of 32 columns of x. */
struct __align__(8) m1_int4_x_scale
{
    float scale;
    int sum;
};

template <int out> struct m1_int4_shape {
    enum { matrices = out == EPI_SILU ? 2 : 1 };
};

/* A pair of chunks of each matrix, and the eight columns of x and the norm that the lane brings. */
template <int out> struct m1_int4_weights {
    uint4 w[m1_int4_shape<out>::matrices][PAIR][2];
    uint2 scale_zero[m1_int4_shape<out>::matrices][PAIR]; /* of rows g and g + 8 */
    uint4 norm[2];
};

/* Where the row block begins in each matrix. */
template <int out> struct m1_int4_base {
    const uint8_t *data[m1_int4_shape<out>::matrices];
    const uint32_t *scale_zero[m1_int4_shape<out>::matrices];
    uint32_t scale_zero_words; /* from chunk to chunk */
    uint32_t scale_zero_of_lane;
    bool wide[m1_int4_shape<out>::matrices];
};

/* A warp's chunks of pair `turn`. */
EY_DEVICE int m1_int4_chunk(int turn, int i)
{
    return (turn * PAIR + i) * (int)(blockDim.x / 32) + warp_index();
}

/* Of the columns that the lane brings. */
EY_DEVICE int m1_int4_column(int turn)
{
    return m1_int4_chunk(turn, lane_index() / 16) * COLUMNS + lane_index() % 16 * 8;
}

template <int out>
EY_DEVICE void m1_int4_load(struct m1_int4_weights<out> *p, const struct matmul_args &a,
                            const struct m1_int4_base<out> &r, int turn, int n_chunks)
{
#pragma unroll
    for (int i = 0; i < PAIR; i++) {
        const uint32_t chunk = (uint32_t)min(
            m1_int4_chunk(turn, i),
            n_chunks - 1); /* beyond the last: read, and multiplied by zeros */
        const uint32_t at = chunk * PACK_CHUNK + (uint32_t)lane_index() * 16,
                       scale_zero_at = chunk * r.scale_zero_words + r.scale_zero_of_lane;
#pragma unroll
        for (int m = 0; m < m1_int4_shape<out>::matrices; m++) {
            p->w[m][i][0] = load_weight(r.data[m] + at);
            p->w[m][i][1] = load_weight(r.data[m] + at + PACK_CHUNK / 2);
            p->scale_zero[m][i] = load_scale_zero(r.scale_zero[m] + (scale_zero_at << r.wide[m]),
                                                  r.wide[m]);
        }
    }
    if (out == EPI_ADD) return;
    const int column = m1_int4_column(turn);
    p->norm[0] = p->norm[1] = make_uint4(0, 0, 0, 0);
    if (column < a.k) {
        p->norm[0] = load_weight(a.norm + column);
        p->norm[1] = load_weight(a.norm + column + 4);
    }
}

/* ---- x ---- */

/* x on its way: eight columns, float32 or BF16. */
template <int out> struct raw {
    uint4 half[out == EPI_ADD ? 1 : 2];
};

template <int out>
EY_DEVICE void m1_int4_load_x(struct raw<out> *x, const struct matmul_args &a, int turn)
{
    enum { LAST = out != EPI_ADD };
    const int column = m1_int4_column(turn);
    x->half[0] = make_uint4(0, 0, 0, 0);
    x->half[LAST] = x->half[0];
    if (column >= a.k) return;
    if (LAST) {
        x->half[0] = load_fresh((const float *)a.x + column);
        x->half[LAST] = load_fresh((const float *)a.x + column + 4);
    } else
        x->half[0] = load_fresh((const bf16 *)a.x + column);
}

EY_DEVICE float4 m1_int4_floats(uint4 bits)
{
    return make_float4(bits_float(bits.x), bits_float(bits.y), bits_float(bits.z),
                       bits_float(bits.w));
}

EY_DEVICE float m1_int4_absmax(float4 v)
{
    return max_or_nan(max_or_nan(fabsf(v.x), fabsf(v.y)), max_or_nan(fabsf(v.z), fabsf(v.w)));
}

/* The lower two bytes are nearest(v · factor) + 128, so that the upper of them is the upper digit
 * and the lower one the lower digit, its sign turned. Sums of these words have ROUNDED for each too
 * much. */
enum { ROUNDED = 0x4b400080 }; /* 1.5 · 2^23 + 128 */

EY_DEVICE uint32_t m1_int4_round(float v, float factor)
{
    return float_bits(fmaf(v, factor, 12583040.0f));
}

/* Digits of four numbers: .x the upper ones, .y the lower ones, in this order. */
EY_DEVICE uint2 digits_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t first = __byte_perm(a, b, 0x5140),
                   last = __byte_perm(c, d, 0x5140); /* lower, lower, upper, upper */
    return make_uint2(__byte_perm(first, last, 0x7632),
                      __byte_perm(first, last, 0x5410) ^ 0x80808080u);
}

/* Eight columns into the warp's shared memory: even ones and odd ones side by side, as quantized
 * values come out of a word. */
EY_DEVICE void put_x(unsigned char *x, float4 v, float4 w)
{
    const int lane = lane_index(), chunk = lane / 16, piece = lane % 16;
    float most = max_or_nan(m1_int4_absmax(v), m1_int4_absmax(w));
    most = max_or_nan(most, shuffle_xor(most, 1));
    most = max_or_nan(most, shuffle_xor(most, 2));
    const uint32_t exponent = max(float_bits(most + most * 0x1p-7f) >> 23,
                                  30u); /* so the largest becomes 32,514 at most */
    const float factor = bits_float((268u - exponent) << 23);
    const uint32_t n[8] = {m1_int4_round(v.x, factor), m1_int4_round(v.y, factor),
                           m1_int4_round(v.z, factor), m1_int4_round(v.w, factor),
                           m1_int4_round(w.x, factor), m1_int4_round(w.y, factor),
                           m1_int4_round(w.z, factor), m1_int4_round(w.w, factor)};
    uint32_t sum = n[0] + n[1] + n[2] + n[3] + (n[4] + n[5] + n[6] + n[7]) - 8u * (uint32_t)ROUNDED;
    const uint2 even = digits_of(n[0], n[2], n[4], n[6]), odd = digits_of(n[1], n[3], n[5], n[7]);
    unsigned char *to = x + chunk * DIGITS + piece / 4 * 64 + piece % 4 * 8;
    *(uint2 *)to = make_uint2(even.x, odd.x);
    *(uint2 *)(to + 32) = make_uint2(even.y, odd.y);
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (piece % 4) return;
    const struct m1_int4_x_scale f = {bits_float((exponent - 14u) << 23) + (most - most),
                                      (int)sum}; /* NaN where x has no finite largest */
    *(struct m1_int4_x_scale *)(x + X_SCALES_AT + chunk * X_SCALE_BYTES + piece / 4 * 8) = f;
}

/* With a norm, x is multiplied by its weights, and its squares are added to *squares. */
template <int out>
EY_DEVICE void stage(unsigned char *x, const struct raw<out> &raw,
                     const struct m1_int4_weights<out> &p, float *squares)
{
    __syncwarp(); /* all have read what was there */
    if (out == EPI_ADD) {
        const uint4 v = raw.half[0];
        put_x(x, make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y)),
              make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w)));
    } else {
        const float4 v = m1_int4_floats(raw.half[0]), w = m1_int4_floats(raw.half[out != EPI_ADD]),
                     m = m1_int4_floats(p.norm[0]), n = m1_int4_floats(p.norm[1]);
        *squares += m1_sum_squares(v) + m1_sum_squares(w);
        put_x(x, make_float4(v.x * m.x, v.y * m.y, v.z * m.z, v.w * m.w),
              make_float4(w.x * n.x, w.y * n.y, w.z * n.z, w.w * n.w));
    }
    __syncwarp();
}

/* ---- matmul ---- */

/* A chunk's upper and lower rows with x: c[0], c[2] its upper digits, c[1], c[3] the lower ones. */
EY_DEVICE void m1_int4_multiply_chunk(int c[4], const uint4 rows[2], const unsigned char *x)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 b = *(const uint4 *)(x + i * 16);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t upper = m1_word(rows[0], 2 * i + k), lower = m1_word(rows[1], 2 * i + k);
            const uint32_t quantized[4] = {upper & 0x0f0f0f0fu, lower & 0x0f0f0f0fu,
                                           upper >> 4 & 0x0f0f0f0fu, lower >> 4 & 0x0f0f0f0fu};
            mma_s8(c, quantized, k ? b.z : b.x, k ? b.w : b.y);
        }
    }
}

template <int out>
EY_DEVICE void m1_int4_multiply_pair(float sum[][2], const struct m1_int4_weights<out> &p,
                                     const bool *wide, const unsigned char *x)
{
    const int lane = lane_index(), t = lane % 4, column = lane / 4;
    const bool mine = column / 2 == t;
    const unsigned char *from = x + (mine           ? t * 64 + column % 2 * 32
                                     : lane / 8 % 2 ? OTHER_ZEROS_AT
                                                    : ZEROS_AT);
#pragma unroll
    for (int i = 0; i < PAIR; i++) {
        const struct m1_int4_x_scale f = *(
            const struct m1_int4_x_scale *)(x + X_SCALES_AT + i * X_SCALE_BYTES + t * 8);
#pragma unroll
        for (int m = 0; m < m1_int4_shape<out>::matrices; m++) {
            int c[4] = {0, 0, 0, 0};
            m1_int4_multiply_chunk(c, p.w[m][i], from + (mine ? i * DIGITS : 0));
            const uint32_t first = scale_zero_of_row(p.scale_zero[m][i], 0, wide[m]),
                           second = scale_zero_of_row(p.scale_zero[m][i], 1, wide[m]);
            const int upper = c[0] * 256 + c[1] - (int)(first >> 16) * f.sum,
                      lower = c[2] * 256 + c[3] - (int)(second >> 16) * f.sum;
            sum[m][0] += f16_bits_value((uint16_t)first) * f.scale * (float)upper;
            sum[m][1] += f16_bits_value((uint16_t)second) * f.scale * (float)lower;
        }
    }
}

/* ---- a block of threads ---- */

template <int out>
EY_DEVICE struct m1_int4_base<out> m1_int4_base_of(const struct matmul_args &a,
                                                   const struct m1_rows &at, int n_chunks) {
    struct m1_int4_base<out> r;
    const int lane = lane_index();
    const int groups = a.segment[at.segment].w.groups_per_128;
    r.scale_zero_words = (uint32_t)(PACK_ROWS / 2 * groups);
    r.scale_zero_of_lane = (uint32_t)(lane / 4 * groups + lane % 4 * groups / 4);
#pragma unroll
    for (int m = 0; m < m1_int4_shape<out>::matrices; m++) {
        const struct dev_matrix &w = a.segment[at.segment + m].w;
        r.data[m] = (const uint8_t *)w.data + (int64_t)at.block * n_chunks * PACK_CHUNK;
        r.wide[m] = w.wide_scales;
        r.scale_zero[m] = (const uint32_t *)w.group_scales +
                          ((int64_t)at.block * n_chunks * (PACK_ROWS / 2) * groups
                           << w.wide_scales);
    }
    return r;
}

template <int out>
EY_DEVICE void m1_int4_block(const struct matmul_args &a)
{
    enum { matrices = m1_int4_shape<out>::matrices };
    __shared__ __align__(128) unsigned char staged[GEMV_M1_WARPS][WARP_SHARED];
    __shared__ float squares[GEMV_M1_WARPS], part[GEMV_M1_WARPS][matrices * PACK_ROWS];
    let_next_start();
    const int n_chunks = gemv_m1_chunks(K_INT4, a.k), warps = (int)(blockDim.x / 32),
              turns = (n_chunks + PAIR * warps - 1) / (PAIR * warps), lane = lane_index();
    struct m1_rows at = {0, (int)blockIdx.x};
    if (out == EPI_F32) at = m1_find_rows(a, (int)blockIdx.x);
    const struct m1_int4_base<out> r = m1_int4_base_of<out>(a, at, n_chunks);
    struct m1_int4_weights<out> p;
    struct raw<out> x;
    m1_int4_load<out>(&p, a, r, 0, n_chunks);
    unsigned char *own = staged[warp_index()];
    if (lane < 4)
        *(uint4 *)(own + (lane / 2 ? OTHER_ZEROS_AT : ZEROS_AT) + lane % 2 * 16) = make_uint4(0, 0,
                                                                                              0, 0);
    wait_for_previous();
    m1_int4_load_x<out>(&x, a, 0);
    float sum[matrices][2] = {}, square = 0;
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        if (turn) {
            m1_int4_load<out>(&p, a, r, turn, n_chunks);
            m1_int4_load_x<out>(&x, a, turn);
        }
        stage<out>(own, x, p, &square);
        m1_int4_multiply_pair<out>(sum, p, r.wide, own);
    }
#pragma unroll
    for (int m = 0; m < matrices; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = sum[m][i];
            v += shuffle_xor(v, 1);
            v += shuffle_xor(v, 2);
            if (lane % 4 == 0) part[warp_index()][m * PACK_ROWS + i * 8 + lane / 4] = v;
        }
    if (out != EPI_ADD) {
        square = warp_sum(square);
        if (lane == 0) squares[warp_index()] = square;
    }
    __syncthreads();
    if ((int)threadIdx.x >= PACK_ROWS) return;
    float total[matrices] = {}, all = 0;
    for (int w = 0; w < warps; w++) {
#pragma unroll
        for (int m = 0; m < matrices; m++)
            total[m] += part[w][m * PACK_ROWS + (int)threadIdx.x];
        if (out != EPI_ADD) all += squares[w];
    }
    const float scale = out == EPI_ADD ? 1.0f : rsqrtf(__fdividef(all, (float)a.k) + a.eps);
#pragma unroll
    for (int m = 0; m < matrices; m++)
        total[m] *= a.segment[at.segment + m].w.global_scale * scale;
    m1_store<out>(a.segment[at.segment], at.block * PACK_ROWS + (int)threadIdx.x, total[0],
                  total[matrices - 1]);
}

EY_KERNEL(gemv_m1_int4_rms_f32, struct matmul_args, GEMV_M1_WARPS * 32, 2)
{
    m1_int4_block<EPI_F32>(a);
}
EY_KERNEL(gemv_m1_int4_rms_silu, struct matmul_args, GEMV_M1_PAIR_WARPS * 32, 2)
{
    m1_int4_block<EPI_SILU>(a);
}
EY_KERNEL(gemv_m1_int4_act_add, struct matmul_args, GEMV_M1_WARPS * 32, 2)
{
    m1_int4_block<EPI_ADD>(a);
}
