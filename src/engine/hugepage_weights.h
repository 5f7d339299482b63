/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in host memory, copied into huge pages between steps. */
#ifndef EY_HUGEPAGE_WEIGHTS_H
#define EY_HUGEPAGE_WEIGHTS_H
#include "engine/engine_internal.h"

/* Lists what steps read of the mapped file and reserves memory for it. eager: copy also while
 * requests run. */
void engine_hugepages_start(ey_engine *engine, bool eager);
/* Whether to copy some now; has_work: requests run. Under the lock. */
bool engine_hugepages_may_copy(const ey_engine *engine, bool has_work);
/* Copies some. Called by the scheduler, which holds device_lock. */
void engine_hugepages_copy_some(ey_engine *engine);
/* Bytes that a step reads less than the checkpoint stores, thanks to bf12. Any thread. */
uint64_t engine_bytes_saved(const ey_engine *engine);
/* Frees the copies, when nothing reads weights any more. */
void engine_hugepages_end(ey_engine *engine);

#endif
