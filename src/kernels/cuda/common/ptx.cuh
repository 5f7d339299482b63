/* SPDX-License-Identifier: Apache-2.0 */
/* The machine instructions used by the kernels, one small function each. Under nvcc they are inline
 * PTX; the tests' emulator (tests/cuda/emulator.h), which runs a block's threads as fibers on the
 * CPU, implements the same functions. The only other PTX is in bulk_copy.cuh and wgmma.cuh. Of
 * CUDA, the kernels use nothing but the language: neither the runtime nor its headers.
 *
 * All collective functions (shuffles, mma, syncs) are called by whole warps. */
#ifndef EY_CUDA_PTX_CUH
#define EY_CUDA_PTX_CUH

#include "kernels/cuda/common/abi.h"

#ifdef EY_EMULATE
#include "cuda/emulator.h"
#else

/* A kernel: name, type of its arguments, threads of a block, and least blocks per SM. */
#define EY_KERNEL(name, args_type, threads, blocks)               \
    extern "C" __global__ void __launch_bounds__(threads, blocks) \
        name(const __grid_constant__ args_type a)
/* The block's dynamic shared memory, 128-byte aligned. */
#define EY_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

#define EY_DEVICE static __device__ __forceinline__

/* ---- loads and stores ---- */

/* Loads 16 bytes of weights, which are read once and so bypass L1. Not through the read-only path
 * (.nc): the assembler moves such loads behind wait_for_previous(), and they should be in flight
 * before it. */
EY_DEVICE uint4 load_weight(const void *p)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* Loads a word next to weights, such as a scale. Cached in L1, because other threads of the block
 * read its neighbors. */
EY_DEVICE uint32_t load_weight_4(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* Loads 8 bytes next to weights, cached in L1. */
EY_DEVICE uint2 load_weight_8(const void *p)
{
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
    return v;
}

/* Loads 2 bytes next to weights, cached in L1. */
EY_DEVICE uint32_t load_weight_2(const void *p)
{
    uint16_t v;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}

/* Loads 16 bytes that another kernel of the same step wrote: from L2, never from a stale L1
 * line. */
EY_DEVICE uint4 load_fresh(const void *p)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

EY_DEVICE float load_fresh_float(const float *p)
{
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
}

EY_DEVICE float2 load_fresh_pair(const float *p)
{
    float2 v;
    asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p) : "memory");
    return v;
}

/* Adds v to y[0..3] in the memory system, without waiting for the result; no other thread may
 * access y. GPUs before sm_90 add one by one. */
EY_DEVICE void add_in_memory(float *y, float4 v)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(y), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
#else
    asm volatile("red.global.add.f32 [%0], %1; red.global.add.f32 [%0+4], %2; red.global.add.f32 "
                 "[%0+8], %3; red.global.add.f32 [%0+12], %4;" ::"l"(y),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
#endif
}

/* Adds v to *y in the same way. */
EY_DEVICE void add_in_memory(float *y, float v)
{
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(y), "f"(v) : "memory");
}

/* Copies 16 bytes from global to shared memory asynchronously; `bytes` (0..16) of them are read,
 * the rest is zero. Both addresses are aligned to 16. */
EY_DEVICE void copy_async(void *shared, const void *global, int bytes)
{
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
}

/* Copies in the same way if `wanted`, without a branch. */
EY_DEVICE void copy_async_if(bool wanted, void *shared, const void *global, int bytes)
{
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("{.reg .pred wanted; setp.ne.b32 wanted, %3, 0; @wanted cp.async.cg.shared.global "
                 "[%0], [%1], 16, %2;}" ::"r"(to),
                 "l"(global), "r"(bytes), "r"((int)wanted)
                 : "memory");
}

EY_DEVICE void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's groups are in flight. */
template <int pending> EY_DEVICE void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* Loads four 8x8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8.
 * Lane 4g + t gets columns 2t, 2t+1 of row g of each; transposed: rows 2t, 2t+1 of column g. */
EY_DEVICE void load_matrices(uint32_t out[4], const void *shared_row)
{
    uint32_t from = (uint32_t)__cvta_generic_to_shared(shared_row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
}

EY_DEVICE void load_matrices_transposed(uint32_t out[4], const void *shared_row)
{
    uint32_t from = (uint32_t)__cvta_generic_to_shared(shared_row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
}

/* ---- the matrix unit: c[16, 8] += a[16, 16] · b[16, 8] ----
 *
 * Lane 4g + t holds of a: a[0] row g, columns 2t and 2t+1; a[1] row g+8, the same; a[2] row g,
 * columns 2t+8, 2t+9; a[3] row g+8, the same. Of b: b0 rows 2t, 2t+1 of column g; b1 rows 2t+8,
 * 2t+9. Of c: c[0], c[1] row g, columns 2t, 2t+1; c[2], c[3] row g+8. The lower half of a register
 * is the lower column. */
EY_DEVICE void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same with float16 operands. */
EY_DEVICE void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c[16, 8] = a[16, 32] · b[32, 8] with e4m3 operands; mma_e4m3_add() adds to c instead. For GPUs of
 * compute capability 8.9 and later. Lane 4g + t holds of a: a[0] row g, columns 4t .. 4t+3; a[1]
 * row g+8, the same; a[2] row g, columns 4t+16 .. 4t+19; a[3] row g+8, the same. Of b: b0 rows 4t
 * .. 4t+3 of column g; b1 rows 4t+16 .. 4t+19. The lowest byte is the lowest column. c as above.
 *
 * Products are exact, but the sum keeps some 14 bits on these GPUs (matmul/gemm_w8a8_sm89.cu adds
 * up in float32 after two steps). GeForce GPUs of sm_120 run at half their rate with float32 sums,
 * except in the instruction that scales each operand every 32 columns; it is used there with scales
 * of 1. */
#if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200 || __CUDA_ARCH_SPECIFIC__ == 1200
#define EY_MMA_E4M3                                                                             \
    "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3." \
    "f32.ue8m0 "
#define EY_MMA_SCALES ", {%10}, {0, 0}, {%10}, {0, 0}"
#else
#define EY_MMA_E4M3 "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
#define EY_MMA_SCALES ""
#endif
enum { UNIT_UE8M0 = 0x7f7f7f7f };

EY_DEVICE void mma_e4m3_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        EY_MMA_E4M3 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}" EY_MMA_SCALES ";"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"((uint32_t)UNIT_UE8M0));
}

EY_DEVICE void mma_e4m3(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile(EY_MMA_E4M3
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%11,%11,%11,%11}" EY_MMA_SCALES ";"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
                   "r"((uint32_t)UNIT_UE8M0), "f"(0.f));
}

/* The same for signed bytes, exact in 32 bits: c[16, 8] += a[16, 32] · b[32, 8]. */
EY_DEVICE void mma_s8(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- numbers ---- */

/* Returns the larger one; NaN if either is NaN. */
EY_DEVICE float max_or_nan(float a, float b)
{
    float out;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
    return out;
}

/* Returns two BF16 in one register, `low` in the lower half, rounded to nearest even. */
EY_DEVICE uint32_t bf16_pair(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

/* The same for two float16. */
EY_DEVICE uint32_t f16_pair(float low, float high)
{
    uint32_t out;
    asm("{.reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}"
        : "=r"(out)
        : "f"(low), "f"(high));
    return out;
}

/* Returns the products of BF16 pairs, each rounded once. */
EY_DEVICE uint32_t bf16_pair_mul(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("{.reg .b32 z; mov.b32 z, 0x80008000; fma.rn.bf16x2 %0, %1, %2, z;}"
        : "=r"(out)
        : "r"(a), "r"(b));
    return out;
}

/* Returns the sums of float16 pairs, each rounded once. */
EY_DEVICE uint32_t f16_pair_add(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Returns the products of float16 pairs, each rounded once. */
EY_DEVICE uint32_t f16_pair_mul(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Returns a · b + c of float16 pairs, each rounded once. */
EY_DEVICE uint32_t f16_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}

/* Converts four e4m3 to two float16 pairs, exactly; NaNs give NaN, or 480 on GPUs before sm_89. */
EY_DEVICE void e4m3_f16_pairs(uint32_t out[2], uint32_t four)
{
#if __CUDA_ARCH__ >= 890
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, "
        "h;}"
        : "=r"(out[0]), "=r"(out[1])
        : "r"(four));
#else
    /* sign and seven bits moved to float16's fields are 2^-8 of the value, subnormals included */
    for (int i = 0; i < 2; i++) {
        uint32_t high = __byte_perm(four, 0, i ? 0x3424 : 0x1404);
        uint32_t bits = (high & 0x80008000u) | ((high & 0x7f007f00u) >> 1);
        asm("{.reg .b32 k; mov.b32 k, 0x5c005c00; mul.rn.f16x2 %0, %1, k;}"
            : "=r"(out[i])
            : "r"(bits));
    }
#endif
}

/* Converts to the nearest e4m3, ties to even, saturating at ±448; from sm_89 on. */
EY_DEVICE uint32_t e4m3_codes(float4 v)
{
    uint32_t out;
    asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, "
        "%4, %3; mov.b32 %0, {l, h};}"
        : "=r"(out)
        : "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w));
    return out;
}

/* Widens bytes 2·half and 2·half + 1 to two signed 16-bit integers. (__byte_perm cannot spread
 * signs.) */
template <int half> EY_DEVICE uint32_t widen_bytes(uint32_t four)
{
    uint32_t out;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(out) : "r"(four), "n"(half ? 0xb3a2 : 0x9180));
    return out;
}

/* Widens byte `i` of a and of b as widen_bytes() does. */
template <int i> EY_DEVICE uint32_t widen_bytes_of_two(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "n"(0xc480 + 0x1111 * i));
    return out;
}

/* Returns a · b rounded, never fused with a following sum. */
EY_DEVICE float product_rounded(float a, float b)
{
    return __fmul_rn(a, b);
}

EY_DEVICE float f16_bits_value(uint16_t bits)
{
    float out;
    asm("{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(out) : "h"(bits));
    return out;
}

EY_DEVICE float exp2_fast(float x)
{
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

/* ---- order ---- */

/* Programmatic dependent launch: every kernel calls wait_for_previous(), before which it must not
 * access what the previous kernel writes. Both functions do nothing on GPUs without it, or if the
 * launch does not request it. */
EY_DEVICE void wait_for_previous(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

EY_DEVICE void let_next_start(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Adds 1 and returns the previous value; threads that read a later value see what this thread wrote
 * before. */
EY_DEVICE uint32_t count_arrival(uint32_t *counter)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(counter)
                 : "memory");
    return before;
}

/* Whether `v` holds in any lane of the warp. */
EY_DEVICE bool any_lane(bool v)
{
    return __any_sync(0xffffffffu, v);
}

EY_DEVICE uint32_t shuffle_xor(uint32_t v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

EY_DEVICE float shuffle_xor(float v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

EY_DEVICE uint32_t shuffle(uint32_t v, int lane)
{
    return __shfl_sync(0xffffffffu, v, lane);
}

EY_DEVICE float shuffle(float v, int lane)
{
    return __shfl_sync(0xffffffffu, v, lane);
}

#endif /* EY_EMULATE */

/* ---- built from the above ---- */

EY_DEVICE int lane_index(void)
{
    return (int)(threadIdx.x % 32);
}

EY_DEVICE int warp_index(void)
{
    return (int)(threadIdx.x / 32);
}

/* Return this thread's index among all threads of the launch (a grid and block of one dimension),
 * and their number. */
EY_DEVICE int64_t global_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

EY_DEVICE int64_t global_threads(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

EY_DEVICE float bits_float(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } v;
    v.u = bits;
    return v.f;
}

EY_DEVICE uint32_t float_bits(float f)
{
    union {
        uint32_t u;
        float f;
    } v;
    v.f = f;
    return v.u;
}

EY_DEVICE float bf16_value(bf16 v)
{
    return bits_float((uint32_t)v << 16);
}

EY_DEVICE float bf16_low(uint32_t pair)
{
    return bits_float(pair << 16);
}

EY_DEVICE float bf16_high(uint32_t pair)
{
    return bits_float(pair & 0xffff0000u);
}

EY_DEVICE bf16 bf16_of(float v)
{
    return (bf16)(bf16_pair(v, 0) & 0xffffu);
}

/* Converts two e4m3, the high bytes of the halves, to a BF16 pair, exact except for NaN (0x7f and
 * 0xff give ±480): sign and seven bits move to BF16's fields, which gives 2^-120 of the value,
 * subnormals included. */
EY_DEVICE uint32_t e4m3_pair(uint32_t two_high_bytes)
{
    uint32_t bits = (two_high_bytes & 0x80008000u) | ((two_high_bytes & 0x7f007f00u) >> 4);
    return bf16_pair_mul(bits, 0x7b807b80u); /* 2^120 */
}

/* Converts e4m3 bytes 2·half and 2·half + 1 of `four` to a BF16 pair, as above; `factor` is 2^120
 * twice (E4M3_FACTOR), or 0 for two zeros. Bytes are widened with their signs, so that one shift
 * moves sign and code to their fields and one mask removes the other copies of the sign. */
enum { E4M3_FACTOR = 0x7b807b80 };

template <int half> EY_DEVICE uint32_t e4m3_widened(uint32_t four, uint32_t factor)
{
    return bf16_pair_mul(widen_bytes<half>(four) << 4 & 0x87f087f0u, factor);
}

/* Converts byte `i` of a and of b in the same way. */
template <int i> EY_DEVICE uint32_t e4m3_interleaved(uint32_t a, uint32_t b)
{
    return bf16_pair_mul(widen_bytes_of_two<i>(a, b) << 4 & 0x87f087f0u, E4M3_FACTOR);
}

EY_DEVICE float e4m3_value(uint8_t v)
{
    float f = bits_float((uint32_t)(v & 0x80) << 24 | (uint32_t)(v & 0x7f) << 20) * 0x1p120f;
    return (v & 0x7f) == 0x7f ? bits_float(0x7fc00000u) : f;
}

/* Converts to the nearest e4m3, ties to even, saturating at ±448. Uses integers, since not every
 * GPU can convert. */
EY_DEVICE uint8_t e4m3_of(float v)
{
    float size = fminf(fabsf(v), 448.0f);
    uint32_t sign = float_bits(v) >> 24 & 0x80u, bits = float_bits(size);
    if (size < 0x1p-6f)
        return (uint8_t)(sign |
                         (float_bits(size * 512.0f + 0x1p23f) & 0xfu)); /* a multiple of 2^-9 */
    bits += 0x7ffffu + (bits >> 20 & 1u);
    return (uint8_t)(sign | ((bits >> 20) - (120u << 3)));
}

/* Converts four int8 to two float16 pairs: 1024 + 128 + v is exact, and its low byte is v with the
 * sign inverted. */
EY_DEVICE void int8_f16_pairs(uint32_t out[2], uint32_t four)
{
    four ^= 0x80808080u;
    out[0] = f16_pair_add(__byte_perm(four, 0x64646464u, 0x4140), 0xe480e480u);
    out[1] = f16_pair_add(__byte_perm(four, 0x64646464u, 0x4342), 0xe480e480u);
}

EY_DEVICE float warp_sum(float v)
{
    for (int mask = 16; mask; mask /= 2)
        v += shuffle_xor(v, mask);
    return v;
}

EY_DEVICE float warp_max(float v)
{
    for (int mask = 16; mask; mask /= 2)
        v = fmaxf(v, shuffle_xor(v, mask));
    return v;
}

#endif
