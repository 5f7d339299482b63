/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for a plan that does not fit: each changes one option, and turns the open knobs as
 * needed. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan/plan_internal.h"

struct suggestion_search {
    struct plan_suggestion *out;
    int n;
    const struct plan *plan;
    const struct model *model;
    const struct backend *be;
    struct plan_limits limits; /* the limits with the change */
};

__attribute__((format(printf, 3, 4))) static void try_suggestion(struct suggestion_search *s,
                                                                 const struct model *m,
                                                                 const char *fmt, ...)
{
    struct plan plan;
    va_list args;
    if (s->n == PLAN_SUGGESTIONS || !plan_make(&plan, m, s->be, s->plan->device, &s->limits, NULL))
        return;
    struct plan_suggestion *c = &s->out[s->n++];
    va_start(args, fmt);
    vsnprintf(c->options, sizeof(c->options), fmt, args);
    va_end(args);
    c->total = plan.allocated;
    c->fits = plan.fits;
}

static bool context_fits(const struct model *m, const struct backend *be,
                         const struct device_info *device, const struct plan_limits *limits,
                         int blocks)
{
    struct plan p;
    struct plan_limits shorter = *limits;
    shorter.max_model_len = blocks * KV_BLOCK;
    if (limits->kv_tokens) shorter.kv_tokens = shorter.max_model_len;
    return plan_make(&p, m, be, device, &shorter, NULL) && p.fits;
}

int plan_longest_context(const struct model *m, const struct backend *be,
                         const struct device_info *device, const struct plan_limits *limits)
{
    struct plan p;
    if (!plan_make(&p, m, be, device, limits, NULL)) return 0;
    int fits = 0, too_long = p.max_blocks + 1;
    while (too_long - fits > 1) {
        int middle = (fits + too_long) / 2;
        if (context_fits(m, be, device, limits, middle))
            fits = middle;
        else
            too_long = middle;
    }
    return fits * KV_BLOCK;
}

static void try_shorter_context(struct suggestion_search *s, const struct plan_limits *limits)
{
    enum { SHORT = 2048, SHORTEST = 512 };
    const int longest = plan_longest_context(s->model, s->be, s->plan->device, limits);
    const int lengths[] = {s->plan->max_model_len > SHORT ? SHORT : 0,
                           longest != SHORT ? longest : 0,
                           !longest && s->plan->max_model_len > SHORTEST ? SHORTEST : 0};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (!lengths[i]) continue;
        s->limits = *limits;
        s->limits.max_model_len = lengths[i];
        if (limits->kv_tokens) {
            s->limits.kv_tokens = lengths[i];
            try_suggestion(s, s->model, "--max-model-len %d --kv-tokens %d", lengths[i],
                           lengths[i]);
        } else
            try_suggestion(s, s->model, "--max-model-len %d", lengths[i]);
    }
}

static void try_smaller_batch(struct suggestion_search *s, const struct plan_limits *limits)
{
    enum { FEW = 512, FEWEST = 64 };
    int rows = s->plan->device->is_gpu ? FEW : FEWEST;
    if (s->plan->max_rows <= rows) return;
    s->limits = *limits;
    s->limits.max_num_batched_tokens = rows;
    try_suggestion(s, s->model, "--max-num-batched-tokens %d", rows);
}

static void try_one_sequence(struct suggestion_search *s, const struct plan_limits *limits)
{
    if (s->plan->max_num_seqs == 1) return;
    s->limits = *limits;
    s->limits.max_num_seqs = 1;
    try_suggestion(s, s->model, "--max-num-seqs 1");
}

/* Tries the smaller settings of knobs that the caller set, and the vision encoder on the CPU, which
 * no plan chooses by itself. */
static void try_knobs(struct suggestion_search *s, const struct plan_limits *limits)
{
    const struct plan_knobs *now = &s->plan->knobs;
    s->limits = *limits;
    s->limits.knobs.lm_head = LM_HEAD_8BIT;
    if (now->lm_head == LM_HEAD_BF16) try_suggestion(s, s->model, "--head 8bit");
    s->limits = *limits;
    s->limits.knobs.vision = VISION_STREAMED;
    if (now->vision == VISION_RESIDENT && s->model->vision.depth)
        try_suggestion(s, s->model, "--vision-weights streamed");
    s->limits = *limits;
    s->limits.knobs.kv = PLAN_KV_FP8;
    if (now->kv == PLAN_KV_BF16) try_suggestion(s, s->model, "--kv-cache-dtype fp8");
    s->limits = *limits;
    s->limits.knobs.vision = VISION_HOST;
    if (now->vision != VISION_HOST && s->model->vision.depth)
        try_suggestion(s, s->model, "--vision-weights host");
}

/* Tries layers on the CPU; reports how many, and the predicted speed. */
static void try_cpu_layers(struct suggestion_search *s, const struct plan_limits *limits)
{
    struct plan p;
    char speed[32] = "";
    s->limits = *limits;
    s->limits.gpu_layers = PLAN_LAYERS_AUTO;
    if (limits->gpu_layers || !s->plan->device->cpu ||
        !plan_make(&p, s->model, s->be, s->plan->device, &s->limits, NULL) || !p.fits)
        return;
    if (p.tokens_per_second > 0)
        snprintf(speed, sizeof(speed), ", %.3g tokens/s", p.tokens_per_second);
    try_suggestion(s, s->model, "--gpu-layers auto (%d of %d%s)",
                   s->model->text.n_layers - p.cpu_layers, s->model->text.n_layers, speed);
}

/* Tries a larger --gpu-memory-utilization if the share of memory, not the free memory, limits the
 * budget. */
static void try_larger_share(struct suggestion_search *s, const struct plan_limits *limits)
{
    const struct plan_budget *b = &s->plan->budget;
    if (b->by != BUDGET_BY_SHARE || b->free < b->margin + s->plan->allocated) return;
    s->limits = *limits;
    s->limits.utilization =
        ceil(100.0 * (double)s->plan->allocated / (double)s->plan->device->total) / 100;
    s->limits.device_bytes = 0;
    if (s->limits.utilization <= 1)
        try_suggestion(s, s->model, "--gpu-memory-utilization %.2f", s->limits.utilization);
}

static uint64_t weight_bytes_of(const struct model *m, const struct backend *be)
{
    struct weight_sizes w = weight_sizes(m, be);
    return w.text + w.lm_head + w.vision;
}

static void try_smaller_model(void *user, const struct model *smaller)
{
    struct suggestion_search *s = user;
    if (weight_bytes_of(smaller, s->be) < weight_bytes_of(s->model, s->be))
        try_suggestion(s, smaller, "--model %s", smaller_model_name);
}

int plan_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS], const struct plan *p,
                     const struct model *m, const struct backend *be,
                     const struct plan_limits *limits)
{
    struct suggestion_search s = {out, 0, p, m, be, *limits};
    if (p->device->is_gpu) try_larger_share(&s, limits);
    try_shorter_context(&s, limits);
    try_one_sequence(&s, limits);
    try_smaller_batch(&s, limits);
    if (!p->device->is_gpu) return s.n;
    try_knobs(&s, limits);
    try_cpu_layers(&s, limits);
    s.limits = *limits;
    with_smaller_model(try_smaller_model, &s);
    return s.n;
}
