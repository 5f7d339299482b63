/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet caption IMAGE...: one load, a sentence for each image; a bad one is reported and the
 * rest go on. */
#include <unistd.h>

#include "cli/output/answer_json.h"
#include "cli/commands/commands.h"
#include "cli/commands/image_batch.h"
#include "cli/terminal/preview.h"
#include "eyelet/tasks.h"

static bool caption_check_arguments(const struct options *o, ey_err *e)
{
    if (!o->n_args)
        return ey_fail(e, EY_BAD_REQUEST, "caption needs an image: eyelet caption photo.jpg");
    return input_check_images(o->args, o->n_args, "caption", e);
}

/* A sentence is one line: line ends inside of it become spaces, blanks round it go. */
static void add_sentence(struct buf *line, const ey_answer *answer)
{
    size_t n = answer->n_text, first = 0;
    while (n && (answer->text[n - 1] == '\n' || answer->text[n - 1] == ' '))
        n--;
    while (first < n && (answer->text[first] == '\n' || answer->text[first] == ' '))
        first++;
    for (size_t i = first; i < n; i++)
        buf_add(line, answer->text[i] == '\n' ? " " : &answer->text[i], 1);
}

enum { PREVIEW_COLUMNS = 44, PREVIEW_LINES = 14 };

static void print_preview(struct cli_engine *s, const struct input *image)
{
    struct buf cells = buf_with_max(MAX_JSON_LINE);
    int available = terminal_columns(STDOUT_FILENO) - 3,
        columns = available < PREVIEW_COLUMNS ? available : PREVIEW_COLUMNS;
    progress_clear(&s->progress);
    if (s->out.terminal && columns > 3)
        preview_add(&cells, image->bytes, image->size, columns, PREVIEW_LINES, preview_colors());
    if (cells.size) term_write_raw(&s->out, cells.data, cells.size);
    buf_free(&cells);
}

static void print_caption(struct cli_engine *s, const struct input *image, const ey_answer *answer)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    bool show = s->options->show;
    if (show) print_preview(s, image);
    if (s->options->n_args > 1 || show) {
        term_add_name(&line, image->name);
        buf_add_text(&line, ": ");
    }
    add_sentence(&line, answer);
    if (show)
        buf_printf(&line, "  (%.2f s)",
                   answer->vision_seconds + answer->prefill_seconds + answer->decode_seconds);
    if (show && s->out.terminal) buf_add_text(&line, "\n");
    batch_print_line(s, &line);
}

static void print_caption_json(struct cli_engine *s, const char *name, const ey_answer *answer,
                               double load_seconds)
{
    struct buf line = buf_with_max(MAX_JSON_LINE);
    struct json_writer w = batch_open_json_line(&line, name);
    json_add_string(&w, "caption", answer->text);
    answer_add_usage_and_timings(&w, answer, load_seconds);
    json_close_object(&w);
    batch_print_line(s, &line);
}

static bool caption_print(struct cli_engine *s, const struct input *image, const ey_answer *answer,
                          double load_seconds, ey_err *e)
{
    (void)e;
    if (s->options->json)
        print_caption_json(s, image->name, answer, load_seconds);
    else
        print_caption(s, image, answer);
    return true;
}

int cmd_caption(const struct options *o)
{
    ey_err e;
    if (!caption_check_arguments(o, &e)) return term_complain(&e);
    const struct image_batch batch = {
        .prompt = ey_caption_prompt(), .json = o->json, .print = caption_print};
    return image_batch_run(o, &batch);
}
