/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver API that the backend uses: types of CUDA 12's cuda.h, and a table of
 * functions opened at run time, so that eyelet builds without the toolkit and starts without the
 * driver. Tests fill the table with functions of their own (tests/cuda/fake_driver.h). */
#ifndef EY_CUDA_DRIVER_H
#define EY_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int CUresult; /* 0 is success */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
};

enum cuda_attribute {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,       /* kHz */
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
};

enum {
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_MEMHOSTREGISTER_DEVICEMAP = 2,
    CU_MEMHOSTREGISTER_READ_ONLY = 8,
    CU_CTX_SCHED_SPIN = 1,
    CU_CTX_SCHED_BLOCKING_SYNC = 4,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

typedef struct CUlaunchAttribute_st {
    int id;
    char pad[8 - sizeof(int)];
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* Each entry: the member's name, the symbol in libcuda.so.1, its arguments. */
#define CUDA_FUNCTIONS(F)                                                                         \
    F(init, cuInit, (unsigned flags))                                                             \
    F(driver_version, cuDriverGetVersion, (int *version))                                         \
    F(error_name, cuGetErrorName, (CUresult error, const char **name))                            \
    F(error_string, cuGetErrorString, (CUresult error, const char **text))                        \
    F(device_count, cuDeviceGetCount, (int *n))                                                   \
    F(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                                  \
    F(device_name, cuDeviceGetName, (char *name, int size, CUdevice device))                      \
    F(device_bus, cuDeviceGetPCIBusId, (char *bus, int size, CUdevice device))                    \
    F(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))       \
    F(device_total, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                       \
    F(context_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))           \
    F(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                           \
    F(context_flags, cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned flags))            \
    F(context_current, cuCtxSetCurrent, (CUcontext context))                                      \
    F(context_limit, cuCtxSetLimit, (int limit, size_t value))                                    \
    F(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total))                        \
    F(memory_alloc, cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes))                             \
    F(memory_free, cuMemFree_v2, (CUdeviceptr p))                                                 \
    F(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                     \
    F(host_free, cuMemFreeHost, (void *p))                                                        \
    F(host_register, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags))               \
    F(host_unregister, cuMemHostUnregister, (void *p))                                            \
    F(host_address, cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *p, unsigned flags))   \
    F(to_device, cuMemcpyHtoDAsync_v2,                                                            \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                          \
    F(to_host, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    F(on_device, cuMemcpyDtoDAsync_v2,                                                            \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                          \
    F(set_bytes, cuMemsetD8Async,                                                                 \
      (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                       \
    F(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                      \
    F(module_unload, cuModuleUnload, (CUmodule module))                                           \
    F(module_function_count, cuModuleGetFunctionCount, (unsigned *n, CUmodule module))            \
    F(module_functions, cuModuleEnumerateFunctions,                                               \
      (CUfunction * functions, unsigned n, CUmodule module))                                      \
    F(function_name, cuFuncGetName, (const char **name, CUfunction function))                     \
    F(function_attribute, cuFuncSetAttribute, (CUfunction function, int attribute, int value))    \
    F(function_load, cuFuncLoad, (CUfunction function))                                           \
    F(launch, cuLaunchKernelEx,                                                                   \
      (const CUlaunchConfig *config, CUfunction function, void **args, void **extra))             \
    F(stream_create, cuStreamCreate, (CUstream * stream, unsigned flags))                         \
    F(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                      \
    F(stream_sync, cuStreamSynchronize, (CUstream stream))                                        \
    F(stream_wait, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))           \
    F(event_create, cuEventCreate, (CUevent * event, unsigned flags))                             \
    F(event_destroy, cuEventDestroy_v2, (CUevent event))                                          \
    F(event_record, cuEventRecord, (CUevent event, CUstream stream))                              \
    F(event_sync, cuEventSynchronize, (CUevent event))                                            \
    F(event_seconds, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))       \
    F(capture_begin, cuStreamBeginCapture_v2, (CUstream stream, int mode))                        \
    F(capture_end, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                        \
    F(graph_instantiate, cuGraphInstantiateWithFlags,                                             \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                              \
    F(graph_upload, cuGraphUpload, (CUgraphExec exec, CUstream stream))                           \
    F(graph_launch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                           \
    F(graph_destroy, cuGraphDestroy, (CUgraph graph))                                             \
    F(graph_exec_destroy, cuGraphExecDestroy, (CUgraphExec exec))

struct cuda_driver {
#define CUDA_MEMBER(member, symbol, args) CUresult(*member) args;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
    void *library; /* NULL if a test filled the table */
};

/* Opens libcuda.so.1 and fills the table. Fails without a driver, or if it lacks a function; *e
 * says which and what to do. */
bool cuda_driver_open(struct cuda_driver *driver, ey_err *e);
void cuda_driver_close(struct cuda_driver *driver);

/* Whether the call succeeded. If not, *e says "what: the driver's message" with EY_NO_MEMORY for a
 * full GPU, EY_NO_DEVICE without a GPU, otherwise EY_INTERNAL. */
bool cuda_ok(const struct cuda_driver *driver, CUresult result, const char *what, ey_err *e);

#endif
