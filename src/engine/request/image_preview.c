/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an image file to a small JPEG that any program can show. */
#include "eyelet/image_preview.h"

#include "image/image.h"

static int preview_side(int side, int longest, int max_side)
{
    int64_t scaled = longest <= max_side ? side : (int64_t)side * max_side / longest;
    return scaled < 1 ? 1 : (int)scaled;
}

static void preview_size(int *out_width, int *out_height, int width, int height, int max_side)
{
    int longest = width > height ? width : height;
    *out_width = preview_side(width, longest, max_side);
    *out_height = preview_side(height, longest, max_side);
}

/* Returns how many bytes of memory the original's RGB, the intermediate image between the two
 * scaling passes, the result and the JPEG need together. */
static uint64_t preview_bytes(const void *max_side, int width, int height)
{
    int to_width, to_height;
    preview_size(&to_width, &to_height, width, height, *(const int *)max_side);
    uint64_t from = (uint64_t)width * (uint64_t)height,
             between = (uint64_t)to_width * (uint64_t)height,
             to = (uint64_t)to_width * (uint64_t)to_height;
    return 3 * (from + between) + 9 * to;
}

static bool encode_preview(ey_preview *out, const struct image *original, int max_side, ey_err *e)
{
    struct image small = {0};
    int width, height;
    preview_size(&width, &height, original->width, original->height, max_side);
    bool ok = image_resize(&small, original, width, height, e) &&
              image_encode_jpeg(&small, &out->bytes, &out->n_bytes, e);
    out->width = original->width;
    out->height = original->height;
    image_free(&small);
    return ok;
}

bool ey_make_preview(ey_preview *out, const void *image, size_t n_bytes,
                     const ey_preview_options *options, ey_err *e)
{
    struct image original = {0};
    struct image_budget budget = {.from = options->budget,
                                  .own = options->held,
                                  .gone = options->gone,
                                  .user = options->user,
                                  .after = preview_bytes,
                                  .context = &options->max_side};
    *out = (ey_preview){0};
    bool ok = image_decode_within(&original, image, n_bytes, "the image", &budget, e) &&
              image_budget_hold(&budget,
                                preview_bytes(&options->max_side, original.width, original.height),
                                "the image", e) &&
              encode_preview(out, &original, options->max_side, e);
    image_free(&original);
    if (budget.held) ey_budget_release(options->budget, budget.held);
    return ok;
}
