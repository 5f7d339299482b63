/* SPDX-License-Identifier: Apache-2.0 */
/* Measures two limits of the GPU: its memory bandwidth, and the FLOPs per second of its tensor
 * cores. Performance figures are given as shares of these limits. */
#include "kernels/cuda/common/ptx.cuh"
#include "kernels/cuda/loading/roofline_launch.h"

/* Uses eight independent accumulators per warp. Their sum is meaningless; it is stored to keep the
 * compiler from removing the products. */
EY_KERNEL(mma_peak, struct mma_peak_args, ROOFLINE_THREADS, 2)
{
    float c[PEAK_CHAINS][4] = {};
    uint32_t x[4] = {0x3f803f80u, threadIdx.x, 0x3f803f80u, 0x3c003c00u};
    wait_for_previous();
    for (int i = 0; i < a.times; i++) {
#pragma unroll
        for (int k = 0; k < PEAK_CHAINS; k++)
            mma_bf16(c[k], x, 0x3f803f80u, (uint32_t)i & 0x3f803f80u);
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PEAK_CHAINS; k++)
        sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
    if (sum == -1.0f) *a.out = float_bits(sum);
}

EY_KERNEL(read_memory, struct read_memory_args, ROOFLINE_THREADS, 4)
{
    wait_for_previous();
    enum { AT_ONCE = 8 }; /* loads of a thread in flight */
    int64_t n = a.bytes / 16, step = global_threads();
    const uint4 *data = (const uint4 *)a.data;
    uint32_t sum = 0;
    for (int turn = 0; turn < a.times; turn++) {
        int64_t i = global_thread();
        for (; i + (AT_ONCE - 1) * step < n; i += AT_ONCE * step) {
            uint4 v[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                v[j] = load_weight(data + i + j * step);
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        }
        for (; i < n; i += step) {
            uint4 v = load_weight(data + i);
            sum ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    }
    for (int mask = 16; mask; mask /= 2)
        sum ^= shuffle_xor(sum, mask);
    if (sum == 0x5eed5eedu || global_thread() == 0) *a.out = sum; /* any thread's sum will do */
}
