/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of src/image. Run it in the source tree's top. */
#include "image/test_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "sandbox/sandbox.h"

char *data_file(const char *name, size_t *n)
{
    char path[256], *data = NULL;
    ey_err e;
    snprintf(path, sizeof(path), "tests/image/data/%s", name);
    if (!file_read(&data, n, path, 1 << 20, &e)) fail_msg("%s", e.text);
    return data;
}

struct image data_ppm(const char *name)
{
    size_t n;
    int width, height, header;
    char *data = data_file(name, &n);
    assert_int_equal(sscanf(data, "P6 %d %d 255%n", &width, &height, &header), 2);
    size_t pixels = 3 * (size_t)width * (size_t)height;
    assert_int_equal((size_t)header + 1 + pixels, n);
    memmove(data, data + header + 1, pixels);
    return (struct image){.width = width, .height = height, .rgb = (uint8_t *)data};
}

int largest_difference(const struct image *a, const struct image *b)
{
    int largest = 0;
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    for (size_t i = 0; i < 3 * (size_t)a->width * (size_t)a->height; i++) {
        int d = abs(a->rgb[i] - b->rgb[i]);
        if (d > largest) largest = d;
    }
    return largest;
}

/* Accepts the error of a missing library of HEIC, AVIF or TIFF. */
static bool excused(const ey_err *e)
{
    return strstr(e->text, "libheif") || strstr(e->text, "libtiff") ||
           strstr(e->text, "not supported by this build");
}

void check_image(const char *name, int tolerance)
{
    size_t n;
    char ppm[64];
    ey_err e;
    struct image image;
    char *data = data_file(name, &n);
    bool ok = image_decode(&image, data, n, name, &e);
    free(data);
    if (!ok && tolerance && excused(&e)) return;
    if (!ok) fail_msg("%s", e.text);
    snprintf(ppm, sizeof(ppm), "%s.ppm", name);
    struct image expected = data_ppm(ppm);
    int difference = largest_difference(&image, &expected);
    if (difference > tolerance) fail_msg("%s: differs by %d", name, difference);
    image_free(&image);
    image_free(&expected);
}

bool decodes(const void *bytes, size_t n, const char *name, ey_err *e)
{
    struct image image;
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n) memcpy(copy, bytes, n);
    *e = (ey_err){0};
    bool ok = image_decode(&image, copy, n, name, e);
    free(copy);
    if (!ok) {
        assert_null(image.rgb);
        assert_true(e->code != EY_OK);
        assert_memory_equal(e->text, name, strlen(name));
    }
    image_free(&image);
    return ok;
}

int main(void)
{
    sandbox_set_helper(EY_HELPER);
    return run_decode_tests() + run_heif_tests() + run_reports_tests() + run_resize_tests() > 0;
}
