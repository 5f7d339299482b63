/* SPDX-License-Identifier: Apache-2.0 */
/* Records facts about a model: its plan, its engine, its GPU's memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "eyelet/tool_calls.h"
#include "server/model_manager/model_manager_internal.h"
#include "server/log.h"

enum { DEFAULT_BATCHED_TOKENS = 512 };
/* Intervals of GPU memory checks: after requests or a spill, and while requests run. */
#define MEMORY_CHECK_SECONDS 60.0
#define BUSY_MEMORY_CHECK_SECONDS 300.0

/* ---- plan and engine ---- */

/* Upper bound of the time of a step, which computes max_num_batched_tokens rows or a slice of an
 * image. Assumes a tenth of the slowest rate measured, in multiply-adds per second and thread. */
static double compute_stuck_seconds(const ey_engine *engine, const ey_engine_options *options,
                                    const ey_engine_info *info)
{
    enum { LEAST = 60, SIDE = 1024 };
    double rate = strcmp(info->device, "ref") == 0 ? 5e7 : 1e9;
    int rows = options->max_num_batched_tokens ? options->max_num_batched_tokens
                                               : DEFAULT_BATCHED_TOKENS;
    ey_cost_estimate work = ey_estimate_cost(
        engine, SIDE, SIDE, rows < info->max_model_len ? rows : info->max_model_len);
    return LEAST + (work.prefill_flops + work.vision_flops) / (rate * info->threads);
}

static void copy_info(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

void model_slot_set_engine(struct model_slot *m, const ey_engine *engine)
{
    ey_engine_info info = ey_engine_describe(engine);
    struct model_info *f = &m->info;
    copy_info(f->architecture, sizeof(f->architecture), info.architecture);
    copy_info(f->device, sizeof(f->device), info.device);
    copy_info(f->device_detail, sizeof(f->device_detail), info.device_detail);
    f->reads_images = info.reads_images;
    f->task = ey_engine_task(engine);
    f->has_tools = ey_engine_tool_format(engine) != NULL;
    f->threads = info.threads;
    f->max_model_len = info.max_model_len;
    f->kv_tokens = info.kv_tokens;
    f->max_num_seqs = info.max_num_seqs;
    f->kv_bytes = info.kv_bytes;
    f->stuck_seconds = compute_stuck_seconds(engine, &m->options, &info);
    f->loaded_once = true;
}

void model_slot_set_plan(struct model_slot *m, const ey_plan *plan)
{
    struct model_info *f = &m->info;
    copy_info(f->directory, sizeof(f->directory), plan->directory);
    memcpy(f->item, plan->items, sizeof(f->item));
    f->n_items = plan->n_items;
    memcpy(f->choice, plan->choices, sizeof(f->choice));
    f->n_choices = plan->n_choices;
    f->total_bytes = plan->total_bytes;
    f->max_pixels = plan->max_pixels;
    if (!m->shared_bytes) { /* else the models share a budget, which is known already */
        copy_info(f->budget_rule, sizeof(f->budget_rule), plan->budget_rule);
        f->budget_bytes = plan->budget_bytes;
    }
    f->max_model_len = plan->max_model_len;
    f->kv_tokens = plan->kv_tokens;
    f->max_num_seqs = plan->max_num_seqs;
    copy_info(f->device, sizeof(f->device), plan->device);
    f->planned = true;
}

void model_stats_add(ey_stats *sum, const ey_stats *s)
{
    sum->prompt_tokens += s->prompt_tokens;
    sum->cached_tokens += s->cached_tokens;
    sum->generated_tokens += s->generated_tokens;
    sum->preemptions += s->preemptions;
    sum->steps += s->steps;
    sum->async_steps += s->async_steps;
    sum->images += s->images;
    sum->images_cached += s->images_cached;
    sum->encoder_runs += s->encoder_runs;
    sum->finished_stop += s->finished_stop;
    sum->finished_length += s->finished_length;
    sum->finished_cancelled += s->finished_cancelled;
    sum->failed += s->failed;
    sum->vision_seconds += s->vision_seconds;
    sum->step_seconds += s->step_seconds;
}

/* ---- the GPU's memory ---- */

double model_slot_seconds_to_check(const struct model_slot *m)
{
    if (m->state != MODEL_READY || !m->memory.known) return INFINITY;
    if (!m->n_leases && m->last_used <= m->memory_checked_at && !m->memory.spilled) return INFINITY;
    double left = m->memory_checked_at +
                  (m->n_leases ? BUSY_MEMORY_CHECK_SECONDS : MEMORY_CHECK_SECONDS) - seconds_now();
    return left > 0 ? left : 0;
}

void model_slot_check_memory(struct model_slot *m)
{
    ey_gpu_memory memory;
    ey_err e;
    char text[400];
    bool had_spilled = m->memory.spilled;
    pthread_mutex_unlock(&m->manager->lock);
    bool ok = ey_probe_gpu_memory(m->engine, &memory, &e);
    if (!ok) log_line("the GPU's memory could not be checked: %s", e.text);
    if (ok && !had_spilled && ey_gpu_memory_warning(&memory, text, sizeof(text)))
        log_line("%s", text);
    if (ok && had_spilled && !memory.spilled) log_line("the GPU's memory is no longer spilled");
    pthread_mutex_lock(&m->manager->lock);
    if (ok) m->memory = memory;
    m->memory_checked_at = seconds_now();
}
