/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM (many tokens), on the matrix units: y[n, rows] = x[n, k] · wᵀ, w packed FP8 or BF16, x BF16.
 *
 * Weights are the left operand (16 rows), tokens the right one (8 columns). w and x come through a
 * ring of stages in shared memory, each one chunk of 64 bytes of w's columns. The kernel processes
 * two steps of the matrix unit (32 columns), a `pair`, at a time: FP8 chunks have two pairs, BF16
 * chunks one. The tile shapes are in gemm_launch.h. */
#include "kernels/cuda/matmul/gemm_common.cuh"

template <int dtype_, int row_warps, int token_warps, int k_warps_, int m_tiles_, int n_tiles_,
          int stages_>
struct gemm_shape {
    enum {
        fp8 = dtype_ == K_FP8,
        k_warps = k_warps_,
        m_tiles = m_tiles_,
        n_tiles = n_tiles_,
        stages = stages_,
        warp_rows = 16 * m_tiles,
        warp_tokens = 8 * n_tiles,
        rows_across = row_warps,              /* warps side by side along w's rows */
        group = 32 * row_warps * token_warps, /* threads that share a ring */
        rows = warp_rows * row_warps,
        tokens = warp_tokens * token_warps,
        pairs = dtype_ == K_FP8 ? 2 : 1,
        x_units = 4 * pairs, /* of 16 bytes, in a token's part of a stage */
        chunk_columns = 32 * pairs,
        w_bytes = rows / PACK_ROWS * PACK_CHUNK,
        stage_bytes = w_bytes + tokens * x_units * 16,
        /* a token's row in the staging of results: 4 floats more than needed spread the banks */
        staged_row = warp_rows + 4,
        adds_in_memory = 0,
        staged_tokens = k_warps_ == 1 ? 32 : warp_tokens,
    };
};

/* ---- a stage in shared memory ----
 *
 * FP8: a lane takes the 16 bytes of consecutive columns that are its own in a packed chunk, and
 * converts them. The matrix unit does not mind in which order columns are summed up as long as both
 * operands have the same: step j of the chunk is columns 16t + 4j .. + 3 of each lane 4g + t, and
 * 16 bytes of a token serve two steps. BF16: both operands go through load_matrices, columns in
 * their natural order, because a left operand has to lie in neighboring registers.
 *
 * 16-byte units are swapped within their row so that the 8 lanes that read at the same time meet 8
 * different groups of banks. */
template <class S> EY_DEVICE int gemm_w_offset(int unit)
{
    return (S::fp8 ? unit : (unit & ~3) | ((unit ^ unit >> 3) & 3)) * 16;
}

template <class S> EY_DEVICE int x_offset(int token, int unit)
{
    return S::w_bytes + (token * S::x_units + (unit ^ (S::fp8 ? token & 1 : token >> 1 & 3))) * 16;
}

/* ---- global → shared ---- */

/* A thread's part of each stage. Row blocks beyond the last repeat it; their results are never
 * stored. Columns beyond the last must be zeros. Tokens beyond the last are zeros, too: if they
 * repeated the last token, all their loads would queue for its lines. */
struct gemm_share {
    const uint8_t *
        w[2]; /* its bytes of the matrices' first chunk; a thread of a large group uses only w[0] */
    const bf16 *x; /* its columns of x's first row */
};

/* Return the row block, and the unit in its chunk, of the thread's i-th unit of a stage's
 * weights. */
template <class S> EY_DEVICE int share_block(int thread, int i)
{
    return S::group == 32 ? i / 2 : thread / 64 + i * (S::group / 64);
}

template <class S> EY_DEVICE int share_unit(int thread, int i)
{
    return S::group == 32 ? thread + i % 2 * 32 : thread % 64;
}

template <class S>
EY_DEVICE struct gemm_share gemm_find_share(const struct matmul_args &a, const struct gemm_place &p,
                                            int thread)
{
    struct gemm_share share;
    int odd = S::group != 32 &&
              thread / 64 % 2; /* parity of its blocks, which selects the matrix */
    share.w[0] = (odd ? p.w[1] : p.w[0]) + share_unit<S>(thread, 0) * 16;
    share.w[1] = p.w[1] + share_unit<S>(thread, 0) * 16;
    share.x = (const bf16 *)a.x + thread % S::x_units * 8;
    return share;
}

template <class S>
EY_DEVICE void gemm_copy_weights(const struct gemm_place &p, const struct gemm_share &share,
                                 unsigned char *stage, int chunk, int thread)
{
#pragma unroll
    for (int i = 0; i < S::w_bytes / 16 / S::group; i++) {
        int u = share_block<S>(thread, i), unit = share_unit<S>(thread, i);
        int block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        const uint8_t *w = S::group == 32 && i / 2 % 2 ? share.w[1] : share.w[0];
        if (S::group == 32) w += i % 2 * 512;
        copy_async(stage + u * PACK_CHUNK + gemm_w_offset<S>(unit),
                   w + (int64_t)(block * p.n_chunks + chunk) * PACK_CHUNK, 16);
    }
}

template <class S>
EY_DEVICE void gemm_copy_x(const struct matmul_args &a, const struct gemm_place &p,
                           const struct gemm_share &share, unsigned char *stage, int chunk,
                           int thread)
{
    int column = chunk * S::chunk_columns, there = column + thread % S::x_units * 8 < a.k;
#pragma unroll
    for (int i = 0; i < S::tokens * S::x_units / S::group; i++) {
        int token = thread / S::x_units + i * (S::group / S::x_units);
        const bf16 *x = share.x + (int64_t)((p.first_token + token) * a.ldx + column);
        int wanted = there && p.first_token + token < a.n;
        copy_async(stage + x_offset<S>(token, thread % S::x_units), wanted ? x : share.x,
                   wanted ? 16 : 0);
    }
}

/* Returns a group's i-th chunk: groups take blocks of two chunks in turns, so that 128 columns of
 * one scale stay together. */
template <class S> EY_DEVICE int gemm_chunk(int i, int group)
{
    return S::k_warps == 1 ? i : (i / 2 * S::k_warps + group) * 2 + i % 2;
}

template <class S> EY_DEVICE int gemm_chunk_count(int n_chunks, int group)
{
    int turns, rest;
    if (S::k_warps == 1) return n_chunks;
    turns = n_chunks / (2 * S::k_warps);
    rest = n_chunks - turns * 2 * S::k_warps - 2 * group;
    return 2 * turns + max(0, min(2, rest));
}

template <class S> EY_DEVICE void group_sync(void)
{
    if (S::group == 32)
        __syncwarp();
    else
        __syncthreads();
}

/* ---- shared → registers ---- */

/* Weights of 16 rows for two steps of the matrix unit. FP8: the lane's quantized values in rows
 * 0..7, then rows 8..15. BF16: the operands themselves. */
struct two_steps {
    uint32_t v[2][4];
};

template <class S>
EY_DEVICE void load_weights(struct two_steps *w, const unsigned char *chunk, int pair)
{
    int lane = lane_index();
    if (S::fp8) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint2 quantized = *(const uint2 *)(chunk + half * (PACK_CHUNK / 2) + lane * 16 +
                                               pair * 8);
            w->v[half][0] = quantized.x;
            w->v[half][1] = quantized.y;
        }
    } else { /* matrices: rows 0..7 and 8..15 of the first 8 columns, then of the next 8 */
        int unit = lane % 8 * 4 + lane / 16;
        const unsigned char *half = chunk + lane / 8 % 2 * (PACK_CHUNK / 2);
        load_matrices(w->v[0], half + gemm_w_offset<S>(unit));
        load_matrices(w->v[1], half + gemm_w_offset<S>(unit + 2));
    }
}

template <class S>
EY_DEVICE void gemm_left_operands(uint32_t a[2][4], const struct two_steps &w, uint32_t factor)
{
#pragma unroll
    for (int step = 0; step < 2; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (S::fp8)
                a[step][i] = i < 2 ? e4m3_widened<0>(w.v[i][step], factor)
                                   : e4m3_widened<1>(w.v[i - 2][step], factor);
            else
                a[step][i] = w.v[step][i];
        }
}

/* Loads the right operands of 8 tokens for two steps: words 0, 1 and words 2, 3. */
template <class S>
EY_DEVICE void load_tokens(uint32_t x[4], const unsigned char *stage, int first_token, int pair)
{
    int lane = lane_index();
    if (S::fp8) {
        uint4 v = *(const uint4 *)(stage +
                                   x_offset<S>(first_token + lane / 4, lane % 4 * 2 + pair));
        x[0] = v.x;
        x[1] = v.y;
        x[2] = v.z;
        x[3] = v.w;
    } else
        load_matrices(x, stage + x_offset<S>(first_token + lane % 8, lane / 8));
}

/* ---- the sums of one warp ---- */

/* The ring of a group of threads and its state. */
struct gemm_ring {
    unsigned char *memory;
    struct gemm_share share;
    int thread, group; /* index of the thread in its group; index of the group */
    int chunks;        /* the group's */
    int filled;        /* chunks prefetched so far */
};

/* Prefetches the group's next chunk into the free stage. Commits a group of copies each time, even
 * an empty one, because waits count groups. */
template <class S>
EY_DEVICE void fill_next(const struct matmul_args &a, const struct gemm_place &p,
                         struct gemm_ring *ring, int stage)
{
    if (ring->filled < ring->chunks) {
        int chunk = gemm_chunk<S>(ring->filled, ring->group);
        gemm_copy_weights<S>(p, ring->share, ring->memory + stage * S::stage_bytes, chunk,
                             ring->thread);
        gemm_copy_x<S>(a, p, ring->share, ring->memory + stage * S::stage_bytes, chunk,
                       ring->thread);
    }
    ring->filled++;
    copy_commit();
}

/* Prefetches the first stages. Weights are loaded before the kernel that makes x has ended. */
template <class S>
EY_DEVICE void fill_first(const struct matmul_args &a, const struct gemm_place &p,
                          struct gemm_ring *ring)
{
#pragma unroll
    for (int i = 0; i < S::stages; i++)
        if (i < ring->chunks)
            gemm_copy_weights<S>(p, ring->share, ring->memory + i * S::stage_bytes,
                                 gemm_chunk<S>(i, ring->group), ring->thread);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages; i++) {
        if (i < ring->chunks)
            gemm_copy_x<S>(a, p, ring->share, ring->memory + i * S::stage_bytes,
                           gemm_chunk<S>(i, ring->group), ring->thread);
        copy_commit();
    }
    ring->filled = S::stages;
}

/* A warp without rows or tokens of its own still loads its part. */
template <class S>
EY_DEVICE void only_fill(const struct matmul_args &a, const struct gemm_place &p,
                         struct gemm_ring *ring)
{
    int stage = 0;
    copy_wait<S::stages - 1>();
    group_sync<S>();
    for (int i = 0; i < ring->chunks; i++) {
        copy_wait<S::stages - 2>();
        group_sync<S>();
        fill_next<S>(a, p, ring, stage);
        stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
}

template <class S>
EY_DEVICE void gemm_rescale(float sum[S::m_tiles][S::n_tiles][4], const float by[2])
{
#pragma unroll
    for (int i = 0; i < S::m_tiles; i++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i][j][e] *= by[i & 1];
}

template <class S>
EY_DEVICE void gemm_mainloop(float sum[S::m_tiles][S::n_tiles][4], const struct matmul_args &a,
                             const struct gemm_place &p, struct gemm_ring *ring, int row_warp,
                             int token_warp)
{
    int token = token_warp * S::warp_tokens;
    int scale_blocks = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const unsigned char *w_of_warp = ring->memory + row_warp * S::m_tiles * PACK_CHUNK;
    const float *scale_row[2];
    struct running_scale scale[2];
    struct two_steps w[2]; /* one block of rows ahead */
    uint32_t x[S::n_tiles][4];
    int stage = 0;

    for (int m = 0; S::fp8 && m < 2; m++) {
        int block = p.first_block + row_warp * S::m_tiles / (p.paired ? 2 : 1);
        scale_row[m] = p.scale[m] + (int64_t)(block * PACK_ROWS / SCALE_BLOCK) * scale_blocks;
        scale[m].current = 1;
        scale[m].next = scale_at(scale_row[m], gemm_chunk<S>(0, ring->group) / 2, scale_blocks);
    }
    copy_wait<S::stages - 1>();
    group_sync<S>();
#pragma unroll
    for (int j = 0; j < S::n_tiles; j++)
        load_tokens<S>(x[j], ring->memory, token + 8 * j, 0);
    load_weights<S>(&w[0], w_of_warp, 0);

    for (int q = 0; q < ring->chunks; q++) {
        int next_stage = stage + 1 == S::stages ? 0 : stage + 1;
        const unsigned char *here = ring->memory + stage * S::stage_bytes,
                            *next = ring->memory + next_stage * S::stage_bytes;
        const unsigned char *w_here = w_of_warp + stage * S::stage_bytes,
                            *w_next = w_of_warp + next_stage * S::stage_bytes;
        if (S::fp8 && q % 2 == 0) {
            float by[2];
            for (int m = 0; m < 2; m++) {
                by[m] = next_block_scale(&scale[m]);
                scale[m].next = scale_at(scale_row[m], gemm_chunk<S>(q + 2, ring->group) / 2,
                                         scale_blocks);
            }
            if (q && (by[0] != 1.f || by[1] != 1.f)) gemm_rescale<S>(sum, by);
        }
#pragma unroll
        for (int pair = 0; pair < S::pairs; pair++) {
#pragma unroll
            for (int i = 0; i < S::m_tiles; i++) {
                const int last_block = i == S::m_tiles - 1,
                          last = last_block && pair == S::pairs - 1;
                uint32_t left[2][4];
                gemm_left_operands<S>(left, w[i % 2], S::fp8 ? scale[i % 2].factor : 0);
                if (last) { /* all of this stage is in registers: wait for the next one, and free
                               this one */
                    copy_wait<S::stages - 2>();
                    group_sync<S>();
                }
                load_weights<S>(&w[(i + 1) % 2],
                                last ? w_next : w_here + (i + 1) % S::m_tiles * PACK_CHUNK,
                                (pair + last_block) % S::pairs);
#pragma unroll
                for (int j = 0; j < S::n_tiles; j++)
                    mma_bf16(sum[i][j], left[0], x[j][0], x[j][1]);
#pragma unroll
                for (int j = 0; j < S::n_tiles; j++) {
                    mma_bf16(sum[i][j], left[1], x[j][2], x[j][3]);
                    if (last_block)
                        load_tokens<S>(x[j], last ? next : here, token + 8 * j,
                                       (pair + 1) % S::pairs);
                }
            }
        }
        fill_next<S>(a, p, ring, stage);
        stage = next_stage;
    }
    if (S::fp8) {
        const float by[2] = {scale[0].current, scale[1].current};
        gemm_rescale<S>(sum, by);
    }
}

/* ---- all ---- */

template <class S> EY_DEVICE void gemm(const struct matmul_args &a, unsigned char *shared)
{
    const struct gemm_place p = gemm_place_of<S>(a, (int)blockIdx.x);
    int warp = warp_index(), in_group = warp % (S::group / 32),
        row_warp = in_group % S::rows_across, token_warp = in_group / S::rows_across;
    int block_of_warp = p.first_block + row_warp * S::m_tiles / (p.paired ? 2 : 1);
    int first_token = p.first_token + token_warp * S::warp_tokens;
    struct gemm_ring ring;
    float sum[S::m_tiles][S::n_tiles][4];

    let_next_start();
    ring.group = S::k_warps == 1 ? 0 : warp;
    ring.thread = (int)threadIdx.x % S::group;
    ring.share = gemm_find_share<S>(a, p, ring.thread);
    ring.memory = shared + ring.group * (S::stages * S::stage_bytes);
    ring.chunks = gemm_chunk_count<S>(p.n_chunks, ring.group);
    fill_first<S>(a, p, &ring);
    clear_sums<S>(sum);
    if (block_of_warp < p.blocks && first_token < a.n)
        gemm_mainloop<S>(sum, a, p, &ring, row_warp, token_warp);
    else
        only_fill<S>(a, p, &ring);

    copy_wait<0>();
    __syncthreads();
    if (S::k_warps == 1) {
        write_warp<S>(a, p, sum, (float *)shared, block_of_warp, first_token);
    } else {
        float *staged = (float *)shared;
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
            stage_tokens<S>(staged + (warp * S::warp_tokens + 8 * j) * S::staged_row, sum, j);
        __syncthreads();
        const struct gemm_staged s = {staged, S::k_warps, p.first_block * PACK_ROWS, p.first_token,
                                      S::warp_tokens};
        write_staged<S>(a, p, s, (int)threadIdx.x, 32 * S::k_warps);
    }
}

#define GEMM_KERNELS(name, rw, tw, kw, m, n, stages_fp8, stages_bf16, blocks)        \
    EY_KERNEL(gemm_fp8_##name, struct matmul_args, 32 * (rw) * (tw) * (kw), blocks)  \
    {                                                                                \
        EY_DYNAMIC_SHARED(shared);                                                   \
        gemm<gemm_shape<K_FP8, rw, tw, kw, m, n, stages_fp8>>(a, shared);            \
    }                                                                                \
    EY_KERNEL(gemm_bf16_##name, struct matmul_args, 32 * (rw) * (tw) * (kw), blocks) \
    {                                                                                \
        EY_DYNAMIC_SHARED(shared);                                                   \
        gemm<gemm_shape<K_BF16, rw, tw, kw, m, n, stages_bf16>>(a, shared);          \
    }
EY_GEMM_TILES(GEMM_KERNELS)
