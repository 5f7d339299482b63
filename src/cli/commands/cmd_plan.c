/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet plan [MODEL...] prints the memory that models would allocate, without allocating it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/model_headers.h"
#include "cli/options/model_default.h"
#include "cli/terminal/term.h"
#include "cli/output/fit_message.h"
#include "server/plan_json.h"

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
    buf_printf(out, "together: %.1f of %.1f MiB, without the memory that they share",
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

/* ---- JSON ---- */

static void write_suggestion(struct json_writer *w, const ey_plan *p, size_t i)
{
    json_open_object(w);
    json_add_string(w, "options", p->suggestions[i].options);
    json_add_uint(w, "total_bytes", p->suggestions[i].total_bytes);
    json_add_bool(w, "fits", p->suggestions[i].fits);
    json_close_object(w);
}

/* Writes a plan as an object, which the caller closes. */
static void open_plan(struct json_writer *w, const ey_plan *p)
{
    json_open_object(w);
    json_add_bool(w, "fits", p->fits);
    json_add_string(w, "device", p->device);
    json_add_string(w, "budget_rule", p->budget_rule);
    json_add_uint(w, "budget_bytes", p->budget_bytes);
    json_add_uint(w, "total_bytes", p->total_bytes);
    json_add_uint(w, "file_bytes", p->file_bytes);
    json_add_uint(w, "shortfall_bytes",
                  p->total_bytes > p->budget_bytes ? p->total_bytes - p->budget_bytes : 0);
    json_write_key(w, "items");
    json_open_array(w);
    for (size_t i = 0; i < p->n_items; i++)
        write_plan_item(w, &p->items[i]);
    json_close_array(w);
    json_add_int(w, "max_model_len", p->max_model_len);
    json_add_int(w, "kv_tokens", p->kv_tokens);
    json_add_int(w, "max_num_seqs", p->max_num_seqs);
    json_add_uint(w, "max_pixels", p->max_pixels);
    json_add_int(w, "n_layers", p->n_layers);
    json_add_int(w, "gpu_layers", p->gpu_layers);
    json_add_fixed(w, "tokens_per_second", p->tokens_per_second, 3);
    json_write_key(w, "choices");
    json_open_array(w);
    for (size_t i = 0; i < p->n_choices; i++)
        json_write_string(w, p->choices[i]);
    json_close_array(w);
    json_write_key(w, "suggestions");
    json_open_array(w);
    for (size_t i = 0; i < p->n_suggestions; i++)
        write_suggestion(w, p, i);
    json_close_array(w);
}

static void write_model_plans(struct json_writer *w, const ey_plan *p, size_t n,
                              const ey_multi_model_plan *all)
{
    json_open_object(w);
    json_add_bool(w, "together", all->all_resident);
    json_add_uint(w, "room_bytes", all->capacity_bytes);
    json_add_uint(w, "taken_bytes", all->resident_bytes);
    json_write_key(w, "models");
    json_open_array(w);
    for (size_t i = 0; i < n; i++) {
        open_plan(w, &p[i]);
        json_add_string(w, "directory", p[i].directory);
        json_add_bool(w, "resident", p[i].resident);
        json_add_uint(w, "shared_bytes", p[i].shared_bytes);
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}

/* ---- the command ---- */

struct plan_command {
    char model[EY_MAX_MODELS][EY_MAX_PATH];
    struct model_headers headers[EY_MAX_MODELS];
    ey_engine_options engine[EY_MAX_MODELS];
    ey_plan plan[EY_MAX_MODELS];
    ey_multi_model_plan all;
    size_t n;
};

/* In the plan of each model that is not downloaded, puts the model's name in place of the temporary
 * directory. */
static void name_missing_models(struct plan_command *p, const struct options *o)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct model_headers *h = &p->headers[i];
        if (!h->temporary) continue;
        snprintf(p->plan[i].directory, sizeof(p->plan[i].directory), "%s", p->model[i]);
        model_headers_say(h, p->model[i], "planned from", o);
    }
}

static bool plan_one(struct plan_command *p, size_t i, const char *asked, const struct options *o,
                     ey_err *e)
{
    p->engine[i] = ey_engine_defaults();
    if (!model_choose(p->model[i], asked, o->quiet, e) ||
        !engine_options_set(&p->engine[i], o, e) ||
        !model_headers_find(&p->headers[i], p->model[i], o, e))
        return false;
    p->engine[i].model = p->headers[i].directory;
    return true;
}

static bool make_plans(struct plan_command *p, const struct options *o, ey_err *e)
{
    if (o->n_args > EY_MAX_MODELS)
        return ey_fail(e, EY_BAD_REQUEST, "plan takes at most %d models, not %zu", EY_MAX_MODELS,
                       o->n_args);
    if ((o->vram_used || o->sm_count) && !o->vram)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--vram-used and --sm-count describe a simulated GPU and need --vram");
    for (p->n = 0; p->n < o->n_args || !p->n; p->n++)
        if (!plan_one(p, p->n, o->n_args ? o->args[p->n] : o->model, o, e)) return false;
    if (!ey_multi_model_plan_make(p->engine, p->n, p->plan, &p->all, e)) return false;
    name_missing_models(p, o);
    return true;
}

static bool all_fit(const struct plan_command *p)
{
    bool fit = true;
    for (size_t i = 0; i < p->n; i++)
        fit &= p->plan[i].fits;
    return fit;
}

static void add_plans_json(struct buf *out, const struct plan_command *p)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    if (p->n > 1) {
        write_model_plans(&w, p->plan, p->n, &p->all);
    } else {
        open_plan(&w, p->plan);
        json_close_object(&w);
    }
    buf_add_text(out, "\n");
}

static void add_plan_tables(struct buf *out, const struct plan_command *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (i) buf_add_text(out, "\n");
        plan_table_add(out, &p->plan[i]);
    }
    if (p->n > 1) {
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
        if (o->json)
            add_plans_json(&text, p);
        else
            add_plan_tables(&text, p);
        term_write(&out, text.data, text.size);
    }
    buf_free(&text);
    for (size_t i = 0; p && i < EY_MAX_MODELS; i++)
        model_headers_remove(&p->headers[i]);
    free(p);
    return ok ? term_finish(&out, fit ? 0 : 1) : term_complain(&e);
}
