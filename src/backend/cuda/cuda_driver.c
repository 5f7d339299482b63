/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the driver. In a separate file, so that tests can link another one. */
#include "backend/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

static bool find_functions(struct cuda_driver *d, ey_err *e)
{
    void *symbol;
#define CUDA_FIND(member, name, args)                                                              \
    if (!(symbol = dlsym(d->library, #name)))                                                      \
        return ey_fail(e, EY_NO_DEVICE,                                                            \
                       "the NVIDIA driver lacks %s: it is too old; driver 550 or newer is needed " \
                       "(under WSL2: the Windows driver)",                                         \
                       #name);                                                                     \
    memcpy(&d->member, &symbol, sizeof(symbol));
    CUDA_FUNCTIONS(CUDA_FIND)
#undef CUDA_FIND
    return true;
}

bool cuda_driver_open(struct cuda_driver *d, ey_err *e)
{
    static const char *const names[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
    *d = (struct cuda_driver){0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !d->library; i++)
        d->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return ey_fail(e, EY_NO_DEVICE,
                       "no NVIDIA driver: libcuda.so.1 cannot be opened (under WSL2 it comes with "
                       "the Windows driver)");
    if (find_functions(d, e)) return true;
    cuda_driver_close(d);
    return false;
}

void cuda_driver_close(struct cuda_driver *d)
{
    if (d->library) dlclose(d->library);
    *d = (struct cuda_driver){0};
}
