/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http/send_rate.h"

#include <math.h>

/* The window spans all parts but the current, incomplete one. */
static double part_seconds(const struct send_rate *r)
{
    return r->window / (SEND_RATE_PARTS - 1);
}

struct send_rate send_rate_start(double window, double now)
{
    return (struct send_rate){.since = now, .window = window};
}

static void advance_rate(struct send_rate *r, double now)
{
    long at = (long)((now - r->since) / part_seconds(r));
    for (long i = r->at + 1; i <= at && i <= r->at + SEND_RATE_PARTS; i++)
        r->bytes[i % SEND_RATE_PARTS] = 0;
    if (at > r->at) r->at = at;
}

void send_rate_add(struct send_rate *r, size_t n, double now)
{
    advance_rate(r, now);
    r->bytes[r->at % SEND_RATE_PARTS] += n;
}

size_t send_rate_bytes(struct send_rate *r, double seconds, double now)
{
    size_t n = 0;
    advance_rate(r, now);
    long parts = 1 + (long)ceil(fmin(seconds, r->window) / part_seconds(r));
    for (long i = 0; i < parts && i < SEND_RATE_PARTS && i <= r->at; i++)
        n += r->bytes[(r->at - i) % SEND_RATE_PARTS];
    return n;
}

bool send_rate_is_below(struct send_rate *r, double per_second, double seconds, double now)
{
    return now - r->since > seconds &&
           (double)send_rate_bytes(r, seconds, now) < per_second * seconds;
}
