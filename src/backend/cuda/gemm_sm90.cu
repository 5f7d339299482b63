/* Matrix products of many tokens on cards of compute capability 9.0, whose matrix unit gives its full rate to warpgroups alone (wgmma.cuh).
 *
 * A tile is 128 or 256 rows of w, half of them each of two warpgroups, and up to 256 tokens. Weights are the left operand, from registers, so
 * that FP8 can be converted on the way; tokens are the right one, from shared memory. Both come through a ring of stages of 64 columns
 * each. While the matrix unit works on one stage the warps convert the weights of the next, hence two sets of left operands. */
#include "backend/cuda/gemm.cuh"
#include "backend/cuda/wgmma.cuh"

template <int dtype_, int m_tiles_, int n_tiles_, int stages_> struct wide_shape {
    enum {
        fp8 = dtype_ == K_FP8,
        m_tiles = m_tiles_, /* of 64 rows, of a warpgroup */
        n_tiles = n_tiles_,
        stages = stages_,
        threads = GEMM_WIDE_THREADS,
        rows = 128 * m_tiles,
        tokens = 8 * n_tiles,
        chunks = fp8 ? 1 : 2, /* packed ones, side by side in a stage */
        w_bytes = rows / PACK_ROWS * chunks * PACK_CHUNK,
        stage_bytes = w_bytes + tokens * 128,
        /* results are staged all at once */
        warp_rows = rows,
        warp_tokens = tokens,
        staged_row = rows + 4,
    };
};

/* ---- a stage in shared memory ----
 *
 * Weights: blocks of 16 rows, gate and up in turns, each of `chunks` packed chunks; in a chunk 16-byte units are swapped so that those that are
 * read at the same time meet different banks. Tokens: as wgmma.cuh wants them. */
EY_DEVICE int w_unit_offset(int unit)
{
    return ((unit & ~3) | ((unit ^ unit >> 3) & 3)) * 16;
}

/* Blocks of rows and tokens beyond the last are the last once more: what comes of them is never stored. Columns beyond the last are zeros. */
template <class S> EY_DEVICE void copy_weights(const struct gemm_place &p, unsigned char *stage, int q)
{
    int thread = (int)threadIdx.x, unit = thread % 64, chunk = q * S::chunks + thread / 64 % S::chunks;
    int there = chunk < p.n_chunks;
    const uint8_t *w = (thread / (64 * S::chunks) % 2 ? p.w[1] : p.w[0]) + (int64_t)(there ? chunk : 0) * PACK_CHUNK + unit * 16;
#pragma unroll
    for (int i = 0; i < S::w_bytes / 16 / S::threads; i++) {
        int u = thread / (64 * S::chunks) + i * (S::threads / (64 * S::chunks));
        int block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        copy_async(stage + (thread / 64 + i * (S::threads / 64)) * PACK_CHUNK + w_unit_offset(unit), w + (int64_t)(block * p.n_chunks) * PACK_CHUNK,
                   there ? 16 : 0);
    }
}

template <class S> EY_DEVICE void copy_tokens(const struct linear_args &a, const struct gemm_place &p, unsigned char *stage, int q)
{
    int thread = (int)threadIdx.x, unit = thread % 8, column = q * 64 + unit * 8, there = column < a.k;
    const bf16 *x = (const bf16 *)a.x + (there ? column : 0);
#pragma unroll
    for (int i = 0; i < (S::tokens + S::threads / 8 - 1) / (S::threads / 8); i++) {
        int token = thread / 8 + i * (S::threads / 8);
        if (S::tokens % (S::threads / 8) && token >= S::tokens) break;
        copy_async(stage + S::w_bytes + token * 128 + (unit ^ token % 8) * 16, x + (int64_t)min(p.first_token + token, a.n - 1) * a.ldx, there ? 16 : 0);
    }
}

/* ---- shared → registers ---- */

/* The left operands of 16 rows for a stage's four steps. */
template <class S> EY_DEVICE void left_operands(uint32_t left[4][4], const unsigned char *block, uint32_t factor)
{
    int lane = lane_index(), g = lane / 4, t = lane % 4;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        if (S::fp8) { /* two neighbouring codes at a time: columns in their natural order, as the tokens have them */
            const unsigned char *codes = block + w_unit_offset(4 * g + step) + 2 * t;
#pragma unroll
            for (int i = 0; i < 4; i++)
                left[step][i] = e4m3_widened<0>(*(const uint16_t *)(codes + i % 2 * (PACK_CHUNK / 2) + i / 2 * 8), factor);
        } else { /* matrices: rows 0..7 and 8..15 of the first 8 columns, then of the next 8 */
            const unsigned char *half = block + step / 2 * PACK_CHUNK + lane / 8 % 2 * (PACK_CHUNK / 2);
            load_matrices(left[step], half + w_unit_offset(lane % 8 * 4 + lane / 16 + step % 2 * 2));
        }
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
            for (int e = 0; e < 4; e++) pin(sum[m][j][e]);
}

template <class S> EY_DEVICE void finish_sums(float sum[S::m_tiles][S::n_tiles][4])
{
    wgmma_wait<0>();
    pin_sums<S>(sum);
}

template <class S> EY_DEVICE void rescale(float sum[S::m_tiles][S::n_tiles][4], float by)
{
#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[m][j][e] *= by;
    pin_sums<S>(sum);
}

/* A warp's m-th block of 16 rows in the tile. */
template <class S> EY_DEVICE int block_of(int m)
{
    int warp = warp_index();
    return (warp / 4 * S::m_tiles + m) * 4 + warp % 4;
}

template <class S> EY_DEVICE void multiply(float sum[S::m_tiles][S::n_tiles][4], const struct linear_args &a, const struct gemm_place &p, unsigned char *ring)
{
    int scale_blocks = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const float *scale_row = NULL;
    struct unit_scale scale = {1.f, 0.f, E4M3_FACTOR};
    uint32_t left[2][S::m_tiles][4][4];
    int stage = 0, free_stage = S::stages - 2;

    if (S::fp8) { /* one row of scales: a warpgroup's rows of one matrix are never of two */
        int block = p.first_block + (p.paired ? 0 : block_of<S>(0));
        scale_row = (warp_index() % 2 ? p.scale[1] : p.scale[0]) + (int64_t)(min(block, p.blocks - 1) * PACK_ROWS / SCALE_BLOCK) * scale_blocks;
        scale.next = scale_at(scale_row, 0, scale_blocks);
    }
    for (int pair = 0; pair < scale_blocks; pair++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned char *here = ring + stage * S::stage_bytes;
            copy_wait<S::stages - 3>();
            fence_shared();
            __syncthreads(); /* this stage has come, and all are done with the one before the last */
            if (2 * pair + half + S::stages - 2 < 2 * scale_blocks) {
                copy_weights<S>(p, ring + free_stage * S::stage_bytes, 2 * pair + half + S::stages - 2);
                copy_tokens<S>(a, p, ring + free_stage * S::stage_bytes, 2 * pair + half + S::stages - 2);
            }
            copy_commit();
            if (S::fp8 && half == 0) {
                float by = next_unit(&scale);
                scale.next = scale_at(scale_row, pair + 1, scale_blocks);
                if (pair && by != 1.f) {
                    finish_sums<S>(sum);
                    rescale<S>(sum, by);
                }
            }
#pragma unroll
            for (int m = 0; m < S::m_tiles; m++) left_operands<S>(left[half][m], here + block_of<S>(m) * S::chunks * PACK_CHUNK, scale.factor);
#pragma unroll
            for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
                for (int i = 0; i < 16; i++) pin(left[half][m][i / 4][i % 4]);
            wgmma_begin();
#pragma unroll
            for (int step = 0; step < 4; step++)
#pragma unroll
                for (int m = 0; m < S::m_tiles; m++) wgmma(sum[m], left[half][m][step], wgmma_operand(here + S::w_bytes + step * 32), pair || half || step);
            wgmma_commit();
            wgmma_wait<1>();
            stage = stage + 1 == S::stages ? 0 : stage + 1;
            free_stage = free_stage + 1 == S::stages ? 0 : free_stage + 1;
        }
    }
    finish_sums<S>(sum);
    if (S::fp8) rescale<S>(sum, scale.unit);
}

/* Turned: a token's rows become neighbours. */
template <class S> EY_DEVICE void stage_sums(float *staged, const float sum[S::m_tiles][S::n_tiles][4])
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int m = 0; m < S::m_tiles; m++)
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) staged[(8 * j + 2 * t + e % 2) * S::staged_row + 16 * block_of<S>(m) + g + e / 2 * 8] = sum[m][j][e];
}

template <class S> EY_DEVICE void gemm_wide(const struct linear_args &a, unsigned char *shared)
{
    const struct gemm_place p = gemm_place_of<S>(a, (int)blockIdx.x);
    int n_stages = 2 * ((a.k + SCALE_BLOCK - 1) / SCALE_BLOCK);
    float sum[S::m_tiles][S::n_tiles][4];

    let_next_start();
    /* the first stages: their weights before the kernel that makes x has ended */
#pragma unroll
    for (int i = 0; i < S::stages - 2; i++)
        if (i < n_stages) copy_weights<S>(p, shared + i * S::stage_bytes, i);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages - 2; i++) {
        if (i < n_stages) copy_tokens<S>(a, p, shared + i * S::stage_bytes, i);
        copy_commit();
    }
    multiply<S>(sum, a, p, shared);
    copy_wait<0>();
    __syncthreads();
    stage_sums<S>((float *)shared, sum);
    __syncthreads();
    const struct gemm_staged s = {(float *)shared, 1, p.first_block * PACK_ROWS, p.first_token, S::tokens};
    write_staged<S>(a, p, s, (int)threadIdx.x, S::threads);
}

#define GEMM_WIDE_KERNELS(name, m, n) \
    EY_KERNEL(gemm_sm90_fp8_##name, struct linear_args, GEMM_WIDE_THREADS, 1) \
    { \
        EY_DYNAMIC_SHARED_1024(wide); \
        gemm_wide<wide_shape<K_FP8, m, n, EY_GEMM_WIDE_STAGES(m, n, 1)>>(a, wide); \
    } \
    EY_KERNEL(gemm_sm90_bf16_##name, struct linear_args, GEMM_WIDE_THREADS, 1) \
    { \
        EY_DYNAMIC_SHARED_1024(wide); \
        gemm_wide<wide_shape<K_BF16, m, n, EY_GEMM_WIDE_STAGES(m, n, 0)>>(a, wide); \
    }
EY_GEMM_WIDE_TILES(GEMM_WIDE_KERNELS)
