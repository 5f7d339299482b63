/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet ask [IMAGE...] QUESTION streams an answer, or prints it as a JSON object. */
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/commands/ask_images.h"
#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/options/input.h"
#include "cli/terminal/term.h"

/* Returns whether the question is asked once for each image, instead of once about all images. */
static bool asks_each(const struct options *o)
{
    bool folder = false;
    for (size_t i = 0; i + 1 < o->n_args; i++)
        folder |= path_is_directory(o->args[i]);
    return folder || o->each || o->recursive || o->jsonl || o->csv || o->sidecar || o->resume ||
           o->output;
}

/* Checks what can be checked without reading an image or loading a model. */
static bool ask_check_arguments(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet ask photo.jpg \"What is this?\"";
    if (!o->n_args) return ey_fail(e, EY_BAD_REQUEST, "ask needs a question: %s", example);
    const char *question = o->args[o->n_args - 1];
    if (!question[0]) return ey_fail(e, EY_BAD_REQUEST, "the question is empty: %s", example);
    if (o->n_args > 1 && path_is_file(question) && !path_is_file(o->args[0]) &&
        strchr(o->args[0], ' '))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the question comes after the image: eyelet ask %s \"%s\"", question,
                       o->args[0]);
    if (strcmp(question, "-") == 0 || path_is_file(question) || path_is_directory(question))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the question is missing: the last argument, %s, is a file; try: eyelet ask "
                       "%s \"What is this?\"",
                       question, question);
    if (!input_check_quotes(o->args, o->n_args, "ask", e)) return false;
    if (!asks_each(o) && o->n_args - 1 > EY_MAX_IMAGES)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "%zu images are too many for one question, which takes at most %d; --each asks about "
            "each image separately",
            o->n_args - 1, EY_MAX_IMAGES);
    if (o->schema && strcmp(o->schema, "-") == 0)
        for (size_t i = 0; i + 1 < o->n_args; i++)
            if (strcmp(o->args[i], "-") == 0)
                return ey_fail(e, EY_BAD_REQUEST,
                               "- (standard input) can be an image or the schema, not both");
    if (asks_each(o) && o->n_args < 2)
        return ey_fail(e, EY_BAD_REQUEST,
                       "name images or a folder: eyelet ask --each photos/ \"%s\"", question);
    return input_check_text(question, strlen(question), "the question", e) &&
           (asks_each(o) || input_check_images(o->args, o->n_args - 1, "ask", e));
}

/* A choice must be a single line, because the answer is printed as one. */
static bool ask_check_format(const struct options *o, ey_err *e)
{
    if (o->choices.n && o->schema)
        return ey_fail(e, EY_BAD_REQUEST, "--choice and --schema cannot be combined; choose one");
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

/* Fails if a constrained answer was cut, because it does not match its format. */
static bool ask_check_whole(const struct cli_engine *cli, const ey_answer *answer, ey_err *e)
{
    (void)cli;
    if (answer->finish_reason != EY_FINISH_LENGTH) return true;
    return ey_fail(e, EY_TOO_LONG,
                   "the answer was cut after %d tokens and is not complete; see --max-tokens",
                   answer->completion_tokens);
}

static int ask_each(const struct options *o, const struct cli_response_format *format)
{
    const struct image_batch batch = {.command = "ask --each",
                                      .prompt = o->args[o->n_args - 1],
                                      .format = format,
                                      .greedy = format != NULL,
                                      .field = "answer",
                                      .sidecar = "txt",
                                      .check = format ? ask_check_whole : NULL};
    return image_batch_run(o, o->args, o->n_args - 1, &batch);
}

int cmd_ask(const struct options *o)
{
    ey_err e;
    struct cli_response_format format = {0};
    bool ok = ask_check_arguments(o, &e) && ask_open_format(&format, o, &e);
    bool constrained = format.grammar != NULL;
    const struct cli_response_format *held = constrained ? &format : NULL;
    int status = !ok            ? term_complain(&e)
                 : asks_each(o) ? ask_each(o, held)
                                : ask_about_images(o, o->n_args - 1, o->args[o->n_args - 1],
                                                   constrained, held);
    response_format_close(&format);
    return status;
}
