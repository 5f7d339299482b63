/* SPDX-License-Identifier: Apache-2.0 */
/* Placed weights that are copied into huge pages, as memory_ops.refine() says. */
#ifndef EY_CPU_HUGEPAGES_H
#define EY_CPU_HUGEPAGES_H

#include "backend/cpu/cpu_backend.h"

/* Adds a placed weight to those that cpu_refine() looks at. */
void cpu_remember_weight(struct cpu *c, struct cpu_weight *w);
/* Bytes of a matrix as BF12; 0: it has no such form that is smaller, or the kernels don't take it.
 */
size_t cpu_bf12_bytes(const struct cpu *c, const struct tensor *w);
bool cpu_refine(struct backend *be, double seconds, struct refine_progress *progress);
/* Frees the copies, when nothing reads weights any more. */
void cpu_hugepages_close(struct cpu *c);

#endif
