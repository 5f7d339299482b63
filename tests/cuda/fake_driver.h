/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver for tests: its GPU's memory is the host's, its kernels run in the emulator. Work
 * that is asynchronous on a GPU is put off as long as CUDA allows, until something waits for it: a
 * host buffer that is filled again too early, or read too early, shows. */
#ifndef EY_TESTS_CUDA_FAKE_DRIVER_H
#define EY_TESTS_CUDA_FAKE_DRIVER_H

#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/cuda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fake_gpu {
    const char *name;
    size_t total, used_by_others, context_bytes; /* of memory */
    int n_gpus, sm_count, major, minor;
    int driver_version;      /* 13000: 13.0 */
    size_t shared_per_block; /* that a kernel may ask for */
    bool pins_no_files;      /* host_register() refuses */
};

/* An RTX 5060 with 1,151 MiB in use. */
extern const struct fake_gpu fake_small_gpu;

/* What lives now, and how often each was called in total. */
struct fake_counts {
    size_t device_bytes, device_peak;
    int contexts, device_allocations, host_allocations, modules, streams, events, graphs; /* live */
    int pinned_ranges; /* live; their address on the GPU is another one where they are shared
                          mappings, as files are */
    size_t pinned_bytes;
    int calls_that_allocate; /* all of the above and functions loaded: the same before and after
                                means that nothing was allocated */
    int launches, graph_launches, copies;
    int lazy_functions; /* launched but never loaded by function_load */
};

/* Fills the table; where nobody holds a context, as another engine of this process may, all begins
 * anew. The kernels are those of the emulator. */
void fake_driver_fill(struct cuda_driver *driver, const struct fake_gpu *card);
struct fake_counts fake_driver_counts(void);

/* The nth call from now (1: the next) of the table's `member` ("memory_alloc") fails with `error`;
 * NULL: none does. */
void fake_driver_fail(const char *member, int nth, CUresult error);
/* Whether it has failed. */
bool fake_driver_failed(void);
/* Whether this thread is in a call of the driver: what is allocated there is the fake's own. */
bool fake_driver_is_inside(void);

/* From now on launches of this kernel do nothing; NULL: all work. */
void fake_driver_break(const char *kernel);

/* Modules that are loaded from now on lack this kernel; NULL: none. */
void fake_driver_hide(const char *kernel);

/* Events tell a time that the fake GPU makes up: FAKE_STEP_SECONDS a step, and for read_memory what
 * FAKE_READ_RATE gives. */
#define FAKE_STEP_SECONDS 1e-6
#define FAKE_READ_RATE 448e9
/* Bytes first .. first + bytes - 1 of the largest allocation are read 30 times slower: Windows has
 * moved them to the host's memory. 0 bytes: none are. */
void fake_driver_spill(size_t first, size_t bytes);

/* ---- in place of opening libcuda.so.1 (fake_open.c) ---- */

/* What backend_cuda_create() finds from now on; NULL: there is no driver. At first fake_small_gpu.
 */
void fake_open_gpu(const struct fake_gpu *card);
/* fake_driver_fail() of the driver that is opened next. */
void fake_open_fail(const char *member, int nth, CUresult error);

#ifdef __cplusplus
}
#endif

#endif
