/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted bytes → upright RGB → resized RGB → patch rows (spec 5). Knows no model beyond the
 * numbers in struct patch_spec. */
#ifndef EY_IMAGE_H
#define EY_IMAGE_H

#include "base/err.h"
#include "eyelet/budget.h"

struct image {
    int width, height;
    uint8_t *rgb; /* [height, width, 3], owned */
};

/* Decodes JPEG, PNG, WebP and GIF (first frame), BMP, PNM and, where their libraries are present,
 * HEIC and AVIF (libheif) and the first page of TIFF (libtiff). The orientation of EXIF, XMP or
 * TIFF is applied and alpha composited on white. The header is checked against EY_MAX_IMAGE_SIDE
 * and EY_MAX_IMAGE_PIXELS before a pixel is allocated. Anything else is named in the error. Errors
 * begin with "name: ", except for EY_NO_MEMORY. */
bool image_decode(struct image *out, const void *bytes, size_t n, const char *name, ey_err *e);

/* Bytes taken from a shared budget while an image is decoded; the caller gives `held` back. */
struct image_budget {
    ey_budget *from; /* NULL: no limit */
    uint64_t held;
    bool computes; /* image_decode_within has a turn (base/processors.h), not to be waited with */
    uint64_t own;  /* what the same request holds of it besides */
    bool (*gone)(void *user); /* asked while it takes long; true ends it. NULL: never */
    void *user;
    /* What the caller will need once an image of that size is decoded: both are taken at once, so
     * that images which are half done never wait for one another. NULL: nothing. */
    uint64_t (*after)(const void *context, int width, int height);
    const void *context;
};
/* The same, and what decoding may take at most comes out of the budget before it is allocated.
 * EY_BUSY: others hold it; EY_BAD_IMAGE: it is more than there will ever be beside what the request
 * holds itself; EY_CANCELLED: gone() said so. */
bool image_decode_within(struct image *out, const void *bytes, size_t n, const char *name,
                         struct image_budget *budget, ey_err *e);
/* Takes what is missing for `needed` bytes to be held. The same errors. */
bool image_budget_hold(struct image_budget *budget, uint64_t needed, const char *name, ey_err *e);
void image_free(struct image *image);
/* A GIF or WebP with more than one frame, of which the first is decoded. */
bool image_is_animated(const void *bytes, size_t n);

/* What a checkpoint's preprocessor_config.json says. */
struct patch_spec {
    int patch;    /* 16 */
    int temporal; /* 2 */
    int merge;    /* 2 */
    uint64_t min_pixels, max_pixels;
    float mean[3], std[3]; /* of values 0..1 */
};

/* Size after smart_resize (spec 5.1) under the spec's own budget; false when a side ratio is above
 * 200. */
bool image_smart_size(int width, int height, const struct patch_spec *spec, int *out_width,
                      int *out_height, ey_err *e);

/* int16 fixed-point antialiased bicubic, horizontal then vertical, bit for bit what torchvision's
 * uint8 path gives on a CPU (spec 5.2). `out` is a new image; equal sizes give a copy. */
bool image_resize(struct image *out, const struct image *in, int width, int height, ey_err *e);

/* Rows of floats in merge-block order (spec 5.3, 5.4): out[(height/patch)*(width/patch),
 * 3*temporal*patch*patch]. Sizes must be multiples of patch*merge. */
void image_patchify(float *out, const struct image *image, const struct patch_spec *spec);
/* Patches first .. first+n-1 of them. */
void image_patchify_rows(float *out, const struct image *image, const struct patch_spec *spec,
                         int first, int n);
/* Where patch i of a grid with so many columns is: blocks of merge x merge patches in raster order.
 */
void image_patch_position(int i, int columns, int merge, int *row, int *column);

/* A JPEG file in memory, *bytes[*n], which the caller frees. */
bool image_encode_jpeg(const struct image *image, void **bytes, size_t *n, ey_err *e);
/* Writes a PNG file (RGB, 8 bit). */
bool image_write_png(const struct image *image, const char *path, ey_err *e);

#endif
