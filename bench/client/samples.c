/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, percentiles, a description of the machine. */
#include "client/samples.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t rng_next(struct rng *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t rng_below(struct rng *d, size_t n)
{
    return n ? (size_t)(rng_next(d) % n) : 0;
}

double rng_between(struct rng *d, double lo, double hi)
{
    return lo + (hi - lo) * (double)(rng_next(d) >> 11) / 9007199254740992.0;
}

void samples_add(struct samples *f, double value)
{
    if (f->n == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 256;
        double *more = realloc(f->value, capacity * sizeof(*more));
        if (!more) abort();
        f->value = more;
        f->capacity = capacity;
    }
    f->value[f->n++] = value;
    f->sorted = false;
}

void samples_add_all(struct samples *to, const struct samples *from)
{
    for (size_t i = 0; i < from->n; i++)
        samples_add(to, from->value[i]);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_percentile(struct samples *f, double share)
{
    if (!f->n) return NAN;
    if (!f->sorted) qsort(f->value, f->n, sizeof(*f->value), compare);
    f->sorted = true;
    size_t at = (size_t)ceil(share * (double)f->n);
    return f->value[at ? (at < f->n ? at - 1 : f->n - 1) : 0];
}

void samples_free(struct samples *f)
{
    free(f->value);
    *f = (struct samples){.n = 0};
}

static void add_processor(struct buf *out)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        buf_printf(out, "%.*s, ", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f) fclose(f);
}

void machine_describe(struct buf *out)
{
    cpu_set_t mine;
    double load = 0;
    int n = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? CPU_COUNT(&mine) : 1;
    double gib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30);
    add_processor(out);
    if (getloadavg(&load, 1) != 1) load = NAN;
    buf_printf(out, "%d processors, %.0f GiB, load %.1f before the run", n, gib, load);
}
