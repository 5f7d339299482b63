/* SPDX-License-Identifier: Apache-2.0 */
/* Dice, percentiles, the machine. */
#include "client/figures.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t dice_throw(struct dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t dice_below(struct dice *d, size_t n)
{
    return n ? (size_t)(dice_throw(d) % n) : 0;
}

double dice_between(struct dice *d, double lo, double hi)
{
    return lo + (hi - lo) * (double)(dice_throw(d) >> 11) / 9007199254740992.0;
}

void figures_add(struct figures *f, double value)
{
    if (f->n == f->room) {
        size_t room = f->room ? 2 * f->room : 256;
        double *more = realloc(f->value, room * sizeof(*more));
        if (!more) abort();
        f->value = more;
        f->room = room;
    }
    f->value[f->n++] = value;
    f->sorted = false;
}

void figures_add_all(struct figures *to, const struct figures *from)
{
    for (size_t i = 0; i < from->n; i++)
        figures_add(to, from->value[i]);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double figures_at(struct figures *f, double share)
{
    if (!f->n) return NAN;
    if (!f->sorted) qsort(f->value, f->n, sizeof(*f->value), compare);
    f->sorted = true;
    size_t at = (size_t)ceil(share * (double)f->n);
    return f->value[at ? (at < f->n ? at - 1 : f->n - 1) : 0];
}

void figures_free(struct figures *f)
{
    free(f->value);
    *f = (struct figures){.n = 0};
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
