/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of PDF and TIFF files. Run it in the source tree's top. data/two.pdf and two.tif contain
 * examples/word-2.jpg and shapes-1.png, the PDF at 100 dpi, written by Pillow. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "document/document.h"
#include "document/pdf_pages.h"
#include "image/image.h"
#include "sandbox/sandbox.h"

static const struct document_wait no_wait = {NULL, NULL, 0};

static char *read_data(const char *name, size_t *n)
{
    char *bytes = NULL;
    ey_err e;
    if (!file_read(&bytes, n, name, 1 << 20, &e)) fail_msg("%s", e.text);
    return bytes;
}

static struct image decode_page(const struct paged_document *d, int page, int dpi)
{
    char *bytes;
    size_t n;
    ey_err e;
    struct image image;
    if (!document_page(d, page, dpi, &no_wait, &bytes, &n, &e)) fail_msg("%s", e.text);
    if (!image_decode(&image, bytes, n, "page", &e)) fail_msg("%s", e.text);
    free(bytes);
    return image;
}

/* Mean difference of two images' values. */
static double mean_difference(const struct image *a, const struct image *b)
{
    double sum = 0;
    size_t n = 3 * (size_t)a->width * (size_t)a->height;
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    for (size_t i = 0; i < n; i++)
        sum += abs(a->rgb[i] - b->rgb[i]);
    return sum / (double)n;
}

static void check_pages(const struct paged_document *d, double tolerance)
{
    static const char *const sources[] = {"examples/word-2.jpg", "examples/shapes-1.png"};
    assert_int_equal(d->n_pages, 2);
    for (int page = 1; page <= 2; page++) {
        size_t n;
        ey_err e;
        char *source = read_data(sources[page - 1], &n);
        struct image expected, image = decode_page(d, page, 100);
        assert_true(image_decode(&expected, source, n, "source", &e));
        double difference = mean_difference(&image, &expected);
        if (difference > tolerance) fail_msg("page %d differs by %f", page, difference);
        image_free(&image);
        image_free(&expected);
        free(source);
    }
}

/* A machine may lack pdftoppm or Landlock, or libtiff. */
static bool lacks_program(const ey_err *e)
{
    return strstr(e->text, "poppler-utils") || strstr(e->text, "Landlock");
}

static void pages_of_a_pdf(void **state)
{
    (void)state;
    size_t n;
    ey_err e;
    struct paged_document d;
    char *bytes = read_data("tests/document/data/two.pdf", &n);
    assert_true(document_is(bytes, n));
    bool ok = document_open(&d, bytes, n, "two.pdf", &no_wait, &e);
    if (!ok && !lacks_program(&e)) fail_msg("%s", e.text);
    if (ok) {
        check_pages(&d, 4); /* losses of JPEG and of rendering */
        struct image half = decode_page(&d, 2, 50);
        assert_int_equal(half.width, 240);
        image_free(&half);
        char *none;
        assert_false(document_page(&d, 3, 50, &no_wait, &none, &n, &e));
        assert_string_equal(e.text, "two.pdf has 2 pages, but no page 3");
    }
    document_close(&d);
    free(bytes);
}

static void pages_of_a_tiff(void **state)
{
    (void)state;
    size_t n;
    ey_err e;
    struct paged_document d;
    struct image first;
    char *bytes = read_data("tests/document/data/two.tif", &n);
    assert_true(document_is(bytes, n));
    assert_false(document_is_pdf(bytes, n));
    assert_true(document_open(&d, bytes, n, "two.tif", &no_wait, &e));
    bool decodes = image_decode(&first, bytes, n, "two.tif", &e);
    image_free(&first);
    if (decodes)
        check_pages(&d, 0.1);
    else if (!strstr(e.text, "libtiff") && !strstr(e.text, "not supported by this build"))
        fail_msg("%s", e.text);
    document_close(&d);
    free(bytes);
}

static void damaged_pdfs_are_named(void **state)
{
    (void)state;
    static const char *const bodies[] = {"%PDF-1.4\n",
                                         "%PDF-1.7\nxref\ntrailer<</Root 1 0 R>>\n%%EOF"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct paged_document d;
        ey_err e;
        assert_false(document_open(&d, bodies[i], strlen(bodies[i]), "a.pdf", &no_wait, &e));
        assert_int_equal(strncmp(e.text, "a.pdf: ", 7), 0);
        if (!lacks_program(&e) && !strstr(e.text, "damaged, or needs a password"))
            fail_msg("%s", e.text);
        document_close(&d);
    }
}

static void without_the_program_the_package_is_named(void **state)
{
    (void)state;
    struct paged_document d;
    ey_err e;
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent:/usr/nonexistent", 1);
    assert_false(document_open(&d, "%PDF-1.4", 8, "a.pdf", &no_wait, &e));
    assert_int_equal(e.code, EY_IO);
    assert_non_null(strstr(e.text, "install the package poppler-utils"));
    document_close(&d);
    setenv("PATH", path, 1);
    free(path);
}

/* Numbers that a hostile file makes pdfinfo print are bounded. */
static void pdfinfo_output_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n_pages;
        double width; /* of page 1 */
    } rows[] = {
        {"Title: x\nPages:           3\nPage    1 size:  595.44 x 842.04 pts (A4)\n", 3, 595.44},
        {"Page 1 size: 5 x 5 pts\nPages: 1\n", 1, 612},
        {"Pages: 2\nPage 1 size: -5 x 842 pts\nPage 3 size: 7 x 7 pts\n", 2, 612},
        {"Pages: 2\nPage 1 size: 1e30 x 842 pts\nPage -1 size: 7 x 7 pts\n", 2, 612},
        {"Pages: 12000\nPage 10001 size: 9 x 9 pts\n", 12000, 612},
        {"Pages: 99999999999999999999\n", INT_MAX, 612},
        {"Pages: 5\nPages: 1\nPage 4 size: 9 x 9 pts", 1, 612},
        {"Pages: 0\n", 0, 0},
        {"Pages: -3\n", 0, 0},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct paged_document d = {.name = "a.pdf"};
        ey_err e;
        bool ok = pdf_read_info(&d, rows[i].text, strlen(rows[i].text), &e);
        assert_int_equal(ok, rows[i].n_pages > 0);
        if (ok) assert_int_equal(d.n_pages, rows[i].n_pages);
        if (ok) assert_true(d.sizes[0].width == rows[i].width);
        if (d.n_pages == 12000) {
            assert_true(document_check_page(&d, DOCUMENT_MOST_PAGES, &e));
            assert_false(document_check_page(&d, DOCUMENT_MOST_PAGES + 1, &e));
            assert_string_equal(e.text,
                                "a.pdf has 12000 pages, but only the first 10000 can be rendered");
        }
        document_close(&d);
    }
}

/* A page with too many pixels at the requested resolution is rendered at a lower one. */
static void huge_pages_are_rendered_smaller(void **state)
{
    (void)state;
    size_t n;
    ey_err e;
    struct paged_document d;
    char *bytes = read_data("tests/document/data/two.pdf", &n);
    if (document_open(&d, bytes, n, "two.pdf", &no_wait, &e)) {
        struct image image = decode_page(&d, 1, 1200); /* would be 7680 x 4320 */
        size_t pixels = (size_t)image.width * (size_t)image.height;
        assert_true(pixels > 16000000 && pixels < 17000000);
        image_free(&image);
    }
    document_close(&d);
    free(bytes);
}

int main(void)
{
    sandbox_set_helper(EY_HELPER);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_a_pdf),
        cmocka_unit_test(pages_of_a_tiff),
        cmocka_unit_test(damaged_pdfs_are_named),
        cmocka_unit_test(without_the_program_the_package_is_named),
        cmocka_unit_test(pdfinfo_output_is_checked),
        cmocka_unit_test(huge_pages_are_rendered_smaller),
    };
    return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
