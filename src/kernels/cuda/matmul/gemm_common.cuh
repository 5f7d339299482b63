/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the GEMM kernels (gemm.cu, gemm_w8a8_sm89.cu, gemm_wgmma_sm90.cu): positions of tiles,
 * block scales, and turning sums in shared memory into results. S is a kernel's shape. fp8:
 * whether weights are FP8; rows, tokens: of a tile; warp_rows, warp_tokens: of the sums that are
 * staged together; staged_row: floats between tokens there; adds_in_memory: whether sums are added
 * to y by the memory system. */
#ifndef EY_CUDA_GEMM_COMMON_CUH
#define EY_CUDA_GEMM_COMMON_CUH

#include "kernels/cuda/matmul/gemm_launch.h"
#include "kernels/cuda/common/ptx.cuh"

/* The position of a tile: its matrices (gate and up alternate, otherwise the same twice), and its
 * first row in blocks of 16 and first token. */
struct gemm_place {
    const uint8_t *w[2];
    const float *scale[2];
    int segment, first_block, blocks, paired, first_token, n_chunks;
};

template <class S> EY_DEVICE struct gemm_place gemm_place_of(const struct matmul_args &a, int tile)
{
    struct gemm_place p;
    int tokens = (a.n + S::tokens - 1) / S::tokens;
    int row_tiles = (int)gridDim.x / tokens;
    int band = tile / (GEMM_BAND * row_tiles), in_band = tile - band * GEMM_BAND * row_tiles;
    int width = min((int)GEMM_BAND, tokens - band * GEMM_BAND);
    int row_tile = in_band / width;
    p.first_token = (band * GEMM_BAND + in_band - row_tile * width) * S::tokens;
    p.paired = a.epilogue == EPI_SILU;
    p.segment = 0;
    if (!p.paired)
        while (row_tile * S::rows >= a.segment[p.segment].w.rows) {
            row_tile -= (a.segment[p.segment].w.rows + S::rows - 1) / S::rows;
            p.segment++;
        }
    p.first_block = row_tile * (p.paired ? S::rows / 2 : S::rows) / PACK_ROWS;
    for (int i = 0; i < 2; i++) {
        const struct dev_matrix &w = a.segment[p.segment + (p.paired ? i : 0)].w;
        p.w[i] = (const uint8_t *)w.data;
        p.scale[i] = w.scale;
    }
    p.blocks = (a.segment[p.segment].w.rows + PACK_ROWS - 1) / PACK_ROWS;
    p.n_chunks = (int)packed_chunks((int64_t)a.k * (S::fp8 ? 1 : 2));
    return p;
}

/* ---- block scales ----
 *
 * Sums are kept in units of the scale of the block that is being added, so one set of accumulators
 * is enough: every 128 columns it is multiplied by old scale / new scale. A block whose scale
 * is (nearly) zero counts as zeros and leaves the unit as it was. */
struct running_scale {
    float current, next; /* next: of the following block, read early */
    uint32_t factor;     /* factor of this block's weights */
};

EY_DEVICE float scale_at(const float *row, int block, int n_blocks)
{
    return block < n_blocks ? __ldg(row + block) : 0.f;
}

/* Enters the next block; returns the factor of the sums. */
EY_DEVICE float next_block_scale(struct running_scale *s)
{
    float before = s->current;
    if (fabsf(s->next) < 1e-30f) {
        s->factor = 0;
        return 1.f;
    }
    s->factor = E4M3_FACTOR;
    s->current = s->next;
    return __fdividef(before, s->current);
}

/* ---- results ---- */

EY_DEVICE float gemm_silu(float v)
{
    return __fdividef(v, 1.f + exp2_fast(-1.44269504f * v));
}

/* 0.5·v·(1 + tanh(u)) is v / (1 + exp(-2u)) */
EY_DEVICE float gemm_gelu_tanh(float v)
{
    float u = 0.797884561f * (v + 0.044715f * v * v * v);
    return __fdividef(v, 1.f + exp2_fast(-2.f * 1.44269504f * u));
}

EY_DEVICE float gemm_gelu_erf(float v)
{
    return 0.5f * v * (1.f + erff(v * 0.707106781f));
}

EY_DEVICE float gemm_activation(float v, int out)
{
    if (out == EPI_GELU_TANH) return gemm_gelu_tanh(v);
    return out == EPI_GELU_ERF ? gemm_gelu_erf(v) : v;
}

/* ---- results: shared → global, 4 consecutive rows of a token at a time ---- */

/* The sums of warp_rows rows, from row `first_row` of the matrix on, and of `n_tokens` tokens, in
 * shared memory. Gate and up are staged alternately by 16 rows and give half as many results. */
struct gemm_staged {
    float *sums;
    int copies, first_row, first_token, n_tokens;
};

/* A thread's part of the sums: always the same rows, every `step`-th token. */
struct gemm_quads {
    int token, step, row, n; /* n: rows that exist, 4 except at the matrix's end */
};

template <class S>
EY_DEVICE struct gemm_quads quads_of(const struct matmul_args &a, const struct gemm_place &p,
                                     const struct gemm_staged &s, int member, int team)
{
    struct gemm_quads q;
    int across = S::warp_rows / 4 >> p.paired, shift = (S::warp_rows == 256   ? 6
                                                        : S::warp_rows == 128 ? 5
                                                        : S::warp_rows == 64  ? 4
                                                                              : 3) -
                                                       p.paired;
    q.token = member >> shift;
    q.step = team >> shift;
    q.row = (member & (across - 1)) * 4;
    q.n = min(4, a.segment[p.segment].w.rows - s.first_row - q.row);
    return q;
}

EY_DEVICE float4 load_floats(const float *y, int n)
{
    if (n == 4 && (uintptr_t)y % 16 == 0) return *(const float4 *)y;
    return make_float4(y[0], n > 1 ? y[1] : 0, n > 2 ? y[2] : 0, n > 3 ? y[3] : 0);
}

EY_DEVICE void store_floats(float *y, const float v[4], int n)
{
    if (n == 4 && (uintptr_t)y % 16 == 0) {
        *(float4 *)y = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < n) y[e] = v[e];
}

EY_DEVICE void add_floats(float *y, const float v[4], int n)
{
    if (n == 4 && (uintptr_t)y % 16 == 0) {
        add_in_memory(y, make_float4(v[0], v[1], v[2], v[3]));
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < n) y[e] += v[e];
}

EY_DEVICE void store_bf16(bf16 *y, const float v[4], int n)
{
    uint2 pairs = make_uint2(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]));
    if (n == 4 && (uintptr_t)y % 8 == 0) {
        *(uint2 *)y = pairs;
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < n) y[e] = (bf16)((e < 2 ? pairs.x : pairs.y) >> (e % 2 * 16));
}

/* Adds the old values of y to the sums, with many loads in flight, since there are too few warps to
 * hide their latency. */
template <class S>
EY_DEVICE void add_before(const struct matmul_args &a, const struct matmul_segment &segment,
                          const struct gemm_staged &s, const struct gemm_quads &q)
{
    enum { AT_ONCE = 8 };
    for (int from = q.token; from < s.n_tokens; from += AT_ONCE * q.step) {
        float4 old[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int token = min(from + i * q.step, min(s.n_tokens, a.n - s.first_token) - 1);
            old[i] = load_floats((const float *)segment.y +
                                     (int64_t)(s.first_token + token) * segment.ldy + s.first_row +
                                     q.row,
                                 q.n);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float4 *sum = (float4 *)(s.sums + (from + i * q.step) * S::staged_row + q.row);
            if (from + i * q.step < s.n_tokens)
                *sum = make_float4(sum->x + old[i].x, sum->y + old[i].y, sum->z + old[i].z,
                                   sum->w + old[i].w);
        }
    }
}

/* Returns 4 sums of one token, added up over the copies. */
template <class S>
EY_DEVICE void staged_sums(float v[4], const struct gemm_staged &s, int token, int row)
{
    const float *from = s.sums + token * S::staged_row + row;
    float4 sum = *(const float4 *)from;
    for (int c = 1; c < s.copies; c++) {
        float4 more = *(const float4 *)(from + c * S::warp_tokens * S::staged_row);
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    v[0] = sum.x;
    v[1] = sum.y;
    v[2] = sum.z;
    v[3] = sum.w;
}

/* Computes the results of 4 rows for one token in v. */
template <class S, int out>
EY_DEVICE void gemm_results(float v[4], const struct gemm_staged &s, int token, int row,
                            const float bias[4])
{
    if (out == EPI_SILU) {
        float up[4];
        int gate_row = row / PACK_ROWS * 2 * PACK_ROWS + row % PACK_ROWS;
        staged_sums<S>(v, s, token, gate_row);
        staged_sums<S>(up, s, token, gate_row + PACK_ROWS);
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = gemm_silu(v[e]) * up[e];
    } else {
        staged_sums<S>(v, s, token, row);
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = gemm_activation(v[e] + bias[e], out);
    }
}

template <class S, int out>
EY_DEVICE void write_results(const struct matmul_args &a, const struct gemm_place &p,
                             const struct gemm_staged &s, int member, int team)
{
    enum { AT_ONCE = 4 };
    const struct matmul_segment &segment = a.segment[p.segment];
    const struct gemm_quads q = quads_of<S>(a, p, s, member, team);
    float bias[4] = {0, 0, 0, 0};
    if (q.n <= 0 || s.first_token >= a.n) return;
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (out != EPI_SILU && segment.bias && e < q.n)
            bias[e] = __ldg(segment.bias + s.first_row + q.row + e);
    if (out == EPI_ADD && !S::adds_in_memory) add_before<S>(a, segment, s, q);
    for (int from = q.token; from < s.n_tokens; from += AT_ONCE * q.step) {
        float v[AT_ONCE][4];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            gemm_results<S, out>(v[i], s, min(from + i * q.step, s.n_tokens - 1), q.row, bias);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int token = from + i * q.step;
            int64_t to = (int64_t)(s.first_token + token) * segment.ldy + s.first_row + q.row;
            if (token >= s.n_tokens || s.first_token + token >= a.n) break;
            if (out == EPI_ADD && S::adds_in_memory)
                add_floats((float *)segment.y + to, v[i], q.n);
            else if (out == EPI_ADD || out == EPI_F32)
                store_floats((float *)segment.y + to, v[i], q.n);
            else
                store_bf16((bf16 *)segment.y + to, v[i], q.n);
        }
    }
}

template <class S>
EY_DEVICE void write_staged(const struct matmul_args &a, const struct gemm_place &p,
                            const struct gemm_staged &s, int member, int team)
{
    switch (a.epilogue) {
    case EPI_BF16: write_results<S, EPI_BF16>(a, p, s, member, team); break;
    case EPI_F32: write_results<S, EPI_F32>(a, p, s, member, team); break;
    case EPI_ADD: write_results<S, EPI_ADD>(a, p, s, member, team); break;
    case EPI_SILU: write_results<S, EPI_SILU>(a, p, s, member, team); break;
    case EPI_GELU_TANH: write_results<S, EPI_GELU_TANH>(a, p, s, member, team); break;
    default: write_results<S, EPI_GELU_ERF>(a, p, s, member, team);
    }
}

/* ---- results: registers → shared ---- */

/* Stores the warp's sums of one token tile transposed: a token's rows become adjacent. */
template <class S>
EY_DEVICE void stage_tokens(float *staged, const float sum[S::m_tiles][S::n_tiles][4], int j)
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < S::m_tiles; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            staged[(2 * t + e % 2) * S::staged_row + 16 * i + g + e / 2 * 8] = sum[i][j][e];
}

template <class S> EY_DEVICE void clear_sums(float sum[S::m_tiles][S::n_tiles][4])
{
#pragma unroll
    for (int i = 0; i < S::m_tiles; i++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i][j][e] = 0;
}

/* Each warp writes its sums separately, as many tokens at a time as fit into its part of the
 * staging. */
template <class S>
EY_DEVICE void write_warp(const struct matmul_args &a, const struct gemm_place &p,
                          const float sum[S::m_tiles][S::n_tiles][4], float *shared,
                          int block_of_warp, int first_token)
{
    float *staged = shared + warp_index() * S::staged_tokens * S::staged_row;
#pragma unroll 1
    for (int from = 0; from < S::warp_tokens; from += S::staged_tokens) {
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++) /* j is a compile-time constant, `from` is not */
            if (8 * j / S::staged_tokens * S::staged_tokens == from)
                stage_tokens<S>(staged + (8 * j - from) * S::staged_row, sum, j);
        __syncwarp();
        const struct gemm_staged s = {staged, 1, block_of_warp * PACK_ROWS, first_token + from,
                                      S::staged_tokens};
        write_staged<S>(a, p, s, lane_index(), 32);
        __syncwarp();
    }
}

#endif
