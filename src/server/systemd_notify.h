/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to systemd, or to any service manager that sets $NOTIFY_SOCKET (sd_notify(3)). */
#ifndef EY_SERVER_SYSTEMD_NOTIFY_H
#define EY_SERVER_SYSTEMD_NOTIFY_H

#include <stdbool.h>

/* Sends lines of NAME=VALUE to $NOTIFY_SOCKET, a path or an abstract name after @. Does nothing if
 * it is unset, and never blocks. */
void systemd_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether systemd restarts us unless it regularly gets WATCHDOG=1. */
bool systemd_watchdog_enabled(void);

#endif
