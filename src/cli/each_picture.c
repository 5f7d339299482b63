/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures one after the other; lines as they come. */
#include "cli/each_picture.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "cli/answer_json.h"
#include "cli/cancel.h"

void print_line(struct session *s, struct buf *line)
{
    progress_clear(&s->progress);
    if (buf_add_text(line, "\n"))
        term_write(&s->out, line->data, line->size);
    else
        fprintf(stderr, "eyelet: no memory for a line of output\n");
    buf_free(line);
}

void begin_json_line(struct buf *line, const char *name, const char *key)
{
    buf_add_text(line, "{\"image\": ");
    json_add_text(line, name);
    buf_printf(line, ", \"%s\": ", key);
}

/* ---- a picture that failed ---- */

static void print_error_json(struct session *s, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
    begin_json_line(&line, name, "error");
    json_add_text(&line, e->text);
    buf_add_text(&line, "}");
    print_line(s, &line);
}

static void print_error(struct session *s, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
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
    bool model_failed; /* no picture can be asked about: stop */
};

static bool ask_one(struct session *s, const struct each *each, const char *name,
                    struct tally *tally, ey_err *e)
{
    struct input picture = {0};
    ey_answer answer = {0};
    bool ok = false, first = s->engine == NULL;
    if (!input_read(&picture, name, EY_MAX_IMAGE_BYTES, e)) goto done;
    if (!session_load(s, e)) {
        tally->model_failed = true;
        goto done;
    }
    if (s->options->n_args > 1)
        progress_count(&s->progress, tally->done + tally->failed, s->options->n_args);
    struct question question = {&picture, 1, each->prompt, false, each->greedy, each->form};
    ok = session_ask(s, &question, &answer, e);
    if (ok && !cancel_asked() && !s->out.closed)
        ok = each->print(s, &picture, &answer, first ? session_load_seconds(s) : 0, e);
done:
    ey_answer_free(&answer);
    input_free(&picture);
    return ok;
}

static int ask_all(struct session *s, const struct each *each)
{
    const struct options *o = s->options;
    struct tally tally = {0};
    ey_err e;
    for (size_t i = 0; i < o->n_args && !cancel_asked() && !s->out.closed; i++) {
        bool ok = ask_one(s, each, o->args[i], &tally, &e);
        if (tally.model_failed) return term_complain(&e);
        if (!ok && each->json)
            print_error_json(s, o->args[i], &e);
        else if (!ok)
            print_error(s, o->args[i], &e);
        tally.done += ok;
        tally.failed += !ok;
    }
    progress_clear(&s->progress);
    if (tally.failed && o->n_args > 1 && !o->quiet)
        fprintf(stderr, "eyelet: %zu of %zu pictures failed\n", tally.failed,
                tally.done + tally.failed);
    return term_finish(&s->out, cancel_asked() ? EXIT_INTERRUPTED : tally.failed ? 1 : 0);
}

int each_picture(const struct options *o, const struct each *each)
{
    struct session session;
    session_open(&session, o);
    int status = ask_all(&session, each);
    session_close(&session);
    return status;
}
