/* SPDX-License-Identifier: Apache-2.0 */
/* Emulates ptx.cuh: the CUDA C++ that kernels use, and every PTX instruction of ptx.cuh, for a C++
 * compiler. A block's threads are fibers of one CPU thread, each of which runs until it waits. The
 * last thread of a warp to arrive executes a warp instruction (emulator.cpp).
 * Shared memory, cp.async targets before they are complete, and all else that a kernel might read
 * too early hold 0xff bytes, which are NaN in every format. */
#ifndef EY_TESTS_CUDA_EMULATOR_H
#define EY_TESTS_CUDA_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda/emulated.h"

/* ---- the CUDA language ---- */

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
/* One copy for each CPU thread, which runs one block at a time. emulator.cpp finds these variables
 * in the program's symbol table. */
#define __shared__ static thread_local

struct uint3 {
    unsigned x, y, z;
};
typedef uint3 dim3;

template <typename T> struct alignas(2 * sizeof(T)) vector2 {
    T x, y;
};
template <typename T> struct alignas(4 * sizeof(T)) vector4 {
    T x, y, z, w;
};
typedef vector2<float> float2;
typedef vector4<float> float4;
typedef vector2<int> int2;
typedef vector4<int> int4;
typedef vector2<unsigned> uint2;
typedef vector4<unsigned> uint4;

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y)
{
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* set at each switch of fibers */
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

namespace emulator
{

enum meeting {
    MEET_SYNC,
    MEET_SHUFFLE,
    MEET_LOAD_MATRICES,
    MEET_LOAD_TRANSPOSED,
    MEET_MMA_BF16,
    MEET_MMA_F16,
    MEET_MMA_E4M3,
    MEET_MMA_S8,
    MEET_WGMMA
};

struct shuffle_operand {
    uint32_t value;
    int from_lane;
};
struct matrices_operand {
    uint32_t *out;
    const void *row;
};
struct mma_operand {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};

struct mma_s8_operand {
    int *c;
    const uint32_t *a;
    uint32_t b[2];
};

/* Waits until all 32 threads of the warp have arrived at this instruction. It is complete when
 * meet() returns. */
void meet(enum meeting what, void *operand);
void block_barrier(void);

void *dynamic_shared(void);
void copy_async(void *shared, const void *global, int bytes);
void copy_commit(void);
void copy_wait(int pending);
void wgmma(float *c, int tiles, const uint32_t a[4], const void *b, bool add);
void wgmma_commit(void);
void wgmma_wait(int pending);
uint32_t count_arrival(uint32_t *counter);
void check_aligned(const void *p, size_t alignment);

struct kernel : emulated_kernel {
    void (*thread)(const void *args); /* runs one thread */
    const kernel *next;
    kernel(const emulated_kernel &what, void (*run)(const void *args));
};

/* ---- conversions: round to nearest even, keep denormals ---- */

static inline uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float value(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline uint16_t bf16_bits(float f)
{
    uint32_t u = bits(f);
    if (f != f) return 0x7fff;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline uint16_t f16_bits(float f)
{
    uint32_t sign = bits(f) >> 16 & 0x8000u, u = bits(f) & 0x7fffffffu;
    if (f != f) return 0x7fff;
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above */
    if (u < 0x38800000u)                                     /* below 2^-14: multiples of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrint((double)value(u) * 0x1p24));
    return (uint16_t)(sign | ((u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13));
}

static inline float f16_bits_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
    if (exponent == 31) return value(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) return value(sign | bits((float)fraction * 0x1p-24f));
    return value(sign | (exponent + 112) << 23 | fraction << 13);
}

/* A BF16 product is exact in F32 except for its range; BF16 denormals are rounded once, to
 * multiples of 2^-133. */
static inline uint16_t bf16_product(uint16_t a, uint16_t b)
{
    double product = (double)value((uint32_t)a << 16) * (double)value((uint32_t)b << 16);
    if (product != product || fabs(product) >= 0x1p-126) return bf16_bits((float)product);
    return (uint16_t)((signbit(product) ? 0x8000u : 0) | (uint32_t)lrint(fabs(product) * 0x1p133));
}

template <typename T> static inline T loaded(const void *p)
{
    check_aligned(p, sizeof(T));
    T v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint32_t shuffled(uint32_t v, int from_lane)
{
    shuffle_operand operand = {v, from_lane};
    meet(MEET_SHUFFLE, &operand);
    return operand.value;
}

} // namespace emulator

/* ---- builtins of nvcc ---- */

/* atomics do not race, so races.cpp must not see them */
#ifdef __clang__
#define EMULATED_ATOMIC __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define EMULATED_ATOMIC __attribute__((noinline, no_sanitize("thread")))
#endif

static inline void __syncthreads(void)
{
    emulator::block_barrier();
}
static inline void __syncwarp(unsigned = 0xffffffffu)
{
    emulator::meet(emulator::MEET_SYNC, nullptr);
}
[[maybe_unused]] EMULATED_ATOMIC static void __threadfence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline uint32_t __float_as_uint(float f)
{
    return emulator::bits(f);
}
static inline int __float_as_int(float f)
{
    return (int)emulator::bits(f);
}
static inline float __uint_as_float(uint32_t u)
{
    return emulator::value(u);
}
static inline float __int_as_float(int i)
{
    return emulator::value((uint32_t)i);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
/* macros, since some C libraries have functions with these names */
static inline float emulated_rsqrtf(float x)
{
    return (float)(1.0 / sqrt((double)x));
}
#define rsqrtf emulated_rsqrtf
#define __expf expf
#define __logf logf
static inline int __float2int_rn(float f)
{
    return (int)lrintf(f);
}
static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
static inline int __clz(int v)
{
    return v ? __builtin_clz((unsigned)v) : 32;
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}

/* Byte i of the result is the byte of b:a that nibble i of the selector names. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned pick = selector >> 4 * i &
                        /* the nibble's top bit is ignored, as by nvcc's __byte_perm and unlike by
                         * PTX's prmt */
                        7u;
        out |= ((unsigned)(both >> 8 * pick) & 0xffu) << 8 * i;
    }
    return out;
}

/* One function for each type, as in CUDA. */
#define EMULATED_MIN_MAX(type)             \
    static inline type min(type a, type b) \
    {                                      \
        return b < a ? b : a;              \
    }                                      \
    static inline type max(type a, type b) \
    {                                      \
        return a < b ? b : a;              \
    }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
EMULATED_MIN_MAX(float)
EMULATED_MIN_MAX(double)
#undef EMULATED_MIN_MAX

/* Atomically sets *p to change(*p) and returns the old value. */
template <typename T, typename Change> EMULATED_ATOMIC static T emulated_atomic(T *p, Change change)
{
    T before, after;
    __atomic_load(p, &before, __ATOMIC_RELAXED);
    do
        after = change(before);
    while (
        !__atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return before;
}

template <typename T> static inline T atomicAdd(T *p, T v)
{
    return emulated_atomic(p, [v](T old) { return (T)(old + v); });
}
template <typename T> static inline T atomicMax(T *p, T v)
{
    return emulated_atomic(p, [v](T old) { return old < v ? v : old; });
}
template <typename T> static inline T atomicMin(T *p, T v)
{
    return emulated_atomic(p, [v](T old) { return v < old ? v : old; });
}
template <typename T> static inline T atomicOr(T *p, T v)
{
    return emulated_atomic(p, [v](T old) { return (T)(old | v); });
}
template <typename T> static inline T atomicExch(T *p, T v)
{
    return emulated_atomic(p, [v](T) { return v; });
}

/* ---- ptx.cuh ---- */

#define EY_KERNEL(name, args_type, threads, blocks)                                 \
    static void name(const args_type &a);                                           \
    static void name##_of_thread(const void *args)                                  \
    {                                                                               \
        name(*static_cast<const args_type *>(args));                                \
    }                                                                               \
    static const emulator::kernel name##_entry({#name, sizeof(args_type), threads}, \
                                               name##_of_thread);                   \
    static void name(const args_type &a)
#define EY_DYNAMIC_SHARED(name) \
    unsigned char *const name = static_cast<unsigned char *>(emulator::dynamic_shared())
#define EY_DEVICE [[maybe_unused]] static inline

EY_DEVICE uint4 load_weight(const void *p)
{
    return emulator::loaded<uint4>(p);
}

EY_DEVICE uint32_t load_weight_4(const uint32_t *p)
{
    return emulator::loaded<uint32_t>(p);
}

EY_DEVICE uint2 load_weight_8(const void *p)
{
    return emulator::loaded<uint2>(p);
}

EY_DEVICE uint32_t load_weight_2(const void *p)
{
    return emulator::loaded<uint16_t>(p);
}

EY_DEVICE uint4 load_fresh(const void *p)
{
    return emulator::loaded<uint4>(p);
}

EY_DEVICE float load_fresh_float(const float *p)
{
    return emulator::loaded<float>(p);
}

EY_DEVICE float2 load_fresh_pair(const float *p)
{
    return emulator::loaded<float2>(p);
}

EY_DEVICE void add_in_memory(float *y, float4 v)
{
    emulator::check_aligned(y, 16);
    y[0] += v.x;
    y[1] += v.y;
    y[2] += v.z;
    y[3] += v.w;
}

EY_DEVICE void add_in_memory(float *y, float v)
{
    *y += v;
}

EY_DEVICE void copy_async(void *shared, const void *global, int bytes)
{
    emulator::copy_async(shared, global, bytes);
}

EY_DEVICE void copy_async_if(bool wanted, void *shared, const void *global, int bytes)
{
    if (wanted) emulator::copy_async(shared, global, bytes);
}

EY_DEVICE void copy_commit(void)
{
    emulator::copy_commit();
}

template <int pending> EY_DEVICE void copy_wait(void)
{
    emulator::copy_wait(pending);
}

EY_DEVICE void load_matrices(uint32_t out[4], const void *shared_row)
{
    emulator::matrices_operand operand = {out, shared_row};
    emulator::meet(emulator::MEET_LOAD_MATRICES, &operand);
}

EY_DEVICE void load_matrices_transposed(uint32_t out[4], const void *shared_row)
{
    emulator::matrices_operand operand = {out, shared_row};
    emulator::meet(emulator::MEET_LOAD_TRANSPOSED, &operand);
}

EY_DEVICE void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    emulator::mma_operand operand = {c, a, {b0, b1}};
    emulator::meet(emulator::MEET_MMA_BF16, &operand);
}

EY_DEVICE void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    emulator::mma_operand operand = {c, a, {b0, b1}};
    emulator::meet(emulator::MEET_MMA_F16, &operand);
}

EY_DEVICE void mma_e4m3_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    emulator::mma_operand operand = {c, a, {b0, b1}};
    emulator::meet(emulator::MEET_MMA_E4M3, &operand);
}

EY_DEVICE void mma_e4m3(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    c[0] = c[1] = c[2] = c[3] = 0;
    mma_e4m3_add(c, a, b0, b1);
}

EY_DEVICE void mma_s8(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    emulator::mma_s8_operand operand = {c, a, {b0, b1}};
    emulator::meet(emulator::MEET_MMA_S8, &operand);
}

EY_DEVICE float max_or_nan(float a, float b)
{
    return a != a || b != b ? emulator::value(0x7fffffffu) : a < b ? b : a;
}

EY_DEVICE uint32_t bf16_pair(float low, float high)
{
    return emulator::bf16_bits(low) | (uint32_t)emulator::bf16_bits(high) << 16;
}

EY_DEVICE uint32_t f16_pair(float low, float high)
{
    return emulator::f16_bits(low) | (uint32_t)emulator::f16_bits(high) << 16;
}

EY_DEVICE uint32_t bf16_pair_mul(uint32_t a, uint32_t b)
{
    return emulator::bf16_product((uint16_t)a, (uint16_t)b) |
           (uint32_t)emulator::bf16_product((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;
}

EY_DEVICE uint32_t f16_pair_mul(uint32_t a, uint32_t b)
{
    uint32_t low = emulator::f16_bits(emulator::f16_bits_value((uint16_t)a) *
                                      emulator::f16_bits_value((uint16_t)b));
    return low | (uint32_t)emulator::f16_bits(emulator::f16_bits_value((uint16_t)(a >> 16)) *
                                              emulator::f16_bits_value((uint16_t)(b >> 16)))
                     << 16;
}

EY_DEVICE uint32_t f16_pair_add(uint32_t a, uint32_t b)
{
    uint32_t low = emulator::f16_bits(emulator::f16_bits_value((uint16_t)a) +
                                      emulator::f16_bits_value((uint16_t)b));
    return low | (uint32_t)emulator::f16_bits(emulator::f16_bits_value((uint16_t)(a >> 16)) +
                                              emulator::f16_bits_value((uint16_t)(b >> 16)))
                     << 16;
}

/* F16 products are exact in F32; their sum in double is nearly exact. */
EY_DEVICE uint32_t f16_pair_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const double product = (double)emulator::f16_bits_value((uint16_t)(a >> shift)) *
                               (double)emulator::f16_bits_value((uint16_t)(b >> shift)),
                     sum = product + (double)emulator::f16_bits_value((uint16_t)(c >> shift));
        out |= (uint32_t)emulator::f16_bits((float)sum) << shift;
    }
    return out;
}

EY_DEVICE void e4m3_f16_pairs(uint32_t out[2], uint32_t four)
{
    for (int i = 0; i < 4; i++) {
        uint32_t code = four >> 8 * i & 0xffu;
        uint32_t f16 = (code & 0x7fu) == 0x7fu
                           ? 0x7fffu
                           : (uint32_t)emulator::f16_bits(
                                 emulator::f16_bits_value((uint16_t)((code & 0x7fu) << 7)) * 256) |
                                 (code & 0x80u) << 8;
        out[i / 2] = i % 2 ? out[i / 2] | f16 << 16 : f16;
    }
}

template <int half> EY_DEVICE uint32_t widen_bytes(uint32_t four)
{
    uint32_t low = (uint32_t)(int8_t)(four >> 16 * half),
             high = (uint32_t)(int8_t)(four >> (16 * half + 8));
    return (low & 0xffffu) | high << 16;
}

template <int i> EY_DEVICE uint32_t widen_bytes_of_two(uint32_t a, uint32_t b)
{
    uint32_t low = (uint32_t)(int8_t)(a >> 8 * i), high = (uint32_t)(int8_t)(b >> 8 * i);
    return (low & 0xffffu) | high << 16;
}

EY_DEVICE float f16_bits_value(uint16_t bits)
{
    return emulator::f16_bits_value(bits);
}

EY_DEVICE float exp2_fast(float x)
{
    float y = exp2f(fabsf(x) < 0x1p-126f ? 0 : x);
    return y < 0x1p-126f ? 0 : y;
}

EY_DEVICE float product_rounded(float a, float b)
{
    return a * b; /* the build disables contraction */
}

EY_DEVICE void wait_for_previous(void)
{
}

EY_DEVICE void let_next_start(void)
{
}

EY_DEVICE uint32_t count_arrival(uint32_t *counter)
{
    return emulator::count_arrival(counter);
}

EY_DEVICE uint32_t shuffle(uint32_t v, int lane)
{
    return emulator::shuffled(v, lane & 31);
}

EY_DEVICE float shuffle(float v, int lane)
{
    return emulator::value(emulator::shuffled(emulator::bits(v), lane & 31));
}

EY_DEVICE bool any_lane(bool v)
{
    uint32_t any = v;
    for (int mask = 16; mask; mask /= 2)
        any |= emulator::shuffled(any, (int)(threadIdx.x % 32) ^ mask);
    return any != 0;
}

EY_DEVICE uint32_t shuffle_xor(uint32_t v, int mask)
{
    return emulator::shuffled(v, (int)(threadIdx.x % 32) ^ mask);
}

EY_DEVICE float shuffle_xor(float v, int mask)
{
    return emulator::value(emulator::shuffled(emulator::bits(v), (int)(threadIdx.x % 32) ^ mask));
}

/* ---- wgmma.cuh: executed at the wait, which reads the operands; missing fences after writes are
 * not detected ---- */

#define EY_DYNAMIC_SHARED_1024(name) EY_DYNAMIC_SHARED(name)

EY_DEVICE uint64_t wgmma_operand(const void *shared)
{
    return (uint64_t)(uintptr_t)shared;
}

EY_DEVICE uint64_t wgmma_further(uint64_t operand, int steps)
{
    return operand + (uint64_t)(steps * 32);
}

template <int tiles>
EY_DEVICE void wgmma(float (&c)[tiles][4], const uint32_t a[4], uint64_t b, bool add)
{
    emulator::wgmma(c[0], tiles, a, reinterpret_cast<const void *>(b), add);
}

EY_DEVICE void wgmma_commit(void)
{
    emulator::wgmma_commit();
}

template <int pending> EY_DEVICE void wgmma_wait(void)
{
    emulator::wgmma_wait(pending);
}

EY_DEVICE void fence_shared(void)
{
}

EY_DEVICE void wgmma_begin(void)
{
}

EY_DEVICE void pin_register(float &)
{
}

EY_DEVICE void pin_register(uint32_t &)
{
}

#endif
