/* A CUDA driver for tests: its card's memory is the host's, its kernels run in the emulator. Work that is asynchronous on a card is put off
 * as long as CUDA allows, until something waits for it: a host buffer that is filled again too early, or read too early, shows. */
#ifndef EY_TEST_CUDA_FAKE_DRIVER_H
#define EY_TEST_CUDA_FAKE_DRIVER_H

#include "backend/cuda/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fake_card {
    const char *name;
    size_t total, used_by_others, context_bytes; /* of memory */
    int n_cards, sm_count, major, minor;
    int driver_version;                          /* 13000: 13.0 */
    size_t shared_per_block;                     /* that a kernel may ask for */
};

/* An RTX 5060 with 1,151 MiB in use. */
extern const struct fake_card fake_small_card;

/* What lives now, and how often each was called in all. */
struct fake_counts {
    size_t device_bytes, device_peak;
    int device_allocations, host_allocations, modules, streams, events, graphs; /* live */
    int calls_that_allocate; /* all of the above and functions loaded: the same before and after means that nothing was allocated */
    int launches, graph_launches, copies;
    int lazy_functions;      /* launched but never loaded by function_load */
};

/* Fills the table and begins anew: nothing may live from before. The kernels are those of the emulator. */
void fake_driver_fill(struct cuda_driver *driver, const struct fake_card *card);
struct fake_counts fake_driver_counts(void);

/* The nth call from now (1: the next) of the table's `member` ("memory_alloc") fails with `error`; NULL: none does. */
void fake_driver_fail(const char *member, int nth, CUresult error);

#ifdef __cplusplus
}
#endif

#endif
