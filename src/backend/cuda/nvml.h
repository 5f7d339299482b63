/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library (NVML): tells who else holds a GPU's memory, which the driver does
 * not. Opened at run time; nothing depends on it. */
#ifndef EY_CUDA_NVML_H
#define EY_CUDA_NVML_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nvmlDevice_st *nvmlDevice_t;

struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* NVML_NOT_KNOWN: the system does not say */
    unsigned gpu_instance, compute_instance;
};
#define NVML_NOT_KNOWN (~0ull)

/* Each: the member's name, its symbol, what it was called before, its arguments. All return 0 when
 * they did what they say. */
#define NVML_FUNCTIONS(F)                                                                        \
    F(init, nvmlInit_v2, nvmlInit, (void))                                                       \
    F(shutdown, nvmlShutdown, nvmlShutdown, (void))                                              \
    F(driver_version, nvmlSystemGetDriverVersion, nvmlSystemGetDriverVersion,                    \
      (char *text, unsigned size))                                                               \
    F(by_bus, nvmlDeviceGetHandleByPciBusId_v2, nvmlDeviceGetHandleByPciBusId,                   \
      (const char *bus, nvmlDevice_t *device))                                                   \
    F(compute, nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2, \
      (nvmlDevice_t device, unsigned *n, struct nvml_process *list))                             \
    F(graphics, nvmlDeviceGetGraphicsRunningProcesses_v3,                                        \
      nvmlDeviceGetGraphicsRunningProcesses_v2,                                                  \
      (nvmlDevice_t device, unsigned *n, struct nvml_process *list))

struct nvml {
#define NVML_MEMBER(member, symbol, older, args) int(*member) args;
    NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
    void *library; /* NULL: the table was filled by a test */
};

/* Opens the library, fills the table and starts it. False: it is not there, lacks something or does
 * not start. */
bool nvml_open(struct nvml *nvml);
void nvml_close(struct nvml *nvml);

enum { NVML_PROCESSES = 64 };

/* The processes that use the GPU, each once, the largest first; -1: the library does not say. */
int nvml_processes(const struct nvml *nvml, const char *bus,
                   struct nvml_process out[NVML_PROCESSES]);

#endif
