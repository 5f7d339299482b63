/* SPDX-License-Identifier: Apache-2.0 */
/* Expands a file of the command line into images: the file itself, or the chosen pages of a PDF or
 * TIFF. */
#ifndef EY_CLI_INPUT_DOCUMENT_H
#define EY_CLI_INPUT_DOCUMENT_H

#include "cli/options/input.h"
#include "cli/options/options.h"
#include "document/document.h"

struct input_document {
    struct input file;              /* the file as it was read */
    struct paged_document document; /* set if the file has pages */
    int *pages;                     /* [n] the chosen pages, from 1; NULL if the file is an image */
    size_t n;
    int dpi;
    bool animated; /* an animated image, of which the first frame is used */
};

/* Reads `name` as input_read does. The pages of a document are chosen by --pages, or by "#page=N"
 * after its name. The caller closes it, also after an error. */
bool input_document_open(struct input_document *d, const char *name, const struct options *o,
                         ey_err *e);
/* Like input_document_open, for a file that has been read already. Takes ownership of *file. */
bool input_document_take(struct input_document *d, struct input *file, const struct options *o,
                         ey_err *e);
void input_document_close(struct input_document *d);
/* Writes image i to *out, which the caller frees with input_free(): a page under the name
 * NAME#page=N, or the file itself. The file moves to *out, so only the first call returns it. */
bool input_document_page(struct input_document *d, size_t i, struct input *out, ey_err *e);

/* If the image is animated, prints a note that only its first frame is used, unless --quiet. */
void input_note_animation(const struct input_document *d, const char *name,
                          const struct options *o);

/* The images of one question, in order. */
struct input_images {
    struct input *images; /* [n], owned */
    size_t n;
};
/* Adds all chosen images of the document. Fails if that would be more than EY_MAX_IMAGES. */
bool input_images_add(struct input_images *all, struct input_document *d, ey_err *e);
void input_images_free(struct input_images *all);

/* Returns whether the file is a PDF or a TIFF of several pages. Anything but a regular file is
 * judged by its name. */
bool input_may_have_pages(const char *name);
/* Writes the names NAME#page=N of a document's chosen pages to names[*n], for one question about
 * each. The caller frees the names. Does not support standard input, which can be read only once.
 */
bool input_page_names(char ***names, size_t *n, const char *name, const struct options *o,
                      ey_err *e);
/* Fails if --pages is not a list of pages. */
bool input_check_pages(const struct options *o, ey_err *e);

#endif
