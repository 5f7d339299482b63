/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the processes that use a GPU. */
#include "backend/cuda/nvml.h"

#include <stdlib.h>
#include <string.h>

static int larger_process_first(const void *a, const void *b)
{
    const struct nvml_process *x = a, *y = b;
    unsigned long long left = x->bytes == NVML_NOT_KNOWN ? 0 : x->bytes,
                       right = y->bytes == NVML_NOT_KNOWN ? 0 : y->bytes;
    return left > right ? -1 : left < right;
}

/* A program that computes and draws appears in both lists. */
static int add_processes(struct nvml_process *out, int n, const struct nvml_process *more,
                         unsigned n_more)
{
    for (unsigned i = 0; i < n_more && n < NVML_PROCESSES; i++) {
        int at = 0;
        while (at < n && out[at].pid != more[i].pid)
            at++;
        if (at == n)
            out[n++] = more[i];
        else if (out[at].bytes == NVML_NOT_KNOWN ||
                 (more[i].bytes != NVML_NOT_KNOWN && more[i].bytes > out[at].bytes))
            out[at].bytes = more[i].bytes;
    }
    return n;
}

int nvml_processes(const struct nvml *nvml, const char *bus,
                   struct nvml_process out[NVML_PROCESSES])
{
    nvmlDevice_t device = NULL;
    struct nvml_process compute[NVML_PROCESSES], graphics[NVML_PROCESSES];
    unsigned n_compute = NVML_PROCESSES, n_graphics = NVML_PROCESSES;
    if (nvml->by_bus(bus, &device) != 0) return -1;
    bool computing = nvml->compute(device, &n_compute, compute) == 0,
         drawing = nvml->graphics(device, &n_graphics, graphics) == 0;
    if (!computing && !drawing) return -1;
    int n = computing ? add_processes(out, 0, compute, n_compute) : 0;
    n = drawing ? add_processes(out, n, graphics, n_graphics) : n;
    qsort(out, (size_t)n, sizeof(out[0]), larger_process_first);
    return n;
}
