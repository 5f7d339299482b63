/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of up to 64 rows of x (tokens) with packed weights: FP8, BF16, int8 or int4.
 *
 * arrange_rows converts x once into the order of the matrix unit, and each block of threads has all
 * tokens: weights are read once, and the work for x does not grow with the rows of weights (in
 * gemv.cu, x is converted again for each 16 rows).
 *
 * Weights are the left operand. They are converted for the matrix unit in registers:
 *
 * FP8: sign and seven bits of an e4m3, moved to their places in BF16, are 2^-120 of the value, also
 * for subnormals. x is multiplied by SMALL_X_FACTOR and the scales by the rest of 2^120, so weights
 * need no multiplication. x may be up to 2^63. Sums are in units of the block scale at hand (struct
 * running_scale). BF16: not converted. Int8: float16, exactly; the row's scale multiplies the sum.
 * Int4: float16 times the scale of its group. Where weights are float16, x is too, times a power of
 * two for each token that puts its largest number just below float16's limit.
 *
 * A tile's columns may be split over several blocks of threads. The last one to arrive adds up all
 * their parts, always in the same order. */
#include "kernels/cuda/common/matrix_element.cuh"
#include "kernels/cuda/matmul/matmul_small_join.cuh"

#define SMALL_X_FACTOR 0x1p64f
#define SMALL_W_FACTOR 0x1p56f

/* ---- x → arranged ----
 *
 * Arranged x is [k / 64][tokens][64] of BF16 or float16. Units 2s and 2s + 1, of 16 bytes each,
 * belong to step s: each has two columns for each of the lanes t = 0..3, in the order in which the
 * lane's weights come out of their registers:
 *
 * FP8 and int8: a lane's 16 weights are columns 16t .. 16t+15, of which word s is 4s .. 4s+3; FP8's
 * moved bits give pairs (0, 2) and (1, 3), int8's (0, 1) and (2, 3). BF16: columns 8t + 4 (s % 2)
 * .. +3 of chunk s / 2, in pairs of neighbors. Int4: 64 columns are half of a chunk of 128, of
 * which a lane has the 16 from 32t + 16 half on; a word's eight come as pairs (i, i + 4). Units are
 * swizzled by token for load_matrices(). */

EY_DEVICE bool arranges_f16(const struct arrange_args &a)
{
    return a.dtype == K_INT8 || a.dtype == K_INT4;
}

/* Return lane t's first column in the units of piece i, and the distance from there to its second
 * pair of columns. */
EY_DEVICE int arranged_column(const struct arrange_args &a, int i, int t)
{
    const int block = i / 4, s = i % 4;
    if (a.dtype == K_BF16) return block * 64 + s / 2 * 32 + 8 * t + s % 2 * 4;
    if (a.dtype != K_INT4) return block * 64 + 16 * t + 4 * s;
    return block / 2 * 128 + 32 * t + block % 2 * 16 + s / 2 * 8 + s % 2 * 2;
}

EY_DEVICE int arranged_second(const struct arrange_args &a)
{
    return a.dtype == K_INT4 ? 4 : 2;
}

EY_DEVICE float2 arrange_pair(const struct arrange_args &a, int64_t row, int column)
{
    if (a.norm) return *(const float2 *)((const float *)a.x + row + column);
    const uint32_t v = *(const uint32_t *)((const bf16 *)a.x + row + column);
    return make_float2(bf16_low(v), bf16_high(v));
}

/* Loads two columns of x from `column` on, and two from column + second on. */
EY_DEVICE float4 arrange_load(const struct arrange_args &a, int64_t row, int column, int second)
{
    if (column >= a.k) return make_float4(0, 0, 0, 0);
    const float2 v = arrange_pair(a, row, column), w = arrange_pair(a, row, column + second);
    return make_float4(v.x, v.y, w.x, w.y);
}

/* Loads the norm's weights of these columns. */
EY_DEVICE float4 arrange_weights(const struct arrange_args &a, int column, int second)
{
    if (!a.norm || column >= a.k) return make_float4(1, 1, 1, 1);
    const float2 v = *(const float2 *)(a.norm + column),
                 w = *(const float2 *)(a.norm + column + second);
    return make_float4(v.x, v.y, w.x, w.y);
}

/* A token's factors: 1/rms, and a factor that its scale undoes. */
struct arranged_row {
    float rms, factor, scale;
};

/* Returns the sum of squares and the maximum of the block's token. */
EY_DEVICE float2 arrange_sums(const struct arrange_args &a, int64_t row)
{
    __shared__ float shared[2][ARRANGE_THREADS / 32];
    float2 sums = make_float2(0, 0);
    for (int c = (int)threadIdx.x * 4; c < a.k; c += ARRANGE_THREADS * 4) {
        const float4 v = arrange_load(a, row, c, 2), w = arrange_weights(a, c, 2);
        sums.x += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        sums.y = fmaxf(sums.y, fmaxf(fmaxf(fabsf(v.x * w.x), fabsf(v.y * w.y)),
                                     fmaxf(fabsf(v.z * w.z), fabsf(v.w * w.w))));
    }
    sums.x = warp_sum(sums.x);
    sums.y = warp_max(sums.y);
    if (lane_index() == 0) {
        shared[0][warp_index()] = sums.x;
        shared[1][warp_index()] = sums.y;
    }
    __syncthreads();
    sums = make_float2(0, 0);
    for (int i = 0; i < ARRANGE_THREADS / 32; i++)
        sums = make_float2(sums.x + shared[0][i], fmaxf(sums.y, shared[1][i]));
    return sums;
}

EY_DEVICE struct arranged_row arrange_row(const struct arrange_args &a, int64_t row)
{
    struct arranged_row r = {1.f, a.dtype == K_FP8 ? SMALL_X_FACTOR : 1.f, 1.f};
    if (!a.norm && !arranges_f16(a)) return r;
    const float2 sums = arrange_sums(a, row);
    if (a.norm) r.rms = 1.f / sqrtf(sums.x / (float)a.k + a.eps);
    if (!arranges_f16(a)) return r;
    uint32_t exponent = float_bits(sums.y * r.rms) >> 23;
    if (exponent < 30) exponent = 30;
    r.factor = bits_float((268 - exponent) << 23); /* puts the largest at 2^14 .. 2^15 */
    r.scale = bits_float((exponent - 14) << 23);
    return r;
}

EY_DEVICE uint32_t arranged_pair(const struct arrange_args &a, float low, float high)
{
    return arranges_f16(a) ? f16_pair(low, high) : bf16_pair(low, high);
}

/* One block of threads per token; missing tokens are zeros. */
EY_KERNEL(arrange_rows, struct arrange_args, ARRANGE_THREADS, 4)
{
    const int token = (int)blockIdx.x, second = arranged_second(a),
              pieces = a.dtype == K_BF16 ? (a.k + 63) / 64 * 4 : (a.k + 127) / 128 * 8;
    const bool there = token < a.n, turns = a.dtype == K_FP8 || a.dtype == K_INT4;
    float4 weights[4];
    let_next_start();
    int i = (int)threadIdx.x;
#pragma unroll
    for (int t = 0; t < 4; t++)
        weights[t] = arrange_weights(a, arranged_column(a, i, t), second);
    wait_for_previous();
    const int64_t row = (int64_t)(there && a.gather ? a.gather[token] : token) * a.ldx;
    struct arranged_row r = {0, 0, 0};
    if (there) r = arrange_row(a, row);
    if (a.scale && threadIdx.x == 0) a.scale[token] = r.scale;
    while (i < pieces) {
        const int unit = i % 4 * 2;
        bf16 *to = a.y + ((int64_t)(i / 4) * a.tokens + token) * 64;
        uint32_t first[4], other[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            float4 v = make_float4(0, 0, 0, 0);
            if (there) v = arrange_load(a, row, arranged_column(a, i, t), second);
            v = make_float4(
                weights[t].x * (v.x * r.rms) * r.factor, weights[t].y * (v.y * r.rms) * r.factor,
                weights[t].z * (v.z * r.rms) * r.factor, weights[t].w * (v.w * r.rms) * r.factor);
            first[t] = arranged_pair(a, v.x, turns ? v.z : v.y);
            other[t] = arranged_pair(a, turns ? v.y : v.z, v.w);
        }
        *(uint4 *)(to + (unit ^ (token % 8)) * 8) = make_uint4(first[0], first[1], first[2],
                                                               first[3]);
        *(uint4 *)(to + ((unit + 1) ^ (token % 8)) * 8) = make_uint4(other[0], other[1], other[2],
                                                                     other[3]);
        i += ARRANGE_THREADS;
#pragma unroll
        for (int t = 0; t < 4; t++)
            weights[t] = arrange_weights(a, arranged_column(a, i, t), second);
    }
}

/* ---- the matmul ---- */

template <int DTYPE, int TOKENS> struct small_shape {
    enum {
        dtype = DTYPE,
        fp8 = DTYPE == K_FP8,
        threads = SMALL_THREADS,
        rows = SMALL_TILE,
        tokens = TOKENS,
        warp_rows = SMALL_TILE, /* staged together: all of the block's sums */
        warp_tokens = TOKENS,
        m_tiles = 2,
        n_tiles = TOKENS / 8,
        staged_row = SMALL_STAGED_ROW,
        adds_in_memory = 1,
        chunks = SMALL_CHUNKS(DTYPE), /* chunks of 16 rows in a stage */
        steps = DTYPE == K_BF16 ? 2 : 4,
        units = chunks * 64, /* 16-byte units of 16 rows in a stage */
        w_bytes = SMALL_W_BYTES(DTYPE),
        x_bytes = SMALL_X_BYTES(DTYPE, TOKENS),
        stage_bytes = w_bytes + x_bytes,
        stages = SMALL_STAGES(DTYPE, TOKENS),
        w_pieces = w_bytes / (SMALL_THREADS * 16), /* 16-byte pieces of a thread */
    };
    static_assert((int)SMALL_HALVES * TOKENS * SMALL_STAGED_ROW * 4 <= SMALL_SHARED(DTYPE, TOKENS),
                  "sums reuse the memory of the stages");
};

template <class S> EY_DEVICE struct gemm_place small_place(const struct small_matmul_args &a)
{
    struct gemm_place p = gemm_place_of<S>(a.matmul, (int)blockIdx.x);
    p.n_chunks = (a.matmul.k + SMALL_CHUNK_COLUMNS(S::dtype) - 1) / SMALL_CHUNK_COLUMNS(S::dtype);
    return p;
}

/* A thread's part of each stage: 16 bytes of some of the blocks of rows, from `w` on, and of x,
 * from `x` on. */
template <class S> struct small_share {
    const uint8_t *w[S::w_pieces], *x;
    int chunk; /* chunk of a stage */
};

template <class S>
EY_DEVICE struct small_share<S> small_find_share(const struct small_matmul_args &a,
                                                 const struct gemm_place &p) {
    const int thread = (int)threadIdx.x, unit = thread % S::units, first = thread / S::units;
    struct small_share<S> s;
#pragma unroll
    for (int i = 0; i < S::w_pieces; i++) {
        int u = first + i * (SMALL_THREADS / S::units), /* gate and up alternate */
            block = min(p.first_block + (p.paired ? u / 2 : u), p.blocks - 1);
        s.w[i] = (first % 2 ? p.w[1] : p.w[0]) + (int64_t)block * p.n_chunks * PACK_CHUNK +
                 unit * 16;
    }
    s.x = (const uint8_t *)a.matmul.x + thread * 16;
    s.chunk = unit / 64;
    return s;
}

/* Copies the thread's weights of a stage. If the number of chunks is odd, the chunk beyond the last
 * is filled with zeros. */
template <class S>
EY_DEVICE void small_copy_weights(const struct gemm_place &p, const struct small_share<S> &s,
                                  unsigned char *stage, int block)
{
    const bool there = S::chunks * block + s.chunk < p.n_chunks;
    const int64_t at = there ? (int64_t)block * (S::chunks * PACK_CHUNK) : 0;
    unsigned char *to = stage + (int)threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < S::w_pieces; i++)
        copy_async(to + i * (SMALL_THREADS * 16), s.w[i] + at - (there ? 0 : s.chunk * PACK_CHUNK),
                   there ? 16 : 0);
}

/* ---- scales ----
 *
 * FP8: of the block at hand (struct running_scale). Int4: a word for rows g and g + 8 of each block
 * of 16 rows, of this lane's columns in the chunk at hand. */
template <class S> struct small_scales {
    struct running_scale block[2];
    const float *row[2];
    const uint32_t *words[2];
    int per; /* words of a row of a chunk */
    bool wide[2];
    uint2 word[2], next_word[2];
};

/* Loads the scales of chunk q. */
template <class S>
EY_DEVICE uint2 small_next_word(const struct small_scales<S> &s, int m, int q, int end)
{
    if (q >= end) return make_uint2(0, 0);
    return load_scale_zero(s.words[m] + (q * 8 * s.per << s.wide[m]), s.wide[m]);
}

template <class S>
EY_DEVICE void small_find_scales(struct small_scales<S> &s, const struct small_matmul_args &a,
                                 const struct gemm_place &p, int begin, int end)
{
    const int blocks = (a.matmul.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        if (S::dtype == K_FP8) {
            s.row[m] = p.scale[m] + (int64_t)(p.first_block * PACK_ROWS / SCALE_BLOCK) * blocks;
            s.block[m] = (struct running_scale){1.f, scale_at(s.row[m], begin, end), 0};
        }
        if (S::dtype == K_INT4) {
            const struct dev_matrix &w = small_matrix(a.matmul, p, m);
            s.per = w.groups_per_128;
            s.wide[m] = w.wide_scales;
            s.words[m] = (const uint32_t *)w.group_scales +
                         ((((int64_t)small_row_block(p, m) * p.n_chunks * 8 + lane_index() / 4) *
                               s.per +
                           lane_index() % 4 * s.per / 4)
                          << s.wide[m]);
            s.next_word[m] = small_next_word<S>(s, m, begin, end);
        }
    }
}

/* Enters stage q: returns the factor for the sums so far, and masks that are 0 for FP8 weights that
 * count as zeros. */
template <class S>
EY_DEVICE void small_enter_scales(struct small_scales<S> &s, float by[2], uint32_t mask[2], int q,
                                  int end)
{
#pragma unroll
    for (int m = 0; m < 2; m++) {
        by[m] = 1.f;
        mask[m] = ~0u;
        if (S::dtype == K_FP8) {
            by[m] = next_block_scale(&s.block[m]);
            mask[m] = s.block[m].factor ? ~0u : 0u;
            s.block[m].next = scale_at(s.row[m], q + 1, end);
        }
        if (S::dtype == K_INT4) {
            s.word[m] = s.next_word[m];
            s.next_word[m] = small_next_word<S>(s, m, q + 1, end);
        }
    }
}

/* Returns the final factor of the sums of row `row` of the m-th block of 16 rows. */
template <class S>
EY_DEVICE float small_row_scale(const struct small_scales<S> &s, const struct small_matmul_args &a,
                                const struct gemm_place &p, int m, int row)
{
    const struct dev_matrix &w = small_matrix(a.matmul, p, m);
    if (S::dtype == K_FP8)
        return s.block[m].current * SMALL_W_FACTOR *
               row_scale_of(w, small_row_block(p, m) * PACK_ROWS + row);
    if (S::dtype == K_INT4) return w.global_scale;
    if (S::dtype == K_INT8)
        return w.scale[min(small_row_block(p, m) * PACK_ROWS + row, w.rows - 1)];
    return 1.f;
}

template <class S>
EY_DEVICE void small_finish_sums(float sum[2][S::n_tiles][4], const struct small_scales<S> &s,
                                 const struct small_matmul_args &a, const struct gemm_place &p)
{
    const int g = lane_index() / 4, t = lane_index() % 4;
#pragma unroll
    for (int m = 0; m < (S::dtype == K_BF16 ? 0 : 2); m++) {
        const float row[2] = {small_row_scale<S>(s, a, p, m, g),
                              small_row_scale<S>(s, a, p, m, g + 8)};
#pragma unroll
        for (int j = 0; j < S::n_tiles; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (S::dtype != K_FP8)
                    sum[m][j][e] *= load_fresh_float(a.x_scale + 8 * j + 2 * t + e % 2);
                sum[m][j][e] *= row[e / 2];
            }
    }
}

/* ---- a stage ---- */

/* Converts four FP8 weights to two BF16 pairs, times 2^-120; `mask` is 0 if they count as zeros. */
EY_DEVICE void small_weight_pairs(uint32_t &even, uint32_t &odd, uint32_t four, uint32_t mask)
{
    const uint32_t code = 0x07f007f0u & mask, sign = 0x80008000u & mask;
    even = (four << 4 & code) | (four << 8 & sign);
    odd = (four >> 4 & code) | (four & sign);
}

/* Converts values i and i + 4 of eight to a float16 pair. 1024 + v is a float16 whose last bits are
 * v. */
EY_DEVICE uint32_t small_int4_pair(uint32_t eight, int i, uint32_t scale_zero)
{
    const uint32_t scale = (scale_zero & 0xffffu) * 0x10001u,
                   minus = (0xe400u | scale_zero >> 16) * 0x10001u;
    return f16_pair_mul(f16_pair_add((eight >> (4 * i) & 0x000f000fu) | 0x64006400u, minus), scale);
}

/* Reads a lane's words of a chunk, of rows g and g + 8; for int4 only the two of the warp's
 * half. */
template <class S> EY_DEVICE void small_read_weights(uint32_t raw[2][4], const unsigned char *from)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned char *at = from + half * (PACK_CHUNK / 2) + lane_index() * 16;
        if (S::dtype == K_INT4) {
            const uint2 v = *(const uint2 *)(at + warp_index() % SMALL_HALVES * 8);
            raw[half][0] = v.x;
            raw[half][1] = v.y;
            raw[half][2] = raw[half][3] = 0;
        } else {
            const uint4 v = *(const uint4 *)at;
            raw[half][0] = v.x;
            raw[half][1] = v.y;
            raw[half][2] = v.z;
            raw[half][3] = v.w;
        }
    }
}

/* Makes the left operand of step s. */
template <class S>
EY_DEVICE void small_left(uint32_t left[4], const uint32_t raw[2][4], int s, uint32_t mask,
                          const uint32_t word[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t pair[2];
        if (S::dtype == K_FP8) {
            small_weight_pairs(pair[0], pair[1], raw[half][s], mask);
        } else if (S::dtype == K_INT8) {
            int8_f16_pairs(pair, raw[half][s]);
        } else if (S::dtype == K_INT4) {
            pair[0] = small_int4_pair(raw[half][s / 2], s % 2 * 2, word[half]);
            pair[1] = small_int4_pair(raw[half][s / 2], s % 2 * 2 + 1, word[half]);
        } else {
            pair[0] = raw[half][2 * s];
            pair[1] = raw[half][2 * s + 1];
        }
        left[half] = pair[0];
        left[2 + half] = pair[1];
    }
}

template <class S>
EY_DEVICE void small_multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (S::dtype == K_INT8 || S::dtype == K_INT4)
        mma_f16(c, a, b0, b1);
    else
        mma_bf16(c, a, b0, b1);
}

/* sum = sum · by + weights · x, for a warp's 32 rows and half of a stage's columns. */
template <class S>
EY_DEVICE void small_add_stage(float sum[2][S::n_tiles][4], const unsigned char *stage,
                               const float by[2], const uint32_t mask[2],
                               const struct small_scales<S> &scales)
{
    const int lane = lane_index(), row_warp = warp_index() / SMALL_HALVES,
              half = warp_index() % SMALL_HALVES;
    const unsigned char *w = stage + row_warp * 2 * S::chunks * PACK_CHUNK +
                             (S::chunks > 1 ? half * PACK_CHUNK : 0),
                        *x = stage + S::w_bytes +
                             (S::dtype == K_BF16 ? 0 : half * (S::x_bytes / 2));
    uint32_t raw[2][2][4], word[2][2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        small_read_weights<S>(raw[m], w + m * (S::chunks * PACK_CHUNK));
        if (S::dtype == K_INT4)
#pragma unroll
            for (int i = 0; i < 2; i++)
                word[m][i] = scale_zero_of_row(scales.word[m], i, scales.wide[m]);
        if (S::dtype == K_FP8)
#pragma unroll
            for (int i = 0; i < S::n_tiles * 4; i++)
                sum[m][i / 4][i % 4] *= by[m];
    }
#pragma unroll
    for (int s = 0; s < S::steps; s++) {
        uint32_t left[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
            small_left<S>(left[m], raw[m], s, mask[m], word[m]);
#pragma unroll
        for (int j = 0; j < S::n_tiles; j += 2) {
            const int token = j * 8 + lane / 16 * 8 + lane % 8,
                      unit = (S::dtype == K_BF16 ? half * 4 : 0) + s * 2 + lane / 8 % 2;
            uint32_t right[4];
            load_matrices(right, x + token * 128 + (unit ^ (token % 8)) * 16);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                small_multiply<S>(sum[m][j], left[m], right[0], right[1]);
                small_multiply<S>(sum[m][j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* Warp (row_warp, half) has 32 rows and half of each stage's columns. */
template <class S> EY_DEVICE void small_block(const struct small_matmul_args &a)
{
    EY_DYNAMIC_SHARED(shared);
    const struct gemm_place p = small_place<S>(a);
    const struct small_share<S> share = small_find_share<S>(a, p);
    const int row_warp = warp_index() / SMALL_HALVES, half = warp_index() % SMALL_HALVES,
              blocks = small_stages(S::dtype, a.matmul.k),
              begin = (int)blockIdx.y * blocks / (int)gridDim.y,
              end = ((int)blockIdx.y + 1) * blocks / (int)gridDim.y;
    const bool has_work = p.first_block + row_warp * (p.paired ? 1 : 2) < p.blocks;

    let_next_start();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) /* weights, before the kernel that makes x has ended */
        if (begin + i < end)
            small_copy_weights<S>(p, share, shared + i * S::stage_bytes, begin + i);
    struct small_scales<S> scales;
    float sum[2][S::n_tiles][4];
    small_find_scales<S>(scales, a, p, begin, end);
    clear_sums<S>(sum);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < S::stages - 1; i++) {
        if (begin + i < end) small_copy_x<S>(share.x, shared + i * S::stage_bytes, begin + i);
        copy_commit();
    }
    for (int q = begin, stage = 0; q < end; q++) {
        const int next = q + S::stages - 1, free_stage = stage == 0 ? S::stages - 1 : stage - 1;
        float by[2];
        uint32_t mask[2];
        small_enter_scales<S>(scales, by, mask, q, end);
        copy_wait<S::stages - 2>();
        __syncthreads(); /* the stage has arrived, and nobody reads the previous one any more */
        if (next < end) {
            small_copy_weights<S>(p, share, shared + free_stage * S::stage_bytes, next);
            small_copy_x<S>(share.x, shared + free_stage * S::stage_bytes, next);
        }
        copy_commit();
        if (has_work) small_add_stage<S>(sum, shared + stage * S::stage_bytes, by, mask, scales);
        stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    copy_wait<0>();
    __syncthreads();
    small_finish_sums<S>(sum, scales, a, p);
    float *sums = (float *)shared + half * S::tokens * SMALL_STAGED_ROW + row_warp * 32;
#pragma unroll
    for (int j = 0; j < S::n_tiles; j++)
        stage_tokens<S>(sums + 8 * j * SMALL_STAGED_ROW, sum, j);
    __syncthreads();
    struct gemm_staged staged = {(float *)shared, SMALL_HALVES, p.first_block * PACK_ROWS, 0,
                                 S::tokens};
    small_write<S>(a, p, staged);
}

#define EY_SMALL_KERNEL(name, dtype, tokens)                                              \
    EY_KERNEL(matmul_small_##name##_##tokens, struct small_matmul_args, SMALL_THREADS, 2) \
    {                                                                                     \
        small_block<small_shape<dtype, tokens>>(a);                                       \
    }
EY_SMALL_KERNELS(EY_SMALL_KERNEL)
