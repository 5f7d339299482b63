/* SPDX-License-Identifier: Apache-2.0 */
/* For measurements: reproducible random numbers, percentiles, and a description of the machine. */
#ifndef EY_BENCH_CLIENT_SAMPLES_H
#define EY_BENCH_CLIENT_SAMPLES_H

#include "base/buf.h"

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *d);
size_t rng_below(struct rng *d, size_t n); /* 0 to n - 1 */
double rng_between(struct rng *d, double lo, double hi);

struct samples {
    double *value;
    size_t n, capacity;
    bool sorted;
};
void samples_add(struct samples *f, double value);
void samples_add_all(struct samples *to, const struct samples *from);
/* The value below which this share of the samples is; 0.5: the median. NaN if there are none. */
double samples_percentile(struct samples *f, double share);
void samples_free(struct samples *f);

/* Appends the processor's name, the number of processors, memory and load. */
void machine_describe(struct buf *out);

#endif
