/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd, or whatever else started the server with $NOTIFY_SOCKET, is notified of
 * (sd_notify(3)). */
#ifndef EY_SERVER_SYSTEMD_NOTIFY_H
#define EY_SERVER_SYSTEMD_NOTIFY_H

#include <stdbool.h>

/* Sends lines of NAME=VALUE to the socket of $NOTIFY_SOCKET, a path or an abstract name after @.
 * Nothing where there is none; systemd is not waited for when it does not listen. */
void systemd_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether it wants to hear WATCHDOG=1 again and again, and starts us anew when it does not. */
bool systemd_watchdog_enabled(void);

#endif
