/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of blocks of query rows over many keys, with scores kept in registers; shared by text
 * prefill and the vision encoder.
 *
 * A block of 4 warps processes its keys in tiles of 64; a warp has TILES times 16 rows. Work is in
 * steps of 32 keys, ordered so that the score matmuls of a step are interleaved with the
 * exponentials of the previous step: neither waits for the other. Keys and values are loaded into
 * shared memory one tile ahead by cp.async. Since scores run half a tile ahead of the values, three
 * tiles of keys and two of values are held. A row of shared memory is padded by 16 bytes, so that
 * eight rows at one column are in different banks.
 *
 * Weights are 2^(score - reference). A row's reference follows its maximum only when that has grown
 * by FLASH_LAG, which is rare; the row's sums are rescaled then. This depends on the row alone, so
 * rows do not affect each other. */
#ifndef EY_CUDA_FLASH_ATTENTION_CUH
#define EY_CUDA_FLASH_ATTENTION_CUH

#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/common/ptx.cuh"

enum { FLASH_STEP = FLASH_KEYS / 2, FLASH_COLUMNS = FLASH_STEP / 8 };
#define FLASH_LAG 8.0f         /* weights up to 2^8 */
#define FLASH_ALL (-(1 << 30)) /* value of `before` that includes all keys from 0 on */
#define FLASH_BELOW                                                                              \
    (-3e38f) /* initial reference: finite, because the distance of a masked key from an infinity \
                would be NaN */
#define LOG2_E 1.4426950408889634f
#define EY_MEMBER __device__ __forceinline__
#define MINUS_INFINITY bits_float(0xff800000u)

/* A warp's rows: lane 4g + t has rows 16i + g and 16i + g + 8 of tile i, columns in the layout of
 * mma_bf16. */
template <int DIM, int TILES> struct flash_rows {
    uint32_t q[TILES][DIM / 16][4];
    float o[TILES][DIM / 8][4];
    float reference[TILES][2], sum[TILES][2]; /* sum: of this lane's columns */
    float scale;                              /* scale of scores, including log2(e) */
    int last, before, growth; /* row r attends to keys before + growth · r + 1 .. last + growth · r,
                                 with r from 0 in the warp */
};

template <int TILES> struct flash_scores {
    float at[TILES][FLASH_COLUMNS][4];
};

template <int DIM> EY_DEVICE bf16 *flash_key_tile(unsigned char *shared, int tile)
{
    return (bf16 *)shared + tile % FLASH_KEY_TILES * (FLASH_KEYS * (DIM + FLASH_PAD));
}

template <int DIM> EY_DEVICE bf16 *flash_value_tile(unsigned char *shared, int tile)
{
    return (bf16 *)shared +
           (FLASH_KEY_TILES + tile % FLASH_VALUE_TILES) * (FLASH_KEYS * (DIM + FLASH_PAD));
}

/* Loads a tile: `n` rows of `dim` values, `stride` apart, and zeros for missing rows. Every thread
 * of the block takes part: eight adjacent ones per row, or two if a row is no multiple of eight
 * pieces. */
template <int DIM>
EY_DEVICE void flash_load(bf16 *to, const bf16 *rows, int64_t stride, int n, int dim)
{
    enum { ACROSS = DIM % 64 ? 2 : 8, DOWN = FLASH_THREADS / ACROSS };
#pragma unroll
    for (int j = 0; j < FLASH_KEYS / DOWN; j++) {
#pragma unroll
        for (int k = 0; k < DIM / 8 / ACROSS; k++) {
            int row = (int)threadIdx.x / ACROSS + j * DOWN,
                column = ((int)threadIdx.x % ACROSS + k * ACROSS) * 8;
            bool there = row < n && column < dim;
            copy_async(to + row * (DIM + FLASH_PAD) + column,
                       rows + (there ? row * stride + column : 0), there ? 16 : 0);
        }
    }
}

/* Returns two values of row `row`, zero outside of rows and dim. */
EY_DEVICE uint32_t flash_query_pair(const bf16 *q, int64_t stride, int row, int rows, int column,
                                    int dim)
{
    return row < rows && column < dim ? *(const uint32_t *)(q + row * stride + column) : 0;
}

/* Initializes the rows before any key is added. q: the warp's first row; `rows` of its rows exist;
 * dim is a multiple of 8. */
template <int DIM, int TILES>
EY_DEVICE void flash_begin(struct flash_rows<DIM, TILES> &r, const bf16 *q, int64_t stride,
                           int rows, int dim)
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int d = 0; d < DIM / 16; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.q[tile][d][i] = flash_query_pair(q, stride, 16 * tile + g + i % 2 * 8, rows,
                                                   16 * d + 2 * t + i / 2 * 8, dim);
#pragma unroll
        for (int d = 0; d < DIM / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.o[tile][d][i] = 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            r.reference[tile][half] = FLASH_BELOW;
            r.sum[tile][half] = 0;
        }
    }
}

template <int TILES> EY_DEVICE void flash_clear(struct flash_scores<TILES> &s)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < FLASH_COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s.at[tile][j][i] = 0;
}

/* Adds the products of columns 16d .. 16d+15 to the scores of 32 keys. */
template <int DIM, int TILES>
EY_DEVICE void flash_score(struct flash_scores<TILES> &s, const struct flash_rows<DIM, TILES> &r,
                           const bf16 *keys, int d)
{
    int lane = lane_index();
    const bf16 *row = keys + (lane % 8 + lane / 16 * 8) * (DIM + FLASH_PAD) + lane / 8 % 2 * 8;
#pragma unroll
    for (int pair = 0; pair < FLASH_COLUMNS / 2; pair++) {
        uint32_t b[4];
        load_matrices(b, row + 16 * pair * (DIM + FLASH_PAD) + 16 * d);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            mma_bf16(s.at[tile][2 * pair], r.q[tile][d], b[0], b[1]);
            mma_bf16(s.at[tile][2 * pair + 1], r.q[tile][d], b[2], b[3]);
        }
    }
}

/* Masks keys that a row must not attend to among the 32 from `key` on. */
template <int DIM, int TILES>
EY_DEVICE void flash_mask(struct flash_scores<TILES> &s, const struct flash_rows<DIM, TILES> &r,
                          int key)
{
    int g = lane_index() / 4, t = lane_index() % 4;
    if (key + FLASH_STEP - 1 <= r.last && key > r.before + r.growth * (16 * TILES - 1)) return;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int j = 0; j < FLASH_COLUMNS; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = key + 8 * j + 2 * t + i % 2 - r.growth * (16 * tile + g + i / 2 * 8);
                if (at > r.last || at <= r.before) s.at[tile][j][i] = MINUS_INFINITY;
            }
}

/* Raises the rows' references if necessary, so that the weights of these scores are in range. */
template <int DIM, int TILES>
EY_DEVICE void flash_follow(struct flash_rows<DIM, TILES> &r, const struct flash_scores<TILES> &s)
{
    float factor[TILES][2];
    bool moved = false;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float best = s.at[tile][0][2 * half];
#pragma unroll
            for (int j = 0; j < FLASH_COLUMNS; j++)
                best = fmaxf(best, fmaxf(s.at[tile][j][2 * half], s.at[tile][j][2 * half + 1]));
            best = fmaxf(best, shuffle_xor(best, 1));
            best = fmaxf(best, shuffle_xor(best, 2)) * r.scale;
            bool moves = best > r.reference[tile][half] + FLASH_LAG;
            factor[tile][half] = moves ? exp2_fast(r.reference[tile][half] - best) : 1.0f;
            if (moves) r.reference[tile][half] = best;
            moved |= moves;
        }
    }
    if (!any_lane(moved)) return;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int half = 0; half < 2; half++)
            r.sum[tile][half] *= factor[tile][half];
#pragma unroll
        for (int d = 0; d < DIM / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.o[tile][d][i] *= factor[tile][i / 2];
    }
}

/* Turns the scores of eight keys into weights. */
template <int DIM, int TILES>
EY_DEVICE void flash_weigh(struct flash_scores<TILES> &s, struct flash_rows<DIM, TILES> &r, int j)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s.at[tile][j][i] = exp2_fast(s.at[tile][j][i] * r.scale - r.reference[tile][i / 2]);
            r.sum[tile][i / 2] += s.at[tile][j][i];
        }
    }
}

/* o += weights · values of 32 keys. */
template <int DIM, int TILES>
EY_DEVICE void flash_add_values(struct flash_rows<DIM, TILES> &r,
                                const struct flash_scores<TILES> &s, const bf16 *values)
{
    int lane = lane_index();
    const bf16 *row = values + lane % 16 * (DIM + FLASH_PAD) + lane / 16 * 8;
#pragma unroll
    for (int part = 0; part < FLASH_COLUMNS / 2; part++) {
        uint32_t weights[TILES][4];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[tile][i] = bf16_pair(s.at[tile][2 * part + i / 2][i % 2 * 2],
                                             s.at[tile][2 * part + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int d = 0; d < DIM / 16; d++) {
            uint32_t b[4];
            load_matrices_transposed(b, row + 16 * part * (DIM + FLASH_PAD) + 16 * d);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                mma_bf16(r.o[tile][2 * d], weights[tile], b[0], b[1]);
                mma_bf16(r.o[tile][2 * d + 1], weights[tile], b[2], b[3]);
            }
        }
    }
}

/* Adds the values of the 32 keys from `key` on, whose scores are `s`, and computes the scores of
 * the next 32. */
template <int DIM, int TILES>
EY_DEVICE void flash_step(struct flash_rows<DIM, TILES> &r, struct flash_scores<TILES> &s, int key,
                          const bf16 *values, struct flash_scores<TILES> &next,
                          const bf16 *next_keys)
{
    flash_mask(s, r, key);
    flash_follow(r, s);
    flash_clear(next);
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
        flash_score(next, r, next_keys, d);
        if (d < FLASH_COLUMNS) flash_weigh(s, r, d);
    }
    flash_add_values(r, s, values);
}

/* Attends to the keys from tile `begin` on; the first row must attend to a key of that tile.
 * flash_end() divides by the sums. All threads of the block call from.load(to, tile, 0 for keys or
 * 1 for values), which loads a tile and fills rows beyond the last key with zeros. */
template <int DIM, int TILES, typename source>
EY_DEVICE void flash_attend(struct flash_rows<DIM, TILES> &r, const source &from, int begin,
                            int n_keys, unsigned char *shared)
{
    int n_tiles = (n_keys + FLASH_KEYS - 1) / FLASH_KEYS;
    struct flash_scores<TILES> first, second; /* halves of a tile */
    from.load(flash_key_tile<DIM>(shared, begin), begin, 0);
    copy_commit();
    if (begin + 1 < n_tiles) from.load(flash_key_tile<DIM>(shared, begin + 1), begin + 1, 0);
    from.load(flash_value_tile<DIM>(shared, begin), begin, 1);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    flash_clear(first);
#pragma unroll
    for (int d = 0; d < DIM / 16; d++)
        flash_score(first, r, flash_key_tile<DIM>(shared, begin), d);
    for (int tile = begin; tile < n_tiles; tile++) {
        copy_wait<0>();
        __syncthreads();
        if (tile + 2 < n_tiles) from.load(flash_key_tile<DIM>(shared, tile + 2), tile + 2, 0);
        if (tile + 1 < n_tiles) from.load(flash_value_tile<DIM>(shared, tile + 1), tile + 1, 1);
        copy_commit();
        const bf16 *values = flash_value_tile<DIM>(shared, tile),
                   *keys = flash_key_tile<DIM>(shared, tile);
        flash_step(r, first, FLASH_KEYS * tile, values, second,
                   keys + FLASH_STEP * (DIM + FLASH_PAD));
        /* after the last tile these scores are unused */
        flash_step(r, second, FLASH_KEYS * tile + FLASH_STEP,
                   values + FLASH_STEP * (DIM + FLASH_PAD), first,
                   flash_key_tile<DIM>(shared, tile + 1));
    }
}

/* Writes the rows as BF16; o: the warp's first row. */
template <int DIM, int TILES>
EY_DEVICE void flash_end(const struct flash_rows<DIM, TILES> &r, bf16 *o, int64_t stride, int rows,
                         int dim)
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = 16 * tile + g + 8 * half;
            float sum = r.sum[tile][half];
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            float factor = 1.0f / sum;
#pragma unroll
            for (int d = 0; d < DIM / 8; d++) {
                int column = 8 * d + 2 * t;
                if (row >= rows || column >= dim) continue;
                *(uint32_t *)(o + row * stride + column) = bf16_pair(
                    r.o[tile][d][2 * half] * factor, r.o[tile][d][2 * half + 1] * factor);
            }
        }
    }
}

/* ---- the fallback: one warp per row of a head, one lane per key ---- */

/* Attends to keys begin .. n_keys - 1 for any dim up to 256. from.key(slot) and from.value(slot)
 * return rows, of which from.element(row, column) reads an element. */
template <typename source>
EY_DEVICE void fallback_attend(bf16 *o, const bf16 *q, const source &from, int begin, int n_keys,
                               int dim, float scale)
{
    int lane = lane_index();
    float reference = MINUS_INFINITY, sum = 0, out[HEAD_DIM_MAX / 32];
#pragma unroll
    for (int i = 0; i < HEAD_DIM_MAX / 32; i++)
        out[i] = 0;
    for (int first = begin; first < n_keys; first += 32) {
        float score = MINUS_INFINITY;
        if (first + lane < n_keys) {
            score = 0;
            for (int d = 0; d < dim; d++)
                score += bf16_value(q[d]) * from.element(from.key(first + lane), d);
            score *= scale * LOG2_E;
        }
        float best = fmaxf(reference, warp_max(score)), factor = exp2_fast(reference - best),
              weight = exp2_fast(score - best);
        sum = sum * factor + warp_sum(weight);
        reference = best;
#pragma unroll
        for (int i = 0; i < HEAD_DIM_MAX / 32; i++)
            out[i] *= factor;
        for (int j = 0; j < 32 && first + j < n_keys; j++) {
            float w = shuffle(weight, j);
#pragma unroll
            for (int i = 0; i < HEAD_DIM_MAX / 32; i++)
                if (lane + 32 * i < dim)
                    out[i] += w * from.element(from.value(first + j), lane + 32 * i);
        }
    }
#pragma unroll
    for (int i = 0; i < HEAD_DIM_MAX / 32; i++)
        if (lane + 32 * i < dim) o[lane + 32 * i] = bf16_of(out[i] / sum);
}

#endif
