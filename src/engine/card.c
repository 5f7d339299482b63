/* SPDX-License-Identifier: Apache-2.0 */
/* What only an engine on a card does: its kernels are tried before they are trusted, and its memory
 * is looked at now and then, because the system may have moved parts of it to where reading is
 * slow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine_internal.h"

/* ---- notices ---- */

static void tell(const ey_engine_options *o, const char *text)
{
    if (o->notice) o->notice(o->notice_user, text);
}

/* ---- kernels ---- */

static bool is_card(const ey_engine *engine)
{
    return strcmp(engine->be->ops->name, "cuda") == 0;
}

bool engine_check_kernels(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    struct kernel_report report;
    char text[256];
    if (!is_card(engine)) return true;
    if (o->progress) o->progress(o->progress_user, "checking the card", 0, 0);
    if (!backend_cuda_check(engine->be, false, &report, e)) return false;
    for (int i = 0; i < report.n; i++) {
        const struct kernel_verdict *v = &report.family[i];
        if (!v->failed) continue;
        snprintf(text, sizeof(text),
                 "kernel %s computes wrongly on this card and is not used; %s does its work: "
                 "answers are right, but come slower. Please report it",
                 v->name, v->instead);
        tell(o, text);
    }
    return true;
}

/* ---- memory ---- */

enum { SLICE = 64 << 20, MOST_SLICES = 4096, SLOWER = 5, TRIES = 3, LEAST_TO_JUDGE = 64 << 20 };
#define WAKING_SECONDS 0.5 /* a card that was idle reads slowly until its clocks are up */

/* Equal slices of all that the engine holds on the card, and the rate of each. */
struct slices {
    size_t bytes, each;
    int n;
    double rate[MOST_SLICES], sorted[MOST_SLICES];
};

static bool read_slice(ey_engine *engine, struct slices *s, int i, ey_err *e)
{
    size_t first = (size_t)i * s->each, n = i == s->n - 1 ? s->bytes - first : s->each;
    double seconds = 0;
    pthread_mutex_lock(&engine->device); /* for this slice: steps go on between them */
    engine->be->ops->attach(engine->be);
    bool ok = backend_cuda_read_slice(engine->be, first, n, &seconds, e);
    pthread_mutex_unlock(&engine->device);
    if (ok && (double)n / seconds > s->rate[i]) s->rate[i] = (double)n / seconds;
    return ok;
}

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_rate(struct slices *s)
{
    memcpy(s->sorted, s->rate, (size_t)s->n * sizeof(s->rate[0]));
    qsort(s->sorted, (size_t)s->n, sizeof(s->sorted[0]), by_rate);
    return s->sorted[s->n / 2];
}

/* What a slice of the card's own memory should reach: most slices do; where even they are far below
 * what was once measured, or what the memory's clock gives, most have been moved. A few MiB are
 * read too quickly to say. */
static double usual_rate(const struct slices *s, double median, double at_start, double rated)
{
    double usual = median;
    if (s->bytes < LEAST_TO_JUDGE) return 0;
    if (usual < at_start / SLOWER) usual = at_start;
    if (usual < rated / SLOWER) usual = rated;
    return usual;
}

/* Slices that were slow are read again: something else may have been in the way. */
static bool read_slices(ey_engine *engine, struct slices *s, double at_start, double rated,
                        ey_err *e)
{
    double start = seconds_now();
    int slow = 1;
    for (int i = 0; i < s->n; i++)
        if (!read_slice(engine, s, i, e)) return false;
    for (int round = 0; slow && (round < TRIES || seconds_now() - start < WAKING_SECONDS);
         round++) {
        double usual = usual_rate(s, median_rate(s), at_start, rated);
        slow = 0;
        for (int i = 0; i < s->n; i++)
            if (s->rate[i] * SLOWER < usual) {
                slow++;
                if (!read_slice(engine, s, i, e)) return false;
            }
        if (slow) usleep(2000);
    }
    return true;
}

static struct slices *cut(const ey_engine *engine, ey_err *e)
{
    struct slices *s = calloc(1, sizeof(*s));
    if (!s) return ey_fail_memory(e, "looking at the card's memory", sizeof(*s)), NULL;
    s->bytes = backend_cuda_held(engine->be);
    size_t n = (s->bytes + SLICE - 1) / SLICE;
    s->n = n < 1 ? 1 : n > MOST_SLICES ? MOST_SLICES : (int)n;
    s->each = s->bytes / (size_t)s->n / 16 * 16;
    return s;
}

static ey_memory what_was_seen(ey_engine *engine, struct slices *s, const struct cuda_facts *card,
                               double at_start)
{
    double median = median_rate(s), usual = usual_rate(s, median, at_start, card->rated_reads),
           slow_seconds = 0;
    ey_memory m = {.known = true,
                   .planned_bytes = engine->plan.allocated,
                   .budget_bytes = engine->plan.budget.bytes,
                   .total_bytes = card->total,
                   .free_bytes = card->free,
                   .held_bytes = s->bytes,
                   .bytes_per_second = median,
                   .rated_bytes_per_second = card->rated_reads,
                   .usual_bytes_per_second = usual};
    for (int i = 0; i < s->n; i++)
        if (s->rate[i] * SLOWER < usual) {
            m.spilled_bytes += s->each;
            slow_seconds += (double)s->each / s->rate[i];
        }
    m.spilled = m.spilled_bytes > 0;
    if (m.spilled) m.spilled_bytes_per_second = (double)m.spilled_bytes / slow_seconds;
    return m;
}

static bool facts_now(ey_engine *engine, struct cuda_facts *out, ey_err *e)
{
    pthread_mutex_lock(&engine->device);
    engine->be->ops->attach(engine->be);
    bool ok = backend_cuda_facts(engine->be, out, e);
    pthread_mutex_unlock(&engine->device);
    return ok;
}

bool ey_probe_memory(ey_engine *engine, ey_memory *out, ey_err *e)
{
    struct cuda_facts card;
    *out = (ey_memory){0};
    if (!is_card(engine)) return true;
    struct slices *s = cut(engine, e);
    double at_start = ey_last_memory(engine).start_bytes_per_second;
    bool ok = s && facts_now(engine, &card, e) &&
              read_slices(engine, s, at_start, card.rated_reads, e);
    if (ok) {
        *out = what_was_seen(engine, s, &card, at_start);
        out->start_bytes_per_second = at_start > 0 ? at_start : out->bytes_per_second;
        pthread_mutex_lock(&engine->lock);
        engine->memory = *out;
        engine->memory_seen = seconds_now();
        pthread_mutex_unlock(&engine->lock);
    }
    free(s);
    return ok;
}

ey_memory ey_last_memory(ey_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    ey_memory m = engine->memory;
    if (m.known) m.age_seconds = seconds_now() - engine->memory_seen;
    pthread_mutex_unlock(&engine->lock);
    return m;
}

bool ey_memory_warning(const ey_memory *m, char *text, size_t size)
{
    if (!m->spilled) return false;
    snprintf(text, size,
             "THE CARD'S MEMORY HAS SPILLED: %.0f of %.0f MiB are read at %.1f GB/s instead of "
             "%.0f, because the system has moved them to the "
             "computer's memory: close what else uses the card, or let eyelet take less of it "
             "(eyelet doctor; --gpu-memory)",
             (double)m->spilled_bytes / (1 << 20), (double)m->held_bytes / (1 << 20),
             m->spilled_bytes_per_second / 1e9, m->usual_bytes_per_second / 1e9);
    return true;
}

bool engine_first_look(ey_engine *engine, const ey_engine_options *o, ey_err *e)
{
    ey_memory seen;
    char text[400];
    if (!ey_probe_memory(engine, &seen, e)) return false;
    if (ey_memory_warning(&seen, text, sizeof(text))) tell(o, text);
    return true;
}
