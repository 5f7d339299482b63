/* SPDX-License-Identifier: Apache-2.0 */
/* Image preprocessing: untrusted bytes to upright RGB, to resized RGB, to patch rows (spec 5).
 * The settings of a model are in struct patch_spec. */
#ifndef EY_IMAGE_H
#define EY_IMAGE_H

#include "base/err.h"
#include "eyelet/budget.h"

struct image {
    int width, height;
    uint8_t *rgb; /* [height, width, 3], owned */
    void *map; /* the private mapping of the sandbox's output that holds rgb; NULL: rgb is allocated
                */
    size_t map_size;
};

/* Decodes JPEG, PNG, WebP and GIF (first frame), BMP, PNM and, if their libraries are installed,
 * HEIC and AVIF (libheif) and the first page of TIFF (libtiff). Applies the orientation of EXIF,
 * XMP or TIFF and composites alpha on white. The header is checked against EY_MAX_IMAGE_SIDE and
 * EY_MAX_IMAGE_PIXELS before pixels are allocated. For other known formats, the error
 * names the format. Errors begin with "name: ", except EY_NO_MEMORY. */
bool image_decode(struct image *out, const void *bytes, size_t n, const char *name, ey_err *e);

/* Memory taken from a shared budget to decode an image; the caller releases `held`. */
struct image_budget {
    ey_budget *from; /* NULL for no limit */
    uint64_t held;
    bool computes; /* this thread holds a compute turn (base/processors.h), which it gives back
                      while it waits for memory or for the sandbox */
    uint64_t own;  /* bytes that the same request already holds */
    bool (*gone)(void *user); /* polled while waiting; true cancels. May be NULL */
    void *user;
    /* Returns the bytes that the caller needs after an image of this size is decoded; NULL for
     * none. Decoding takes the larger of these and its own need in one step, so that decoded
     * images never wait for one another's memory. */
    uint64_t (*after)(const void *context, int width, int height);
    const void *context;
};
/* Like image_decode(), but takes an upper bound of the memory for decoding from the budget first.
 * Also fails with EY_BUSY if other images hold the budget, with EY_BAD_IMAGE if the image can never
 * fit beside the memory that its own request holds, and with EY_CANCELLED if gone() returned true.
 */
bool image_decode_within(struct image *out, const void *bytes, size_t n, const char *name,
                         struct image_budget *budget, ey_err *e);
/* Increases `held` to `needed` bytes. Fails like image_decode_within(). */
bool image_budget_hold(struct image_budget *budget, uint64_t needed, const char *name, ey_err *e);
/* Gives the compute turn back before a wait. Returns whether this thread held one. */
bool image_budget_give_turn(struct image_budget *budget);
/* Takes a turn if `given`. Fails like compute_turn_take(). */
bool image_budget_take_turn(struct image_budget *budget, bool given, ey_err *e);
void image_free(struct image *image);
/* Whether the file is a GIF or WebP with several frames. Only the first is decoded. */
bool image_is_animated(const void *bytes, size_t n);

/* The settings of a checkpoint's preprocessor_config.json. */
struct patch_spec {
    int patch;    /* 16 */
    int temporal; /* 2 */
    int merge;    /* 2 */
    uint64_t min_pixels, max_pixels;
    float mean[3], std[3]; /* for values in 0..1 */
};

/* Computes the size after smart_resize (spec 5.1) within the spec's pixel budget. Fails if one side
 * is more than 200 times the other. */
bool image_smart_size(int width, int height, const struct patch_spec *spec, int *out_width,
                      int *out_height, ey_err *e);

/* Antialiased bicubic resize in int16 fixed point, horizontal then vertical, bit-identical to
 * torchvision's uint8 path on a CPU (spec 5.2). *out is a new image, a copy if the sizes are equal.
 */
bool image_resize(struct image *out, const struct image *in, int width, int height, ey_err *e);

/* Writes normalized patch rows in merge-block order (spec 5.3, 5.4) to
 * out[(height/patch)*(width/patch), 3*temporal*patch*patch]. Sides must be multiples of
 * patch*merge. */
void image_patchify(float *out, const struct image *image, const struct patch_spec *spec);
/* Like image_patchify(), for patches first .. first+n-1. */
void image_patchify_rows(float *out, const struct image *image, const struct patch_spec *spec,
                         int first, int n);
/* Computes the row and column of patch i in a grid with `columns` columns, whose blocks of
 * merge x merge patches follow one another in raster order. */
void image_patch_position(int i, int columns, int merge, int *row, int *column);

/* Encodes a JPEG file into *bytes[*n]; the caller frees it. */
bool image_encode_jpeg(const struct image *image, void **bytes, size_t *n, ey_err *e);
/* Writes an 8-bit RGB PNG file. */
bool image_write_png(const struct image *image, const char *path, ey_err *e);

#endif
