/* SPDX-License-Identifier: Apache-2.0 */
/* Files of several pages, PDF and TIFF: how many there are, and each of them as an image file. A
 * PDF is drawn by pdftoppm (poppler-utils) in a sandbox; TIFF pages need no other program. */
#ifndef EY_DOCUMENT_DOCUMENT_H
#define EY_DOCUMENT_DOCUMENT_H

#include "base/err.h"

enum { DOCUMENT_MOST_PAGES = 10000 };

struct paged_document {
    const uint8_t *bytes; /* [n], borrowed */
    size_t n;
    const char *name; /* for messages, borrowed */
    int n_pages;
    struct pdf_page_size *sizes; /* [n_pages] of a PDF … */
    uint64_t *directories;       /* … or of a TIFF, where each page is */
};

/* What drawing may take besides memory: who waits, asked several times a second. */
struct document_wait {
    bool (*gone)(void *user); /* true ends it. NULL: never */
    void *user;
};

/* A PDF by its first bytes. */
bool document_is_pdf(const void *bytes, size_t n);
/* A PDF, or a TIFF of two pages or more. */
bool document_is(const void *bytes, size_t n);

/* Of a file for which document_is() is true: counts its pages. EY_BAD_IMAGE: it is damaged, or
 * needs a password; EY_IO: the programs for PDF are missing, or cannot be confined here. */
bool document_open(struct paged_document *d, const void *bytes, size_t n, const char *name,
                   const struct document_wait *wait, ey_err *e);
void document_close(struct paged_document *d);
/* Page 1 to n_pages as an image file, *out[*n_out], which the caller frees: a PNG of so many dots
 * an inch (fewer where that would be more than a model can see), or the TIFF with this page first.
 */
bool document_page(const struct paged_document *d, int page, int dpi,
                   const struct document_wait *wait, char **out, size_t *n_out, ey_err *e);

#endif
