/* SPDX-License-Identifier: Apache-2.0 */
/* Confinement of a child and its workers. */
#ifndef EY_SANDBOX_CONFINE_H
#define EY_SANDBOX_CONFINE_H

#include "base/err.h"

/* For a child, before it loads a library: it can never gain privileges, cannot be traced, dumps no
 * core and dies with the thread that started it. */
bool confine_child(ey_err *e);
/* Bytes mapped by this process, or 0 if unknown. */
uint64_t mapped_bytes(void);

struct worker_limits {
    uint64_t address_space, file_bytes; /* file_bytes: size of a file that it writes */
    uint32_t cpu_seconds;
};
/* For a worker, before it reads its input: it dies with the child `parent` and gets these limits.
 */
bool confine_worker(const struct worker_limits *limits, int parent, ey_err *e);
/* After that, for a decoder: it may only compute and reply. */
bool confine_decoder(ey_err *e);
/* After that, for a foreign program: it may only read system files. */
bool confine_program(ey_err *e);

#endif
