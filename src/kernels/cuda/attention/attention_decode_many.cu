/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of one new token of each of many sequences over the paged KV cache, in one launch:
 * norms, RoPE and the cache entry of the new token, scores, softmax and the sum of values.
 *
 * A pair is a sequence and a KV head. The chunks of keys of all pairs are laid end to end and
 * divided equally among the blocks, regardless of where pairs begin and end. So lengths may differ,
 * and the grid does not depend on them. If a pair is divided among several blocks, each block
 * stores a part, and the last block to arrive adds up the parts.
 *
 * A block's warps take its chunks in turn, loaded directly into the operands of mma_bf16, 16 keys
 * at a time: scoresᵀ[16 keys, 8 heads] = K[16, dim] · qᵀ and oᵀ[dim, 8 heads] += Vᵀ[dim, 16 keys] ·
 * weightsᵀ. Lane 4g + t reads the 16-byte pieces t, t + 4, .. of keys g and g + 8, and the pieces
 * g, g + 8, .. (of 8 bytes if a row has 64) of values 2t, 2t+1, 2t+8, 2t+9. A matmul does not
 * depend on the order of columns, so each matrix instruction takes the columns that its lanes hold.
 * A warp prefetches its next chunk, even one of the next pair, before it finishes the current one.
 * Loads of the first keys and values start before the previous kernel has ended; while they are in
 * flight, warps norm and rotate heads. */
#include "kernels/cuda/attention/decode_heads.cuh"

/* ---- division of work ---- */

/* The rows of the launch, in shared memory. */
struct decode_rows {
    int cost_before[MANY_ROWS + 1]; /* of the preceding rows: each row's chunks in one KV head,
                                       plus pair_cost */
    int index[MANY_ROWS], seq[MANY_ROWS];
    int pair_cost; /* cost of starting a pair, in chunks */
};

/* A block's part of a pair. */
struct decode_pair {
    int row, kv_head, keys; /* keys: all of the pair, including the new token's */
    int end;                /* number of its chunks up to the block's end */
    bool begins, ends;      /* whether the pair begins and ends in this block; the new token is the
                               pair's last key */
};

/* The chunks of all pairs are divided into equal parts. So blocks end where pairs do if pairs have
 * equal length and the number of blocks is a multiple or a divisor of the number of pairs. */
struct decode_shares {
    int units, blocks;
};

/* A block's plan, in shared memory. */
struct decode_plan {
    int first, last; /* pairs; first > last if there are none */
    int begin, end; /* the block begins with this chunk of the first pair and ends before this chunk
                       of the last */
    int last_at;    /* packed_pair() */
    struct decode_shares shares;
    int part_block[2], parts[2]; /* first block with chunks of the first and of the last pair, and
                                    the number of such blocks */
    struct decode_pair pair[MANY_HEADS_AT_ONCE]; /* the pairs of one turn */
};

EY_DEVICE int warp_prefix_sum(int v)
{
    for (int d = 1; d < 32; d *= 2) {
        int before = (int)shuffle((uint32_t)v, max(lane_index() - d, 0));
        if (lane_index() >= d) v += before;
    }
    return v;
}

/* Run by one warp for up to 32 * TURNS rows. */
template <int TURNS>
EY_DEVICE void lay_out_rows(struct decode_rows &rows, const struct dev_batch &batch, int chunk_keys,
                            int pair_cost)
{
    int index[TURNS], seq[TURNS], before = 0;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int row = min(32 * i + lane_index(), batch.n - 1);
        index[i] = (int)load_weight_4((const uint32_t *)batch.index + row);
        seq[i] = (int)load_weight_4((const uint32_t *)batch.seq + row);
    }
    if (lane_index() == 0) {
        rows.cost_before[0] = 0;
        rows.pair_cost = pair_cost;
    }
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int row = 32 * i + lane_index();
        int cost = row < batch.n ? index[i] / chunk_keys + 1 + pair_cost : 0,
            sum = before + warp_prefix_sum(cost);
        before = (int)shuffle((uint32_t)sum, 31);
        rows.cost_before[row + 1] = sum;
        rows.index[row] = index[i];
        rows.seq[row] = seq[i];
    }
}

/* Packs a row and a KV head into one register. */
EY_DEVICE int packed_pair(int row, int kv_head)
{
    return row << 16 | kv_head;
}

EY_DEVICE int cost_of_row(const struct decode_rows &rows, int row)
{
    return rows.cost_before[row + 1] - rows.cost_before[row];
}

EY_DEVICE int chunks_of_row(const struct decode_rows &rows, int row)
{
    return cost_of_row(rows, row) - rows.pair_cost;
}

/* Returns the pair and the chunk to which a unit of the total cost belongs. Units that stand for
 * the cost of starting a pair count as the pair's first chunk. */
EY_DEVICE int2 decode_cut(const struct decode_rows &rows, int n_kv_heads, int n_rows, int unit)
{
    int row = 0;
    for (int step = n_rows > 1 ? 1 << (31 - __clz(n_rows - 1)) : 0; step; step /= 2)
        if (row + step < n_rows && rows.cost_before[row + step] * n_kv_heads <= unit) row += step;
    int cost = cost_of_row(rows, row), rest = unit - rows.cost_before[row] * n_kv_heads;
    return make_int2(row * n_kv_heads + rest / cost, max(rest % cost - rows.pair_cost, 0));
}

EY_DEVICE int share_begin(const struct decode_shares &s, int block)
{
    return s.units / s.blocks * block + s.units % s.blocks * block / s.blocks;
}

/* Returns the block whose share contains the unit. */
EY_DEVICE int block_of_unit(const struct decode_shares &s, int unit)
{
    int block = min((int)((float)unit / (float)s.units * (float)s.blocks), s.blocks - 1);
    while (share_begin(s, block) > unit)
        block--;
    while (share_begin(s, block + 1) <= unit)
        block++;
    return block;
}

EY_DEVICE struct decode_pair decode_pair(const struct decode_plan &plan,
                                         const struct decode_rows &rows, int n_kv_heads, int pair)
{
    struct decode_pair p;
    p.row = pair / n_kv_heads;
    p.kv_head = pair % n_kv_heads;
    p.keys = rows.index[p.row] + 1;
    int chunks = chunks_of_row(rows, p.row);
    p.end = pair == plan.last ? plan.end : chunks;
    p.begins = pair > plan.first || plan.begin == 0;
    p.ends = p.end == chunks;
    return p;
}

/* Plans the pairs of a turn: those whose queries are in shared memory at the same time. */
EY_DEVICE void plan_turn(struct decode_plan &plan, const struct decode_rows &rows, int n_kv_heads,
                         int first, int pairs)
{
    int i = lane_index();
    if (i < pairs && first + i <= plan.last)
        plan.pair[i] = decode_pair(plan, rows, n_kv_heads, first + i);
}

/* Two lanes of a warp find the blocks that have chunks of the first and of the last pair. */
EY_DEVICE void plan_parts(struct decode_plan &plan, const struct decode_rows &rows, int n_kv_heads)
{
    int which = lane_index(), pair = which ? plan.last : plan.first, row = pair / n_kv_heads,
        first = rows.cost_before[row] * n_kv_heads + pair % n_kv_heads * cost_of_row(rows, row) +
                rows.pair_cost;
    if (which > 1) return;
    plan.part_block[which] = block_of_unit(plan.shares, first);
    plan.parts[which] = block_of_unit(plan.shares, first + chunks_of_row(rows, row) - 1) + 1 -
                        plan.part_block[which];
    if (which && plan.first == plan.last) plan.parts[which] = 1;
}

/* Returns the number of blocks that get work: few, because fewer parts are added up sooner. If a
 * pair takes several blocks, the number of blocks is a multiple of the number of pairs, so that
 * blocks end where pairs of equal length do. */
EY_DEVICE int blocks_wanted(int units, int pairs, int chunks_min)
{
    int wanted = (units + chunks_min - 1) / chunks_min;
    if (wanted > pairs) wanted = (wanted + pairs - 1) / pairs * pairs;
    return min(wanted, (int)gridDim.x);
}

/* Run by one warp. */
EY_DEVICE void many_make_plan(struct decode_plan &plan, const struct decode_rows &rows,
                              int n_kv_heads, int n_rows, int chunks_min, int pairs)
{
    int units = rows.cost_before[n_rows] * n_kv_heads, block = (int)blockIdx.x,
        blocks = blocks_wanted(units, n_rows * n_kv_heads, chunks_min);
    struct decode_shares shares = {units, blocks};
    /* lane 0 finds where the block's share begins, the others where it ends */
    int at = min(block + (lane_index() > 0), blocks);
    int2 cut = decode_cut(rows, n_kv_heads, n_rows, share_begin(shares, at));
    int2 begin = make_int2((int)shuffle((uint32_t)cut.x, 0), (int)shuffle((uint32_t)cut.y, 0)),
         end = make_int2((int)shuffle((uint32_t)cut.x, 1), (int)shuffle((uint32_t)cut.y, 1));
    int last = end.y ? end.x : end.x - 1;
    bool none = block >= blocks || begin.x > last || (begin.x == end.x && begin.y == end.y);
    if (lane_index() == 0) {
        plan.first = begin.x;
        plan.last = none ? begin.x - 1 : last;
        plan.begin = begin.y;
        plan.end = end.y ? end.y : chunks_of_row(rows, max(last, 0) / n_kv_heads);
        plan.last_at = packed_pair(last / n_kv_heads, last % n_kv_heads);
        plan.shares = shares;
    }
    __syncwarp();
    if (none) return;
    plan_turn(plan, rows, n_kv_heads, begin.x, pairs);
}

/* ---- chunks ---- */

/* A lane's part of a chunk: 16 keys and their values, GROUPS times. */
template <int DIM, bool FP8> struct many_chunk {
    enum {
        ROW = DIM * (FP8 ? 1 : 2), /* bytes of a key */
        GROUPS = ROW > 128 ? 1 : 2,
        KEYS = 16 * GROUPS,
        PAIR_COST = MANY_PAIR_COST / (KEYS * ROW), /* in chunks */
        KEY_WORDS = ROW / 16,                      /* of a lane */
        KEY_COLUMNS = FP8 ? 16 : 8,                /* of a piece */
        VALUE_WORDS = ROW / 32,
        VALUE_PIECE = VALUE_WORDS < 4 ? 2 : 4, /* words */
        VALUE_COLUMNS = VALUE_PIECE * (FP8 ? 4 : 2),
    };
    uint32_t key[GROUPS][2][KEY_WORDS], value[GROUPS][4][VALUE_WORDS];
};

template <int WORDS> EY_DEVICE void many_load_piece(uint32_t *to, const uint8_t *from, bool there)
{
    uint4 v = make_uint4(0, 0, 0, 0);
    if (WORDS == 4) {
        if (there) v = load_weight(from);
        to[2] = v.z;
        to[3 % WORDS] = v.w;
    } else if (there) {
        uint2 half = load_weight_8(from);
        v.x = half.x;
        v.y = half.y;
    }
    to[0] = v.x;
    to[1] = v.y;
}

/* The next chunk that a warp loads. */
struct decode_loader {
    int at; /* packed_pair() */
    int chunk;
    int chunks; /* chunks of the pair up to the block's end; 0 after the last pair */
};

/* Moves the loader `ahead` chunks on, into following pairs if necessary. */
EY_DEVICE void move_loader(struct decode_loader &l, const struct decode_plan &plan,
                           const struct decode_rows &rows, int n_kv_heads, int ahead)
{
    l.chunk += ahead;
    while (l.chunk >= l.chunks && l.chunks) {
        bool done = l.at == plan.last_at;
        l.chunk -= l.chunks;
        l.at = (l.at & 0xffff) + 1 < n_kv_heads ? l.at + 1 : packed_pair((l.at >> 16) + 1, 0);
        l.chunks = done ? 0 : l.at == plan.last_at ? plan.end : chunks_of_row(rows, l.at >> 16);
    }
}

template <int DIM, bool FP8>
EY_DEVICE const uint8_t *chunk_rows(const struct decode_loader &l,
                                    const struct attention_decode_args &a,
                                    const struct decode_rows &rows, int which)
{
    int first = many_chunk<DIM, FP8>::KEYS * l.chunk;
    int block =
        a.batch.block_table[(int64_t)rows.seq[l.at >> 16] * a.batch.max_blocks + first / KV_TOKENS];
    return kv_cache_rows(a.kv, block, l.at & 0xffff, which) +
           first % KV_TOKENS * many_chunk<DIM, FP8>::ROW;
}

/* Loads the keys of the loader's chunk; the new token's slot and later ones become zero. */
template <int DIM, bool FP8>
EY_DEVICE void many_load_keys(struct many_chunk<DIM, FP8> &c, const struct decode_loader &l,
                              const struct attention_decode_args &a, const struct decode_rows &rows)
{
    typedef many_chunk<DIM, FP8> chunk;
    int g = lane_index() / 4, t = lane_index() % 4;
    if (!l.chunks) return;
    int old = rows.index[l.at >> 16] - chunk::KEYS * l.chunk - g;
    const uint8_t *from = chunk_rows<DIM, FP8>(l, a, rows, 0) + g * chunk::ROW + 16 * t;
#pragma unroll
    for (int i = 0; i < 2 * chunk::GROUPS; i++)
#pragma unroll
        for (int j = 0; j < chunk::KEY_WORDS / 4; j++)
            many_load_piece<4>(c.key[i / 2][i % 2] + 4 * j, from + 8 * i * chunk::ROW + 64 * j,
                               8 * i < old);
}

template <int DIM, bool FP8>
EY_DEVICE void many_load_values(struct many_chunk<DIM, FP8> &c, const struct decode_loader &l,
                                const struct attention_decode_args &a,
                                const struct decode_rows &rows)
{
    typedef many_chunk<DIM, FP8> chunk;
    enum { WORDS = chunk::VALUE_PIECE };
    int g = lane_index() / 4, t = lane_index() % 4;
    if (!l.chunks) return;
    int old = rows.index[l.at >> 16] - chunk::KEYS * l.chunk - 2 * t;
    const uint8_t *from = chunk_rows<DIM, FP8>(l, a, rows, 1) + 2 * t * chunk::ROW + 4 * WORDS * g;
#pragma unroll
    for (int i = 0; i < 4 * chunk::GROUPS; i++)
#pragma unroll
        for (int j = 0; j < chunk::VALUE_WORDS / WORDS; j++)
            many_load_piece<WORDS>(c.value[i / 4][i % 4] + WORDS * j,
                                   from + value_slot(i, 0) * chunk::ROW + 32 * WORDS * j,
                                   value_slot(i, 0) < old);
}

/* ---- new queries, keys and values ---- */

/* Shared memory of a turn. */
template <int DIM> struct many_fresh {
    bf16 (*q)[DIM + MANY_PAD];                          /* [pairs, heads] */
    uint4 (*kv)[2][DIM * sizeof(bf16) / sizeof(uint4)]; /* [pairs] key and value as in the cache */
    float *sums; /* [pairs, warps, heads, DIM + 2]: sum of values, maximum and sum of weights */
};

/* One head that a block needs: a query, or the new key or value of a pair that ends in the
 * block. */
struct many_fresh_item {
    int which; /* -1: query, 0: key, 1: value */
    int to;    /* row of many_fresh.q for a query, otherwise of many_fresh.kv */
    const float *raw, *norm, *rope; /* norm and rope may be NULL */
    uint8_t *cached;                /* cache address of a new key or value */
};

/* Returns item i of a turn: queries of all its pairs, then keys and values of those that end
 * here. */
EY_DEVICE struct many_fresh_item many_fresh_item(const struct attention_decode_args &a,
                                                 const struct decode_plan &plan,
                                                 const struct decode_rows &rows, int pairs, int dim,
                                                 int i)
{
    struct many_fresh_item f;
    int n_kv = a.kv.n_kv_heads, heads = a.n_heads / n_kv, rest = i - pairs * heads;
    f.which = rest < 0 ? -1 : rest % 2;
    f.to = rest < 0 ? i : rest / 2;
    const struct decode_pair &p = plan.pair[rest < 0 ? i / heads : rest / 2];
    int head = rest < 0 ? p.kv_head * heads + i % heads : a.n_heads + f.which * n_kv + p.kv_head;
    f.raw = a.qkv + ((int64_t)p.row * (a.n_heads + 2 * n_kv) + head) * dim;
    f.norm = f.which < 0 ? a.q_norm : f.which == 0 ? a.k_norm : nullptr;
    f.rope = f.which == 1 ? nullptr : a.rope + (int64_t)p.row * dim;
    f.cached = nullptr;
    if (rest < 0) return f;
    int slot = p.keys - 1;
    int block =
        a.batch.block_table[(int64_t)rows.seq[p.row] * a.batch.max_blocks + slot / KV_TOKENS];
    f.cached = kv_cache_rows(a.kv, block, p.kv_head, f.which) +
               slot % KV_TOKENS * dim * kv_element_size(a.kv);
    return f;
}

/* Applies the norm and the rotation to a head, where it has them, and stores it. */
template <int DIM, bool FP8>
EY_DEVICE void make_fresh_head(const struct many_fresh<DIM> &fresh, const struct many_fresh_item &f,
                               const struct head_pairs<DIM> &norm, float eps)
{
    struct head_pairs<DIM> h, turn;
    float squares = 0;
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        int i = lane_index() + 32 * j;
        h.x[j] = load_fresh_float(f.raw + i);
        h.y[j] = load_fresh_float(f.raw + i + DIM / 2);
        turn.x[j] = f.rope ? load_fresh_float(f.rope + 2 * i) : 1.0f;
        turn.y[j] = f.rope ? load_fresh_float(f.rope + 2 * i + 1) : 0;
    }
#pragma unroll
    for (int j = 0; j < DIM / 64; j++)
        squares += h.x[j] * h.x[j] + h.y[j] * h.y[j];
    float scale = f.norm ? rsqrtf(warp_sum(squares) / (float)DIM + eps) : 1.0f;
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        float x = h.x[j] * scale * norm.x[j], y = h.y[j] * scale * norm.y[j];
        h.x[j] = x * turn.x[j] - y * turn.y[j];
        h.y[j] = y * turn.x[j] + x * turn.y[j];
    }
    if (f.which < 0) {
        put_head(fresh.q[f.to], h, 0);
        return;
    }
    put_head(fresh.kv[f.to][f.which], h, FP8);
    put_head(f.cached, h, FP8);
}

EY_DEVICE int fresh_items(const struct decode_plan &plan, int pairs, int heads)
{
    return pairs * heads + 2 * (plan.pair[pairs - 1].ends ? pairs : pairs - 1);
}

/* Processes all heads of a turn. The norm of a warp's first head is loaded before the previous
 * kernel has ended. */
template <int DIM, bool FP8>
EY_DEVICE void many_make_fresh(const struct many_fresh<DIM> &fresh,
                               const struct attention_decode_args &a,
                               const struct decode_plan &plan, const struct decode_rows &rows,
                               int pairs)
{
    int items = fresh_items(plan, pairs, a.n_heads / a.kv.n_kv_heads), i = warp_index();
#pragma unroll 1
    do {
        struct many_fresh_item f = {};
        struct head_pairs<DIM> norm;
        if (i < items) f = many_fresh_item(a, plan, rows, pairs, DIM, i);
        load_head_norm(norm, f.norm);
        wait_for_previous();
        let_next_start();
        if (i < items) make_fresh_head<DIM, FP8>(fresh, f, norm, a.eps);
        i += MANY_WARPS;
    } while (i < items);
}

/* Puts the new token's key and value into the slot that many_load_keys() and many_load_values()
 * left zero. row: the slot in the chunk. */
template <int DIM, bool FP8>
EY_DEVICE void many_put_fresh(struct many_chunk<DIM, FP8> &c, const struct many_fresh<DIM> &fresh,
                              int pair, int row)
{
    typedef many_chunk<DIM, FP8> chunk;
    enum { WORDS = chunk::VALUE_PIECE };
    int g = lane_index() / 4, t = lane_index() % 4;
    const uint32_t *key = (const uint32_t *)fresh.kv[pair][0],
                   *value = (const uint32_t *)fresh.kv[pair][1];
#pragma unroll
    for (int i = 0; i < 2 * chunk::GROUPS; i++)
#pragma unroll
        for (int j = 0; j < chunk::KEY_WORDS; j++)
            if (8 * i + g == row) c.key[i / 2][i % 2][j] = key[4 * t + 16 * (j / 4) + j % 4];
#pragma unroll
    for (int i = 0; i < 4 * chunk::GROUPS; i++)
#pragma unroll
        for (int j = 0; j < chunk::VALUE_WORDS; j++)
            if (value_slot(i, t) == row)
                c.value[i / 4][i % 4][j] = value[WORDS * g + 8 * WORDS * (j / WORDS) + j % WORDS];
}

/* ---- scores and sums ---- */

/* A lane's part of the results, for heads 2t and 2t + 1. */
template <int DIM> struct many_sums {
    float o[DIM / 16][4];  /* o[m]: column decode_column(m) of heads 2t and 2t + 1, then the next
                              column of these heads */
    float best[2], sum[2]; /* maximum in base 2; sum over this lane's keys */
};

/* Returns the first column of o[m]. */
template <int DIM, bool FP8> EY_DEVICE int decode_column(int m)
{
    enum { COLUMNS = many_chunk<DIM, FP8>::VALUE_COLUMNS };
    return COLUMNS * (lane_index() / 4) + 8 * COLUMNS * (2 * m / COLUMNS) + 2 * m % COLUMNS;
}

template <int DIM> EY_DEVICE void many_clear_sums(struct many_sums<DIM> &r)
{
#pragma unroll
    for (int m = 0; m < DIM / 16; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[m][i] = 0;
    r.best[0] = r.best[1] = MINUS_INFINITY;
    r.sum[0] = r.sum[1] = 0;
}

/* Multiplies eight columns of keys g and g + 8 with those of the queries. */
EY_DEVICE void score_columns(float s[4], const uint32_t *a, const uint32_t *b, uint4 q, bool fp8)
{
    if (fp8) {
        uint32_t low[4] = {e4m3_widened<0>(a[0], E4M3_FACTOR), e4m3_widened<0>(b[0], E4M3_FACTOR),
                           e4m3_widened<1>(a[0], E4M3_FACTOR), e4m3_widened<1>(b[0], E4M3_FACTOR)};
        uint32_t high[4] = {e4m3_widened<0>(a[1], E4M3_FACTOR), e4m3_widened<0>(b[1], E4M3_FACTOR),
                            e4m3_widened<1>(a[1], E4M3_FACTOR), e4m3_widened<1>(b[1], E4M3_FACTOR)};
        mma_bf16(s, low, q.x, q.y);
        mma_bf16(s, high, q.z, q.w);
    } else {
        uint32_t low[4] = {a[0], b[0], a[1], b[1]}, high[4] = {a[2], b[2], a[3], b[3]};
        mma_bf16(s, low, q.x, q.y);
        mma_bf16(s, high, q.z, q.w);
    }
}

/* Computes scoresᵀ: s[0], s[1] of key g and heads 2t, 2t + 1; s[2], s[3] of key g + 8. Queries stay
 * in shared memory, since registers are full. */
template <int DIM, bool FP8>
EY_DEVICE void many_score(float s[][4], const struct many_chunk<DIM, FP8> &c, const bf16 *q)
{
    typedef many_chunk<DIM, FP8> chunk;
    enum { PARTS = chunk::KEY_COLUMNS / 8, WORDS = 4 / PARTS };
    __syncwarp(); /* keeps the compiler from moving the loads out of the loop over chunks */
#pragma unroll
    for (int i = 0; i < 4 * chunk::GROUPS; i++)
        s[i / 4][i % 4] = 0;
#pragma unroll
    for (int j = 0; j < chunk::KEY_WORDS / WORDS; j++) {
        uint4 b = *(const uint4 *)(q + 4 * chunk::KEY_COLUMNS * (j / PARTS) + 8 * (j % PARTS));
#pragma unroll
        for (int k = 0; k < chunk::GROUPS; k++)
            score_columns(s[k], c.key[k][0] + WORDS * j, c.key[k][1] + WORDS * j, b, FP8);
    }
}

/* Turns scores s into weights in place and rescales earlier sums to the new maximum. */
template <int DIM, int GROUPS>
EY_DEVICE void many_weigh(struct many_sums<DIM> &r, float s[GROUPS][4], float scale)
{
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best = fmaxf(s[0][h], s[0][h + 2]);
#pragma unroll
        for (int k = 1; k < GROUPS; k++)
            best = fmaxf(best, fmaxf(s[k][h], s[k][h + 2]));
        best = fmaxf(best, shuffle_xor(best, 4));
        best = fmaxf(best, shuffle_xor(best, 8));
        best = fmaxf(r.best[h], fmaxf(best, shuffle_xor(best, 16)) * scale);
        factor[h] = exp2_fast(r.best[h] - best);
        r.sum[h] *= factor[h];
        r.best[h] = best;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            s[k][h] = exp2_fast(s[k][h] * scale - best);
            s[k][h + 2] = exp2_fast(s[k][h + 2] * scale - best);
            r.sum[h] += s[k][h] + s[k][h + 2];
        }
    }
#pragma unroll
    for (int m = 0; m < DIM / 16; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[m][i] *= factor[i % 2];
}

/* Returns columns 2m and 2m + 1 of two values as BF16 pairs. */
template <bool FP8>
EY_DEVICE void interleave(uint32_t out[2], const uint32_t *a, const uint32_t *b, int m)
{
    if (FP8 && m % 2) {
        out[0] = e4m3_interleaved<2>(a[m / 2], b[m / 2]);
        out[1] = e4m3_interleaved<3>(a[m / 2], b[m / 2]);
    } else if (FP8) {
        out[0] = e4m3_interleaved<0>(a[m / 2], b[m / 2]);
        out[1] = e4m3_interleaved<1>(a[m / 2], b[m / 2]);
    } else {
        out[0] = __byte_perm(a[m], b[m], 0x5410);
        out[1] = __byte_perm(a[m], b[m], 0x7632);
    }
}

template <int DIM, bool FP8>
EY_DEVICE void many_add_values(struct many_sums<DIM> &r, const struct many_chunk<DIM, FP8> &c,
                               const float weight[][4])
{
#pragma unroll
    for (int k = 0; k < many_chunk<DIM, FP8>::GROUPS; k++) {
        uint32_t b0 = weights_transposed(bf16_pair(weight[k][0], weight[k][1])),
                 b1 = weights_transposed(bf16_pair(weight[k][2], weight[k][3]));
#pragma unroll
        for (int m = 0; m < DIM / 16; m++) {
            uint32_t v[4];
            interleave<FP8>(v, c.value[k][0], c.value[k][1], m);
            interleave<FP8>(v + 2, c.value[k][2], c.value[k][3], m);
            mma_bf16(r.o[m], v, b0, b1);
        }
    }
}

/* Processes a loaded chunk and loads the next one in its place. left: number of keys from the
 * chunk's first key to the pair's end. */
template <int DIM, bool FP8>
EY_DEVICE void add_chunk(struct many_sums<DIM> &r, struct many_chunk<DIM, FP8> &c,
                         struct decode_loader &l, const struct attention_decode_args &a,
                         const struct decode_rows &rows, const struct many_fresh<DIM> &fresh,
                         int slot, const bf16 *q, int left)
{
    enum { GROUPS = many_chunk<DIM, FP8>::GROUPS };
    float s[GROUPS][4];
    int g = lane_index() / 4;
    if (left <= 16 * GROUPS) many_put_fresh<DIM, FP8>(c, fresh, slot, left - 1);
    many_score<DIM, FP8>(s, c, q);
    many_load_keys(c, l, a, rows);
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++)
        if (8 * i + g >= left) s[i / 2][i % 2 * 2] = s[i / 2][i % 2 * 2 + 1] = MINUS_INFINITY;
    many_weigh<DIM, GROUPS>(r, s, a.scale * LOG2_E);
    many_add_values<DIM, FP8>(r, c, s);
    many_load_values(c, l, a, rows);
}

/* Stores a warp's sums in shared memory. A warp without chunks stores only its maximum, minus
 * infinity, and the sum of weights. */
template <int DIM, bool FP8>
EY_DEVICE void many_put_sums(float *to, const struct many_sums<DIM> &r, int heads, bool any)
{
    int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = r.sum[h], *head = to + (2 * t + h) * (DIM + 2);
        sum += shuffle_xor(sum, 4);
        sum += shuffle_xor(sum, 8);
        sum += shuffle_xor(sum, 16);
        if (2 * t + h >= heads) continue;
        if (g == 0) {
            head[DIM] = r.best[h];
            head[DIM + 1] = sum;
        }
#pragma unroll
        for (int m = 0; any && m < DIM / 16; m++)
            *(float2 *)(head + decode_column<DIM, FP8>(m)) = make_float2(r.o[m][h], r.o[m][h + 2]);
    }
}

/* ---- parts become results ---- */

/* Merges the warps' columns d and d + 1 of a head. */
template <int DIM>
EY_DEVICE struct merged many_merge_warps(const float *sums, int heads, int head, int d)
{
    const float *from = sums + head * (DIM + 2);
    int stride = heads * (DIM + 2);
    float best[MANY_WARPS];
    struct merged m = {{0, 0}, MINUS_INFINITY, 0};
#pragma unroll
    for (int w = 0; w < MANY_WARPS; w++) {
        best[w] = from[w * stride + DIM];
        m.best = fmaxf(m.best, best[w]);
    }
#pragma unroll
    for (int w = 0; w < MANY_WARPS; w++)
        if (best[w] > MINUS_INFINITY)
            merge_add_part(m, *(const float2 *)(from + w * stride + d), from[w * stride + DIM + 1],
                           exp2_fast(best[w] - m.best));
    return m;
}

/* Returns the address of a block's part of a head. begins: 0 for the pair that began in an earlier
 * block, 1 for the pair that continues in a later one. */
template <int DIM>
EY_DEVICE float *many_part(const struct attention_decode_args &a, int block, int begins, int head)
{
    int heads = a.n_heads / a.kv.n_kv_heads;
    return a.partial + (((int64_t)block * 2 + begins) * heads + head) * (DIM + 2);
}

/* Merges columns d and d + 1 of a head from the parts of `blocks` blocks from `first` on, with
 * several loads in flight. */
template <int DIM>
EY_DEVICE struct merged merge_parts(const struct attention_decode_args &a, int first, int blocks,
                                    int head, int d)
{
    enum { AT_ONCE = 8 };
    struct merged m = {{0, 0}, MINUS_INFINITY, 0};
    for (int done = 0; done < blocks; done += AT_ONCE) {
        float2 value[AT_ONCE], weight[AT_ONCE]; /* maximum and sum of weights */
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const float *from = many_part<DIM>(a, first + done + i, done + i == 0, head);
            bool there = done + i < blocks;
            weight[i] = there ? load_fresh_pair(from + DIM) : make_float2(MINUS_INFINITY, 0);
            value[i] = there ? load_fresh_pair(from + d) : make_float2(0, 0);
        }
        merge_add_parts(m, value, weight);
    }
    return m;
}

/* Turns the warps' sums into results of a turn's pairs, or into this block's parts of them. A
 * thread has two columns at a time. */
template <int DIM>
EY_DEVICE void many_end_turn(const struct attention_decode_args &a, const struct decode_plan &plan,
                             int pairs, const float *sums)
{
    int heads = a.n_heads / a.kv.n_kv_heads;
#pragma unroll 1
    for (int i = (int)threadIdx.x * 2; i < pairs * heads * DIM; i += MANY_WARPS * 64) {
        int slot = i / DIM / heads, head = i / DIM - slot * heads, d = i % DIM;
        const struct decode_pair &p = plan.pair[slot];
        struct merged m = many_merge_warps<DIM>(sums + slot * MANY_WARPS * heads * (DIM + 2), heads,
                                                head, d);
        if (p.begins && p.ends) {
            store_mean(a.o + ((int64_t)p.row * a.n_heads + p.kv_head * heads + head) * DIM + d, m);
            continue;
        }
        float *to = many_part<DIM>(a, (int)blockIdx.x, p.begins, head);
        *(float2 *)(to + d) = make_float2(m.value[0], m.value[1]);
        if (d == 0) *(float2 *)(to + DIM) = make_float2(m.best, m.sum);
    }
}

/* Returns whether this block is the last to arrive for a pair. The last block sees everything that
 * the others wrote. */
EY_DEVICE bool many_last_to_arrive(uint32_t *counter, int blocks)
{
    if (count_arrival(counter) != (uint32_t)blocks - 1) return false;
    *counter = 0;
    return true;
}

/* Adds up the parts of the block's first pair, and of its last, if this block is the last to arrive
 * for that pair. */
template <int DIM>
EY_DEVICE void many_add_parts(const struct attention_decode_args &a, const struct decode_plan &plan)
{
    int heads = a.n_heads / a.kv.n_kv_heads;
    __shared__ bool is_last[2];
    if (plan.parts[0] == 1 && plan.parts[1] == 1) return;
    if (threadIdx.x < 2) {
        int which = (int)threadIdx.x, parts = plan.parts[which];
        is_last[which] = parts > 1 &&
                         many_last_to_arrive(a.arrived + (which ? plan.last : plan.first), parts);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x * 2; i < 2 * heads * DIM; i += MANY_WARPS * 64) {
        int which = i / DIM >= heads, head = i / DIM - (which ? heads : 0);
        int parts = plan.parts[which], pair = which ? plan.last : plan.first;
        if (!is_last[which]) continue;
        int64_t out = (int64_t)(pair / a.kv.n_kv_heads) * a.n_heads +
                      pair % a.kv.n_kv_heads * heads + head;
        store_mean(a.o + out * DIM + i % DIM,
                   merge_parts<DIM>(a, plan.part_block[which], parts, head, i % DIM));
    }
}

/* ---- the kernel ---- */

template <int DIM, bool FP8> EY_DEVICE void attend_many(const struct attention_decode_args &a)
{
    typedef many_chunk<DIM, FP8> chunk;
    EY_DYNAMIC_SHARED(shared);
    __shared__ struct decode_rows rows;
    __shared__ struct decode_plan plan;
    const int n_kv = a.kv.n_kv_heads, heads = a.n_heads / n_kv, turn_pairs = many_turn(heads);
    if (warp_index() == 0) {
        if (a.batch.n <= 32)
            lay_out_rows<1>(rows, a.batch, chunk::KEYS, chunk::PAIR_COST);
        else
            lay_out_rows<MANY_ROWS / 32>(rows, a.batch, chunk::KEYS, chunk::PAIR_COST);
        __syncwarp();
        many_make_plan(plan, rows, n_kv, a.batch.n, MANY_WARPS / chunk::GROUPS, turn_pairs);
    }
    __syncthreads();
    if (plan.first > plan.last) return;

    struct many_chunk<DIM, FP8> c;
    struct decode_loader loader = {packed_pair(plan.pair[0].row, plan.pair[0].kv_head), plan.begin,
                                   plan.pair[0].end};
    move_loader(loader, plan, rows, n_kv, warp_index());
    many_load_keys(c, loader, a, rows);
    many_load_values(c, loader, a, rows);
    if (warp_index() == MANY_WARPS - 1) plan_parts(plan, rows, n_kv);
    struct many_fresh<DIM> fresh;
    fresh.kv = (uint4(*)[2][DIM * sizeof(bf16) / sizeof(uint4)]) shared;
    fresh.q = (bf16(*)[DIM + MANY_PAD])(fresh.kv + turn_pairs);
    fresh.sums = (float *)(fresh.q + turn_pairs * heads);
    int at = plan.begin + warp_index();
    for (int first = plan.first; first <= plan.last; first += turn_pairs) {
        const int pairs = min(plan.last - first + 1, turn_pairs);
        if (first > plan.first) {
            if (warp_index() == 0) plan_turn(plan, rows, n_kv, first, turn_pairs);
            __syncthreads();
        }
        many_make_fresh<DIM, FP8>(fresh, a, plan, rows, pairs);
        __syncthreads();
        for (int slot = 0; slot < pairs; slot++) {
            const bf16 *q = fresh.q[slot * heads + min(lane_index() / 4, heads - 1)] +
                            lane_index() % 4 * chunk::KEY_COLUMNS;
            const int keys = plan.pair[slot].keys, end = plan.pair[slot].end;
            const bool any = at < end;
            struct many_sums<DIM> r;
            many_clear_sums(r);
            for (; at < end; at += MANY_WARPS) {
                move_loader(loader, plan, rows, n_kv, MANY_WARPS);
                add_chunk<DIM, FP8>(r, c, loader, a, rows, fresh, slot, q, keys - chunk::KEYS * at);
            }
            at -= end;
            many_put_sums<DIM, FP8>(
                fresh.sums + (slot * MANY_WARPS + warp_index()) * heads * (DIM + 2), r, heads, any);
        }
        __syncthreads();
        many_end_turn<DIM>(a, plan, pairs, fresh.sums);
        __syncthreads();
    }
    many_add_parts<DIM>(a, plan);
}

EY_KERNEL(attention_decode_many_64, struct attention_decode_args, MANY_WARPS * 32, MANY_SM_BLOCKS)
{
    attend_many<64, false>(a);
}

EY_KERNEL(attention_decode_many_64_fp8, struct attention_decode_args, MANY_WARPS * 32,
          MANY_SM_BLOCKS)
{
    attend_many<64, true>(a);
}

EY_KERNEL(attention_decode_many_128, struct attention_decode_args, MANY_WARPS * 32, MANY_SM_BLOCKS)
{
    attend_many<128, false>(a);
}

EY_KERNEL(attention_decode_many_128_fp8, struct attention_decode_args, MANY_WARPS * 32,
          MANY_SM_BLOCKS)
{
    attend_many<128, true>(a);
}
