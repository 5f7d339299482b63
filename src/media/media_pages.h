/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a PDF, or a TIFF with several pages, into one image file per page. */
#ifndef EY_MEDIA_MEDIA_PAGES_H
#define EY_MEDIA_MEDIA_PAGES_H

#include "media/media.h"

/* The resolution of a drawn page in dots per inch, and the time limit of one call. */
enum { MEDIA_PAGE_DPI = 150, MEDIA_PAGES_SECONDS = 60 };

/* Whether the file is a PDF, or a TIFF with several pages. */
bool media_has_pages(const struct media *file);
/* Draws all pages of a document into pages[0..*n). The caller frees these pages, also after an
 * error. While a page is drawn, the budget is charged the memory for drawing; afterwards only the
 * page's file.
 * Errors:
 *   EY_TOO_LONG   the document has more than `most` pages
 *   EY_BAD_IMAGE  it is damaged, needs a password, takes too long, or does not fit the budget
 *   EY_IO         the programs that draw PDF are missing or cannot be sandboxed
 *   EY_BUSY, EY_CANCELLED  as in media_get() */
bool media_draw_pages(struct media *pages, size_t most, size_t *n, const struct media *file,
                      const struct media_policy *policy, ey_err *e);
/* Draws one page, counted from 1, and sets *n_pages to the number of pages. */
bool media_draw_page(struct media *out, int page, int *n_pages, const struct media *file,
                     const struct media_policy *policy, ey_err *e);

#endif
