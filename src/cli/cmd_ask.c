/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet ask [IMAGE...] QUESTION: an answer, streamed, or one JSON object. */
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/asking.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/term.h"

/* What can be said without reading a picture or loading a model. */
static bool check_call(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet ask photo.jpg \"What is this?\"";
    if (!o->n_args) return ey_fail(e, EY_BAD_REQUEST, "ask needs a question: %s", example);
    const char *question = o->args[o->n_args - 1];
    if (!question[0]) return ey_fail(e, EY_BAD_REQUEST, "the question is empty: %s", example);
    if (strcmp(question, "-") == 0 || path_is_file(question) || path_is_directory(question))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the question is missing: the last argument, %s, is a file; try: eyelet ask "
                       "%s \"What is this?\"",
                       question, question);
    if (o->n_args - 1 > EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu pictures; at most %d go in one question",
                       o->n_args - 1, EY_MAX_IMAGES);
    if (o->schema && strcmp(o->schema, "-") == 0)
        for (size_t i = 0; i + 1 < o->n_args; i++)
            if (strcmp(o->args[i], "-") == 0)
                return ey_fail(e, EY_BAD_REQUEST,
                               "- (standard input) can be a picture or the schema, not both");
    return input_check_text(question, strlen(question), "the question", e) &&
           input_check_pictures(o->args, o->n_args - 1, "ask", e);
}

/* An answer is one line, so choices are. */
static bool check_form(const struct options *o, ey_err *e)
{
    if (o->choices.n && o->schema)
        return ey_fail(e, EY_BAD_REQUEST, "--choice and --schema: an answer has one form");
    for (size_t i = 0; i < o->choices.n; i++) {
        const char *choice = o->choices.item[i];
        if (!input_check_text(choice, strlen(choice), "a choice", e)) return false;
        if (strpbrk(choice, "\r\n"))
            return ey_fail(e, EY_BAD_REQUEST, "--choice takes one line, not \"%s\"", choice);
    }
    return true;
}

static bool open_form(struct form *form, const struct options *o, ey_err *e)
{
    if (!check_form(o, e)) return false;
    if (o->schema) return form_open_schema(form, o->schema, e);
    return !o->choices.n || form_open_choices(form, o->choices.item, o->choices.n, e);
}

int cmd_ask(const struct options *o)
{
    ey_err e;
    struct form form = {0};
    bool ok = check_call(o, &e) && open_form(&form, o, &e);
    bool formed = form.grammar != NULL;
    int status = ok ? ask_about(o, o->n_args - 1, o->args[o->n_args - 1], formed,
                                formed ? &form : NULL)
                    : term_complain(&e);
    form_close(&form);
    return status;
}
