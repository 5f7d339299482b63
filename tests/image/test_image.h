/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of src/image. make_data.py makes the expected images. */
#ifndef EY_TESTS_TEST_IMAGE_H
#define EY_TESTS_TEST_IMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "image/image.h"

/* Reads a file of tests/image/data; the caller frees it. */
char *data_file(const char *name, size_t *n);
/* Reads a PPM of tests/image/data. */
struct image data_ppm(const char *name);
/* Returns the largest difference of two images' values; different sizes fail the test. */
int largest_difference(const struct image *a, const struct image *b);

/* Decodes an image of tests/image/data and compares it with its PPM. tolerance 0: bit for bit;
 * above 0 only for HEIC and AVIF, whose library may be missing. */
void check_image(const char *name, int tolerance);
/* Decodes from a block of exactly n bytes, so that the sanitizer sees a read past the end. */
bool decodes(const void *bytes, size_t n, const char *name, ey_err *e);

/* Each runs the tests of its file and returns the number of failures. */
int run_decode_tests(void);
int run_reports_tests(void);
int run_heif_tests(void);
int run_resize_tests(void);

#endif
