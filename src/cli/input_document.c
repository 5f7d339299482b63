/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input_document.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "cli/terminal/cancel.h"
#include "image/image.h"

static const char page_mark[] = "#page=";

static bool was_cancelled(void *unused)
{
    (void)unused;
    return cancel_requested();
}

static const struct document_wait wait_for_pages = {was_cancelled, NULL, 0};

/* ---- which pages ---- */

/* Reads "3", "1-3" or "5-" at *text and moves past it. */
static bool read_range(const char **text, int *first, int *last)
{
    char *end;
    long from = strtol(*text, &end, 10), to = from;
    if (end == *text || **text < '0' || **text > '9') return false;
    if (*end == '-') {
        const char *digits = end + 1;
        to = strtol(digits, &end, 10);
        if (end == digits) to = DOCUMENT_MOST_PAGES;
        if (*digits == '-' || *digits == '+' || *digits == ' ') return false;
    }
    *text = end;
    *first = (int)(from > DOCUMENT_MOST_PAGES ? DOCUMENT_MOST_PAGES + 1 : from);
    *last = (int)(to > DOCUMENT_MOST_PAGES ? DOCUMENT_MOST_PAGES : to);
    return from >= 1 && to >= from;
}

/* Writes those pages of the list that exist (1 to n_pages) to pages[], and their number to *n.
 * `pages` may be NULL, to count only. Returns false if the list is malformed. */
static bool read_page_list(const char *list, int n_pages, int *pages, size_t *n)
{
    int first, last;
    *n = 0;
    for (const char *at = list;; at++) {
        while (*at == ' ')
            at++;
        if (!read_range(&at, &first, &last)) return false;
        for (int page = first; page <= last && page <= n_pages && *n < DOCUMENT_MOST_PAGES;
             page++) {
            if (pages) pages[*n] = page;
            (*n)++;
        }
        while (*at == ' ')
            at++;
        if (!*at) return true;
        if (*at != ',') return false;
    }
}

bool input_check_pages(const struct options *o, ey_err *e)
{
    size_t n;
    if (!o->pages || read_page_list(o->pages, 0, NULL, &n)) return true;
    return ey_fail(e, EY_BAD_REQUEST,
                   "--pages takes a list such as 3, 1-3, 5- or 1-2,7, not \"%s\"", o->pages);
}

static bool choose_pages(struct input_document *d, const char *list, ey_err *e)
{
    const int n_pages = d->document.n_pages;
    d->pages = calloc(DOCUMENT_MOST_PAGES, sizeof(*d->pages));
    if (!d->pages)
        return ey_fail_memory(e, "a list of pages", DOCUMENT_MOST_PAGES * sizeof(*d->pages));
    if (!read_page_list(list, n_pages, d->pages, &d->n))
        return ey_fail(e, EY_BAD_REQUEST,
                       "\"%s\" is not a list of pages such as 3, 1-3, 5- or 1-2,7", list);
    return d->n || ey_fail(e, EY_BAD_REQUEST, "%s has %d page%s, none of them in %s", d->file.name,
                           n_pages, n_pages == 1 ? "" : "s", list);
}

/* Returns where "#page=" begins in the name. Returns NULL if the name has none, or if it is the
 * name of an existing file. */
static const char *page_mark_of(const char *name)
{
    const char *mark = strstr(name, page_mark);
    return mark && mark > name && access(name, F_OK) != 0 ? mark : NULL;
}

/* ---- a document ---- */

/* Fails if --pages leaves out page 1, the only one that an image has. */
static bool check_image_page(const struct input *file, const struct options *o, ey_err *e)
{
    size_t n = 1;
    if (o->pages) read_page_list(o->pages, 1, NULL, &n);
    return n ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%s is a single image, so --pages %s selects nothing; --pages is for PDF and "
                   "TIFF files",
                   file->name, o->pages);
}

static bool open_pages(struct input_document *d, const struct options *o, const char *list,
                       ey_err *e)
{
    const struct input *file = &d->file;
    d->dpi = (int)o->dpi;
    d->n = 1;
    d->animated = image_is_animated(file->bytes, file->size);
    if (!document_is(file->bytes, file->size)) return list || check_image_page(file, o, e);
    return document_open(&d->document, file->bytes, file->size, file->name, &wait_for_pages, e) &&
           choose_pages(d,
                        list       ? list
                        : o->pages ? o->pages
                                   : "1-",
                        e);
}

bool input_document_take(struct input_document *d, struct input *file, const struct options *o,
                         ey_err *e)
{
    *d = (struct input_document){.file = *file};
    *file = (struct input){.name = file->name};
    return open_pages(d, o, NULL, e);
}

/* Opens the file NAME of an argument NAME#page=LIST. For an image, only the list "1" is valid. */
static bool open_marked(struct input_document *d, const char *name, const char *mark,
                        const struct options *o, ey_err *e)
{
    const char *list = mark + strlen(page_mark);
    char *base = strndup(name, (size_t)(mark - name));
    if (!base) return ey_fail_memory(e, "a name", strlen(name));
    bool ok = input_read(&d->file, base, EY_MAX_IMAGE_BYTES, e);
    d->file.name = base;
    d->file.own_name = base;
    ok = ok && open_pages(d, o, list, e);
    return ok &&
           (d->pages || strcmp(list, "1") == 0 ||
            ey_fail(e, EY_BAD_REQUEST, "%s is a single image and has no page %s", base, list));
}

bool input_document_open(struct input_document *d, const char *name, const struct options *o,
                         ey_err *e)
{
    const char *mark = page_mark_of(name);
    *d = (struct input_document){0};
    if (mark) return open_marked(d, name, mark, o, e);
    return input_read(&d->file, name, EY_MAX_IMAGE_BYTES, e) && open_pages(d, o, NULL, e);
}

void input_document_close(struct input_document *d)
{
    document_close(&d->document);
    free(d->pages);
    input_free(&d->file);
    *d = (struct input_document){0};
}

bool input_document_page(struct input_document *d, size_t i, struct input *out, ey_err *e)
{
    *out = (struct input){0};
    if (!d->pages) {
        *out = d->file;
        d->file = (struct input){0};
        return true;
    }
    if (asprintf(&out->own_name, "%s%s%d", d->file.name, page_mark, d->pages[i]) < 0) {
        out->own_name = NULL;
        return ey_fail_memory(e, "a page's name", strlen(d->file.name));
    }
    out->name = out->own_name;
    bool ok = document_page(&d->document, d->pages[i], d->dpi, &wait_for_pages, &out->bytes,
                            &out->size, e);
    if (!ok) input_free(out);
    return ok;
}

void input_note_animation(const struct input_document *d, const char *name, const struct options *o)
{
    if (d->animated && !o->quiet)
        fprintf(stderr, "eyelet: %s is animated; only its first frame is used\n", name);
}

/* ---- images ---- */

bool input_images_add(struct input_images *all, struct input_document *d, ey_err *e)
{
    if (all->n + d->n > EY_MAX_IMAGES)
        return ey_fail(
            e, EY_TOO_LONG,
            "%s has %zu pages%s, but a question takes at most %d images; choose some with "
            "--pages 1-%d, or ask about each page with --each",
            d->file.name, d->n, all->n ? " and is not the only image" : "", EY_MAX_IMAGES,
            EY_MAX_IMAGES);
    struct input *larger = realloc(all->images, (all->n + d->n) * sizeof(*larger));
    if (!larger) return ey_fail_memory(e, "the images", (all->n + d->n) * sizeof(*larger));
    all->images = larger;
    for (size_t i = 0; i < d->n; i++) {
        if (!input_document_page(d, i, &all->images[all->n], e)) return false;
        all->n++;
    }
    return true;
}

void input_images_free(struct input_images *all)
{
    for (size_t i = 0; i < all->n; i++)
        input_free(&all->images[i]);
    free(all->images);
    *all = (struct input_images){0};
}

/* ---- names ---- */

static bool name_ends_as_document(const char *name)
{
    size_t n = strcspn(name, "?#");
    return n > 4 &&
           (strncasecmp(name + n - 4, ".pdf", 4) == 0 ||
            strncasecmp(name + n - 4, ".tif", 4) == 0 || strncasecmp(name + n - 4, "tiff", 4) == 0);
}

bool input_may_have_pages(const char *name)
{
    char *bytes = NULL, first[16];
    size_t n = 0;
    struct stat st;
    if (page_mark_of(name)) return false;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode)) return name_ends_as_document(name);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, first, sizeof(first));
    if (fd >= 0) close(fd);
    if (got < 8) return false;
    if (document_is_pdf(first, (size_t)got)) return true;
    bool tiff = memcmp(first, "II", 2) == 0 || memcmp(first, "MM", 2) == 0;
    bool pages = tiff && file_read(&bytes, &n, name, EY_MAX_IMAGE_BYTES, NULL) &&
                 document_is(bytes, n);
    free(bytes);
    return pages;
}

static bool name_pages(char **names, const struct input_document *d, ey_err *e)
{
    for (size_t i = 0; i < d->n; i++)
        if (asprintf(&names[i], "%s%s%d", d->file.name, page_mark, d->pages[i]) < 0) {
            names[i] = NULL;
            return ey_fail_memory(e, "the names of pages", d->n);
        }
    return true;
}

bool input_page_names(char ***names, size_t *n, const char *name, const struct options *o,
                      ey_err *e)
{
    struct input_document d = {0};
    *names = NULL;
    *n = 0;
    bool ok = input_document_open(&d, name, o, e);
    if (ok && d.pages) {
        *names = calloc(d.n, sizeof(**names));
        ok = *names ? name_pages(*names, &d, e) : ey_fail_memory(e, "the names of pages", d.n);
        *n = d.n;
    }
    input_document_close(&d);
    return ok;
}
