/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet doctor prints each finding in a line, with its remedy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model_headers.h"
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

/* Sets the device and, if the options name a model, the model. A model that is not downloaded is
 * judged by its built-in shapes or its headers on the hub. If neither is available, *unjudged
 * says why, and the function succeeds without a model. */
static bool doctor_read_options(ey_engine_options *engine, struct model_headers *headers,
                                const struct options *o, ey_err *unjudged, ey_err *e)
{
    char model[EY_MAX_PATH];
    if (o->n_args)
        return ey_fail(e, EY_BAD_REQUEST,
                       "doctor takes no arguments, but got %.100s; name a model with --model",
                       o->args[0]);
    engine->device = o->device;
    if (!o->model) return true;
    if (!model_choose(model, o->model, o->quiet, e)) return false;
    if (!model_headers_find(headers, model, o, unjudged)) return true;
    engine->model = headers->directory;
    model_headers_say(headers, model, "judged by", o);
    return true;
}

/* In the findings, puts the model's name in place of the temporary folder of its headers. */
static void name_fetched_model(ey_diagnosis *d, const struct model_headers *headers,
                               const char *name)
{
    const size_t n = strlen(headers->directory);
    for (size_t i = 0; i < d->n && headers->temporary; i++) {
        char rest[sizeof(d->findings[i].text)];
        ey_finding *f = &d->findings[i];
        if (strncmp(f->text, headers->directory, n) != 0) continue;
        snprintf(rest, sizeof(rest), "%s", f->text + n);
        int length = snprintf(f->text, sizeof(f->text), "%.100s", name);
        snprintf(f->text + length, sizeof(f->text) - (size_t)length, "%s", rest);
    }
}

/* Adds a finding that the model could not be judged. The findings about the machine stay. */
static void add_unjudged(ey_diagnosis *d, const char *model, const ey_err *why)
{
    const size_t last = EY_MAX_FINDINGS - 1;
    ey_finding *f = &d->findings[d->n < last ? d->n++ : last];
    *f = (ey_finding){.name = "model", .level = EY_FINDING_BAD, .unit = ""};
    snprintf(f->text, sizeof(f->text), "%.100s cannot be judged: %.380s", model, why->text);
    snprintf(f->remedy, sizeof(f->remedy), "go online, or name a model that is downloaded");
    d->usable = false;
}

static const char *verdict(const ey_diagnosis *d, const struct options *o, const ey_err *unjudged)
{
    return d->usable        ? "models can be run"
           : unjudged->code ? "the model could not be judged"
           : o->model       ? "the model cannot be run here"
                            : "no model can be run here";
}

int cmd_doctor(const struct options *o)
{
    ey_err e, unjudged = {0};
    struct model_headers headers = {0};
    struct term term = term_stdout();
    struct buf out = buf_with_max(1 << 20);
    ey_engine_options engine = ey_engine_defaults();
    ey_diagnosis *d = calloc(1, sizeof(*d));
    if (!d || !doctor_read_options(&engine, &headers, o, &unjudged, &e)) {
        if (!d) ey_fail_memory(&e, "the findings", sizeof(*d));
        free(d);
        model_headers_remove(&headers);
        return term_complain(&e);
    }
    ey_diagnose(d, &engine, o->kernels);
    name_fetched_model(d, &headers, o->model);
    if (unjudged.code) add_unjudged(d, o->model, &unjudged);
    if (o->json) doctor_add_json(&out, d);
    for (size_t i = 0; i < d->n && !o->json; i++)
        doctor_add_line(&out, &d->findings[i]);
    if (!o->json) buf_printf(&out, "%s\n", verdict(d, o, &unjudged));
    if (out.data) term_write(&term, out.data, out.size);
    buf_free(&out);
    int status = d->usable ? 0 : 1;
    free(d);
    model_headers_remove(&headers);
    return term_finish(&term, status);
}
