/* SPDX-License-Identifier: Apache-2.0 */
/* Searches a PNG's chunks for the orientation: the eXIf chunk, and texts that hold EXIF or XMP. Of
 * several chunks of one kind the last counts, as in Pillow, and only that one is unpacked. */
#include "image/codecs/png_metadata.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/hex.h"
#include "image/orient.h"

enum {
    SIGNATURE_BYTES = 8,
    CHUNK_FRAME_BYTES = 12,   /* length, type, checksum */
    MAX_TEXT_BYTES = 1 << 20, /* Pillow's limit for an unpacked text */
    PROFILE_HEAD_LINES = 3,   /* an empty line, "exif" and the number of bytes */
};

struct png_text {
    const uint8_t *bytes;
    size_t n;
    bool packed;
};

struct png_metadata {
    bool has_exif; /* an eXIf chunk is present, perhaps empty */
    struct orientation_source exif;
    struct png_text profile, xmp;
};

/* Consumes the field up to the next NUL. Returns NULL if there is none. */
static const uint8_t *take_field(struct png_text *rest)
{
    const uint8_t *field = rest->bytes, *end = rest->n ? memchr(field, 0, rest->n) : NULL;
    if (!end) return NULL;
    rest->n -= (size_t)(end + 1 - field);
    rest->bytes = end + 1;
    return field;
}

/* Skips the fields before the text of a zTXt or iTXt chunk. */
static bool skip_text_fields(struct png_text *text, const uint8_t *type)
{
    if (memcmp(type, "tEXt", 4) == 0) return true;
    bool international = memcmp(type, "iTXt", 4) == 0;
    size_t flags = international ? 2 : 1;
    if (text->n < flags || text->bytes[flags - 1] != 0) return false; /* only deflate is defined */
    text->packed = !international || text->bytes[0] != 0;
    text->bytes += flags;
    text->n -= flags;
    return !international || (take_field(text) && take_field(text)); /* language, translation */
}

static void note_text(struct png_metadata *m, const uint8_t *type, struct png_text text)
{
    const char *keyword = (const char *)take_field(&text);
    if (!keyword) return;
    struct png_text *to = strcmp(keyword, "Raw profile type exif") == 0 ? &m->profile
                          : strcmp(keyword, "XML:com.adobe.xmp") == 0   ? &m->xmp
                                                                        : NULL;
    if (to && skip_text_fields(&text, type)) *to = text;
}

static bool is_text(const uint8_t *type)
{
    return memcmp(type, "tEXt", 4) == 0 || memcmp(type, "zTXt", 4) == 0 ||
           memcmp(type, "iTXt", 4) == 0;
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static struct png_metadata find_metadata(const struct image_file *f)
{
    struct png_metadata m = {0};
    for (size_t at = SIGNATURE_BYTES; f->n - at >= CHUNK_FRAME_BYTES;) {
        const uint8_t *type = f->bytes + at + 4, *body = type + 4;
        size_t n = big_endian(f->bytes + at);
        if (n > f->n - at - CHUNK_FRAME_BYTES || memcmp(type, "IEND", 4) == 0) break;
        if (memcmp(type, "eXIf", 4) == 0) {
            m.has_exif = true;
            m.exif = (struct orientation_source){body, n};
        } else if (is_text(type)) {
            note_text(&m, type, (struct png_text){.bytes = body, .n = n});
        }
        at += CHUNK_FRAME_BYTES + n;
    }
    return m;
}

/* Unpacks at most MAX_TEXT_BYTES to `to`. Returns the number of bytes. */
static size_t unpack(uint8_t *to, const struct png_text *text)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)text->bytes,
                  .avail_in = (uInt)text->n,
                  .next_out = to,
                  .avail_out = MAX_TEXT_BYTES};
    if (inflateInit(&z) != Z_OK) return 0;
    int result = inflate(&z, Z_SYNC_FLUSH);
    size_t n = result == Z_OK || result == Z_STREAM_END ? z.total_out : 0;
    inflateEnd(&z);
    return n;
}

/* Copies the text, truncated to MAX_TEXT_BYTES. The caller frees *out. Sets *n to 0 if there is no
 * text. */
static bool text_copy(uint8_t **out, const struct png_text *text, size_t *n, ey_err *e)
{
    *n = 0;
    if (!text->n) return true;
    uint8_t *copy = *out = malloc(MAX_TEXT_BYTES);
    if (!copy) return ey_fail_memory(e, "a PNG's metadata", MAX_TEXT_BYTES);
    if (text->packed) {
        *n = unpack(copy, text);
    } else {
        *n = text->n < MAX_TEXT_BYTES ? text->n : MAX_TEXT_BYTES;
        memcpy(copy, text->bytes, *n);
    }
    return true;
}

/* Decodes a profile's hexadecimal digits in place. Returns the number of bytes. */
static size_t bytes_of_profile(uint8_t *text, size_t n)
{
    size_t at = 0, bytes = 0, digits = 0;
    for (int line = 0; line < PROFILE_HEAD_LINES && at < n; at++)
        line += text[at] == '\n';
    for (; at < n; at++) {
        int digit = hex_digit_value((char)text[at]);
        if (text[at] == '\n') continue;
        if (digit < 0) break;
        text[bytes] = (uint8_t)(digits % 2 ? text[bytes] << 4 | digit : digit);
        bytes += digits++ % 2;
    }
    return bytes;
}

bool png_orientation(const struct image_file *f, int *orientation, ey_err *e)
{
    struct png_metadata m = find_metadata(f);
    struct orientation_source exif = m.exif, xmp;
    uint8_t *profile = NULL, *packet = NULL;
    bool ok = text_copy(&packet, &m.xmp, &xmp.n, e) &&
              (m.has_exif || text_copy(&profile, &m.profile, &exif.n, e));
    xmp.bytes = packet;
    if (ok && !m.has_exif) {
        exif.n = bytes_of_profile(profile, exif.n);
        exif.bytes = profile;
    }
    if (ok) *orientation = image_orientation(&exif, &xmp);
    free(profile);
    free(packet);
    return ok;
}
