/* SPDX-License-Identifier: Apache-2.0 */
/* Parses TIFF directories. Each is a list of tags, followed by the offset of the next directory. */
#include "image/codecs/tiff_pages.h"

#include <string.h>

enum { MAX_TAGS = 4096 };

/* The tags used here. */
enum {
    TAG_SUBFILE_TYPE = 254,
    TAG_WIDTH = 256,
    TAG_HEIGHT = 257,
    TAG_BITS = 258,
    TAG_ORIENTATION = 274,
    TAG_SAMPLES = 277,
    TAG_STRIP_ROWS = 278,
    TAG_TILE_WIDTH = 322,
    TAG_TILE_HEIGHT = 323,
    TAG_EXTRA_SAMPLES = 338,
};
enum { SUBFILE_REDUCED = 1, SUBFILE_MASK = 4 };

struct tiff_file {
    const uint8_t *bytes;
    size_t n;
    bool big_endian, big; /* big: BigTIFF, with 8-byte offsets */
};

static uint64_t tiff_value_at(const struct tiff_file *t, const uint8_t *p, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | p[t->big_endian ? i : n - 1 - i];
    return value;
}

bool tiff_is(const uint8_t *bytes, size_t n)
{
    static const char *const begins[] = {"II*\0", "MM\0*", "II+\0", "MM\0+"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (n >= 8 && memcmp(bytes, begins[i], 4) == 0) return true;
    return false;
}

/* Returns false if the file is not a TIFF or ends within its header. */
static bool tiff_open(struct tiff_file *t, const uint8_t *bytes, size_t n, uint64_t *first)
{
    if (!tiff_is(bytes, n)) return false;
    *t = (struct tiff_file){bytes, n, bytes[0] == 'M', bytes[2] == '+' || bytes[3] == '+'};
    if (t->big && n < 16) return false;
    *first = t->big ? tiff_value_at(t, bytes + 8, 8) : tiff_value_at(t, bytes + 4, 4);
    return true;
}

/* ---- a directory ---- */

struct tiff_directory {
    const uint8_t *tags; /* [n_tags] */
    size_t n_tags;
    uint64_t next; /* 0: none */
};

static size_t tag_bytes(const struct tiff_file *t)
{
    return t->big ? 20 : 12;
}

/* Returns the size of the header. Directories and values may not overlap it, because
 * tiff_put_page_first() changes it. */
static size_t tiff_header_bytes(const struct tiff_file *t)
{
    return t->big ? 16 : 8;
}

static bool tiff_directory_open(struct tiff_directory *d, const struct tiff_file *t, uint64_t at)
{
    size_t count_bytes = t->big ? 8 : 2, place_bytes = t->big ? 8 : 4;
    if (at < tiff_header_bytes(t) || at > t->n || t->n - at < count_bytes) return false;
    uint64_t count = tiff_value_at(t, t->bytes + at, count_bytes);
    size_t tags = (size_t)at + count_bytes;
    if (count < 1 || count > MAX_TAGS || (t->n - tags) / tag_bytes(t) < count) return false;
    size_t end = tags + (size_t)count * tag_bytes(t);
    d->tags = t->bytes + tags;
    d->n_tags = (size_t)count;
    d->next = t->n - end < place_bytes ? 0 : tiff_value_at(t, t->bytes + end, place_bytes);
    return true;
}

/* Returns the first value of a numeric tag, or `otherwise` if the directory lacks it. The values
 * may be stored elsewhere in the file. */
static uint64_t tag_value(const struct tiff_file *t, const struct tiff_directory *d, uint64_t tag,
                          uint64_t otherwise)
{
    static const uint8_t sizes[] = {0, 1, 0, 2, 4, 0, 1, 0, 2, 4, 0, 0, 0, 4, 0, 0, 8, 8, 8};
    size_t place_bytes = t->big ? 8 : 4;
    for (size_t i = 0; i < d->n_tags; i++) {
        const uint8_t *entry = d->tags + i * tag_bytes(t);
        uint64_t type = tiff_value_at(t, entry + 2, 2);
        if (tiff_value_at(t, entry, 2) != tag || type >= sizeof(sizes) || !sizes[type]) continue;
        uint64_t count = tiff_value_at(t, entry + 4, place_bytes);
        const uint8_t *value = entry + 4 + place_bytes;
        if (count > place_bytes / sizes[type]) {
            uint64_t at = tiff_value_at(t, value, place_bytes);
            if (at < tiff_header_bytes(t) || at > t->n || t->n - at < sizes[type]) return otherwise;
            value = t->bytes + at;
        }
        return count ? tiff_value_at(t, value, sizes[type]) : otherwise;
    }
    return otherwise;
}

static bool has_alpha(const struct tiff_file *t, const struct tiff_directory *d)
{
    enum { UNSPECIFIED = 0 };
    return tag_value(t, d, TAG_EXTRA_SAMPLES, UNSPECIFIED) != UNSPECIFIED;
}

bool tiff_read_first_page(struct tiff_page *out, const uint8_t *bytes, size_t n)
{
    struct tiff_file t;
    struct tiff_directory d;
    uint64_t first, turned;
    if (!tiff_open(&t, bytes, n, &first) || !tiff_directory_open(&d, &t, first)) return false;
    turned = tag_value(&t, &d, TAG_ORIENTATION, 1);
    *out = (struct tiff_page){.directory = first,
                              .width = tag_value(&t, &d, TAG_WIDTH, 0),
                              .height = tag_value(&t, &d, TAG_HEIGHT, 0),
                              .bits_per_pixel = tag_value(&t, &d, TAG_BITS, 1) *
                                                tag_value(&t, &d, TAG_SAMPLES, 1),
                              .strip_rows = tag_value(&t, &d, TAG_STRIP_ROWS, UINT32_MAX),
                              .tile_width = tag_value(&t, &d, TAG_TILE_WIDTH, 0),
                              .tile_height = tag_value(&t, &d, TAG_TILE_HEIGHT, 0),
                              .orientation = turned >= 1 && turned <= 8 ? (int)turned : 1,
                              .alpha = has_alpha(&t, &d)};
    return out->width && out->height;
}

/* ---- pages ---- */

static bool is_page(const struct tiff_file *t, const struct tiff_directory *d)
{
    return !(tag_value(t, d, TAG_SUBFILE_TYPE, 0) & (SUBFILE_REDUCED | SUBFILE_MASK));
}

/* Directories may not have more tags in total than fit in the file. This ends circular chains and
 * bounds the cost by the file's length. */
size_t tiff_find_pages(uint64_t *directories, size_t most, const uint8_t *bytes, size_t n)
{
    struct tiff_file t;
    struct tiff_directory d;
    uint64_t at, first;
    size_t found = 0, tags = 0;
    if (!tiff_open(&t, bytes, n, &first)) return 0;
    at = first;
    for (; at; at = d.next) {
        if (!tiff_directory_open(&d, &t, at) || (tags += d.n_tags) > n / tag_bytes(&t)) break;
        if (is_page(&t, &d)) {
            if (found < most) directories[found] = at;
            found++;
        }
        if (d.next == first) break;
    }
    return found;
}

void tiff_put_page_first(uint8_t *bytes, uint64_t directory)
{
    bool big_endian = bytes[0] == 'M', big = bytes[2] == '+' || bytes[3] == '+';
    size_t n = big ? 8 : 4;
    for (size_t i = 0; i < n; i++)
        bytes[n + (big_endian ? n - 1 - i : i)] = (uint8_t)(directory >> 8 * i);
}
