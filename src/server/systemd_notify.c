/* SPDX-License-Identifier: Apache-2.0 */
/* sd_notify(3) without libsystemd: one datagram. */
#include "server/systemd_notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Reads the address of $NOTIFY_SOCKET. Returns its length, or 0 if it is unset or unusable. */
static socklen_t notify_socket_address(struct sockaddr_un *address)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t n = name ? strlen(name) : 0;
    if (n < 2 || n >= sizeof(address->sun_path) || (name[0] != '/' && name[0] != '@')) return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, n);
    if (name[0] == '@') address->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void systemd_notify(const char *fmt, ...)
{
    struct sockaddr_un address;
    socklen_t n_address = notify_socket_address(&address);
    char text[512];
    if (!n_address) return;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    if (n > 0 && (size_t)n < sizeof(text))
        (void)!sendto(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
                      n_address);
    close(fd);
}

bool systemd_watchdog_enabled(void)
{
    const char *interval = getenv("WATCHDOG_USEC"), *process = getenv("WATCHDOG_PID");
    return interval && atoll(interval) > 0 && (!process || atoll(process) == (long long)getpid());
}
