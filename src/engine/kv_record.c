/* The record of what the KV cache holds. A row's keys and values depend on the tokens and pictures before it and on
 * nothing else, and every row has the same bits however it was computed, so an equal prefix is as good as a new one. */
#include "engine/kv_record.h"

#include <openssl/sha.h>
#include <string.h>

bool kv_record_open(struct kv_record *r, struct arena *arena, size_t capacity, ey_err *e)
{
    *r = (struct kv_record){.capacity = capacity};
    r->id = arena_array(arena, capacity, sizeof(*r->id));
    r->picture = arena_array(arena, capacity, sizeof(*r->picture));
    return (r->id && r->picture) || ey_fail_memory(e, "the record of the KV cache", capacity * 6);
}

void picture_digest(uint8_t out[DIGEST_BYTES], const struct image *image)
{
    /* the size is part of a picture: 2x3 and 3x2 pixels may be the same bytes */
    uint8_t pixels_and_size[DIGEST_BYTES + 8];
    const int32_t size[2] = {image->width, image->height};
    SHA256(image->rgb, (size_t)image->width * (size_t)image->height * 3, pixels_and_size);
    memcpy(pixels_and_size + DIGEST_BYTES, size, sizeof(size));
    SHA256(pixels_and_size, sizeof(pixels_and_size), out);
}

size_t kv_record_match(struct kv_record *r, const int32_t *id, const int16_t *picture, size_t n,
                       const uint8_t digest[][DIGEST_BYTES])
{
    size_t i = 0;
    for (; i < n && i < r->n && id[i] == r->id[i] && picture[i] == r->picture[i]; i++)
        if (picture[i] >= 0 && (i == 0 || picture[i - 1] != picture[i]) &&
            memcmp(digest[picture[i]], r->digest[picture[i]], DIGEST_BYTES) != 0)
            break;
    return r->n = i;
}

void kv_record_add(struct kv_record *r, const int32_t *id, const int16_t *picture, size_t first, size_t n)
{
    memcpy(r->id + first, id + first, n * sizeof(*id));
    memcpy(r->picture + first, picture + first, n * sizeof(*picture));
    r->n = first + n;
}
