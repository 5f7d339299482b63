/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of up to 64 rows of x with matrices of GGUF types. They work like matmul_small.cu for
 * int4: x is arranged as for int4, and weights become float16 in registers. Codes do so exactly;
 * scale and minimum are rounded, and so is code · scale + minimum. A power of two, one per matrix,
 * keeps weights within float16; the sums are divided by it. */
#include "kernels/cuda/matmul/matmul_small_gguf_launch.h"
#include "kernels/cuda/common/gguf_unit.cuh"
#include "kernels/cuda/matmul/matmul_small_join.cuh"

template <int DTYPE, int TOKENS> struct small_gguf_shape {
    typedef struct gguf_form<DTYPE> form;
    enum {
        dtype = DTYPE,
        fp8 = 0,
        threads = SMALL_THREADS,
        rows = SMALL_TILE,
        tokens = TOKENS,
        warp_rows = SMALL_TILE,
        warp_tokens = TOKENS,
        m_tiles = 2,
        n_tiles = TOKENS / 8,
        staged_row = SMALL_STAGED_ROW,
        adds_in_memory = 1,
        blocks = SMALL_TILE / PACK_ROWS,
        block_bytes = (int)form::chunk_bytes + PACK_ROWS * (int)form::d_bytes,
        units = block_bytes / 16,
        pieces = blocks * units, /* 16-byte pieces of a stage's weights */
        thread_pieces = (pieces + SMALL_THREADS - 1) / SMALL_THREADS,
        w_bytes = blocks * block_bytes,
        x_bytes = TOKENS * GGUF_CHUNK_COLUMNS * 2,
        stage_bytes = w_bytes + x_bytes,
        stages = SMALL_GGUF_STAGES(block_bytes, TOKENS),
    };
    static_assert((int)SMALL_HALVES * TOKENS * SMALL_STAGED_ROW * 4 <= stages * stage_bytes,
                  "sums reuse the memory of the stages");
};

/* A thread's part of each stage: pieces of codes and scales, which are in chunks, and of d, which
 * follows a record's chunks. */
template <class S> struct small_gguf_share {
    const uint8_t *w[S::thread_pieces], *x;
};

template <class S>
EY_DEVICE void small_gguf_find_share(struct small_gguf_share<S> &s,
                                     const struct small_matmul_args &a, const struct gemm_place &p)
{
    typedef typename S::form form;
    const int64_t row_block_bytes = (int64_t)gguf_records(S::dtype, a.matmul.k) *
                                    form::record_bytes;
#pragma unroll
    for (int i = 0; i < S::thread_pieces; i++) {
        const int piece = min((int)threadIdx.x + i * SMALL_THREADS, (int)S::pieces - 1),
                  u = piece / S::units, at = piece % S::units * 16, /* gate and up alternate */
            block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        s.w[i] = p.w[u % 2] + block * row_block_bytes +
                 (at < form::chunk_bytes ? at : at + (form::chunks - 1) * form::chunk_bytes);
    }
    s.x = (const uint8_t *)a.matmul.x + (int)threadIdx.x * 16;
}

template <class S>
EY_DEVICE void small_gguf_copy_weights(const struct small_gguf_share<S> &s, unsigned char *stage,
                                       int chunk)
{
    typedef typename S::form form;
    const int64_t record = (int64_t)(chunk / form::chunks) * form::record_bytes;
    const int in_record = chunk % form::chunks * form::chunk_bytes;
#pragma unroll
    for (int i = 0; i < S::thread_pieces; i++) {
        const int piece = (int)threadIdx.x + i * SMALL_THREADS;
        if (piece >= S::pieces) continue;
        copy_async(stage + piece * 16,
                   s.w[i] + record + (piece % S::units * 16 < form::chunk_bytes ? in_record : 0),
                   16);
    }
}

/* ---- weights ---- */

/* Scale and minimum of 16 columns of a row as pairs of float16. */
struct small_gguf_scale {
    uint32_t times, plus;
};

/* A lane's code words and scales of half of a unit's columns, of rows g and g + 8. */
template <class S> struct small_gguf_weights {
    uint2 words[2][2];
    struct small_gguf_scale scale[2];
};

template <class S>
EY_DEVICE void small_gguf_read(struct small_gguf_weights<S> &w, const unsigned char *block,
                               float factor)
{
    typedef typename S::form form;
    const int lane = lane_index(), part = warp_index() % SMALL_HALVES;
    const unsigned char *scales = block + form::scales_at + lane * (2 * form::scale_bytes),
                        *d_at = block + form::chunk_bytes + lane / 4 * (2 * form::d_bytes);
    uint32_t scale[2] = {0, 0}, d[2] = {0, 0};
    scale[0] = form::scale_bytes == 1 ? *(const uint16_t *)scales : *(const uint32_t *)scales;
    if (form::scale_bytes == 4) scale[1] = *(const uint32_t *)(scales + 4);
    if (form::d_bytes > 0) d[0] = *(const uint32_t *)d_at;
    if (form::d_bytes == 4) d[1] = *(const uint32_t *)(d_at + 4);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned char *low = block + half * (PACK_CHUNK / 2) + lane * 16;
        uint4 v = make_uint4(0, 0, 0, 0);
        uint32_t high = 0;
        if (form::parts == 2) {
            v = *(const uint4 *)(low + part * PACK_CHUNK);
        } else {
            const uint2 two = *(const uint2 *)(low + part * 8);
            v = make_uint4(two.x, 0, two.y, 0);
        }
        if (form::bits == 5)
            high = *(const uint32_t *)(block + form::high_at + lane * 8 + half * 4) >> (part * 4);
        if (form::bits == 6)
            high = *(const uint32_t *)(block + form::high_at + lane * 16 + half * 8 + part * 4);
        w.words[half][0] = gguf_code_words<S::dtype>(v.x, v.y, high, 0);
        w.words[half][1] = gguf_code_words<S::dtype>(v.z, v.w, high, 1);
        const struct gguf_factors s = gguf_unit_scales<S::dtype>(scale, d, half);
        const float times = (part ? s.times[1] : s.times[0]) * factor,
                    plus = (part ? s.plus[1] : s.plus[0]) * factor;
        w.scale[half].times = f16_pair(times, times);
        w.scale[half].plus = f16_pair(plus, plus);
    }
}

/* Converts columns i and i + 4 of eight. 1024 + v is a float16 whose last bits are v. */
template <class S>
EY_DEVICE uint32_t small_gguf_pair(uint2 words, int i, const struct small_gguf_scale &s)
{
    typedef typename S::form form;
    const uint32_t flip = form::is_signed != 0 ? 0x00800080u : 0,
                   minus = 0xe400e400u +
                           (form::is_signed != 0 ? 0x00800080u : form::zero * 0x10001u);
    const uint32_t codes = ((i % 2 ? words.y : words.x) >> (i / 2 * 8) & 0x00ff00ffu) ^ flip,
                   value = f16_pair_add(codes | 0x64006400u, minus);
    return form::has_minimum != 0 ? f16_pair_fma(value, s.times, s.plus)
                                  : f16_pair_mul(value, s.times);
}

/* Makes the left operand of step s: four of the lane's columns. */
template <class S>
EY_DEVICE void small_gguf_left(uint32_t left[4], const struct small_gguf_weights<S> &w, int s)
{
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            left[2 * i + half] = small_gguf_pair<S>(w.words[half][s / 2], s % 2 * 2 + i,
                                                    w.scale[half]);
}

/* sum += weights · x, for a warp's 32 rows and half of a stage's columns. */
template <class S>
EY_DEVICE void small_gguf_add_stage(float sum[2][S::n_tiles][4], const unsigned char *stage,
                                    const float factor[2])
{
    enum { STEPS = 4 };
    const int lane = lane_index(), row_warp = warp_index() / SMALL_HALVES,
              part = warp_index() % SMALL_HALVES;
    const unsigned char *x = stage + S::w_bytes + part * (S::x_bytes / 2);
    struct small_gguf_weights<S> w[2];
#pragma unroll
    for (int m = 0; m < 2; m++)
        small_gguf_read<S>(w[m], stage + (row_warp * 2 + m) * S::block_bytes, factor[m]);
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        uint32_t left[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
            small_gguf_left<S>(left[m], w[m], s);
#pragma unroll
        for (int j = 0; j < S::n_tiles; j += 2) {
            const int token = j * 8 + lane / 16 * 8 + lane % 8, unit = s * 2 + lane / 8 % 2;
            uint32_t right[4];
            load_matrices(right, x + token * 128 + (unit ^ (token % 8)) * 16);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_f16(sum[m][j], left[m], right[0], right[1]);
                mma_f16(sum[m][j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* Removes the powers of two of the matrix and of x from the sums. */
template <class S>
EY_DEVICE void small_gguf_finish_sums(float sum[2][S::n_tiles][4],
                                      const struct small_matmul_args &a, const struct gemm_place &p)
{
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const struct dev_matrix &w = small_matrix(a.matmul, p, m);
        const float scale = w.global_scale / w.f16_factor;
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[m][j][e] *= scale *
                                load_fresh_float(a.x_scale + 8 * j + lane_index() % 4 * 2 + e % 2);
    }
}

/* Warp (row_warp, part) has 32 rows and half of each stage's columns. */
template <class S>
EY_DEVICE void small_gguf_block(const struct small_matmul_args &a, unsigned char *shared)
{
    const struct gemm_place p = gemm_place_of<S>(a.matmul, (int)blockIdx.x);
    const int row_warp = warp_index() / SMALL_HALVES, part = warp_index() % SMALL_HALVES,
              chunks = (a.matmul.k + GGUF_CHUNK_COLUMNS - 1) / GGUF_CHUNK_COLUMNS,
              begin = (int)blockIdx.y * chunks / (int)gridDim.y,
              end = ((int)blockIdx.y + 1) * chunks / (int)gridDim.y;
    const bool has_work = p.first_block + row_warp * (p.paired ? 1 : 2) < p.blocks;
    const float factor[2] = {small_matrix(a.matmul, p, 0).f16_factor,
                             small_matrix(a.matmul, p, 1).f16_factor};
    struct small_gguf_share<S> share;
    float sum[2][S::n_tiles][4];
    small_gguf_find_share<S>(share, a, p);
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) /* weights, before the kernel that makes x has ended */
        if (begin + i < end)
            small_gguf_copy_weights<S>(share, shared + i * S::stage_bytes, begin + i);
    clear_sums<S>(sum);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) {
        if (begin + i < end) small_copy_x<S>(share.x, shared + i * S::stage_bytes, begin + i);
        copy_commit();
    }
    for (int q = begin, stage = 0; q < end; q++) {
        const int next = q + S::stages - 1, free_stage = stage == 0 ? S::stages - 1 : stage - 1;
        copy_wait<S::stages - 2>();
        __syncthreads(); /* the stage has arrived, and nobody reads the previous one any more */
        if (next < end) {
            small_gguf_copy_weights<S>(share, shared + free_stage * S::stage_bytes, next);
            small_copy_x<S>(share.x, shared + free_stage * S::stage_bytes, next);
        }
        copy_commit();
        if (has_work) small_gguf_add_stage<S>(sum, shared + stage * S::stage_bytes, factor);
        stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();
    small_gguf_finish_sums<S>(sum, a, p);
    float *sums = (float *)shared + part * S::tokens * SMALL_STAGED_ROW + row_warp * 32;
#pragma unroll
    for (int j = 0; j < S::n_tiles; j++)
        stage_tokens<S>(sums + 8 * j * SMALL_STAGED_ROW, sum, j);
    __syncthreads();
    struct gemm_staged staged = {(float *)shared, SMALL_HALVES, p.first_block * PACK_ROWS, 0,
                                 S::tokens};
    small_write<S>(a, p, staged);
}

template <int tokens> EY_DEVICE void small_gguf_any(const struct small_matmul_args &a)
{
    EY_DYNAMIC_SHARED(shared);
    let_next_start();
    switch (a.matmul.segment[0].w.dtype) {
#define GGUF_TYPE(id, ...)                                             \
    case K_##id:                                                       \
        small_gguf_block<small_gguf_shape<K_##id, tokens>>(a, shared); \
        break;
#include "kernels/cuda/common/gguf_types.def"
#undef GGUF_TYPE
    default: break;
    }
}

EY_KERNEL(matmul_small_gguf_16, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_gguf_any<16>(a);
}
EY_KERNEL(matmul_small_gguf_32, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_gguf_any<32>(a);
}
EY_KERNEL(matmul_small_gguf_64, struct small_matmul_args, SMALL_THREADS, 2)
{
    small_gguf_any<64>(a);
}
