/* SPDX-License-Identifier: Apache-2.0 */
/* Row kernels: norms, embedding, RoPE tables, patches and their positions. All are limited by
 * memory bandwidth. */
#include "kernels/cuda/common/matrix_element.cuh"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"

/* ---- sums over a block of threads ---- */

/* Returns the sum of all threads' v to all of them, in an order that depends only on the block's
 * size. */
EY_DEVICE float block_sum(float v, float *shared)
{
    v = warp_sum(v);
    __syncthreads(); /* shared may still be in use by the last call */
    if (lane_index() == 0) shared[warp_index()] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < (int)(blockDim.x / 32); i++)
        sum += shared[i];
    return sum;
}

/* Mean (0 for RMSNorm) and scale of x[0 .. width-1]. */
struct moments {
    float mean, scale;
};

EY_DEVICE struct moments moments_of(const float *x, int width, bool centered, float eps,
                                    float *shared)
{
    struct moments m = {0, 0};
    float sum = 0;
    if (centered) {
        for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x)
            sum += x[i];
        m.mean = block_sum(sum, shared) / (float)width;
        sum = 0;
    }
    for (int i = (int)threadIdx.x; i < width; i += (int)blockDim.x)
        sum += (x[i] - m.mean) * (x[i] - m.mean);
    m.scale = 1.0f / sqrtf(block_sum(sum, shared) / (float)width + eps);
    return m;
}

/* ---- norms: a block of threads a row ---- */

struct norm_row {
    const float *x, *w, *b; /* b: or null */
    bf16 *y;
    int width;
    float eps;
};

/* Returns the moments of a row that the threads hold in registers, four columns each in turn. */
EY_DEVICE struct moments moments_of_quads(const float4 v[NORM_QUADS], int width, bool centered,
                                          float eps, float *shared)
{
    struct moments m = {0, 0};
    float sum = 0;
    if (centered) {
#pragma unroll
        for (int j = 0; j < NORM_QUADS; j++)
            sum += v[j].x + v[j].y + (v[j].z + v[j].w);
        m.mean = block_sum(sum, shared) / (float)width;
        sum = 0;
    }
#pragma unroll
    for (int j = 0; j < NORM_QUADS; j++) {
        const float4 d = make_float4(v[j].x - m.mean, v[j].y - m.mean, v[j].z - m.mean,
                                     v[j].w - m.mean);
        if (((int)threadIdx.x + j * NORM_BLOCK) * 4 < width)
            sum += d.x * d.x + d.y * d.y + (d.z * d.z + d.w * d.w);
    }
    m.scale = 1.0f / sqrtf(block_sum(sum, shared) / (float)width + eps);
    return m;
}

EY_DEVICE float4 normed_quad(float4 x, float4 w, float4 b, const struct moments &m)
{
    return make_float4(
        w.x * ((x.x - m.mean) * m.scale) + b.x, w.y * ((x.y - m.mean) * m.scale) + b.y,
        w.z * ((x.z - m.mean) * m.scale) + b.z, w.w * ((x.w - m.mean) * m.scale) + b.w);
}

EY_DEVICE void norm_quads(const struct norm_row &r, bool centered, float *shared)
{
    float4 v[NORM_QUADS];
#pragma unroll
    for (int j = 0; j < NORM_QUADS; j++) {
        const int at = ((int)threadIdx.x + j * NORM_BLOCK) * 4;
        v[j] = at < r.width ? *(const float4 *)(r.x + at) : make_float4(0, 0, 0, 0);
    }
    const struct moments m = moments_of_quads(v, r.width, centered, r.eps, shared);
#pragma unroll
    for (int j = 0; j < NORM_QUADS; j++) {
        const int at = ((int)threadIdx.x + j * NORM_BLOCK) * 4;
        if (at >= r.width) continue;
        const float4 b = r.b ? *(const float4 *)(r.b + at) : make_float4(0, 0, 0, 0),
                     n = normed_quad(v[j], *(const float4 *)(r.w + at), b, m);
        *(uint2 *)(r.y + at) = make_uint2(bf16_pair(n.x, n.y), bf16_pair(n.z, n.w));
    }
}

EY_DEVICE void norm_row(const struct norm_row &r, bool centered, float *shared)
{
    if (r.width % 4 == 0 && r.width <= NORM_QUADS * NORM_BLOCK * 4) {
        norm_quads(r, centered, shared);
        return;
    }
    const struct moments m = moments_of(r.x, r.width, centered, r.eps, shared);
    for (int i = (int)threadIdx.x; i < r.width; i += (int)blockDim.x) {
        float v = r.w[i] * ((r.x[i] - m.mean) * m.scale);
        r.y[i] = bf16_of(r.b ? v + r.b[i] : v);
    }
}

EY_KERNEL(norm_rows, struct norm_args, NORM_BLOCK, 2)
{
    __shared__ float shared[NORM_BLOCK / 32];
    wait_for_previous();
    let_next_start();
    const int64_t row = blockIdx.x, from = a.gather ? a.gather[row] : row;
    const struct norm_row r = {a.x + from * a.width, a.w, a.b, a.y + row * a.width, a.width, a.eps};
    norm_row(r, a.layer != 0, shared);
}

/* Applies the norm row by row with the same weights, or to all rows of a token together. Rows of a
 * token are consecutive, so the output's layout is the input's. */
EY_KERNEL(merge_norm, struct merge_norm_args, NORM_BLOCK, 2)
{
    __shared__ float shared[NORM_BLOCK / 32];
    wait_for_previous();
    let_next_start();
    const int width = a.grouped ? a.width * a.group : a.width;
    const int64_t at = (int64_t)blockIdx.x * width;
    const struct norm_row r = {a.x + at, a.w, a.b, a.y + at, width, a.eps};
    norm_row(r, true, shared);
}

/* ---- embeddings and rotary angles ---- */

EY_KERNEL(embed, struct embed_args, ROW_BLOCK, 2)
{
    wait_for_previous();
    let_next_start();
    int64_t row = blockIdx.y;
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), feature = a.feature[row];
    if (i >= a.hidden) return;
    float *x = a.x + row * a.hidden;
    if (feature >= 0)
        x[i] = bf16_value(a.features[(int64_t)feature * a.hidden + i]);
    else if (a.host_rows)
        x[i] = bf16_value(a.host_rows[row * a.hidden + i]);
    else
        x[i] = matrix_element(a.table, a.token[row], i);
}

EY_KERNEL(add_features, struct add_features_args, ROW_BLOCK, 2)
{
    wait_for_previous();
    let_next_start();
    int64_t row = blockIdx.y;
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), feature = a.feature[row];
    if (feature >= 0 && i < a.hidden)
        a.x[row * a.hidden + i] += bf16_value(a.features[(int64_t)feature * a.hidden + i]);
}

/* Angles are float32 products, as in the reference; sine and cosine need exact range reduction
 * because positions are large. */
EY_KERNEL(rope_table, struct rope_args, ROW_BLOCK, 2)
{
    wait_for_previous();
    let_next_start();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)a.n * a.n_pairs) return;
    int pair = (int)(i % a.n_pairs);
    float angle = (float)a.position[3 * (i / a.n_pairs) + a.axis[pair]] * a.frequency[pair];
    a.table[2 * i] = cosf(angle);
    a.table[2 * i + 1] = sinf(angle);
}

/* x and y are aligned to 16 bytes. */
EY_KERNEL(convert_bf16, struct convert_bf16_args, ROW_BLOCK, 4)
{
    wait_for_previous();
    let_next_start();
    for (int64_t i = global_thread() * 8; i < a.n; i += global_threads() * 8) {
        if (i + 8 <= a.n) {
            float4 low = *(const float4 *)(a.x + i), high = *(const float4 *)(a.x + i + 4);
            *(uint4 *)(a.y + i) = make_uint4(bf16_pair(low.x, low.y), bf16_pair(low.z, low.w),
                                             bf16_pair(high.x, high.y), bf16_pair(high.z, high.w));
        } else {
            for (int64_t j = i; j < a.n; j++)
                a.y[j] = bf16_of(a.x[j]);
        }
    }
}

/* ---- patches ---- */

/* One block of threads per patch. Neighboring threads take neighboring pixels of a row, so that
 * reads and writes are adjacent. */
EY_KERNEL(patchify, struct patchify_args, ROW_BLOCK, 2)
{
    wait_for_previous();
    let_next_start();
    int patch = a.first + (int)blockIdx.x, group = a.merge * a.merge, block = patch / group,
        in = patch % group, across = a.cols / a.merge;
    int row = block / across * a.merge + in / a.merge - a.first_row,
        col = block % across * a.merge + in % a.merge, area = a.side * a.side;
    const uint8_t *corner = a.rgb + ((int64_t)row * a.side * a.cols + col) * a.side * 3;
    bf16 *y = a.y + (int64_t)blockIdx.x * 3 * a.temporal * area;
    for (int i = (int)threadIdx.x; i < 3 * area; i += (int)blockDim.x) {
        int channel = i / area, at = i % area;
        float v =
            (float)corner[((int64_t)(at / a.side) * a.cols * a.side + at % a.side) * 3 + channel];
        bf16 value = bf16_of((v - a.offset[channel]) / a.scale[channel]);
        for (int t = 0; t < a.temporal; t++)
            y[(channel * a.temporal + t) * area + at] = value;
    }
}

/* Interpolation between two entries of the table's side for coordinate i of n, with aligned
 * corners. */
struct lerp {
    int low, high;
    float weight; /* of high */
};

EY_DEVICE struct lerp lerp_on_side(int i, int n, int side)
{
    float last = (float)(side - 1), step = n > 1 ? last / (float)(n - 1) : 0;
    float at = i < n / 2 ? step * (float)i : last - step * (float)(n - 1 - i); /* as in linspace */
    struct lerp b = {(int)at, 0, 0};
    if (b.low > side - 1) b.low = side - 1;
    b.high = b.low + 1 < side ? b.low + 1 : side - 1;
    b.weight = at - (float)b.low;
    return b;
}

EY_KERNEL(position_embed, struct position_args, ROW_BLOCK, 2)
{
    wait_for_previous();
    let_next_start();
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), patch = a.first + (int)blockIdx.y;
    if (i >= a.hidden) return;
    int group = a.merge * a.merge, block = patch / group, in = patch % group,
        blocks_a_row = a.cols / a.merge;
    struct lerp r = lerp_on_side(block / blocks_a_row * a.merge + in / a.merge, a.rows, a.side);
    struct lerp c = lerp_on_side(block % blocks_a_row * a.merge + in % a.merge, a.cols, a.side);
    float top = (1 - c.weight) * matrix_element(a.table, r.low * a.side + c.low, i) +
                c.weight * matrix_element(a.table, r.low * a.side + c.high, i);
    float bottom = (1 - c.weight) * matrix_element(a.table, r.high * a.side + c.low, i) +
                   c.weight * matrix_element(a.table, r.high * a.side + c.high, i);
    a.x[(int64_t)blockIdx.y * a.hidden + i] = a.bias[i] + (1 - r.weight) * top + r.weight * bottom;
}
