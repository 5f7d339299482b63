/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet detect IMAGE WHAT prints a box around each object, as JSON or, on a terminal, as a table.
 * Coordinates are pixels of the upright original. --draw also draws the boxes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8.h"
#include "base/text/json_writer.h"
#include "base/limits.h"
#include "cli/terminal/cancel.h"
#include "cli/commands/commands.h"
#include "cli/batch/image_batch.h"
#include "cli/batch/batch_output.h"
#include "cli/output/draw_boxes.h"
#include "cli/cli_engine.h"
#include "cli/input_document.h"
#include "eyelet/tasks.h"

struct detection {
    struct cli_engine cli;
    struct input file;
    char *prompt;
    struct cli_response_format format;
    ey_answer answer;
    ey_box_list boxes;
    struct drawn_box *scaled; /* [boxes.n], in pixels */
};

/* ---- arguments ---- */

/* Fails if the file cannot be written. Tries to open it, because only the system knows about
 * permissions and read-only disks. Does not change an existing file. */
static bool check_writable(const char *path, ey_err *e)
{
    bool there = access(path, F_OK) == 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | (there ? 0 : O_CREAT | O_EXCL), 0666);
    if (fd < 0) return ey_fail(e, EY_IO, "--draw cannot write %s: %s", path, strerror(errno));
    close(fd);
    if (!there) unlink(path);
    return true;
}

static bool check_drawing(const char *out, const char *image, ey_err *e)
{
    size_t n = strlen(out);
    if (n < 4 || strcasecmp(out + n - 4, ".png") != 0)
        return ey_fail(e, EY_BAD_REQUEST, "--draw writes a PNG file; %s does not end in .png", out);
    if (path_is_same(out, image))
        return ey_fail(e, EY_BAD_REQUEST, "--draw would overwrite the image itself, %s", image);
    return check_writable(out, e);
}

static bool detect_check_arguments(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet detect photo.jpg \"car, person\"";
    if (o->n_args < 2)
        return ey_fail(e, EY_BAD_REQUEST, "detect needs an image and what to look for: %s",
                       example);
    const char *what = o->args[o->n_args - 1];
    if (!what[strspn(what, " ,")])
        return ey_fail(e, EY_BAD_REQUEST,
                       "the last argument, which names what to look for, is empty: %s", example);
    if (path_is_file(what) || path_is_directory(what))
        return ey_fail(e, EY_BAD_REQUEST,
                       "the last argument must say what to look for, but %s is a file; try: %s",
                       what, example);
    if (!input_check_quotes(o->args, o->n_args, "detect", e)) return false;
    if (o->draw && batch_wanted(o, o->args, o->n_args - 1))
        return ey_fail(e, EY_BAD_REQUEST, "--draw takes one image");
    return input_check_text(what, strlen(what), "what to look for", e) &&
           (!o->draw || check_drawing(o->draw, o->args[0], e));
}

/* ---- asking ---- */

/* Writes the size of the upright image. If the answer does not report the size, as with servers
 * other than eyelet, decodes the image. */
static bool image_size(const struct detection *d, int *width, int *height, ey_err *e)
{
    struct image image = {0};
    bool reported = d->answer.n_images == 1;
    if (!reported && !image_decode(&image, d->file.bytes, d->file.size, d->file.name, e))
        return false;
    *width = reported ? d->answer.images[0].width : image.width;
    *height = reported ? d->answer.images[0].height : image.height;
    image_free(&image);
    return true;
}

static bool scale_boxes(struct detection *d, const char *what, ey_err *e)
{
    size_t n = d->boxes.n;
    int width, height;
    if (!image_size(d, &width, &height, e)) return false;
    d->scaled = calloc(n + 1, sizeof(*d->scaled));
    if (!d->scaled) return ey_fail_memory(e, "boxes", (n + 1) * sizeof(*d->scaled));
    for (size_t i = 0; i < n; i++) {
        const ey_box *b = &d->boxes.boxes[i];
        int pixels[4];
        ey_box_to_pixels(b, width, height, pixels);
        d->scaled[i] = (struct drawn_box){
            pixels[0], pixels[1], pixels[2], pixels[3], b->label[0] ? b->label : what, 0};
    }
    return true;
}

/* Fails for several pages. Called after reading, because the number of pages of standard input or a
 * URL is not known before. */
static bool check_one_page(const struct input_document *document, const char *name, ey_err *e)
{
    return document->n == 1 ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%s has %zu pages; choose one with --pages, or name a local file to get the "
                   "boxes of each page",
                   name, document->n);
}

static bool detect_run(struct detection *d, const struct options *o, ey_err *e)
{
    const char *what = o->args[1];
    struct input_document document;
    if (!input_check_pages(o, e)) return false;
    bool read = input_document_open(&document, o->args[0], o, e) &&
                check_one_page(&document, o->args[0], e) &&
                input_document_page(&document, 0, &d->file, e);
    input_note_animation(&document, o->args[0], o);
    input_document_close(&document);
    if (!read) return false;
    if (!ey_detect_prompt(&d->prompt, what, e) ||
        !response_format_open_regex(&d->format, ey_detect_pattern(), e) ||
        !cli_engine_load(&d->cli, e))
        return false;
    struct question question = {&d->file, 1, d->prompt, false, true, &d->format};
    if (!cli_engine_ask(&d->cli, &question, &d->answer, e)) return false;
    return ey_boxes_read(&d->boxes, d->answer.text, d->answer.n_text, e) && scale_boxes(d, what, e);
}

/* ---- output ---- */

static void write_box(struct json_writer *w, const struct drawn_box *b)
{
    const int corners[4] = {b->x1, b->y1, b->x2, b->y2};
    json_open_object(w);
    json_add_string(w, "label", b->label);
    json_write_key(w, "box");
    json_open_array(w);
    for (int i = 0; i < 4; i++)
        json_write_int(w, corners[i]);
    json_close_array(w);
    json_close_object(w);
}

static void write_boxes(struct json_writer *w, const struct detection *d)
{
    json_open_array(w);
    for (size_t i = 0; i < d->boxes.n; i++)
        write_box(w, &d->scaled[i]);
    json_close_array(w);
}

/* Returns how many bytes of the label the table shows. No character is cut. */
static int shown_label_bytes(const char *label)
{
    enum { MOST_LABEL_BYTES = 40 };
    return (int)utf8_prefix(label, strlen(label), MOST_LABEL_BYTES);
}

/* Prints a row for each box. */
static void print_box_table(struct detection *d)
{
    struct buf table = buf_with_max((size_t)16 << 20);
    int widest = 5;
    for (size_t i = 0; i < d->boxes.n; i++) {
        int n = shown_label_bytes(d->scaled[i].label);
        widest = n > widest ? n : widest;
    }
    if (!d->boxes.n) buf_add_text(&table, "nothing was found\n");
    for (size_t i = 0; i < d->boxes.n; i++) {
        const struct drawn_box *b = &d->scaled[i];
        if (!i) buf_printf(&table, "%-*s     x1    y1    x2    y2\n", widest, "label");
        buf_printf(&table, "%-*.*s  %5d %5d %5d %5d\n", widest, shown_label_bytes(b->label),
                   b->label, b->x1, b->y1, b->x2, b->y2);
    }
    if (!table.failed) term_write(&d->cli.out, table.data, table.size);
    buf_free(&table);
}

static bool print_boxes(struct detection *d, ey_err *e)
{
    if (d->cli.out.terminal && !d->cli.options->json) {
        print_box_table(d);
        return true;
    }
    struct buf line = buf_with_max((size_t)16 << 20);
    struct json_writer w = json_write_to(&line, JSON_SPACED);
    write_boxes(&w, d);
    bool ok = buf_add_text(&line, "\n") || ey_fail_memory(e, "the boxes as JSON", line.max);
    if (ok) term_write(&d->cli.out, line.data, line.size);
    buf_free(&line);
    return ok;
}

/* Notes that boxes may be missing, which is not an error. */
static void print_missing_boxes(const struct detection *d)
{
    if (d->cli.options->quiet) return;
    if (d->answer.finish_reason == EY_FINISH_LENGTH)
        fprintf(stderr,
                "eyelet: the answer was cut after %d tokens, so boxes may be missing; see "
                "--max-tokens\n",
                d->answer.completion_tokens);
    if (d->boxes.truncated)
        fprintf(stderr, "eyelet: only the first %d boxes are printed\n", EY_MAX_BOXES);
}

static bool detect_draw(struct detection *d, const char *path, ey_err *e)
{
    struct image image = {0};
    bool ok = image_decode(&image, d->file.bytes, d->file.size, d->file.name, e);
    if (ok) draw_boxes(&image, d->scaled, d->boxes.n);
    ok = ok && image_write_png(&image, path, e);
    image_free(&image);
    return ok;
}

/* Prints the boxes first, so that they are not lost if the image cannot be written. */
static bool detect_print(struct detection *d, const struct options *o, ey_err *e)
{
    progress_clear(&d->cli.progress);
    print_missing_boxes(d);
    if (!print_boxes(d, e)) return false;
    if (!ey_boxes_check(&d->boxes, d->answer.text, d->answer.n_text, e)) return false;
    return !o->draw || detect_draw(d, o->draw, e);
}

/* ---- the command ---- */

static void detection_close(struct detection *d)
{
    cli_engine_close(&d->cli);
    ey_answer_free(&d->answer);
    ey_boxes_free(&d->boxes);
    input_free(&d->file);
    response_format_close(&d->format);
    free(d->scaled);
    ey_free(d->prompt);
}

/* ---- many images ---- */

/* Reads the boxes of one answer of a batch. *d borrows image and answer; the caller frees it with
 * found_close. */
static bool found_open(struct detection *d, const struct batch_answer *a, ey_err *e)
{
    const struct options *o = a->cli->options;
    *d = (struct detection){.file = *a->image, .answer = *a->answer};
    return ey_boxes_read(&d->boxes, a->answer->text, a->answer->n_text, e) &&
           ey_boxes_check(&d->boxes, a->answer->text, a->answer->n_text, e) &&
           scale_boxes(d, o->args[o->n_args - 1], e);
}

static void found_close(struct detection *d)
{
    ey_boxes_free(&d->boxes);
    free(d->scaled);
}

static bool detect_add_json(struct json_writer *w, const struct batch_answer *a, ey_err *e)
{
    struct detection d;
    bool ok = found_open(&d, a, e);
    if (ok) {
        json_write_key(w, "boxes");
        write_boxes(w, &d);
    }
    found_close(&d);
    return ok;
}

static bool detect_add_sidecar(struct buf *text, const struct batch_answer *a, ey_err *e)
{
    struct detection d;
    struct json_writer w = json_write_to(text, JSON_SPACED);
    bool ok = found_open(&d, a, e);
    if (ok) write_boxes(&w, &d);
    found_close(&d);
    return ok;
}

/* Adds a row for each box, or a row without a label if there are none. */
static bool detect_add_csv(struct buf *line, const struct batch_answer *a, ey_err *e)
{
    struct detection d;
    bool ok = found_open(&d, a, e);
    for (size_t i = 0; ok && i < d.boxes.n; i++) {
        const struct drawn_box *b = &d.scaled[i];
        batch_add_cell(line, a->image->name, strlen(a->image->name));
        buf_add_text(line, ",");
        batch_add_cell(line, b->label, strlen(b->label));
        buf_printf(line, ",%d,%d,%d,%d\n", b->x1, b->y1, b->x2, b->y2);
    }
    if (ok && !d.boxes.n) {
        batch_add_cell(line, a->image->name, strlen(a->image->name));
        buf_add_text(line, ",,,,,\n");
    }
    found_close(&d);
    return ok;
}

static int detect_many(const struct options *o)
{
    ey_err e;
    char *prompt = NULL;
    struct cli_response_format format = {0};
    bool ok = ey_detect_prompt(&prompt, o->args[o->n_args - 1], &e) &&
              response_format_open_regex(&format, ey_detect_pattern(), &e);
    const struct image_batch batch = {.command = "detect",
                                      .prompt = prompt,
                                      .format = &format,
                                      .greedy = true,
                                      .field = "boxes",
                                      .sidecar = "json",
                                      .lines_only = true,
                                      .pages = PAGES_EACH,
                                      .add_json = detect_add_json,
                                      .add_sidecar = detect_add_sidecar,
                                      .csv_columns = "label,x1,y1,x2,y2",
                                      .add_csv = detect_add_csv};
    int status = ok ? image_batch_run(o, o->args, o->n_args - 1, &batch) : term_complain(&e);
    response_format_close(&format);
    ey_free(prompt);
    return status;
}

int cmd_detect(const struct options *o)
{
    ey_err e;
    struct detection d = {0};
    if (!detect_check_arguments(o, &e)) return term_complain(&e);
    if (batch_wanted(o, o->args, o->n_args - 1)) return detect_many(o);
    cli_engine_init(&d.cli, o);
    bool ok = detect_run(&d, o, &e);
    if (ok && !cancel_requested()) ok = detect_print(&d, o, &e);
    progress_clear(&d.cli.progress);
    int status = term_finish(&d.cli.out, !ok                  ? term_complain(&e)
                                         : cancel_requested() ? EXIT_INTERRUPTED
                                                              : 0);
    detection_close(&d);
    return status;
}
