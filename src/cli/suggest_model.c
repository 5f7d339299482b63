/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suggest_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/short_names.h"
#include "cli/model_headers.h"
#include "eyelet/plan.h"

enum { LEAST_CONTEXT = 8192, SHOWN_BYTES = 4096, MIB = 1 << 20 };

static const char *const candidates[] = {"Qwen/Qwen3-VL-8B-Instruct-FP8",
                                         "Qwen/Qwen3-VL-4B-Instruct-FP8",
                                         "Qwen/Qwen3-VL-2B-Instruct-FP8"};
enum { N_CANDIDATES = sizeof(candidates) / sizeof(candidates[0]) };

struct candidate {
    ey_plan *plan; /* owned */
    uint64_t bytes;
    bool runs;
};

static bool plan_candidate(struct candidate *c, const char *repository, ey_err *e)
{
    struct model_headers headers;
    ey_engine_options engine = ey_engine_defaults();
    c->plan = calloc(1, sizeof(*c->plan));
    if (!c->plan) return ey_fail_memory(e, "a plan", sizeof(*c->plan));
    bool ok = model_headers_official(&headers, repository, e);
    engine.model = headers.directory;
    ok = ok && ey_plan_make(&engine, c->plan, e);
    c->bytes = headers.bytes;
    model_headers_remove(&headers);
    return ok;
}

/* Returns the bytes that must stay in memory. On a CPU this includes the weights, which are read
 * for every token. */
static uint64_t memory_needed(const ey_plan *p)
{
    return p->total_bytes + (p->on_gpu ? 0 : p->file_bytes);
}

static bool runs_well(const ey_plan *p)
{
    return p->fits && memory_needed(p) <= p->budget_bytes &&
           (!p->on_gpu || p->max_model_len >= LEAST_CONTEXT);
}

/* Appends the option of each choice, such as "--head 8bit" of "--head 8bit: half of …". */
static void add_choices(struct buf *out, const ey_plan *p)
{
    for (size_t i = 0; i < p->n_choices; i++) {
        if (strncmp(p->choices[i], "--head-rows", 11) == 0) continue; /* costs no accuracy */
        buf_add_text(out, ", ");
        buf_add(out, p->choices[i], strcspn(p->choices[i], ":"));
    }
}

static void add_candidate(struct buf *out, const struct candidate *c, const char *repository)
{
    char name[SHORT_NAME_BYTES] = "";
    const ey_plan *p = c->plan;
    uint64_t needed = memory_needed(p);
    short_name_of(name, repository);
    buf_printf(out, "  %-12s %6.2f GB  ", name, (double)c->bytes / 1e9);
    if (needed > p->budget_bytes)
        buf_printf(out, "does not fit, %llu MiB too many",
                   (unsigned long long)((needed - p->budget_bytes) / MIB + 1));
    else
        buf_printf(out, "%s context %d%s", c->runs ? "fits," : "fits only with", p->max_model_len,
                   p->on_gpu ? "" : ", on the CPU");
    add_choices(out, p);
    buf_add_text(out, "\n");
}

/* Returns the largest candidate that runs on a GPU, or the smallest that runs on a CPU, or
 * N_CANDIDATES if none runs. */
static size_t best_candidate(const struct candidate *c)
{
    size_t best = N_CANDIDATES;
    for (size_t i = 0; i < N_CANDIDATES; i++)
        if (c[i].runs && (best == N_CANDIDATES || !c[i].plan->on_gpu)) best = i;
    return best;
}

static void print_candidates(const struct candidate *c, size_t best, const struct options *o)
{
    struct buf text = buf_with_max(SHOWN_BYTES);
    char name[SHORT_NAME_BYTES] = "";
    const ey_plan *p = c[0].plan;
    buf_printf(&text, "eyelet: on this machine (%s; usable memory: %s)\n", p->device,
               p->budget_rule);
    for (size_t i = 0; i < N_CANDIDATES; i++)
        add_candidate(&text, &c[i], candidates[i]);
    if (best < N_CANDIDATES && short_name_of(name, candidates[best]))
        buf_printf(&text, "eyelet: the best one for this machine is %s, %s: eyelet pull %s\n", name,
                   p->on_gpu
                       ? "the largest that has room for images and long answers"
                       : "the fastest: without a GPU, larger models take longer for each word",
                   name);
    if (!o->quiet && !text.failed) fputs(text.data, stderr);
    buf_free(&text);
}

bool suggest_model(char *out, const struct options *o, ey_err *e)
{
    struct candidate c[N_CANDIDATES] = {0};
    bool ok = true;
    size_t best = N_CANDIDATES;
    for (size_t i = 0; ok && i < N_CANDIDATES; i++) {
        ok = plan_candidate(&c[i], candidates[i], e);
        c[i].runs = ok && runs_well(c[i].plan);
    }
    if (ok) {
        best = best_candidate(c);
        print_candidates(c, best, o);
    }
    if (ok && best == N_CANDIDATES)
        ok = ey_fail(e, EY_NO_MEMORY,
                     "no official model fits this machine; the demo model does: --model demo");
    if (ok) snprintf(out, EY_MAX_PATH, "%s", candidates[best]);
    for (size_t i = 0; i < N_CANDIDATES; i++)
        free(c[i].plan);
    return ok;
}
