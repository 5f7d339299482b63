/* Products of one token with FP8 or four-bit matrices: what a single answer is made of. All that counts is that weights never stop coming. So blocks of threads are
 * small and many: one has 16 rows, a packed row block, or half of one; of gate and up, as much of each. Its weights are asked for before it waits for
 * the kernel before it, and it is done soon after that; while it computes, others' weights are on their way. Sums are float32 in an order that depends on
 * the matrix alone. Chunk c of a row block belongs to warp c % warps.
 *
 * FP8 weights become float32, and so is x. Four-bit weights come twice as fast, so each must cost half as much: put into the last bits of the BF16 number 128, a code
 * makes 128 + code, and the matrix unit multiplies that with x in two BF16 parts, the nearest to x and the nearest to the rest. It has eight columns for x: they are
 * the two parts for each of the four lanes that share a row, zero where columns of x are another lane's. So a lane is given the sum over the columns that it
 * holds, to which one multiplier belongs whatever the size of groups; (128 + zero) times the sum of x is taken off. */
#include "backend/cuda/gemv1_shape.h"
#include "backend/cuda/ptx.cuh"

/* ---- x in shared memory ----
 *
 * A thread brings eight columns at a time. For FP8 they are float32, 64 to a chunk. A lane reads its 16 in four pieces; lanes t and t + 2 would meet in the same
 * banks, so the pieces of the upper two are stored in another order: piece q of lane t lies in place q ^ (t & 2).
 *
 * For int4 there are 128 to a chunk, 32 a lane, in four pieces of eight in the order of int4_bf16_pairs(), 16 bytes a part; x that is BF16 has one part. Of two, a
 * lane's second lies 64 bytes from its first, and which of them is in front is by turns: lanes that write together then write to different banks. In front of all are
 * zeros, for lanes that read nothing; behind all are sums of GEMV1_SUM columns each. */
EY_DEVICE int x_place(int column)
{
    int piece = column / 4 % 4, t = column / 16 % 4;
    return column / 16 * 16 + (piece ^ (t & 2)) * 4;
}

/* The same for int4, in bytes, of eight columns. */
template <int parts> EY_DEVICE int part_place(int column, int part)
{
    int t = column / 32, piece = column / 8 % 4;
    return GEMV1_ZEROS + (t * parts + (part ^ (parts == 2 ? t & 1 : 0))) * 64 + piece * 16;
}

EY_DEVICE float sum_of_pair(uint32_t pair)
{
    return bf16_low(pair) + bf16_high(pair);
}

/* Eight columns as BF16, in the order of int4_bf16_pairs(); they are added to *sum. */
EY_DEVICE uint4 four_pairs(float4 v, float4 w, float *sum)
{
    uint4 p = make_uint4(bf16_pair(v.x, w.x), bf16_pair(v.y, w.y), bf16_pair(v.z, w.z), bf16_pair(v.w, w.w));
    *sum += sum_of_pair(p.x) + sum_of_pair(p.y) + sum_of_pair(p.z) + sum_of_pair(p.w);
    return p;
}

/* Eight columns of x for int4; all threads of a warp call it together. The sum is of the parts and not of x: what is taken off again is what was multiplied. */
template <int parts> EY_DEVICE void put_parts(unsigned char *x, int columns, int i, float4 v, float4 w)
{
    float sum = 0;
    uint4 high = four_pairs(v, w, &sum);
    *(uint4 *)(x + part_place<parts>(i, 0)) = high;
    if (parts == 2) {
        float4 v_rest = make_float4(v.x - bf16_low(high.x), v.y - bf16_low(high.y), v.z - bf16_low(high.z), v.w - bf16_low(high.w));
        float4 w_rest = make_float4(w.x - bf16_high(high.x), w.y - bf16_high(high.y), w.z - bf16_high(high.z), w.w - bf16_high(high.w));
        *(uint4 *)(x + part_place<parts>(i, 1)) = four_pairs(v_rest, w_rest, &sum);
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (lane_index() % 4 == 0) ((float *)(x + gemv1_sums_at(columns, parts)))[i / GEMV1_SUM] = sum;
}

EY_DEVICE float squares_of(float4 v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

/* A thread asks for several columns before it uses any: a wait for each would be as long as one for all. (More at once was slower on an H200.) Columns beyond k are
 * zero; for int4 there are as many as whole warps bring. With a norm, x is float32, is multiplied by the norm's weights, and its squares are summed by warp. */
EY_DEVICE float4 normed(uint4 bits, float4 w, float *sum)
{
    float4 v = make_float4(bits_float(bits.x), bits_float(bits.y), bits_float(bits.z), bits_float(bits.w));
    *sum += squares_of(v);
    return make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
}

template <int dtype> EY_DEVICE void stage_normed(float *x, float *squares, const struct linear_args &a, int columns)
{
    const float *from = (const float *)a.x;
    float sum = 0;
    for (int i = (int)threadIdx.x * 8; i < columns; i += (int)blockDim.x * 8) {
        uint4 v0 = make_uint4(0, 0, 0, 0), v1 = v0;
        float4 w0 = make_float4(0, 0, 0, 0), w1 = w0;
        if (i < a.k) v0 = load_fresh(from + i), v1 = load_fresh(from + i + 4), w0 = *(const float4 *)(a.norm + i), w1 = *(const float4 *)(a.norm + i + 4);
        if (dtype == K_INT4) {
            float4 first = normed(v0, w0, &sum);
            put_parts<2>((unsigned char *)x, columns, i, first, normed(v1, w1, &sum));
            continue;
        }
        *(float4 *)(x + x_place(i)) = normed(v0, w0, &sum);
        *(float4 *)(x + x_place(i + 4)) = normed(v1, w1, &sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) squares[warp_index()] = sum;
}

template <int dtype> EY_DEVICE void put_plain(float *x, int columns, int i, uint4 v)
{
    if (dtype == K_INT4) {
        put_parts<1>((unsigned char *)x, columns, i, make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y)),
                     make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w)));
        return;
    }
    *(float4 *)(x + x_place(i)) = make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
    *(float4 *)(x + x_place(i + 4)) = make_float4(bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w));
}

template <int dtype> EY_DEVICE void stage_plain(float *x, const struct linear_args &a, int columns)
{
    const bf16 *from = (const bf16 *)a.x;
    int step = (int)blockDim.x * 8;
    for (int i = (int)threadIdx.x * 8; i < columns; i += 2 * step) {
        uint4 v0 = make_uint4(0, 0, 0, 0), v1 = v0;
        if (i < a.k) v0 = load_fresh(from + i);
        if (i + step < a.k) v1 = load_fresh(from + i + step);
        put_plain<dtype>(x, columns, i, v0);
        if (i + step < columns) put_plain<dtype>(x, columns, i + step, v1);
    }
}

/* ---- products ---- */

EY_DEVICE float dot4(uint32_t codes, float4 x, float sum)
{
    uint32_t pair[2];
    e4m3_f16_pairs(pair, codes);
    sum += f16_value((uint16_t)pair[0]) * x.x;
    sum += f16_value((uint16_t)(pair[0] >> 16)) * x.y;
    sum += f16_value((uint16_t)pair[1]) * x.z;
    return sum + f16_value((uint16_t)(pair[1] >> 16)) * x.w;
}

/* Eight codes as four pairs of BF16 numbers 128 + code: codes i and i + 4. */
EY_DEVICE void int4_bf16_pairs(uint32_t out[4], uint32_t codes)
{
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = ((codes >> (4 * i)) & 0x000f000fu) | 0x43004300u;
}

EY_DEVICE uint32_t word(const uint4 &v, int q)
{
    return q == 0 ? v.x : q == 1 ? v.y : q == 2 ? v.z : v.w;
}

/* Of a block of threads: a row block, or half of one, of a matrix or of each of two. */
template <int dtype, int out> struct shape {
    enum { matrices = out == OUT_SILU ? 2 : 1, halves = GEMV1_HALVES(dtype, out), rows = halves * 8, depth = GEMV1_DEPTH(dtype, out) };
};

/* A warp's chunks of one round. */
template <int dtype, int out> struct pieces {
    typedef struct shape<dtype, out> my;
    uint4 w[my::matrices][my::depth][my::halves];
    uint32_t multiplier[my::matrices][my::depth][my::halves]; /* int4 */
};

/* Where the chunks begin in each matrix. */
template <int dtype, int out> struct begins {
    typedef struct shape<dtype, out> my;
    const uint8_t *data[my::matrices];
    const float *scale[my::matrices];         /* FP8 */
    const uint16_t *multiplier[my::matrices]; /* int4: of the lane's upper row and columns */
    int per[my::matrices];                    /* of a row of a chunk */
};

template <int depth> EY_DEVICE int chunk_of(int round, int i)
{
    return (round * depth + i) * (int)(blockDim.x / 32) + warp_index();
}

template <int dtype, int out> EY_DEVICE void ask(struct pieces<dtype, out> *p, const struct begins<dtype, out> &r, int round, int n_chunks)
{
    typedef struct shape<dtype, out> my;
#pragma unroll
    for (int i = 0; i < my::depth; i++) {
        int chunk = chunk_of<my::depth>(round, i);
        const bool there = chunk < n_chunks;
        if (!there) chunk = n_chunks - 1; /* read, and not used or multiplied by zero */
#pragma unroll
        for (int m = 0; m < my::matrices; m++)
#pragma unroll
            for (int half = 0; half < my::halves; half++) {
                p->w[m][i][half] = load_weight(r.data[m] + (int64_t)chunk * PACK_CHUNK + half * (PACK_CHUNK / 2) + lane_index() * 16);
                if (dtype == K_INT4)
                    p->multiplier[m][i][half] = there ? load_weight_2(r.multiplier[m] + (chunk * PACK_ROWS + half * (PACK_ROWS / 2)) * r.per[m]) : 0;
            }
    }
}

template <int out>
EY_DEVICE void add_round(float sum[][2], const struct pieces<K_FP8, out> &p, const struct begins<K_FP8, out> &r, const float *x, int, int round, int n_chunks)
{
    typedef struct shape<K_FP8, out> my;
    int t = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < my::depth; i++) {
        int chunk = chunk_of<my::depth>(round, i);
        if (chunk >= n_chunks) continue;
        float dot[my::matrices][2] = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float4 v = *(const float4 *)(x + chunk * PACK_BYTES + t * 16 + (q ^ (t & 2)) * 4);
#pragma unroll
            for (int m = 0; m < my::matrices; m++)
#pragma unroll
                for (int half = 0; half < my::halves; half++) dot[m][half] = dot4(word(p.w[m][i][half], q), v, dot[m][half]);
        }
#pragma unroll
        for (int m = 0; m < my::matrices; m++)
#pragma unroll
            for (int half = 0; half < my::halves; half++) sum[m][half] += r.scale[m][chunk / (SCALE_BLOCK / PACK_BYTES)] * dot[m][half];
    }
}

/* sum + scale · (dot - (128 + zero) · sum of x) */
EY_DEVICE float add_group(float sum, uint32_t multiplier, float dot, float x_sum)
{
    float offset = bits_float(0x43000000u | (multiplier & 15u) << 16);
    return sum + f16_value((uint16_t)((multiplier & 0xfff0u) >> 1)) * (dot - offset * x_sum);
}

/* A chunk's upper and lower rows with x, in two chains of matrix instructions, which wait for each other. */
EY_DEVICE void multiply_chunk(float product[2][4], const uint4 rows[2], const unsigned char *x)
{
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const uint4 b = *(const uint4 *)(x + q * 16);
        uint32_t upper[4], lower[4];
        int4_bf16_pairs(upper, word(rows[0], q));
        int4_bf16_pairs(lower, word(rows[1], q));
        const uint32_t first[4] = {upper[0], lower[0], upper[1], lower[1]}, last[4] = {upper[2], lower[2], upper[3], lower[3]};
        mma_bf16(product[0], first, b.x, b.y);
        mma_bf16(product[1], last, b.z, b.w);
    }
}

template <int out>
EY_DEVICE void add_round(float sum[][2], const struct pieces<K_INT4, out> &p, const struct begins<K_INT4, out> &, const float *x, int columns, int round, int n_chunks)
{
    enum { parts = GEMV1_PARTS(out), CHUNK = 4 * parts * 64, OTHER_BANKS = 32 /* where zeros are in none that x is read from with them */ };
    typedef struct shape<K_INT4, out> my;
    const int t = lane_index() % 4, column = lane_index() / 4;
    const bool mine = column / 2 == t && column % 2 < parts;
    const unsigned char *bytes = (const unsigned char *)x, *first = bytes + (mine ? part_place<parts>(t * 32, column % 2) : OTHER_BANKS);
    const float *x_sums = (const float *)(bytes + gemv1_sums_at(columns, parts));
#pragma unroll
    for (int i = 0; i < my::depth; i++) {
        int chunk = chunk_of<my::depth>(round, i);
        if (chunk >= n_chunks) chunk = n_chunks - 1;
        const float x_sum = x_sums[chunk * 4 + t];
#pragma unroll
        for (int m = 0; m < my::matrices; m++) {
            float product[2][4] = {};
            multiply_chunk(product, p.w[m][i], first + (mine ? chunk * CHUNK : 0));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int c = half * 2; /* x's two parts */
                const float dot = (product[0][c] + product[1][c]) + (product[0][c + 1] + product[1][c + 1]);
                sum[m][half] = add_group(sum[m][half], p.multiplier[m][i][half], dot, x_sum);
            }
        }
    }
}

/* ---- a block of threads ---- */

/* Which matrix of q, k, v (or the only one) row block `block` is of, and its place in it. */
struct place {
    int segment, block;
};

EY_DEVICE struct place place_of(const struct linear_args &a, int block)
{
    struct place p = {0, block};
    for (; p.segment < a.n_segments - 1; p.segment++) {
        int n = (a.segment[p.segment].w.rows + PACK_ROWS - 1) / PACK_ROWS;
        if (p.block < n) break;
        p.block -= n;
    }
    return p;
}

template <int out> EY_DEVICE void store(const struct linear_segment &s, int row, float value, float up)
{
    if (row >= s.w.rows) return;
    if (out == OUT_SILU) {
        ((bf16 *)s.y)[row] = bf16_of(value / (1.0f + exp2_fast(-1.4426950408889634f * value)) * up);
        return;
    }
    if (s.bias) value += s.bias[row];
    float *y = (float *)s.y + row;
    if (out == OUT_ADD) add_in_memory(y, value);
    else *y = value;
}

template <int dtype, int out> EY_DEVICE void multiply(const struct linear_args &a)
{
    EY_DYNAMIC_SHARED(memory);
    typedef struct shape<dtype, out> my;
    enum { matrices = my::matrices };
    __shared__ float squares[GEMV1_WARPS], part[GEMV1_WARPS][matrices * my::rows];
    let_next_start();
    int n_chunks = gemv1_chunks(dtype, a.k), columns = gemv1_columns(dtype, a.k), warps = (int)(blockDim.x / 32), lane = lane_index();
    const int rows = my::rows, parts = PACK_ROWS / rows;
    int rounds = (n_chunks + my::depth * warps - 1) / (my::depth * warps), half = (int)blockIdx.x % parts, scales = (a.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    struct place at = place_of(a, (int)blockIdx.x / parts);
    if (out == OUT_SILU) at.segment = 0, at.block = (int)blockIdx.x / parts;
    struct begins<dtype, out> r;
#pragma unroll
    for (int m = 0; m < matrices; m++) {
        const struct dev_matrix &w = a.segment[at.segment + m].w;
        r.data[m] = (const uint8_t *)w.data + (int64_t)at.block * n_chunks * PACK_CHUNK + half * (PACK_CHUNK / 2);
        if (dtype == K_FP8) r.scale[m] = w.scale + at.block * PACK_ROWS / SCALE_BLOCK * scales;
        if (dtype == K_INT4) r.per[m] = w.per, r.multiplier[m] = w.multipliers + ((int64_t)at.block * n_chunks * PACK_ROWS + lane / 4) * w.per + lane % 4 * w.per / 4;
    }
    struct pieces<dtype, out> p;
    ask<dtype, out>(&p, r, 0, n_chunks);
    if (dtype == K_INT4 && threadIdx.x < GEMV1_ZEROS / 16) ((uint4 *)memory)[threadIdx.x] = make_uint4(0, 0, 0, 0);
    wait_for_previous();
    float *x = (float *)memory, sum[matrices][2] = {};
    if (out == OUT_ADD) stage_plain<dtype>(x, a, columns);
    else stage_normed<dtype>(x, squares, a, columns);
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (round) ask<dtype, out>(&p, r, round, n_chunks);
        add_round<out>(sum, p, r, x, columns, round, n_chunks);
    }
#pragma unroll
    for (int m = 0; m < matrices; m++)
#pragma unroll
        for (int i = 0; i < my::halves; i++) {
            float v = sum[m][i];
            v += shuffle_xor(v, 1);
            v += shuffle_xor(v, 2);
            if (lane % 4 == 0) part[warp_index()][m * rows + i * 8 + lane / 4] = v;
        }
    __syncthreads();
    if ((int)threadIdx.x >= rows) return;
    float total[matrices] = {}, all = 0;
    for (int w = 0; w < warps; w++) {
#pragma unroll
        for (int m = 0; m < matrices; m++) total[m] += part[w][m * rows + (int)threadIdx.x];
        if (out != OUT_ADD) all += squares[w];
    }
    float scale = out == OUT_ADD ? 1.0f : 1.0f / sqrtf(all / (float)a.k + a.eps);
#pragma unroll
    for (int m = 0; m < matrices && dtype == K_INT4; m++) total[m] *= a.segment[at.segment + m].w.unit;
    store<out>(a.segment[at.segment], at.block * PACK_ROWS + half * rows + (int)threadIdx.x, total[0] * scale, total[matrices - 1] * scale);
}

EY_KERNEL(gemv1_fp8_rms_f32, struct linear_args, GEMV1_WARPS * 32, 2) { multiply<K_FP8, OUT_F32>(a); }
EY_KERNEL(gemv1_fp8_rms_silu, struct linear_args, GEMV1_PAIR_WARPS * 32, 4) { multiply<K_FP8, OUT_SILU>(a); }
EY_KERNEL(gemv1_fp8_act_add, struct linear_args, GEMV1_WARPS * 32, 2) { multiply<K_FP8, OUT_ADD>(a); }
EY_KERNEL(gemv1_int4_rms_f32, struct linear_args, GEMV1_WARPS * 32, 2) { multiply<K_INT4, OUT_F32>(a); }
EY_KERNEL(gemv1_int4_rms_silu, struct linear_args, GEMV1_PAIR_WARPS * 32, 2) { multiply<K_INT4, OUT_SILU>(a); }
EY_KERNEL(gemv1_int4_act_add, struct linear_args, GEMV1_WARPS * 32, 2) { multiply<K_INT4, OUT_ADD>(a); }
