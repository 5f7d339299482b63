/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a client sends, over a window that slides: what it sent before does not pay for pauses.
 */
#ifndef EY_SERVER_SEND_RATE_H
#define EY_SERVER_SEND_RATE_H

#include <stdbool.h>
#include <stddef.h>

enum { SEND_RATE_PARTS = 31 };

struct send_rate {
    double since, window; /* seconds */
    size_t
        bytes[SEND_RATE_PARTS]; /* of the window's parts, the latest at `at` modulo their number */
    long at;
};

struct send_rate send_rate_start(double window, double now);
void send_rate_add(struct send_rate *rate, size_t n, double now);
/* Bytes of the last so many seconds, at most the window, and of up to a part of it more. */
size_t send_rate_bytes(struct send_rate *rate, double seconds, double now);
/* Whether it has sent for longer than that, and less than so many bytes a second within it. */
bool send_rate_is_below(struct send_rate *rate, double per_second, double seconds, double now);

#endif
