/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix unit of sm_90a. Four warps, a warpgroup, compute c[64, 8·tiles] += a[64, 16] · bᵀ with
 * one b[8·tiles, 16].
 *
 * Warp w of the four has rows 16w..16w+15, in the register layout of mma_bf16: a as its 16 x 16
 * operand, and each 8 columns of c as its result. b lies in shared memory, rows of 128 bytes (64
 * columns) one after the other from a multiple of 1024 bytes on; the 16-byte unit u of row r lies
 * at unit u ^ r % 8.
 *
 * The instructions are asynchronous: a and c may be accessed again only after wgmma_wait() for
 * their group, and shared memory that ordinary instructions or cp.async wrote needs fence_shared()
 * and then a barrier. The emulator has functions of the same meaning. */
#ifndef EY_CUDA_WGMMA_CUH
#define EY_CUDA_WGMMA_CUH

#include "kernels/cuda/common/ptx.cuh"

#ifndef EY_EMULATE

/* The block's dynamic shared memory, 1024-byte aligned. */
#define EY_DYNAMIC_SHARED_1024(name) extern __shared__ __align__(1024) unsigned char name[]

/* Returns operand b of wgmma(), beginning with the first row's 32 bytes; groups of 8 rows are 1024
 * bytes apart. */
EY_DEVICE uint64_t wgmma_operand(const void *shared)
{
    uint32_t from = (uint32_t)__cvta_generic_to_shared(shared);
    return (uint64_t)1 << 62 | (uint64_t)(1024 / 16) << 32 | (uint64_t)1 << 16 |
           (from & 0x3ffffu) >> 4;
}

/* Advances by steps · 16 columns within the first row's 128 bytes. */
EY_DEVICE uint64_t wgmma_further(uint64_t operand, int steps)
{
    return operand + (uint64_t)(steps * 2);
}

/* Makes this thread's writes to shared memory (and its cp.async copies) visible to the matrix
 * unit. */
EY_DEVICE void fence_shared(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Call before the first wgmma after registers of a or c were written. */
EY_DEVICE void wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

EY_DEVICE void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most `pending` of the warpgroup's groups are in flight. */
template <int pending> EY_DEVICE void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* Keeps the compiler, which does not know of the asynchronous use, from moving accesses of this
 * register across this point. */
EY_DEVICE void pin_register(float &v)
{
    asm volatile("" : "+f"(v)::"memory");
}

EY_DEVICE void pin_register(uint32_t &v)
{
    asm volatile("" : "+r"(v)::"memory");
}

#define EY_REGISTERS_1 "%0,%1,%2,%3"
#define EY_REGISTERS_2 \
    EY_REGISTERS_1 "," \
                   "%4,%5,%6,%7"
#define EY_REGISTERS_3 \
    EY_REGISTERS_2 "," \
                   "%8,%9,%10,%11"
#define EY_REGISTERS_4 \
    EY_REGISTERS_3 "," \
                   "%12,%13,%14,%15"
#define EY_REGISTERS_5 \
    EY_REGISTERS_4 "," \
                   "%16,%17,%18,%19"
#define EY_REGISTERS_6 \
    EY_REGISTERS_5 "," \
                   "%20,%21,%22,%23"
#define EY_REGISTERS_7 \
    EY_REGISTERS_6 "," \
                   "%24,%25,%26,%27"
#define EY_REGISTERS_8 \
    EY_REGISTERS_7 "," \
                   "%28,%29,%30,%31"
#define EY_REGISTERS_9 \
    EY_REGISTERS_8 "," \
                   "%32,%33,%34,%35"
#define EY_REGISTERS_10 \
    EY_REGISTERS_9 ","  \
                   "%36,%37,%38,%39"
#define EY_REGISTERS_11 \
    EY_REGISTERS_10 "," \
                    "%40,%41,%42,%43"
#define EY_REGISTERS_12 \
    EY_REGISTERS_11 "," \
                    "%44,%45,%46,%47"
#define EY_REGISTERS_13 \
    EY_REGISTERS_12 "," \
                    "%48,%49,%50,%51"
#define EY_REGISTERS_14 \
    EY_REGISTERS_13 "," \
                    "%52,%53,%54,%55"
#define EY_REGISTERS_15 \
    EY_REGISTERS_14 "," \
                    "%56,%57,%58,%59"
#define EY_REGISTERS_16 \
    EY_REGISTERS_15 "," \
                    "%60,%61,%62,%63"
#define EY_REGISTERS_17 \
    EY_REGISTERS_16 "," \
                    "%64,%65,%66,%67"
#define EY_REGISTERS_18 \
    EY_REGISTERS_17 "," \
                    "%68,%69,%70,%71"
#define EY_REGISTERS_19 \
    EY_REGISTERS_18 "," \
                    "%72,%73,%74,%75"
#define EY_REGISTERS_20 \
    EY_REGISTERS_19 "," \
                    "%76,%77,%78,%79"
#define EY_REGISTERS_21 \
    EY_REGISTERS_20 "," \
                    "%80,%81,%82,%83"
#define EY_REGISTERS_22 \
    EY_REGISTERS_21 "," \
                    "%84,%85,%86,%87"
#define EY_REGISTERS_23 \
    EY_REGISTERS_22 "," \
                    "%88,%89,%90,%91"
#define EY_REGISTERS_24 \
    EY_REGISTERS_23 "," \
                    "%92,%93,%94,%95"
#define EY_REGISTERS_25 \
    EY_REGISTERS_24 "," \
                    "%96,%97,%98,%99"
#define EY_REGISTERS_26 \
    EY_REGISTERS_25 "," \
                    "%100,%101,%102,%103"
#define EY_REGISTERS_27 \
    EY_REGISTERS_26 "," \
                    "%104,%105,%106,%107"
#define EY_REGISTERS_28 \
    EY_REGISTERS_27 "," \
                    "%108,%109,%110,%111"
#define EY_REGISTERS_29 \
    EY_REGISTERS_28 "," \
                    "%112,%113,%114,%115"
#define EY_REGISTERS_30 \
    EY_REGISTERS_29 "," \
                    "%116,%117,%118,%119"
#define EY_REGISTERS_31 \
    EY_REGISTERS_30 "," \
                    "%120,%121,%122,%123"
#define EY_REGISTERS_32 \
    EY_REGISTERS_31 "," \
                    "%124,%125,%126,%127"
#define EY_SUMS_OF(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define EY_SUMS_1 EY_SUMS_OF(0)
#define EY_SUMS_2 EY_SUMS_1, EY_SUMS_OF(1)
#define EY_SUMS_3 EY_SUMS_2, EY_SUMS_OF(2)
#define EY_SUMS_4 EY_SUMS_3, EY_SUMS_OF(3)
#define EY_SUMS_5 EY_SUMS_4, EY_SUMS_OF(4)
#define EY_SUMS_6 EY_SUMS_5, EY_SUMS_OF(5)
#define EY_SUMS_7 EY_SUMS_6, EY_SUMS_OF(6)
#define EY_SUMS_8 EY_SUMS_7, EY_SUMS_OF(7)
#define EY_SUMS_9 EY_SUMS_8, EY_SUMS_OF(8)
#define EY_SUMS_10 EY_SUMS_9, EY_SUMS_OF(9)
#define EY_SUMS_11 EY_SUMS_10, EY_SUMS_OF(10)
#define EY_SUMS_12 EY_SUMS_11, EY_SUMS_OF(11)
#define EY_SUMS_13 EY_SUMS_12, EY_SUMS_OF(12)
#define EY_SUMS_14 EY_SUMS_13, EY_SUMS_OF(13)
#define EY_SUMS_15 EY_SUMS_14, EY_SUMS_OF(14)
#define EY_SUMS_16 EY_SUMS_15, EY_SUMS_OF(15)
#define EY_SUMS_17 EY_SUMS_16, EY_SUMS_OF(16)
#define EY_SUMS_18 EY_SUMS_17, EY_SUMS_OF(17)
#define EY_SUMS_19 EY_SUMS_18, EY_SUMS_OF(18)
#define EY_SUMS_20 EY_SUMS_19, EY_SUMS_OF(19)
#define EY_SUMS_21 EY_SUMS_20, EY_SUMS_OF(20)
#define EY_SUMS_22 EY_SUMS_21, EY_SUMS_OF(21)
#define EY_SUMS_23 EY_SUMS_22, EY_SUMS_OF(22)
#define EY_SUMS_24 EY_SUMS_23, EY_SUMS_OF(23)
#define EY_SUMS_25 EY_SUMS_24, EY_SUMS_OF(24)
#define EY_SUMS_26 EY_SUMS_25, EY_SUMS_OF(25)
#define EY_SUMS_27 EY_SUMS_26, EY_SUMS_OF(26)
#define EY_SUMS_28 EY_SUMS_27, EY_SUMS_OF(27)
#define EY_SUMS_29 EY_SUMS_28, EY_SUMS_OF(28)
#define EY_SUMS_30 EY_SUMS_29, EY_SUMS_OF(29)
#define EY_SUMS_31 EY_SUMS_30, EY_SUMS_OF(30)
#define EY_SUMS_32 EY_SUMS_31, EY_SUMS_OF(31)

/* Issued by all four warps; without `add`, c is overwritten. Arguments: tiles, columns (8·tiles),
 * then the numbers of the asm operands from 4·tiles on. */
#define EY_WGMMA(tiles, columns, a0, a1, a2, a3, operand, more)                                \
    EY_DEVICE void wgmma(float(&c)[tiles][4], const uint32_t a[4], uint64_t b, bool add)       \
    {                                                                                          \
        asm volatile("{.reg .pred add; setp.ne.b32 add, %" #more                               \
                     ", 0; wgmma.mma_async.sync.aligned.m64n" #columns                         \
                     "k16.f32.bf16.bf16 {" EY_REGISTERS_##tiles                                \
                     "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #operand ", add, 1, 1, 0;}" \
                     : EY_SUMS_##tiles                                                         \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add)       \
                     : "memory");                                                              \
    }

EY_WGMMA(8, 64, 32, 33, 34, 35, 36, 37)
EY_WGMMA(12, 96, 48, 49, 50, 51, 52, 53)
EY_WGMMA(13, 104, 52, 53, 54, 55, 56, 57)
EY_WGMMA(16, 128, 64, 65, 66, 67, 68, 69)
EY_WGMMA(18, 144, 72, 73, 74, 75, 76, 77)
EY_WGMMA(20, 160, 80, 81, 82, 83, 84, 85)
EY_WGMMA(24, 192, 96, 97, 98, 99, 100, 101)
EY_WGMMA(25, 200, 100, 101, 102, 103, 104, 105)
EY_WGMMA(28, 224, 112, 113, 114, 115, 116, 117)
EY_WGMMA(32, 256, 128, 129, 130, 131, 132, 133)

/* c[64, 64] += a[64, 16] · b, b[16, 64] with rows as above: 64 columns in 128 bytes. */
EY_DEVICE void wgmma_transposed(float (&c)[8][4], const uint32_t a[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" EY_REGISTERS_8
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                 : EY_SUMS_8
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
                 : "memory");
}

/* ---- e4m3: c[64, 8·tiles] += a[64, 32] · bᵀ, b[8·tiles, 32] ----
 *
 * Lane 4g + t holds the part of the warp's 16 rows that mma_e4m3() takes. b is given by the address
 * of its first row's 32 bytes in shared memory, since the rest of its descriptor is the same for
 * all. Products are exact, but sums keep some 14 bits. */
EY_DEVICE uint32_t wgmma_e4m3_operand(uint32_t shared)
{
    return 1u << 16 | shared >> 4;
}

#define EY_WGMMA_E4M3(tiles, columns, a0, a1, a2, a3, operand, more)                          \
    EY_DEVICE void wgmma_e4m3(float(&c)[tiles][4], const uint32_t a[4], uint32_t b, bool add) \
    {                                                                                         \
        asm volatile("{.reg .pred add; .reg .b64 b; mov.b64 b, {%" #operand                   \
                     ", 0x40000040}; setp.ne.b32 add, %" #more                                \
                     ", 0; wgmma.mma_async.sync.aligned.m64n" #columns                        \
                     "k32.f32.e4m3.e4m3 {" EY_REGISTERS_##tiles "}, {%" #a0 ",%" #a1 ",%" #a2 \
                                                                ",%" #a3 "}, b, add, 1, 1;}"  \
                     : EY_SUMS_##tiles                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"((int)add)      \
                     : "memory");                                                             \
    }

EY_WGMMA_E4M3(2, 16, 8, 9, 10, 11, 12, 13)
EY_WGMMA_E4M3(4, 32, 16, 17, 18, 19, 20, 21)
EY_WGMMA_E4M3(8, 64, 32, 33, 34, 35, 36, 37)

#endif
#endif
