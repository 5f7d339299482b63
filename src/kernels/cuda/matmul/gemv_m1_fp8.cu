/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV of one token with FP8 matrices, the main work of a single request (int4: gemv_m1_int4.cu).
 * Weights must never stop streaming, so blocks of threads are small and many: each has 16 rows (a
 * packed row block) or half of them; for gate and up, as many of each. It prefetches its weights
 * before it waits for the previous kernel, and ends soon after; while it computes, other blocks'
 * weights are in flight. Weights and x become float32. The order of sums depends only on the
 * matrix. Chunk c of a row block belongs to warp c % warps. */
#include "kernels/cuda/matmul/gemv_m1.cuh"
#include "kernels/cuda/matmul/gemv_m1_launch.h"

/* ---- x in shared memory ----
 *
 * A thread stores eight columns at a time, as float32; a chunk has 64. A lane reads its 16 in four
 * pieces. Lanes t and t + 2 would use the same banks, so the pieces of lanes 2 and 3 are stored in
 * another order: piece q of lane t is at q ^ (t & 2). */
EY_DEVICE int x_place(int column)
{
    int piece = column / 4 % 4, t = column / 16 % 4;
    return column / 16 * 16 + (piece ^ (t & 2)) * 4;
}

/* A thread loads several columns before it uses any, since waiting for each would take as long as
 * for all. (More at a time was slower on an H200.) Columns beyond k are zero. With a norm, x is
 * float32, is multiplied by the norm's weights, and its squares are summed per warp. */
EY_DEVICE float4 normed(uint4 bits, float4 w, float *sum)
{
    float4 v = make_float4(bits_float(bits.x), bits_float(bits.y), bits_float(bits.z),
                           bits_float(bits.w));
    *sum += m1_sum_squares(v);
    return make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
}

EY_DEVICE void stage_normed(float *x, float *squares, const struct matmul_args &a, int columns)
{
    const float *from = (const float *)a.x;
    float sum = 0;
    for (int i = (int)threadIdx.x * 8; i < columns; i += (int)blockDim.x * 8) {
        uint4 v0 = make_uint4(0, 0, 0, 0), v1 = v0;
        float4 w0 = make_float4(0, 0, 0, 0), w1 = w0;
        if (i < a.k)
            v0 = load_fresh(from + i), v1 = load_fresh(from + i + 4),
            w0 = *(const float4 *)(a.norm + i), w1 = *(const float4 *)(a.norm + i + 4);
        *(float4 *)(x + x_place(i)) = normed(v0, w0, &sum);
        *(float4 *)(x + x_place(i + 4)) = normed(v1, w1, &sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) squares[warp_index()] = sum;
}

EY_DEVICE void put_bf16(float *x, int i, uint4 v)
{
    *(float4 *)(x + x_place(i)) = make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y),
                                              bf16_high(v.y));
    *(float4 *)(x + x_place(i + 4)) = make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w),
                                                  bf16_high(v.w));
}

EY_DEVICE void stage_bf16(float *x, const struct matmul_args &a, int columns)
{
    const bf16 *from = (const bf16 *)a.x;
    int step = (int)blockDim.x * 8;
    for (int i = (int)threadIdx.x * 8; i < columns; i += 2 * step) {
        uint4 v0 = make_uint4(0, 0, 0, 0), v1 = v0;
        if (i < a.k) v0 = load_fresh(from + i);
        if (i + step < a.k) v1 = load_fresh(from + i + step);
        put_bf16(x, i, v0);
        if (i + step < columns) put_bf16(x, i + step, v1);
    }
}

/* ---- matmul ---- */

EY_DEVICE float dot4(uint32_t quantized, float4 x, float sum)
{
    uint32_t pair[2];
    e4m3_f16_pairs(pair, quantized);
    sum += f16_bits_value((uint16_t)pair[0]) * x.x;
    sum += f16_bits_value((uint16_t)(pair[0] >> 16)) * x.y;
    sum += f16_bits_value((uint16_t)pair[1]) * x.z;
    return sum + f16_bits_value((uint16_t)(pair[1] >> 16)) * x.w;
}

/* The rows of a block of threads: a row block, or half of one, of a matrix or of each of two. */
template <int out> struct m1_fp8_shape {
    enum {
        matrices = out == EPI_SILU ? 2 : 1,
        halves = GEMV_M1_HALVES(out),
        rows = halves * 8,
        depth = GEMV_M1_DEPTH(out)
    };
};

/* A warp's chunks of one round. */
template <int out> struct m1_fp8_weights {
    typedef struct m1_fp8_shape<out> my;
    uint4 w[my::matrices][my::depth][my::halves];
};

/* The start of the chunks in each matrix. */
template <int out> struct m1_fp8_base {
    typedef struct m1_fp8_shape<out> my;
    const uint8_t *data[my::matrices];
    const float *scale[my::matrices];
};

template <int depth> EY_DEVICE int m1_fp8_chunk(int round, int i)
{
    return (round * depth + i) * (int)(blockDim.x / 32) + warp_index();
}

template <int out>
EY_DEVICE void m1_fp8_load(struct m1_fp8_weights<out> *p, const struct m1_fp8_base<out> &r,
                           int round, int n_chunks)
{
    typedef struct m1_fp8_shape<out> my;
#pragma unroll
    for (int i = 0; i < my::depth; i++) {
        int chunk = m1_fp8_chunk<my::depth>(round, i);
        if (chunk >= n_chunks) chunk = n_chunks - 1; /* loaded but not used */
#pragma unroll
        for (int m = 0; m < my::matrices; m++)
#pragma unroll
            for (int half = 0; half < my::halves; half++)
                p->w[m][i][half] = load_weight(r.data[m] + (int64_t)chunk * PACK_CHUNK +
                                               half * (PACK_CHUNK / 2) + lane_index() * 16);
    }
}

template <int out>
EY_DEVICE void add_round(float sum[][2], const struct m1_fp8_weights<out> &p,
                         const struct m1_fp8_base<out> &r, const float *x, int round, int n_chunks)
{
    typedef struct m1_fp8_shape<out> my;
    int t = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < my::depth; i++) {
        int chunk = m1_fp8_chunk<my::depth>(round, i);
        if (chunk >= n_chunks) continue;
        float dot[my::matrices][2] = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float4 v = *(const float4 *)(x + chunk * PACK_BYTES + t * 16 + (q ^ (t & 2)) * 4);
#pragma unroll
            for (int m = 0; m < my::matrices; m++)
#pragma unroll
                for (int half = 0; half < my::halves; half++)
                    dot[m][half] = dot4(m1_word(p.w[m][i][half], q), v, dot[m][half]);
        }
#pragma unroll
        for (int m = 0; m < my::matrices; m++)
#pragma unroll
            for (int half = 0; half < my::halves; half++)
                sum[m][half] += r.scale[m][chunk / (SCALE_BLOCK / PACK_BYTES)] * dot[m][half];
    }
}

/* ---- a block of threads ---- */

template <int out> EY_DEVICE void m1_fp8_block(const struct matmul_args &a)
{
    EY_DYNAMIC_SHARED(memory);
    typedef struct m1_fp8_shape<out> my;
    enum { matrices = my::matrices };
    __shared__ float squares[GEMV_M1_WARPS], part[GEMV_M1_WARPS][matrices * my::rows];
    let_next_start();
    int n_chunks = gemv_m1_chunks(K_FP8, a.k), warps = (int)(blockDim.x / 32), lane = lane_index();
    const int rows = my::rows, parts = PACK_ROWS / rows;
    int rounds = (n_chunks + my::depth * warps - 1) / (my::depth * warps),
        half = (int)blockIdx.x % parts, scales = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    struct m1_rows at = m1_find_rows(a, (int)blockIdx.x / parts);
    if (out == EPI_SILU) {
        at.segment = 0;
        at.block = (int)blockIdx.x / parts;
    }
    struct m1_fp8_base<out> r;
#pragma unroll
    for (int m = 0; m < matrices; m++) {
        const struct dev_matrix &w = a.segment[at.segment + m].w;
        r.data[m] = (const uint8_t *)w.data + (int64_t)at.block * n_chunks * PACK_CHUNK +
                    half * (PACK_CHUNK / 2);
        r.scale[m] = w.scale + at.block * PACK_ROWS / SCALE_BLOCK * scales;
    }
    struct m1_fp8_weights<out> p;
    m1_fp8_load<out>(&p, r, 0, n_chunks);
    wait_for_previous();
    float *x = (float *)memory, sum[matrices][2] = {};
    if (out == EPI_ADD)
        stage_bf16(x, a, n_chunks * PACK_BYTES);
    else
        stage_normed(x, squares, a, n_chunks * PACK_BYTES);
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (round) m1_fp8_load<out>(&p, r, round, n_chunks);
        add_round<out>(sum, p, r, x, round, n_chunks);
    }
#pragma unroll
    for (int m = 0; m < matrices; m++)
#pragma unroll
        for (int i = 0; i < my::halves; i++) {
            float v = sum[m][i];
            v += shuffle_xor(v, 1);
            v += shuffle_xor(v, 2);
            if (lane % 4 == 0) part[warp_index()][m * rows + i * 8 + lane / 4] = v;
        }
    __syncthreads();
    if ((int)threadIdx.x >= rows) return;
    float total[matrices] = {}, all = 0;
    for (int w = 0; w < warps; w++) {
#pragma unroll
        for (int m = 0; m < matrices; m++)
            total[m] += part[w][m * rows + (int)threadIdx.x];
        if (out != EPI_ADD) all += squares[w];
    }
    float scale = out == EPI_ADD ? 1.0f : 1.0f / sqrtf(all / (float)a.k + a.eps);
    const int row = at.block * PACK_ROWS + half * rows + (int)threadIdx.x;
#pragma unroll
    for (int m = 0; m < matrices; m++)
        total[m] *= row_scale_of(a.segment[at.segment + m].w, row);
    m1_store<out>(a.segment[at.segment], row, total[0] * scale, total[matrices - 1] * scale);
}

EY_KERNEL(gemv_m1_fp8_rms_f32, struct matmul_args, GEMV_M1_WARPS * 32, 2)
{
    m1_fp8_block<EPI_F32>(a);
}
EY_KERNEL(gemv_m1_fp8_rms_silu, struct matmul_args, GEMV_M1_PAIR_WARPS * 32, 4)
{
    m1_fp8_block<EPI_SILU>(a);
}
EY_KERNEL(gemv_m1_fp8_act_add, struct matmul_args, GEMV_M1_WARPS * 32, 2)
{
    m1_fp8_block<EPI_ADD>(a);
}
