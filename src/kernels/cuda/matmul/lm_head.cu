/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (up to 8 tokens) of BF16 or int8 matrices after a norm: above all the LM head, the largest
 * matrix of a model. Limited by reading every weight once.
 *
 * The matrix unit multiplies: 16 weight rows are its A operand, 8 tokens its B operand. A few
 * blocks of threads per SM process row block after row block (16 rows). Warps divide a row block
 * into shares; each has a ring in shared memory through which its weights stream without a pause. A
 * lane copies what it will itself read, so lanes never wait for each other. The ring is filled
 * before wait_for_previous(). A warp loads the columns of x for its weights into shared memory of
 * its own, once if there is room. Then the shares' sums are added. The norm needs no separate pass:
 * x is multiplied by the norm's weights, and the sum by the row's 1/rms.
 *
 * int8 becomes float16 exactly, and so does x: each token's values of a unit are multiplied by a
 * power of two that puts the largest just below float16's limit, so nothing overflows and eleven
 * bits remain. BF16 weights are multiplied with x in BF16.
 *
 * The order in which a share adds weights depends only on k, so a token's result does not depend on
 * the other tokens of the call, as long as they are few: more tokens use matmul_small.cu or a GEMM,
 * whose sums round differently. */
#include "kernels/cuda/matmul/gemv_depth.h"
#include "kernels/cuda/matmul/gemv_reduce.cuh"

/* A lane's part of a chunk: WORDS registers of weights (or x) of one row. PIECES: pieces of 8
 * columns in a unit. */
template <int dtype> struct lm_head_unit {
    enum {
        WORDS = dtype == K_BF16 ? 4 : 8,
        PIECES = UNIT_CHUNKS * WORDS,
        COLUMNS = 8 * PIECES,
        X_BYTES = 2 * COLUMNS
    };
};

/* ---- the ring ---- */

/* The next prefetch of a warp, and its slot in the ring. */
struct lm_head_prefetch {
    const unsigned char *data; /* the lane's address in chunk 0 of the row block */
    unsigned char *ring;       /* the lane's address in slot 0 */
    int block, share, unit;    /* unit: of the share */
    int slot;
};

EY_DEVICE void lm_head_find_data(struct lm_head_prefetch &r, const struct matmul_args &a)
{
    if (r.block >= a.lm_head.n_blocks) return;
    const struct row_block b = find_block<1>(a, r.block);
    const unsigned char *data = (const unsigned char *)a.segment[b.segment].w.data;
    r.data = data + (int64_t)b.number * a.lm_head.n_chunks * PACK_CHUNK + lane_index() * 16;
}

EY_DEVICE int lm_head_next_slot(int slot, const struct matmul_args &a)
{
    return slot + 1 == a.lm_head.slots ? 0 : slot + 1;
}

/* Prefetches the next unit; missing chunks become zeros. Every call commits one group of copies,
 * even an empty one, because waits count groups. */
EY_DEVICE void lm_head_prefetch_unit(struct lm_head_prefetch &r, const struct matmul_args &a)
{
    const struct lm_head_layout &l = a.lm_head;
    if (r.block < l.n_blocks) {
        const int chunk = (r.share + r.unit * l.shares) * UNIT_CHUNKS;
        const unsigned char *from = r.data + (int64_t)chunk * PACK_CHUNK;
        unsigned char *to = r.ring + r.slot * UNIT_BYTES;
#pragma unroll
        for (int c = 0; c < UNIT_CHUNKS; c++) {
            const int bytes = chunk + c < l.n_chunks ? 16 : 0;
            copy_async(to + c * PACK_CHUNK, from + c * PACK_CHUNK, bytes);
            copy_async(to + c * PACK_CHUNK + PACK_CHUNK / 2, from + c * PACK_CHUNK + PACK_CHUNK / 2,
                       bytes);
        }
    }
    copy_commit();
    r.slot = lm_head_next_slot(r.slot, a);
    if (++r.unit < l.each) return;
    r.unit = 0;
    r.share += (int)blockDim.x / 32;
    if (r.share >= l.shares) {
        r.share = uniform_warp();
        r.block += (int)gridDim.x;
    }
    lm_head_find_data(r, a);
}

/* Waits until the oldest unit in flight has arrived. */
EY_DEVICE void wait_for_unit(const struct matmul_args &a)
{
    if (a.lm_head.slots == 2)
        copy_wait<1>();
    else if (a.lm_head.slots == 3)
        copy_wait<2>();
    else if (a.lm_head.slots == 4)
        copy_wait<3>();
    else
        copy_wait<0>();
}

/* A lane's weights of a unit: rows g and g + 8 of each chunk. */
struct lm_head_weights {
    uint4 half[UNIT_CHUNKS][2];
};

EY_DEVICE void read_unit(struct lm_head_weights &w, const unsigned char *from)
{
#pragma unroll
    for (int c = 0; c < UNIT_CHUNKS; c++) {
        w.half[c][0] = *(const uint4 *)(from + c * PACK_CHUNK);
        w.half[c][1] = *(const uint4 *)(from + c * PACK_CHUNK + PACK_CHUNK / 2);
    }
}

template <int dtype>
EY_DEVICE void lm_head_weight_pairs(uint32_t out[lm_head_unit<dtype>::WORDS], uint4 v)
{
    const uint32_t in[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == K_INT8)
            int8_f16_pairs(out + 2 * i, in[i]);
        else
            out[i] = in[i];
    }
}

/* ---- x ----
 *
 * In shared memory a unit's columns of one token are PIECES pieces of 8 columns, 16 bytes each; of
 * a chunk, lane t of a token's four reads two (8-bit weights) or one. Odd tokens have halves
 * swapped, so that lanes that read together read from different banks. */
template <int dtype> EY_DEVICE int lm_head_piece_slot(int piece, int token)
{
    if (dtype == K_BF16) return piece ^ (token & 1) << 2;
    return (piece & ~7) + (((piece & 1) ^ (token & 1)) << 2) + (piece >> 1 & 3);
}

/* x of some of a warp's units in shared memory, followed by [units, tokens] scales and [units, n]
 * sums of squares. */
struct lm_head_staged_x {
    unsigned char *x;
    float *scale, *squares;
};

template <int dtype, int groups>
EY_DEVICE struct lm_head_staged_x lm_head_find_staged(unsigned char *warp_shared,
                                                      const struct matmul_args &a)
{
    struct lm_head_staged_x s;
    s.x = warp_shared;
    s.scale = (float *)(warp_shared + a.lm_head.staged * a.n * lm_head_unit<dtype>::X_BYTES);
    s.squares = s.scale + a.lm_head.staged * groups * 8;
    return s;
}

/* The units that are staged together: first, first + shares .. */
struct lm_head_stage {
    int first, count;
};

/* A lane's load: 8 columns of one unit and token. Pieces have the order [token, unit, place in the
 * unit]; a warp loads 32 at a time. */
struct lm_head_piece {
    int item; /* token and unit */
    int column;
    int at; /* offset in x; -1 if it does not exist */
};

EY_DEVICE int lm_head_piece_token(const struct lm_head_piece &p, const struct matmul_args &a)
{
    return p.item >> a.lm_head.log_ahead;
}

EY_DEVICE int lm_head_piece_unit(const struct lm_head_piece &p, const struct matmul_args &a)
{
    return p.item & ((1 << a.lm_head.log_ahead) - 1);
}

template <int dtype>
EY_DEVICE struct lm_head_piece lm_head_find_piece(const struct matmul_args &a,
                                                  const struct lm_head_stage &s, int first_item)
{
    struct lm_head_piece p = {first_item + lane_index() / lm_head_unit<dtype>::PIECES, 0, -1};
    const int token = lm_head_piece_token(p, a), item_unit = lm_head_piece_unit(p, a);
    p.column = (s.first + item_unit * a.lm_head.shares) * lm_head_unit<dtype>::COLUMNS +
               lane_index() % lm_head_unit<dtype>::PIECES * 8;
    if (token < a.n && item_unit < s.count && p.column < a.k)
        p.at = (a.gather ? a.gather[token] : token) * a.ldx + p.column;
    return p;
}

template <int dtype, int groups>
EY_DEVICE void lm_head_store_piece(const struct lm_head_staged_x &s, const struct matmul_args &a,
                                   const struct lm_head_piece &p, const struct raw_piece<true> &raw,
                                   const struct float8 &norm)
{
    enum { PIECES = lm_head_unit<dtype>::PIECES };
    struct float8 e = float8_of(raw.half[0], raw.half[1]);
    float squares = 0, scale = 1;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        squares += e.v[i] * e.v[i];
        e.v[i] *= norm.v[i];
    }
    squares = sum_of_pieces<PIECES>(squares);
    uint4 out = dtype == K_BF16 ? float8_to_bf16(e) : scaled_f16<PIECES>(e, &scale);
    const int token = lm_head_piece_token(p, a), place = lm_head_piece_unit(p, a);
    if (token >= a.n || place >= a.lm_head.staged) return;
    *(uint4 *)(s.x + (place * a.n + token) * lm_head_unit<dtype>::X_BYTES +
               lm_head_piece_slot<dtype>(lane_index() % PIECES, token) * 16) = out;
    if (lane_index() % PIECES) return;
    if (dtype != K_BF16) s.scale[place * groups * 8 + token] = scale;
    s.squares[place * a.n + token] = squares;
}

/* x in flight to a warp. */
struct coming_x {
    struct lm_head_piece piece;
    struct raw_piece<true> raw;
    struct float8 norm;
};

template <int dtype>
EY_DEVICE void find_coming(struct coming_x &c, const struct matmul_args &a,
                           const struct lm_head_stage &s, int item)
{
    c.piece = lm_head_find_piece<dtype>(a, s, item);
    c.norm = load_norm8(a, c.piece.column);
}

/* Stages the units' x for all tokens. The lane's first piece is already in flight; each further
 * piece is loaded while the one before it is processed. */
template <int dtype, int groups>
EY_DEVICE void lm_head_stage_x(const struct lm_head_staged_x &staged, const struct matmul_args &a,
                               const struct lm_head_stage &s, const struct coming_x &first)
{
    enum { ITEMS = 32 / lm_head_unit<dtype>::PIECES };
    const int items = a.n << a.lm_head.log_ahead;
    struct coming_x now = first, next = first;
    __syncwarp(); /* all lanes have read the old contents */
#pragma unroll 1
    for (int item = ITEMS;; item += ITEMS) {
        if (item < items) {
            find_coming<dtype>(next, a, s, item);
            load_piece<true>(next.raw, a, next.piece.at);
        }
        lm_head_store_piece<dtype, groups>(staged, a, now.piece, now.raw, now.norm);
        if (item >= items) break;
        now = next;
    }
    __syncwarp();
}

/* Lane i < n returns `sum` plus the squares of token i in the staged units, added one after the
 * other. */
EY_DEVICE float lm_head_add_squares(const struct lm_head_staged_x &s, float sum, int count, int n)
{
    for (int c = 0; c < count && lane_index() < n; c++)
        sum += s.squares[c * n + lane_index()];
    return sum;
}

/* ---- matmul ---- */

/* Loads a lane's columns of x of one token, of chunk c of a unit whose x for this token is at
 * `from`. */
template <int dtype>
EY_DEVICE void lm_head_read_x(uint32_t x[lm_head_unit<dtype>::WORDS], const unsigned char *from,
                              int c, int token)
{
#pragma unroll
    for (int i = 0; i < lm_head_unit<dtype>::WORDS / 4; i++) {
        const int piece = c * lm_head_unit<dtype>::WORDS +
                          lane_index() % 4 * (lm_head_unit<dtype>::WORDS / 4) + i;
        const uint4 v = *(const uint4 *)(from + lm_head_piece_slot<dtype>(piece, token) * 16);
        x[4 * i] = v.x;
        x[4 * i + 1] = v.y;
        x[4 * i + 2] = v.z;
        x[4 * i + 3] = v.w;
    }
}

/* sum[groups][4] += (a unit's rows) · x. `place`: index of the unit among the staged ones. The sums
 * of missing tokens are undefined. */
template <int dtype, int groups>
EY_DEVICE void multiply_unit(float sum[groups][4], const struct lm_head_weights &w,
                             const struct lm_head_staged_x &s, int place, int n)
{
    enum { WORDS = lm_head_unit<dtype>::WORDS };
    uint32_t upper[UNIT_CHUNKS][WORDS], lower[UNIT_CHUNKS][WORDS], x[WORDS];
#pragma unroll
    for (int c = 0; c < UNIT_CHUNKS; c++) {
        lm_head_weight_pairs<dtype>(upper[c], w.half[c][0]);
        lm_head_weight_pairs<dtype>(lower[c], w.half[c][1]);
    }
#pragma unroll
    for (int i = 0; i < groups; i++) {
        const int token = min(8 * i + lane_index() / 4, n - 1);
        const unsigned char *from = s.x + (place * n + token) * lm_head_unit<dtype>::X_BYTES;
        float product[UNIT_CHUNKS][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, scale[2] = {1, 1};
        if (dtype != K_BF16) {
            const float2 f = *(const float2 *)(s.scale + (place * groups + i) * 8 +
                                               lane_index() % 4 * 2);
            scale[0] = f.x;
            scale[1] = f.y;
        }
#pragma unroll
        for (int c = 0; c < UNIT_CHUNKS; c++) {
            lm_head_read_x<dtype>(x, from, c, token);
#pragma unroll
            for (int step = 0; step < WORDS / 2; step++) {
                const uint32_t a[4] = {upper[c][2 * step], lower[c][2 * step],
                                       upper[c][2 * step + 1], lower[c][2 * step + 1]};
                if (dtype == K_BF16)
                    mma_bf16(product[c], a, x[2 * step], x[2 * step + 1]);
                else
                    mma_f16(product[c], a, x[2 * step], x[2 * step + 1]);
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[i][e] += (dtype == K_BF16 ? 1.0f : scale[e % 2]) * (product[0][e] + product[1][e]);
    }
}

/* ---- results ----
 *
 * The shares' sums are [shares, tokens, GEMV_TOKEN_FLOATS] in shared memory. */

template <int dtype>
EY_DEVICE void lm_head_epilogue(const struct matmul_args &a, const float *sums,
                                const float *squares, const struct row_block &b,
                                const struct gemv_output &p)
{
    const struct matmul_segment &s = a.segment[b.segment];
    float value = 0, square = 0;
    sums += p.token * GEMV_TOKEN_FLOATS + p.row % PACK_ROWS;
    squares += p.token;
#pragma unroll 4
    for (int i = 0; i < a.lm_head.shares; i++, sums += a.n * GEMV_TOKEN_FLOATS, squares += a.n) {
        value += sums[0];
        square += squares[0];
    }
    value *= rsqrtf(square * a.lm_head.one_over_k + a.eps);
    if (dtype == K_INT8) value *= s.w.scale[p.row];
    if (s.bias) value += s.bias[p.row];
    ((float *)s.y)[p.at] = value;
}

/* ---- the kernel ---- */

/* A warp's position: a stage of a share of a row block. */
struct stand {
    int block, share, unit; /* unit: first unit of the stage in the share */
};

EY_DEVICE bool ends_share(const struct stand &s, const struct matmul_args &a)
{
    return s.unit + a.lm_head.staged >= a.lm_head.each;
}

/* Returns the warp's next share, in the next row block if this one has none left. */
EY_DEVICE struct stand share_after(struct stand s, const struct matmul_args &a)
{
    s.unit = 0;
    s.share += (int)blockDim.x / 32;
    if (s.share >= a.lm_head.shares) {
        s.share = uniform_warp();
        s.block += (int)gridDim.x;
    }
    return s;
}

EY_DEVICE struct stand stage_after(struct stand s, const struct matmul_args &a)
{
    if (ends_share(s, a)) return share_after(s, a);
    s.unit += a.lm_head.staged;
    return s;
}

EY_DEVICE struct lm_head_stage stage_of(const struct stand &s, const struct matmul_args &a)
{
    struct lm_head_stage stage = {s.share + s.unit * a.lm_head.shares,
                                  min(a.lm_head.each - s.unit, a.lm_head.staged)};
    return stage;
}

template <int dtype, int groups> EY_DEVICE void lm_head_blocks(const struct matmul_args &a)
{
    EY_DYNAMIC_SHARED(shared);
    const struct lm_head_layout &l = a.lm_head;
    const int warp = uniform_warp();
    struct lm_head_prefetch prefetch = {
        nullptr, shared + warp * l.slots * UNIT_BYTES + lane_index() * 16, (int)blockIdx.x, warp, 0,
        0};
    lm_head_find_data(prefetch, a);
#pragma unroll 1
    for (int i = 0; i < l.slots; i++)
        lm_head_prefetch_unit(prefetch, a);

    /* everything else that does not depend on the previous kernel */
    unsigned char *sums = shared + l.sums_at;
    float *all_squares = (float *)(shared + l.squares_at), squares = 0;
    const unsigned char *ring = prefetch.ring;
    int slot = 0, sums_turn = 0;
    struct stand now = {(int)blockIdx.x, warp, 0};
    struct row_block here = find_block<1>(a, now.block);
    struct coming_x coming;
    find_coming<dtype>(coming, a, stage_of(now, a), 0);
    wait_for_previous();
    let_next_start();

    load_piece<true>(coming.raw, a, coming.piece.at);
    float sum[groups][4];
#pragma unroll 1
    while (now.block < l.n_blocks) {
        const struct lm_head_stage stage = stage_of(now, a);
        const struct stand next = stage_after(now, a);
        const bool first_block = now.block == (int)blockIdx.x, last_stage = next.block != now.block;
        const struct lm_head_staged_x staged = lm_head_find_staged<dtype, groups>(
            shared + l.x_at + (l.kept ? now.share : warp) * l.x_bytes, a);
        if (now.unit == 0) {
#pragma unroll
            for (int i = 0; i < groups * 4; i++)
                sum[i / 4][i % 4] = 0;
            squares = 0;
        }
        if (!l.kept || first_block) {
            if (!first_block || now.share != warp || now.unit) {
                find_coming<dtype>(coming, a, stage, 0);
                load_piece<true>(coming.raw, a, coming.piece.at);
            }
            lm_head_stage_x<dtype, groups>(staged, a, stage, coming);
            if (first_block) squares = lm_head_add_squares(staged, squares, stage.count, a.n);
        }
#pragma unroll 1
        for (int u = 0; u < stage.count; u++) {
            struct lm_head_weights w;
            wait_for_unit(a);
            read_unit(w, ring + slot * UNIT_BYTES);
            slot = lm_head_next_slot(slot, a);
            if ((stage.first + u * l.shares) * UNIT_CHUNKS < l.n_chunks)
                multiply_unit<dtype, groups>(sum, w, staged, u, a.n);
            lm_head_prefetch_unit(prefetch, a);
        }
        if (ends_share(now, a)) {
            share_sums<groups>((float *)(sums + sums_turn) + now.share * a.n * GEMV_TOKEN_FLOATS,
                               sum, a.n);
            if (first_block && lane_index() < a.n)
                all_squares[now.share * a.n + lane_index()] = squares;
        }
        if (last_stage) {
            __syncthreads();
            for (int o = (int)threadIdx.x; o < a.n * PACK_ROWS; o += (int)blockDim.x) {
                const struct gemv_output p = gemv_find_output(a, here, o);
                if (p.there)
                    lm_head_epilogue<dtype>(a, (const float *)(sums + sums_turn), all_squares, here,
                                            p);
            }
            if (l.sums_bytes)
                sums_turn = l.sums_bytes - sums_turn;
            else if (next.block < l.n_blocks)
                __syncthreads(); /* the sums have been read */
            if (next.block < l.n_blocks) here = find_block<1>(a, next.block);
        }
        now = next;
    }
}

/* Two blocks of threads per SM. */
#define HEAD(name, dtype)                                       \
    EY_KERNEL(name##_8, struct matmul_args, GEMV_WARPS * 32, 2) \
    {                                                           \
        lm_head_blocks<dtype, 1>(a);                            \
    }

HEAD(lm_head_bf16, K_BF16)
HEAD(lm_head_int8, K_INT8)
