/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper learns of a model: its plan, its engine, its card's memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/keeper_internal.h"
#include "server/log.h"

enum { DEFAULT_BATCHED_TOKENS = 512 };
/* How often the card's memory is looked at where somebody asked since, or it had spilled; and while
 * requests run. */
#define LOOK_SECONDS 60.0
#define BUSY_LOOK_SECONDS 300.0

/* ---- plan and engine ---- */

/* A step computes max_num_batched_tokens rows or a slice of a picture; a machine does at least this
 * many multiply-adds a second with a thread, ten times fewer than the slowest that was measured. */
static double stuck_seconds(const ey_engine *engine, const ey_engine_options *options,
                            const ey_engine_info *info)
{
    enum { LEAST = 60, SIDE = 1024 };
    double rate = strcmp(info->device, "ref") == 0 ? 5e7 : 1e9;
    int rows = options->max_num_batched_tokens ? options->max_num_batched_tokens
                                               : DEFAULT_BATCHED_TOKENS;
    ey_work work = ey_work_of(engine, SIDE, SIDE,
                              rows < info->max_model_len ? rows : info->max_model_len);
    return LEAST + (work.prefill_flops + work.vision_flops) / (rate * info->threads);
}

static void copy_fact(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

void kept_note_engine(struct kept *m, const ey_engine *engine)
{
    ey_engine_info info = ey_engine_describe(engine);
    struct keeper_facts *f = &m->facts;
    copy_fact(f->architecture, sizeof(f->architecture), info.architecture);
    copy_fact(f->device, sizeof(f->device), info.device);
    copy_fact(f->device_detail, sizeof(f->device_detail), info.device_detail);
    f->threads = info.threads;
    f->max_model_len = info.max_model_len;
    f->kv_tokens = info.kv_tokens;
    f->max_num_seqs = info.max_num_seqs;
    f->kv_bytes = info.kv_bytes;
    f->stuck_seconds = stuck_seconds(engine, &m->options, &info);
    f->loaded_once = true;
}

void kept_note_plan(struct kept *m, const ey_plan *plan)
{
    struct keeper_facts *f = &m->facts;
    memcpy(f->item, plan->items, sizeof(f->item));
    f->n_items = plan->n_items;
    memcpy(f->choice, plan->choices, sizeof(f->choice));
    f->n_choices = plan->n_choices;
    f->total_bytes = plan->total_bytes;
    f->max_pixels = plan->max_pixels;
    if (!m->bytes) {
        copy_fact(f->budget_rule, sizeof(f->budget_rule), plan->budget_rule);
        f->budget_bytes = plan->budget_bytes;
    } /* else that of all */
    f->max_model_len = plan->max_model_len;
    f->kv_tokens = plan->kv_tokens;
    f->max_num_seqs = plan->max_num_seqs;
    copy_fact(f->device, sizeof(f->device), plan->device);
    f->planned = true;
}

void stats_add(ey_stats *sum, const ey_stats *s)
{
    sum->prompt_tokens += s->prompt_tokens;
    sum->cached_tokens += s->cached_tokens;
    sum->generated_tokens += s->generated_tokens;
    sum->preemptions += s->preemptions;
    sum->steps += s->steps;
    sum->images += s->images;
    sum->images_cached += s->images_cached;
    sum->tower_runs += s->tower_runs;
    sum->finished_stop += s->finished_stop;
    sum->finished_length += s->finished_length;
    sum->finished_cancelled += s->finished_cancelled;
    sum->failed += s->failed;
    sum->vision_seconds += s->vision_seconds;
    sum->step_seconds += s->step_seconds;
}

/* ---- the card's memory ---- */

double kept_seconds_to_look(const struct kept *m)
{
    if (m->state != KEEPER_READY || !m->memory.known) return INFINITY;
    if (!m->borrowed && m->used <= m->looked && !m->memory.spilled) return INFINITY;
    double left = m->looked + (m->borrowed ? BUSY_LOOK_SECONDS : LOOK_SECONDS) - seconds_now();
    return left > 0 ? left : 0;
}

void kept_look(struct kept *m)
{
    ey_memory memory;
    ey_err e;
    char text[400];
    bool had_spilled = m->memory.spilled;
    pthread_mutex_unlock(&m->keeper->lock);
    bool ok = ey_probe_memory(m->engine, &memory, &e);
    if (!ok) log_line("the card's memory could not be looked at: %s", e.text);
    if (ok && !had_spilled && ey_memory_warning(&memory, text, sizeof(text))) log_line("%s", text);
    if (ok && had_spilled && !memory.spilled)
        log_line("all of the card's memory is as fast again as it should be");
    pthread_mutex_lock(&m->keeper->lock);
    if (ok) m->memory = memory;
    m->looked = seconds_now();
}
