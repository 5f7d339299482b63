/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_PRELOAD, for programs that open the GPU like driver.c. With EY_SMS=N, the
 * context gets N of the GPU's SMs (a green context; N is a multiple of 8, or of 2 before sm_90),
 * and the program sees a GPU of N SMs. Memory bandwidth is not reduced in proportion: an SM of a
 * large GPU may read many times its share. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *(*find)(void *library, const char *name);
static void *driver;

/* A function of the driver that the program has opened. */
#define DRIVER(name) ((__typeof__(&name))(uintptr_t)find(driver, #name))

static unsigned wanted_sms(void)
{
    const char *n = getenv("EY_SMS");
    return n ? (unsigned)strtoul(n, NULL, 10) : 0;
}

static CUresult retain(CUcontext *out, CUdevice device)
{
    CUdevResource all, some, rest;
    CUdevResourceDesc what;
    CUgreenCtx green;
    unsigned groups = 1;
    CUresult result = DRIVER(cuDevicePrimaryCtxRetain)(out, device);
    if (!result) result = DRIVER(cuDeviceGetDevResource)(device, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (!result)
        result = DRIVER(cuDevSmResourceSplitByCount)(&some, &groups, &all, &rest, 0, wanted_sms());
    if (!result) result = DRIVER(cuDevResourceGenerateDesc)(&what, &some, 1);
    if (!result)
        result = DRIVER(cuGreenCtxCreate)(&green, what, device, CU_GREEN_CTX_DEFAULT_STREAM);
    if (!result) result = DRIVER(cuCtxFromGreenCtx)(out, green);
    if (result)
        fprintf(stderr, "slice: no context of %u SMs (error %d)\n", wanted_sms(), (int)result);
    else
        fprintf(stderr, "slice: %u of %u SMs\n", some.sm.smCount, all.sm.smCount);
    return result;
}

static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    CUresult result = DRIVER(cuDeviceGetAttribute)(value, which, device);
    if (!result && which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *value = (int)wanted_sms();
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *library, const char *name)
{
    if (!find) {
        void *real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        memcpy(&find, &real, sizeof(find));
    }
    if (wanted_sms() && !strcmp(name, "cuInit")) driver = library;
    if (driver && library == driver && !strcmp(name, "cuDevicePrimaryCtxRetain"))
        return (void *)(uintptr_t)retain;
    if (driver && library == driver && !strcmp(name, "cuDeviceGetAttribute"))
        return (void *)(uintptr_t)attribute;
    return find(library, name);
}
