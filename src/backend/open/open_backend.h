/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a backend by name. Only this folder knows all backends. */
#ifndef EY_OPEN_BACKEND_H
#define EY_OPEN_BACKEND_H

#include "backend/backend.h"

struct backend_options {
    struct pool *pool;    /* borrowed */
    const char *cpu_mask; /* best instruction set that "cpu" may use (CPU_MASK_NAMES); NULL for the
                             fastest */
    bool eager;           /* do not capture graphs */
};

/* Opens "ref" (plain C in float32, the reference of all tests), "cpu" (x86 with the machine's best
 * instruction set) or "cuda" (a GPU; creates its context, and fails with EY_NO_DEVICE if none is
 * usable). The caller destroys it. */
bool backend_open(struct backend **be, const char *name, const struct backend_options *options,
                  ey_err *e);
/* Opens the GPU's backend, whatever its vendor. */
bool backend_open_gpu(struct backend **be, const struct backend_options *options, ey_err *e);
/* Tests a GPU's kernels against "ref" on threads of `pool`; see struct device_ops. */
bool backend_selftest(struct backend *gpu, struct pool *pool, bool again,
                      struct selftest_report *out, ey_err *e);
/* Opens a simulated GPU, which only computes sizes, so that a plan needs no GPU. */
bool backend_open_simulated_gpu(struct backend **be, ey_err *e);
/* Whether a name is that of a GPU backend; NULL and "auto" are not. */
bool backend_name_is_gpu(const char *name);

#endif
