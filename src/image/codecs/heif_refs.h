/* SPDX-License-Identifier: Apache-2.0 */
/* References between the items of a HEIF file, before libheif sees them. */
#ifndef EY_IMAGE_HEIF_REFS_H
#define EY_IMAGE_HEIF_REFS_H

#include "base/buf.h"
#include "image/codecs/codecs.h"

struct heif_source {
    const uint8_t *bytes; /* the file's own, or the rewritten ones */
    size_t n;
    struct buf rewritten; /* owned; empty where nothing had to change */
    bool premultiplied;   /* the primary image's colours are multiplied by its alpha */
};

/* The file in a form that every libheif takes: references that the primary image does not need are
 * left out, and one to several items becomes one for each that it needs. False: no memory. */
bool heif_read_references(struct heif_source *out, const struct image_file *f, ey_err *e);

#endif
