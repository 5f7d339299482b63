/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock. */
#include "base/clock.h"

#include <time.h>

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
