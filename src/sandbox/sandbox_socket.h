/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives messages with file descriptors over the Unix sockets that connect the server,
 * its children and their workers. */
#ifndef EY_SANDBOX_SOCKET_H
#define EY_SANDBOX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { JOB_DESCRIPTORS = 3 }; /* input, output, reply */

/* Sends a message of n bytes with n_fds descriptors. */
bool socket_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds);
/* Receives a message of at most `size` bytes with exactly n_fds descriptors, which the caller then
 * owns. Returns its size, 0 if the peer has closed, -1 on any other failure. */
ssize_t socket_receive(int fd, void *bytes, size_t size, int *fds, size_t n_fds);

#endif
