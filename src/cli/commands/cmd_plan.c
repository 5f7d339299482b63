/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet plan [MODEL...]: what would be allocated where, before anything is. */
#include <stdlib.h>
#include <string.h>

#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/model_default.h"
#include "cli/terminal/term.h"
#include "cli/output/fit_message.h"

#define MIB (1024.0 * 1024.0)

/* ---- a table for people ---- */

static void plan_table_add_row(struct buf *out, const char *name, const char *device,
                               uint64_t bytes, const char *lifetime)
{
    buf_printf(out, "  %-28s %-6s %10.1f MiB  %s\n", name, device, (double)bytes / MIB, lifetime);
}

static void plan_table_add(struct buf *out, const ey_plan *p)
{
    buf_printf(out, "%s on %s: context %d tokens, KV pool %d tokens, %d request%s at once, ",
               p->directory, p->device, p->max_model_len, p->kv_tokens, p->max_num_seqs,
               p->max_num_seqs == 1 ? "" : "s");
    if (p->max_pixels)
        buf_printf(out, "images up to %llu pixels\n", (unsigned long long)p->max_pixels);
    else
        buf_add_text(out, "text only\n");
    for (size_t i = 0; i < p->n_items; i++)
        plan_table_add_row(out, p->items[i].name, p->items[i].device, p->items[i].bytes,
                           p->items[i].lifetime);
    plan_table_add_row(out, p->on_gpu ? "all on the GPU" : "allocated", "", p->total_bytes, "");
    for (size_t i = 0; i < p->n_choices; i++)
        buf_printf(out, "  chosen: %s\n", p->choices[i]);
    add_fit_message(out, p);
    for (size_t i = 0; i < p->n_suggestions; i++)
        buf_printf(out, "  with %-38s %10.1f MiB  %s\n", p->suggestions[i].options,
                   (double)p->suggestions[i].total_bytes / MIB,
                   p->suggestions[i].fits ? "fits" : "does not fit");
}

static void plan_table_add_models(struct buf *out, const ey_plan *p, size_t n,
                                  const ey_multi_model_plan *all)
{
    buf_printf(out, "together: %.1f of %.1f MiB besides what they share",
               (double)all->resident_bytes / MIB, (double)all->capacity_bytes / MIB);
    if (all->all_resident)
        buf_add_text(out, "; all stay loaded\n");
    else
        buf_add_text(out, "; the others are loaded on demand, and idle ones are evicted\n");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "  %-12s %10.1f MiB  %s\n",
                   p[i].resident ? "resident"
                   : p[i].fits   ? "on demand"
                                 : "never fits",
                   (double)p[i].shared_bytes / MIB, p[i].directory);
}

/* ---- JSON (design: plan --json) ---- */

static void plan_json_add_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\": ", name);
    json_add_text(out, text);
}

/* An object, its end left to the caller. */
static void plan_json_add(struct buf *out, const ey_plan *p)
{
    buf_printf(out, "{\"fits\": %s, ", p->fits ? "true" : "false");
    plan_json_add_text(out, "device", p->device);
    buf_add_text(out, ", ");
    plan_json_add_text(out, "budget_rule", p->budget_rule);
    buf_printf(out,
               ", \"budget_bytes\": %llu, \"total_bytes\": %llu, \"file_bytes\": %llu, "
               "\"shortfall_bytes\": %llu, \"items\": [",
               (unsigned long long)p->budget_bytes, (unsigned long long)p->total_bytes,
               (unsigned long long)p->file_bytes,
               (unsigned long long)(p->total_bytes > p->budget_bytes
                                        ? p->total_bytes - p->budget_bytes
                                        : 0));
    for (size_t i = 0; i < p->n_items; i++) {
        buf_add_text(out, i ? ", {" : "{");
        plan_json_add_text(out, "name", p->items[i].name);
        buf_add_text(out, ", ");
        plan_json_add_text(out, "device", p->items[i].device);
        buf_printf(out, ", \"bytes\": %llu, ", (unsigned long long)p->items[i].bytes);
        plan_json_add_text(out, "life", p->items[i].lifetime);
        buf_add_text(out, "}");
    }
    buf_printf(out,
               "], \"max_model_len\": %d, \"kv_tokens\": %d, \"max_num_seqs\": %d, \"max_pixels\": "
               "%llu, \"n_layers\": %d, \"gpu_layers\": %d, "
               "\"tokens_per_second\": %.3f, \"choices\": [",
               p->max_model_len, p->kv_tokens, p->max_num_seqs, (unsigned long long)p->max_pixels,
               p->n_layers, p->gpu_layers, p->tokens_per_second);
    for (size_t i = 0; i < p->n_choices; i++) {
        if (i) buf_add_text(out, ", ");
        json_add_text(out, p->choices[i]);
    }
    buf_add_text(out, "], \"suggestions\": [");
    for (size_t i = 0; i < p->n_suggestions; i++) {
        buf_add_text(out, i ? ", {" : "{");
        plan_json_add_text(out, "options", p->suggestions[i].options);
        buf_printf(out, ", \"total_bytes\": %llu, \"fits\": %s}",
                   (unsigned long long)p->suggestions[i].total_bytes,
                   p->suggestions[i].fits ? "true" : "false");
    }
    buf_add_text(out, "]");
}

static void plan_json_add_models(struct buf *out, const ey_plan *p, size_t n,
                                 const ey_multi_model_plan *all)
{
    buf_printf(out, "{\"together\": %s, \"room_bytes\": %llu, \"taken_bytes\": %llu, \"models\": [",
               all->all_resident ? "true" : "false", (unsigned long long)all->capacity_bytes,
               (unsigned long long)all->resident_bytes);
    for (size_t i = 0; i < n; i++) {
        if (i) buf_add_text(out, ", ");
        plan_json_add(out, &p[i]);
        buf_add_text(out, ", ");
        plan_json_add_text(out, "directory", p[i].directory);
        buf_printf(out, ", \"resident\": %s, \"shared_bytes\": %llu}",
                   p[i].resident ? "true" : "false", (unsigned long long)p[i].shared_bytes);
    }
    buf_add_text(out, "]}\n");
}

/* ---- the command ---- */

struct plan_command {
    char model[EY_MAX_MODELS][EY_MAX_PATH];
    ey_engine_options engine[EY_MAX_MODELS];
    ey_plan plan[EY_MAX_MODELS];
    ey_multi_model_plan all;
    size_t n;
};

static bool make_plans(struct plan_command *p, const struct options *o, ey_err *e)
{
    if (o->n_args > EY_MAX_MODELS)
        return ey_fail(e, EY_BAD_REQUEST, "plan takes at most %d models, not %zu", EY_MAX_MODELS,
                       o->n_args);
    if ((o->vram_used || o->sm_count) && !o->vram)
        return ey_fail(e, EY_BAD_REQUEST, "--vram-used and --sm-count describe the GPU of --vram");
    for (p->n = 0; p->n < o->n_args || !p->n; p->n++) {
        ey_engine_options *engine = &p->engine[p->n];
        *engine = ey_engine_defaults();
        if (!model_choose(p->model[p->n], o->n_args ? o->args[p->n] : o->model, o->quiet, e) ||
            !engine_options_set(engine, o, e))
            return false;
        engine->model = p->model[p->n];
    }
    return ey_multi_model_plan_make(p->engine, p->n, p->plan, &p->all, e);
}

static bool all_fit(const struct plan_command *p)
{
    bool fit = true;
    for (size_t i = 0; i < p->n; i++)
        fit &= p->plan[i].fits;
    return fit;
}

static void write_plans(struct buf *out, const struct plan_command *p, bool json)
{
    if (json && p->n > 1)
        plan_json_add_models(out, p->plan, p->n, &p->all);
    else if (json) {
        plan_json_add(out, p->plan);
        buf_add_text(out, "}\n");
    }
    for (size_t i = 0; i < p->n && !json; i++) {
        if (i) buf_add_text(out, "\n");
        plan_table_add(out, &p->plan[i]);
    }
    if (p->n > 1 && !json) {
        buf_add_text(out, "\n");
        plan_table_add_models(out, p->plan, p->n, &p->all);
    }
}

int cmd_plan(const struct options *o)
{
    ey_err e;
    struct plan_command *p = calloc(1, sizeof(*p));
    struct term out = term_stdout();
    struct buf text = buf_with_max(1 << 20);
    bool ok = p ? make_plans(p, o, &e) : ey_fail_memory(&e, "plans", sizeof(*p)),
         fit = ok && all_fit(p);
    if (ok) {
        write_plans(&text, p, o->json);
        term_write(&out, text.data, text.size);
    }
    buf_free(&text);
    free(p);
    return ok ? term_finish(&out, fit ? 0 : 1) : term_complain(&e);
}
