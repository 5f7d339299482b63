/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the pages of PDF and TIFF files and converts each into an image file. PDF pages are
 * rendered by pdftoppm (poppler-utils) in a sandbox; TIFF pages need no other program. */
#ifndef EY_DOCUMENT_DOCUMENT_H
#define EY_DOCUMENT_DOCUMENT_H

#include "base/err.h"

enum { DOCUMENT_MOST_PAGES = 10000 };

struct paged_document {
    const uint8_t *bytes; /* [n], borrowed */
    size_t n;
    const char *name; /* for messages, borrowed */
    int n_pages;
    struct pdf_page_size *sizes; /* of a PDF's pages up to DOCUMENT_MOST_PAGES */
    uint64_t *directories;       /* offsets of a TIFF's pages up to DOCUMENT_MOST_PAGES */
};

/* How the caller cancels, and the memory limit of the programs that read a PDF. */
struct document_wait {
    bool (*gone)(void *user); /* polled several times a second; true cancels; may be NULL */
    void *user;
    uint64_t program_memory; /* bytes per program, without a page's pixels; 0: 512 MiB */
};

/* Returns whether the first bytes are those of a PDF. */
bool document_is_pdf(const void *bytes, size_t n);
/* Returns whether the file is a PDF, or a TIFF of two pages or more. */
bool document_is(const void *bytes, size_t n);

/* Counts the pages of a file for which document_is() returns true. Fails with EY_BAD_IMAGE if it is
 * damaged or needs a password, and with EY_IO if the programs for PDF are missing or cannot be
 * sandboxed here. */
bool document_open(struct paged_document *d, const void *bytes, size_t n, const char *name,
                   const struct document_wait *wait, ey_err *e);
void document_close(struct paged_document *d);
/* Fails with EY_BAD_REQUEST unless the document has this page. */
bool document_check_page(const struct paged_document *d, int page, ey_err *e);
/* Returns an upper bound of the bytes that document_page() needs for the page's pixels and the
 * image file, without the program's own memory. */
uint64_t document_page_memory(const struct paged_document *d, int page, int dpi);
/* Converts a page, counted from 1, into an image file *out[*n_out], which the caller frees. A page
 * of a PDF becomes a PNG of `dpi` dots per inch, or fewer if it would exceed the largest pixel
 * budget of a model. For a TIFF, the result is a copy of the file in which this page comes first.
 */
bool document_page(const struct paged_document *d, int page, int dpi,
                   const struct document_wait *wait, char **out, size_t *n_out, ey_err *e);

#endif
