/* SPDX-License-Identifier: Apache-2.0 */
/* Image decoders on any bytes. Small images are also cut into patches. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PIXELS = 1 << 16 };

/* A model with a small pixel budget, so that runs are fast. */
static const struct patch_spec spec = {4, 2, 2, 64, 4096, {0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};

static void make_patches(const struct image *image)
{
    int width, height;
    struct image resized = {0};
    if (!image_smart_size(image->width, image->height, &spec, &width, &height, NULL)) return;
    assert(width % 8 == 0 && height % 8 == 0);
    float *patches = malloc(sizeof(*patches) * 6 * (size_t)width * (size_t)height);
    if (patches && image_resize(&resized, image, width, height, NULL))
        image_patchify(patches, &resized, &spec);
    image_free(&resized);
    free(patches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image image;
    ey_err e = {0};
    if (image_decode(&image, data, size, "fuzz", &e)) {
        assert(image.rgb && image.width > 0 && image.height > 0);
        if ((size_t)image.width * (size_t)image.height <= MAX_PIXELS) make_patches(&image);
    } else {
        assert(e.code != EY_OK && strncmp(e.text, "fuzz: ", 6) == 0);
    }
    image_free(&image);
    return 0;
}
