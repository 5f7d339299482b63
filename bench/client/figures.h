/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: dice that fall alike every time, percentiles, and what machine they were taken on. */
#ifndef EY_BENCH_FIGURES_H
#define EY_BENCH_FIGURES_H

#include "base/buf.h"

struct dice {
    uint64_t state;
};
uint64_t dice_throw(struct dice *d);
size_t dice_below(struct dice *d, size_t n); /* 0 … n - 1 */
double dice_between(struct dice *d, double lo, double hi);

struct figures {
    double *value;
    size_t n, room;
    bool sorted;
};
void figures_add(struct figures *f, double value);
void figures_add_all(struct figures *to, const struct figures *from);
/* The value that this share of all is not above; 0.5: the median. NaN: there are none. */
double figures_at(struct figures *f, double share);
void figures_free(struct figures *f);

/* Processor, how many of them, memory, and how much else they have to do. */
void machine_describe(struct buf *out);

#endif
