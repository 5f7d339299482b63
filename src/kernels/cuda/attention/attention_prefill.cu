/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention of prompt chunks over the paged KV cache: flash attention in tiles of rows
 * (attention_64, attention_128), and row by row for any shape (attention_fallback). */
#include "kernels/cuda/attention/flash_attention.cuh"
#include "kernels/cuda/attention/kv_cache.cuh"

/* Keys and values of one KV head of a sequence. */
template <int DIM> struct paged_source {
    struct kv_layer kv;
    const int32_t *blocks;
    int head, n_keys;

    EY_MEMBER void load(bf16 *to, int tile, int which) const
    {
        const uint8_t *rows = kv_cache_rows(kv, blocks[tile], head, which);
        if (kv.fp8)
            load_fp8(to, rows, tile);
        else
            flash_load<DIM>(to, (const bf16 *)rows, kv.head_dim, n_keys - tile * FLASH_KEYS,
                            kv.head_dim);
    }

    EY_MEMBER void load_fp8(bf16 *to, const uint8_t *rows, int tile) const
    {
#pragma unroll
        for (int j = 0; j < FLASH_KEYS * (DIM / 16) / FLASH_THREADS; j++) {
            int i = (int)threadIdx.x + j * FLASH_THREADS, row = i / (DIM / 16),
                column = i % (DIM / 16) * 16;
            uint4 quantized = {0, 0, 0, 0}, low, high;
            if (tile * FLASH_KEYS + row < n_keys && column < kv.head_dim)
                quantized = load_fresh(rows + row * kv.head_dim + column);
            low.x = e4m3_lower_pair(quantized.x);
            low.y = e4m3_upper_pair(quantized.x);
            low.z = e4m3_lower_pair(quantized.y);
            low.w = e4m3_upper_pair(quantized.y);
            high.x = e4m3_lower_pair(quantized.z);
            high.y = e4m3_upper_pair(quantized.z);
            high.z = e4m3_lower_pair(quantized.w);
            high.w = e4m3_upper_pair(quantized.w);
            uint4 *at = (uint4 *)(to + row * (DIM + FLASH_PAD) + column);
            at[0] = low;
            at[1] = high;
        }
    }
};

template <int DIM> EY_DEVICE void attention_prefill(const struct attention_args &a)
{
    enum { TILES = ATTENTION_ROWS * 32 / FLASH_THREADS / 16 };
    EY_DYNAMIC_SHARED(shared);
    wait_for_previous();
    let_next_start();
    /* a prompt's last tiles have the most keys, so they start first */
    int tile = a.n_tiles - 1 - (int)blockIdx.y, head = (int)blockIdx.x, dim = a.kv.head_dim;
    int first = a.tile[2 * tile], rows = a.tile[2 * tile + 1], in_tile = warp_index() * 16,
        index = a.batch.index[first];
    int64_t width = (int64_t)a.n_heads * dim, at = (int64_t)(first + in_tile) * width + head * dim;
    struct paged_source<DIM> from = {
        a.kv, block_table_row(a.batch, first), head / (a.n_heads / a.kv.n_kv_heads), index + rows
    };
    struct flash_rows<DIM, TILES> r;
    flash_begin(r, a.q + at, width, rows - in_tile, dim);
    r.scale = a.scale * LOG2_E;
    r.last = index + in_tile;
    r.growth = 1;
    r.before = a.window ? r.last - a.window : FLASH_ALL;
    flash_attend(r, from, a.window ? max(index - a.window + 1, 0) / FLASH_KEYS : 0, index + rows,
                 shared);
    flash_end(r, a.o + at, width, rows - in_tile, dim);
}

EY_KERNEL(attention_64, struct attention_args, FLASH_THREADS, 2)
{
    attention_prefill<64>(a);
}

EY_KERNEL(attention_128, struct attention_args, FLASH_THREADS, 2)
{
    attention_prefill<128>(a);
}

struct paged_fallback_source {
    struct kv_layer kv;
    const int32_t *blocks;
    int head;

    EY_MEMBER const uint8_t *row(int slot, int which) const
    {
        return kv_cache_rows(kv, blocks[slot / KV_TOKENS], head, which) +
               slot % KV_TOKENS * kv.head_dim * kv_element_size(kv);
    }
    EY_MEMBER const uint8_t *key(int slot) const
    {
        return row(slot, 0);
    }
    EY_MEMBER const uint8_t *value(int slot) const
    {
        return row(slot, 1);
    }
    EY_MEMBER float element(const uint8_t *row, int i) const
    {
        return kv.fp8 ? e4m3_value(row[i]) : bf16_value(((const bf16 *)row)[i]);
    }
};

EY_KERNEL(attention_fallback, struct attention_args, WARP_KERNEL_THREADS, 1)
{
    int unit = (int)blockIdx.x * (WARP_KERNEL_THREADS / 32) + warp_index(), row = unit / a.n_heads,
        head = unit % a.n_heads, dim = a.kv.head_dim;
    wait_for_previous();
    let_next_start();
    if (row >= a.batch.n) return;
    struct paged_fallback_source from = {a.kv, block_table_row(a.batch, row),
                                         head / (a.n_heads / a.kv.n_kv_heads)};
    int n_keys = a.batch.index[row] + 1;
    fallback_attend(a.o + (int64_t)unit * dim, a.q + (int64_t)unit * dim, from,
                    a.window ? max(n_keys - a.window, 0) : 0, n_keys, dim, a.scale);
}
