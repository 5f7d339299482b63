/* What the KV cache holds from the last request, so that the next one need not compute it again: a chat's history, or a
 * second question about a picture. Pictures count as equal by SHA-256 of the pixels that the model saw. */
#ifndef EY_ENGINE_KV_RECORD_H
#define EY_ENGINE_KV_RECORD_H

#include "base/buf.h"
#include "base/limits.h"
#include "image/image.h"

enum { DIGEST_BYTES = 32 };

struct kv_record {
    int32_t *id;      /* [n] tokens whose keys and values are in slots 0 .. n-1 */
    int16_t *picture; /* [n] which picture a visual token belongs to, from 0; -1: text */
    size_t n, capacity;
    uint8_t digest[EY_MAX_IMAGES][DIGEST_BYTES];
};

bool kv_record_open(struct kv_record *r, struct arena *arena, size_t capacity, ey_err *e);
void picture_digest(uint8_t out[DIGEST_BYTES], const struct image *image);
/* Longest prefix of the prompt that the record holds; the record is cut to it. */
size_t kv_record_match(struct kv_record *r, const int32_t *id, const int16_t *picture, size_t n,
                       const uint8_t digest[][DIGEST_BYTES]);
/* Rows first .. first+n-1 were computed; first is at most r->n. */
void kv_record_add(struct kv_record *r, const int32_t *id, const int16_t *picture, size_t first, size_t n);

#endif
