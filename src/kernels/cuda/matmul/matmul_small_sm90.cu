/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of 2 to 128 rows of x (tokens) with packed FP8 weights, on GPUs of compute capability
 * 9.0.
 *
 * Only x is converted, once: the matrix unit takes e4m3 weights unconverted, and x as two planes of
 * e4m3, x = (high + low) · scale, with a power of two for each token and 128 columns. A BF16 number
 * has eight significant bits and an e4m3 one four, so two planes hold a number exactly if it is at
 * least 2^-10 of the largest of its 128 columns, and any other with an error within 2^-18 of the
 * largest. Weights in registers are multiplied with both planes: one after the other into the same
 * sums or, with few tokens, as columns of one instruction.
 *
 * A block of threads has 128 weight rows and all tokens. One warp streams weights and x through a
 * ring by bulk copies; weights do not depend on the previous kernel, so the ring is full of them
 * when that kernel ends. Another warp computes 1/rms meanwhile, which is applied to the sums at the
 * end, so no warp has to wait for a whole row of x. A tile's columns may be split over several
 * blocks; their parts are added up by the last of them, or by the next kernel that reads y
 * (make_planes).
 *
 * The emulator lacks these instructions: it runs matmul_small.cu instead. */
#ifndef EY_EMULATE
#include "kernels/cuda/common/bulk_copy.cuh"
#include "kernels/cuda/common/wgmma.cuh"
#include "kernels/cuda/matmul/matmul_small_join.cuh"
#include "kernels/cuda/matmul/matmul_small_sm90_launch.h"

/* ---- x → planes ----
 *
 * For each 128 columns: 128 bytes of the high plane of each token, then of the low one, in the
 * order that wgmma.cuh wants, then the tokens' scales. A lane's 16 bytes of a chunk of weights are
 * columns 16t .. 16t+15, of which the j-th of two instructions takes columns 8j .. 8j+3 as its
 * columns 4t .. 4t+3, and 8j+4 .. 8j+7 as 16+4t .. 19+4t: the planes have the same order. */

EY_DEVICE float largest_of(float4 v)
{
    return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

/* Returns the exponent field of the power of two that scales `most` to 128 .. 256. */
EY_DEVICE uint32_t planes_exponent(float most)
{
    return 261 - (float_bits(fmaxf(most, 1e-30f)) >> 23);
}

EY_DEVICE float4 planes_values(uint32_t codes)
{
    uint32_t pair[2];
    e4m3_f16_pairs(pair, codes);
    return make_float4(f16_bits_value((uint16_t)pair[0]), f16_bits_value((uint16_t)(pair[0] >> 16)),
                       f16_bits_value((uint16_t)pair[1]),
                       f16_bits_value((uint16_t)(pair[1] >> 16)));
}

/* Returns the offset of four columns of a token in a plane of 128 columns. */
EY_DEVICE int place_in_plane(int row, int column)
{
    const int quad = column % 64 / 4, unit = column / 64 * 4 + quad / 2 % 2 * 2 + quad % 2;
    return row * 128 + (unit ^ (row % 8)) * 16 + quad / 4 * 4;
}

EY_DEVICE void store_planes(uint8_t *block, int token, int tokens, int column, float4 v, float by)
{
    v = make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
    const uint32_t high = e4m3_codes(v);
    const float4 h = planes_values(high);
    const uint32_t low = e4m3_codes(make_float4(v.x - h.x, v.y - h.y, v.z - h.z, v.w - h.w));
    *(uint32_t *)(block + place_in_plane(token, column)) = high;
    *(uint32_t *)(block + place_in_plane(tokens + token, column)) = low;
}

EY_DEVICE float4 planes_load(const struct planes_args &a, int64_t at)
{
    if (!a.x_f32) {
        const uint2 v = *(const uint2 *)((const bf16 *)a.x + at);
        return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
    }
    const uint4 v = load_fresh((const float *)a.x + at);
    return make_float4(bits_float(v.x), bits_float(v.y), bits_float(v.z), bits_float(v.w));
}

/* Returns v plus the parts of four columns of a token, added in order, with all loads in flight
 * together. */
EY_DEVICE float4 planes_add_parts(const struct planes_args &a, float4 v, int token, int column)
{
    const float *from = a.partial +
                        ((int64_t)(column / SMALL_TILE) * a.splits * a.part_tokens + token) *
                            SMALL_TILE +
                        column % SMALL_TILE;
    uint4 part[SMALL_MOST_SPLITS];
#pragma unroll
    for (int s = 0; s < SMALL_MOST_SPLITS; s++) {
        part[s] = make_uint4(0, 0, 0, 0);
        if (s < a.splits) part[s] = load_fresh(from + (int64_t)s * a.part_tokens * SMALL_TILE);
    }
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int s = 0; s < SMALL_MOST_SPLITS; s++)
        sum = make_float4(sum.x + bits_float(part[s].x), sum.y + bits_float(part[s].y),
                          sum.z + bits_float(part[s].z), sum.w + bits_float(part[s].w));
    return make_float4(v.x + sum.x, v.y + sum.y, v.z + sum.z, v.w + sum.w);
}

/* A warp takes SCALE_BLOCK columns of a row. */
EY_KERNEL(make_planes, struct planes_args, PLANES_THREADS, 8)
{
    const int blocks = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK,
              i = (int)blockIdx.x * (PLANES_THREADS / 32) + warp_index(), token = i / blocks,
              block = i % blocks, column = block * SCALE_BLOCK + lane_index() * 4;
    const bool there = token < a.n && column < a.k;
    float4 norm = make_float4(1, 1, 1, 1), v = make_float4(0, 0, 0, 0);
    let_next_start();
    if (a.norm && there) norm = *(const float4 *)(a.norm + column);
    wait_for_previous();
    if (token >= a.n) return;
    if (there) {
        const int64_t at = (int64_t)(a.gather ? a.gather[token] : token) * a.ldx + column;
        v = planes_load(a, at);
        if (a.splits) {
            v = planes_add_parts(a, v, token, column);
            *(float4 *)((float *)a.x + at) = v;
        }
    }
    if (!a.y) return;
    if (a.norm) {
        const float squares = warp_sum(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w);
        if (lane_index() == 0) a.squares[block * a.tokens + token] = squares;
        v = make_float4(v.x * norm.x, v.y * norm.y, v.z * norm.z, v.w * norm.w);
    }
    uint8_t *to = a.y + (int64_t)block * PLANES_X_BYTES(a.tokens);
    const uint32_t exponent = planes_exponent(warp_max(largest_of(v)));
    store_planes(to, token, a.tokens, lane_index() * 4, v, bits_float(exponent << 23));
    if (lane_index() == 0)
        ((float *)(to + a.tokens * 2 * SCALE_BLOCK))[token] = bits_float((254 - exponent) << 23);
}

/* ---- the matmul ---- */

template <int TOKENS, int COLUMNS, int TEAMS> struct planes_shape {
    enum {
        fp8 = 1,
        rows = SMALL_TILE,
        tokens = TOKENS,
        teams = TEAMS,
        columns = COLUMNS,
        warps = PLANES_WARPS * TEAMS,
        threads = 32 * (PLANES_WARPS * TEAMS + 2),
        warp_rows = SMALL_TILE, /* staged together: all of the block's sums */
        warp_tokens = TOKENS,
        staged_row = SMALL_STAGED_ROW,
        adds_in_memory = 1,
        beside = COLUMNS == 2 * TOKENS, /* both planes in one instruction */
        parts = beside ? 1 : TOKENS / COLUMNS,
        product_tiles = COLUMNS / 8,
        part_tiles = beside ? TOKENS / 8 : COLUMNS / 8,
        x_bytes = PLANES_X_BYTES(TOKENS),
        stage_bytes = PLANES_STAGE(TOKENS),
    };
};

/* The block's shared memory, and its part of the columns, in blocks of SCALE_BLOCK. */
struct planes_place {
    uint32_t ring, full, empty; /* addresses; barriers: 8 bytes each */
    float *rms;
    int begin, end;
};

/* Lanes 0 to 7 load a block of 16 weight rows each, lane 8 loads x. */
template <class S>
EY_DEVICE void planes_bring(const struct planes_matmul_args &a, const struct gemm_place &p,
                            const struct planes_place &at)
{
    const int lane = lane_index(), stages = a.stages, n = at.end - at.begin;
    const int block = min(p.first_block + (p.paired ? lane / 2 : lane), p.blocks - 1);
    const uint8_t *w = (lane % 2 ? p.w[1] : p.w[0]) +
                       ((int64_t)block * p.n_chunks + at.begin * 2) * PACK_CHUNK,
                  *x = (const uint8_t *)a.small.matmul.x + (int64_t)at.begin * S::x_bytes;
    const uint64_t policy = evict_first_policy();
    int slot = 0, phase = 0;
    /* the last block may have only one chunk */
#define EY_PLANES_CHUNKS(i) ((at.begin + (i)) * 2 + 1 < p.n_chunks ? 2 : 1)
    for (int i = 0; i < min(n, stages); i++) { /* before the kernel that makes x has ended */
        const int bytes = EY_PLANES_CHUNKS(i) * PACK_CHUNK;
        if (lane == 0) barrier_expect(at.full + i * 8, 8 * bytes + S::x_bytes);
        if (lane < 8)
            bulk_copy(at.ring + i * S::stage_bytes + lane * (2 * PACK_CHUNK),
                      w + (int64_t)i * (2 * PACK_CHUNK), bytes, at.full + i * 8, policy);
    }
    wait_for_previous();
    if (lane == 8)
        for (int i = 0; i < min(n, stages); i++)
            bulk_copy(at.ring + i * S::stage_bytes + SMALL_W_BYTES(K_FP8),
                      x + (int64_t)i * S::x_bytes, S::x_bytes, at.full + i * 8);
    for (int i = stages; i < n; i++) {
        const int bytes = EY_PLANES_CHUNKS(i) * PACK_CHUNK;
        barrier_wait(at.empty + slot * 8, phase);
        if (lane == 0) barrier_expect(at.full + slot * 8, 8 * bytes + S::x_bytes);
        if (lane < 8)
            bulk_copy(at.ring + slot * S::stage_bytes + lane * (2 * PACK_CHUNK),
                      w + (int64_t)i * (2 * PACK_CHUNK), bytes, at.full + slot * 8, policy);
        if (lane == 8)
            bulk_copy(at.ring + slot * S::stage_bytes + SMALL_W_BYTES(K_FP8),
                      x + (int64_t)i * S::x_bytes, S::x_bytes, at.full + slot * 8);
        if (++slot == stages) {
            slot = 0;
            phase ^= 1;
        }
    }
#undef EY_PLANES_CHUNKS
}

/* Computes 1/rms of every token. */
template <class S>
EY_DEVICE void planes_rms(const struct planes_matmul_args &a, const struct planes_place &at)
{
    const int blocks = (a.small.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    wait_for_previous();
    for (int token = lane_index(); token < S::tokens; token += 32) {
        float sum = 0;
#pragma unroll 8
        for (int i = 0; i < blocks; i++)
            sum += load_fresh_float(a.squares + i * S::tokens + token);
        at.rms[token] = 1.f / sqrtf(sum / (float)a.small.matmul.k + a.small.matmul.eps);
    }
}

/* Loads a warp's weights of a stage for each of its four instructions. */
EY_DEVICE void planes_weights(uint32_t w[4][4], uint32_t from, bool second_chunk)
{
#pragma unroll
    for (int chunk = 0; chunk < 2; chunk++) {
        const uint4 upper = load_shared(from + chunk * PACK_CHUNK),
                    lower = load_shared(from + chunk * PACK_CHUNK + PACK_CHUNK / 2);
        const uint32_t all = chunk == 0 || second_chunk ? ~0u : 0u;
        w[2 * chunk][0] = upper.x & all;
        w[2 * chunk][1] = lower.x & all;
        w[2 * chunk][2] = upper.y & all;
        w[2 * chunk][3] = lower.y & all;
        w[2 * chunk + 1][0] = upper.z & all;
        w[2 * chunk + 1][1] = lower.z & all;
        w[2 * chunk + 1][2] = upper.w & all;
        w[2 * chunk + 1][3] = lower.w & all;
    }
}

/* sum += (the stage at `stage`) · its block's scale; `empty`: its barrier, signaled when all is
 * read. */
template <class S>
EY_DEVICE void planes_add_stage(float sum[S::tokens / 8][4], const uint32_t w[4][4], uint32_t stage,
                                float scale, uint32_t empty)
{
    const uint32_t x = wgmma_e4m3_operand(stage + SMALL_W_BYTES(K_FP8)),
                   scales = stage + SMALL_W_BYTES(K_FP8) + S::tokens * 2 * SCALE_BLOCK +
                            lane_index() % 4 * 8;
#pragma unroll
    for (int part = 0; part < S::parts; part++) {
        float product[S::product_tiles][4];
        float2 by[S::part_tiles];
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) { /* addresses in units of 16 bytes: 2 per step, 8 per row */
            const uint32_t high = x + part * S::columns * 8 + k * 2;
            wgmma_e4m3(product, w[k], high, k > 0);
            if (!S::beside) wgmma_e4m3(product, w[k], high + S::tokens * 8, true);
        }
        wgmma_commit();
#pragma unroll
        for (int j = 0; j < S::part_tiles; j++)
            by[j] = load_shared_pair(scales + (part * S::columns + j * 8) * 4);
        wgmma_wait<0>();
#pragma unroll
        for (int j = 0; j < S::product_tiles * 4; j++)
            pin_register(product[j / 4][j % 4]);
        if (part == S::parts - 1) {
            __syncwarp();
            if (lane_index() == 0) barrier_arrive(empty);
        }
#pragma unroll
        for (int j = 0; j < S::part_tiles; j++) {
            const float f[2] = {scale * by[j].x, scale * by[j].y};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float both = S::beside ? product[j][e] +
                                                   product[j + S::product_tiles - S::part_tiles][e]
                                             : product[j][e];
                float *to = &sum[part * S::part_tiles + j][e];
                *to = fmaf(both, f[e % 2], *to);
            }
        }
    }
}

/* A warp has 16 of the tile's rows (gate and up alternate if there are two), and its team's
 * stages. */
template <class S>
EY_DEVICE void planes_multiply(float sum[S::tokens / 8][4], const struct planes_matmul_args &a,
                               const struct gemm_place &p, const struct planes_place &at)
{
    const int row_block = warp_index() % PLANES_WARPS, team = warp_index() / PLANES_WARPS,
              blocks = (a.small.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const float *scale = (row_block % 2 ? p.scale[1] : p.scale[0]) +
                         (int64_t)(p.first_block * PACK_ROWS / SCALE_BLOCK) * blocks;
    const uint32_t w_at = row_block * (2 * PACK_CHUNK) + lane_index() * 16;
    float next = scale_at(scale, at.begin + team, at.end);
    int slot = team, phase = 0;
    for (int i = at.begin + team; i < at.end; i += S::teams) {
        const uint32_t stage = at.ring + slot * S::stage_bytes;
        const float here = next;
        uint32_t w[4][4];
        next = scale_at(scale, i + S::teams, at.end);
        barrier_wait(at.full + slot * 8, phase);
        planes_weights(w, stage + w_at, 2 * i + 1 < p.n_chunks);
        planes_add_stage<S>(sum, w, stage, here, at.empty + slot * 8);
        slot += S::teams;
        if (slot >= a.stages) {
            slot -= a.stages;
            phase ^= 1;
        }
    }
}

/* Stores sums transposed: a token's rows become adjacent. */
template <class S>
EY_DEVICE void planes_stage_sums(float *staged, const float sum[S::tokens / 8][4], const float *rms)
{
    const int g = lane_index() / 4, t = lane_index() % 4,
              row = warp_index() % PLANES_WARPS * PACK_ROWS + g;
    float *to = staged + warp_index() / PLANES_WARPS * S::tokens * SMALL_STAGED_ROW + row;
#pragma unroll
    for (int j = 0; j < S::tokens / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int token = 8 * j + 2 * t + e % 2;
            to[token * SMALL_STAGED_ROW + e / 2 * 8] = rms ? sum[j][e] * rms[token] : sum[j][e];
        }
}

template <class S>
EY_DEVICE void planes_write(const struct small_matmul_args &a, const struct gemm_place &p,
                            struct gemm_staged &staged)
{
    const int thread = (int)threadIdx.x;
    if (gridDim.y > 1 && !small_join<S>(a, staged)) return;
    switch (a.matmul.epilogue) {
    case EPI_BF16: write_results<S, EPI_BF16>(a.matmul, p, staged, thread, S::threads); break;
    case EPI_F32: write_results<S, EPI_F32>(a.matmul, p, staged, thread, S::threads); break;
    case EPI_ADD: write_results<S, EPI_ADD>(a.matmul, p, staged, thread, S::threads); break;
    default: write_results<S, EPI_SILU>(a.matmul, p, staged, thread, S::threads);
    }
}

template <class S>
EY_DEVICE void planes_block(const struct planes_matmul_args &a, unsigned char *memory)
{
    const struct gemm_place p = gemm_place_of<S>(a.small.matmul, (int)blockIdx.x);
    const int blocks = (a.small.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK, warp = warp_index();
    uint64_t *barriers = (uint64_t *)memory;
    const struct planes_place at = {shared_address(memory) + PLANES_HEAD,
                                    shared_address(barriers),
                                    shared_address(barriers + PLANES_MOST_STAGES),
                                    (float *)(memory + PLANES_RMS_AT),
                                    (int)blockIdx.y * blocks / (int)gridDim.y,
                                    ((int)blockIdx.y + 1) * blocks / (int)gridDim.y};
    if (threadIdx.x == 0) {
        for (int i = 0; i < a.stages; i++) {
            barrier_init(barriers + i, 1);
            barrier_init(barriers + PLANES_MOST_STAGES + i, PLANES_WARPS);
        }
        barriers_are_made();
    }
    let_next_start();
    __syncthreads();
    float sum[S::tokens / 8][4];
#pragma unroll
    for (int i = 0; i < S::tokens / 2; i++)
        sum[i / 4][i % 4] = 0;
    if (warp < S::warps)
        planes_multiply<S>(sum, a, p, at);
    else if (warp == S::warps)
        planes_bring<S>(a, p, at);
    else if (a.squares)
        planes_rms<S>(a, at);
    __syncwarp();
    __syncthreads(); /* the ring is free, and 1/rms computed */
    if (warp < S::warps)
        planes_stage_sums<S>((float *)(memory + PLANES_HEAD), sum, a.squares ? at.rms : nullptr);
    __syncthreads();
    wait_for_previous();
    struct gemm_staged staged = {(float *)(memory + PLANES_HEAD), S::teams,
                                 p.first_block * PACK_ROWS, 0, S::tokens};
    planes_write<S>(a.small, p, staged);
}

#define EY_PLANES_KERNEL(tokens, columns, teams, ring, blocks)         \
    EY_KERNEL(matmul_small_sm90_##tokens, struct planes_matmul_args,   \
              32 * (PLANES_WARPS * teams + 2), blocks)                 \
    {                                                                  \
        EY_DYNAMIC_SHARED_1024(memory);                                \
        planes_block<planes_shape<tokens, columns, teams>>(a, memory); \
    }
EY_PLANES_TILES(EY_PLANES_KERNEL)
#endif
