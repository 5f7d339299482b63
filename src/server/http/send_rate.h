/* SPDX-License-Identifier: Apache-2.0 */
/* A client's send rate over a sliding window, so that earlier bytes do not make up for pauses. */
#ifndef EY_SERVER_SEND_RATE_H
#define EY_SERVER_SEND_RATE_H

#include <stdbool.h>
#include <stddef.h>

enum { SEND_RATE_PARTS = 31 };

struct send_rate {
    double since, window;          /* seconds */
    size_t bytes[SEND_RATE_PARTS]; /* of each part of the window; the latest is at index `at` %
                                      SEND_RATE_PARTS */
    long at;
};

struct send_rate send_rate_start(double window, double now);
void send_rate_add(struct send_rate *rate, size_t n, double now);
/* Returns the bytes sent in the last `seconds`. The time is limited to the window and rounded up to
 * whole parts of it. */
size_t send_rate_bytes(struct send_rate *rate, double seconds, double now);
/* Whether the client has been sending for longer than `seconds` and sent less than `per_second`
 * bytes a second in the last `seconds`. */
bool send_rate_is_below(struct send_rate *rate, double per_second, double seconds, double now);

#endif
