/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet list prints the models in the Hugging Face cache. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_cache.h"
#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/terminal/term.h"
#include "eyelet/plan.h"

/* ---- fit ---- */

/* Returns "yes", "no", "incomplete", or "-" for a model that eyelet does not run. *why explains
 * "no" and "incomplete". */
static const char *listing_fits(const struct model_listing *m, ey_err *why)
{
    const uint64_t mib = 1 << 20;
    ey_plan plan;
    ey_engine_options engine = ey_engine_defaults();
    struct checkpoint *ckpt = NULL;
    engine.model = m->directory;
    *why = (ey_err){.code = EY_OK};
    bool whole = checkpoint_open(&ckpt, m->directory, why);
    checkpoint_close(ckpt);
    if (!whole) return "incomplete";
    if (!ey_plan_make(&engine, &plan, why)) return "-";
    if (plan.fits) return "yes";
    if (plan.total_bytes <= plan.budget_bytes)
        ey_fail(why, EY_NO_MEMORY, "layers on the CPU take too much memory; eyelet plan says more");
    else
        ey_fail(why, EY_NO_MEMORY,
                "does not fit, %llu MiB too many; eyelet plan says what would fit",
                (unsigned long long)((plan.total_bytes - plan.budget_bytes + mib - 1) / mib));
    return "no";
}

/* ---- a table for people ---- */

static void add_size(struct buf *out, uint64_t bytes)
{
    double b = (double)bytes;
    if (b >= 1e9)
        buf_printf(out, "%8.2f GB", b / 1e9);
    else if (b >= 1e6)
        buf_printf(out, "%8.1f MB", b / 1e6);
    else
        buf_printf(out, "%8.1f kB", b / 1e3);
}

static int longest_name(const struct model_listing *list, size_t n)
{
    size_t longest = 4;
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].name) > longest) longest = strlen(list[i].name);
    return (int)longest;
}

static void list_add_row(struct buf *out, const struct model_listing *m, int width)
{
    ey_err why;
    struct buf name = buf_with_max(1 << 16);
    term_add_name(&name, m->name);
    buf_printf(out, "%-*s  %-32s  %-8s ", width, name.data ? name.data : "",
               m->architecture ? m->architecture : "-", m->quantization ? m->quantization : "-");
    add_size(out, m->bytes);
    buf_printf(out, "  %s\n", listing_fits(m, &why));
    buf_free(&name);
}

static void list_add_table(struct buf *out, const struct model_listing *list, size_t n)
{
    int width = longest_name(list, n);
    buf_printf(out, "%-*s  %-32s  %-8s %11s  %s\n", width, "name", "architecture", "weights",
               "size", "fits here");
    for (size_t i = 0; i < n; i++)
        list_add_row(out, &list[i], width);
}

static void explain_empty(void)
{
    ey_err e;
    char cache[EY_MAX_PATH];
    if (hf_cache_directory(cache, &e))
        ey_fail(
            &e, EY_NOT_FOUND,
            "no models in %.300s (set HF_HUB_CACHE or HF_HOME to look elsewhere); get one with: "
            "eyelet pull Qwen/Qwen3-VL-2B-Instruct-FP8",
            cache);
    fprintf(stderr, "eyelet: %s\n", e.text);
}

/* ---- JSON ---- */

static void write_listing(struct json_writer *w, const struct model_listing *m)
{
    ey_err why;
    const char *fits = listing_fits(m, &why);
    json_open_object(w);
    json_add_string(w, "name", m->name);
    json_add_string(w, "architecture", m->architecture);
    json_add_string(w, "quantization", m->quantization);
    json_add_string(w, "directory", m->directory);
    json_add_uint(w, "bytes", m->bytes);
    if (strcmp(fits, "yes") == 0 || strcmp(fits, "no") == 0)
        json_add_bool(w, "fits", strcmp(fits, "yes") == 0);
    else
        json_add_null(w, "fits");
    json_add_string(w, "problem", why.code != EY_OK ? why.text : NULL);
    json_close_object(w);
}

static void list_add_json(struct buf *out, const struct model_listing *list, size_t n)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_array(&w);
    for (size_t i = 0; i < n; i++)
        write_listing(&w, &list[i]);
    json_close_array(&w);
    buf_add_text(out, "\n");
}

/* ---- the command ---- */

int cmd_list(const struct options *o)
{
    ey_err e;
    struct model_listing *list = NULL;
    size_t n = 0;
    struct term term = term_stdout();
    struct buf out = buf_with_max(64 << 20);
    if (o->n_args) {
        ey_fail(&e, EY_BAD_REQUEST, "list takes no arguments, but got %s", o->args[0]);
        return term_complain(&e);
    }
    if (!model_list(&list, &n, &e)) return term_complain(&e);
    if (o->json)
        list_add_json(&out, list, n);
    else if (n)
        list_add_table(&out, list, n);
    if (!n && !o->quiet) explain_empty();
    if (out.data) term_write(&term, out.data, out.size);
    buf_free(&out);
    model_list_free(list, n);
    return term_finish(&term, 0);
}
