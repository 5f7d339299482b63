/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line has a bar, the rate, the time left and the phase. A phase is redrawn at most
 * ten times a second. */
#include "cli/terminal/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/terminal/term.h"

enum { BAR = 24, LINE = 200 };
#define REDRAW_SECONDS 0.1

struct progress_line progress_start(bool quiet)
{
    const char *terminal_type = getenv("TERM");
    bool dumb = terminal_type && strcmp(terminal_type, "dumb") == 0;
    return (struct progress_line){.enabled = !quiet && !dumb && isatty(STDERR_FILENO)};
}

static void progress_add_time(struct buf *line, double seconds)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        buf_printf(line, "%ld h %02ld min left", s / 3600, s / 60 % 60);
    else if (s >= 60)
        buf_printf(line, "%ld min %02ld s left", s / 60, s % 60);
    else
        buf_printf(line, "%ld s left", s);
}

static void progress_add_bar(struct buf *line, const struct progress_line *p)
{
    size_t filled = (size_t)((double)p->done / (double)p->total * BAR);
    buf_add_text(line, "[");
    for (size_t i = 0; i < BAR; i++)
        buf_add_text(line, i < filled ? "=" : " ");
    buf_add_text(line, "] ");
}

static void add_bytes(struct buf *line, const struct progress_line *p)
{
    progress_add_bar(line, p);
    buf_printf(line, "%.2f/%.2f GB", (double)p->done / 1e9, (double)p->total / 1e9);
    if (p->rate < 1e3 || p->done == p->total) return;
    buf_printf(line, p->rate >= 1e7 ? "  %.0f MB/s  " : "  %.1f MB/s  ", p->rate / 1e6);
    progress_add_time(line, (double)(p->total - p->done) / p->rate);
}

static void add_count(struct buf *line, const struct progress_line *p)
{
    double elapsed = seconds_now() - p->started;
    progress_add_bar(line, p);
    buf_printf(line, "%zu/%zu", p->done, p->total);
    if (!p->done || elapsed < REDRAW_SECONDS) return;
    double rate = (double)p->done / elapsed;
    buf_printf(line, rate >= 1 ? "  %.1f/s  " : "  %.3f/s  ", rate);
    progress_add_time(line, (double)(p->total - p->done) / rate);
}

static void progress_draw(struct progress_line *p)
{
    struct buf line = buf_with_max(LINE);
    size_t columns = (size_t)terminal_columns(STDERR_FILENO);
    if (p->total && p->sampled > 0)
        add_bytes(&line, p);
    else if (p->total)
        add_count(&line, p);
    if (p->phase) buf_printf(&line, "%s%s", line.size ? "  " : "", p->phase);
    if (p->phase && p->percent >= 0) buf_printf(&line, " %d %%", p->percent);
    if (line.size >= columns) line.size = columns - 1; /* plain ASCII, so each byte is a column */
    if (line.data) fprintf(stderr, "\r\033[K%.*s", (int)line.size, line.data);
    fflush(stderr);
    buf_free(&line);
    p->shown = true;
    p->drawn = seconds_now();
}

void progress_count(struct progress_line *p, size_t done, size_t total)
{
    if (!p->enabled) return;
    if (!p->total) p->started = seconds_now();
    p->done = done;
    p->total = total;
    p->phase = NULL;
    progress_draw(p);
}

void progress_bytes(struct progress_line *p, uint64_t done, uint64_t total)
{
    const double weight = 0.3; /* of the newest rate in the moving average */
    double now = seconds_now(), passed = now - p->sampled;
    if (!p->enabled || !total) return;
    if (p->sampled > 0 && passed >= 1 && done >= p->sampled_done) {
        double rate = (double)(done - p->sampled_done) / passed;
        p->rate = p->rate > 0 ? (1 - weight) * p->rate + weight * rate : rate;
    }
    if (p->sampled <= 0 || passed >= 1) {
        p->sampled = now;
        p->sampled_done = done;
    }
    p->done = done < total ? done : total;
    p->total = total;
    p->phase = NULL;
    progress_draw(p);
}

void progress_phase(struct progress_line *p, const char *phase, uint64_t done, uint64_t total)
{
    if (!p->enabled) return;
    bool changed = !p->phase || strcmp(p->phase, phase) != 0;
    p->phase = phase;
    p->percent = total ? (int)(100.0 * (double)done / (double)total) : -1;
    if (changed || seconds_now() - p->drawn >= REDRAW_SECONDS) progress_draw(p);
}

void progress_clear(struct progress_line *p)
{
    if (p->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->shown = false;
}
