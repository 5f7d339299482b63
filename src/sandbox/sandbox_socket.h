/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors over the sockets between the server, its children and their workers. */
#ifndef EY_SANDBOX_SOCKET_H
#define EY_SANDBOX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { JOB_DESCRIPTORS = 3 }; /* input, output, reply */

/* A message of n bytes, and with it n_fds descriptors. */
bool socket_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds);
/* A whole message of at most `size` bytes and exactly n_fds descriptors, which are the caller's
 * then. Returns its bytes, 0 when the other side is gone, -1 for anything else. */
ssize_t socket_receive(int fd, void *bytes, size_t size, int *fds, size_t n_fds);

#endif
