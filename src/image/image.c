/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes an image file: checks its size, finds the codec, runs it within a memory budget. */
#include "image/image.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/limits.h"
#include "base/processors.h"
#include "image/codecs/codecs.h"
#include "image/sniff.h"

enum { BUDGET_WAIT_MS = 20000, CHECK_GONE_MS = 100 };

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
                       "%s: the file has %zu bytes, and an image may have at most %zu", name, n,
                       EY_MAX_IMAGE_BYTES);
    decode_fn *decode = decoder_for(&f, e);
    if (!decode) return false;
    if (decode == heic_decode || decode == avif_decode || decode == tiff_decode)
        return decode(out, &f, e); /* limits are enforced in the sandbox */
    struct image_budget none = {0};
    if (!budget) f.budget = &none;
    bool ok = image_budget_take_turn(f.budget, true, e) && decode(out, &f, e);
    image_budget_give_turn(f.budget);
    return ok;
}

void image_free(struct image *image)
{
    if (!image) return;
    if (image->map)
        munmap(image->map, image->map_size);
    else
        free(image->rgb);
    *image = (struct image){0};
}

bool image_budget_give_turn(struct image_budget *b)
{
    const bool computes = b->computes;
    b->computes = false;
    if (computes) compute_turn_give();
    return computes;
}

bool image_budget_take_turn(struct image_budget *b, bool given, ey_err *e)
{
    b->computes = given && compute_turn_take(e);
    return b->computes == given;
}

/* Fails without waiting: even with no other images, this one would not fit beside the memory that
 * its own request holds. */
static bool fail_never_fits(const struct image_budget *b, uint64_t needed, const char *name,
                            ey_err *e)
{
    return ey_fail(
        e, EY_BAD_IMAGE,
        "%s: decoding it takes up to %llu MiB in addition to the %llu MiB that its request "
        "holds, and the limit for all images together is %llu MiB; scale the image down, or raise "
        "the server's --host-memory",
        name, (unsigned long long)(needed >> 20), (unsigned long long)(b->own >> 20),
        (unsigned long long)(ey_budget_total(b->from) >> 20));
}

/* Waits until other images release memory. The caller has given its compute turn back. */
static bool await_budget(struct image_budget *b, uint64_t n, const char *name, ey_err *e)
{
    for (int waited = 0; !ey_budget_acquire(b->from, n, CHECK_GONE_MS); waited += CHECK_GONE_MS) {
        if (b->gone && b->gone(b->user))
            return ey_fail(e, EY_CANCELLED, "%s: decoding was cancelled", name);
        if (waited >= BUDGET_WAIT_MS)
            return ey_fail(e, EY_BUSY,
                           "%s: other images use all of the memory for images (--host-memory); "
                           "try again later",
                           name);
    }
    return true;
}

bool image_budget_hold(struct image_budget *b, uint64_t needed, const char *name, ey_err *e)
{
    if (!b || !b->from || needed <= b->held) return true;
    uint64_t total = ey_budget_total(b->from);
    if (needed > total || b->own > total - needed) return fail_never_fits(b, needed, name, e);
    if (!ey_budget_acquire(b->from, needed - b->held, 0)) {
        const bool given = image_budget_give_turn(b);
        if (!await_budget(b, needed - b->held, name, e)) return false;
        b->held = needed;
        return image_budget_take_turn(b, given, e);
    }
    b->held = needed;
    return true;
}
