/* SPDX-License-Identifier: Apache-2.0 */
/* Copies placed weights into huge pages (memory_ops.refine()). */
#ifndef EY_CPU_HUGEPAGES_H
#define EY_CPU_HUGEPAGES_H

#include "backend/cpu/cpu_backend.h"

/* Adds a placed weight to the list that cpu_refine() works on. */
void cpu_remember_weight(struct cpu *c, struct cpu_weight *w);
/* Returns the bytes of a matrix as BF12, or 0 if that is not smaller or the kernels don't support
 * it. */
size_t cpu_bf12_bytes(const struct cpu *c, const struct tensor *w);
bool cpu_refine(struct backend *be, double seconds, struct refine_progress *progress);
/* Frees the copies. Nothing may read weights any more. */
void cpu_hugepages_close(struct cpu *c);

#endif
