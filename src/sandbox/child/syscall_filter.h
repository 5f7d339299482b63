/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a worker may make (seccomp). */
#ifndef EY_SANDBOX_SYSCALL_FILTER_H
#define EY_SANDBOX_SYSCALL_FILTER_H

#include <stdbool.h>

/* From now on this thread, and those that it starts, may allocate, compute, start threads, read and
 * write what is open, and end. Opening fails with EPERM, as does all else that is not listed; the
 * network, other programs and other processes end it. False with errno. */
bool filter_decoder_calls(void);
/* From now on: no network, no other processes, no change of mounts, users or the kernel. */
bool filter_program_calls(void);

#endif
