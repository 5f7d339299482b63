/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of some rows of x, which are tokens, with packed FP8 weights.
 *
 * x is converted once, by arrange_rows, into the order in which the matrix unit takes it, and each
 * block of threads has all tokens: the weights are read once and x's work does not grow with the
 * weights' rows (as in gemv.cu, where each 16 rows convert x anew).
 *
 * Weights are the left operand. Sign and seven bits of an e4m3, moved to their places in BF16, are
 * 2^-120 of the value, subnormals included; x carries X_FACTOR of what is missing and the scales
 * the rest, so a weight costs no multiplication. x may be up to 2^63 then. Sums are in units of the
 * block scale at hand (struct running_scale).
 *
 * A tile's columns may be split over several blocks of threads. The last of them to arrive adds all
 * their parts up, in the same order whichever it is. */
#include "kernels/cuda/matmul/matmul_small_join.cuh"

#define SMALL_X_FACTOR 0x1p64f
#define SMALL_W_FACTOR 0x1p56f

/* ---- x → arranged ----
 *
 * Arranged x is [64 columns][tokens][64] of BF16. A lane's 16 weights are columns 16t .. 16t+15,
 * word s of them columns 16t + 4s .. +3, of which the moved bits give pairs (0, 2) and (1, 3): so
 * unit 2s + pair of a token's 8 of 16 bytes has columns 16t + 4s + pair and + pair + 2 for t =
 * 0..3. Units are swizzled by token for load_matrices(). */

/* Columns column .. +3 of x. */
EY_DEVICE float4 arrange_load(const struct arrange_args &a, int64_t row, int column)
{
    if (column >= a.k) return make_float4(0, 0, 0, 0);
    if (a.norm) return *(const float4 *)((const float *)a.x + row + column);
    const uint2 v = *(const uint2 *)((const bf16 *)a.x + row + column);
    return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
}

/* The norm's weights of columns column .. +3. */
EY_DEVICE float4 arrange_weights(const struct arrange_args &a, int column)
{
    if (!a.norm || column >= a.k) return make_float4(1, 1, 1, 1);
    return *(const float4 *)(a.norm + column);
}

EY_DEVICE uint32_t arranged_pair(float low, float high)
{
    return bf16_pair(low * SMALL_X_FACTOR, high * SMALL_X_FACTOR);
}

/* 1/rms of the block's token; 1 without a norm. */
EY_DEVICE float arrange_scale(const struct arrange_args &a, int64_t row)
{
    __shared__ float shared[ARRANGE_THREADS / 32];
    float squares = 0;
    if (!a.norm) return 1.f;
    for (int c = (int)threadIdx.x * 4; c < a.k; c += ARRANGE_THREADS * 4) {
        const float4 v = arrange_load(a, row, c);
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    squares = warp_sum(squares);
    if (lane_index() == 0) shared[warp_index()] = squares;
    __syncthreads();
    squares = 0;
    for (int i = 0; i < ARRANGE_THREADS / 32; i++)
        squares += shared[i];
    return 1.f / sqrtf(squares / (float)a.k + a.eps);
}

/* A block of threads a token; those that are not there are zeros. */
EY_KERNEL(arrange_rows, struct arrange_args, ARRANGE_THREADS, 4)
{
    const int token = (int)blockIdx.x, pieces = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK * 8;
    const int64_t row = (int64_t)token * a.ldx;
    const bool there = token < a.n;
    float4 weights[4];
    let_next_start();
    int i = (int)threadIdx.x, column = i / 4 * 64 + i % 4 * 4;
#pragma unroll
    for (int t = 0; t < 4; t++)
        weights[t] = arrange_weights(a, column + 16 * t);
    wait_for_previous();
    const float scale = there ? arrange_scale(a, row) : 0.f;
    while (i < pieces) {
        const int unit = i % 4 * 2;
        bf16 *to = a.y + ((int64_t)(i / 4) * a.tokens + token) * 64;
        float4 v[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            v[t] = there ? arrange_load(a, row, column + 16 * t) : make_float4(0, 0, 0, 0);
            v[t] = make_float4(weights[t].x * (v[t].x * scale), weights[t].y * (v[t].y * scale),
                               weights[t].z * (v[t].z * scale), weights[t].w * (v[t].w * scale));
        }
        *(uint4 *)(to + (unit ^ (token % 8)) * 8) = make_uint4(
            arranged_pair(v[0].x, v[0].z), arranged_pair(v[1].x, v[1].z),
            arranged_pair(v[2].x, v[2].z), arranged_pair(v[3].x, v[3].z));
        *(uint4 *)(to + ((unit + 1) ^ (token % 8)) * 8) = make_uint4(
            arranged_pair(v[0].y, v[0].w), arranged_pair(v[1].y, v[1].w),
            arranged_pair(v[2].y, v[2].w), arranged_pair(v[3].y, v[3].w));
        i += ARRANGE_THREADS;
        column = i / 4 * 64 + i % 4 * 4;
#pragma unroll
        for (int t = 0; t < 4; t++)
            weights[t] = arrange_weights(a, column + 16 * t);
    }
}

/* ---- the matmul ---- */

template <int TOKENS> struct small_shape {
    enum {
        fp8 = 1,
        threads = SMALL_THREADS,
        rows = SMALL_TILE,
        tokens = TOKENS,
        warp_rows = SMALL_TILE, /* of what is staged together: all of the block's sums */
        warp_tokens = TOKENS,
        m_tiles = 2,
        n_tiles = TOKENS / 8,
        staged_row = SMALL_STAGED_ROW,
        adds_in_memory = 1,
        x_bytes = SMALL_X_BYTES(TOKENS),
        stage_bytes = SMALL_W_BYTES + x_bytes,
        stages = SMALL_STAGES(TOKENS),
    };
    static_assert((int)SMALL_HALVES * TOKENS * SMALL_STAGED_ROW * 4 <= SMALL_SHARED(TOKENS),
                  "sums lie over the stages");
};

/* What a thread brings of each stage: 16 bytes of every second block of rows, from `w` on, and of
 * x, from `x` on. */
struct small_share {
    const uint8_t *w[SMALL_TILE / PACK_ROWS / 2], *x;
    int second; /* of a stage's two chunks it is */
};

EY_DEVICE struct small_share small_find_share(const struct small_matmul_args &a,
                                              const struct gemm_place &p)
{
    const int thread = (int)threadIdx.x, unit = thread % 128;
    struct small_share s;
#pragma unroll
    for (int i = 0; i < SMALL_TILE / PACK_ROWS / 2; i++) {
        int u = thread / 128 + 2 * i, /* gate and up take turns, and so do the threads' halves */
            block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        s.w[i] = (thread / 128 ? p.w[1] : p.w[0]) + (int64_t)block * p.n_chunks * PACK_CHUNK +
                 unit * 16;
    }
    s.x = (const uint8_t *)a.matmul.x + thread * 16;
    s.second = unit / 64;
    return s;
}

/* Chunks beyond the last, where they are odd in number, are zeros. */
EY_DEVICE void small_copy_weights(const struct gemm_place &p, const struct small_share &s,
                                  unsigned char *stage, int block)
{
    const bool there = 2 * block + s.second < p.n_chunks;
    const int64_t at = there ? (int64_t)block * (2 * PACK_CHUNK) : 0;
    unsigned char *to = stage + (int)threadIdx.x / 128 * (2 * PACK_CHUNK) +
                        (int)threadIdx.x % 128 * 16;
#pragma unroll
    for (int i = 0; i < SMALL_TILE / PACK_ROWS / 2; i++)
        copy_async(to + i * (4 * PACK_CHUNK), s.w[i] + at - (there ? 0 : s.second * PACK_CHUNK),
                   there ? 16 : 0);
}

template <class S>
EY_DEVICE void small_copy_x(const struct small_share &s, unsigned char *stage, int block)
{
    unsigned char *to = stage + SMALL_W_BYTES + (int)threadIdx.x * 16;
    const uint8_t *from = s.x + (int64_t)block * S::x_bytes;
#pragma unroll
    for (int i = 0; i < S::x_bytes / (SMALL_THREADS * 16); i++)
        copy_async(to + i * SMALL_THREADS * 16, from + i * SMALL_THREADS * 16, 16);
}

/* Four weights as two BF16 pairs, times 2^-120; `mask` is 0 where they count as zeros. */
EY_DEVICE void small_weight_pairs(uint32_t &even, uint32_t &odd, uint32_t four, uint32_t mask)
{
    const uint32_t code = 0x07f007f0u & mask, sign = 0x80008000u & mask;
    even = (four << 4 & code) | (four << 8 & sign);
    odd = (four >> 4 & code) | (four & sign);
}

/* sum = sum · by + weights · x: a warp's 32 rows and 64 columns of a stage. */
template <class S>
EY_DEVICE void small_add_stage(float sum[2][S::n_tiles][4], const unsigned char *w,
                               const unsigned char *x, const float by[2], const uint32_t mask[2])
{
    const int lane = lane_index();
    uint32_t raw[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint4 v = *(const uint4 *)(w + m * (2 * PACK_CHUNK) + half * (PACK_CHUNK / 2) +
                                             lane * 16);
            raw[m][half][0] = v.x;
            raw[m][half][1] = v.y;
            raw[m][half][2] = v.z;
            raw[m][half][3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < S::n_tiles * 4; i++)
            sum[m][i / 4][i % 4] *= by[m];
    }
#pragma unroll
    for (int s = 0; s < 4; s++) {
        uint32_t left[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            small_weight_pairs(left[m][0], left[m][2], raw[m][0][s], mask[m]);
            small_weight_pairs(left[m][1], left[m][3], raw[m][1][s], mask[m]);
        }
#pragma unroll
        for (int j = 0; j < S::n_tiles; j += 2) {
            const int token = j * 8 + lane / 16 * 8 + lane % 8, unit = s * 2 + lane / 8 % 2;
            uint32_t right[4];
            load_matrices(right, x + token * 128 + (unit ^ (token % 8)) * 16);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_bf16(sum[m][j], left[m], right[0], right[1]);
                mma_bf16(sum[m][j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* ---- results ---- */

template <class S>
EY_DEVICE void small_write(const struct small_matmul_args &a, const struct gemm_place &p,
                           struct gemm_staged &staged)
{
    const int thread = (int)threadIdx.x;
    if (gridDim.y > 1 && !small_join<S>(a, staged)) return;
    switch (a.matmul.epilogue) {
    case EPI_BF16: write_results<S, EPI_BF16>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    case EPI_F32: write_results<S, EPI_F32>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    case EPI_ADD: write_results<S, EPI_ADD>(a.matmul, p, staged, thread, SMALL_THREADS); break;
    default: write_results<S, EPI_SILU>(a.matmul, p, staged, thread, SMALL_THREADS);
    }
}

/* Warp (row_warp, half) has 32 rows and, of each stage's two chunks, one. */
template <int TOKENS> EY_DEVICE void small_block(const struct small_matmul_args &a)
{
    typedef struct small_shape<TOKENS> S;
    EY_DYNAMIC_SHARED(shared);
    const struct gemm_place p = gemm_place_of<S>(a.matmul, (int)blockIdx.x);
    const struct small_share share = small_find_share(a, p);
    const int row_warp = warp_index() / SMALL_HALVES, half = warp_index() % SMALL_HALVES,
              blocks = (a.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK,
              begin = (int)blockIdx.y * blocks / (int)gridDim.y,
              end = ((int)blockIdx.y + 1) * blocks / (int)gridDim.y;
    const bool has_work = p.first_block + row_warp * (p.paired ? 1 : 2) < p.blocks;
    const int64_t scale_row = (int64_t)(p.first_block * PACK_ROWS / SCALE_BLOCK) * blocks;

    let_next_start();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) /* weights before the kernel that makes x has ended */
        if (begin + i < end) small_copy_weights(p, share, shared + i * S::stage_bytes, begin + i);
    struct running_scale scale[2];
    float sum[2][S::n_tiles][4];
#pragma unroll
    for (int m = 0; m < 2; m++)
        scale[m] = (struct running_scale){1.f, scale_at(p.scale[m] + scale_row, begin, end), 0};
    clear_sums<S>(sum);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) {
        if (begin + i < end) small_copy_x<S>(share, shared + i * S::stage_bytes, begin + i);
        copy_commit();
    }
    for (int q = begin, stage = 0; q < end; q++) {
        const int next = q + S::stages - 1, free_stage = stage == 0 ? S::stages - 1 : stage - 1;
        const unsigned char *here = shared + stage * S::stage_bytes;
        float by[2];
        uint32_t mask[2];
#pragma unroll
        for (int m = 0; m < 2; m++) {
            by[m] = next_block_scale(&scale[m]);
            mask[m] = scale[m].factor ? ~0u : 0u;
            scale[m].next = scale_at(p.scale[m] + scale_row, q + 1, end);
        }
        copy_wait<S::stages - 2>();
        __syncthreads(); /* the stage has come, and nobody reads the one before it any more */
        if (next < end) {
            small_copy_weights(p, share, shared + free_stage * S::stage_bytes, next);
            small_copy_x<S>(share, shared + free_stage * S::stage_bytes, next);
        }
        copy_commit();
        if (has_work)
            small_add_stage<S>(sum, here + row_warp * 4 * PACK_CHUNK + half * PACK_CHUNK,
                               here + SMALL_W_BYTES + half * (S::x_bytes / 2), by, mask);
        stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < S::n_tiles * 4; i++)
            sum[m][i / 4][i % 4] *= scale[m].current * SMALL_W_FACTOR;
    float *sums = (float *)shared + half * TOKENS * SMALL_STAGED_ROW + row_warp * 32;
#pragma unroll
    for (int j = 0; j < S::n_tiles; j++)
        stage_tokens<S>(sums + 8 * j * SMALL_STAGED_ROW, sum, j);
    __syncthreads();
    struct gemm_staged staged = {(float *)shared, SMALL_HALVES, p.first_block * PACK_ROWS, 0,
                                 TOKENS};
    small_write<S>(a, p, staged);
}

EY_KERNEL(matmul_small_16, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_block<16>(a);
}

EY_KERNEL(matmul_small_32, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_block<32>(a);
}

EY_KERNEL(matmul_small_64, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_block<64>(a);
}
