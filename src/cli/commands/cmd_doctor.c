/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet doctor prints each finding in a line, with its remedy. */
#include <stdlib.h>
#include <string.h>

#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/options/model_default.h"
#include "cli/terminal/term.h"
#include "eyelet/diagnose.h"

static const char *const levels[] = {[EY_FINDING_GOOD] = "ok",
                                     [EY_FINDING_NOTE] = "note",
                                     [EY_FINDING_WARNING] = "warning",
                                     [EY_FINDING_BAD] = "bad"};

static void doctor_add_line(struct buf *out, const ey_finding *f)
{
    buf_printf(out, "%-8s %-22s %s%s%s\n", levels[f->level], f->name, f->text,
               f->remedy[0] ? ": " : "", f->remedy);
}

static void write_finding(struct json_writer *w, const ey_finding *f)
{
    json_open_object(w);
    json_add_string(w, "name", f->name);
    json_add_string(w, "level", levels[f->level]);
    json_add_string(w, "text", f->text);
    json_add_string(w, "remedy", f->remedy[0] ? f->remedy : NULL);
    if (f->unit[0])
        json_add_digits(w, "value", f->value, 15);
    else
        json_add_null(w, "value");
    json_add_string(w, "unit", f->unit[0] ? f->unit : NULL);
    json_close_object(w);
}

static void doctor_add_json(struct buf *out, const ey_diagnosis *d)
{
    struct json_writer w = json_write_to(out, JSON_SPACED);
    json_open_object(&w);
    json_add_bool(&w, "usable", d->usable);
    json_write_key(&w, "findings");
    json_open_array(&w);
    for (size_t i = 0; i < d->n; i++)
        write_finding(&w, &d->findings[i]);
    json_close_array(&w);
    json_close_object(&w);
    buf_add_text(out, "\n");
}

/* Uses the model of the options only; without one, none is searched for. */
static bool doctor_read_options(ey_engine_options *engine, char *model, const struct options *o,
                                ey_err *e)
{
    if (o->n_args)
        return ey_fail(e, EY_BAD_REQUEST,
                       "doctor takes no arguments, such as %.100s; a model is named with --model",
                       o->args[0]);
    engine->device = o->device;
    if (!o->model) return true;
    engine->model = model;
    return model_choose(model, o->model, o->quiet, e);
}

int cmd_doctor(const struct options *o)
{
    ey_err e;
    char model[EY_MAX_PATH];
    struct term term = term_stdout();
    struct buf out = buf_with_max(1 << 20);
    ey_engine_options engine = ey_engine_defaults();
    ey_diagnosis *d = calloc(1, sizeof(*d));
    if (!d || !doctor_read_options(&engine, model, o, &e)) {
        if (!d) ey_fail_memory(&e, "the findings", sizeof(*d));
        free(d);
        return term_complain(&e);
    }
    ey_diagnose(d, &engine, o->kernels);
    if (o->json) doctor_add_json(&out, d);
    for (size_t i = 0; i < d->n && !o->json; i++)
        doctor_add_line(&out, &d->findings[i]);
    if (!o->json)
        buf_printf(&out, "%s\n",
                   d->usable  ? "models can be run"
                   : o->model ? "the model cannot be run here"
                              : "no model can be run here");
    if (out.data) term_write(&term, out.data, out.size);
    buf_free(&out);
    int status = d->usable ? 0 : 1;
    free(d);
    return term_finish(&term, status);
}
