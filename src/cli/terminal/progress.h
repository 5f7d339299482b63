/* SPDX-License-Identifier: Apache-2.0 */
/* A line of progress on standard error, shown on terminals only. */
#ifndef EY_CLI_PROGRESS_H
#define EY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress_line {
    bool enabled, shown;
    double started, drawn; /* seconds */
    size_t done, total;    /* images or bytes; a total of 0 draws no bar */
    const char *phase;     /* static text, or NULL */
    int percent;           /* of the phase; -1 if unknown */
    size_t sampled_done;   /* bytes when the rate was last measured */
    double sampled, rate;  /* seconds; bytes per second, 0 if not yet known */
};

/* Starts a line. Nothing is ever drawn if `quiet`, or if standard error is not a terminal. */
struct progress_line progress_start(bool quiet);
/* Draws a bar over `total` images with rate and time left. The first call starts the clock. */
void progress_count(struct progress_line *p, size_t done, size_t total);
/* Draws a bar over bytes with the rate of the last seconds. The first call starts the clock. */
void progress_bytes(struct progress_line *p, uint64_t done, uint64_t total);
/* Draws the phase with its percentage, or without one if `total` is 0, which means unknown. */
void progress_phase(struct progress_line *p, const char *phase, uint64_t done, uint64_t total);
/* Erases the line, so that something else can be printed. */
void progress_clear(struct progress_line *p);

#endif
