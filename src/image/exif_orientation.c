/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the orientation tag of an EXIF block as Pillow does: the first value of the tag, which may
 * have any integer type except BYTE, since Pillow treats that as text. */
#include <string.h>

#include "image/orient.h"

enum { ORIENTATION_TAG = 0x112, ENTRY_BYTES = 12, INLINE_BYTES = 4, NOT_TURNED = 1 };
static const char exif_prefix[6] = "Exif\0";

/* Sizes of TIFF's types by number; 0 for types that Pillow ignores. */
static const uint8_t type_bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
enum { N_TYPES = sizeof(type_bytes) };
/* SHORT, LONG, SBYTE, SSHORT, SLONG, IFD and LONG8 */
enum { INTEGER_TYPES = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 13 | 1 << 16 };

struct tiff {
    const uint8_t *bytes;
    size_t n;
    bool little;
};

/* The caller has checked the bounds. */
static uint64_t tiff_number(const struct tiff *t, size_t at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value = value << 8 | t->bytes[at + (t->little ? size - 1 - i : i)];
    return value;
}

/* Skips the "Exif" prefix, which some phones write twice. */
static struct tiff without_prefix(const uint8_t *exif, size_t n)
{
    for (int i = 0; i < 2; i++) {
        if (n < sizeof(exif_prefix) || memcmp(exif, exif_prefix, sizeof(exif_prefix)) != 0) break;
        exif += sizeof(exif_prefix);
        n -= sizeof(exif_prefix);
    }
    return (struct tiff){exif, n, false};
}

static bool read_byte_order(struct tiff *t)
{
    if (t->n < 8) return false;
    t->little = memcmp(t->bytes, "II", 2) == 0;
    return (t->little || memcmp(t->bytes, "MM", 2) == 0) && tiff_number(t, 2, 2) == 42;
}

/* Returns the orientation in an entry: NOT_TURNED if the value is invalid, 0 if the entry is
 * ignored. */
static int entry_orientation(const struct tiff *t, size_t entry)
{
    uint64_t type = tiff_number(t, entry + 2, 2), count = tiff_number(t, entry + 4, 4);
    size_t unit = type < N_TYPES ? type_bytes[type] : 0, at = entry + 8;
    uint64_t size = unit * count;
    if (size == 0) return 0;
    if (size > INLINE_BYTES) {
        uint64_t offset = tiff_number(t, at, 4);
        if (offset > t->n || size > t->n - offset) return 0;
        at = (size_t)offset;
    }
    if (!(INTEGER_TYPES >> type & 1)) return NOT_TURNED;
    uint64_t value = tiff_number(t, at, unit);
    return value >= 1 && value <= 8 ? (int)value : NOT_TURNED;
}

int exif_orientation(const uint8_t *exif, size_t n)
{
    struct tiff t = without_prefix(exif, n);
    if (!read_byte_order(&t)) return 0;
    uint64_t directory = tiff_number(&t, 4, 4);
    if (directory > t.n - 2) return 0;
    size_t at = (size_t)directory + 2;
    for (uint64_t left = tiff_number(&t, at - 2, 2); left > 0 && t.n - at >= ENTRY_BYTES; left--) {
        int orientation = 0;
        if (tiff_number(&t, at, 2) == ORIENTATION_TAG) orientation = entry_orientation(&t, at);
        if (orientation) return orientation;
        at += ENTRY_BYTES;
    }
    return 0;
}
