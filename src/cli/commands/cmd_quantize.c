/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet quantize MODEL OUT writes a checkpoint of the weights that --quantize computes at load. */
#include <string.h>

#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/model_default.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/term.h"

static void quantize_show_progress(void *user, ey_phase phase, uint64_t done, uint64_t total)
{
    progress_phase(user, ey_phase_text(phase), done, total);
}

static bool quantize_run(ey_quantize_report *report, const struct options *o,
                         struct progress_line *progress, ey_err *e)
{
    char model[EY_MAX_PATH];
    ey_engine_options engine = ey_engine_defaults();
    if (o->n_args != 2)
        return ey_fail(e, EY_BAD_REQUEST,
                       "quantize takes two arguments, not %zu: a model and the directory to "
                       "write, as in: eyelet quantize qwen3-vl:8b qwen3-vl-8b-int4",
                       o->n_args);
    if (!model_choose(model, o->args[0], o->quiet, e) || !engine_options_set(&engine, o, e))
        return false;
    engine.model = model;
    if (!engine.quantize) engine.quantize = "int4";
    engine.progress = quantize_show_progress;
    engine.progress_user = progress;
    return ey_quantize(&engine, o->args[1], report, e);
}

static void add_report_json(struct buf *out, const ey_quantize_report *report)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_add_int(&w, "matrices", report->n_quantized);
    json_add_int(&w, "kept", report->n_unchanged);
    json_add_uint(&w, "bytes_before", report->bytes_before);
    json_add_uint(&w, "bytes", report->bytes);
    json_add_fixed(&w, "mean_error", report->mean_error, 6);
    json_add_fixed(&w, "worst_error", report->worst_error, 6);
    json_add_string(&w, "kept_names", report->unchanged_names);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

int cmd_quantize(const struct options *o)
{
    ey_err e;
    ey_quantize_report report;
    struct term out = term_stdout();
    struct progress_line progress = progress_start(o->quiet);
    bool ok = quantize_run(&report, o, &progress, &e);
    progress_clear(&progress);
    if (!ok) return term_complain(&e);
    struct buf text = buf_with_max(1 << 16);
    if (o->json) {
        add_report_json(&text, &report);
    } else {
        buf_printf(&text, "%s: %d matrices, %.1f MB instead of %.1f", o->args[1],
                   report.n_quantized, (double)report.bytes / 1e6,
                   (double)report.bytes_before / 1e6);
        if (report.worst_error > 0)
            buf_printf(&text, "; relative error of samples: mean %.4f, at most %.4f",
                       report.mean_error, report.worst_error);
        buf_add_text(&text, "\n");
        if (report.n_unchanged)
            buf_printf(&text, "%d matrices would lose too much accuracy and stay as they are: %s\n",
                       report.n_unchanged, report.unchanged_names);
    }
    term_write(&out, text.data, text.size);
    buf_free(&text);
    return term_finish(&out, 0);
}
