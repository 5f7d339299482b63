/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan knows about the device: queried from a GPU, or simulated (eyelet plan --vram). */
#ifndef EY_PLAN_DEVICE_INFO_H
#define EY_PLAN_DEVICE_INFO_H

#include <stdbool.h>
#include <stdint.h>

struct backend;

struct device_info {
    const char *name; /* "cuda:0" or "host"; must outlive the plan */
    bool is_gpu;      /* has memory of its own, shared with other processes */
    bool wsl2;        /* the driver's free memory is less reliable */
    int sm_count;     /* multiprocessors of a GPU */
    uint64_t total;   /* a GPU's memory */
    uint64_t free; /* memory that this process may still take, including its context; the available
                      memory of a host */
    uint64_t context; /* memory of the process's CUDA context: measured, or gpu_context_bytes() */
    const struct backend *cpu; /* with a GPU: runs a vision encoder or layers on the host; NULL if
                                  none can; must outlive the plan */
    enum {
        PINNED_READS_UNKNOWN,
        PINNED_READS_ALLOWED,
        PINNED_READS_DENIED
    } pinned_reads;     /* whether the system pins pages of the mapped model file and lets the GPU
                            read them */
    uint64_t host_free; /* with a GPU: available host memory; 0 if unknown */
    double bandwidth,
        cpu_bandwidth; /* read bandwidth of the GPU and the CPU in bytes a second; 0 if unknown */
};

/* Estimates the context's bytes from measurements (132 multiprocessors: 527 MiB). */
static inline uint64_t gpu_context_bytes(int sm_count)
{
    return (uint64_t)sm_count * 4 << 20;
}

#endif
