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
        return ey_fail(e, EY_BAD_REQUEST, "the question is missing: the last argument, %s, is a file; try: eyelet ask %s \"What is this?\"",
                       question, question);
    if (o->n_args - 1 > EY_MAX_IMAGES)
        return ey_fail(e, EY_BAD_REQUEST, "%zu pictures; at most %d go in one question", o->n_args - 1, EY_MAX_IMAGES);
    return input_check_text(question, strlen(question), "the question", e) &&
           input_check_pictures(o->args, o->n_args - 1, "ask", e);
}

int cmd_ask(const struct options *o)
{
    ey_err e;
    if (!check_call(o, &e)) return term_complain(&e);
    return ask_about(o, o->n_args - 1, o->args[o->n_args - 1], false);
}
