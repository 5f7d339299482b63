/* eyelet ask [IMAGE...] QUESTION: an answer, streamed, or one JSON object. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/answer_json.h"
#include "cli/cancel.h"
#include "cli/command.h"
#include "cli/session.h"

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

static bool read_pictures(struct input *pictures, const struct options *o, ey_err *e)
{
    for (size_t i = 0; i + 1 < o->n_args; i++)
        if (!input_read(&pictures[i], o->args[i], EY_MAX_IMAGE_BYTES, e)) return false;
    return true;
}

/* ---- what is printed ---- */

static bool print_json(struct session *s, const ey_answer *answer)
{
    struct buf out = buf_with_max((size_t)1 << 30);
    buf_add_text(&out, "{\"answer\": ");
    json_add_text(&out, answer->text);
    buf_printf(&out, ", \"finish_reason\": \"%s\", \"seed\": null, \"usage\": ", answer->finish_reason);
    json_add_usage(&out, answer);
    buf_add_text(&out, ", \"timings\": ");
    json_add_timings(&out, answer, ey_engine_describe(s->engine).load_seconds);
    buf_add_text(&out, ", \"logprobs\": ");
    json_add_logprobs(&out, answer, s->options->logprobs >= 0);
    bool ok = buf_add_text(&out, "}\n");
    if (ok) term_write(&s->out, out.data, out.size);
    buf_free(&out);
    return ok;
}

/* To standard error: the answer itself stays alone on standard output. */
static void print_logprobs(const ey_answer *answer)
{
    for (size_t i = 0; i < answer->n_logprobs; i++) {
        const ey_token_logprobs *at = &answer->logprobs[i];
        struct buf line = buf_with_max((size_t)1 << 20);
        buf_printf(&line, "%.6f\t", (double)at->chosen.logprob);
        json_add_text(&line, at->chosen.token);
        for (size_t k = 0; k < at->n_top; k++) {
            buf_printf(&line, "\t%.6f ", (double)at->top[k].logprob);
            json_add_text(&line, at->top[k].token);
        }
        if (!line.failed) fprintf(stderr, "%s\n", line.data);
        buf_free(&line);
    }
}

/* The text was streamed; what is missing is the end of its last line. */
static void finish_text(struct session *s, const ey_answer *answer)
{
    if (!answer->n_text || answer->text[answer->n_text - 1] != '\n') term_write(&s->out, "\n", 1);
    print_logprobs(answer);
}

static int print_answer(struct session *s, const ey_answer *answer)
{
    progress_clear(&s->progress);
    if (s->options->json && !print_json(s, answer)) {
        fprintf(stderr, "eyelet: no memory for the answer as JSON\n");
        return 1;
    }
    if (!s->options->json) finish_text(s, answer);
    return term_finish(&s->out, cancel_asked() ? EXIT_INTERRUPTED : 0);
}

/* ---- the command ---- */

static bool answer_question(struct session *s, struct input *pictures, ey_answer *answer, ey_err *e)
{
    const struct options *o = s->options;
    struct question question = {pictures, o->n_args - 1, o->args[o->n_args - 1], !o->json};
    if (!read_pictures(pictures, o, e) || !session_load(s, e) || !session_ask(s, &question, answer, e)) return false;
    return true;
}

int cmd_ask(const struct options *o)
{
    ey_err e;
    struct session session;
    ey_answer answer = {0};
    int status;
    if (!check_call(o, &e)) return term_complain(&e);
    struct input *pictures = calloc(o->n_args, sizeof(*pictures));
    session_open(&session, o);
    if (!pictures) {
        ey_fail_memory(&e, "the pictures", o->n_args * sizeof(*pictures));
        status = term_complain(&e);
    } else if (answer_question(&session, pictures, &answer, &e)) {
        status = print_answer(&session, &answer);
    } else {
        progress_clear(&session.progress);
        status = term_complain(&e);
    }
    ey_answer_free(&answer);
    session_close(&session);
    for (size_t i = 0; pictures && i < o->n_args; i++) input_free(&pictures[i]);
    free(pictures);
    return status;
}
