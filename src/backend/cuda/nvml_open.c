/* SPDX-License-Identifier: Apache-2.0 */
/* Opens NVIDIA's management library. In a separate file, so that tests can link another one. */
#include <dlfcn.h>
#include <string.h>

#include "backend/cuda/nvml.h"

bool nvml_open(struct nvml *n)
{
    static const char *const names[] = {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
    void *symbol;
    *n = (struct nvml){0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !n->library; i++)
        n->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool whole = n->library != NULL;
#define NVML_FIND(member, name, older, args)                                                    \
    if (whole && ((symbol = dlsym(n->library, #name)) || (symbol = dlsym(n->library, #older)))) \
        memcpy(&n->member, &symbol, sizeof(symbol));                                            \
    else                                                                                        \
        whole = false;
    NVML_FUNCTIONS(NVML_FIND)
#undef NVML_FIND
    if (whole && n->init() == 0) return true;
    if (n->library) dlclose(n->library);
    *n = (struct nvml){0};
    return false;
}

void nvml_close(struct nvml *n)
{
    if (n->shutdown) n->shutdown();
    if (n->library) dlclose(n->library);
    *n = (struct nvml){0};
}
