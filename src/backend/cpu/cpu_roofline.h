/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do at most, measured: figures are shares of these. */
#ifndef EY_BACKEND_MACHINE_H
#define EY_BACKEND_MACHINE_H

#include "backend/backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "base/err.h"
#include "base/pool.h"

/* What is fastest here: all that there is, but no BF16 vectors where float32 is faster. That takes
 * about a millisecond, once a process; it always finds the same on the same processor. */
struct cpu_isa cpu_fastest_isa(void);
/* Bytes a second that all threads read from `bytes` of memory, a MiB at least; the best of a few
 * rounds in one, four and eight streams a thread. */
double cpu_measure_bandwidth(struct pool *pool, const void *data, size_t bytes);
/* FLOP a second of multiply-adds from registers with these instructions, in 16 bits where
 * `low_precision`: int16 or BF16 pairs. */
double cpu_measure_flops(struct pool *pool, struct cpu_isa isa, bool low_precision);
/* All of *limits, reading 1 GiB of its own. */
bool cpu_measure_roofline(struct pool *pool, struct cpu_isa isa, bool low_precision,
                          struct device_roofline *roofline, ey_err *e);

#endif
