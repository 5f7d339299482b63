/* SPDX-License-Identifier: Apache-2.0 */
/* What a person names → the images that are meant: one file, or chosen pages of a PDF or TIFF. */
#ifndef EY_CLI_INPUT_DOCUMENT_H
#define EY_CLI_INPUT_DOCUMENT_H

#include "cli/options/input.h"
#include "cli/options/options.h"
#include "document/document.h"

struct input_document {
    struct input file;              /* as it was read */
    struct paged_document document; /* of a file with pages */
    int *pages; /* [n] those that are meant, from 1; NULL: the file is an image */
    size_t n;
    int dpi;
    bool animated; /* an image, of which the first frame is used */
};

/* Reads what `name` names, as input_read does. Of a document --pages says which pages are meant, or
 * "#page=N" behind its name. Close it also after an error. */
bool input_document_open(struct input_document *d, const char *name, const struct options *o,
                         ey_err *e);
/* The same of a file that was read before, which it takes. */
bool input_document_take(struct input_document *d, struct input *file, const struct options *o,
                         ey_err *e);
void input_document_close(struct input_document *d);
/* Image i of it, which input_free() takes: the file itself, which can be had once, or a page, named
 * NAME#page=N. */
bool input_document_page(struct input_document *d, size_t i, struct input *out, ey_err *e);

/* Says so on standard error, unless --quiet. */
void input_note_animation(const struct input_document *d, const char *name,
                          const struct options *o);

/* Images in order. */
struct input_images {
    struct input *images; /* [n], ours */
    size_t n;
};
/* Adds all that is meant of the document; fails where that would be more than EY_MAX_IMAGES. */
bool input_images_add(struct input_images *all, struct input_document *d, ey_err *e);
void input_images_free(struct input_images *all);

/* By its first bytes a file of several pages; of what is no regular file, by its name. */
bool input_may_have_pages(const char *name);
/* A document of pages that are to be asked about one by one: NAME → NAME#page=N for each page that
 * is meant, in names[*n], which the caller frees. Not for standard input, which is read once. */
bool input_page_names(char ***names, size_t *n, const char *name, const struct options *o,
                      ey_err *e);
/* --pages is a list of pages. */
bool input_check_pages(const struct options *o, ey_err *e);

#endif
