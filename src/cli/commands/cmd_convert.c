/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet convert MODEL OUT writes the model in another format. */
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/model_default.h"
#include "cli/output/answer_json.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/term.h"

static void convert_show_progress(void *user, ey_phase phase, uint64_t done, uint64_t total)
{
    progress_phase(user, ey_phase_text(phase), done, total);
}

static bool convert_run(ey_convert_report *report, const struct options *o,
                        struct progress_line *progress, ey_err *e)
{
    char model[EY_MAX_PATH];
    ey_engine_options engine = ey_engine_defaults();
    if (o->n_args != 2)
        return ey_fail(e, EY_BAD_REQUEST,
                       "convert takes two arguments, not %zu: a model, and the .gguf file or the "
                       "directory to write, as in: eyelet convert qwen3-vl:2b qwen3-vl-2b.gguf",
                       o->n_args);
    if (!model_choose(model, o->args[0], o->quiet, e) || !engine_options_set(&engine, o, e))
        return false;
    engine.model = model;
    engine.progress = convert_show_progress;
    engine.progress_user = progress;
    return ey_convert(&engine, o->args[1], o->float32, report, e);
}

static void add_conversion_json(struct buf *out, const ey_convert_report *report)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_add_int(&w, "tensors", report->n_tensors);
    json_add_int(&w, "float32", report->n_float32);
    json_add_uint(&w, "bytes_before", report->bytes_before);
    json_add_uint(&w, "bytes", report->bytes);
    json_add_string(&w, "float32_names", report->float32_names);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

int cmd_convert(const struct options *o)
{
    ey_err e;
    ey_convert_report report;
    struct term out = term_stdout();
    struct progress_line progress = progress_start(o->quiet);
    const bool ok = convert_run(&report, o, &progress, &e);
    progress_clear(&progress);
    if (!ok) return term_complain(&e);
    struct buf text = buf_with_max(1 << 16);
    if (o->json) {
        add_conversion_json(&text, &report);
    } else {
        buf_printf(&text, "%s: %d tensors, %.1f MB (%.1f MB before)\n", o->args[1],
                   report.n_tensors, (double)report.bytes / 1e6, (double)report.bytes_before / 1e6);
        if (report.n_float32)
            buf_printf(&text, "%d tensors are float32 now: %s%s\n", report.n_float32,
                       report.float32_names, report.n_float32 > 3 ? "; ..." : "");
    }
    term_write(&out, text.data, text.size);
    buf_free(&text);
    return term_finish(&out, 0);
}
