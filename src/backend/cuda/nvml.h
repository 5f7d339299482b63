/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library (NVML), which lists other processes' GPU memory; the driver API does
 * not. Opened at run time; nothing depends on it. */
#ifndef EY_CUDA_NVML_H
#define EY_CUDA_NVML_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nvmlDevice_st *nvmlDevice_t;

struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* NVML_NOT_KNOWN if the system does not tell */
    unsigned gpu_instance, compute_instance;
};
#define NVML_NOT_KNOWN (~0ull)

/* Each entry: the member's name, its symbol, its older symbol, its arguments. All return 0 on
 * success. */
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
    void *library; /* NULL if a test filled the table */
};

/* Opens the library, fills the table and initializes it. Fails if the library or a function is
 * missing, or if it does not start. */
bool nvml_open(struct nvml *nvml);
void nvml_close(struct nvml *nvml);

enum { NVML_PROCESSES = 64 };

/* Lists the processes that use the GPU, each once, largest first; returns -1 if the library does
 * not tell. Some are missing if it tells only of those that compute or only of those that draw, or
 * if there are more than NVML_PROCESSES. */
int nvml_processes(const struct nvml *nvml, const char *bus,
                   struct nvml_process out[NVML_PROCESSES]);

#endif
