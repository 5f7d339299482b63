/* SPDX-License-Identifier: Apache-2.0 */
/* A PDF or a TIFF of several pages that a client sent → an image file for each page. */
#ifndef EY_MEDIA_MEDIA_PAGES_H
#define EY_MEDIA_MEDIA_PAGES_H

#include "media/media.h"

/* Dots an inch of a drawn page, and how long all that is drawn for one call may take. */
enum { MEDIA_PAGE_DPI = 150, MEDIA_PAGES_SECONDS = 60 };

/* False: an image, or what is neither. */
bool media_has_pages(const struct media *file);
/* Draws all pages of a file that has some: pages[*n], at most `most`, each to be freed also after
 * an error. Drawing holds memory of the budget until a page is done, and a page holds its own.
 * Errors: EY_TOO_LONG  it has more pages
 *   EY_BAD_IMAGE  it is damaged, needs a password, takes too long, or does not fit the budget
 *   EY_IO         this machine has no programs for PDF
 *   EY_BUSY, EY_CANCELLED  as media_get */
bool media_draw_pages(struct media *pages, size_t most, size_t *n, const struct media *file,
                      const struct media_policy *policy, ey_err *e);
/* Draws one page, from 1, and says how many there are. */
bool media_draw_page(struct media *out, int page, int *n_pages, const struct media *file,
                     const struct media_policy *policy, ey_err *e);

#endif
