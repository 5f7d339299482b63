/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the limits of the machine; performance figures are given as shares of these limits. */
#ifndef EY_BACKEND_CPU_CPU_ROOFLINE_H
#define EY_BACKEND_CPU_CPU_ROOFLINE_H

#include "backend/backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "base/err.h"
#include "base/pool.h"

/* Returns the fastest instruction sets of this machine: all that it has, but no BF16 vectors if
 * float32 is faster. Takes about a millisecond once per process; gives the same result on the same
 * processor. */
struct cpu_isa cpu_fastest_isa(void);
/* Returns the bytes a second at which all threads read `bytes` (at least 1 MiB) of memory: the best
 * of a few rounds with one, four and eight streams per thread. */
double cpu_measure_bandwidth(struct pool *pool, const void *data, size_t bytes);
/* Returns the FLOP/s of multiply-adds from registers with these instructions; `low_precision`
 * measures int16 or BF16 pairs. */
double cpu_measure_flops(struct pool *pool, struct cpu_isa isa, bool low_precision);
/* Measures all of *roofline; reads 1 GiB that it allocates. */
bool cpu_measure_roofline(struct pool *pool, struct cpu_isa isa, bool low_precision,
                          struct device_roofline *roofline, ey_err *e);

#endif
