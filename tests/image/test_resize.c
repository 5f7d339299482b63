/* SPDX-License-Identifier: Apache-2.0 */
/* From pixels to patches: sizes (spec 5.1), resampling (5.2) and patches (5.3 and 5.4). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/test_image.h"

static struct patch_spec spec_with_max(uint64_t max_pixels)
{
    return (struct patch_spec){16, 2, 2, 65536, max_pixels, {0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
}

enum { DEFAULT_MAX = 16777216 };

static const struct {
    int height, width;
    uint64_t max_pixels;
    int out_height, out_width;
} sizes[] = {
    {1080, 1920, DEFAULT_MAX, 1088, 1920}, {720, 1280, DEFAULT_MAX, 704, 1280},
    {480, 640, DEFAULT_MAX, 480, 640},     {600, 800, DEFAULT_MAX, 608, 800},
    {768, 1024, DEFAULT_MAX, 768, 1024},   {224, 224, DEFAULT_MAX, 256, 256},
    {100, 100, DEFAULT_MAX, 256, 256},     {240, 320, DEFAULT_MAX, 256, 320},
    {272, 272, DEFAULT_MAX, 256, 256},     {304, 304, DEFAULT_MAX, 320, 320},
    {336, 336, DEFAULT_MAX, 320, 320},     {80, 1600, DEFAULT_MAX, 64, 1600},
    {3024, 4032, DEFAULT_MAX, 3008, 4032}, {5000, 5000, DEFAULT_MAX, 4096, 4096},
    {2160, 3840, DEFAULT_MAX, 2176, 3840}, {6000, 4000, DEFAULT_MAX, 4992, 3328},
    {10, 1500, DEFAULT_MAX, 32, 3136},     {1, 200, DEFAULT_MAX, 32, 3648},
    {1365, 2048, DEFAULT_MAX, 1376, 2048}, {1040, 1040, DEFAULT_MAX, 1024, 1024},
    {1024, 1024, DEFAULT_MAX, 1024, 1024}, {2048, 2048, DEFAULT_MAX, 2048, 2048},
    {1080, 1920, 1280 * 1024, 832, 1504},  {3024, 4032, 1280 * 1024, 960, 1312},
    {3024, 4032, 1024 * 1024, 864, 1152},  {3024, 4032, 4096 * 1024, 1760, 2336},
    {200, 1, DEFAULT_MAX, 3648, 32},       {1, 1, DEFAULT_MAX, 256, 256},
};

static void sizes_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct patch_spec spec = spec_with_max(sizes[i].max_pixels);
        int width, height;
        ey_err e;
        assert_true(image_smart_size(sizes[i].width, sizes[i].height, &spec, &width, &height, &e));
        if (width != sizes[i].out_width || height != sizes[i].out_height)
            fail_msg("%dx%d gives %dx%d", sizes[i].height, sizes[i].width, height, width);
    }
}

static void narrow_images_are_refused(void **state)
{
    (void)state;
    struct patch_spec spec = spec_with_max(DEFAULT_MAX);
    int width, height;
    ey_err e;
    assert_false(image_smart_size(201, 1, &spec, &width, &height, &e));
    assert_int_equal(e.code, EY_BAD_IMAGE);
    assert_false(image_smart_size(10, 2001, &spec, &width, &height, &e));
    assert_true(image_smart_size(10, 2000, &spec, &width, &height, &e));
    spec.min_pixels = spec.max_pixels = UINT64_MAX;
    assert_false(image_smart_size(100, 100, &spec, &width, &height, &e));
    assert_int_equal(e.code, EY_BAD_MODEL);
}

/* ---- resampling ---- */

/* The weights among spec 5.2's check values, read from an image with one bright pixel. */
static const struct {
    int in, out, lit, at, bits;
    int weight;
} weights[] = {
    {4, 2, 0, 0, 16, 30060}, {4, 2, 1, 0, 16, 30060}, {4, 2, 2, 0, 16, 7853},
    {4, 2, 3, 0, 16, -2437}, {3, 2, 0, 0, 15, 21302}, {3, 2, 1, 0, 15, 12781},
    {3, 2, 2, 0, 15, -1315}, {2, 4, 0, 0, 14, 17830}, {2, 4, 1, 0, 14, -1446},
    {2, 4, 0, 1, 14, 12990}, {2, 4, 1, 1, 14, 3394},  {5, 3, 2, 1, 15, 19051},
    {5, 3, 1, 1, 15, 8078},  {5, 3, 0, 1, 15, -1219},
};

static int clamp(int v)
{
    return v < 0 ? 0 : v > 255 ? 255 : v;
}

static void check_weight(size_t row, bool tall, int value)
{
    uint8_t rgb[3 * 5] = {0};
    memset(rgb + 3 * weights[row].lit, value, 3);
    int in = weights[row].in, out = weights[row].out;
    struct image line = {.width = tall ? 1 : in, .height = tall ? in : 1, .rgb = rgb}, resized;
    ey_err e;
    assert_true(image_resize(&resized, &line, tall ? 1 : out, tall ? out : 1, &e));
    int expected = clamp(((1 << (weights[row].bits - 1)) + weights[row].weight * value) >>
                         weights[row].bits);
    for (int c = 0; c < 3; c++)
        assert_int_equal(resized.rgb[3 * weights[row].at + c], expected);
    image_free(&resized);
}

static void weights_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
        for (int value = 0; value < 256; value++) {
            check_weight(i, false, value);
            check_weight(i, true, value);
        }
}

static const struct {
    int width, height;
} resized_to[] = {{64, 32}, {64, 27}, {35, 64}, {20, 13}, {20, 27},
                  {35, 9},  {5, 3},   {96, 7},  {1, 1}};

static void resized_images_are_the_references(void **state)
{
    (void)state;
    struct image photo = data_ppm("photo.ppm");
    for (size_t i = 0; i < sizeof(resized_to) / sizeof(resized_to[0]); i++) {
        char name[64];
        ey_err e;
        struct image resized;
        snprintf(name, sizeof(name), "resized-%dx%d.ppm", resized_to[i].width,
                 resized_to[i].height);
        struct image expected = data_ppm(name);
        assert_true(image_resize(&resized, &photo, resized_to[i].width, resized_to[i].height, &e));
        if (largest_difference(&resized, &expected) != 0) fail_msg("%s differs", name);
        image_free(&resized);
        image_free(&expected);
    }
    image_free(&photo);
}

static void same_size_is_a_copy(void **state)
{
    (void)state;
    struct image photo = data_ppm("photo.ppm"), copy;
    ey_err e;
    assert_true(image_resize(&copy, &photo, photo.width, photo.height, &e));
    assert_ptr_not_equal(copy.rgb, photo.rgb);
    assert_int_equal(largest_difference(&copy, &photo), 0);
    image_free(&copy);
    image_free(&photo);
}

/* Weights sum to one only within rounding; gray and the extremes must still be preserved. */
static void flat_images_stay_flat(void **state)
{
    (void)state;
    static const int values[] = {0, 1, 128, 255};
    uint8_t rgb[3 * 50 * 41];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct image flat = {.width = 50, .height = 41, .rgb = rgb}, resized;
        ey_err e;
        memset(rgb, values[i], sizeof(rgb));
        assert_true(image_resize(&resized, &flat, 33, 97, &e));
        for (size_t k = 0; k < 3 * 33 * 97; k++)
            assert_int_equal(resized.rgb[k], values[i]);
        image_free(&resized);
    }
}

/* ---- patches ---- */

static uint8_t pixel_at(int x, int y, int c)
{
    return (uint8_t)(x * 7 + y * 31 + c * 101);
}

static struct image pattern(int width, int height)
{
    struct image image = {
        .width = width, .height = height, .rgb = malloc(3 * (size_t)width * (size_t)height)};
    assert_non_null(image.rgb);
    for (int i = 0; i < width * height; i++)
        for (int c = 0; c < 3; c++)
            image.rgb[3 * i + c] = pixel_at(i % width, i / width, c);
    return image;
}

/* Rows of a 4x6 grid, as spec 4.1 lists them. */
static const struct {
    int row, column;
} order[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3},
             {0, 4}, {0, 5}, {1, 4}, {1, 5}, {2, 0}, {2, 1}, {3, 0}, {3, 1},
             {2, 2}, {2, 3}, {3, 2}, {3, 3}, {2, 4}, {2, 5}, {3, 4}, {3, 5}};

static void patches_are_in_merge_block_order(void **state)
{
    (void)state;
    struct patch_spec spec = spec_with_max(DEFAULT_MAX);
    struct image image = pattern(6 * 16, 4 * 16);
    const size_t length = 3 * 2 * 16 * 16;
    float *out = malloc(24 * length * sizeof(*out));
    assert_non_null(out);
    image_patchify(out, &image, &spec);
    for (int p = 0; p < 24; p++)
        for (size_t i = 0; i < length; i++) {
            int x = (int)i % 16, y = (int)i / 16 % 16, c = (int)i / 512; /* [c, t, y, x] */
            uint8_t v = pixel_at(16 * order[p].column + x, 16 * order[p].row + y, c);
            float expected = ((float)v - 127.5f) / 127.5f;
            if (out[(size_t)p * length + i] != expected) fail_msg("patch %d, value %zu", p, i);
        }
    free(out);
    image_free(&image);
}

/* Each channel has its own mean and deviation; the spec gives patch, temporal and merge sizes. */
static void patches_follow_their_spec(void **state)
{
    (void)state;
    struct patch_spec spec = {4,
                              1,
                              1,
                              1,
                              1 << 20,
                              {0.48145466f, 0.4578275f, 0.40821073f},
                              {0.26862954f, 0.26130258f, 0.27577711f}};
    struct image image = pattern(8, 4);
    float out[2 * 48];
    image_patchify(out, &image, &spec);
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 48; i++) {
            int c = i / 16;
            float mean = spec.mean[c] * 255.0f, std = spec.std[c] * 255.0f;
            float expected = ((float)pixel_at(4 * p + i % 4, i / 4 % 4, c) - mean) / std;
            assert_true(out[48 * p + i] == expected);
        }
    image_free(&image);
}

static void normalised_values(void **state)
{
    (void)state;
    struct patch_spec spec = {1, 2, 1, 1, 1 << 20, {0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
    uint8_t rgb[12] = {0, 127, 128, 255};
    struct image image = {.width = 4, .height = 1, .rgb = rgb};
    float out[4 * 6];
    image_patchify(out, &image, &spec);
    assert_true(out[0] == -1.0f && out[1] == -1.0f);
    assert_true(out[2] == -0.003921569f && out[3] == out[2]);
    assert_true(out[4] == 0.003921569f && out[5] == out[4]);
    assert_true(out[6] == 1.0f);
}

int run_resize_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_the_references),
        cmocka_unit_test(narrow_images_are_refused),
        cmocka_unit_test(weights_are_the_references),
        cmocka_unit_test(resized_images_are_the_references),
        cmocka_unit_test(same_size_is_a_copy),
        cmocka_unit_test(flat_images_stay_flat),
        cmocka_unit_test(patches_are_in_merge_block_order),
        cmocka_unit_test(patches_follow_their_spec),
        cmocka_unit_test(normalised_values),
    };
    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
