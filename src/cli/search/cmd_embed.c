/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet embed prints a line of JSON with a vector for each text and image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text/json_writer.h"
#include "cli/commands/commands.h"
#include "cli/options/image_list.h"
#include "cli/search/embedder.h"
#include "cli/terminal/cancel.h"

enum { MAX_LINE = 64 << 20, MAX_INPUTS = 10000000 };

struct embed_run {
    struct cli_engine cli;
    struct embedder embedder;
    struct term *out; /* standard output, or `file` */
    struct term file;
    struct embed_input *inputs; /* [n] */
    size_t n, capacity, failed;
    struct image_list images; /* owns the image names in `inputs` */
    struct input lines;       /* owns the texts of plain lines in `inputs` */
    struct arena memory;      /* owns the texts of JSON lines in `inputs` */
};

/* ---- inputs ---- */

static bool add_embed_input(struct embed_run *r, struct embed_input input, ey_err *e)
{
    if (r->n == MAX_INPUTS)
        return ey_fail(e, EY_BAD_REQUEST, "embed takes at most %d inputs", MAX_INPUTS);
    if (r->n == r->capacity) {
        size_t more = r->capacity ? 2 * r->capacity : 64;
        struct embed_input *grown = realloc(r->inputs, more * sizeof(*grown));
        if (!grown) return ey_fail_memory(e, "the inputs", more * sizeof(*grown));
        r->inputs = grown;
        r->capacity = more;
    }
    r->inputs[r->n++] = input;
    return true;
}

static bool is_image_address(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

/* A URL, or an argument that names a file or a folder, stands for images; any other is a text. */
static bool is_image_argument(const char *arg)
{
    return is_image_address(arg) || path_is_file(arg) || path_is_directory(arg);
}

static bool add_images(struct embed_run *r, char *const *args, size_t n, ey_err *e)
{
    if (!n) return true;
    if (!image_list_open(&r->images, args, n, r->cli.options->recursive, "embed", e)) return false;
    for (size_t i = 0; i < r->images.n; i++)
        if (!add_embed_input(r, (struct embed_input){.image = r->images.names[i]}, e)) return false;
    return true;
}

static bool add_texts(struct embed_run *r, char *const *args, size_t n, ey_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!input_check_text(args[i], strlen(args[i]), "the text", e) ||
            !add_embed_input(r, (struct embed_input){.text = args[i], .n_text = strlen(args[i])},
                             e))
            return false;
    }
    return true;
}

/* Adds the images first, because image_list_open takes all of them in one call. */
static bool add_arguments(struct embed_run *r, ey_err *e)
{
    const struct options *o = r->cli.options;
    char **sorted = calloc(o->n_args + 1, sizeof(*sorted));
    size_t n_images = 0, n_texts = 0;
    if (!sorted) return ey_fail_memory(e, "the arguments", o->n_args * sizeof(*sorted));
    for (size_t i = 0; i < o->n_args; i++)
        if (is_image_argument(o->args[i])) sorted[n_images++] = o->args[i];
    for (size_t i = 0; i < o->n_args; i++)
        if (!is_image_argument(o->args[i])) sorted[n_images + n_texts++] = o->args[i];
    bool ok = add_images(r, sorted, n_images, e) && add_texts(r, sorted + n_images, n_texts, e);
    free(sorted);
    return ok;
}

/* ---- lines ---- */

static const char *keep_text(struct embed_run *r, json_object *value, size_t *n)
{
    if (!json_object_is_type(value, json_type_string)) return NULL;
    *n = (size_t)json_object_get_string_len(value);
    return arena_copy_text(&r->memory, json_object_get_string(value), *n);
}

static bool is_text_or_nothing(json_object *value)
{
    return !value || json_object_is_type(value, json_type_string);
}

/* Adds a line: an object {"text", "image", "instruction"}, or a JSON string. */
static bool add_json_line(struct embed_run *r, json_object *json, size_t number, ey_err *e)
{
    struct embed_input input = {0};
    size_t n;
    json_object *text = json_member(json, "text"), *image = json_member(json, "image"),
                *instruction = json_member(json, "instruction");
    if (json_object_is_type(json, json_type_string))
        text = json;
    else if (!json_object_is_type(json, json_type_object) || !is_text_or_nothing(text) ||
             !is_text_or_nothing(image) || !is_text_or_nothing(instruction) || !(text || image))
        return ey_fail(e, EY_BAD_REQUEST,
                       "line %zu: an object must be {\"text\": …, \"image\": FILE, "
                       "\"instruction\": …} with a text, an image or both",
                       number);
    if (text) input.text = keep_text(r, text, &input.n_text);
    if (image) input.image = keep_text(r, image, &n);
    if (instruction) input.instruction = keep_text(r, instruction, &n);
    if ((text && !input.text) || (image && !input.image) || (instruction && !input.instruction))
        return ey_fail_memory(e, "the inputs", r->memory.used);
    return add_embed_input(r, input, e);
}

static bool add_line(struct embed_run *r, const char *line, size_t n, size_t number, ey_err *e)
{
    char what[40];
    if (n && line[n - 1] == '\r') n--;
    if (!n) return true;
    if (line[0] != '{' && line[0] != '"')
        return add_embed_input(r, (struct embed_input){.text = line, .n_text = n}, e);
    snprintf(what, sizeof(what), "line %zu", number);
    json_object *json = json_parse(line, n, what, EY_BAD_REQUEST, e);
    bool ok = json && add_json_line(r, json, number, e);
    json_object_put(json);
    return ok;
}

static bool add_embed_lines(struct embed_run *r, const char *name, ey_err *e)
{
    if (!input_read(&r->lines, name, EY_MAX_TEXT_BYTES, e) ||
        !input_check_text(r->lines.bytes ? r->lines.bytes : "", r->lines.size, name, e))
        return false;
    const char *at = r->lines.bytes, *end = at + r->lines.size;
    for (size_t number = 1; at && at < end; number++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = next ? next : end;
        if (!add_line(r, at, (size_t)(line_end - at), number, e)) return false;
        at = line_end + 1;
    }
    return true;
}

static bool read_embed_inputs(struct embed_run *r, ey_err *e)
{
    const struct options *o = r->cli.options;
    const char *lines = o->lines ? o->lines : !o->n_args && input_stdin_is_sent() ? "-" : NULL;
    if (!add_arguments(r, e) || (lines && !add_embed_lines(r, lines, e))) return false;
    return r->n || ey_fail(e, EY_BAD_REQUEST,
                           "embed needs a text or an image, as in: eyelet embed \"a red bicycle\" "
                           "photo.jpg; or send it one text per line on standard input");
}

/* ---- output ---- */

static struct json_writer open_line(struct buf *line, const struct embed_input *input)
{
    struct json_writer w = json_write_to(line, JSON_SPACED);
    json_open_object(&w);
    if (input->image) json_add_string(&w, "image", input->image);
    if (input->text) {
        json_write_key(&w, "text");
        json_write_text(&w, input->text, input->n_text);
    }
    return w;
}

static void add_vector(struct json_writer *w, const struct batch_item *item, bool usage)
{
    const struct embedded vector = embedded_of(item);
    if (usage) json_add_int(w, "prompt_tokens", vector.prompt_tokens);
    json_write_key(w, "embedding");
    json_open_array(w);
    for (size_t i = 0; i < vector.n; i++)
        json_write_digits(w, (double)vector.number[i], 9);
    json_close_array(w);
}

/* Prints an error instead of a line that is too long. A text of control characters can cause that,
 * because JSON takes six bytes for each. */
static void print_too_long(struct embed_run *r, const struct embed_input *input)
{
    struct buf line = buf_with_max(EY_MAX_PATH * 8);
    struct json_writer w = open_line(&line, &(struct embed_input){.image = input->image});
    json_add_string(&w, "error", "the line would be longer than 64 MiB");
    json_close_object(&w);
    buf_add_text(&line, "\n");
    if (!line.failed) term_write(r->out, line.data, line.size);
    buf_free(&line);
}

static void print_vector(struct embed_run *r, const struct embed_input *input,
                         const struct batch_item *item)
{
    struct buf line = buf_with_max(MAX_LINE);
    struct json_writer w = open_line(&line, input);
    if (item->ok)
        add_vector(&w, item, r->cli.options->json);
    else
        json_add_string(&w, "error", item->error.text);
    json_close_object(&w);
    buf_add_text(&line, "\n");
    progress_clear(&r->cli.progress);
    r->failed += !item->ok || line.failed;
    if (line.failed)
        print_too_long(r, input);
    else
        term_write(r->out, line.data, line.size);
    buf_free(&line);
}

static void embed_item(void *user, size_t i, struct batch_item *item)
{
    const struct embed_run *r = user;
    embedder_run(&r->embedder, &r->inputs[i], item);
}

static bool take_vector(void *user, size_t i, struct batch_item *item)
{
    struct embed_run *r = user;
    if (cancel_requested()) return false;
    print_vector(r, &r->inputs[i], item);
    if (r->n > 1) progress_count(&r->cli.progress, i + 1, r->n);
    return !r->out->closed;
}

/* ---- the run ---- */

/* Fails if --output would overwrite an image or the file of --lines. */
static bool check_embed_output(const struct embed_run *r, ey_err *e)
{
    const char *output = r->cli.options->output, *lines = r->cli.options->lines;
    if (output && lines && path_is_same(output, lines))
        return ey_fail(e, EY_BAD_REQUEST,
                       "--output would overwrite %s, the file of --lines; name another file",
                       output);
    for (size_t i = 0; i < r->n; i++)
        if (r->inputs[i].image && !image_check_output(r->inputs[i].image, output, e)) return false;
    return true;
}

static bool open_embed_output(struct embed_run *r, ey_err *e)
{
    const char *name = r->cli.options->output;
    r->out = &r->cli.out;
    if (!name || term_is_stdout(name)) return true;
    r->file = (struct term){.file = fopen(name, "we")};
    r->out = &r->file;
    return r->file.file || ey_fail(e, EY_IO, "--output %s: %s", name, strerror(errno));
}

static bool embed_all(struct embed_run *r, ey_err *e)
{
    struct batch_work work = {.user = r, .ask = embed_item, .take = take_vector};
    if (!read_embed_inputs(r, e) || !check_embed_output(r, e) || !embedder_load(&r->embedder, e) ||
        !open_embed_output(r, e))
        return false;
    work.n = r->n;
    cancel_watch();
    bool ok = embedder_run_all(&r->embedder, &work, e);
    cancel_unwatch();
    return ok;
}

static int embed_close(struct embed_run *r, int status)
{
    progress_clear(&r->cli.progress);
    if (r->failed && r->n > 1 && !r->cli.options->quiet)
        fprintf(stderr, "eyelet: %zu of %zu inputs failed\n", r->failed, r->n);
    if (r->file.file && (fclose(r->file.file) != 0 || r->file.closed)) {
        fprintf(stderr, "eyelet: --output %s: the file could not be written completely\n",
                r->cli.options->output);
        status = 1;
    }
    status = term_finish(&r->cli.out, status);
    cli_engine_close(&r->cli);
    image_list_free(&r->images);
    input_free(&r->lines);
    arena_free(&r->memory);
    free(r->inputs);
    return status;
}

int cmd_embed(const struct options *o)
{
    struct embed_run r = {
        .embedder = {.dimensions = (int)o->dimensions, .instruction = o->instruction}};
    ey_err e;
    cli_engine_init(&r.cli, o);
    r.embedder.cli = &r.cli;
    bool ok = embed_all(&r, &e);
    progress_clear(&r.cli.progress);
    int status = !ok ? term_complain(&e) : cancel_requested() ? EXIT_INTERRUPTED : r.failed ? 1 : 0;
    return embed_close(&r, status);
}
