/* SPDX-License-Identifier: Apache-2.0 */
/* For the emulator's own test: kernels with little more than one instruction of ptx.cuh, and faulty
 * kernels. */
#include "kernels/cuda/common/ptx.cuh"
#include "cuda/primitives.h"

enum { SHUFFLE_XOR, SHUFFLE, SUM, MAX };

EY_KERNEL(test_shuffles, struct primitive_args, 256, 1)
{
    unsigned i = threadIdx.x;
    if (a.mode == SHUFFLE_XOR) a.out[i] = shuffle_xor(a.in[i], 5);
    if (a.mode == SHUFFLE) a.out[i] = shuffle(a.in[i], (lane_index() + 3) % 32);
    if (a.mode == SUM) a.out[i] = float_bits(warp_sum(bits_float(a.in[i])));
    if (a.mode == MAX) a.out[i] = float_bits(warp_max(bits_float(a.in[i])));
}

/* out[i, 8]: the four registers of a load and of a transposed load from 32 rows of 8 values */
EY_KERNEL(test_load_matrices, struct primitive_args, 32, 1)
{
    EY_DYNAMIC_SHARED(rows);
    int lane = lane_index();
    *(uint4 *)(rows + lane * 16) = ((const uint4 *)a.in)[lane];
    __syncwarp();
    load_matrices(a.out + lane * 8, rows + lane * 16);
    load_matrices_transposed(a.out + lane * 8 + 4, rows + lane * 16);
}

EY_KERNEL(test_product, struct product_args, 32, 1)
{
    __shared__ __align__(16) uint16_t tile_a[16 * 16], tile_b[16 * 8];
    int lane = lane_index(), g = lane / 4, t = lane % 4;
    copy_async(tile_a + lane * 8, a.a + lane * 8, 16);
    if (lane < 16) copy_async(tile_b + lane * 8, a.b + lane * 8, 16);
    copy_commit();
    copy_wait<0>();
    __syncwarp();
    uint32_t x[4], y[4];
    load_matrices(x, tile_a + lane % 16 * 16 + lane / 16 * 8);
    load_matrices_transposed(y, tile_b + lane % 16 * 8);
    float c[4];
    for (int i = 0; i < 4; i++)
        c[i] = a.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    if (a.f16)
        mma_f16(c, x, y[0], y[1]);
    else
        mma_bf16(c, x, y[0], y[1]);
    for (int i = 0; i < 4; i++)
        a.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

EY_KERNEL(test_e4m3_product, struct e4m3_product_args, 32, 1)
{
    int lane = lane_index(), g = lane / 4, t = lane % 4;
    uint32_t x[4], y[2];
    for (int i = 0; i < 4; i++)
        x[i] = *(const uint32_t *)(a.a + (g + i % 2 * 8) * 32 + 4 * t + i / 2 * 16);
    for (int i = 0; i < 2; i++)
        y[i] = *(const uint32_t *)(a.b + g * 32 + 4 * t + i * 16);
    float c[4];
    mma_e4m3(c, x, y[0], y[1]);
    mma_e4m3_add(c, x, y[0], y[1]);
    for (int i = 0; i < 4; i++)
        a.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

EY_KERNEL(test_s8_product, struct s8_product_args, 32, 1)
{
    int lane = lane_index(), g = lane / 4, t = lane % 4, c[4];
    uint32_t x[4], y[2];
    for (int i = 0; i < 4; i++)
        x[i] = *(const uint32_t *)(a.a + (g + i % 2 * 8) * 32 + 4 * t + i / 2 * 16);
    for (int i = 0; i < 2; i++)
        y[i] = *(const uint32_t *)(a.b + g * 32 + 4 * t + i * 16);
    for (int i = 0; i < 4; i++)
        c[i] = a.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    mma_s8(c, x, y[0], y[1]);
    for (int i = 0; i < 4; i++)
        a.c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

/* Three groups of 16-byte copies. out[thread, 3, 4]: the copies' targets when at most `mode` groups
 * are pending. The last group copies 4 bytes. */
EY_KERNEL(test_copies, struct primitive_args, 64, 1)
{
    EY_DYNAMIC_SHARED(tile);
    unsigned i = threadIdx.x;
    for (unsigned group = 0; group < 3; group++) {
        copy_async(tile + (i * 3 + group) * 16, a.in + (i * 3 + group) * 4, group == 2 ? 4 : 16);
        copy_commit();
    }
    if (a.mode == 0) copy_wait<0>();
    if (a.mode == 1) copy_wait<1>();
    if (a.mode == 2) copy_wait<2>();
    for (unsigned word = 0; word < 12; word++)
        a.out[i * 12 + word] = ((const uint32_t *)tile)[i * 12 + word];
}

enum { TO_BF16, TO_F16, FROM_F16, BF16_PRODUCT, E4M3, EXP2, PAIRS };

EY_DEVICE uint32_t converted(int mode, uint32_t v)
{
    switch (mode) {
    case TO_BF16: return bf16_pair(bits_float(v), 1.0f);
    case TO_F16: return f16_pair(1.0f, bits_float(v));
    case FROM_F16: return float_bits(f16_bits_value((uint16_t)v));
    case BF16_PRODUCT: return bf16_pair_mul(v, v >> 8 | v << 24);
    case E4M3: return float_bits(e4m3_value((uint8_t)v));
    case EXP2: return float_bits(exp2_fast(bits_float(v)));
    default: return e4m3_pair(v << 8);
    }
}

EY_KERNEL(test_numbers, struct primitive_args, 256, 1)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    a.out[i] = converted(a.mode, a.in[i]);
}

EY_KERNEL(test_last_arrives, struct sum_args, 128, 1)
{
    __shared__ uint32_t arrived_before;
    for (int i = (int)threadIdx.x; i < a.n; i += (int)blockDim.x)
        a.part[(int)blockIdx.x * a.n + i] = a.in[(int)blockIdx.x * a.n + i];
    __syncthreads();
    if (threadIdx.x == 0) arrived_before = count_arrival(a.arrived);
    __syncthreads();
    if (arrived_before != gridDim.x - 1) return;
    for (int i = (int)threadIdx.x; i < a.n; i += (int)blockDim.x) {
        float sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            sum += load_fresh_float(a.part + (int)b * a.n + i);
        a.out[i] = sum;
    }
    if (threadIdx.x == 0) *a.arrived = 0;
}

/* out[thread of the grid]: whether static and dynamic shared memory began as NaN */
EY_KERNEL(test_unwritten, struct primitive_args, 64, 1)
{
    EY_DYNAMIC_SHARED(dynamic);
    __shared__ float fixed[64];
    unsigned i = threadIdx.x;
    float x = ((const float *)dynamic)[i];
    a.out[blockIdx.x * 64 + i] = fixed[i] != fixed[i] && x != x;
    fixed[i] = 1;
    ((float *)dynamic)[i] = 1;
}

enum {
    SOME_AT_BARRIER,
    DIFFERENT_MEETINGS,
    SOME_ENDED,
    SHARED_OVERRUN,
    MISALIGNED,
    WARP_ENDED,
    NO_BARRIER,
    WRITTEN_AFTER_READ,
    NO_WAIT
};

/* Each mode has one fault. */
EY_KERNEL(test_faults, struct primitive_args, 64, 1)
{
    EY_DYNAMIC_SHARED(bytes);
    uint32_t *words = (uint32_t *)bytes;
    unsigned i = threadIdx.x;
    if (a.mode == SOME_AT_BARRIER && i != 40) __syncthreads();
    if (a.mode == DIFFERENT_MEETINGS) {
        if (i == 3)
            __syncwarp();
        else
            a.out[i] = shuffle_xor(a.in[i], 1);
    }
    if (a.mode == SOME_ENDED) {
        if (i == 3) return;
        __syncwarp();
    }
    if (a.mode == SHARED_OVERRUN) words[64 + i] = 0;
    if (a.mode == MISALIGNED) a.out[i] = load_weight(a.in + i).x;
    if (a.mode == WARP_ENDED && i >= 32) __syncthreads();
    if (a.mode == NO_BARRIER) {
        words[i] = a.in[i];
        a.out[i] = words[i ^ 33];
    }
    if (a.mode == WRITTEN_AFTER_READ) {
        words[i] = a.in[i];
        __syncthreads();
        a.out[i] = words[i ^ 33];
        words[i] = 0;
    }
    if (a.mode == NO_WAIT) {
        copy_async(bytes + i % 16 * 16, a.in + i % 16 * 4, 16);
        copy_commit();
        __syncthreads();
        a.out[i] = words[i];
    }
}
