/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the answers about many images, and resumes an earlier run. */
#include "cli/batch/batch_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"

enum { MAX_RESUMED_BYTES = 1 << 30 };

/* ---- CSV ---- */

void batch_add_cell(struct buf *line, const char *text, size_t n)
{
    bool quoted = memchr(text, '"', n) || memchr(text, ',', n) || memchr(text, '\n', n) ||
                  memchr(text, '\r', n);
    if (!quoted) {
        buf_add(line, text, n);
        return;
    }
    buf_add_text(line, "\"");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') buf_add_text(line, "\"");
        buf_add(line, &text[i], 1);
    }
    buf_add_text(line, "\"");
}

/* Returns a copy of the first cell of the CSV row at `text`, or NULL if memory runs out. *end is
 * set past the row. */
static char *read_first_cell(const char *text, const char *limit, const char **end)
{
    struct buf cell = buf_with_max(EY_MAX_URL_BYTES + 1); /* a path is shorter */
    bool quoted = false, first = true;
    const char *at = text;
    for (; at < limit && (quoted || *at != '\n'); at++) {
        if (*at == '"') {
            bool doubled = quoted && at + 1 < limit && at[1] == '"';
            if (doubled && first) buf_add_text(&cell, "\"");
            if (doubled)
                at++;
            else
                quoted = !quoted;
        } else if (*at == ',' && !quoted) {
            first = false;
        } else if (first) {
            buf_add(&cell, at, 1);
        }
    }
    *end = at < limit ? at + 1 : limit;
    buf_add(&cell, "", 1);
    return cell.data;
}

/* ---- images that an earlier run has done ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool note_done(struct batch_output *b, char *name, ey_err *e)
{
    if (b->n_done % 1024 == 0) {
        char **larger = realloc(b->done, (b->n_done + 1024) * sizeof(*larger));
        if (!larger) {
            free(name);
            return ey_fail_memory(e, "the list of images that are done", b->n_done);
        }
        b->done = larger;
    }
    b->done[b->n_done++] = name;
    return true;
}

/* Notes the image of a JSON line as done, unless the line has an error. */
static bool note_json_line(struct batch_output *b, const char *line, size_t n, ey_err *e)
{
    json_object *object = json_parse(line, n, "a line", EY_BAD_REQUEST, NULL);
    json_object *image = json_member_of_type(object, "image", json_type_string);
    bool done = image && !json_member(object, "error");
    char *name = done ? strdup(json_object_get_string(image)) : NULL;
    json_object_put(object);
    if (!done) return true;
    return name ? note_done(b, name, e) : ey_fail_memory(e, "the list of images that are done", n);
}

static bool note_rows(struct batch_output *b, const char *text, size_t n, ey_err *e)
{
    const char *limit = text + n, *end;
    for (const char *at = text; at < limit; at = end) {
        if (b->form == BATCH_CSV) {
            char *name = read_first_cell(at, limit, &end);
            if (name && at == text) { /* the header row */
                free(name);
                continue;
            }
            if (!name) return ey_fail_memory(e, "the list of images that are done", n);
            if (!note_done(b, name, e)) return false;
        } else {
            end = memchr(at, '\n', (size_t)(limit - at));
            end = end ? end + 1 : limit;
            if (!note_json_line(b, at, (size_t)(end - at), e)) return false;
        }
    }
    return true;
}

/* Returns whether the CSV row ends outside a quoted cell. A newline inside a quoted cell does not
 * end the row. */
static bool quotes_are_closed(const char *row, const char *end)
{
    size_t n_quotes = 0;
    for (const char *at = row; at < end; at++)
        n_quotes += *at == '"';
    return n_quotes % 2 == 0;
}

/* Returns the length of the complete lines. A line without an end was being written when the
 * earlier run was killed. */
static size_t whole_lines(const struct batch_output *b, const char *text, size_t n)
{
    const char *limit = text + n, *end;
    if (b->form == BATCH_JSON) {
        const char *last = n ? memrchr(text, '\n', n) : NULL;
        return last ? (size_t)(last + 1 - text) : 0;
    }
    size_t whole = 0;
    for (const char *at = text; at < limit; at = end) {
        free(read_first_cell(at, limit, &end));
        if (end[-1] == '\n' && quotes_are_closed(at, end)) whole = (size_t)(end - text);
    }
    return whole;
}

/* Returns where the last image's rows begin in the CSV text[n], and writes a copy of its name to
 * *name, or NULL if there is none. */
static size_t last_image(const char *text, size_t n, char **name)
{
    const char *limit = text + n, *end;
    size_t first = 0;
    *name = NULL;
    for (const char *at = text; at < limit; at = end) {
        char *cell = read_first_cell(at, limit, &end);
        if (cell && *name && strcmp(cell, *name) == 0) {
            free(cell);
            continue;
        }
        free(*name);
        *name = cell;
        first = (size_t)(at - text);
    }
    return first;
}

/* The earlier run was killed while it wrote an image's rows: returns the length of all rows before
 * that image. The name in the cut row may itself be cut. */
static size_t rows_before_cut(const char *text, size_t whole, size_t n)
{
    const char *end;
    char *name, *cut = read_first_cell(text + whole, text + n, &end);
    size_t first = last_image(text, whole, &name);
    bool same = name && cut && strncmp(name, cut, strlen(cut)) == 0;
    free(name);
    free(cut);
    return same ? first : whole;
}

static bool read_earlier(struct batch_output *b, const char *path, ey_err *e)
{
    char *text = NULL;
    size_t n = 0;
    if (access(path, F_OK) != 0) return true;
    if (!file_read_regular(&text, &n, path, MAX_RESUMED_BYTES, e)) return false;
    size_t whole = whole_lines(b, text, n);
    if (b->form == BATCH_CSV && whole < n) whole = rows_before_cut(text, whole, n);
    bool ok = note_rows(b, text, whole, e);
    b->has_header = b->form == BATCH_CSV && whole > 0;
    if (ok && whole < n && truncate(path, (off_t)whole) != 0)
        ok = ey_fail(e, EY_IO, "%s: cannot remove the incomplete last line: %s", path,
                     strerror(errno));
    free(text);
    if (b->n_done) qsort(b->done, b->n_done, sizeof(*b->done), by_text);
    return ok;
}

/* ---- opening ---- */

static bool choose_form(struct batch_output *b, const struct options *o, ey_err *e)
{
    int forms = (o->json || o->jsonl) + o->csv + o->sidecar;
    if (forms > 1)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--jsonl, --csv and --sidecar cannot be combined; choose one");
    if (o->overwrite && !o->sidecar)
        return ey_fail(
            e, EY_BAD_REQUEST,
            "--overwrite is for --sidecar; --output replaces its file unless --resume is given");
    if (o->sidecar && o->output)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--sidecar writes a file next to each image; leave out --output");
    b->form = o->csv ? BATCH_CSV : o->sidecar ? BATCH_SIDECAR : forms ? BATCH_JSON : BATCH_TEXT;
    if (o->resume && !o->sidecar && (!o->output || b->form == BATCH_TEXT))
        return ey_fail(e, EY_BAD_REQUEST,
                       "--resume needs an earlier run's output: use it with --sidecar, or with "
                       "--output FILE and --jsonl or --csv");
    return true;
}

static bool open_output_file(struct batch_output *b, const char *path, ey_err *e)
{
    const bool there = access(path, F_OK) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (b->resume ? O_APPEND : 0), 0666);
    b->file = (struct term){.file = fd < 0 ? NULL : fdopen(fd, b->resume ? "a" : "w")};
    if (!b->file.file) {
        ey_fail(e, EY_IO, "--output %s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return false;
    }
    setvbuf(b->file.file, NULL, _IONBF, 0); /* an image's rows are written by one call */
    b->out = &b->file;
    b->path = path;
    b->waits = !b->resume;
    b->created = !there;
    b->early = buf_with_max(MAX_RESUMED_BYTES);
    return true;
}

bool batch_output_open(struct batch_output *b, const struct options *o, struct term *out,
                       const char *sidecar, ey_err *e)
{
    *b = (struct batch_output){
        .out = out, .sidecar = sidecar, .resume = o->resume, .overwrite = o->overwrite};
    if (!choose_form(b, o, e)) return false;
    if (!o->output || term_is_stdout(o->output)) return true;
    if (b->resume && !read_earlier(b, o->output, e)) return false;
    return open_output_file(b, o->output, e);
}

bool batch_output_begin(struct batch_output *b, ey_err *e)
{
    struct stat st;
    if (!b->waits) return true;
    int fd = fileno(b->file.file);
    b->waits = false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) != 0)
        return ey_fail(e, EY_IO, "--output %s: %s", b->path, strerror(errno));
    if (b->early.failed) return ey_fail_memory(e, "the first lines of the output", 0);
    if (b->early.size) term_write(b->out, b->early.data, b->early.size);
    return true;
}

void batch_write(struct batch_output *b, const char *text, size_t n)
{
    if (b->waits)
        buf_add(&b->early, text, n);
    else
        term_write(b->out, text, n);
}

bool batch_output_close(struct batch_output *b)
{
    bool ok = !b->file.file || (fclose(b->file.file) == 0 && !b->file.closed);
    if (b->waits && b->created) unlink(b->path);
    buf_free(&b->early);
    for (size_t i = 0; i < b->n_done; i++)
        free(b->done[i]);
    free(b->done);
    *b = (struct batch_output){0};
    return ok;
}

/* ---- sidecars ---- */

/* Writes the sidecar's path to out[EY_MAX_PATH]: "photo.txt" for "photo.jpg", "scan.page2.txt" for
 * "scan.pdf#page=2". */
static bool sidecar_path(char *out, const struct batch_output *b, const char *image, ey_err *e)
{
    static const char mark[] = "#page=";
    const char *slash = strrchr(image, '/'), *name = slash ? slash + 1 : image;
    const char *page = strstr(name, mark);
    const char *end = page ? page : name + strlen(name);
    const char *dot = memrchr(name, '.', (size_t)(end - name));
    int n = (int)((dot && dot > name ? dot : end) - image);
    int length = snprintf(out, EY_MAX_PATH, "%.*s%s%s.%s", n, image, page ? ".page" : "",
                          page ? page + strlen(mark) : "", b->sidecar);
    if (length < EY_MAX_PATH) return true;
    return ey_fail(e, EY_IO, "%s: the path of its sidecar file would be too long", image);
}

const char *batch_json_name(struct buf *escaped, const char *name)
{
    if (utf8_valid(name, strlen(name))) return name;
    term_add_name(escaped, name);
    return escaped->failed ? name : escaped->data;
}

static bool is_listed_done(const struct batch_output *b, const char *name)
{
    return b->n_done && bsearch(&name, b->done, b->n_done, sizeof(*b->done), by_text);
}

bool batch_is_done(const struct batch_output *b, const char *image)
{
    char path[EY_MAX_PATH];
    struct buf escaped = buf_with_max(EY_MAX_PATH * 4);
    if (!b->resume) return false;
    if (b->form == BATCH_SIDECAR)
        return sidecar_path(path, b, image, NULL) && access(path, F_OK) == 0;
    bool done = is_listed_done(b, image) ||
                (b->form == BATCH_JSON && is_listed_done(b, batch_json_name(&escaped, image)));
    buf_free(&escaped);
    return done;
}

bool batch_check_sidecar(const struct batch_output *b, const char *image, ey_err *e)
{
    char path[EY_MAX_PATH];
    if (b->form != BATCH_SIDECAR) return true;
    if (strcmp(image, "-") == 0)
        return ey_fail(e, EY_BAD_REQUEST,
                       "--sidecar needs images that are files, not standard input (-)");
    if (!sidecar_path(path, b, image, e)) return false;
    if (b->overwrite || access(path, F_OK) != 0) return true;
    return ey_fail(e, EY_IO,
                   "%s: %s already exists; --resume skips such images, --overwrite replaces the "
                   "file",
                   image, path);
}

bool batch_write_sidecar(const struct batch_output *b, const char *image, const char *text,
                         size_t n, ey_err *e)
{
    char path[EY_MAX_PATH];
    struct buf line = buf_with_max(n + 1);
    /* Checked again, because another image of this run may have the same sidecar (a.jpg, a.png). */
    if (!batch_check_sidecar(b, image, e) || !sidecar_path(path, b, image, e)) return false;
    buf_add(&line, text, n);
    if (!n || text[n - 1] != '\n') buf_add_text(&line, "\n");
    bool ok = line.failed ? ey_fail_memory(e, "a sidecar", n)
              : file_replace(path, line.data, line.size)
                  ? true
                  : ey_fail(e, EY_IO, "cannot write %s: %s", path, strerror(errno));
    buf_free(&line);
    return ok;
}
