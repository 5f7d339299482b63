/* SPDX-License-Identifier: Apache-2.0 */
#include "document/document.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "document/pdf_pages.h"
#include "image/codecs/tiff_pages.h"

/* Accepts a byte order mark and blanks before the header, because some programs write them. */
bool document_is_pdf(const void *bytes, size_t n)
{
    const char *text = bytes;
    size_t skip = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (skip < n && (text[skip] == '\n' || text[skip] == '\r' || text[skip] == ' '))
        skip++;
    return n - skip >= 5 && memcmp(text + skip, "%PDF-", 5) == 0;
}

bool document_is(const void *bytes, size_t n)
{
    return document_is_pdf(bytes, n) || tiff_find_pages(NULL, 0, bytes, n) > 1;
}

static bool tiff_open_pages(struct paged_document *d, ey_err *e)
{
    size_t n = tiff_find_pages(NULL, 0, d->bytes, d->n);
    if (n < 1) return ey_fail(e, EY_BAD_IMAGE, "%s: this TIFF has no pages", d->name);
    d->n_pages = n < INT_MAX ? (int)n : INT_MAX;
    if (n > DOCUMENT_MOST_PAGES) n = DOCUMENT_MOST_PAGES;
    d->directories = calloc(n, sizeof(*d->directories));
    if (!d->directories)
        return ey_fail_memory(e, "a document's pages", n * sizeof(*d->directories));
    tiff_find_pages(d->directories, n, d->bytes, d->n);
    return true;
}

bool document_open(struct paged_document *d, const void *bytes, size_t n, const char *name,
                   const struct document_wait *wait, ey_err *e)
{
    *d = (struct paged_document){.bytes = bytes, .n = n, .name = name};
    return document_is_pdf(bytes, n) ? pdf_open(d, wait, e) : tiff_open_pages(d, e);
}

void document_close(struct paged_document *d)
{
    free(d->sizes);
    free(d->directories);
    *d = (struct paged_document){0};
}

bool document_check_page(const struct paged_document *d, int page, ey_err *e)
{
    if (page > DOCUMENT_MOST_PAGES && page <= d->n_pages)
        return ey_fail(e, EY_BAD_REQUEST, "%s has %d pages, but only the first %d can be rendered",
                       d->name, d->n_pages, DOCUMENT_MOST_PAGES);
    if (page >= 1 && page <= d->n_pages) return true;
    return ey_fail(e, EY_BAD_REQUEST, "%s has %d page%s, but no page %d", d->name, d->n_pages,
                   d->n_pages == 1 ? "" : "s", page);
}

uint64_t document_page_memory(const struct paged_document *d, int page, int dpi)
{
    return d->sizes ? pdf_page_memory(d, page, dpi) : d->n;
}

bool document_page(const struct paged_document *d, int page, int dpi,
                   const struct document_wait *wait, char **out, size_t *n_out, ey_err *e)
{
    if (!document_check_page(d, page, e)) return false;
    if (d->sizes) return pdf_draw_page(d, page, dpi, wait, out, n_out, e);
    char *copy = malloc(d->n);
    if (!copy) return ey_fail_memory(e, "a document's page", d->n);
    memcpy(copy, d->bytes, d->n);
    tiff_put_page_first((uint8_t *)copy, d->directories[page - 1]);
    *out = copy;
    *n_out = d->n;
    return true;
}
