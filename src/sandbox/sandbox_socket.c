/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union descriptor_control {
    char bytes[CMSG_SPACE(sizeof(int) * JOB_DESCRIPTORS)];
    struct cmsghdr align;
};

bool socket_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
    union descriptor_control control = {{0}};
    struct iovec part = {(void *)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * n_fds);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n;
}

/* Extracts the descriptors of a message. Returns their number. */
static size_t take_descriptors(struct msghdr *message, int fds[JOB_DESCRIPTORS])
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return 0;
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(head), n * sizeof(int));
    return n;
}

ssize_t socket_receive(int fd, void *bytes, size_t size, int *fds, size_t n_fds)
{
    /* CMSG_LEN, because CMSG_SPACE has room for a fourth descriptor on 64-bit systems */
    union descriptor_control control;
    int taken[JOB_DESCRIPTORS];
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = n_fds ? control.bytes : NULL,
                             .msg_controllen = n_fds ? CMSG_LEN(sizeof(taken)) : 0};
    ssize_t n;
    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return n;
    size_t n_taken = take_descriptors(&message, taken);
    if (n_taken == n_fds && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        if (n_fds) memcpy(fds, taken, n_fds * sizeof(int));
        return n;
    }
    for (size_t i = 0; i < n_taken; i++)
        close(taken[i]);
    return -1;
}
