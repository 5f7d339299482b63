/* SPDX-License-Identifier: Apache-2.0 */
/* Images one after the other; lines as they come. */
#include "cli/commands/image_batch.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "cli/terminal/cancel.h"

void batch_print_line(struct cli_engine *s, struct buf *line)
{
    progress_clear(&s->progress);
    if (buf_add_text(line, "\n"))
        term_write(&s->out, line->data, line->size);
    else
        fprintf(stderr, "eyelet: no memory for a line of output\n");
    buf_free(line);
}

struct json_writer batch_open_json_line(struct buf *line, const char *name)
{
    struct json_writer w = json_write_to(line, JSON_SPACED);
    json_open_object(&w);
    json_add_string(&w, "image", name);
    return w;
}

/* ---- an image that failed ---- */

static void print_error_json(struct cli_engine *s, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    struct json_writer w = batch_open_json_line(&line, name);
    json_add_string(&w, "error", e->text);
    json_close_object(&w);
    batch_print_line(s, &line);
}

static void print_error(struct cli_engine *s, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    progress_clear(&s->progress);
    term_add_name(&line, name);
    bool named = line.data &&
                 strncmp(e->text, line.data, line.size) == 0; /* as errors of files are */
    fprintf(stderr, "eyelet: %s%s%s\n", named || line.failed ? "" : line.data, named ? "" : ": ",
            e->text);
    buf_free(&line);
}

/* ---- all of them ---- */

struct tally {
    size_t done, failed;
    bool model_failed; /* no image can be asked about: stop */
};

static bool ask_one(struct cli_engine *s, const struct image_batch *batch, const char *name,
                    struct tally *tally, ey_err *e)
{
    struct input image = {0};
    ey_answer answer = {0};
    bool ok = false, first = s->engine == NULL;
    if (!input_read(&image, name, EY_MAX_IMAGE_BYTES, e)) goto done;
    if (!cli_engine_load(s, e)) {
        tally->model_failed = true;
        goto done;
    }
    if (s->options->n_args > 1)
        progress_count(&s->progress, tally->done + tally->failed, s->options->n_args);
    struct question question = {&image, 1, batch->prompt, false, batch->greedy, batch->format};
    ok = cli_engine_ask(s, &question, &answer, e);
    if (ok && !cancel_requested() && !s->out.closed)
        ok = batch->print(s, &image, &answer, first ? cli_engine_load_seconds(s) : 0, e);
done:
    ey_answer_free(&answer);
    input_free(&image);
    return ok;
}

static int ask_all(struct cli_engine *s, const struct image_batch *batch)
{
    const struct options *o = s->options;
    struct tally tally = {0};
    ey_err e;
    for (size_t i = 0; i < o->n_args && !cancel_requested() && !s->out.closed; i++) {
        bool ok = ask_one(s, batch, o->args[i], &tally, &e);
        if (tally.model_failed) return term_complain(&e);
        if (!ok && batch->json)
            print_error_json(s, o->args[i], &e);
        else if (!ok)
            print_error(s, o->args[i], &e);
        tally.done += ok;
        tally.failed += !ok;
    }
    progress_clear(&s->progress);
    if (tally.failed && o->n_args > 1 && !o->quiet)
        fprintf(stderr, "eyelet: %zu of %zu images failed\n", tally.failed,
                tally.done + tally.failed);
    return term_finish(&s->out, cancel_requested() ? EXIT_INTERRUPTED : tally.failed ? 1 : 0);
}

int image_batch_run(const struct options *o, const struct image_batch *batch)
{
    struct cli_engine cli;
    cli_engine_init(&cli, o);
    int status = ask_all(&cli, batch);
    cli_engine_close(&cli);
    return status;
}
