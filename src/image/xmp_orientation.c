/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the orientation in XMP by text search like Pillow: as an attribute or an element. */
#include <string.h>

#include "image/orient.h"

static bool starts_with(const uint8_t *at, const uint8_t *end, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(end - at) >= n && memcmp(at, text, n) == 0;
}

int xmp_orientation(const uint8_t *xmp, size_t n)
{
    static const char name[] = "tiff:Orientation";
    if (n == 0) return 0;
    const uint8_t *at = xmp, *end = xmp + n;
    while ((at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1))) {
        at += sizeof(name) - 1;
        const uint8_t *value = starts_with(at, end, "=\"") ? at + 2
                               : starts_with(at, end, ">") ? at + 1
                                                           : end;
        if (value < end && *value >= '0' && *value <= '9') return *value - '0';
    }
    return 0;
}

int image_orientation(const struct orientation_source *exif, const struct orientation_source *xmp)
{
    int orientation = exif_orientation(exif->bytes, exif->n);
    return orientation ? orientation : xmp_orientation(xmp->bytes, xmp->n);
}
