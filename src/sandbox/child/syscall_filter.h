/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters for workers. */
#ifndef EY_SANDBOX_SYSCALL_FILTER_H
#define EY_SANDBOX_SYSCALL_FILTER_H

#include <stdbool.h>

/* From now on this thread and those that it starts may allocate, compute, start threads, use open
 * descriptors and exit. A call that concerns sockets, exec or other processes kills the process;
 * all other calls, such as open, fail with EPERM. Returns false with errno set. */
bool filter_decoder_calls(void);
/* From now on forbids network access, access to other processes, and changes of mounts, users, the
 * kernel, or the mode, owner and times of files. */
bool filter_program_calls(void);

#endif
