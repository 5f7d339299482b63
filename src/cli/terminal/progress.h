/* SPDX-License-Identifier: Apache-2.0 */
/* One line of progress on standard error, on a terminal only. */
#ifndef EY_CLI_PROGRESS_H
#define EY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress_line {
    bool enabled, shown;
    double started, drawn; /* seconds */
    size_t done, total;    /* images; total 0: no bar */
    const char *phase;     /* static text, or NULL */
    int percent;           /* of the phase; -1: not known */
    size_t sampled_done;   /* of bytes: when the rate was last measured */
    double sampled, rate;  /* seconds; bytes a second, 0: not known yet */
};

/* Nothing is ever drawn when `quiet`, or when standard error is no terminal. */
struct progress_line progress_start(bool quiet);
/* A bar over `total` images with rate and time left; the clock starts with the first call. */
void progress_count(struct progress_line *p, size_t done, size_t total);
/* A bar over bytes, with the rate of the last seconds; the first call says where it begins. */
void progress_bytes(struct progress_line *p, uint64_t done, uint64_t total);
/* total 0: how much of the phase is done is not known. */
void progress_phase(struct progress_line *p, const char *phase, uint64_t done, uint64_t total);
/* Takes the line away, so that something else can be printed. */
void progress_clear(struct progress_line *p);

#endif
