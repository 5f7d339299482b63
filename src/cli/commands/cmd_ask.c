/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet ask [IMAGE...] QUESTION: an answer, streamed, or one JSON object. */
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/commands/ask_images.h"
#include "cli/commands/commands.h"
#include "cli/options/input.h"
#include "cli/terminal/term.h"

/* Checks everything that can be checked without reading an image or loading a model. */
static bool ask_check_arguments(const struct options *o, ey_err *e)
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
        return ey_fail(e, EY_BAD_REQUEST, "%zu images; at most %d go in one question",
                       o->n_args - 1, EY_MAX_IMAGES);
    if (o->schema && strcmp(o->schema, "-") == 0)
        for (size_t i = 0; i + 1 < o->n_args; i++)
            if (strcmp(o->args[i], "-") == 0)
                return ey_fail(e, EY_BAD_REQUEST,
                               "- (standard input) can be an image or the schema, not both");
    return input_check_text(question, strlen(question), "the question", e) &&
           input_check_images(o->args, o->n_args - 1, "ask", e);
}

/* An answer is one line, so choices are. */
static bool ask_check_format(const struct options *o, ey_err *e)
{
    if (o->choices.n && o->schema)
        return ey_fail(e, EY_BAD_REQUEST, "--choice and --schema exclude each other");
    for (size_t i = 0; i < o->choices.n; i++) {
        const char *choice = o->choices.item[i];
        if (!input_check_text(choice, strlen(choice), "a choice", e)) return false;
        if (strpbrk(choice, "\r\n"))
            return ey_fail(e, EY_BAD_REQUEST, "--choice takes one line, not \"%s\"", choice);
    }
    return true;
}

static bool ask_open_format(struct cli_response_format *format, const struct options *o, ey_err *e)
{
    if (!ask_check_format(o, e)) return false;
    if (o->schema) return response_format_open_schema(format, o->schema, e);
    return !o->choices.n || response_format_open_choices(format, o->choices.item, o->choices.n, e);
}

int cmd_ask(const struct options *o)
{
    ey_err e;
    struct cli_response_format format = {0};
    bool ok = ask_check_arguments(o, &e) && ask_open_format(&format, o, &e);
    bool constrained = format.grammar != NULL;
    int status = ok ? ask_about_images(o, o->n_args - 1, o->args[o->n_args - 1], constrained,
                                       constrained ? &format : NULL)
                    : term_complain(&e);
    response_format_close(&format);
    return status;
}
