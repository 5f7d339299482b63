/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan knows of the device: queried from a GPU, or simulated (eyelet plan --vram). */
#ifndef EY_PLAN_FACTS_H
#define EY_PLAN_FACTS_H

#include <stdbool.h>
#include <stdint.h>

struct backend;

struct device_info {
    const char *name; /* "cuda:0"; "host". Outlives the plan */
    bool is_gpu;      /* memory of its own, that others use too */
    bool wsl2;        /* the driver's word on free memory is worth less there */
    int sm_count;     /* multiprocessors of a GPU */
    uint64_t total;   /* a GPU's memory */
    uint64_t free; /* what this process may still take, its context counted in; the host's available
                      memory */
    uint64_t
        context; /* what the driver takes for this process: as measured, or gpu_context_bytes() */
    const struct backend *cpu; /* with a GPU: what a vision encoder or layers that stay on the host
                                  run on; NULL: none can. Outlives the plan */
    enum {
        PINNED_READS_UNKNOWN,
        PINNED_READS_ALLOWED,
        PINNED_READS_DENIED
    } pinned_reads; /* a GPU: the model's file where it is mapped, from pages that the system pins
                     */
    uint64_t host_free; /* with a GPU: what the host has available; 0: not known */
    double bandwidth,
        cpu_bandwidth; /* bytes a second that the GPU and the CPU read at most; 0: not known */
};

/* As measured where a GPU was at hand (132 multiprocessors: 527 MiB). */
static inline uint64_t gpu_context_bytes(int sm_count)
{
    return (uint64_t)sm_count * 4 << 20;
}

#endif
