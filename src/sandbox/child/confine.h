/* SPDX-License-Identifier: Apache-2.0 */
/* Restricts what a child and its workers may do. */
#ifndef EY_SANDBOX_CONFINE_H
#define EY_SANDBOX_CONFINE_H

#include "base/err.h"

/* A child calls this before it loads a library. It then can never gain privileges, cannot be
 * traced, dumps no core and dies with the thread that started it. */
bool confine_child(ey_err *e);
/* Returns the bytes mapped by this process, or 0 if unknown. */
uint64_t mapped_bytes(void);

struct worker_limits {
    uint64_t address_space, file_bytes; /* file_bytes: the largest file it may write */
    uint32_t cpu_seconds;
};
/* A worker calls this before it reads its input. It then dies with the child, whose process id is
 * `parent`, and has these limits. */
bool confine_worker(const struct worker_limits *limits, int parent, ey_err *e);
/* A worker that decodes calls this next. It may then only compute and reply. */
bool confine_decoder(ey_err *e);
/* A worker that executes a program calls this instead. It may then only read system files. */
bool confine_program(ey_err *e);

#endif
