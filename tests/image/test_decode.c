/* SPDX-License-Identifier: Apache-2.0 */
/* Every image format against its expected pixels; damaged, hostile and foreign files against their
 * errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/yardstick.h"
#include "image/codecs/tiff_pages.h"
#include "image/test_image.h"
#include "sandbox/sandbox.h"

static const struct {
    const char *name;
    int tolerance; /* 0: bit for bit as Pillow; above 0: decoded by a library that may be missing */
} images[] = {
    {"444.jpg", 0},
    {"422.jpg", 0},
    {"420.jpg", 0},
    {"420-low.jpg", 0},
    {"440.jpg", 0},
    {"411.jpg", 0},
    {"gray.jpg", 0},
    {"progressive.jpg", 0},
    {"restart.jpg", 0},
    {"arithmetic.jpg", 0},
    {"cmyk.jpg", 0},
    {"ycck.jpg", 0},
    {"rgb.jpg", 0},
    {"tiny.jpg", 0},
    {"tail.jpg", 0},
    {"xmp-first.jpg", 0},
    {"exif-1.jpg", 0},
    {"exif-2.jpg", 0},
    {"exif-3.jpg", 0},
    {"exif-4.jpg", 0},
    {"exif-5.jpg", 0},
    {"exif-6.jpg", 0},
    {"exif-7.jpg", 0},
    {"exif-8.jpg", 0},
    {"exif-9.jpg", 0},
    {"rgb.png", 0},
    {"rgba.png", 0},
    {"rgb-interlaced.png", 0},
    {"rgba-interlaced.png", 0},
    {"gray1.png", 0},
    {"gray2.png", 0},
    {"gray4.png", 0},
    {"gray8.png", 0},
    {"gray1-interlaced.png", 0},
    {"gray2-interlaced.png", 0},
    {"gray4-interlaced.png", 0},
    {"gray8-interlaced.png", 0},
    {"palette1.png", 0},
    {"palette2.png", 0},
    {"palette4.png", 0},
    {"palette8.png", 0},
    {"palette1-alpha.png", 0},
    {"palette2-alpha.png", 0},
    {"palette4-alpha.png", 0},
    {"palette8-alpha.png", 0},
    {"gray-alpha.png", 0},
    {"gray-key.png", 0},
    {"rgb-key.png", 0},
    {"rgb16.png", 0},
    {"rgb16-interlaced.png", 0},
    {"rgba16.png", 0},
    {"gray16.png", 0},
    {"gray16-key.png", 0},
    {"gray-alpha16.png", 0},
    {"gamma-text.png", 0},
    {"exif.png", 0},
    {"exif-late.png", 0},
    {"one.png", 0},
    {"lossy.webp", 0},
    {"lossless.webp", 0},
    {"lossy-alpha.webp", 0},
    {"lossless-alpha.webp", 0},
    {"exif.webp", 0},
    {"exif-raw.webp", 0},
    {"animated.webp", 0},
    {"animated-alpha.webp", 0},
    {"part.webp", 0},
    {"part-alpha.webp", 0},
    {"still.gif", 0},
    {"plain.gif", 0},
    {"interlaced.gif", 0},
    {"transparent.gif", 0},
    {"local.gif", 0},
    {"local-only.gif", 0},
    {"frames.gif", 0},
    {"animated.gif", 0},
    {"part.gif", 0},
    {"part-transparent.gif", 0},
    {"beyond.gif", 0},
    {"plain.heic", 3},
    {"alpha.heic", 3},
    {"plain.avif", 3},
    {"alpha.avif", 3},
    {"turned.avif", 3},
    {"mirrored.avif", 3},
    {"deep.avif", 3},
    {"rgb24.bmp", 0},
    {"gray8.bmp", 0},
    {"one.bmp", 0},
    {"palette4.bmp", 0},
    {"rle8.bmp", 0},
    {"rle4.bmp", 0},
    {"555.bmp", 0},
    {"565.bmp", 0},
    {"rgb32.bmp", 0},
    {"rgba32.bmp", 0},
    {"top-down.bmp", 0},
    {"os2.bmp", 0},
    {"rgb.pnm", 0},
    {"gray.pnm", 0},
    {"bits.pnm", 0},
    {"plain-rgb.pnm", 0},
    {"plain-gray.pnm", 0},
    {"plain-bits.pnm", 0},
    {"most100.pnm", 0},
    {"wide.pnm", 0},
    {"plain.tif", 1},
    {"lzw.tif", 1},
    {"deflate.tif", 1},
    {"packbits.tif", 1},
    {"group4.tif", 1},
    {"gray.tif", 1},
    {"palette.tif", 1},
    {"cmyk.tif", 1},
    {"rgba.tif", 1},
    {"jpeg.tif", 3},
    {"tiles.tif", 1},
    {"planes.tif", 1},
    {"big-endian.tif", 1},
    {"bigtiff.tif", 1},
    {"gray16.tif", 1},
    {"turned-3.tif", 1},
    {"turned-6.tif", 1},
    {"turned-8.tif", 1},
    {"pages.tif", 1},
};
enum { N_IMAGES = sizeof(images) / sizeof(images[0]) };

static void images_decode_as_expected(void **state)
{
    (void)state;
    for (int i = 0; i < N_IMAGES; i++)
        check_image(images[i].name, images[i].tolerance);
}

/* ---- damage ---- */

/* A file that is cut anywhere before its last bytes (a checksum, a terminator) is refused. */
static void cut_files_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < N_IMAGES; i++) {
        size_t n;
        ey_err e;
        char *data = data_file(images[i].name, &n);
        if (images[i].tolerance || strcmp(images[i].name, "tail.jpg") == 0) {
            free(data);
            continue; /* the last bytes of these are not needed */
        }
        bool first_of_many = strstr(images[i].name, "frames") ||
                             strstr(images[i].name, "animated.gif");
        size_t end = first_of_many ? n / 3 : n > 80 ? n - 40 : n / 2;
        if (strstr(images[i].name, "exif-late")) end -= 60;
        for (size_t cut = 1; cut < end; cut += 1 + n / 97) {
            if (decodes(data, cut, images[i].name, &e))
                fail_msg("%s of %zu bytes, cut to %zu, was accepted", images[i].name, n, cut);
            assert_int_equal(e.code, EY_BAD_IMAGE);
        }
        free(data);
    }
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int i = 0; i < N_IMAGES; i++) {
        size_t n;
        ey_err e;
        char *data = data_file(images[i].name, &n);
        for (int k = 0; k < 20; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % n;
            char old = data[at];
            data[at] = (char)(random >> 24);
            decodes(data, n, images[i].name, &e);
            data[at] = old;
        }
        free(data);
    }
}

/* ---- files that are no image, or another kind ---- */

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *name, *bytes;
    size_t n;
    const char *message;
} foreign[] = {
    {"photo.tiff", BYTES("II*\0\x08\0\0\0\0\0\0\0"),
     "photo.tiff: this TIFF is truncated or damaged"},
    {"a.tif", BYTES("MM\0*\0\0\0\x08"), "a.tif: this TIFF is truncated or damaged"},
    {"a.bmp", BYTES("BM\x46\0\0\0\0\0\0\0\x36\0\0\0"), "a.bmp: this BMP is truncated or damaged"},
    {"a.ppm", BYTES("P6\n4 4\n"), "a.ppm: this PNM is truncated or damaged (its header)"},
    {"b.ppm", BYTES("P6\n4 4\n255\nabc"), "b.ppm: this PNM is truncated or damaged (too few"},
    {"p.txt", BYTES("P6 is a format of netpbm"), "p.txt: this PNM is truncated or damaged"},
    {"a.svg", BYTES("<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
     "a.svg: an SVG drawing"},
    {"a.pdf", BYTES("%PDF-1.7\n"), "a.pdf: a PDF document"},
    {"a.psd", BYTES("8BPS\0\1\0\0"), "a.psd: a PSD file"},
    {"a.ico", BYTES("\0\0\1\0\1\0"), "a.ico: an ICO file"},
    {"a.jp2", BYTES("\0\0\0\x0cjP  \r\n\x87\n"), "a.jp2: a JPEG 2000 file"},
    {"a.j2k", BYTES("\xff\x4f\xff\x51\0\x2f"), "a.j2k: a JPEG 2000 file"},
    {"a.jxl", BYTES("\xff\x0a\xfa\x7f\x01"), "a.jxl: a JPEG XL file"},
    {"b.jxl", BYTES("\0\0\0\x0cJXL \r\n\x87\n"), "b.jxl: a JPEG XL file"},
    {"a.mp4",
     BYTES("\0\0\0\x18"
           "ftypisom\0\0\2\0isomiso2"),
     "a.mp4: a video (MP4 or QuickTime)"},
    {"a.mov",
     BYTES("\0\0\0\x14"
           "ftypqt  \0\0\2\0qt  "),
     "a.mov: a video (MP4 or QuickTime)"},
    {"a.webm", BYTES("\x1a\x45\xdf\xa3\x01\0"), "a.webm: a video (WebM or Matroska)"},
    {"a.avi", BYTES("RIFF\0\0\0\0AVI LIST"), "a.avi: a video (AVI)"},
    {"page.jpg", BYTES("<!DOCTYPE html>\n<html><head>"),
     "page.jpg: looks like text, not an image (a web page"},
    {"note.jpg",
     BYTES("Sch\xc3\xb6ne Gr\xc3\xbc\xc3\x9f"
           "e!\r\n"),
     "note.jpg: looks like text, not an image"},
    {"key.json", BYTES("{\"error\": \"not found\"}"), "key.json: looks like text, not an image"},
    {"empty.png", "", 0, "empty.png: the file is empty (0 bytes)"},
    {"noise.jpg", BYTES("\x01\x02\x03\x04\x05"),
     "noise.jpg: not an image in a format eyelet knows"},
    {"one.bin", BYTES("\xfe"), "one.bin: not an image in a format eyelet knows"},
};

static void foreign_files_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        ey_err e;
        assert_false(decodes(foreign[i].bytes, foreign[i].n, foreign[i].name, &e));
        assert_int_equal(e.code, EY_BAD_IMAGE);
        if (strncmp(e.text, foreign[i].message, strlen(foreign[i].message)) != 0)
            fail_msg("got \"%s\", not \"%s\"", e.text, foreign[i].message);
    }
}

/* ---- headers with excessive sizes ---- */

/* The header alone shows the excessive size: the file is refused with the numbers, before pixels
 * are allocated. */
static const struct {
    const char *name, *bytes;
    size_t n;
    const char *message;
} hostile[] = {
    {"60000.png",
     BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
           "\0\0\xea\x60\0\0\xea\x60\x08\2\0\0\0\x0f\xb0\xe2\x15\0\0\0\4IDAT\0\0\0\0\0\0\0\0"),
     "60000x60000 pixels are too many"},
    {"13000.png",
     BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
           "\0\0\x32\xc8\0\0\x32\xc8\x08\6\0\0\0\xe2\xa2\xe8\x38\0\0\0\4IDAT\0\0\0\0\0\0\0\0"),
     "truncated or damaged (too few bytes for the size it claims)"},
    {"65500.jpg",
     BYTES("\xff\xd8\xff\xc0\0\x0b\x08\xff\xdc\xff\xdc\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0\xff"
           "\xd9"),
     "65500x65500 pixels are too many"},
    {"12000.jpg",
     BYTES("\xff\xd8\xff\xc0\0\x0b\x08\x2e\xe0\x2e\xe0\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0\xff"
           "\xd9"),
     "truncated or damaged (too few bytes for the size it claims)"},
    {"65535.gif",
     BYTES("GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff,"
           "\0\0\0\0\xff\xff\xff\xff\0\2\2\x4c\1\0;"),
     "65535x65535 pixels are too many"},
    {"canvas.gif",
     BYTES("GIF89a\0\x30\0\x30\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"),
     "a canvas of 150994944 pixels around a first frame of 1"},
    {"frame.gif",
     BYTES("GIF89a\0\x30\0\x30\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\0\x30\0\x30\0\2\2\x44\1\0;"),
     "truncated or damaged (too few bytes for the size it claims)"},
    {"16384.webp",
     BYTES(
         "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\xff\xff\xff\x0f\x07\x10\x11\x11\x88\x88\xfe\x07\0"),
     "16384x16384 pixels are too many"},
    {"canvas.webp",
     BYTES("RIFF\x56\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\xff\x2f\0\xff\x2f\0ANIM\6\0\0\0\0\0\0\0\0\0A"
           "NMF\x2a\0\0\0"
           "\0\0\0\0\0\0\0\0\0\0\0\0\x64\0\0\0"
           "VP8L\x11\0\0\0\x2f\0\0\0\0\x07\x50\xe4\x26\x14\xbe\xff\x81\x88\xe8\x7f\0\0"),
     "a canvas of 150994944 pixels around a first frame of 1"},
    {"60000.bmp",
     BYTES("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x60\xea\0\0\x60\xea\0\0\1\0\x18\0\0\0\0\0"
           "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
     "60000x60000 pixels are too many"},
    {"12000.bmp",
     BYTES("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xe0\x2e\0\0\xe0\x2e\0\0\1\0\x18\0\0\0\0\0"
           "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
     "this BMP is truncated or damaged"},
    {"12000-runs.bmp",
     BYTES("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xe0\x2e\0\0\xe0\x2e\0\0\1\0\x08\0\1\0\0\0"
           "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"),
     "this BMP is truncated or damaged (too few bytes for the size it claims)"},
    {"60000.ppm", BYTES("P6 60000 60000 255 ab"), "60000x60000 pixels are too many"},
    {"12000.ppm", BYTES("P6 12000 12000 255 ab"),
     "truncated or damaged (too few bytes for the size it claims)"},
    {"digits.pgm", BYTES("P2 2 1 255 1234567890"), "this PNM is truncated or damaged"},
    {"12000.pbm", BYTES("P1 12000 12000 101"),
     "truncated or damaged (too few bytes for the size it claims)"},
    {"60000.tif",
     BYTES("II*\0\x08\0\0\0\2\0\0\1\4\0\1\0\0\0\x60\xea\0\0\1\1\4\0\1\0\0\0\x60\xea\0\0\0\0\0\0"),
     "60000x60000 pixels are too many"},
    {"tiles.tif",
     BYTES("II*\0\x08\0\0\0\4\0\0\1\4\0\1\0\0\0\1\0\0\0\1\1\4\0\1\0\0\0\1\0\0\0"
           "\x42\1\4\0\1\0\0\0\0\xff\0\0\x43\1\4\0\1\0\0\0\0\xff\0\0\0\0\0\0"),
     "this TIFF is truncated or damaged (its tiles)"},
};

/* Peak memory of the process in KiB. */
static long peak_kib(void)
{
    char *status, *line;
    size_t n;
    long kib = 0;
    if (!file_read(&status, &n, "/proc/self/status", 1 << 16, NULL)) return 0;
    if ((line = strstr(status, "VmHWM:"))) sscanf(line, "VmHWM: %ld", &kib);
    free(status);
    return kib;
}

enum { MOST_YARDSTICKS = 3 };

static void hostile_headers_cost_nothing(void **state)
{
    (void)state;
    long before = peak_kib();
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        ey_err e;
        double start = cpu_seconds();
        assert_false(decodes(hostile[i].bytes, hostile[i].n, hostile[i].name, &e));
        assert_int_equal(e.code, EY_BAD_IMAGE);
        if (!strstr(e.text, hostile[i].message))
            fail_msg("got \"%s\", not \"%s\"", e.text, hostile[i].message);
        assert_true(cpu_seconds() - start < MOST_YARDSTICKS * yardstick());
    }
    assert_true(peak_kib() - before < 16 << 10);
}

static void append(uint8_t *to, size_t *n, const void *bytes, size_t count)
{
    memcpy(to + *n, bytes, count);
    *n += count;
}

/* A progressive JPEG of 8,000x8,000 pixels with 400 scans. */
static void scan_bomb_is_refused(void **state)
{
    (void)state;
    static uint8_t file[400 * 10 + 200000];
    size_t n = 0;
    ey_err e;
    append(file, &n, BYTES("\xff\xd8\xff\xc2\0\x0b\x08\x1f\x40\x1f\x40\1\1\x11\0"));
    for (int i = 0; i < 400; i++)
        append(file, &n, BYTES("\xff\xda\0\x08\1\1\0\0\0\0"));
    n = sizeof(file) - 2;
    append(file, &n, BYTES("\xff\xd9"));
    assert_false(decodes(file, n, "bomb.jpg", &e));
    assert_non_null(strstr(e.text, "400 passes"));
}

/* Images with exactly the largest side or pixel count pass the size check and fail later, as the
 * file is short; one pixel more fails the check. */
static void size_limits_are_exact(void **state)
{
    (void)state;
    static const struct {
        uint16_t width, height;
        bool allowed;
    } rows[] = {{65500, 1, true},  {65501, 1, false},    {1, 65500, true},
                {1, 65501, false}, {13377, 13377, true}, {13378, 13377, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char gif[] = "GIF89a____\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0____\0\2\2\x44\1\0;";
        ey_err e;
        for (int k = 0; k < 2; k++) {
            char *at = gif + (k ? 24 : 6);
            at[0] = (char)rows[i].width;
            at[1] = (char)(rows[i].width >> 8);
            at[2] = (char)rows[i].height;
            at[3] = (char)(rows[i].height >> 8);
        }
        assert_false(decodes(gif, sizeof(gif) - 1, "limit.gif", &e));
        assert_int_equal(strstr(e.text, "too many") == NULL, rows[i].allowed);
    }
}

static void huge_files_are_refused_unread(void **state)
{
    (void)state;
    struct image image;
    ey_err e;
    assert_false(image_decode(&image, "x", EY_MAX_IMAGE_BYTES + 1, "big.jpg", &e));
    assert_non_null(strstr(e.text, "268435457 bytes"));
}

/* ---- pages ---- */

/* Reads page by page. The last page is rotated: its width is the height of the first. */
static void a_page_can_be_put_first(void **state)
{
    (void)state;
    size_t n;
    char *data = data_file("pages.tif", &n);
    uint64_t directory[2];
    struct tiff_page page;
    assert_int_equal(tiff_find_pages(NULL, 0, (uint8_t *)data, n), 3);
    assert_int_equal(tiff_find_pages(directory, 2, (uint8_t *)data, n), 3);
    assert_true(tiff_read_first_page(&page, (uint8_t *)data, n));
    assert_true(page.directory == directory[0]);
    assert_int_equal(page.width, 35);
    uint64_t pages[3];
    tiff_find_pages(pages, 3, (uint8_t *)data, n);
    tiff_put_page_first((uint8_t *)data, pages[2]);
    assert_true(tiff_read_first_page(&page, (uint8_t *)data, n));
    assert_int_equal(page.width, 27);
    assert_int_equal(page.height, 35);
    free(data);
}

/* Two directories that point to each other. */
static void a_circle_of_pages_ends(void **state)
{
    (void)state;
    uint8_t file[64] = "II*\0\x08";
    file[8] = 1;
    file[22] = 26;
    file[26] = 1;
    file[40] = 26;
    assert_true(tiff_find_pages(NULL, 0, file, sizeof(file)) <= sizeof(file) / 12);
    file[40] = 8;
    assert_int_equal(tiff_find_pages(NULL, 0, file, sizeof(file)), 2);
}

/* All pages are counted, not only the first 4,096. */
static void many_pages_are_counted(void **state)
{
    (void)state;
    enum { PAGES = 5000, DIRECTORY_BYTES = 18 };
    uint8_t *file = calloc(1, 8 + PAGES * DIRECTORY_BYTES);
    assert_non_null(file);
    memcpy(file, "II*\0\x08", 5);
    for (uint32_t i = 0, at = 8; i < PAGES; i++, at += DIRECTORY_BYTES) {
        const uint32_t next = i + 1 < PAGES ? at + DIRECTORY_BYTES : 0;
        file[at] = 1;
        for (int k = 0; k < 4; k++)
            file[at + DIRECTORY_BYTES - 4 + (uint32_t)k] = (uint8_t)(next >> 8 * k);
    }
    assert_int_equal(tiff_find_pages(NULL, 0, file, 8 + PAGES * DIRECTORY_BYTES), PAGES);
    free(file);
}

/* ---- turns ---- */

struct seen_turns {
    struct image_budget budget;
    int polls, with_turn;
};

/* Called while the image waits for the sandbox. */
static bool see_turn(void *user)
{
    struct seen_turns *seen = user;
    seen->polls++;
    seen->with_turn += seen->budget.computes;
    return false;
}

/* A lossless WebP keeps no compute turn while it waits for a child of the sandbox to start. */
static void waiting_for_the_sandbox_takes_no_turn(void **state)
{
    (void)state;
    size_t n;
    char *data = data_file("lossless.webp", &n);
    struct seen_turns seen = {.budget = {.gone = see_turn, .user = &seen}};
    struct image image;
    ey_err e;
    sandbox_kill_all();
    const bool ok = image_decode_within(&image, data, n, "it", &seen.budget, &e);
    free(data);
    if (!ok) fail_msg("%s", e.text);
    image_free(&image);
    assert_true(seen.polls > 0);
    assert_int_equal(seen.with_turn, 0);
    assert_false(seen.budget.computes);
}

/* ---- writing ---- */

static void written_png_reads_back(void **state)
{
    (void)state;
    char path[] = "/tmp/eyelet-test-XXXXXX", *data;
    size_t n;
    ey_err e;
    struct image image = data_ppm("photo.ppm"), back;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (!image_write_png(&image, path, &e)) fail_msg("%s", e.text);
    assert_true(file_read(&data, &n, path, 1 << 20, &e));
    assert_true(image_decode(&back, data, n, path, &e));
    assert_int_equal(largest_difference(&image, &back), 0);
    assert_false(image_write_png(&image, "/no/such/folder/a.png", &e));
    assert_int_equal(e.code, EY_IO);
    assert_false(image_write_png(&image, "/dev/full", &e));
    assert_non_null(strstr(e.text, "No space left"));
    unlink(path);
    free(data);
    image_free(&back);
    image_free(&image);
}

int run_decode_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_headers_cost_nothing), /* first, as it measures peak memory */
        cmocka_unit_test(images_decode_as_expected),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(foreign_files_are_named),
        cmocka_unit_test(waiting_for_the_sandbox_takes_no_turn),
        cmocka_unit_test(scan_bomb_is_refused),
        cmocka_unit_test(size_limits_are_exact),
        cmocka_unit_test(a_page_can_be_put_first),
        cmocka_unit_test(a_circle_of_pages_ends),
        cmocka_unit_test(many_pages_are_counted),
        cmocka_unit_test(huge_files_are_refused_unread),
        cmocka_unit_test(written_png_reads_back),
    };
    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
