/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many tokens) on GPUs of compute capability 9.0, whose matrix unit reaches its full rate
 * only with warpgroups (wgmma.cuh).
 *
 * A tile is 128·m_tiles rows of w, half of them for each of two warpgroups, and up to 256 tokens.
 * Weights are the left operand, from registers, so that FP8 can be converted on the way; tokens are
 * the right one, from shared memory. Both pass through a ring of stages of 64 columns each, four
 * steps of the matrix unit. While it works on two steps, the warps prepare the left operands of the
 * next two. */
#include "kernels/cuda/matmul/gemm_common.cuh"
#include "kernels/cuda/common/wgmma.cuh"

template <int dtype_, int m_tiles_, int n_tiles_, int stages_> struct sm90_shape {
    enum {
        fp8 = dtype_ == K_FP8,
        m_tiles = m_tiles_, /* tiles of 64 rows of a warpgroup */
        n_tiles = n_tiles_,
        stages = stages_,
        threads = GEMM_SM90_THREADS,
        rows = 128 * m_tiles,
        tokens = 8 * n_tiles,
        chunks = fp8 ? 1 : 2, /* packed chunks side by side in a stage */
        w_bytes = rows / PACK_ROWS * chunks * PACK_CHUNK,
        stage_bytes = w_bytes + tokens * 128,
        w_pieces = w_bytes / 16 / threads, /* 16-byte pieces of a thread in a stage */
        x_pieces = (tokens * 8 + threads - 1) / threads,
        pieces = w_pieces + x_pieces,
        at_once = 2, /* steps of 16 columns in a group */
        groups = 4 / at_once,
        /* all results are staged together */
        warp_rows = rows,
        warp_tokens = tokens,
        staged_row = rows + 4,
        adds_in_memory = 1, /* reading y first would take as long as a stage or two */
    };
};

/* ---- a stage in shared memory ----
 *
 * Weights: blocks of 16 rows, gate and up in turns, each of `chunks` packed chunks; the 16-byte
 * units of a chunk are swapped so that simultaneous reads use different banks. Tokens: in the order
 * of wgmma.cuh. */
EY_DEVICE int sm90_w_offset(int unit)
{
    return ((unit & ~3) | ((unit ^ unit >> 3) & 3)) * 16;
}

/* Returns the number of stages, in whole blocks of scales. */
EY_DEVICE int sm90_stages(const struct matmul_args &a)
{
    return (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK * 2;
}

/* ---- global → shared ----
 *
 * A thread loads `pieces` of 16 bytes of a stage, first those of weights. In place of blocks of
 * rows beyond the last, it loads the last block again; tokens beyond the last keep the old contents
 * of shared memory. Their results are never stored. (Loading the last token instead would make all
 * these loads queue for the same bytes.) Columns beyond the last are zeros. */
struct sm90_share {
    const unsigned char *w, *x;
    unsigned char *w_to, *x_to; /* addresses in the first stage */
    int chunk, column;          /* of the first stage */
    int tokens;                 /* tokens from its first one on */
};

template <class S> struct piece_offsets {
    uint32_t from[S::pieces];
};

template <class S>
EY_DEVICE struct sm90_share sm90_find_share(const struct matmul_args &a, const struct gemm_place &p,
                                            unsigned char *ring, struct piece_offsets<S> *offsets)
{
    int thread = (int)threadIdx.x, unit = thread % 64;
    struct sm90_share share;
    share.chunk = thread / 64 % S::chunks;
    share.column = thread % 8 * 8;
    share.tokens = min((int)S::tokens, a.n - p.first_token) - thread / 8;
    share.w = (thread / (64 * S::chunks) % 2 ? p.w[1] : p.w[0]) + share.chunk * PACK_CHUNK +
              unit * 16;
    share.x = (const unsigned char *)((const bf16 *)a.x + share.column);
    share.w_to = ring + thread / 64 * PACK_CHUNK + sm90_w_offset(unit);
    share.x_to = ring + S::w_bytes + thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
#pragma unroll
    for (int i = 0; i < S::w_pieces; i++) {
        int u = thread / (64 * S::chunks) + i * (S::threads / (64 * S::chunks));
        offsets->from[i] = (uint32_t)(min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1) *
                                      p.n_chunks) *
                           PACK_CHUNK;
    }
#pragma unroll
    for (int i = 0; i < S::x_pieces; i++)
        offsets->from[S::w_pieces + i] =
            (uint32_t)((p.first_token + thread / 8 + i * (S::threads / 8)) * a.ldx) *
            (uint32_t)sizeof(bf16);
    return share;
}

/* Prefetches the thread's pieces first .. end-1 of stage q, if it exists, to the ring at offset
 * `to`. Without branches, across which the compiler would not keep MMAs in flight. */
template <class S>
EY_DEVICE void copy_pieces(const struct matmul_args &a, const struct gemm_place &p,
                           const struct sm90_share &share, const struct piece_offsets<S> &offsets,
                           int to, int q, int first, int end)
{
    enum { TOKENS_AT_ONCE = S::threads / 8 };
    bool wanted = q < sm90_stages(a), w_there = q * S::chunks + share.chunk < p.n_chunks,
         x_there = q * 64 + share.column < a.k;
    const unsigned char *w = share.w + (w_there ? (int64_t)q * (S::chunks * PACK_CHUNK) : 0),
                        *x = share.x + (x_there ? q * 128 : 0);
#pragma unroll
    for (int i = 0; i < S::pieces; i++) {
        int j = i - S::w_pieces;
        if (i < first || i >= end) continue;
        if (j < 0)
            copy_async_if(wanted, share.w_to + to + i * (S::threads / 64) * PACK_CHUNK,
                          w + offsets.from[i], w_there ? 16 : 0);
        else
            copy_async_if(wanted && j * TOKENS_AT_ONCE < share.tokens,
                          share.x_to + to + j * TOKENS_AT_ONCE * 128, x + offsets.from[i],
                          x_there ? 16 : 0);
    }
}

/* ---- shared → registers ---- */

/* A lane's loads of 16 rows for one step of 16 columns. FP8: raw[i] has two adjacent quantized
 * values, of rows 0..7 or (odd i) 8..15, and of the first 8 columns or (i >= 2) the next; columns
 * are in their natural order, as for the tokens. BF16: left operands. */
template <class S>
EY_DEVICE void sm90_load_step(uint32_t raw[4], const unsigned char *block, int step)
{
    int lane = lane_index();
    if (S::fp8) {
        const unsigned char *quantized = block + sm90_w_offset(lane / 4 * 4 + step) + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; i++)
            raw[i] = *(const uint16_t *)(quantized + i % 2 * (PACK_CHUNK / 2) + i / 2 * 8);
    } else {
        const unsigned char *half = block + step / 2 * PACK_CHUNK + lane / 8 % 2 * (PACK_CHUNK / 2);
        load_matrices(raw, half + sm90_w_offset(lane % 8 * 4 + lane / 16 + step % 2 * 2));
    }
}

/* Loads the operands of a group of steps from `step` on, of the stage at `from`. */
template <class S>
EY_DEVICE void load_group(uint32_t raw[S::at_once][S::m_tiles][4],
                          const unsigned char *const w[S::m_tiles], int from, int step)
{
#pragma unroll
    for (int i = 0; i < S::at_once; i++)
#pragma unroll
        for (int m = 0; m < S::m_tiles; m++)
            sm90_load_step<S>(raw[i][m], w[m] + from, step + i);
}

template <class S>
EY_DEVICE void sm90_left_operands(uint32_t left[4], uint32_t raw[4], uint32_t factor)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pin_register(raw[i]);
        left[i] = S::fp8 ? e4m3_widened<0>(raw[i], factor) : raw[i];
        pin_register(left[i]);
    }
}

/* ---- sums ---- */

template <class S> EY_DEVICE void pin_sums(float sum[S::m_tiles][S::n_tiles][4])
{
#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                pin_register(sum[m][j][e]);
}

template <class S> EY_DEVICE void finish_sums(float sum[S::m_tiles][S::n_tiles][4])
{
    wgmma_wait<0>();
    pin_sums<S>(sum);
}

template <class S> EY_DEVICE void sm90_rescale(float sum[S::m_tiles][S::n_tiles][4], float by)
{
#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[m][j][e] *= by;
    pin_sums<S>(sum);
}

/* Returns a warp's m-th block of 16 rows in the tile. */
template <class S> EY_DEVICE int sm90_row_block(int m)
{
    int warp = warp_index();
    return (warp / 4 * S::m_tiles + m) * 4 + warp % 4;
}

/* Runs a group of steps: makes its left operands from values loaded before, loads those of the next
 * group, and starts its MMAs, while those of the previous group are in flight. For a stage's last
 * group the next stage must have arrived; the previous stage's buffer is free then, and the
 * following groups prefetch a part of its new pieces each. */
template <class S>
EY_DEVICE void sm90_mainloop(float sum[S::m_tiles][S::n_tiles][4], const struct matmul_args &a,
                             const struct gemm_place &p, const struct sm90_share &share,
                             const struct piece_offsets<S> &offsets, const unsigned char *ring)
{
    int scale_blocks = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const unsigned char *w[S::m_tiles];
    const float *scale_row = NULL;
    struct running_scale scale = {1.f, 0.f, E4M3_FACTOR};
    uint32_t raw[S::at_once][S::m_tiles][4], left[4][S::m_tiles][4];
    int here = 0, to = 0,
        filling = sm90_stages(a); /* stages' offsets in bytes; the stage being prefetched */

#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
        w[m] = ring + sm90_row_block<S>(m) * S::chunks * PACK_CHUNK;
    if (S::fp8) { /* one row of scales: a warpgroup's rows of one matrix share their scale row */
        int block = p.first_block + (p.paired ? 0 : sm90_row_block<S>(0));
        scale_row = (warp_index() % 2 ? p.scale[1] : p.scale[0]) +
                    (int64_t)(min(block, p.blocks - 1) * PACK_ROWS / SCALE_BLOCK) * scale_blocks;
        scale.next = scale_at(scale_row, 0, scale_blocks);
    }
    copy_wait<S::stages - 2>();
    fence_shared();
    __syncthreads();
    load_group<S>(raw, w, 0, 0);
    for (int pair = 0; pair < scale_blocks; pair++) {
        if (S::fp8) {
            float by = next_block_scale(&scale);
            scale.next = scale_at(scale_row, pair + 1, scale_blocks);
            if (pair && by != 1.f) {
                finish_sums<S>(sum);
                sm90_rescale<S>(sum, by);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint64_t tokens = wgmma_operand(ring + here + S::w_bytes);
            const int next = here + S::stage_bytes == S::stages * S::stage_bytes
                                 ? 0
                                 : here + S::stage_bytes;
#pragma unroll
            for (int group = 0; group < S::groups; group++) {
                const int last = group == S::groups - 1, part = last ? 0 : group + 1,
                          first = group * S::at_once;
                if (last) {
                    copy_wait<S::stages - 3>();
                    fence_shared();
                    __syncthreads();
                    filling = 2 * pair + half + S::stages - 1;
                    to = (here ? here : S::stages * S::stage_bytes) - S::stage_bytes;
                }
#pragma unroll
                for (int i = 0; i < S::at_once * S::m_tiles; i++)
                    sm90_left_operands<S>(left[first + i / S::m_tiles][i % S::m_tiles],
                                          raw[i / S::m_tiles][i % S::m_tiles], scale.factor);
                load_group<S>(raw, w, last ? next : here, last ? 0 : first + S::at_once);
                wgmma_begin();
#pragma unroll
                for (int step = first; step < first + S::at_once; step++)
#pragma unroll
                    for (int m = 0; m < S::m_tiles; m++)
                        wgmma(sum[m], left[step][m], wgmma_further(tokens, step),
                              pair || half || step);
                wgmma_commit();
                wgmma_wait<1>(); /* exactly here: otherwise the compiler would keep nothing in
                                    flight */
                copy_pieces<S>(a, p, share, offsets, to, filling, part * S::pieces / S::groups,
                               (part + 1) * S::pieces / S::groups);
                if (group == S::groups - 2) copy_commit();
            }
            here = next;
        }
    }
    finish_sums<S>(sum);
    if (S::fp8) sm90_rescale<S>(sum, scale.current);
}

/* Stores sums transposed: a token's rows become adjacent. */
template <class S>
EY_DEVICE void stage_sums(float *staged, const float sum[S::m_tiles][S::n_tiles][4])
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                staged[(8 * j + 2 * t + e % 2) * S::staged_row + 16 * sm90_row_block<S>(m) + g +
                       e / 2 * 8] = sum[m][j][e];
}

template <class S> EY_DEVICE void gemm_sm90(const struct matmul_args &a, unsigned char *shared)
{
    const struct gemm_place p = gemm_place_of<S>(a, (int)blockIdx.x);
    float sum[S::m_tiles][S::n_tiles][4];
    struct piece_offsets<S> offsets;
    const struct sm90_share share = sm90_find_share<S>(a, p, shared, &offsets);

    let_next_start();
    /* the weights of the first stages are loaded before the kernel that makes x has ended */
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++)
        copy_pieces<S>(a, p, share, offsets, i * S::stage_bytes, i, 0, S::w_pieces);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) {
        copy_pieces<S>(a, p, share, offsets, i * S::stage_bytes, i, S::w_pieces, S::pieces);
        copy_commit();
    }
    sm90_mainloop<S>(sum, a, p, share, offsets, shared);
    copy_wait<0>();
    __syncthreads();
    stage_sums<S>((float *)shared, sum);
    __syncthreads();
    const struct gemm_staged s = {(float *)shared, 1, p.first_block * PACK_ROWS, p.first_token,
                                  S::tokens};
    write_staged<S>(a, p, s, (int)threadIdx.x, S::threads);
}

#define GEMM_SM90_KERNELS(name, m, n)                                                 \
    EY_KERNEL(gemm_sm90_fp8_##name, struct matmul_args, GEMM_SM90_THREADS, 1)         \
    {                                                                                 \
        EY_DYNAMIC_SHARED_1024(memory);                                               \
        gemm_sm90<sm90_shape<K_FP8, m, n, EY_GEMM_SM90_STAGES(m, n, 1)>>(a, memory);  \
    }                                                                                 \
    EY_KERNEL(gemm_sm90_bf16_##name, struct matmul_args, GEMM_SM90_THREADS, 1)        \
    {                                                                                 \
        EY_DYNAMIC_SHARED_1024(memory);                                               \
        gemm_sm90<sm90_shape<K_BF16, m, n, EY_GEMM_SM90_STAGES(m, n, 0)>>(a, memory); \
    }
EY_GEMM_SM90_TILES(GEMM_SM90_KERNELS)
