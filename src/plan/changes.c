/* SPDX-License-Identifier: Apache-2.0 */
/* What would fit, where a plan does not: each change alone, with the levers that are left to the
 * plan pulled as it needs. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan/sizes.h"

struct search {
    struct plan_change *out;
    int n;
    const struct plan *plan;
    const struct model *model;
    const struct backend *be;
    struct plan_limits limits; /* of the change that is tried */
};

__attribute__((format(printf, 3, 4))) static void try_change(struct search *s,
                                                             const struct model *m, const char *fmt,
                                                             ...)
{
    struct plan changed;
    va_list args;
    if (s->n == PLAN_CHANGES || !plan_make(&changed, m, s->be, s->plan->facts, &s->limits, NULL))
        return;
    struct plan_change *c = &s->out[s->n++];
    va_start(args, fmt);
    vsnprintf(c->options, sizeof(c->options), fmt, args);
    va_end(args);
    c->total = changed.allocated;
    c->fits = changed.fits;
}

static bool context_fits(const struct model *m, const struct backend *be,
                         const struct device_facts *facts, const struct plan_limits *limits,
                         int blocks)
{
    struct plan p;
    struct plan_limits shorter = *limits;
    shorter.max_model_len = shorter.kv_tokens = blocks * KV_BLOCK;
    return plan_make(&p, m, be, facts, &shorter, NULL) && p.fits;
}

int plan_longest_context(const struct model *m, const struct backend *be,
                         const struct device_facts *facts, const struct plan_limits *limits)
{
    struct plan p;
    if (!plan_make(&p, m, be, facts, limits, NULL)) return 0;
    int fits = 0, too_long = p.max_blocks + 1;
    while (too_long - fits > 1) {
        int middle = (fits + too_long) / 2;
        if (context_fits(m, be, facts, limits, middle))
            fits = middle;
        else
            too_long = middle;
    }
    return fits * KV_BLOCK;
}

static void try_contexts(struct search *s, const struct plan_limits *limits)
{
    enum { SHORT = 2048, SHORTEST = 512 };
    const int longest = plan_longest_context(s->model, s->be, s->plan->facts, limits);
    const int lengths[] = {s->plan->max_model_len > SHORT ? SHORT : 0,
                           longest != SHORT ? longest : 0,
                           !longest && s->plan->max_model_len > SHORTEST ? SHORTEST : 0};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (!lengths[i]) continue;
        s->limits = *limits;
        s->limits.max_model_len = lengths[i];
        s->limits.kv_tokens = 0;
        try_change(s, s->model, "--max-model-len %d", lengths[i]);
    }
}

static void try_rows(struct search *s, const struct plan_limits *limits)
{
    enum { FEW = 512, FEWEST = 64 };
    int rows = s->plan->facts->card ? FEW : FEWEST;
    if (s->plan->max_rows <= rows) return;
    s->limits = *limits;
    s->limits.max_num_batched_tokens = rows;
    try_change(s, s->model, "--max-num-batched-tokens %d", rows);
}

static void try_sequences(struct search *s, const struct plan_limits *limits)
{
    if (s->plan->max_num_seqs == 1) return;
    s->limits = *limits;
    s->limits.max_num_seqs = 1;
    try_change(s, s->model, "--max-num-seqs 1");
}

/* Those that were given otherwise. */
static void try_levers(struct search *s, const struct plan_limits *limits)
{
    const struct plan_levers *now = &s->plan->levers;
    s->limits = *limits;
    s->limits.levers.head = HEAD_8BIT;
    if (now->head == HEAD_BF16) try_change(s, s->model, "--head 8bit");
    s->limits = *limits;
    s->limits.levers.vision = VISION_STREAMED;
    if (now->vision == VISION_RESIDENT && s->model->vision.depth)
        try_change(s, s->model, "--vision-weights streamed");
    s->limits = *limits;
    s->limits.levers.kv = KV_FP8;
    if (now->kv == KV_BF16) try_change(s, s->model, "--kv-cache-dtype fp8");
    s->limits = *limits;
    s->limits.levers.vision = VISION_HOST;
    if (now->vision != VISION_HOST && s->model->vision.depth)
        try_change(s, s->model, "--vision-weights host");
}

/* Some of the layers on the CPU; how many is said, and how fast that will be. */
static void try_layers(struct search *s, const struct plan_limits *limits)
{
    struct plan p;
    char speed[32] = "";
    s->limits = *limits;
    s->limits.gpu_layers = PLAN_LAYERS_AUTO;
    if (limits->gpu_layers || !s->plan->facts->cpu ||
        !plan_make(&p, s->model, s->be, s->plan->facts, &s->limits, NULL) || !p.fits)
        return;
    if (p.tokens_per_second > 0)
        snprintf(speed, sizeof(speed), ", %.3g tokens/s", p.tokens_per_second);
    try_change(s, s->model, "--gpu-layers auto (%d of %d%s)",
               s->model->text.n_layers - p.first_layers, s->model->text.n_layers, speed);
}

/* A larger share, where the share is what is short. */
static void try_share(struct search *s, const struct plan_limits *limits)
{
    const struct plan_budget *b = &s->plan->budget;
    if (b->by != BUDGET_BY_SHARE || b->free < b->margin + s->plan->allocated) return;
    s->limits = *limits;
    s->limits.utilization =
        ceil(100.0 * (double)s->plan->allocated / (double)s->plan->facts->total) / 100;
    s->limits.device_bytes = 0;
    if (s->limits.utilization <= 1)
        try_change(s, s->model, "--gpu-memory-utilization %.2f", s->limits.utilization);
}

static uint64_t weights_of(const struct model *m, const struct backend *be)
{
    struct weight_sizes w = weight_sizes(m, be);
    return w.decoder + w.head + w.vision;
}

static void try_smaller(void *user, const struct model *smaller)
{
    struct search *s = user;
    if (weights_of(smaller, s->be) < weights_of(s->model, s->be))
        try_change(s, smaller, "--model %s", smaller_model_name);
}

int plan_changes(struct plan_change out[PLAN_CHANGES], const struct plan *p, const struct model *m,
                 const struct backend *be, const struct plan_limits *limits)
{
    struct search s = {out, 0, p, m, be, *limits};
    if (p->facts->card) try_share(&s, limits);
    try_contexts(&s, limits);
    try_sequences(&s, limits);
    try_rows(&s, limits);
    if (!p->facts->card) return s.n;
    try_levers(&s, limits);
    try_layers(&s, limits);
    s.limits = *limits;
    with_smaller_model(try_smaller, &s);
    return s.n;
}
