/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver for tests. GPU memory is host memory, and kernels run in the emulator. Asynchronous
 * work is delayed as long as CUDA allows, until a call waits for it, which reveals host buffers
 * that are reused or read too early. */
#ifndef EY_TESTS_CUDA_FAKE_DRIVER_H
#define EY_TESTS_CUDA_FAKE_DRIVER_H

#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/cuda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fake_gpu {
    const char *name;
    size_t total, used_by_others, context_bytes; /* bytes of memory */
    int n_gpus, sm_count, major, minor;
    int driver_version;      /* 13000: 13.0 */
    size_t shared_per_block; /* largest that a kernel may request */
    bool pins_no_files;      /* host_register() refuses */
};

/* An RTX 5060 with 1,151 MiB in use. */
extern const struct fake_gpu fake_small_gpu;

/* Live objects, and numbers of calls so far. */
struct fake_counts {
    size_t device_bytes, device_peak;
    int contexts, device_allocations, host_allocations, modules, streams, events, graphs; /* live */
    int pinned_ranges; /* Live. File mappings get another address on the GPU than on the host. */
    size_t pinned_bytes;
    /* calls for the objects above and loaded functions; an unchanged number means that nothing was
     * allocated */
    int calls_that_allocate;
    int launches, graph_launches, copies;
    int lazy_functions; /* launched, but never loaded by function_load */
};

/* Fills the table. If no engine of this process holds a context, the state is reset first. Kernels
 * run in the emulator. */
void fake_driver_fill(struct cuda_driver *driver, const struct fake_gpu *card);
struct fake_counts fake_driver_counts(void);

/* Makes the nth call from now (1: the next) of the table's `member` ("memory_alloc") fail with
 * `error`; NULL: none. */
void fake_driver_fail(const char *member, int nth, CUresult error);
/* Whether that call has come. */
bool fake_driver_failed(void);
/* Whether this thread is inside a driver call, where allocations are the fake's own. */
bool fake_driver_is_inside(void);

/* Launches of this kernel do nothing from now on; NULL: all work. */
void fake_driver_break(const char *kernel);

/* Modules that are loaded from now on lack this kernel; NULL: none. */
void fake_driver_hide(const char *kernel);

/* Events show simulated time: FAKE_STEP_SECONDS a step, and FAKE_READ_RATE for read_memory. */
#define FAKE_STEP_SECONDS 1e-6
#define FAKE_READ_RATE 448e9
/* Simulates that Windows has moved bytes first to first + bytes - 1 of the largest allocation to
 * host memory: reading them is 30 times slower. 0 bytes: none. */
void fake_driver_spill(size_t first, size_t bytes);

/* ---- replaces opening libcuda.so.1 (fake_driver_open.c) ---- */

/* Sets the GPU that backend_cuda_create() finds; NULL: no driver. The default is fake_small_gpu. */
void fake_open_gpu(const struct fake_gpu *card);
/* Calls fake_driver_fail() when the driver is opened next. */
void fake_open_fail(const char *member, int nth, CUresult error);

#ifdef __cplusplus
}
#endif

#endif
