/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one new token per sequence over the paged KV cache, in one launch: norms, RoPE and
 * the cache entry of the new token, scores, softmax and the sum of values, with keys split over
 * blocks.
 *
 * A block of 8 warps takes a share of the keys of one sequence and KV head, for all query heads of
 * that KV head. A warp takes 16 keys at a time, loaded directly into the operands of mma_bf16:
 * scoresᵀ[16 keys, 8 heads] = K[16, dim] · qᵀ and oᵀ[dim, 8 heads] += Vᵀ[dim, 16 keys] · weightsᵀ.
 * Lane 4g + t reads columns 8t + 32j .. +7 of keys g and g + 8, and columns 8g + 64j .. +7 of
 * values 2t, 2t+1, 2t+8, 2t+9. A matmul does not depend on the order of columns, so each matrix
 * instruction takes the columns that its lanes hold. Loads of the first keys and values start
 * before the previous kernel has ended; while they are in flight, each warp norms and rotates a
 * head. */
#include "kernels/cuda/attention/decode_heads.cuh"

template <bool FP8> struct kv_eight; /* eight values of the cache as stored */
template <> struct kv_eight<false> {
    uint4 bits;

    EY_MEMBER void load(const uint8_t *p)
    {
        bits = load_weight(p);
    }
    EY_MEMBER void clear()
    {
        bits = make_uint4(0, 0, 0, 0);
    }
    EY_MEMBER uint32_t word(int i) const
    {
        return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
    }
    /* values 2i and 2i + 1 */
    EY_MEMBER uint32_t pair(int i) const
    {
        return word(i);
    }
};
template <> struct kv_eight<true> {
    uint2 bits;

    EY_MEMBER void load(const uint8_t *p)
    {
        bits = load_weight_8(p);
    }
    EY_MEMBER void clear()
    {
        bits = make_uint2(0, 0);
    }
    EY_MEMBER uint32_t word(int i) const
    {
        return i == 0 ? bits.x : bits.y;
    }
    EY_MEMBER uint32_t pair(int i) const
    {
        return i % 2 ? e4m3_upper_pair(word(i / 2)) : e4m3_lower_pair(word(i / 2));
    }
};

/* Returns value i of two rows as a BF16 pair. */
EY_DEVICE uint32_t interleaved_pair(const struct kv_eight<false> &a,
                                    const struct kv_eight<false> &b, int i)
{
    return __byte_perm(a.word(i / 2), b.word(i / 2), i % 2 ? 0x7632 : 0x5410);
}

EY_DEVICE uint32_t interleaved_pair(const struct kv_eight<true> &a, const struct kv_eight<true> &b,
                                    int i)
{
    return e4m3_pair(
        __byte_perm(a.word(i / 4), b.word(i / 4), (unsigned)((i % 4) << 4 | (i % 4 + 4) << 12)));
}

/* A lane's part of 16 keys and their values. */
template <int DIM, bool FP8> struct decode_chunk {
    struct kv_eight<FP8> key[2][DIM / 32], value[4][DIM / 64];
};

/* A lane's part of the results, for heads 2t and 2t + 1. */
template <int DIM> struct decode_sums {
    float o[DIM / 64][4][4]; /* o[j][m]: columns 8g + 64j + 2m (head 2t, head 2t + 1), then the next
                                column of the same heads */
    float best[2], sum[2];   /* maximum in base 2; sum over this lane's keys */
};

/* Returns how many keys a block takes. The parts are equal and consist of whole chunks; they are
 * large enough that adding them up costs no more than reading them. */
EY_DEVICE int decode_part(int n_keys, int splits)
{
    int chunks = (n_keys + DECODE_CHUNK - 1) / DECODE_CHUNK;
    return max((chunks + splits - 1) / splits, (int)DECODE_PART_MIN) * DECODE_CHUNK;
}

/* The work of a block. */
struct decode_place {
    int row, kv_head, heads; /* heads: query heads of this KV head */
    int index;               /* the new token's slot: the last key */
    int first, end;          /* keys of this block */
    int used;                /* blocks that have keys; the others return immediately */
    const int32_t *blocks;
};

EY_DEVICE bool has_new_token(const struct decode_place &p)
{
    return p.end > p.index;
}

EY_DEVICE struct decode_place decode_place(const struct attention_decode_args &a)
{
    struct decode_place p;
    p.row = (int)blockIdx.z;
    p.kv_head = (int)blockIdx.y;
    p.heads = a.n_heads / a.kv.n_kv_heads;
    p.index = a.batch.index[p.row];
    p.blocks = block_table_row(a.batch, p.row);
    int part = decode_part(p.index + 1, a.splits);
    p.first = (int)blockIdx.x * part;
    p.end = min(p.first + part, p.index + 1);
    p.used = (p.index + part) / part;
    return p;
}

/* Loads 16 keys, beginning with slot `first`; the new token's slot and later ones become zero. */
template <int DIM, bool FP8>
EY_DEVICE void load_keys(struct decode_chunk<DIM, FP8> &c, const struct kv_layer &kv,
                         const struct decode_place &p, int first)
{
    enum { SIZE = FP8 ? 1 : 2 };
    int g = lane_index() / 4, t = lane_index() % 4;
    if (first >= p.end) return;
    const uint8_t *at = kv_cache_rows(kv, p.blocks[first / KV_TOKENS], p.kv_head, 0) +
                        ((first % KV_TOKENS + g) * DIM + 8 * t) * SIZE;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < DIM / 32; j++) {
            if (first + g + 8 * i < p.index)
                c.key[i][j].load(at + (8 * i * DIM + 32 * j) * SIZE);
            else
                c.key[i][j].clear();
        }
}

template <int DIM, bool FP8>
EY_DEVICE void load_values(struct decode_chunk<DIM, FP8> &c, const struct kv_layer &kv,
                           const struct decode_place &p, int first)
{
    enum { SIZE = FP8 ? 1 : 2 };
    int g = lane_index() / 4, t = lane_index() % 4;
    if (first >= p.end) return;
    const uint8_t *at = kv_cache_rows(kv, p.blocks[first / KV_TOKENS], p.kv_head, 1) +
                        ((first % KV_TOKENS + 2 * t) * DIM + 8 * g) * SIZE;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < DIM / 64; j++) {
            if (first + value_slot(i, t) < p.index)
                c.value[i][j].load(at + (value_slot(i, 0) * DIM + 64 * j) * SIZE);
            else
                c.value[i][j].clear();
        }
}

/* New heads in shared memory: queries as BF16, and the new key and value in the cache's
 * format. */
template <int DIM> struct decode_fresh {
    bf16 q[DECODE_HEADS][DIM + FLASH_PAD];
    uint4 kv[2][DIM * sizeof(bf16) / sizeof(uint4)];
    int used; /* decode_place.used, kept here to save registers */
};

/* Applies the norm and the rotation to a head, where it has them. */
template <int DIM>
EY_DEVICE struct head_pairs<DIM> fresh_head(const float *raw, const struct head_pairs<DIM> &norm,
                                            bool normed, const float *rope, float eps) {
    struct head_pairs<DIM> h;
    float cosine[DIM / 64], sine[DIM / 64], squares = 0;
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        int i = lane_index() + 32 * j;
        h.x[j] = load_fresh_float(raw + i);
        h.y[j] = load_fresh_float(raw + i + DIM / 2);
        cosine[j] = rope ? load_fresh_float(rope + 2 * i) : 1.0f;
        sine[j] = rope ? load_fresh_float(rope + 2 * i + 1) : 0;
    }
#pragma unroll
    for (int j = 0; j < DIM / 64; j++)
        squares += h.x[j] * h.x[j] + h.y[j] * h.y[j];
    float scale = normed ? rsqrtf(warp_sum(squares) / (float)DIM + eps) : 1.0f;
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        float x = h.x[j] * scale * norm.x[j], y = h.y[j] * scale * norm.y[j];
        h.x[j] = x * cosine[j] - y * sine[j];
        h.y[j] = y * cosine[j] + x * sine[j];
    }
    return h;
}

/* One head that a block needs: a query, or the new token's key or value if its slot is in the
 * block. */
struct fresh_item {
    const float *raw, *norm, *rope; /* norm and rope may be NULL */
    int which;                      /* -1: query, 0: key, 1: value */
};

EY_DEVICE struct fresh_item fresh_item(const struct attention_decode_args &a,
                                       const struct decode_place &p, int dim, int item)
{
    struct fresh_item f;
    int n_kv = a.kv.n_kv_heads;
    f.which = max(item - p.heads, -1);
    int head = f.which < 0 ? p.kv_head * p.heads + item : a.n_heads + f.which * n_kv + p.kv_head;
    f.raw = a.qkv + ((int64_t)p.row * (a.n_heads + 2 * n_kv) + head) * dim;
    f.norm = f.which < 0 ? a.q_norm : f.which == 0 ? a.k_norm : nullptr;
    f.rope = f.which == 1 ? nullptr : a.rope + (int64_t)p.row * dim;
    return f;
}

/* Stores queries in shared memory, and the new key and value both there and in the cache; warp i
 * makes items i and 8 + i. `mine` and `norm` belong to the warp's first item. */
template <int DIM, bool FP8>
EY_DEVICE void make_fresh(struct decode_fresh<DIM> &fresh, const struct attention_decode_args &a,
                          const struct decode_place &p, struct fresh_item mine,
                          struct head_pairs<DIM> norm)
{
    int items = p.heads + (has_new_token(p) ? 2 : 0);
    for (int item = warp_index(); item < items; item += DECODE_WARPS) {
        if (item >= DECODE_WARPS)
            mine = fresh_item(a, p, DIM, item), load_head_norm(norm, mine.norm);
        struct head_pairs<DIM> h = fresh_head(mine.raw, norm, mine.norm != nullptr, mine.rope,
                                              a.eps);
        if (mine.which < 0) {
            put_head(fresh.q[item], h, 0);
            continue;
        }
        put_head(fresh.kv[mine.which], h, FP8);
        put_head(kv_cache_rows(a.kv, p.blocks[p.index / KV_TOKENS], p.kv_head, mine.which) +
                     p.index % KV_TOKENS * DIM * (FP8 ? 1 : 2),
                 h, FP8);
    }
}

/* Puts the new token's key and value into the slot that load_keys() and load_values() left zero.
 * row: the slot in the chunk. */
template <int DIM, bool FP8>
EY_DEVICE void put_fresh(struct decode_chunk<DIM, FP8> &c, const struct decode_fresh<DIM> &fresh,
                         int row)
{
    enum { SIZE = FP8 ? 1 : 2 };
    int g = lane_index() / 4, t = lane_index() % 4;
    const uint8_t *key = (const uint8_t *)fresh.kv[0], *value = (const uint8_t *)fresh.kv[1];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < DIM / 32; j++)
            if (g + 8 * i == row) memcpy(&c.key[i][j], key + (8 * t + 32 * j) * SIZE, 8 * SIZE);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < DIM / 64; j++)
            if (value_slot(i, t) == row)
                memcpy(&c.value[i][j], value + (8 * g + 64 * j) * SIZE, 8 * SIZE);
}

/* Computes scoresᵀ: s[0], s[1] of key g and heads 2t, 2t + 1; s[2], s[3] of key g + 8. Queries stay
 * in shared memory, since registers are full. */
template <int DIM, bool FP8>
EY_DEVICE void decode_score(float s[4], const struct decode_chunk<DIM, FP8> &c,
                            const struct decode_fresh<DIM> &fresh)
{
    const bf16 *q = fresh.q[lane_index() / 4] + lane_index() % 4 * 8;
    __syncwarp(); /* keeps the compiler from moving the loads out of the loop over chunks */
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = 0;
#pragma unroll
    for (int j = 0; j < DIM / 32; j++) {
        uint4 b = *(const uint4 *)(q + 32 * j);
        uint32_t low[4] = {c.key[0][j].pair(0), c.key[1][j].pair(0), c.key[0][j].pair(1),
                           c.key[1][j].pair(1)};
        uint32_t high[4] = {c.key[0][j].pair(2), c.key[1][j].pair(2), c.key[0][j].pair(3),
                            c.key[1][j].pair(3)};
        mma_bf16(s, low, b.x, b.y);
        mma_bf16(s, high, b.z, b.w);
    }
}

/* Turns scores s into weights in place and rescales earlier sums to the new maximum. */
template <int DIM> EY_DEVICE void decode_weigh(struct decode_sums<DIM> &r, float s[4], float scale)
{
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best = fmaxf(s[h], s[h + 2]);
        best = fmaxf(best, shuffle_xor(best, 4));
        best = fmaxf(best, shuffle_xor(best, 8));
        best = fmaxf(r.best[h], fmaxf(best, shuffle_xor(best, 16)) * scale);
        factor[h] = exp2_fast(r.best[h] - best);
        s[h] = exp2_fast(s[h] * scale - best);
        s[h + 2] = exp2_fast(s[h + 2] * scale - best);
        r.sum[h] = r.sum[h] * factor[h] + s[h] + s[h + 2];
        r.best[h] = best;
    }
#pragma unroll
    for (int j = 0; j < DIM / 64; j++)
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.o[j][m][i] *= factor[i % 2];
}

template <int DIM, bool FP8>
EY_DEVICE void decode_add_values(struct decode_sums<DIM> &r, const struct decode_chunk<DIM, FP8> &c,
                                 const float weight[4])
{
    uint32_t b0 = weights_transposed(bf16_pair(weight[0], weight[1])),
             b1 = weights_transposed(bf16_pair(weight[2], weight[3]));
#pragma unroll
    for (int j = 0; j < DIM / 64; j++)
#pragma unroll
        for (int m = 0; m < 4; m++) {
            uint32_t v[4] = {interleaved_pair(c.value[0][j], c.value[1][j], 2 * m),
                             interleaved_pair(c.value[0][j], c.value[1][j], 2 * m + 1),
                             interleaved_pair(c.value[2][j], c.value[3][j], 2 * m),
                             interleaved_pair(c.value[2][j], c.value[3][j], 2 * m + 1)};
            mma_bf16(r.o[j][m], v, b0, b1);
        }
}

/* Stores a warp's results in shared memory: [warp, head, DIM + 2], maximum and sum of weights
 * last. */
template <int DIM>
EY_DEVICE void decode_put_sums(float *shared, const struct decode_sums<DIM> &r, int heads)
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = r.sum[h];
        sum += shuffle_xor(sum, 4);
        sum += shuffle_xor(sum, 8);
        sum += shuffle_xor(sum, 16);
        if (2 * t + h >= heads) continue;
        float *to = shared + (warp_index() * heads + 2 * t + h) * (DIM + 2);
#pragma unroll
        for (int j = 0; j < DIM / 64; j++)
#pragma unroll
            for (int m = 0; m < 4; m++)
                *(float2 *)(to + 8 * g + 64 * j + 2 * m) = make_float2(r.o[j][m][h],
                                                                       r.o[j][m][h + 2]);
        if (g == 0) {
            to[DIM] = r.best[h];
            to[DIM + 1] = sum;
        }
    }
}

/* Merges the warps' columns d and d + 1 of a head. */
template <int DIM>
EY_DEVICE struct merged merge_warps(const float *shared, int heads, int head, int d)
{
    const float *from = shared + head * (DIM + 2);
    int stride = heads * (DIM + 2);
    struct merged m = {{0, 0}, MINUS_INFINITY, 0};
#pragma unroll
    for (int w = 0; w < DECODE_WARPS; w++)
        m.best = fmaxf(m.best, from[w * stride + DIM]);
#pragma unroll
    for (int w = 0; w < DECODE_WARPS; w++)
        merge_add_part(m, *(const float2 *)(from + w * stride + d), from[w * stride + DIM + 1],
                       exp2_fast(from[w * stride + DIM] - m.best));
    return m;
}

/* Merges columns d and d + 1 of a head from the parts of `parts` blocks, with several loads in
 * flight. */
template <int DIM> EY_DEVICE struct merged merge_splits(const float *partial, int parts, int d)
{
    enum { AT_ONCE = 16 };
    struct merged m = {{0, 0}, MINUS_INFINITY, 0};
    for (int first = 0; first < parts; first += AT_ONCE) {
        float2 value[AT_ONCE], weight[AT_ONCE]; /* maximum and sum of weights */
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const float *from = partial + (int64_t)(first + i) * (DIM + 2);
            bool there = first + i < parts;
            weight[i] = there ? load_fresh_pair(from + DIM) : make_float2(MINUS_INFINITY, 0);
            value[i] = there ? load_fresh_pair(from + d) : make_float2(0, 0);
        }
        merge_add_parts(m, value, weight);
    }
    return m;
}

/* Returns whether this block is the last to arrive for its KV head and sequence. The last block
 * sees everything that the others wrote. */
EY_DEVICE bool last_to_arrive(uint32_t *counter, int blocks)
{
    __shared__ uint32_t before;
    __syncthreads();
    if (threadIdx.x == 0) {
        before = count_arrival(counter);
        if (before == (uint32_t)blocks - 1) *counter = 0;
    }
    __syncthreads();
    return before == (uint32_t)blocks - 1;
}

/* Turns the warps' sums into the result, or into this block's part of it; the last block adds up
 * the parts. A thread takes two columns at a time. */
template <int DIM>
EY_DEVICE void decode_end(const struct attention_decode_args &a, const struct decode_place &p,
                          const float *shared, int used)
{
    int64_t head_row = (int64_t)p.row * a.n_heads + p.kv_head * p.heads;
    for (int i = (int)threadIdx.x * 2; i < p.heads * DIM; i += DECODE_WARPS * 64) {
        int head = i / DIM, d = i % DIM;
        struct merged m = merge_warps<DIM>(shared, p.heads, head, d);
        if (used == 1) {
            store_mean(a.o + head_row * DIM + i, m);
            continue;
        }
        float *to = a.partial + ((head_row + head) * a.splits + (int)blockIdx.x) * (DIM + 2);
        *(float2 *)(to + d) = make_float2(m.value[0], m.value[1]);
        if (d == 0) *(float2 *)(to + DIM) = make_float2(m.best, m.sum);
    }
    if (used == 1 ||
        !last_to_arrive(a.arrived + (int64_t)p.row * a.kv.n_kv_heads + p.kv_head, used))
        return;
    for (int i = (int)threadIdx.x * 2; i < p.heads * DIM; i += DECODE_WARPS * 64)
        store_mean(a.o + head_row * DIM + i,
                   merge_splits<DIM>(a.partial + (head_row + i / DIM) * a.splits * (DIM + 2), used,
                                     i % DIM));
}

template <int DIM, bool FP8> EY_DEVICE void attention_decode(const struct attention_decode_args &a)
{
    EY_DYNAMIC_SHARED(shared);
    __shared__ struct decode_fresh<DIM> fresh;
    const struct decode_place p = decode_place(a);
    if (p.first >= p.end) return;
    int g = lane_index() / 4, at = p.first + warp_index() * DECODE_CHUNK;
    struct decode_chunk<DIM, FP8> c;
    struct head_pairs<DIM> norm;
    load_keys(c, a.kv, p, at);
    load_values(c, a.kv, p, at);
    struct fresh_item mine = fresh_item(a, p, DIM, warp_index());
    load_head_norm(norm, mine.norm);
    if (threadIdx.x == 0) fresh.used = p.used;
    wait_for_previous();
    let_next_start();
    make_fresh<DIM, FP8>(fresh, a, p, mine, norm);
    __syncthreads();
    struct decode_sums<DIM> r = {
    };
    r.best[0] = r.best[1] = MINUS_INFINITY;
    for (; at < p.end; at += DECODE_WARPS * DECODE_CHUNK) {
        float s[4];
        if (p.index - at < DECODE_CHUNK) put_fresh(c, fresh, p.index - at);
        decode_score(s, c, fresh);
        load_keys(c, a.kv, p, at + DECODE_WARPS * DECODE_CHUNK);
        if (at + g >= p.end) s[0] = s[1] = MINUS_INFINITY;
        if (at + g + 8 >= p.end) s[2] = s[3] = MINUS_INFINITY;
        decode_weigh(r, s, a.scale * LOG2_E);
        decode_add_values(r, c, s);
        load_values(c, a.kv, p, at + DECODE_WARPS * DECODE_CHUNK);
    }
    decode_put_sums((float *)shared, r, p.heads);
    __syncthreads();
    decode_end<DIM>(a, p, (const float *)shared, fresh.used);
}

EY_KERNEL(attention_decode_64, struct attention_decode_args, DECODE_WARPS * 32, 2)
{
    attention_decode<64, false>(a);
}

EY_KERNEL(attention_decode_64_fp8, struct attention_decode_args, DECODE_WARPS * 32, 2)
{
    attention_decode<64, true>(a);
}

EY_KERNEL(attention_decode_128, struct attention_decode_args, DECODE_WARPS * 32, 2)
{
    attention_decode<128, false>(a);
}

EY_KERNEL(attention_decode_128_fp8, struct attention_decode_args, DECODE_WARPS * 32, 2)
{
    attention_decode<128, true>(a);
}
