/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of src/image: what its files share. The expected images are made by make_data.py. */
#ifndef EY_TESTS_TEST_IMAGE_H
#define EY_TESTS_TEST_IMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "image/image.h"

/* A file of tests/image/data; the caller frees. */
char *data_file(const char *name, size_t *n);
/* A PPM of tests/image/data. */
struct image data_ppm(const char *name);
/* Largest difference of two images' values; fails the test when their sizes differ. */
int largest_difference(const struct image *a, const struct image *b);

/* An image of tests/image/data decodes to its PPM; tolerance 0: bit for bit. One above 0 is of HEIC
 * and AVIF, whose library a machine may lack. */
void check_image(const char *name, int tolerance);
/* Decodes from a block of exactly n bytes, so that the sanitizer sees a read past the end. */
bool decodes(const void *bytes, size_t n, const char *name, ey_err *e);

/* Each runs its file's tests; returns how many failed. */
int run_decode_tests(void);
int run_reports_tests(void);
int run_heif_tests(void);
int run_resize_tests(void);

#endif
