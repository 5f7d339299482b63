/* eyelet caption IMAGE...: one load, a sentence for each picture; a bad one is reported and the rest go on. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/answer_json.h"
#include "cli/cancel.h"
#include "cli/command.h"
#include "cli/preview.h"
#include "cli/session.h"

static const char prompt[] = "Describe this image.";

enum { MAX_LINE = 64 << 20 };

static bool check_call(const struct options *o, ey_err *e)
{
    if (!o->n_args) return ey_fail(e, EY_BAD_REQUEST, "caption needs a picture: eyelet caption photo.jpg");
    return input_check_pictures(o->args, o->n_args, "caption", e);
}

static void print_line(struct session *s, struct buf *line)
{
    progress_clear(&s->progress);
    if (buf_add_text(line, "\n")) term_write(&s->out, line->data, line->size);
    else fprintf(stderr, "eyelet: no memory for a line of output\n");
    buf_free(line);
}

/* ---- a caption ---- */

/* A sentence is one line: line ends inside of it become spaces, blanks round it go. */
static void add_sentence(struct buf *line, const ey_answer *answer)
{
    size_t n = answer->n_text, first = 0;
    while (n && (answer->text[n - 1] == '\n' || answer->text[n - 1] == ' ')) n--;
    while (first < n && (answer->text[first] == '\n' || answer->text[first] == ' ')) first++;
    for (size_t i = first; i < n; i++) buf_add(line, answer->text[i] == '\n' ? " " : &answer->text[i], 1);
}

enum { PREVIEW_COLUMNS = 44, PREVIEW_LINES = 14 };

static void print_preview(struct session *s, const struct input *picture)
{
    struct buf cells = buf_with_max(MAX_LINE);
    int room = terminal_columns(STDOUT_FILENO) - 3, columns = room < PREVIEW_COLUMNS ? room : PREVIEW_COLUMNS;
    progress_clear(&s->progress);
    if (s->out.terminal && columns > 3)
        preview_add(&cells, picture->bytes, picture->size, columns, PREVIEW_LINES, preview_colours());
    if (cells.size) term_write_raw(&s->out, cells.data, cells.size);
    buf_free(&cells);
}

static void print_caption(struct session *s, const struct input *picture, const ey_answer *answer)
{
    struct buf line = buf_with_max(MAX_LINE);
    bool show = s->options->show;
    if (show) print_preview(s, picture);
    if (s->options->n_args > 1 || show) {
        term_add_name(&line, picture->name);
        buf_add_text(&line, ": ");
    }
    add_sentence(&line, answer);
    if (show) buf_printf(&line, "  (%.2f s)", answer->vision_seconds + answer->prefill_seconds + answer->decode_seconds);
    if (show && s->out.terminal) buf_add_text(&line, "\n");
    print_line(s, &line);
}

/* load_s is told with the first picture only, so that the times of all lines add up. */
static void print_caption_json(struct session *s, const char *name, const ey_answer *answer, double load_seconds)
{
    struct buf line = buf_with_max(MAX_LINE);
    buf_add_text(&line, "{\"image\": ");
    json_add_text(&line, name);
    buf_add_text(&line, ", \"caption\": ");
    json_add_text(&line, answer->text);
    buf_add_text(&line, ", \"usage\": ");
    json_add_usage(&line, answer);
    buf_add_text(&line, ", \"timings\": ");
    json_add_timings(&line, answer, load_seconds);
    buf_add_text(&line, "}");
    print_line(s, &line);
}

/* ---- a picture that failed ---- */

static void print_error(struct session *s, const char *name, const ey_err *e)
{
    struct buf line = buf_with_max(MAX_LINE);
    progress_clear(&s->progress);
    if (!s->options->json) {
        term_add_name(&line, name);
        bool named = line.data && strncmp(e->text, line.data, line.size) == 0; /* as errors of files are */
        fprintf(stderr, "eyelet: %s%s%s\n", named || line.failed ? "" : line.data, named ? "" : ": ", e->text);
        buf_free(&line);
        return;
    }
    buf_add_text(&line, "{\"image\": ");
    json_add_text(&line, name);
    buf_add_text(&line, ", \"error\": ");
    json_add_text(&line, e->text);
    buf_add_text(&line, "}");
    print_line(s, &line);
}

/* ---- the command ---- */

struct tally {
    size_t done, failed;
    bool model_failed; /* no picture can be captioned: stop */
};

static bool caption_one(struct session *s, const char *name, struct tally *tally, ey_err *e)
{
    struct input picture = {0};
    ey_answer answer = {0};
    bool ok = false, first = s->engine == NULL;
    if (!input_read(&picture, name, EY_MAX_IMAGE_BYTES, e)) goto done;
    if (!session_load(s, e)) {
        tally->model_failed = true;
        goto done;
    }
    if (s->options->n_args > 1) progress_count(&s->progress, tally->done + tally->failed, s->options->n_args);
    struct question question = {&picture, 1, prompt, false, false};
    if (!session_ask(s, &question, &answer, e)) goto done;
    ok = true;
    if (cancel_asked()) goto done;
    if (s->options->json) print_caption_json(s, name, &answer, first ? session_load_seconds(s) : 0);
    else print_caption(s, &picture, &answer);
done:
    ey_answer_free(&answer);
    input_free(&picture);
    return ok;
}

static int caption_all(struct session *s)
{
    const struct options *o = s->options;
    struct tally tally = {0};
    ey_err e;
    for (size_t i = 0; i < o->n_args && !cancel_asked() && !s->out.closed; i++) {
        bool ok = caption_one(s, o->args[i], &tally, &e);
        if (tally.model_failed) return term_complain(&e);
        if (!ok) print_error(s, o->args[i], &e);
        tally.done += ok, tally.failed += !ok;
    }
    progress_clear(&s->progress);
    if (tally.failed && o->n_args > 1 && !o->quiet)
        fprintf(stderr, "eyelet: %zu of %zu pictures failed\n", tally.failed, tally.done + tally.failed);
    return term_finish(&s->out, cancel_asked() ? EXIT_INTERRUPTED : tally.failed ? 1 : 0);
}

int cmd_caption(const struct options *o)
{
    ey_err e;
    struct session session;
    if (!check_call(o, &e)) return term_complain(&e);
    session_open(&session, o);
    int status = caption_all(&session);
    session_close(&session);
    return status;
}
