/* SPDX-License-Identifier: Apache-2.0 */
/* Drawn boxes: no pixel outside the image, one color for each label, labels of any bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/output/draw_boxes.h"

static struct image gray(int width, int height)
{
    size_t n = (size_t)width * (size_t)height * 3;
    struct image image = {.width = width, .height = height, .rgb = malloc(n)};
    assert_non_null(image.rgb);
    memset(image.rgb, 90, n);
    return image;
}

static const uint8_t *pixel(const struct image *image, int x, int y)
{
    return image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
}

/* Sanitizers check the bounds. */
static void any_box_in_any_image(void **state)
{
    (void)state;
    for (int width = 1; width < 60; width += 7)
        for (int height = 1; height < 60; height += 7) {
            struct image image = gray(width, height);
            struct drawn_box boxes[] = {{0, 0, width, height, "whole", 0},
                                        {-100, -100, 1000, 1000, "around", 0},
                                        {width, height, width, height, "end", 0},
                                        {-50, 5, -10, 10, "outside", 0},
                                        {5, 5, 5, 5, "", 0},
                                        {3, 1, 9, 4, "gr\xc3\xbc\xff\n~", 0}};
            draw_boxes(&image, boxes, sizeof(boxes) / sizeof(boxes[0]));
            image_free(&image);
        }
}

static void a_colour_a_label(void **state)
{
    (void)state;
    struct image image = gray(300, 200);
    struct drawn_box boxes[] = {
        {10, 60, 60, 120, "car", 0}, {100, 60, 160, 120, "dog", 0}, {200, 60, 260, 120, "car", 0}};
    draw_boxes(&image, boxes, 3);
    assert_memory_equal(pixel(&image, 10, 90), pixel(&image, 200, 90), 3);
    assert_memory_not_equal(pixel(&image, 10, 90), pixel(&image, 100, 90), 3);
    assert_int_equal(*pixel(&image, 35, 90), 90); /* inside: unchanged */
    assert_int_equal(*pixel(&image, 5, 90), 90);  /* outside */
    assert_memory_equal(pixel(&image, 10, 59), pixel(&image, 10, 90),
                        3); /* the label's background, above */
    image_free(&image);
}

static void a_label_without_room_above_stands_inside(void **state)
{
    (void)state;
    struct image image = gray(300, 200);
    struct drawn_box box = {10, 5, 200, 150, "car", 0};
    draw_boxes(&image, &box, 1);
    assert_int_equal(*pixel(&image, 30, 2), 90);
    assert_memory_equal(pixel(&image, 14, 15), pixel(&image, 10, 100), 3);
    image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_box_in_any_image),
        cmocka_unit_test(a_colour_a_label),
        cmocka_unit_test(a_label_without_room_above_stands_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
