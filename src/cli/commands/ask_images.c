/* SPDX-License-Identifier: Apache-2.0 */
/* One question about images, for ask, scene and read: reads the images, loads the model, and
 * streams the answer or prints it as JSON. */
#include "cli/commands/ask_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/output/answer_json.h"
#include "cli/terminal/cancel.h"
#include "cli/cli_engine.h"
#include "cli/input_document.h"

struct image_question {
    struct cli_engine cli;
    struct input_images images;
    const char *text;
    bool greedy;
};

/* ---- output ---- */

static bool ask_print_json(struct cli_engine *s, const ey_answer *answer)
{
    struct buf out = buf_with_max((size_t)1 << 30);
    struct json_writer w = json_write_to(&out, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "answer", answer->text);
    if (answer->n_thought) json_add_string(&w, "thought", answer->thought);
    json_add_string(&w, "finish_reason", ey_finish_text(answer->finish_reason));
    if (s->sampled)
        json_add_uint(&w, "seed", answer->seed);
    else
        json_add_null(&w, "seed"); /* greedy decoding used none */
    answer_add_usage_and_timings(&w, answer, cli_engine_load_seconds(s));
    json_write_key(&w, "logprobs");
    answer_write_logprobs(&w, answer, s->options->logprobs >= 0);
    json_close_object(&w);
    bool ok = buf_add_text(&out, "\n");
    if (ok) term_write(&s->out, out.data, out.size);
    buf_free(&out);
    return ok;
}

/* Ends the last line of the answer, whose text was printed as it arrived. */
static void finish_text(struct cli_engine *s, const ey_answer *answer)
{
    if (!answer->n_text || answer->text[answer->n_text - 1] != '\n') term_write(&s->out, "\n", 1);
    answer_print_logprobs(answer);
}

/* Reports that a constrained answer was cut, because it then does not match its format. */
static int print_incomplete(const ey_answer *answer)
{
    fprintf(stderr,
            "eyelet: the answer was cut after %d tokens and is not complete; see --max-tokens\n",
            answer->completion_tokens);
    return 1;
}

static int print_answer(struct cli_engine *s, const ey_answer *answer, bool constrained)
{
    progress_clear(&s->progress);
    if (s->options->json && !ask_print_json(s, answer)) {
        fprintf(stderr, "eyelet: no memory for the answer as JSON\n");
        return 1;
    }
    if (!s->options->json) finish_text(s, answer);
    bool cut = constrained && answer->finish_reason == EY_FINISH_LENGTH;
    return term_finish(&s->out, cancel_requested() ? EXIT_INTERRUPTED
                                : cut              ? print_incomplete(answer)
                                                   : 0);
}

/* ---- the question ---- */

static bool read_question_images(struct image_question *a, char *const *names, size_t n, ey_err *e)
{
    bool ok = input_check_pages(a->cli.options, e);
    for (size_t i = 0; ok && i < n; i++) {
        struct input_document document;
        ok = input_document_open(&document, names[i], a->cli.options, e) &&
             input_images_add(&a->images, &document, e);
        if (ok) input_note_animation(&document, names[i], a->cli.options);
        input_document_close(&document);
    }
    return ok;
}

/* Prints a note that standard input is not used, and why. */
static void note_unused_input(struct image_question *a, enum sent_input sent)
{
    if (a->cli.options->quiet || (sent != SENT_OTHER && sent != SENT_LATE)) return;
    progress_clear(&a->cli.progress);
    if (sent == SENT_OTHER)
        fprintf(stderr, "eyelet: standard input is not an image and is not used\n");
    else
        fprintf(stderr,
                "eyelet: standard input brought no image within %d s and is not used; \"-\" before "
                "the question waits for one, and </dev/null does not wait\n",
                SENT_SECONDS);
}

/* Reads an image from standard input if the question names none. */
static bool read_sent_image(struct image_question *a, ey_err *e)
{
    enum sent_input sent = SENT_NOTHING;
    struct input file = {0};
    struct input_document document = {0};
    if (a->images.n) return true;
    progress_phase(&a->cli.progress, "waiting for standard input", 0, 0);
    if (!input_read_sent_image(&file, &sent, EY_MAX_IMAGE_BYTES, e)) return false;
    note_unused_input(a, sent);
    bool ok = sent != SENT_IMAGE || (input_document_take(&document, &file, a->cli.options, e) &&
                                     input_images_add(&a->images, &document, e));
    input_document_close(&document);
    return ok;
}

static void image_question_close(struct image_question *a)
{
    cli_engine_close(&a->cli);
    input_images_free(&a->images);
}

int ask_about_images(const struct options *o, size_t n_images, const char *text, bool greedy,
                     const struct cli_response_format *format)
{
    ey_err e;
    ey_answer answer = {0};
    struct image_question a = {.text = text, .greedy = greedy};
    int status;
    cli_engine_init(&a.cli, o);
    bool ok = read_question_images(&a, o->args, n_images, &e);
    if (a.images.n > 1) a.cli.max_images = (int)a.images.n;
    if (!n_images && input_stdin_is_sent())
        a.cli.max_images = EY_MAX_IMAGES; /* standard input may be a document */
    ok = ok && cli_engine_load(&a.cli, &e) &&
         read_sent_image(&a, &e); /* last, so that a pipe has time to fill */
    struct question question = {a.images.images, a.images.n, text, !o->json, greedy, format};
    if (ok && cli_engine_ask(&a.cli, &question, &answer, &e)) {
        status = print_answer(&a.cli, &answer, format != NULL);
    } else {
        progress_clear(&a.cli.progress);
        status = term_complain(&e);
    }
    ey_answer_free(&answer);
    image_question_close(&a);
    return status;
}
