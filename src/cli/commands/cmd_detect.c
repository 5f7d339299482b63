/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet detect IMAGE WHAT: where things are, as JSON in pixels of the upright original, painted
 * too when --draw asks. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/json_writer.h"
#include "base/limits.h"
#include "cli/terminal/cancel.h"
#include "cli/commands/commands.h"
#include "cli/output/draw_boxes.h"
#include "cli/cli_engine.h"
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

/* ---- the call ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* By trying: rights, full paths and read-only disks are known to the system alone. What was there
 * stays as it is. */
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
    if (same_file(out, image))
        return ey_fail(e, EY_BAD_REQUEST, "--draw would overwrite the image itself, %s", image);
    return check_writable(out, e);
}

static bool detect_check_arguments(const struct options *o, ey_err *e)
{
    static const char example[] = "eyelet detect photo.jpg \"car, person\"";
    if (o->n_args < 2)
        return ey_fail(e, EY_BAD_REQUEST, "detect needs an image and what to look for: %s",
                       example);
    if (o->n_args > 2)
        return ey_fail(e, EY_BAD_REQUEST,
                       "detect takes one image and one list of things, not %zu arguments: %s",
                       o->n_args, example);
    if (!o->args[1][strspn(o->args[1], " ,")])
        return ey_fail(e, EY_BAD_REQUEST, "what to look for is empty: %s", example);
    return input_check_text(o->args[1], strlen(o->args[1]), "what to look for", e) &&
           input_check_images(o->args, 1, "detect", e) &&
           (!o->draw || check_drawing(o->draw, o->args[0], e));
}

/* ---- asking ---- */

/* Of the upright image. A server that is not eyelet's does not tell it. */
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

static bool detect_run(struct detection *d, const struct options *o, ey_err *e)
{
    const char *what = o->args[1];
    if (!input_read(&d->file, o->args[0], EY_MAX_IMAGE_BYTES, e)) return false;
    if (!ey_detect_prompt(&d->prompt, what, e) ||
        !response_format_open_regex(&d->format, ey_detect_pattern(), e) ||
        !cli_engine_load(&d->cli, e))
        return false;
    struct question question = {&d->file, 1, d->prompt, false, true, &d->format};
    if (!cli_engine_ask(&d->cli, &question, &d->answer, e)) return false;
    return ey_boxes_read(&d->boxes, d->answer.text, d->answer.n_text, e) && scale_boxes(d, what, e);
}

/* ---- what is printed ---- */

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

static bool print_boxes(struct detection *d, ey_err *e)
{
    struct buf line = buf_with_max((size_t)16 << 20);
    struct json_writer w = json_write_to(&line, JSON_SPACED);
    json_open_array(&w);
    for (size_t i = 0; i < d->boxes.n; i++)
        write_box(&w, &d->scaled[i]);
    json_close_array(&w);
    bool ok = buf_add_text(&line, "\n") || ey_fail_memory(e, "the boxes as JSON", line.max);
    if (ok) term_write(&d->cli.out, line.data, line.size);
    buf_free(&line);
    return ok;
}

/* Boxes may be missing: worth a word, no failure. */
static void print_missing_boxes(const struct detection *d)
{
    if (d->cli.options->quiet) return;
    if (d->answer.finish_reason == EY_FINISH_LENGTH)
        fprintf(stderr,
                "eyelet: the answer was cut after %d tokens, so boxes may be missing; see "
                "--max-tokens\n",
                d->answer.completion_tokens);
    if (d->boxes.truncated)
        fprintf(stderr, "eyelet: only the first %d boxes are given\n", EY_MAX_BOXES);
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

/* The JSON comes first: an image that cannot be written does not cost the boxes. */
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

int cmd_detect(const struct options *o)
{
    ey_err e;
    struct detection d = {0};
    if (!detect_check_arguments(o, &e)) return term_complain(&e);
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
