/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the target size of an image (spec 5.1), and the normalized patches in merge-block order
 * that the vision encoder reads (spec 5.3, 5.4). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "image/image.h"

enum { MAX_SIDE_RATIO = 200 };

struct size {
    double width, height;
};

/* Rounds the sides to multiples of `factor` with a product within [min, max]. Computes in doubles
 * and in the reference's order of operations; nearbyint rounds half to even like Python's round. */
static struct size smart_size(double width, double height, double factor, double min, double max)
{
    struct size s = {nearbyint(width / factor) * factor, nearbyint(height / factor) * factor};
    if (s.width * s.height > max) {
        double shrink = sqrt(height * width / max);
        s.width = fmax(factor, floor(width / shrink / factor) * factor);
        s.height = fmax(factor, floor(height / shrink / factor) * factor);
    } else if (s.width * s.height < min) {
        double grow = sqrt(min / (height * width));
        s.width = ceil(width * grow / factor) * factor;
        s.height = ceil(height * grow / factor) * factor;
    }
    return s;
}

bool image_smart_size(int width, int height, const struct patch_spec *spec, int *out_width,
                      int *out_height, ey_err *e)
{
    int shorter = width < height ? width : height, longer = width < height ? height : width;
    if (shorter <= 0) return ey_fail(e, EY_BAD_IMAGE, "the image has no pixels");
    if (longer > (int64_t)shorter * MAX_SIDE_RATIO)
        return ey_fail(
            e, EY_BAD_IMAGE,
            "an image of %dx%d is too narrow: one side may be at most %d times the other", width,
            height, MAX_SIDE_RATIO);
    double factor = (double)spec->patch * spec->merge;
    struct size s = smart_size(width, height, factor, (double)spec->min_pixels,
                               (double)spec->max_pixels);
    if (s.width < 1 || s.height < 1 || s.width > EY_MAX_IMAGE_SIDE ||
        s.height > EY_MAX_IMAGE_SIDE || s.width * s.height > (double)EY_MAX_IMAGE_PIXELS)
        return ey_fail(
            e, EY_BAD_MODEL,
            "an image of %dx%d would become %.0fx%.0f under a budget of %llu to %llu pixels", width,
            height, s.width, s.height, (unsigned long long)spec->min_pixels,
            (unsigned long long)spec->max_pixels);
    *out_width = (int)s.width;
    *out_height = (int)s.height;
    return true;
}

/* Fuses rescaling and normalization like the reference: (v - mean·255) / (std·255) in float32. */
static void fill_table(float table[256], float mean, float std)
{
    float offset = mean * 255.0f, scale = std * 255.0f;
    for (int v = 0; v < 256; v++)
        table[v] = ((float)v - offset) / scale;
}

/* Writes one channel of one patch, [temporal, patch, patch]. All temporal slices are equal. */
static void write_plane(float *out, const uint8_t *pixel, size_t stride, const float table[256],
                        const struct patch_spec *spec)
{
    size_t side = (size_t)spec->patch;
    for (size_t y = 0; y < side; y++, pixel += stride)
        for (size_t x = 0; x < side; x++)
            out[y * side + x] = table[pixel[3 * x]];
    for (int t = 1; t < spec->temporal; t++)
        memcpy(out + (size_t)t * side * side, out, side * side * sizeof(*out));
}

void image_patch_position(int i, int columns, int merge, int *row, int *column)
{
    int block = i / (merge * merge), within = i % (merge * merge);
    *row = block / (columns / merge) * merge + within / merge;
    *column = block % (columns / merge) * merge + within % merge;
}

void image_patchify_rows(float *out, const struct image *image, const struct patch_spec *spec,
                         int first, int n)
{
    const int merge = spec->merge, rows = image->height / spec->patch,
              columns = image->width / spec->patch;
    assert(rows % merge == 0 && columns % merge == 0 && first + n <= rows * columns);
    (void)rows;
    const size_t stride = 3 * (size_t)image->width;
    const size_t plane = (size_t)spec->temporal * (size_t)spec->patch * (size_t)spec->patch;
    float table[3][256];
    for (int c = 0; c < 3; c++)
        fill_table(table[c], spec->mean[c], spec->std[c]);
    for (int i = first; i < first + n; i++) {
        int row, column;
        image_patch_position(i, columns, merge, &row, &column);
        const uint8_t *corner = image->rgb + (size_t)row * (size_t)spec->patch * stride +
                                3 * (size_t)column * (size_t)spec->patch;
        for (int c = 0; c < 3; c++, out += plane)
            write_plane(out, corner + c, stride, table[c], spec);
    }
}

void image_patchify(float *out, const struct image *image, const struct patch_spec *spec)
{
    image_patchify_rows(out, image, spec, 0,
                        image->height / spec->patch * (image->width / spec->patch));
}
