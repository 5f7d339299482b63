/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk copies into shared memory, and barriers that count the bytes that arrived (sm_90). The
 * emulator lacks them and runs other kernels. */
#ifndef EY_CUDA_BULK_COPY_CUH
#define EY_CUDA_BULK_COPY_CUH

#include "kernels/cuda/common/ptx.cuh"

EY_DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Initializes a barrier: its phase ends when `arrivals` threads have arrived and all announced
 * bytes are there. */
EY_DEVICE void barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* Call after the last barrier_init(), before the block's first __syncthreads(). */
EY_DEVICE void barriers_are_made(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives and announces bytes. */
EY_DEVICE void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

EY_DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Waits until the phase of this parity ends. */
EY_DEVICE void barrier_wait(uint32_t barrier, int parity)
{
    asm volatile("{.reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n"
                 "@over bra done;\n"
                 "bra again;\n"
                 "done:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Set the number of registers per thread of a warpgroup; it can take only registers that other
 * warpgroups of the block have given up. */
template <int n> EY_DEVICE void take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

template <int n> EY_DEVICE void give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

/* Copies bytes; their number and both addresses are multiples of 16. */
EY_DEVICE void bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* Returns the cache policy for data that is not read again soon. */
EY_DEVICE uint64_t evict_first_policy(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

EY_DEVICE void bulk_copy(uint32_t to, const void *from, int bytes, uint32_t barrier,
                         uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

EY_DEVICE uint4 load_shared(uint32_t from)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

EY_DEVICE float2 load_shared_pair(uint32_t from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}

#endif
