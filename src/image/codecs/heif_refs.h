/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites the references between the items of a HEIF file for old versions of libheif. */
#ifndef EY_IMAGE_HEIF_REFS_H
#define EY_IMAGE_HEIF_REFS_H

#include "base/buf.h"
#include "image/codecs/codecs.h"

struct heif_source {
    const uint8_t *bytes; /* the original file or the rewritten one */
    size_t n;
    struct buf rewritten; /* owned; empty if nothing had to change */
    bool premultiplied;   /* the primary image has premultiplied alpha */
};

/* Fills *out with a file that every libheif accepts: references that the primary image does not
 * need are dropped, and a needed reference to several items is split into one per item. Fails only
 * if the image's budget or memory does not suffice, or the request was cancelled. */
bool heif_read_references(struct heif_source *out, const struct image_file *f, ey_err *e);

#endif
