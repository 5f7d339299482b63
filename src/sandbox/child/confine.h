/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a child and its workers from everything but their job. */
#ifndef EY_SANDBOX_CONFINE_H
#define EY_SANDBOX_CONFINE_H

#include "base/err.h"

/* Of a child, before it loads a library: it can never gain rights, is not traced, leaves no core
 * and dies with the thread that started it. */
bool confine_child(ey_err *e);
/* What this process has mapped, in bytes; 0: unknown. */
uint64_t mapped_bytes(void);

struct worker_limits {
    uint64_t address_space, file_bytes; /* file: that it writes */
    uint32_t cpu_seconds;
};
/* Of a worker, before it sees a byte of its input: dies with the child `parent`, and has these
 * limits. */
bool confine_worker(const struct worker_limits *limits, int parent, ey_err *e);
/* Then a decoder may do nothing but compute and reply. */
bool confine_decoder(ey_err *e);
/* And a program may open files of the system to read. */
bool confine_program(ey_err *e);

#endif
