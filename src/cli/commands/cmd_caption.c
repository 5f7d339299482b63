/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet caption IMAGE... prints a sentence for each image. It reports a bad image and continues
 * with the others. */
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/terminal/preview.h"
#include "eyelet/tasks.h"

static bool caption_check_arguments(const struct options *o, ey_err *e)
{
    if (!o->n_args && !input_stdin_is_sent())
        return ey_fail(e, EY_BAD_REQUEST, "caption needs an image: eyelet caption photo.jpg");
    return true;
}

/* Appends the sentence as one line: replaces line ends with spaces and trims blanks. */
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

enum { PREVIEW_COLUMNS = 44, PREVIEW_LINES = 14, MAX_CAPTION_LINE = 64 << 20 };

static void print_preview(struct term *out, const struct input *image)
{
    struct buf cells = buf_with_max(MAX_CAPTION_LINE);
    int available = terminal_columns(STDOUT_FILENO) - 3,
        columns = available < PREVIEW_COLUMNS ? available : PREVIEW_COLUMNS;
    if (out->terminal && columns > 3)
        preview_add(&cells, image->bytes, image->size, columns, PREVIEW_LINES, preview_colors());
    if (cells.size) term_write_raw(out, cells.data, cells.size);
    buf_free(&cells);
}

static void print_caption(struct term *out, const struct batch_answer *a)
{
    const ey_answer *answer = a->answer;
    struct buf line = buf_with_max(MAX_CAPTION_LINE);
    bool show = a->cli->options->show;
    if (show) print_preview(out, a->image);
    if (a->many || show) {
        term_add_name(&line, a->image->name);
        buf_add_text(&line, ": ");
    }
    add_sentence(&line, answer);
    if (show)
        buf_printf(&line, "  (%.2f s)",
                   answer->vision_seconds + answer->prefill_seconds + answer->decode_seconds);
    buf_add_text(&line, show && out->terminal ? "\n\n" : "\n");
    term_write(out, line.data, line.failed ? 0 : line.size);
    buf_free(&line);
}

int cmd_caption(const struct options *o)
{
    ey_err e;
    if (!caption_check_arguments(o, &e)) return term_complain(&e);
    const struct image_batch batch = {.command = "caption",
                                      .prompt = ey_caption_prompt(),
                                      .field = "caption",
                                      .sidecar = "txt",
                                      .print_text = print_caption};
    return o->n_args ? image_batch_run(o, o->args, o->n_args, &batch)
                     : image_batch_run(o, input_from_stdin, 1, &batch);
}
