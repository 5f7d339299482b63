/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a backend by name. Only this folder knows which there are. */
#ifndef EY_OPEN_BACKEND_H
#define EY_OPEN_BACKEND_H

#include "backend/backend.h"

struct backend_options {
    struct pool *pool;    /* borrowed */
    const char *cpu_mask; /* the best instruction set that "cpu" may use (CPU_MASK_NAMES); NULL: the
                             fastest */
    bool eager;           /* no graphs */
};

/* Opens a backend by name: "ref" (plain C in float32, the truth of every test), "cpu" (x86 with the
 * machine's best instruction set) or "cuda" (a GPU, its context's memory included; EY_NO_DEVICE:
 * there is no usable one). The caller destroys it. */
bool backend_open(struct backend **be, const char *name, const struct backend_options *options,
                  ey_err *e);
/* Opens the GPU's backend, whatever its make. */
bool backend_open_gpu(struct backend **be, const struct backend_options *options, ey_err *e);
/* Tests a GPU's kernels against "ref", as struct device_ops says; on threads of `pool`. */
bool backend_selftest(struct backend *gpu, struct pool *pool, bool again,
                      struct selftest_report *out, ey_err *e);
/* A simulated GPU: it answers questions about sizes only, so that a plan needs no GPU. */
bool backend_open_simulated_gpu(struct backend **be, ey_err *e);
/* Whether a name (NULL and "auto" are none) is that of a GPU's backend. */
bool backend_name_is_gpu(const char *name);

#endif
