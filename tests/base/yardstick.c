/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yardstick.h"

#include <stdint.h>
#include <time.h>

double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Each step depends on the one before, so neither compiler nor processor can shorten it. */
static void work(void)
{
    enum { STEPS = 50 * 1000 * 1000 };
    volatile uint32_t x = 1;
    for (int i = 0; i < STEPS; i++)
        x = x * 1664525u + 1013904223u;
}

double yardstick(void)
{
    static double seconds;
    if (seconds > 0) return seconds;
    double start = cpu_seconds();
    work();
    return seconds = cpu_seconds() - start;
}
