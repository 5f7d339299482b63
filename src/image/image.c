/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes an image file: checks its size, finds the codec, runs it within a memory budget. */
#include "image/image.h"

#include <stdlib.h>

#include "base/limits.h"
#include "image/codecs/codecs.h"
#include "image/sniff.h"

enum { BUDGET_WAIT_MS = 20000 };

bool image_decode(struct image *out, const void *bytes, size_t n, const char *name, ey_err *e)
{
    return image_decode_within(out, bytes, n, name, NULL, e);
}

bool image_decode_within(struct image *out, const void *bytes, size_t n, const char *name,
                         struct image_budget *budget, ey_err *e)
{
    struct image_file f = {bytes, n, name, budget};
    *out = (struct image){0};
    if (n == 0) return ey_fail(e, EY_BAD_IMAGE, "%s: the file is empty (0 bytes)", name);
    if (n > EY_MAX_IMAGE_BYTES)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: %zu bytes are more than eyelet takes for an image (%zu)", name, n,
                       EY_MAX_IMAGE_BYTES);
    decode_fn *decode = decoder_for(&f, e);
    return decode && decode(out, &f, e);
}

void image_free(struct image *image)
{
    if (!image) return;
    free(image->rgb);
    *image = (struct image){0};
}

bool image_budget_hold(struct image_budget *b, uint64_t needed, const char *name, ey_err *e)
{
    if (!b || !b->from || needed <= b->held) return true;
    if (needed > ey_budget_total(b->from))
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: decoding it takes up to %llu MiB and all images together have %llu; "
                       "scale it down",
                       name, (unsigned long long)(needed >> 20),
                       (unsigned long long)(ey_budget_total(b->from) >> 20));
    if (!ey_budget_acquire(b->from, needed - b->held, BUDGET_WAIT_MS))
        return ey_fail(e, EY_BUSY,
                       "%s: other images take all of the memory for images; try again later", name);
    b->held = needed;
    return true;
}
