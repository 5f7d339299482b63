/* SPDX-License-Identifier: Apache-2.0 */
/* make_image WIDTH HEIGHT OUT.png: writes an image of this size with smooth colours. */
#include <stdio.h>
#include <stdlib.h>

#include "image/image.h"

int main(int argc, char **argv)
{
    ey_err e = {0};
    struct image image = {.width = argc == 4 ? atoi(argv[1]) : 0,
                          .height = argc == 4 ? atoi(argv[2]) : 0};
    if (image.width < 1 || image.height < 1 ||
        !(image.rgb = malloc((size_t)image.width * (size_t)image.height * 3))) {
        fputs("usage: make_image WIDTH HEIGHT OUT.png\n", stderr);
        return 2;
    }
    for (int y = 0; y < image.height; y++)
        for (int x = 0; x < image.width; x++) {
            uint8_t *p = image.rgb + 3 * ((size_t)y * (size_t)image.width + (size_t)x);
            p[0] = (uint8_t)(x / 4);
            p[1] = (uint8_t)(y / 3);
            p[2] = (uint8_t)((x + y) / 7);
        }
    bool ok = image_write_png(&image, argv[3], &e);
    if (!ok) fprintf(stderr, "make_image: %s\n", e.text);
    free(image.rgb);
    return !ok;
}
