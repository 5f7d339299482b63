/* SPDX-License-Identifier: Apache-2.0 */
/* A logit and its id as one 64-bit sort key: it grows with the logit and, among equal ones, with a
 * lower id. So "better" is one comparison, and no two keys are equal. */
#ifndef EY_CUDA_SORT_KEY_CUH
#define EY_CUDA_SORT_KEY_CUH

#include "kernels/cuda/common/ptx.cuh"

/* Returns the sort key. 0 stands for no logit; NaN sorts below -infinity, and -0 as +0. */
EY_DEVICE uint64_t sortable_of(float logit, int id)
{
    uint32_t bits = logit == 0 ? 0 : float_bits(logit);
    uint32_t key = logit != logit ? 1 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)key << 32 | (uint32_t)~id;
}

EY_DEVICE float logit_of(uint64_t sortable)
{
    uint32_t key = (uint32_t)(sortable >> 32);
    if (key == 1) return bits_float(0x7fc00000u);
    return bits_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

EY_DEVICE struct topk_logit topk_logit_of(uint64_t sortable)
{
    struct topk_logit c = {bits_float(0xff800000u), -1};
    if (sortable) {
        c.logit = logit_of(sortable);
        c.id = (int32_t) ~(uint32_t)sortable;
    }
    return c;
}

#endif
