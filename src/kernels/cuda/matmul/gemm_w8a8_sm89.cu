/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM with FP8 weights and FP8 activations (W8A8), for matrix units that take both (compute
 * capability 8.9 and later; 9.0 has the instruction but no unit for it). Activations are quantized
 * by rows and blocks of SCALE_BLOCK columns, the scheme for which block-FP8 checkpoints are made.
 *
 * Weights are the left operand. A lane's 16 bytes of a packed chunk, and as many of a token, are
 * used unconverted by two steps of the matrix unit: the order of summed columns does not matter as
 * long as both operands have the same. The unit's sums keep few bits, so they restart with each
 * chunk of 64 columns and are added up in float32, times the scales of both operands. */
#include "kernels/cuda/matmul/gemm_common.cuh"
#include "kernels/cuda/matmul/gemm_w8a8_launch.h"

/* ---- activations → e4m3: a warp for each row and block of columns ---- */

EY_KERNEL(quantize_rows, struct quantize_rows_args, QUANTIZE_ROWS_THREADS, 4)
{
    const int blocks = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const int64_t at = (int64_t)blockIdx.x * (QUANTIZE_ROWS_THREADS / 32) + warp_index();
    const int row = (int)(at / blocks), block = (int)(at % blocks),
              column = block * SCALE_BLOCK + lane_index() * 4;
    uint2 pairs = make_uint2(0, 0);
    uint32_t size = 0, quantized = 0; /* magnitudes sort like their bits, and NaN is the largest */
    wait_for_previous();
    let_next_start();
    if (row >= a.n) return; /* returns whole warps */
    if (column < a.k) pairs = *(const uint2 *)(a.x + (int64_t)row * a.k + column);
    const float v[4] = {bf16_low(pairs.x), bf16_high(pairs.x), bf16_low(pairs.y),
                        bf16_high(pairs.y)};
#pragma unroll
    for (int i = 0; i < 4; i++)
        size = max(size, float_bits(v[i]) & 0x7fffffffu);
#pragma unroll
    for (int mask = 16; mask; mask /= 2)
        size = max(size, shuffle_xor(size, mask));
    const float scale = bits_float(size) / 448.f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        quantized |= (uint32_t)e4m3_of(scale > 0 ? v[i] / scale : 0.f) << 8 * i;
    if (column < a.k) *(uint32_t *)(a.y + (int64_t)row * a.k + column) = quantized;
    if (lane_index() == 0) a.scale[(int64_t)block * a.scale_rows + row] = scale;
}

/* ---- the matmul ---- */

struct w8a8_shape {
    enum {
        fp8 = 1,
        rows = GEMM_W8A8_TILE,
        tokens = GEMM_W8A8_TILE,
        warp_rows = 64,
        warp_tokens = 64,
        m_tiles = 4,
        n_tiles = 8,
        n_at_once = 4, /* tiles of tokens whose MMAs are in flight together */
        w_bytes = rows * PACK_BYTES,
        staged_row = warp_rows + 4,
        staged_tokens = 32,
        adds_in_memory = 0,
    };
};
typedef struct w8a8_shape S;

/* A thread's part of each stage: 16 bytes of every second block of rows, and of every 32nd token.
 * Elements beyond the last are treated as in gemm.cu. */
struct w8a8_share {
    const uint8_t *w, *x;
    int w_to, x_to; /* offsets in a stage */
    int column;
};

EY_DEVICE struct w8a8_share w8a8_find_share(const struct matmul_args &a, const struct gemm_place &p)
{
    const int thread = (int)threadIdx.x, unit = thread % 64, token = thread / 4;
    struct w8a8_share s;
    s.w = (thread / 64 ? p.w[1] : p.w[0]) +
          unit * 16; /* gate and up alternate, as do the threads' halves */
    s.w_to = thread / 64 * PACK_CHUNK + unit * 16;
    s.column = thread % 4 * 16;
    s.x = (const uint8_t *)a.x + (int64_t)(p.first_token + token) * a.ldx + s.column;
    s.x_to = S::w_bytes + token * PACK_BYTES + s.column;
    return s;
}

EY_DEVICE void w8a8_copy_weights(const struct gemm_place &p, const struct w8a8_share &s,
                                 unsigned char *shared, int stage, int chunk)
{
#pragma unroll
    for (int i = 0; i < S::rows / PACK_ROWS / 2; i++) {
        int u = (int)threadIdx.x / 64 + 2 * i,
            block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        copy_async(shared + stage * GEMM_W8A8_STAGE_BYTES + s.w_to + 2 * i * PACK_CHUNK,
                   s.w + (int64_t)(block * p.n_chunks + chunk) * PACK_CHUNK, 16);
    }
}

/* Loads x; the first chunk of a block of columns also loads its scales. */
EY_DEVICE void w8a8_copy_x(const struct w8a8_args &a, const struct gemm_place &p,
                           const struct w8a8_share &s, unsigned char *shared, int stage, int chunk)
{
    const int thread = (int)threadIdx.x, column = chunk * PACK_BYTES,
              there = column + s.column < a.matmul.k, quad = p.first_token + thread * 4;
#pragma unroll
    for (int i = 0; i < S::tokens / 32; i++) {
        int wanted = there && p.first_token + thread / 4 + 32 * i < a.matmul.n;
        const void *x = wanted ? s.x + (int64_t)32 * i * a.matmul.ldx + column : a.matmul.x;
        copy_async(shared + stage * GEMM_W8A8_STAGE_BYTES + s.x_to + i * 32 * PACK_BYTES, x,
                   wanted ? 16 : 0);
    }
    if (chunk % 2 == 0 && thread < 32)
        copy_async(shared + GEMM_W8A8_SCALES_AT + chunk / 2 % 2 * GEMM_W8A8_SCALE_BYTES +
                       thread * 16,
                   a.x_scale + (quad < a.matmul.n ? (int64_t)(chunk / 2) * a.scale_rows + quad : 0),
                   quad < a.matmul.n ? 16 : 0);
}

/* Loads quantized values of 16 rows as left operands of two steps. */
EY_DEVICE void w8a8_load_rows(uint32_t left[2][4], const unsigned char *chunk)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 v = *(const uint4 *)(chunk + half * (PACK_CHUNK / 2) + lane_index() * 16);
        left[0][half] = v.x;
        left[0][half + 2] = v.y;
        left[1][half] = v.z;
        left[1][half + 2] = v.w;
    }
}

/* Adds the warp's MMAs of a chunk times the scales: w's of gate and up alternately, and x's of this
 * lane's two tokens in each tile of 8. */
EY_DEVICE void w8a8_add_chunk(float sum[S::m_tiles][S::n_tiles][4], const unsigned char *w,
                              const unsigned char *x, const float *x_scale, const float w_scale[2])
{
    const int lane = lane_index();
#pragma unroll
    for (int from = 0; from < S::n_tiles; from += S::n_at_once) {
        uint4 right[S::n_at_once];
        float2 scale[S::n_at_once];
#pragma unroll
        for (int j = 0; j < S::n_at_once; j++) {
            right[j] = *(const uint4 *)(x + 8 * (from + j) * PACK_BYTES + lane * 16);
            scale[j] = *(const float2 *)(x_scale + 8 * (from + j) + lane % 4 * 2);
        }
#pragma unroll
        for (int i = 0; i < S::m_tiles; i++) {
            uint32_t left[2][4];
            float part[S::n_at_once][4];
            w8a8_load_rows(left, w + i * PACK_CHUNK);
#pragma unroll
            for (int j = 0; j < S::n_at_once; j++)
                mma_e4m3(part[j], left[0], right[j].x, right[j].y);
#pragma unroll
            for (int j = 0; j < S::n_at_once; j++)
                mma_e4m3_add(part[j], left[1], right[j].z, right[j].w);
#pragma unroll
            for (int j = 0; j < S::n_at_once; j++) {
                const float by[2] = {w_scale[i % 2] * scale[j].x, w_scale[i % 2] * scale[j].y};
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sum[i][from + j][e] += by[e % 2] * part[j][e];
            }
        }
    }
}

EY_KERNEL(gemm_w8a8, struct w8a8_args, GEMM_W8A8_THREADS, 2)
{
    EY_DYNAMIC_SHARED(shared);
    const struct gemm_place p = gemm_place_of<S>(a.matmul, (int)blockIdx.x);
    const struct w8a8_share share = w8a8_find_share(a.matmul, p);
    const int row_warp = warp_index() % 2, token_warp = warp_index() / 2,
              scale_blocks = (a.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const int block_of_warp = p.first_block + row_warp * S::m_tiles / (p.paired ? 2 : 1),
              first_token = p.first_token + token_warp * S::warp_tokens;
    const bool has_work = block_of_warp < p.blocks &&
                          first_token < a.matmul.n; /* the others still load their part */
    const int64_t scale_row =
        (int64_t)(min(block_of_warp, p.blocks - 1) * PACK_ROWS / SCALE_BLOCK) * scale_blocks;
    float sum[S::m_tiles][S::n_tiles][4], w_scale[2] = {0, 0};

    let_next_start();
#pragma unroll
    for (int i = 0; i < GEMM_W8A8_STAGES - 1;
         i++) /* weights, before the kernel that makes x has ended */
        if (i < p.n_chunks) w8a8_copy_weights(p, share, shared, i, i);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < GEMM_W8A8_STAGES - 1; i++) {
        if (i < p.n_chunks) w8a8_copy_x(a, p, share, shared, i, i);
        copy_commit();
    }
    clear_sums<S>(sum);
    for (int q = 0, stage = 0; q < p.n_chunks; q++) {
        const int next = q + GEMM_W8A8_STAGES - 1,
                  free_stage = stage == 0 ? GEMM_W8A8_STAGES - 1 : stage - 1;
        const unsigned char *here = shared + stage * GEMM_W8A8_STAGE_BYTES;
        if (q % 2 == 0) {
            w_scale[0] = __ldg(p.scale[0] + scale_row + q / 2);
            w_scale[1] = __ldg(p.scale[1] + scale_row + q / 2);
        }
        copy_wait<GEMM_W8A8_STAGES - 2>();
        __syncthreads(); /* the chunk has arrived, and nobody reads the previous one any more */
        if (next < p.n_chunks) {
            w8a8_copy_weights(p, share, shared, free_stage, next);
            w8a8_copy_x(a, p, share, shared, free_stage, next);
        }
        copy_commit();
        if (has_work)
            w8a8_add_chunk(
                sum, here + row_warp * S::m_tiles * PACK_CHUNK,
                here + S::w_bytes + token_warp * S::warp_tokens * PACK_BYTES,
                (const float *)(shared + GEMM_W8A8_SCALES_AT + q / 2 % 2 * GEMM_W8A8_SCALE_BYTES) +
                    token_warp * S::warp_tokens,
                w_scale);
        stage = stage + 1 == GEMM_W8A8_STAGES ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();
    write_warp<S>(a.matmul, p, sum, (float *)shared, block_of_warp, first_token);
}
