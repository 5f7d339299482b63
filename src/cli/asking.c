/* SPDX-License-Identifier: Apache-2.0 */
/* One question about pictures, as ask, scene and read put it: read them, load, stream the answer or
 * print JSON. */
#include "cli/asking.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/answer_json.h"
#include "cli/cancel.h"
#include "cli/session.h"

struct asking {
    struct session session;
    struct input *pictures;
    size_t n_pictures;
    const char *text;
    bool greedy;
};

/* ---- what is printed ---- */

static bool print_json(struct session *s, const ey_answer *answer)
{
    struct buf out = buf_with_max((size_t)1 << 30);
    buf_add_text(&out, "{\"answer\": ");
    json_add_text(&out, answer->text);
    buf_printf(&out, ", \"finish_reason\": \"%s\", \"seed\": ", answer->finish_reason);
    if (s->sampled)
        buf_printf(&out, "%llu", (unsigned long long)answer->seed);
    else
        buf_add_text(&out, "null"); /* nothing was drawn */
    json_add_costs(&out, answer, session_load_seconds(s));
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

/* A form was asked for, and this is only its beginning. */
static int complain_incomplete(const ey_answer *answer)
{
    fprintf(stderr,
            "eyelet: the answer was cut after %d tokens and is not complete; see --max-tokens\n",
            answer->completion_tokens);
    return 1;
}

static int print_answer(struct session *s, const ey_answer *answer, bool formed)
{
    progress_clear(&s->progress);
    if (s->options->json && !print_json(s, answer)) {
        fprintf(stderr, "eyelet: no memory for the answer as JSON\n");
        return 1;
    }
    if (!s->options->json) finish_text(s, answer);
    bool cut = formed && strcmp(answer->finish_reason, "length") == 0;
    return term_finish(&s->out, cancel_asked() ? EXIT_INTERRUPTED
                                : cut          ? complain_incomplete(answer)
                                               : 0);
}

/* ---- the question ---- */

static bool read_pictures(struct asking *a, char *const *names, ey_err *e)
{
    a->pictures = calloc(a->n_pictures + 1, sizeof(*a->pictures));
    if (!a->pictures)
        return ey_fail_memory(e, "the pictures", (a->n_pictures + 1) * sizeof(*a->pictures));
    for (size_t i = 0; i < a->n_pictures; i++)
        if (!input_read(&a->pictures[i], names[i], EY_MAX_IMAGE_BYTES, e)) return false;
    return true;
}

static void asking_close(struct asking *a)
{
    session_close(&a->session);
    for (size_t i = 0; a->pictures && i < a->n_pictures; i++)
        input_free(&a->pictures[i]);
    free(a->pictures);
}

int ask_about(const struct options *o, size_t n_pictures, const char *text, bool greedy,
              const struct form *form)
{
    ey_err e;
    ey_answer answer = {0};
    struct asking a = {.n_pictures = n_pictures, .text = text, .greedy = greedy};
    int status;
    session_open(&a.session, o);
    if (n_pictures > 1) a.session.max_images = (int)n_pictures;
    bool ok = read_pictures(&a, o->args, &e) && session_load(&a.session, &e);
    struct question question = {a.pictures, n_pictures, text, !o->json, greedy, form};
    if (ok && session_ask(&a.session, &question, &answer, &e)) {
        status = print_answer(&a.session, &answer, form != NULL);
    } else {
        progress_clear(&a.session.progress);
        status = term_complain(&e);
    }
    ey_answer_free(&answer);
    asking_close(&a);
    return status;
}
