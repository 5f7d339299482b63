/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the vision encoder: every patch of an image attends to all of them. qkv bf16[*,
 * 3·heads·head_dim] holds queries, keys and values side by side. */
#include "kernels/cuda/attention/flash_attention.cuh"

/* Keys and values of one head. */
template <int DIM> struct vision_source {
    const bf16 *first[2]; /* of row 0: key, value */
    int64_t stride;
    int n_keys, dim;

    EY_MEMBER void load(bf16 *to, int tile, int which) const
    {
        int key = tile * FLASH_KEYS;
        flash_load<DIM>(to, first[which] + key * stride, stride, n_keys - key, dim);
    }
};

template <int DIM> EY_DEVICE void attention_vision(const struct attention_vision_args &a)
{
    enum { TILES = VISION_ROWS * 32 / FLASH_THREADS / 16 };
    EY_DYNAMIC_SHARED(shared);
    int head = (int)blockIdx.y, row = (int)blockIdx.x * VISION_ROWS + warp_index() * TILES * 16;
    int64_t width = (int64_t)a.heads * a.head_dim;
    const bf16 *of_head = a.qkv + head * a.head_dim;
    struct vision_source<DIM> from = {
        {of_head + width, of_head + 2 * width}, 3 * width, a.n_keys, a.head_dim
    };
    struct flash_rows<DIM, TILES> r;
    wait_for_previous();
    let_next_start();
    flash_begin(r, of_head + (a.first + row) * 3 * width, 3 * width, a.n - row, a.head_dim);
    r.scale = a.scale * LOG2_E;
    r.last = a.n_keys - 1;
    r.growth = 0;
    r.before = FLASH_ALL;
    flash_attend(r, from, 0, a.n_keys, shared);
    flash_end(r, a.o + row * width + head * a.head_dim, width, a.n - row, a.head_dim);
}

EY_KERNEL(attention_vision_64, struct attention_vision_args, FLASH_THREADS, 2)
{
    attention_vision<64>(a);
}

EY_KERNEL(attention_vision_80, struct attention_vision_args, FLASH_THREADS, 2)
{
    attention_vision<80>(a);
}

struct vision_fallback_source {
    const bf16 *first;
    int64_t width;

    EY_MEMBER const bf16 *key(int row) const
    {
        return first + row * 3 * width + width;
    }
    EY_MEMBER const bf16 *value(int row) const
    {
        return first + row * 3 * width + 2 * width;
    }
    EY_MEMBER float element(const bf16 *row, int i) const
    {
        return bf16_value(row[i]);
    }
};

EY_KERNEL(attention_vision_fallback, struct attention_vision_args, WARP_KERNEL_THREADS, 1)
{
    int unit = (int)blockIdx.x * (WARP_KERNEL_THREADS / 32) + warp_index(), row = unit / a.heads,
        head = unit % a.heads;
    wait_for_previous();
    let_next_start();
    if (row >= a.n) return;
    int64_t width = (int64_t)a.heads * a.head_dim;
    struct vision_fallback_source from = {a.qkv + head * a.head_dim, width};
    fallback_attend(a.o + row * width + head * a.head_dim, from.first + (a.first + row) * 3 * width,
                    from, 0, a.n_keys, a.head_dim, a.scale);
}

/* ---- rotation of queries and keys ---- */

EY_DEVICE uint32_t rotated_first(uint32_t x, uint32_t y, const float4 &angles)
{
    return bf16_pair(bf16_low(x) * angles.x - bf16_low(y) * angles.y,
                     bf16_high(x) * angles.z - bf16_high(y) * angles.w);
}

EY_DEVICE uint32_t rotated_second(uint32_t x, uint32_t y, const float4 &angles)
{
    return bf16_pair(bf16_low(y) * angles.x + bf16_low(x) * angles.y,
                     bf16_high(y) * angles.z + bf16_high(x) * angles.w);
}

/* Rotates 8 pairs: x and y are 16 bytes each, angles are 8 pairs of cosine and sine. */
EY_DEVICE void rotate_eight(bf16 *x_at, bf16 *y_at, const float *angles)
{
    uint4 x = *(const uint4 *)x_at, y = *(const uint4 *)y_at, u, v;
    const float4 *a = (const float4 *)angles;
    u.x = rotated_first(x.x, y.x, a[0]);
    v.x = rotated_second(x.x, y.x, a[0]);
    u.y = rotated_first(x.y, y.y, a[1]);
    v.y = rotated_second(x.y, y.y, a[1]);
    u.z = rotated_first(x.z, y.z, a[2]);
    v.z = rotated_second(x.z, y.z, a[2]);
    u.w = rotated_first(x.w, y.w, a[3]);
    v.w = rotated_second(x.w, y.w, a[3]);
    *(uint4 *)x_at = u;
    *(uint4 *)y_at = v;
}

/* The position of a thread's PAIRS pairs. */
struct vision_rope_place {
    bf16 *x;
    const float *angles;
};

template <int PAIRS>
EY_DEVICE struct vision_rope_place vision_pairs(const struct vision_rope_args &a)
{
    int half = a.head_dim / 2, pieces = half / PAIRS;
    int64_t unit = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int pair = (int)(unit % pieces) * PAIRS, head = (int)(unit / pieces % (2 * a.heads));
    int64_t row = unit / pieces / (2 * a.heads);
    if (row >= a.n) return {nullptr, nullptr};
    return {a.qkv + (a.first + row) * 3 * a.heads * a.head_dim + head * a.head_dim + pair,
            a.rope + (row * half + pair) * 2};
}

EY_KERNEL(vision_rope, struct vision_rope_args, 2 * WARP_KERNEL_THREADS, 1)
{
    wait_for_previous();
    let_next_start();
    struct vision_rope_place at = vision_pairs<8>(a);
    if (at.x) rotate_eight(at.x, at.x + a.head_dim / 2, at.angles);
}

EY_KERNEL(vision_rope_fallback, struct vision_rope_args, 2 * WARP_KERNEL_THREADS, 1)
{
    wait_for_previous();
    let_next_start();
    struct vision_rope_place at = vision_pairs<1>(a);
    if (!at.x) return;
    float x = bf16_value(at.x[0]), y = bf16_value(at.x[a.head_dim / 2]), c = at.angles[0],
          s = at.angles[1];
    at.x[0] = bf16_of(x * c - y * s);
    at.x[a.head_dim / 2] = bf16_of(y * c + x * s);
}
