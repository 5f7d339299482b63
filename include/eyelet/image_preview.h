/* SPDX-License-Identifier: Apache-2.0 */
/* A small JPEG of any image file that eyelet reads, for programs that cannot show HEIC, AVIF or
 * TIFF. */
#ifndef EYELET_IMAGE_PREVIEW_H
#define EYELET_IMAGE_PREVIEW_H

#include <stddef.h>

#include "eyelet/budget.h"
#include "eyelet/error.h"

EY_BEGIN_DECLS

typedef struct {
    void *bytes; /* a JPEG file, upright; ey_free() it */
    size_t n_bytes;
    int width, height; /* of the upright original */
} ey_preview;

typedef struct {
    int max_side;      /* longest side of the preview in pixels, 1 or more */
    ey_budget *budget; /* limits the memory of decoding, released before return; NULL: no limit */
    uint64_t held;     /* bytes of the budget that the caller already holds */
    /* Called while the call waits or decodes. Returning true cancels it. May be NULL. */
    bool (*gone)(void *user);
    void *user;
} ey_preview_options;

/* Decodes image[n_bytes] and makes the preview. Fails with EY_BAD_IMAGE, EY_BUSY (others hold the
 * budget), EY_CANCELLED or EY_NO_MEMORY. */
EY_API bool ey_make_preview(ey_preview *out, const void *image, size_t n_bytes,
                            const ey_preview_options *options, ey_err *e);

EY_END_DECLS

#endif
