/* SPDX-License-Identifier: Apache-2.0 */
/* Images of phones and programs that decoders fail on, after public bug reports.
 * tools/make_image_cases.py makes them and their expected pixels. */
#include <stdlib.h>
#include <string.h>

#include "image/test_image.h"

static const struct {
    const char *name;
    int tolerance;
} reported[] = {
    {"reports/alpha-of-two.avif", 3},
    {"reports/alpha-of-two.heic", 3},
    {"reports/exif-1-xmp-8.jpg", 0},
    {"reports/exif-before-profile.png", 0},
    {"reports/exif-byte.jpg", 0},
    {"reports/exif-ifd.jpg", 0},
    {"reports/exif-long-xmp.webp", 0},
    {"reports/exif-long.jpg", 0},
    {"reports/exif-long8.jpg", 0},
    {"reports/exif-none-profile-6-xmp-3.png", 0},
    {"reports/exif-none-xmp-8.jpg", 0},
    {"reports/exif-prefix-twice.jpg", 0},
    {"reports/exif-sbyte.jpg", 0},
    {"reports/exif-short-big.jpg", 0},
    {"reports/exif-slong.jpg", 0},
    {"reports/exif-sshort.jpg", 0},
    {"reports/exif-two.jpg", 0},
    {"reports/exif-unknown-type-xmp-6.jpg", 0},
    {"reports/exif-zero-xmp-6.jpg", 0},
    {"reports/gain-map-other-order.avif", 3},
    {"reports/gain-map-other-order.heic", 3},
    {"reports/gain-map.avif", 3},
    {"reports/gain-map.heic", 3},
    {"reports/gone.avif", 3},
    {"reports/grid.avif", 3},
    {"reports/grid.heic", 3},
    {"reports/idat-checksum.png", 0},
    {"reports/idat-checksums.png", 0},
    {"reports/no-end-420.jpg", 0},
    {"reports/no-end-422.jpg", 0},
    {"reports/no-end-444.jpg", 0},
    {"reports/no-end-bare-420.jpg", 0},
    {"reports/no-end-bare-restart.jpg", 0},
    {"reports/no-end-cmyk.jpg", 0},
    {"reports/no-end-gray.jpg", 0},
    {"reports/no-end-inner.jpg", 0},
    {"reports/no-end-restart.jpg", 0},
    {"reports/no-end-restarts-behind.jpg", 0},
    {"reports/no-end-segment.jpg", 0},
    {"reports/premultiplied-of-two.avif", 3},
    {"reports/premultiplied-of-two.heic", 3},
    {"reports/premultiplied.avif", 3},
    {"reports/premultiplied.heic", 3},
    {"reports/profile-behind-xmp.png", 0},
    {"reports/profile-none-xmp-5.png", 0},
    {"reports/profile-packed.png", 0},
    {"reports/profile-text.png", 0},
    {"reports/thumbnail-of-two.avif", 3},
    {"reports/thumbnail-of-two.heic", 3},
    {"reports/wide-ids.avif", 3},
    {"reports/wide-ids.heic", 3},
    {"reports/window-256.png", 0},
    {"reports/window-and-checksum.png", 0},
    {"reports/xmp-attribute.jpg", 0},
    {"reports/xmp-element.jpg", 0},
    {"reports/xmp-elsewhere.png", 0},
    {"reports/xmp-packed-behind.png", 0},
    {"reports/xmp-quoted-otherwise.jpg", 0},
    {"reports/xmp-two.jpg", 0},
    {"reports/xmp-ztxt.png", 0},
    {"reports/xmp.png", 0},
    {"reports/xmp.webp", 0},
};
enum { N_REPORTED = sizeof(reported) / sizeof(reported[0]) };

static void reported_images_decode_as_expected(void **state)
{
    (void)state;
    for (int i = 0; i < N_REPORTED; i++)
        check_image(reported[i].name, reported[i].tolerance);
}

/* Damages every third byte of the first 900, and every 37th of HEIF files, whose codecs print
 * messages about some of it. */
static void damaged_metadata_does_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < N_REPORTED; i++) {
        size_t n;
        ey_err e;
        size_t step = reported[i].tolerance ? 37 : 3;
        char *data = data_file(reported[i].name, &n);
        for (size_t at = 0; at < n && at < 900; at += step) {
            char old = data[at];
            data[at] = (char)(at % 2 ? old + 1 : ~old);
            decodes(data, n, reported[i].name, &e);
            data[at] = old;
        }
        free(data);
    }
}

/* A file without an end marker is accepted only if its last block of pixels is complete. */
static void missing_pixels_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"reports/no-end-bare-420.jpg",
                                        "reports/no-end-bare-restart.jpg"};
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        ey_err e;
        char *data = data_file(names[i], &n);
        for (size_t cut = 1; cut < n; cut++) {
            if (decodes(data, n - cut, names[i], &e))
                fail_msg("%s without its last %zu bytes was accepted", names[i], cut);
            assert_int_equal(e.code, EY_BAD_IMAGE);
        }
        free(data);
    }
}

/* As in Pillow, wrong checksums are ignored only in chunks of pixels. */
static void checksum_of_header_counts(void **state)
{
    (void)state;
    size_t n;
    ey_err e;
    char *data = data_file("reports/idat-checksum.png", &n);
    data[8 + 8 + 13] ^= 1;
    assert_false(decodes(data, n, "header.png", &e));
    assert_non_null(strstr(e.text, "CRC"));
    free(data);
}

int run_reports_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reported_images_decode_as_expected),
        cmocka_unit_test(damaged_metadata_does_no_harm),
        cmocka_unit_test(missing_pixels_are_refused),
        cmocka_unit_test(checksum_of_header_counts),
    };
    return cmocka_run_group_tests_name("reports", tests, NULL, NULL);
}
