/* SPDX-License-Identifier: Apache-2.0 */
/* Reads PDF files with poppler's programs, which run in the sandbox and get the file on standard
 * input. */
#ifndef EY_DOCUMENT_PDF_PAGES_H
#define EY_DOCUMENT_PDF_PAGES_H

#include "document/document.h"

struct pdf_page_size {
    double width, height; /* points, 72 per inch */
};

/* Runs pdfinfo and fills d->n_pages and d->sizes. document_close() frees the sizes. */
bool pdf_open(struct paged_document *d, const struct document_wait *wait, ey_err *e);
/* Renders the page as a PNG, *out[*n_out], which the caller frees. `dpi` is an upper bound. */
bool pdf_draw_page(const struct paged_document *d, int page, int dpi,
                   const struct document_wait *wait, char **out, size_t *n_out, ey_err *e);
/* Returns an upper bound of the bytes of the page's pixels and its PNG. */
uint64_t pdf_page_memory(const struct paged_document *d, int page, int dpi);
/* Parses text[n], pdfinfo's output, for the number of pages and their sizes. A page without a size
 * gets that of US letter. */
bool pdf_read_info(struct paged_document *d, const char *text, size_t n, ey_err *e);

#endif
