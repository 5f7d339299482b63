/* eyelet plan [MODEL]: what would be allocated where, before anything is. */
#include <string.h>

#include "cli/answer_json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/model_default.h"
#include "cli/term.h"
#include "cli/verdict.h"

#define MIB (1024.0 * 1024.0)

/* ---- a table for people ---- */

static void add_row(struct buf *out, const char *name, const char *device, uint64_t bytes, const char *life)
{
    buf_printf(out, "  %-28s %-6s %10.1f MiB  %s\n", name, device, (double)bytes / MIB, life);
}

static void add_table(struct buf *out, const ey_plan *p)
{
    bool card = strcmp(p->device, "cuda") == 0;
    buf_printf(out, "%s on %s: context %d tokens, KV pool %d tokens, %d request%s at once, ", p->directory, p->device, p->max_model_len, p->kv_tokens,
               p->max_num_seqs, p->max_num_seqs == 1 ? "" : "s");
    if (p->max_pixels) buf_printf(out, "pictures up to %llu pixels\n", (unsigned long long)p->max_pixels);
    else buf_add_text(out, "text only\n");
    for (size_t i = 0; i < p->n_items; i++) add_row(out, p->items[i].name, p->items[i].device, p->items[i].bytes, p->items[i].life);
    add_row(out, card ? "all on the card" : "allocated", "", p->total_bytes, "");
    for (size_t i = 0; i < p->n_choices; i++) buf_printf(out, "  chosen: %s\n", p->choices[i]);
    add_verdict(out, p);
    for (size_t i = 0; i < p->n_changes; i++)
        buf_printf(out, "  with %-38s %10.1f MiB  %s\n", p->changes[i].options, (double)p->changes[i].total_bytes / MIB, p->changes[i].fits ? "fits" : "does not fit");
}

/* ---- JSON (design: plan --json) ---- */

static void add_member(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\": ", name);
    json_add_text(out, text);
}

static void add_json(struct buf *out, const ey_plan *p)
{
    buf_printf(out, "{\"fits\": %s, ", p->fits ? "true" : "false");
    add_member(out, "device", p->device);
    buf_add_text(out, ", ");
    add_member(out, "budget_rule", p->budget_rule);
    buf_printf(out, ", \"budget_bytes\": %llu, \"total_bytes\": %llu, \"file_bytes\": %llu, \"shortfall_bytes\": %llu, \"items\": [",
               (unsigned long long)p->budget_bytes, (unsigned long long)p->total_bytes, (unsigned long long)p->file_bytes,
               (unsigned long long)(p->fits ? 0 : p->total_bytes - p->budget_bytes));
    for (size_t i = 0; i < p->n_items; i++) {
        buf_add_text(out, i ? ", {" : "{");
        add_member(out, "name", p->items[i].name), buf_add_text(out, ", ");
        add_member(out, "device", p->items[i].device);
        buf_printf(out, ", \"bytes\": %llu, ", (unsigned long long)p->items[i].bytes);
        add_member(out, "life", p->items[i].life), buf_add_text(out, "}");
    }
    buf_printf(out, "], \"max_model_len\": %d, \"kv_tokens\": %d, \"max_num_seqs\": %d, \"max_pixels\": %llu, \"choices\": [", p->max_model_len,
               p->kv_tokens, p->max_num_seqs, (unsigned long long)p->max_pixels);
    for (size_t i = 0; i < p->n_choices; i++) {
        if (i) buf_add_text(out, ", ");
        json_add_text(out, p->choices[i]);
    }
    buf_add_text(out, "], \"suggestions\": [");
    for (size_t i = 0; i < p->n_changes; i++) {
        buf_add_text(out, i ? ", {" : "{");
        add_member(out, "options", p->changes[i].options);
        buf_printf(out, ", \"total_bytes\": %llu, \"fits\": %s}", (unsigned long long)p->changes[i].total_bytes, p->changes[i].fits ? "true" : "false");
    }
    buf_add_text(out, "]}\n");
}

static bool make_plan(ey_plan *plan, const struct options *o, ey_err *e)
{
    char model[EY_MAX_PATH];
    ey_engine_options engine = ey_engine_defaults();
    if (o->n_args > 1) return ey_fail(e, EY_BAD_REQUEST, "plan takes one model, not %zu", o->n_args);
    if ((o->vram_used || o->sm_count) && !o->vram) return ey_fail(e, EY_BAD_REQUEST, "--vram-used and --sm-count are of the card that --vram tells of");
    if (!model_choose(model, o->n_args ? o->args[0] : o->model, o->quiet, e) || !engine_options_set(&engine, o, e)) return false;
    engine.model = model;
    return ey_plan_make(&engine, plan, e);
}

int cmd_plan(const struct options *o)
{
    ey_err e;
    ey_plan plan;
    struct term out = term_stdout();
    struct buf text = buf_with_max(1 << 20);
    if (!make_plan(&plan, o, &e)) return term_complain(&e);
    if (o->json) add_json(&text, &plan);
    else add_table(&text, &plan);
    term_write(&out, text.data, text.size);
    buf_free(&text);
    return term_finish(&out, plan.fits ? 0 : 1);
}
