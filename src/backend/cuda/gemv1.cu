/* Products of one token with FP8 or four-bit matrices: what a single answer is made of. All that counts is that weights never stop coming. So blocks of threads are
 * small and many: one has 16 rows, a packed row block, or as many of gate and of up, or with FP8 half of those, 8 rows each; its weights are asked for before it waits for
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
 * For int4 there are 128 to a chunk, 32 a lane, in four pieces of eight in the order of int4_bf16_pairs(), 16 bytes a part; x that is BF16 has one part. Of two, a lane's second
 * part lies 64 bytes from its first, and which of them is in front is by turns: lanes that write together then write to different banks. In front of all are zeros,
 * for lanes that read nothing; behind all are sums of GEMV1_SUM columns each. */
EY_DEVICE int x_place(int column)
{
    int piece = column / 4 % 4, t = column / 16 % 4;
    return column / 16 * 16 + (piece ^ (t & 2)) * 4;
}

/* The same for int4, in bytes. */
template <int parts> EY_DEVICE int part_place(int column, int part)
{
    int t = column / 32, piece = column / 8 % 4;
    return GEMV1_ZEROS + (t * parts + (part ^ (parts == 2 ? t & 1 : 0))) * 64 + piece * 16;
}

struct eight {
    float v[8];
};

/* Eight columns into their places, in the form that weights of `dtype` want. All threads of a warp call it together. */
template <int dtype, int parts> EY_DEVICE void put_x(unsigned char *x, int columns, int i, const struct eight &e)
{
    if (dtype == K_FP8) {
        *(float4 *)((float *)x + x_place(i)) = make_float4(e.v[0], e.v[1], e.v[2], e.v[3]);
        *(float4 *)((float *)x + x_place(i + 4)) = make_float4(e.v[4], e.v[5], e.v[6], e.v[7]);
        return;
    }
    uint32_t high[4], rest[4] = {0, 0, 0, 0};
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        high[j] = bf16_pair(e.v[j], e.v[j + 4]);
        sum += bf16_low(high[j]) + bf16_high(high[j]);
    }
#pragma unroll
    for (int j = 0; parts == 2 && j < 4; j++) {
        rest[j] = bf16_pair(e.v[j] - bf16_low(high[j]), e.v[j + 4] - bf16_high(high[j]));
        sum += bf16_low(rest[j]) + bf16_high(rest[j]); /* not of x: what is taken off again is what was multiplied */
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    *(uint4 *)(x + part_place<parts>(i, 0)) = make_uint4(high[0], high[1], high[2], high[3]);
    if (parts == 2) *(uint4 *)(x + part_place<parts>(i, 1)) = make_uint4(rest[0], rest[1], rest[2], rest[3]);
    if (lane_index() % 4 == 0) ((float *)(x + gemv1_sums_at(columns, parts)))[i / GEMV1_SUM] = sum;
}

EY_DEVICE float squares_of(uint4 bits)
{
    float4 v = make_float4(bits_float(bits.x), bits_float(bits.y), bits_float(bits.z), bits_float(bits.w));
    return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
}

EY_DEVICE struct eight normed(uint4 low, uint4 high, float4 w0, float4 w1)
{
    struct eight e = {{bits_float(low.x) * w0.x, bits_float(low.y) * w0.y, bits_float(low.z) * w0.z, bits_float(low.w) * w0.w,
                       bits_float(high.x) * w1.x, bits_float(high.y) * w1.y, bits_float(high.z) * w1.z, bits_float(high.w) * w1.w}};
    return e;
}

/* A thread asks for all that it can take before it uses any: a wait for each would be as long as one for all. `columns` are those of whole warps, which so stay
 * together; beyond k they are zero. With a norm, x is float32, is multiplied by the norm's weights, and its squares are summed by warp. */
template <int dtype, int at_once> EY_DEVICE void stage_normed(unsigned char *x, float *squares, const struct linear_args &a, int columns)
{
    const float *from = (const float *)a.x;
    const int step = (int)blockDim.x * 8;
    float sum = 0;
    for (int i = (int)threadIdx.x * 8; i < columns; i += at_once * step) {
        uint4 low[at_once], high[at_once];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int at = i + j * step;
            low[j] = high[j] = make_uint4(0, 0, 0, 0);
            if (at < a.k) low[j] = load_fresh(from + at), high[j] = load_fresh(from + at + 4);
        }
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int at = i + j * step;
            float4 w0 = make_float4(0, 0, 0, 0), w1 = w0;
            if (at >= columns) continue;
            if (at < a.k) w0 = *(const float4 *)(a.norm + at), w1 = *(const float4 *)(a.norm + at + 4);
            sum += squares_of(low[j]) + squares_of(high[j]);
            put_x<dtype, 2>(x, columns, at, normed(low[j], high[j], w0, w1));
        }
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) squares[warp_index()] = sum;
}

EY_DEVICE struct eight floats_of_bf16(uint4 v)
{
    struct eight e = {{bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y), bf16_low(v.z), bf16_high(v.z), bf16_low(v.w), bf16_high(v.w)}};
    return e;
}

template <int dtype> EY_DEVICE void stage_plain(unsigned char *x, const struct linear_args &a, int columns)
{
    enum { at_once = 3 };
    const bf16 *from = (const bf16 *)a.x;
    const int step = (int)blockDim.x * 8;
    for (int i = (int)threadIdx.x * 8; i < columns; i += at_once * step) {
        uint4 v[at_once];
#pragma unroll
        for (int j = 0; j < at_once; j++) v[j] = i + j * step < a.k ? load_fresh(from + i + j * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < at_once; j++)
            if (i + j * step < columns) put_x<dtype, 1>(x, columns, i + j * step, floats_of_bf16(v[j]));
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

/* Eight codes as four pairs of BF16 numbers 128 + code. */
EY_DEVICE void int4_bf16_pairs(uint32_t out[4], uint32_t codes)
{
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = ((codes >> (4 * i)) & 0x000f000fu) | 0x43004300u;
}

EY_DEVICE uint32_t word(const uint4 &v, int q)
{
    return q == 0 ? v.x : q == 1 ? v.y : q == 2 ? v.z : v.w;
}

/* Eight rows, half a row block. A block of threads has two of a matrix, or as many of gate as of up, which take turns. */
struct stripe {
    const uint8_t *data;        /* the lane's part of chunk 0 */
    const float *scale;         /* FP8 */
    const uint16_t *multiplier; /* int4: of the lane's row and columns in chunk 0 */
    int per;                    /* of a row in a chunk */
};

template <int dtype> EY_DEVICE struct stripe find_stripe(const struct dev_matrix &w, int block, int half, int n_chunks)
{
    struct stripe s = {(const uint8_t *)w.data + (int64_t)block * n_chunks * PACK_CHUNK + half * (PACK_CHUNK / 2) + lane_index() * 16, NULL, NULL, 0};
    if (dtype == K_FP8) s.scale = w.scale + block * PACK_ROWS / SCALE_BLOCK * ((w.cols + SCALE_BLOCK - 1) / SCALE_BLOCK);
    if (dtype == K_INT4) {
        s.per = w.per;
        s.multiplier = w.multipliers + ((int64_t)block * n_chunks * PACK_ROWS + half * (PACK_ROWS / 2) + lane_index() / 4) * w.per + lane_index() % 4 * w.per / 4;
    }
    return s;
}

/* A warp's chunks of one round. */
template <int depth, int stripes> struct pieces {
    uint4 w[depth][stripes];
    uint32_t multiplier[depth][stripes]; /* int4 */
};

template <int depth> EY_DEVICE int chunk_of(int round, int i)
{
    return (round * depth + i) * (int)(blockDim.x / 32) + warp_index();
}

/* Of a chunk that is not there another is read; it is not used, or multiplied by zero. */
template <int dtype, int depth, int stripes> EY_DEVICE void ask(struct pieces<depth, stripes> *p, const struct stripe *from, int round, int n_chunks)
{
#pragma unroll
    for (int i = 0; i < depth; i++) {
        int chunk = chunk_of<depth>(round, i);
        const bool there = chunk < n_chunks;
        if (!there) chunk = n_chunks - 1;
#pragma unroll
        for (int s = 0; s < stripes; s++) {
            p->w[i][s] = load_weight(from[s].data + (int64_t)chunk * PACK_CHUNK);
            if (dtype == K_INT4) p->multiplier[i][s] = there ? load_weight_2(from[s].multiplier + chunk * PACK_ROWS * from[s].per) : 0;
        }
    }
}

template <int depth, int stripes, int matrices>
EY_DEVICE void add_fp8(float *sum, const struct pieces<depth, stripes> &p, const struct stripe *from, const float *x, int round, int n_chunks)
{
    int t = lane_index() % 4;
#pragma unroll
    for (int i = 0; i < depth; i++) {
        int chunk = chunk_of<depth>(round, i);
        if (chunk >= n_chunks) continue;
        float dot[stripes] = {};
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float4 v = *(const float4 *)(x + chunk * PACK_BYTES + t * 16 + (q ^ (t & 2)) * 4);
#pragma unroll
            for (int s = 0; s < stripes; s++) dot[s] = dot4(word(p.w[i][s], q), v, dot[s]);
        }
#pragma unroll
        for (int s = 0; s < stripes; s++) sum[s] += from[matrices == 1 ? 0 : s].scale[chunk / (SCALE_BLOCK / PACK_BYTES)] * dot[s];
    }
}

/* sum += scale · (dot - (128 + zero) · sum of x) */
EY_DEVICE float add_group(float sum, uint32_t multiplier, float dot, float x_sum)
{
    float base = bits_float(0x43000000u | (multiplier & 15u) << 16);
    return sum + f16_value((uint16_t)((multiplier & 0xfff0u) >> 1)) * (dot - base * x_sum);
}

template <int depth, int stripes, int parts>
EY_DEVICE void add_int4(float *sum, const struct pieces<depth, stripes> &p, const unsigned char *x, const float *x_sums, int round, int n_chunks)
{
    enum { CHUNK = 4 * parts * 64 };
    const int lane = lane_index(), t = lane % 4, column = lane / 4;
    const bool mine = column / 2 == t && column % 2 < parts;
    const unsigned char *first = x + (mine ? part_place<parts>(t * 32, column % 2) : 32); /* zeros from banks that the others do not read */
#pragma unroll
    for (int i = 0; i < depth; i++) {
        int chunk = chunk_of<depth>(round, i);
        if (chunk >= n_chunks) chunk = n_chunks - 1;
        const unsigned char *at = first + (mine ? chunk * CHUNK : 0);
        float product[stripes / 2][2][4] = {}; /* two chains of instructions that wait for each other */
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const uint4 b = *(const uint4 *)(at + q * 16);
#pragma unroll
            for (int s = 0; s < stripes; s += 2) {
                uint32_t upper[4], lower[4];
                int4_bf16_pairs(upper, word(p.w[i][s], q));
                int4_bf16_pairs(lower, word(p.w[i][s + 1], q));
                const uint32_t first_pairs[4] = {upper[0], lower[0], upper[1], lower[1]}, last_pairs[4] = {upper[2], lower[2], upper[3], lower[3]};
                mma_bf16(product[s / 2][0], first_pairs, b.x, b.y);
                mma_bf16(product[s / 2][1], last_pairs, b.z, b.w);
            }
        }
        const float x_sum = x_sums[chunk * 4 + t];
#pragma unroll
        for (int s = 0; s < stripes; s++) {
            const int c = s % 2 * 2;
            const float(*of)[4] = product[s / 2];
            sum[s] = add_group(sum[s], p.multiplier[i][s], (of[0][c] + of[1][c]) + (of[0][c + 1] + of[1][c + 1]), x_sum);
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
    enum {
        matrices = out == OUT_SILU ? 2 : 1, rows = GEMV1_ROWS(dtype, out), stripes = matrices * rows / 8, depth = GEMV1_DEPTH(dtype), parts = GEMV1_PARTS(out)
    };
    EY_DYNAMIC_SHARED(memory);
    __shared__ float squares[GEMV1_WARPS(out)], part[GEMV1_WARPS(out)][stripes * 8];
    let_next_start();
    const int n_chunks = gemv1_chunks(dtype, a.k), columns = gemv1_columns(a.k), warps = (int)(blockDim.x / 32), lane = lane_index();
    const int rounds = (n_chunks + depth * warps - 1) / (depth * warps), blocks_each = PACK_ROWS / rows, half = (int)blockIdx.x % blocks_each;
    struct place at = {0, (int)blockIdx.x / blocks_each};
    if (out != OUT_SILU) at = place_of(a, at.block);
    struct stripe from[stripes];
#pragma unroll
    for (int s = 0; s < stripes; s++)
        from[s] = find_stripe<dtype>(a.segment[at.segment + (matrices == 1 ? 0 : s % 2)].w, at.block, matrices == 1 ? s : half + s / 2, n_chunks);
    struct pieces<depth, stripes> p;
    ask<dtype>(&p, from, 0, n_chunks);
    if (dtype == K_INT4 && threadIdx.x < GEMV1_ZEROS / 16) ((uint4 *)memory)[threadIdx.x] = make_uint4(0, 0, 0, 0);
    wait_for_previous();
    float sum[stripes] = {};
    if (out == OUT_ADD) stage_plain<dtype>(memory, a, columns);
    else stage_normed<dtype, matrices>(memory, squares, a, columns);
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (round) ask<dtype>(&p, from, round, n_chunks);
        if (dtype == K_FP8) add_fp8<depth, stripes, matrices>(sum, p, from, (const float *)memory, round, n_chunks);
        else add_int4<depth, stripes, parts>(sum, p, memory, (const float *)(memory + gemv1_sums_at(columns, parts)), round, n_chunks);
    }
#pragma unroll
    for (int s = 0; s < stripes; s++) {
        float v = sum[s];
        v += shuffle_xor(v, 1);
        v += shuffle_xor(v, 2);
        if (lane % 4 == 0) part[warp_index()][s * 8 + lane / 4] = v;
    }
    __syncthreads();
    if ((int)threadIdx.x >= rows) return;
    float total[matrices] = {}, all = 0;
    const int first = matrices == 1 ? (int)threadIdx.x : (int)threadIdx.x / 8 * 16 + (int)threadIdx.x % 8;
    for (int w = 0; w < warps; w++) {
#pragma unroll
        for (int m = 0; m < matrices; m++) total[m] += part[w][first + m * 8];
        if (out != OUT_ADD) all += squares[w];
    }
    float scale = out == OUT_ADD ? 1.0f : rsqrtf(all / (float)a.k + a.eps);
#pragma unroll
    for (int m = 0; m < matrices; m++) total[m] *= dtype == K_INT4 ? scale * a.segment[at.segment + m].w.unit : scale;
    store<out>(a.segment[at.segment], at.block * PACK_ROWS + half * rows + (int)threadIdx.x, total[0], total[matrices - 1]);
}

EY_KERNEL(gemv1_fp8_rms_f32, struct linear_args, GEMV1_WARPS(OUT_F32) * 32, 2) { multiply<K_FP8, OUT_F32>(a); }
EY_KERNEL(gemv1_fp8_rms_silu, struct linear_args, GEMV1_WARPS(OUT_SILU) * 32, 4) { multiply<K_FP8, OUT_SILU>(a); }
EY_KERNEL(gemv1_fp8_act_add, struct linear_args, GEMV1_WARPS(OUT_ADD) * 32, 2) { multiply<K_FP8, OUT_ADD>(a); }
EY_KERNEL(gemv1_int4_rms_f32, struct linear_args, GEMV1_WARPS(OUT_F32) * 32, 2) { multiply<K_INT4, OUT_F32>(a); }
EY_KERNEL(gemv1_int4_rms_silu, struct linear_args, GEMV1_WARPS(OUT_SILU) * 32, 2) { multiply<K_INT4, OUT_SILU>(a); }
EY_KERNEL(gemv1_int4_act_add, struct linear_args, GEMV1_WARPS(OUT_ADD) * 32, 2) { multiply<K_INT4, OUT_ADD>(a); }
