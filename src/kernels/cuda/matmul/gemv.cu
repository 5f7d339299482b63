/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV (up to 8 tokens), limited by reading every weight once.
 *
 * The matrix unit multiplies: 16 weight rows are its A operand, 8 tokens its B operand. Warps of a
 * block divide the chunks of a row block (16 rows); each loads its chunks into registers, all
 * before wait_for_previous(), so that they stream in while the previous kernel still runs. A warp
 * loads the columns of x for its chunks into shared memory of its own: no other warp of the block
 * needs them. Then the warps' sums are added. Norms need no separate pass: x is multiplied by the
 * norm's weights, and the sum by the row's 1/rms.
 *
 * FP8 weights become float16 exactly, and so does x: each token's values of a chunk are multiplied
 * by a power of two that puts the largest just below float16's limit, so nothing overflows and
 * eleven bits remain. Int4 weights become float16 including their scales, each rounded once; a
 * register has quantized values i and i + 4 of eight columns, and x has the same order. BF16
 * weights are multiplied with x in BF16.
 *
 * The order in which a warp adds chunks depends only on k, so a token's result does not depend on
 * the other tokens of the call, as long as they are few: more tokens use matmul_small.cu or a GEMM,
 * a single one gemv_m1, and their sums round differently. */
#include "kernels/cuda/matmul/gemv_depth.h"
#include "kernels/cuda/matmul/gemv_reduce.cuh"

/* A lane's part of a chunk: WORDS registers of weights (or x) of one row, for STEPS matrix
 * instructions. PIECES: pieces of 8 columns in a chunk. */
template <int dtype> struct gemv_lane {
    enum {
        WORDS = dtype == K_BF16   ? 4
                : dtype == K_INT4 ? 16
                                  : 8,
        STEPS = WORDS / 2,
        PIECES = WORDS,
        COLUMNS = 8 * PIECES
    };
};

/* ---- weights ---- */

/* A warp's source: its lanes' addresses in chunk 0 of a row block, and that row block's scales. */
struct gemv_source {
    const unsigned char *data;
    const float *scale;
    const uint32_t *scale_zero; /* int4: of the lane's rows and columns */
    int scale_zero_words;       /* words from chunk to chunk */
    bool wide;
    float global_scale;
};

template <int dtype, int tiles>
EY_DEVICE void find_sources(struct gemv_source s[tiles], const struct matmul_args &a,
                            const struct row_block &b)
{
#pragma unroll
    for (int i = 0; i < tiles; i++) {
        const struct dev_matrix &w = a.segment[b.segment + i].w;
        s[i].data = (const unsigned char *)w.data +
                    (int64_t)b.number * a.layout.n_chunks * PACK_CHUNK + lane_index() * 16;
        if (dtype == K_INT4) {
            s[i].wide = w.wide_scales;
            s[i].scale_zero_words = 8 * w.groups_per_128 << w.wide_scales;
            s[i].global_scale = w.global_scale;
            s[i].scale_zero = (const uint32_t *)w.group_scales +
                              ((((int64_t)b.number * a.layout.n_chunks * 8 + lane_index() / 4) *
                                    w.groups_per_128 +
                                lane_index() % 4 * w.groups_per_128 / 4)
                               << w.wide_scales);
        }
        s[i].scale = dtype == K_FP8 ? w.scale + b.number * PACK_ROWS / SCALE_BLOCK *
                                                    ((w.cols + SCALE_BLOCK - 1) / SCALE_BLOCK)
                                    : w.scale;
    }
}

/* A lane's part of one chunk: rows g and g + 8. */
struct gemv_chunk {
    uint4 half[2];
    uint2 scale_zero; /* int4: of both rows */
};

template <int dtype>
EY_DEVICE void load_chunk(struct gemv_chunk &c, const struct gemv_source &from, int number)
{
    if (dtype == K_INT4)
        c.scale_zero = load_scale_zero(from.scale_zero + number * from.scale_zero_words, from.wide);
    c.half[0] = load_weight(from.data + (int64_t)number * PACK_CHUNK);
    c.half[1] = load_weight(from.data + (int64_t)number * PACK_CHUNK + PACK_CHUNK / 2);
}

/* Loads the scales of all chunks that a warp holds, first, first + stride .., one per lane: lane
 * tiles·d + i has that of chunk d of tile i. */
template <int dtype, int tiles>
EY_DEVICE float load_scales(const struct gemv_source from[tiles], int depth, int first, int stride,
                            int n_chunks)
{
    int d = lane_index() / tiles, number = first + d * stride;
    if (dtype != K_FP8 || d >= depth || number >= n_chunks) return 1.0f;
    const float *scale = tiles == 1 || lane_index() % tiles == 0 ? from[0].scale
                                                                 : from[tiles - 1].scale;
    return scale[number * PACK_BYTES / SCALE_BLOCK];
}

/* Converts eight quantized values to four float16 pairs. 1024 + v is a float16 whose last bits are
 * v. */
EY_DEVICE void int4_f16_pairs(uint32_t out[4], uint32_t quantized, uint32_t scale_zero)
{
    const uint32_t scale = (scale_zero & 0xffffu) * 0x10001u,
                   minus = (0xe400u | scale_zero >> 16) * 0x10001u;
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = f16_pair_mul(
            f16_pair_add(((quantized >> (4 * i)) & 0x000f000fu) | 0x64006400u, minus), scale);
}

template <int dtype>
EY_DEVICE void gemv_weight_pairs(uint32_t out[gemv_lane<dtype>::WORDS], const struct gemv_chunk &c,
                                 int half, bool wide)
{
    const uint32_t in[4] = {c.half[half].x, c.half[half].y, c.half[half].z, c.half[half].w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == K_INT4)
            int4_f16_pairs(out + 4 * i, in[i], scale_zero_of_row(c.scale_zero, half, wide));
        else if (dtype == K_FP8)
            e4m3_f16_pairs(out + 2 * i, in[i]);
        else
            out[i] = in[i];
    }
}

/* ---- x ----
 *
 * In shared memory a chunk's columns of one token are PIECES pieces of 8 columns, 16 bytes each;
 * lane t of a token's four reads four (int4), two (FP8) or one (BF16). For int4 and FP8, odd tokens
 * have neighboring groups of four places swapped, so that lanes that read together read from
 * different banks. */
template <int dtype>
EY_DEVICE unsigned char *piece_of_x(unsigned char *x, int item, int token, int piece)
{
    enum { EACH = gemv_lane<dtype>::PIECES / 4 }; /* pieces of a lane */
    int place = dtype == K_BF16 ? piece : (((piece % EACH) ^ (token & 1)) << 2) + piece / EACH;
    return x + (item * gemv_lane<dtype>::PIECES + place) * 16;
}

/* Returns the columns in the order of int4_f16_pairs(). */
EY_DEVICE struct float8 beside_four_on(const struct float8 &e)
{
    struct float8 out = {{e.v[0], e.v[4], e.v[1], e.v[5], e.v[2], e.v[6], e.v[3], e.v[7]}};
    return out;
}

/* x of some of a warp's chunks in shared memory, followed by [ahead, tokens] scales and [ahead, n]
 * sums of squares. */
struct gemv_staged_x {
    unsigned char *x;
    float *scale, *squares;
};

template <int dtype, int groups>
EY_DEVICE struct gemv_staged_x gemv_find_staged(unsigned char *warp_shared, int ahead, int n)
{
    struct gemv_staged_x s;
    s.x = warp_shared;
    s.scale = (float *)(warp_shared + ahead * n * gemv_lane<dtype>::COLUMNS * 2);
    s.squares = s.scale + ahead * groups * 8;
    return s;
}

/* The chunks that are staged together: first, first + stride .. */
struct gemv_stage {
    int first, stride, count;
};

/* A lane's load: 8 columns of one chunk and token. Pieces have the order [token, chunk, place in
 * the chunk]; a warp loads 32 at a time. */
struct gemv_piece {
    int item; /* token and chunk */
    int at;   /* offset in x; -1 if it does not exist */
};

EY_DEVICE int gemv_piece_token(const struct gemv_piece &p, const struct matmul_args &a)
{
    return p.item >> a.layout.log_ahead;
}

EY_DEVICE int gemv_piece_chunk(const struct gemv_piece &p, const struct matmul_args &a)
{
    return p.item & ((1 << a.layout.log_ahead) - 1);
}

template <int dtype>
EY_DEVICE int gemv_piece_column(const struct gemv_piece &p, const struct matmul_args &a,
                                const struct gemv_stage &s)
{
    return (s.first + gemv_piece_chunk(p, a) * s.stride) * gemv_lane<dtype>::COLUMNS +
           lane_index() % gemv_lane<dtype>::PIECES * 8;
}

template <int dtype>
EY_DEVICE struct gemv_piece gemv_find_piece(const struct matmul_args &a, const struct gemv_stage &s,
                                            int first_item)
{
    struct gemv_piece p = {first_item + lane_index() / gemv_lane<dtype>::PIECES, -1};
    int token = gemv_piece_token(p, a), column = gemv_piece_column<dtype>(p, a, s);
    if (token < a.n && gemv_piece_chunk(p, a) < s.count && column < a.k)
        p.at = (a.gather ? a.gather[token] : token) * a.ldx + column;
    return p;
}

template <int dtype, int groups, bool rms>
EY_DEVICE void gemv_store_piece(const struct gemv_staged_x &s, const struct matmul_args &a,
                                const struct gemv_piece &p, const struct raw_piece<rms> &raw,
                                const struct float8 &norm)
{
    enum { PIECES = gemv_lane<dtype>::PIECES };
    struct float8 e = rms ? float8_of(raw.half[0], raw.half[rms]) : float8_of_bf16(raw.half[0]);
    float squares = 0, scale = 1;
    if (rms) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            squares += e.v[i] * e.v[i];
            e.v[i] *= norm.v[i];
        }
        squares = sum_of_pieces<PIECES>(squares);
    }
    if (dtype == K_INT4) e = beside_four_on(e);
    uint4 out = dtype == K_BF16 ? rms ? float8_to_bf16(e) : raw.half[0]
                                : scaled_f16<PIECES>(e, &scale);
    const int token = gemv_piece_token(p, a), chunk = gemv_piece_chunk(p, a);
    if (token >= a.n) return;
    *(uint4 *)piece_of_x<dtype>(s.x, chunk * a.n + token, token, lane_index() % PIECES) = out;
    if (lane_index() % PIECES) return;
    if (dtype != K_BF16) s.scale[chunk * groups * 8 + token] = scale;
    if (rms) s.squares[chunk * a.n + token] = squares;
}

/* Stages the chunks' x for all tokens. The lane's first piece is already in flight; each further
 * piece is loaded while the one before it is processed. */
template <int dtype, int groups, bool rms>
EY_DEVICE void gemv_stage_x(const struct gemv_staged_x &staged, const struct matmul_args &a,
                            const struct gemv_stage &s, struct gemv_piece p,
                            struct raw_piece<rms> raw, const struct float8 &norm)
{
    enum { ITEMS = 32 / gemv_lane<dtype>::PIECES };
    const int items = a.n << a.layout.log_ahead;
    struct raw_piece<rms> next_raw = raw;
    struct gemv_piece next = p;
    __syncwarp(); /* all lanes have read the old contents */
#pragma unroll 1
    for (int item = ITEMS;; item += ITEMS) {
        if (item < items) {
            next = gemv_find_piece<dtype>(a, s, item);
            load_piece<rms>(next_raw, a, next.at);
        }
        gemv_store_piece<dtype, groups, rms>(staged, a, p, raw, norm);
        if (item >= items) break;
        p = next;
        raw = next_raw;
    }
    __syncwarp();
}

/* Lane i < n returns `sum` plus the squares of token i in the staged chunks, added one after the
 * other. */
EY_DEVICE float gemv_add_squares(const struct gemv_staged_x &s, float sum, int count, int n)
{
    for (int c = 0; c < count && lane_index() < n; c++)
        sum += s.squares[c * n + lane_index()];
    return sum;
}

/* ---- matmul ---- */

/* Loads a lane's columns of x of one token. */
template <int dtype>
EY_DEVICE void gemv_read_x(uint32_t x[gemv_lane<dtype>::WORDS], const struct gemv_staged_x &s,
                           int item, int token, bool there)
{
#pragma unroll
    for (int i = 0; i < gemv_lane<dtype>::WORDS / 4; i++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        int piece = lane_index() % 4 * (gemv_lane<dtype>::WORDS / 4) + i;
        if (there) v = *(const uint4 *)piece_of_x<dtype>(s.x, item, token, piece);
        x[4 * i] = v.x;
        x[4 * i + 1] = v.y;
        x[4 * i + 2] = v.z;
        x[4 * i + 3] = v.w;
    }
}

/* sum[groups][4] += (a chunk's rows) · x. `place`: index of the chunk among the staged ones. The
 * sums of missing tokens are undefined. */
template <int dtype, int groups>
EY_DEVICE void gemv_multiply_chunk(float sum[groups][4], const struct gemv_chunk &c,
                                   float chunk_scale, bool wide, const struct gemv_staged_x &s,
                                   int place, int n)
{
    enum { WORDS = gemv_lane<dtype>::WORDS };
    uint32_t upper[WORDS], lower[WORDS], x[WORDS];
    gemv_weight_pairs<dtype>(upper, c, 0, wide);
    gemv_weight_pairs<dtype>(lower, c, 1, wide);
#pragma unroll
    for (int i = 0; i < groups; i++) {
        int token = 8 * i + lane_index() / 4, result = 8 * i + lane_index() % 4 * 2;
        float product[4] = {0, 0, 0, 0}, scale[2] = {1, 1};
        gemv_read_x<dtype>(x, s, place * n + token, token, token < n);
        if (dtype != K_BF16) {
            float2 f = *(const float2 *)(s.scale + place * groups * 8 + result);
            scale[0] = chunk_scale * f.x;
            scale[1] = chunk_scale * f.y;
        }
#pragma unroll
        for (int step = 0; step < gemv_lane<dtype>::STEPS; step++) {
            const uint32_t a[4] = {upper[2 * step], lower[2 * step], upper[2 * step + 1],
                                   lower[2 * step + 1]};
            if (dtype == K_BF16)
                mma_bf16(product, a, x[2 * step], x[2 * step + 1]);
            else
                mma_f16(product, a, x[2 * step], x[2 * step + 1]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[i][e] += dtype == K_BF16 ? product[e] : scale[e % 2] * product[e];
    }
}

/* ---- sums of warps ----
 *
 * A warp's sums are [tiles, tokens, GEMV_TOKEN_FLOATS] in its shared memory. */

EY_DEVICE float gemv_silu(float v)
{
    return __fdividef(v, 1.0f + exp2_fast(-1.44269504f * v));
}

/* ---- results ---- */

/* Loads the old value of y early, since it is needed last. */
EY_DEVICE float value_before(const struct matmul_args &a, const struct row_block &b,
                             const struct gemv_output &p)
{
    return p.there ? load_fresh_float((const float *)a.segment[b.segment].y + p.at) : 0.0f;
}

/* The block's sums to be reduced. */
struct gemv_reduction {
    const float *sums;    /* of the first warp */
    const float *squares; /* [warps, n] */
};

template <int dtype, int groups, bool rms, int out>
EY_DEVICE void gemv_epilogue(const struct matmul_args &a, const struct gemv_reduction &m,
                             const struct row_block &b, const struct gemv_output &p, float before)
{
    const struct matmul_segment &s = a.segment[b.segment];
    const float *sums = m.sums + p.token * GEMV_TOKEN_FLOATS + p.row % PACK_ROWS,
                *of_row = m.squares + p.token;
    float value = 0, up = 0, squares = 0;
    const int warps = (int)blockDim.x / 32;
#pragma unroll 4
    for (int w = 0; w < warps; w++, sums += a.layout.warp_bytes / 4, of_row += a.n) {
        value += sums[0];
        if (out == EPI_SILU) up += sums[8 * groups * GEMV_TOKEN_FLOATS];
        if (rms) squares += of_row[0];
    }
    const float factor = rms ? rsqrtf(squares * a.layout.one_over_k + a.eps) : 1.0f;
    value *= factor;
    if (dtype == K_FP8) {
        value *= row_scale_of(s.w, p.row);
        if (out == EPI_SILU) up *= row_scale_of(a.segment[b.segment + 1].w, p.row);
    }
    if (out == EPI_SILU) {
        ((bf16 *)s.y)[p.at] = bf16_of(gemv_silu(value) * (up * factor));
    } else {
        if (s.bias) value += s.bias[p.row];
        ((float *)s.y)[p.at] = before + value;
    }
}

/* ---- the kernel ---- */

template <int dtype, int groups, bool rms, int out>
EY_DEVICE void gemv_block(const struct matmul_args &a)
{
    enum { TILES = out == EPI_SILU ? 2 : 1, DEPTH = GEMV_DEPTH(dtype, groups, out) };
    static_assert(!rms || DEPTH * gemv_lane<dtype>::PIECES <= 32, "load_norm()");
    EY_DYNAMIC_SHARED(shared);
    let_next_start();
    const struct gemv_layout &l = a.layout;
    const int warp = uniform_warp(), warps = (int)blockDim.x / 32, n_chunks = l.n_chunks,
              ahead = 1 << l.log_ahead;

    struct gemv_source from[TILES];
    struct gemv_chunk held[DEPTH][TILES];
    const struct row_block here = find_block<TILES>(a, (int)blockIdx.x);
    find_sources<dtype, TILES>(from, a, here);
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
#pragma unroll
        for (int i = 0; i < TILES; i++)
            if (warp + d * warps < n_chunks)
                load_chunk<dtype>(held[d][i], from[i], warp + d * warps);
    }
    float scales = load_scales<dtype, TILES>(from, DEPTH, warp, warps, n_chunks),
          next_scales = scales;
    __syncwarp(); /* keeps the loads from being delayed */

    /* everything that does not depend on the previous kernel */
    unsigned char *warp_shared = shared + warp * l.warp_bytes;
    float *sums = (float *)warp_shared, *shared_squares = (float *)(shared + warps * l.warp_bytes),
          squares = 0;
    const struct gemv_staged_x staged = gemv_find_staged<dtype, groups>(warp_shared, ahead, a.n);
    const struct gemv_reduction reduction = {(const float *)shared, shared_squares};
    struct gemv_stage stage = {warp, warps, DEPTH < ahead ? DEPTH : ahead};
    struct gemv_piece piece = gemv_find_piece<dtype>(a, stage, 0);
    struct float8 norm = {{0}};
    if (rms) norm = load_norm8(a, gemv_piece_column<dtype>(piece, a, stage));
    const struct gemv_output mine = gemv_find_output(a, here, (int)threadIdx.x);
    wait_for_previous();

    struct raw_piece<rms> raw;
    load_piece<rms>(raw, a, piece.at);
    float before = out == EPI_ADD ? value_before(a, here, mine) : 0.0f;
    float sum[TILES][groups][4];
#pragma unroll
    for (int i = 0; i < TILES * groups * 4; i++)
        sum[i / (4 * groups)][i / 4 % groups][i % 4] = 0;

#pragma unroll 1
    for (int round = 0; round < l.rounds; round++) {
        const bool last = round + 1 == l.rounds;
        const int now = warp + round * DEPTH * warps, next = now + DEPTH * warps;
        if (!last) next_scales = load_scales<dtype, TILES>(from, DEPTH, next, warps, n_chunks);
#pragma unroll 1
        for (int first = 0; first < DEPTH; first += ahead) {
            if (now + first * warps < n_chunks) {
                stage.first = now + first * warps;
                stage.count = DEPTH - first < ahead ? DEPTH - first : ahead;
                if (round || first) {
                    piece = gemv_find_piece<dtype>(a, stage, 0);
                    load_piece<rms>(raw, a, piece.at);
                    if (rms) norm = load_norm8(a, gemv_piece_column<dtype>(piece, a, stage));
                }
                gemv_stage_x<dtype, groups, rms>(staged, a, stage, piece, raw, norm);
                if (rms) squares = gemv_add_squares(staged, squares, stage.count, a.n);
            }
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                if (d < first || d >= first + ahead) continue;
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    const float scale = dtype == K_FP8    ? shuffle(scales, d * TILES + i)
                                        : dtype == K_INT4 ? from[i].global_scale
                                                          : 1.0f;
                    if (now + d * warps < n_chunks)
                        gemv_multiply_chunk<dtype, groups>(sum[i], held[d][i], scale, from[i].wide,
                                                           staged, d - first, a.n);
                    if (!last && next + d * warps < n_chunks)
                        load_chunk<dtype>(held[d][i], from[i], next + d * warps);
                }
            }
        }
        scales = next_scales;
    }

    __syncwarp(); /* the sums overwrite x */
#pragma unroll
    for (int i = 0; i < TILES; i++)
        share_sums<groups>(sums + i * 8 * groups * GEMV_TOKEN_FLOATS, sum[i], a.n);
    if (rms && lane_index() < a.n) shared_squares[warp * a.n + lane_index()] = squares;
    __syncthreads();
    for (int o = (int)threadIdx.x; o < a.n * PACK_ROWS; o += (int)blockDim.x) {
        const struct gemv_output p = gemv_find_output(a, here, o);
        if (out == EPI_ADD && o != (int)threadIdx.x) before = value_before(a, here, p);
        if (p.there) gemv_epilogue<dtype, groups, rms, out>(a, reduction, here, p, before);
    }
}

/* Returns the launch bound, in threads per block, that gives each thread n registers. n is a
 * trade-off of more blocks per SM, and room for the next kernel's blocks, against more weights in
 * flight. */
#define REGISTERS(n) (65536 / (n) / 128 * 128)
#define GEMV(name, dtype, groups, rms, out, registers)           \
    EY_KERNEL(name, struct matmul_args, REGISTERS(registers), 1) \
    {                                                            \
        gemv_block<dtype, groups, rms, out>(a);                  \
    }

GEMV(gemv_fp8_rms_f32_8, K_FP8, 1, true, EPI_F32, 96)
GEMV(gemv_fp8_rms_silu_8, K_FP8, 1, true, EPI_SILU, 128)
GEMV(gemv_fp8_act_add_8, K_FP8, 1, false, EPI_ADD, 96)

GEMV(gemv_int4_rms_f32_8, K_INT4, 1, true, EPI_F32, 128)
GEMV(gemv_int4_rms_silu_8, K_INT4, 1, true, EPI_SILU, 128)
GEMV(gemv_int4_act_add_8, K_INT4, 1, false, EPI_ADD, 128)

GEMV(gemv_bf16_rms_silu_8, K_BF16, 1, true, EPI_SILU, 168)
GEMV(gemv_bf16_act_add_8, K_BF16, 1, false, EPI_ADD, 128)
