/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do at most, measured: figures are shares of these. */
#ifndef EY_BACKEND_MACHINE_H
#define EY_BACKEND_MACHINE_H

#include "backend/backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "base/err.h"
#include "base/pool.h"

/* The kernels that are fastest here: the best instruction set that there is, but where float32
 * matmuls are faster than BF16 ones, vectors of float32. That takes about a millisecond, once a
 * process; it always finds the same on the same processor. */
enum cpu_level cpu_best_level(void);
/* Bytes a second that all threads read from `bytes` of memory, a MiB at least; the best of a few
 * rounds in one, four and eight streams a thread. */
double cpu_measure_bandwidth(struct pool *pool, const void *data, size_t bytes);
/* FLOP a second of multiply-adds from registers with this instruction set, in 16 bits where
 * `narrow`: int16 or BF16 pairs. */
double cpu_measure_flops(struct pool *pool, enum cpu_level level, bool low_precision);
/* All of *limits, reading 1 GiB of its own. */
bool cpu_measure_roofline(struct pool *pool, enum cpu_level level, bool low_precision,
                          struct device_roofline *roofline, ey_err *e);

#endif
