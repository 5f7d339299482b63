/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV of one token with int4 matrices. Like gemv_m1_fp8.cu, it uses small blocks of threads, and
 * its weights are in flight before the previous kernel has ended. Quantized values arrive twice as
 * fast as FP8 weights, so each may take half the time. The matrix unit multiplies them unconverted,
 * as bytes, with x as 16-bit integers: a lane's 32 columns of x share a power of two, so the error
 * of each number is at most 2^-15 of the largest. A number is two signed bytes, which are two of
 * the matrix unit's eight columns: each of the four lanes that share a row has two of them, with
 * zeros for another lane's columns of x. So a lane gets the sums over the columns that it holds,
 * which share one scale whatever the group size. All of this is exact in 32 bits, including the
 * subtraction of zero · (sum of x); only the result becomes float32.
 *
 * Chunk c of a row block belongs to warp c % warps, with its columns of x: a warp loads x for
 * itself and waits for no other before the end. */
#include "kernels/cuda/matmul/gemv_m1_digits.cuh"

template <int out> struct m1_int4_shape {
    enum { matrices = out == EPI_SILU ? 2 : 1 };
};

/* A pair of chunks of each matrix, and the eight columns of x and the norm that the lane loads. */
template <int out> struct m1_int4_weights {
    uint4 w[m1_int4_shape<out>::matrices][PAIR][2];
    uint2 scale_zero[m1_int4_shape<out>::matrices][PAIR]; /* of rows g and g + 8 */
    uint4 norm[2];
};

/* The start of the row block in each matrix. */
template <int out> struct m1_int4_base {
    const uint8_t *data[m1_int4_shape<out>::matrices];
    const uint32_t *scale_zero[m1_int4_shape<out>::matrices];
    uint32_t scale_zero_words; /* words from chunk to chunk */
    uint32_t scale_zero_of_lane;
    bool wide[m1_int4_shape<out>::matrices];
};

/* Returns chunk i of a warp's pair `turn`. */
EY_DEVICE int m1_int4_chunk(int turn, int i)
{
    return (turn * PAIR + i) * (int)(blockDim.x / 32) + warp_index();
}

/* Returns the first column that the lane loads. */
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
            n_chunks - 1); /* in place of chunks beyond the last, loads the last; x is zero there */
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
    if (out != EPI_ADD) m1_load_norm(p->norm, a, m1_int4_column(turn));
}

/* ---- matmul ---- */

/* Multiplies a chunk's upper and lower rows with x: c[0] and c[2] are the sums with x's upper
 * digits, c[1] and c[3] those with its lower digits. */
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
    int next;
    const unsigned char *from = m1_find_x(x, &next);
#pragma unroll
    for (int i = 0; i < PAIR; i++) {
        const struct m1_x_scale f = m1_x_scale_of(x, i);
#pragma unroll
        for (int m = 0; m < m1_int4_shape<out>::matrices; m++) {
            int c[4] = {0, 0, 0, 0};
            m1_int4_multiply_chunk(c, p.w[m][i], from + i * next);
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
    __shared__ __align__(128) struct m1_shared<matrices> shared;
    let_next_start();
    const int n_chunks = gemv_m1_chunks(K_INT4, a.k), warps = (int)(blockDim.x / 32),
              turns = (n_chunks + PAIR * warps - 1) / (PAIR * warps);
    struct m1_rows at = {0, (int)blockIdx.x};
    if (out == EPI_F32) at = m1_find_rows(a, (int)blockIdx.x);
    const struct m1_int4_base<out> r = m1_int4_base_of<out>(a, at, n_chunks);
    struct m1_int4_weights<out> p;
    struct raw<out> x;
    m1_int4_load<out>(&p, a, r, 0, n_chunks);
    unsigned char *own = shared.x[warp_index()];
    m1_put_zeros(own);
    wait_for_previous();
    m1_load_x<out>(&x, a, 0, m1_int4_column(0));
    float sum[matrices][2] = {}, square = 0;
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        if (turn) {
            m1_int4_load<out>(&p, a, r, turn, n_chunks);
            m1_load_x<out>(&x, a, 0, m1_int4_column(turn));
        }
        stage<out>(own, x, p.norm, &square);
        m1_int4_multiply_pair<out>(sum, p, r.wide, own);
    }
    m1_finish<out, matrices>(shared, sum, square, a, at);
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
