/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet doctor: what was found, a line each, with what helps. */
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

static void doctor_add_json(struct buf *out, const ey_diagnosis *d)
{
    buf_printf(out, "{\"usable\": %s, \"findings\": [", d->usable ? "true" : "false");
    for (size_t i = 0; i < d->n; i++) {
        const ey_finding *f = &d->findings[i];
        buf_add_text(out, i ? ", {\"name\": " : "{\"name\": ");
        json_add_text(out, f->name);
        buf_printf(out, ", \"level\": \"%s\", \"text\": ", levels[f->level]);
        json_add_text(out, f->text);
        buf_add_text(out, ", \"remedy\": ");
        if (f->remedy[0])
            json_add_text(out, f->remedy);
        else
            buf_add_text(out, "null");
        if (f->unit[0])
            buf_printf(out, ", \"value\": %.15g, \"unit\": \"%s\"}", f->value, f->unit);
        else
            buf_add_text(out, ", \"value\": null, \"unit\": null}");
    }
    buf_add_text(out, "]}\n");
}

/* The model that was named; none is looked for. */
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
