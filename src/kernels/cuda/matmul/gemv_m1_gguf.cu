/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV of one token with matrices of GGUF types, like gemv_m1_int4.cu: codes are multiplied
 * unconverted, as bytes, with x as 16-bit integers, so a lane gets sums over the 32 (or 16) columns
 * that it holds, which share one scale. For types with minima the sum of x is added, too. No weight
 * is rounded.
 *
 * A block of threads has rows of one matrix, whose type it looks up: q, k and v of different types
 * are one launch. A warp has two adjacent chunks, one record of the types with blocks of 256
 * values. */
#include "kernels/cuda/matmul/gemv_m1_digits.cuh"

/* Two chunks of each matrix. */
template <int dtype, int matrices> struct m1_gguf_weights {
    struct gguf_unit<dtype> w[matrices][PAIR];
    uint32_t d[matrices][2];
};

/* Loads pair `pair` of a row block. In place of chunks beyond the last, it loads the last one; x is
 * zero there. */
template <int dtype, int matrices>
EY_DEVICE void m1_gguf_load(struct m1_gguf_weights<dtype, matrices> &p,
                            const uint8_t *const row_block[matrices], int pair, int n_chunks)
{
    typedef struct gguf_form<dtype> form;
#pragma unroll
    for (int m = 0; m < matrices; m++) {
        const int last = n_chunks - 1;
        if (form::chunks == 2) {
            const uint8_t *record = row_block[m] +
                                    (int64_t)min(pair, last / PAIR) * form::record_bytes;
#pragma unroll
            for (int i = 0; i < PAIR; i++)
                gguf_fetch_unit<dtype>(p.w[m][i], record + i * form::chunk_bytes);
            gguf_fetch_d<dtype>(p.d[m], record);
        } else {
#pragma unroll
            for (int i = 0; i < PAIR; i++)
                gguf_fetch_unit<dtype>(p.w[m][i],
                                       row_block[m] + (int64_t)min(pair * PAIR + i, last) *
                                                          form::record_bytes);
            p.d[m][0] = p.d[m][1] = 0;
        }
    }
}

/* Multiplies a chunk's upper and lower rows with x: separately for the first and the last 16
 * columns if they have separate scales, otherwise all in the first sum. */
template <int dtype>
EY_DEVICE void m1_gguf_multiply_chunk(int c[2][4], const struct gguf_unit<dtype> &u,
                                      const unsigned char *x)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 b = *(const uint4 *)(x + i * 16);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint2 upper = gguf_words_of<dtype>(u, 0, 2 * i + k),
                        lower = gguf_words_of<dtype>(u, 1, 2 * i + k);
            const uint32_t codes[4] = {upper.x, lower.x, upper.y, lower.y};
            mma_s8(c[gguf_form<dtype>::two_scales ? i : 0], codes, k ? b.z : b.x, k ? b.w : b.y);
        }
    }
}

/* Returns the sum over a row's 32 columns without x's scale. */
template <int dtype>
EY_DEVICE float m1_gguf_row(const int c[2][4], const struct m1_x_scale &f,
                            const struct gguf_factors &s, int half)
{
    typedef struct gguf_form<dtype> form;
    const int zero = form::is_signed != 0 ? 0 : form::zero,
              first = c[0][2 * half] * 256 + c[0][2 * half + 1];
    if (form::two_scales == 0) {
        const float sum = s.times[0] * (float)(first - zero * f.sum);
        return form::has_minimum != 0 ? fmaf(s.plus[0], (float)f.sum, sum) : sum;
    }
    const int last = c[1][2 * half] * 256 + c[1][2 * half + 1], rest = f.sum - f.first;
    const float sum = fmaf(s.times[0], (float)(first - zero * f.first),
                           s.times[1] * (float)(last - zero * rest));
    return form::has_minimum != 0
               ? fmaf(s.plus[0], (float)f.first, fmaf(s.plus[1], (float)rest, sum))
               : sum;
}

template <int dtype, int matrices>
EY_DEVICE void m1_gguf_multiply_pair(float sum[matrices][2],
                                     const struct m1_gguf_weights<dtype, matrices> &p,
                                     const unsigned char *x)
{
    int next;
    const unsigned char *from = m1_find_x(x, &next);
#pragma unroll
    for (int i = 0; i < PAIR; i++) {
        const struct m1_x_scale f = m1_x_scale_of(x, i);
#pragma unroll
        for (int m = 0; m < matrices; m++) {
            int c[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
            m1_gguf_multiply_chunk<dtype>(c, p.w[m][i], from + i * next);
#pragma unroll
            for (int half = 0; half < 2; half++)
                sum[m][half] = fmaf(
                    f.scale,
                    m1_gguf_row<dtype>(c, f, gguf_unit_scales<dtype>(p.w[m][i].scale, p.d[m], half),
                                       half),
                    sum[m][half]);
        }
    }
}

/* Return a warp's pair `turn`, and the columns of its x that the lane loads. */
EY_DEVICE int m1_gguf_pair(int turn)
{
    return turn * (int)(blockDim.x / 32) + warp_index();
}

EY_DEVICE int m1_gguf_column(int turn)
{
    return m1_gguf_pair(turn) * (PAIR * COLUMNS) + lane_index() * 8;
}

/* ---- a block of threads ---- */

template <int out, int dtype, int matrices>
EY_DEVICE void m1_gguf_block(struct m1_shared<matrices> &shared, const struct matmul_args &a,
                             const struct m1_rows &at)
{
    typedef struct gguf_form<dtype> form;
    const int n_chunks = gemv_m1_chunks(dtype, a.k), warps = (int)(blockDim.x / 32),
              turns = (n_chunks + PAIR * warps - 1) / (PAIR * warps);
    const int64_t row_block_bytes = (int64_t)gguf_records(dtype, a.k) * form::record_bytes;
    const uint8_t *row_block[matrices];
#pragma unroll
    for (int m = 0; m < matrices; m++)
        row_block[m] = (const uint8_t *)a.segment[at.segment + m].w.data +
                       at.block * row_block_bytes;
    struct m1_gguf_weights<dtype, matrices> p;
    uint4 norm[2];
    struct raw<out> x;
    m1_gguf_load<dtype, matrices>(p, row_block, m1_gguf_pair(0), n_chunks);
    if (out != EPI_ADD) m1_load_norm(norm, a, m1_gguf_column(0));
    unsigned char *own = shared.x[warp_index()];
    m1_put_zeros(own);
    wait_for_previous();
    const int64_t x_row = out == EPI_F32 && a.gather ? (int64_t)a.gather[0] * a.ldx : 0;
    m1_load_x<out>(&x, a, x_row, m1_gguf_column(0));
    float sum[matrices][2] = {}, square = 0;
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        if (turn) {
            m1_gguf_load<dtype, matrices>(p, row_block, m1_gguf_pair(turn), n_chunks);
            if (out != EPI_ADD) m1_load_norm(norm, a, m1_gguf_column(turn));
            m1_load_x<out>(&x, a, x_row, m1_gguf_column(turn));
        }
        stage<out>(own, x, norm, &square);
        m1_gguf_multiply_pair<dtype, matrices>(sum, p, own);
    }
    m1_finish<out, matrices>(shared, sum, square, a, at);
}

template <int out> EY_DEVICE void m1_gguf_any(const struct matmul_args &a)
{
    enum { matrices = out == EPI_SILU ? 2 : 1 };
    __shared__ __align__(128) struct m1_shared<matrices> shared;
    let_next_start();
    struct m1_rows at = {0, (int)blockIdx.x};
    if (out == EPI_F32) at = m1_find_rows(a, (int)blockIdx.x);
    switch (a.segment[at.segment].w.dtype) {
#define GGUF_TYPE(id, ...)                                   \
    case K_##id:                                             \
        m1_gguf_block<out, K_##id, matrices>(shared, a, at); \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
}

EY_KERNEL(gemv_m1_gguf_rms_f32, struct matmul_args, GEMV_M1_GGUF_WARPS * 32, 2)
{
    m1_gguf_any<EPI_F32>(a);
}
EY_KERNEL(gemv_m1_gguf_rms_silu, struct matmul_args, GEMV_M1_PAIR_WARPS * 32, 2)
{
    m1_gguf_any<EPI_SILU>(a);
}
EY_KERNEL(gemv_m1_gguf_act_add, struct matmul_args, GEMV_M1_WARPS * 32, 2)
{
    m1_gguf_any<EPI_ADD>(a);
}
