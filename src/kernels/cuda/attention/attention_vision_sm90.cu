/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the vision encoder with heads of 64, over several images in one launch, on GPUs of
 * compute capability 9.0.
 *
 * A block of threads has 192 query rows, 64 for each of three warpgroups. Two more warps load tiles
 * of keys and values into a ring. The warpgroups read the ring independently, so that one computes
 * exponentials, which take as long as the matmuls here, while the matrix unit works for the others.
 * Weights are computed as in flash_attention.cuh: a row's reference seldom changes.
 *
 * The emulator lacks the ring's barriers: it runs attention_vision.cu instead. */
#ifndef EY_EMULATE
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/common/bulk_copy.cuh"
#include "kernels/cuda/common/wgmma.cuh"

#define VISION_LAG 8.0f /* this and the next two are as in flash_attention.cuh */
#define VISION_BELOW (-3e38f)
#define VISION_LOG2_E 1.4426950408889634f

enum {
    VISION_DIM = 64,
    VISION_KEYS = VISION_SM90_KEYS,  /* keys of a tile */
    VISION_TILE = VISION_KEYS * 128, /* bytes of a tile's keys, or values: 128 a row */
    VISION_STAGE = 2 * VISION_TILE,
    VISION_WARPS = 4 * VISION_SM90_TEAMS /* warps that multiply */
};

/* The block's shared memory. Each stage has two `full` barriers, which signal that its keys and its
 * values are loaded, and two `empty` ones, which signal that they have been read. */
struct vision_ring {
    unsigned char *memory;
    uint32_t full, empty; /* addresses */
};

EY_DEVICE uint32_t vision_barrier(uint32_t barriers, int slot, int which)
{
    return barriers + (uint32_t)(slot * 2 + which) * 8;
}

/* Loads a tile's rows with 16-byte units in the order of wgmma.cuh, and zeros beyond the last
 * key. */
EY_DEVICE void vision_bring_tile(unsigned char *to, const bf16 *rows, int64_t stride, int n)
{
    const int lane = lane_index();
#pragma unroll 4
    for (int j = 0; j < VISION_KEYS * 8 / 32; j++) {
        const int row = lane / 8 + j * 4, unit = lane % 8;
        copy_async(to + row * 128 + (unit ^ row % 8) * 16,
                   rows + (row < n ? row * stride + unit * 8 : 0), row < n ? 16 : 0);
    }
}

/* One warp loads all keys (which 0) or all values (1) of a head. The arrival of a tile is signaled
 * after the copy of the next tile has been started. */
EY_DEVICE void vision_bring(const struct vision_ring &ring, const bf16 *rows, int64_t stride,
                            int n_keys, int which)
{
    const int n = (n_keys + VISION_KEYS - 1) / VISION_KEYS;
    for (int i = 0; i < n; i++) {
        const int slot = i % VISION_SM90_STAGES, round = i / VISION_SM90_STAGES;
        if (round) barrier_wait(vision_barrier(ring.empty, slot, which), (round - 1) & 1);
        vision_bring_tile(ring.memory + slot * VISION_STAGE + which * VISION_TILE,
                          rows + (int64_t)i * VISION_KEYS * stride, stride,
                          n_keys - i * VISION_KEYS);
        copy_commit();
        if (!i) continue;
        copy_wait<1>();
        fence_shared();
        barrier_arrive(vision_barrier(ring.full, (i - 1) % VISION_SM90_STAGES, which));
    }
    copy_wait<0>();
    fence_shared();
    barrier_arrive(vision_barrier(ring.full, (n - 1) % VISION_SM90_STAGES, which));
}

/* A warp's 16 rows; lane 4g + t has rows g and g + 8, columns in the matrix unit's layout. */
struct vision_rows {
    uint32_t q[VISION_DIM / 16][4];
    float o[VISION_DIM / 8][4];
    float reference[2], sum[2], scale;
};

struct vision_scores {
    float at[VISION_KEYS / 8][4];
};

struct vision_tile_weights {
    uint32_t at[VISION_KEYS / 16][4];
};

EY_DEVICE void vision_begin(struct vision_rows &r, const bf16 *q, int64_t stride, int rows)
{
    const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int d = 0; d < VISION_DIM / 16; d++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = g + i % 2 * 8;
            r.q[d][i] = row < rows
                            ? *(const uint32_t *)(q + row * stride + 16 * d + 2 * t + i / 2 * 8)
                            : 0;
        }
#pragma unroll
    for (int i = 0; i < VISION_DIM / 8 * 4; i++)
        r.o[i / 4][i % 4] = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        r.reference[half] = VISION_BELOW;
        r.sum[half] = 0;
    }
}

/* Masks the tile's keys from `n` on. */
EY_DEVICE void vision_mask(struct vision_scores &s, int n)
{
    const int t = lane_index() % 4;
#pragma unroll
    for (int j = 0; j < VISION_KEYS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (8 * j + 2 * t + i % 2 >= n) s.at[j][i] = bits_float(0xff800000u);
}

/* Raises the rows' references if necessary, so that the weights of these scores are in range. */
EY_DEVICE void vision_follow(struct vision_rows &r, const struct vision_scores &s)
{
    float factor[2];
    bool moved = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float best = s.at[0][2 * half];
#pragma unroll
        for (int j = 0; j < VISION_KEYS / 8; j++)
            best = fmaxf(best, fmaxf(s.at[j][2 * half], s.at[j][2 * half + 1]));
        best = fmaxf(best, shuffle_xor(best, 1));
        best = fmaxf(best, shuffle_xor(best, 2)) * r.scale;
        const bool moves = best > r.reference[half] + VISION_LAG;
        factor[half] = moves ? exp2_fast(r.reference[half] - best) : 1.0f;
        if (moves) r.reference[half] = best;
        moved |= moves;
    }
    if (!any_lane(moved)) return;
#pragma unroll
    for (int half = 0; half < 2; half++)
        r.sum[half] *= factor[half];
#pragma unroll
    for (int i = 0; i < VISION_DIM / 8 * 4; i++)
        r.o[i / 4][i % 4] *= factor[i % 4 / 2];
}

/* Turns scores into weights in the matrix unit's layout. */
EY_DEVICE void vision_weigh(struct vision_tile_weights &out, struct vision_rows &r,
                            const struct vision_scores &s)
{
#pragma unroll
    for (int j = 0; j < VISION_KEYS / 8; j++) {
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = exp2_fast(s.at[j][i] * r.scale - r.reference[i / 2]);
            r.sum[i / 2] += w[i];
        }
        out.at[j / 2][j % 2 * 2] = bf16_pair(w[0], w[1]);
        out.at[j / 2][j % 2 * 2 + 1] = bf16_pair(w[2], w[3]);
    }
}

template <int n> EY_DEVICE void vision_pin(float (&sums)[n][4])
{
#pragma unroll
    for (int i = 0; i < n * 4; i++)
        pin_register(sums[i / 4][i % 4]);
}

/* Signals that the warp has read a tile's keys or values. */
EY_DEVICE void vision_release(const struct vision_ring &ring, int slot, int which)
{
    __syncwarp();
    if (lane_index() == 0) barrier_arrive(vision_barrier(ring.empty, slot, which));
}

/* Starts q · keysᵀ of a tile. */
EY_DEVICE void vision_score(struct vision_scores &s, const struct vision_rows &r,
                            const struct vision_ring &ring, int slot)
{
    const uint64_t keys = wgmma_operand(ring.memory + slot * VISION_STAGE);
#pragma unroll
    for (int d = 0; d < VISION_DIM / 16; d++)
        wgmma(s.at, r.q[d], wgmma_further(keys, d), d > 0);
}

/* Starts o += weights · values of a tile. */
EY_DEVICE void vision_add_weighted(struct vision_rows &r, const struct vision_tile_weights &weights,
                                   const struct vision_ring &ring, int slot)
{
    const unsigned char *values = ring.memory + slot * VISION_STAGE + VISION_TILE;
#pragma unroll
    for (int part = 0; part < VISION_KEYS / 16; part++)
        wgmma_transposed(r.o, weights.at[part], wgmma_operand(values + part * 16 * 128));
}

/* A position in the ring: a slot, and the parity of its round. */
struct vision_turn {
    int slot, phase;
};

EY_DEVICE struct vision_turn vision_next(struct vision_turn t)
{
    const bool wraps = t.slot + 1 == VISION_SM90_STAGES;
    const struct vision_turn next = {wraps ? 0 : t.slot + 1, t.phase ^ (int)wraps};
    return next;
}

/* Waits for the matmuls in flight, then releases the keys of this tile and the values of the
 * previous one. */
EY_DEVICE void vision_finish(struct vision_rows &r, struct vision_scores &s,
                             const struct vision_ring &ring, int slot, int before)
{
    wgmma_wait<0>();
    vision_pin(s.at);
    vision_pin(r.o);
    vision_release(ring, slot, 0);
    if (before >= 0) vision_release(ring, before, 1);
}

/* Computes a tile's scores together with the sums of the previous one. */
EY_DEVICE void vision_attend(struct vision_rows &r, const struct vision_ring &ring, int n_keys)
{
    struct vision_turn turn = {0, 0};
    struct vision_scores scores;
    struct vision_tile_weights weights;
    int left = n_keys, before = -1;
    barrier_wait(vision_barrier(ring.full, 0, 0), 0);
    vision_pin(r.o);
    wgmma_begin();
    vision_score(scores, r, ring, 0);
    wgmma_commit();
    for (; left > VISION_KEYS; left -= VISION_KEYS) {
        const struct vision_turn next = vision_next(turn);
        vision_finish(r, scores, ring, turn.slot, before);
        vision_follow(r, scores);
        vision_weigh(weights, r, scores);
        barrier_wait(vision_barrier(ring.full, turn.slot, 1), turn.phase);
        barrier_wait(vision_barrier(ring.full, next.slot, 0), next.phase);
        wgmma_begin();
        vision_score(scores, r, ring, next.slot);
        vision_add_weighted(r, weights, ring, turn.slot);
        wgmma_commit();
        before = turn.slot;
        turn = next;
    }
    vision_finish(r, scores, ring, turn.slot, before);
    if (left < VISION_KEYS) vision_mask(scores, left);
    vision_follow(r, scores);
    vision_weigh(weights, r, scores);
    barrier_wait(vision_barrier(ring.full, turn.slot, 1), turn.phase);
    wgmma_begin();
    vision_add_weighted(r, weights, ring, turn.slot);
    wgmma_commit();
    wgmma_wait<0>();
    vision_pin(r.o);
}

EY_DEVICE void vision_end(const struct vision_rows &r, bf16 *o, int64_t stride, int rows)
{
    const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = g + 8 * half;
        float sum = r.sum[half];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        const float factor = 1.0f / sum;
        if (row >= rows) continue;
#pragma unroll
        for (int d = 0; d < VISION_DIM / 8; d++)
            *(uint32_t *)(o + row * stride + 8 * d + 2 * t) = bf16_pair(
                r.o[d][2 * half] * factor, r.o[d][2 * half + 1] * factor);
    }
}

EY_KERNEL(attention_vision_sm90, struct attention_vision_sm90_args, VISION_SM90_THREADS, 1)
{
    EY_DYNAMIC_SHARED_1024(memory);
    uint64_t *barriers = (uint64_t *)(memory + VISION_SM90_STAGES * VISION_STAGE);
    const struct vision_ring ring = {memory, shared_address(barriers),
                                     shared_address(barriers + 2 * VISION_SM90_STAGES)};
    int s = 0;
    while (s + 1 < a.n_segments && (int)blockIdx.x >= a.segment[s + 1].first_tile)
        s++;
    const struct attention_vision_segment of = a.segment[s];
    const int warp = warp_index(), head = (int)blockIdx.y,
              row = ((int)blockIdx.x - of.first_tile) * VISION_SM90_ROWS + warp * 16;
    const int64_t width = (int64_t)a.heads * VISION_DIM, stride = 3 * width;
    const bf16 *of_head = a.qkv + head * VISION_DIM;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * VISION_SM90_STAGES; i++) {
            barrier_init(barriers + i, 32);
            barrier_init(barriers + 2 * VISION_SM90_STAGES + i, VISION_WARPS);
        }
        barriers_are_made();
    }
    __syncthreads();
    wait_for_previous();
    let_next_start();
    if (warp >= VISION_WARPS) {
        const int which = warp - VISION_WARPS;
        give_registers<56>();
        if (which < 2)
            vision_bring(ring, of_head + of.first_key * stride + (1 + which) * width, stride,
                         of.n_keys, which);
    } else {
        struct vision_rows r;
        take_registers<152>();
        r.scale = a.scale * VISION_LOG2_E;
        vision_begin(r, of_head + (int64_t)(of.first_row + row) * stride, stride, of.n - row);
        vision_attend(r, ring, of.n_keys);
        vision_end(r, a.o + (int64_t)(of.first_out + row) * width + head * VISION_DIM, width,
                   of.n - row);
    }
}
#endif
