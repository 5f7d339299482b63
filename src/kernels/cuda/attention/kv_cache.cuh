/* SPDX-License-Identifier: Apache-2.0 */
/* Addressing of the paged KV cache in the attention kernels: a layer is [block, KV head, keys or
 * values, KV_TOKENS, head_dim] of BF16 or e4m3 (abi.h). */
#ifndef EY_CUDA_KV_CACHE_CUH
#define EY_CUDA_KV_CACHE_CUH

#include "kernels/cuda/common/ptx.cuh"

EY_DEVICE int kv_element_size(const struct kv_layer &kv)
{
    return kv.fp8 ? 1 : (int)sizeof(bf16);
}

EY_DEVICE const int32_t *block_table_row(const struct dev_batch &batch, int row)
{
    return batch.block_table + (int64_t)batch.seq[row] * batch.max_blocks;
}

/* Returns the keys (0) or values (1) of a head in a KV block. */
EY_DEVICE uint8_t *kv_cache_rows(const struct kv_layer &kv, int block, int head, int which)
{
    return (uint8_t *)kv.data + (((int64_t)block * kv.n_kv_heads + head) * 2 + which) * KV_TOKENS *
                                    kv.head_dim * kv_element_size(kv);
}

/* Return two of four e4m3 values as BF16: 0 and 1, or 2 and 3. */
EY_DEVICE uint32_t e4m3_lower_pair(uint32_t four)
{
    return e4m3_pair(__byte_perm(four, 0, 0x1404));
}

EY_DEVICE uint32_t e4m3_upper_pair(uint32_t four)
{
    return e4m3_pair(__byte_perm(four, 0, 0x3424));
}

EY_DEVICE void put_element(void *row, int i, float v, int fp8)
{
    if (fp8)
        ((uint8_t *)row)[i] = e4m3_of(v);
    else
        ((bf16 *)row)[i] = bf16_of(v);
}

#endif
