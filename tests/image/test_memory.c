/* SPDX-License-Identifier: Apache-2.0 */
/* The memory budget of decoding matches the allocations, which a malloc of the test counts. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gif_lib.h>
#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include "image/image.h"
#include "sandbox/sandbox.h"

enum { WIDTH = 1500, HEIGHT = 1000, PIXELS = WIDTH * HEIGHT };

/* ---- counting (sanitizers replace malloc themselves) ---- */

#ifndef EY_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static atomic_long allocated, most;

/* visible, so that libraries call these */
#pragma GCC visibility push(default)

static void *count_block(void *p)
{
    long now = atomic_fetch_add(&allocated, (long)malloc_usable_size(p)) +
               (long)malloc_usable_size(p);
    if (now > atomic_load(&most)) atomic_store(&most, now);
    return p;
}

static void uncount_block(void *p)
{
    atomic_fetch_sub(&allocated, (long)malloc_usable_size(p));
}

void *malloc(size_t n)
{
    return count_block(__libc_malloc(n));
}

void *calloc(size_t count, size_t n)
{
    return count_block(__libc_calloc(count, n));
}

void *realloc(void *p, size_t n)
{
    uncount_block(p);
    void *moved = __libc_realloc(p, n);
    count_block(moved ? moved : p);
    return moved;
}

void *memalign(size_t alignment, size_t n)
{
    return count_block(__libc_memalign(alignment, n));
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    *p = memalign(alignment, n);
    return *p ? 0 : 12;
}

void free(void *p)
{
    if (p) uncount_block(p);
    __libc_free(p);
}

#pragma GCC visibility pop

static void start_counting(void)
{
    atomic_store(&most, atomic_load(&allocated));
}

/* The peak of allocated bytes since start_counting(), less `before`. */
static uint64_t counted_since(long before)
{
    return (uint64_t)(atomic_load(&most) - before);
}

static long allocated_now(void)
{
    return atomic_load(&allocated);
}
#else
static void start_counting(void)
{
}
static uint64_t counted_since(long before)
{
    return (uint64_t)before;
}
static long allocated_now(void)
{
    return 0;
}
#endif

/* ---- files ---- */

struct encoded_file {
    uint8_t *bytes;
    size_t n;
};

/* n bytes of noise, which no codec can compress. */
static uint8_t *noise(size_t n)
{
    uint8_t *bytes = malloc(n);
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(state >> 24);
    }
    return bytes;
}

enum { TURNED = 1 << 16 }; /* flag: an EXIF block rotates the image */

static const uint8_t exif_turned[] =
    "\xff\xe1\0\x22"
    "Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0";

static struct encoded_file with_exif(struct encoded_file jpeg)
{
    enum { EXIF_BYTES = 36 };
    struct encoded_file out = {malloc(jpeg.n + EXIF_BYTES), jpeg.n + EXIF_BYTES};
    memcpy(out.bytes, jpeg.bytes, 2);
    memcpy(out.bytes + 2, exif_turned, EXIF_BYTES);
    memcpy(out.bytes + 2 + EXIF_BYTES, jpeg.bytes + 2, jpeg.n - 2);
    free(jpeg.bytes);
    return out;
}

/* format: TJPF_… | TURNED; detail: TJSAMP_… | TJFLAG_PROGRESSIVE */
static struct encoded_file encode_jpeg(int format, int detail)
{
    int pixel_format = format & ~TURNED, subsampling = detail & 15;
    uint8_t *pixels = noise((size_t)PIXELS * (size_t)tjPixelSize[pixel_format]), *jpeg = NULL;
    unsigned long n = 0;
    tjhandle encoder = tjInitCompress();
    assert_int_equal(tjCompress2(encoder, pixels, WIDTH, 0, HEIGHT, pixel_format, &jpeg, &n,
                                 subsampling, 90, detail & TJFLAG_PROGRESSIVE),
                     0);
    struct encoded_file out = {malloc(n), n};
    memcpy(out.bytes, jpeg, n);
    tjFree(jpeg);
    tjDestroy(encoder);
    free(pixels);
    return format & TURNED ? with_exif(out) : out;
}

static struct encoded_file encode_png(int format, int detail)
{
    (void)detail;
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = WIDTH,
                     .height = HEIGHT,
                     .format = (png_uint_32)format,
                     .flags = PNG_IMAGE_FLAG_FAST};
    uint8_t *pixels = noise(PNG_IMAGE_SIZE(png));
    png_alloc_size_t n = 0;
    assert_true(png_image_write_to_memory(&png, NULL, &n, 0, pixels, 0, NULL));
    struct encoded_file out = {malloc(n), n};
    assert_true(png_image_write_to_memory(&png, out.bytes, &n, 0, pixels, 0, NULL));
    free(pixels);
    return out;
}

static void append_png(png_structp png, png_bytep bytes, size_t n)
{
    struct encoded_file *out = png_get_io_ptr(png);
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
}

/* format: a colour type of libpng; detail: bits a channel */
static struct encoded_file encode_interlaced_png(int format, int detail)
{
    struct encoded_file out = {malloc((size_t)PIXELS * 10), 0};
    size_t row = (size_t)WIDTH * 8;
    uint8_t *pixels = noise(row);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &out, append_png, NULL);
    png_set_compression_level(png, 1);
    png_set_IHDR(png, info, WIDTH, HEIGHT, detail, format, PNG_INTERLACE_ADAM7,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int pass = png_set_interlace_handling(png); pass > 0; pass--)
        for (int y = 0; y < HEIGHT; y++)
            png_write_row(png, pixels);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(pixels);
    return out;
}

/* format: channels; detail: 1 for lossless */
static struct encoded_file encode_webp(int format, int detail)
{
    uint8_t *pixels = noise((size_t)PIXELS * (size_t)format), *webp = NULL;
    WebPConfig config;
    struct WebPPicture input;
    WebPMemoryWriter writer;
    WebPConfigInit(&config);
    WebPPictureInit(&input);
    WebPMemoryWriterInit(&writer);
    config.method = 0;
    config.lossless = detail;
    input.use_argb = detail;
    input.width = WIDTH;
    input.height = HEIGHT;
    input.writer = WebPMemoryWrite;
    input.custom_ptr = &writer;
    if (format == 4)
        WebPPictureImportRGBA(&input, pixels, WIDTH * 4);
    else
        WebPPictureImportRGB(&input, pixels, WIDTH * 3);
    assert_true(WebPEncode(&config, &input));
    webp = writer.mem;
    struct encoded_file out = {malloc(writer.size), writer.size};
    memcpy(out.bytes, webp, writer.size);
    WebPMemoryWriterClear(&writer);
    WebPPictureFree(&input);
    free(pixels);
    return out;
}

static int append_gif(GifFileType *gif, const GifByteType *bytes, int n)
{
    struct encoded_file *out = gif->UserData;
    memcpy(out->bytes + out->n, bytes, (size_t)n);
    out->n += (size_t)n;
    return n;
}

static struct encoded_file encode_gif(int format, int detail)
{
    struct encoded_file out = {malloc((size_t)PIXELS * 2), 0};
    uint8_t *pixels = noise(PIXELS);
    ColorMapObject *map = GifMakeMapObject(256, NULL);
    GifFileType *gif = EGifOpen(&out, append_gif, NULL);
    (void)format;
    assert_int_equal(EGifPutScreenDesc(gif, WIDTH, HEIGHT, 8, 0, map), GIF_OK);
    assert_int_equal(EGifPutImageDesc(gif, 0, 0, WIDTH, HEIGHT, detail, NULL), GIF_OK);
    for (int y = 0; y < HEIGHT; y++)
        assert_int_equal(EGifPutLine(gif, pixels + (size_t)y * WIDTH, WIDTH), GIF_OK);
    EGifCloseFile(gif, NULL);
    GifFreeMapObject(map);
    free(pixels);
    return out;
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* format: bits a pixel; detail: bytes of the header */
static struct encoded_file encode_bmp(int format, int detail)
{
    size_t head = 14 + (size_t)detail, row = ((size_t)WIDTH * (size_t)format + 31) / 32 * 4;
    struct encoded_file out = {calloc(1, head + row * HEIGHT), head + row * HEIGHT};
    memcpy(out.bytes, "BM", 2);
    put_u32(out.bytes + 10, (uint32_t)head);
    put_u32(out.bytes + 14, (uint32_t)detail);
    put_u32(out.bytes + 18, WIDTH);
    put_u32(out.bytes + 22, HEIGHT);
    put_u32(out.bytes + 26, 1 | (uint32_t)format << 16);
    if (format == 32) { /* masks, including alpha */
        put_u32(out.bytes + 30, 3);
        for (uint32_t i = 0; i < 4; i++)
            put_u32(out.bytes + 54 + 4 * i, 0xffu << 8 * i);
    }
    return out;
}

static struct encoded_file encode_pnm(int format, int detail)
{
    size_t room = (size_t)PIXELS * 6 + 64;
    struct encoded_file out = {calloc(1, room), 0};
    int head = snprintf((char *)out.bytes, 64, "P%d %d %d %d\n", format, WIDTH, HEIGHT, detail);
    out.n = (size_t)head + (size_t)PIXELS * (format == 6 ? 3 : 1) * (detail > 255 ? 2 : 1);
    return out;
}

/* format: orientation; detail: rows of a strip */
static struct encoded_file encode_tiff(int format, int detail)
{
    enum { HEAD = 8, TAGS = 9, STRIPS_AT = HEAD + 2 + 12 * TAGS + 4 };
    uint32_t strips = (uint32_t)((HEIGHT + detail - 1) / detail);
    uint32_t data = STRIPS_AT + 8 * strips, strip = (uint32_t)(WIDTH * 3 * detail);
    const uint32_t tags[TAGS][4] = {{256, 4, 1, WIDTH},
                                    {257, 4, 1, HEIGHT},
                                    {258, 3, 1, 8},
                                    {262, 3, 1, 2},
                                    {273, 4, strips, strips == 1 ? data : STRIPS_AT},
                                    {274, 3, 1, (uint32_t)format},
                                    {277, 3, 1, 3},
                                    {278, 4, 1, (uint32_t)detail},
                                    {279, 4, strips, strips == 1 ? strip : STRIPS_AT + 4 * strips}};
    struct encoded_file out = {calloc(1, data + strips * strip), data + strips * strip};
    memcpy(out.bytes, "II*\0\x08\0\0\0\x09", 9);
    for (size_t i = 0; i < TAGS; i++) {
        uint8_t *to = out.bytes + HEAD + 2 + 12 * i;
        put_u32(to, tags[i][0] | tags[i][1] << 16);
        put_u32(to + 4, tags[i][2]);
        put_u32(to + 8, tags[i][3]);
    }
    for (uint32_t i = 0; strips > 1 && i < strips; i++) {
        put_u32(out.bytes + STRIPS_AT + 4 * i, data + i * strip);
        put_u32(out.bytes + STRIPS_AT + 4 * (strips + i), strip);
    }
    return out;
}

static const struct {
    const char *name;
    struct encoded_file (*encode)(int format, int detail);
    int format, detail;
} kinds[] = {
    {"JPEG 4:2:0", encode_jpeg, TJPF_RGB, TJSAMP_420},
    {"JPEG 4:4:4", encode_jpeg, TJPF_RGB, TJSAMP_444},
    {"JPEG gray", encode_jpeg, TJPF_GRAY, TJSAMP_GRAY},
    {"JPEG 4:4:4 progressive", encode_jpeg, TJPF_RGB, TJSAMP_444 | TJFLAG_PROGRESSIVE},
    {"JPEG 4:2:0 progressive", encode_jpeg, TJPF_RGB, TJSAMP_420 | TJFLAG_PROGRESSIVE},
    {"JPEG CMYK", encode_jpeg, TJPF_CMYK, TJSAMP_444},
    {"JPEG CMYK progressive", encode_jpeg, TJPF_CMYK, TJSAMP_444 | TJFLAG_PROGRESSIVE},
    {"JPEG 4:2:0 turned", encode_jpeg, TJPF_RGB | TURNED, TJSAMP_420},
    {"JPEG CMYK progressive turned", encode_jpeg, TJPF_CMYK | TURNED,
     TJSAMP_444 | TJFLAG_PROGRESSIVE},
    {"PNG RGB", encode_png, PNG_FORMAT_RGB, 0},
    {"PNG RGBA", encode_png, PNG_FORMAT_RGBA, 0},
    {"PNG gray", encode_png, PNG_FORMAT_GRAY, 0},
    {"PNG RGBA 16", encode_png, PNG_FORMAT_LINEAR_RGB_ALPHA, 0},
    {"PNG RGB interlaced", encode_interlaced_png, PNG_COLOR_TYPE_RGB, 8},
    {"PNG RGBA 16 interlaced", encode_interlaced_png, PNG_COLOR_TYPE_RGB_ALPHA, 16},
    {"PNG gray interlaced", encode_interlaced_png, PNG_COLOR_TYPE_GRAY, 8},
    {"WebP lossy", encode_webp, 3, 0},
    {"WebP lossy alpha", encode_webp, 4, 0},
    {"WebP lossless", encode_webp, 3, 1},
    {"WebP lossless alpha", encode_webp, 4, 1},
    {"GIF", encode_gif, 0, 0},
    {"GIF interlaced", encode_gif, 0, 1},
    {"BMP 24", encode_bmp, 24, 40},
    {"BMP 32 alpha", encode_bmp, 32, 108},
    {"PNM RGB", encode_pnm, 6, 255},
    {"PNM gray 16", encode_pnm, 5, 65535},
    {"TIFF, strips", encode_tiff, 1, 8},
    {"TIFF, one strip", encode_tiff, 1, HEIGHT},
    {"TIFF, turned", encode_tiff, 6, 8},
};

#ifndef EY_SANITIZED
/* Another process, whose memory is not counted, decodes these. */
static bool is_decoded_apart(size_t kind)
{
    return kinds[kind].encode == encode_tiff ||
           (kinds[kind].encode == encode_webp && (kinds[kind].format == 4 || kinds[kind].detail));
}
#endif

static void charges_match_allocations(void **state)
{
    (void)state;
    ey_budget *budget = ey_budget_create((uint64_t)1 << 30);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct encoded_file file = kinds[i].encode(kinds[i].format, kinds[i].detail);
        struct image_budget held = {.from = budget};
        struct image image;
        ey_err e;
        long before = allocated_now();
        start_counting();
        if (!image_decode_within(&image, file.bytes, file.n, "it", &held, &e)) {
            if (!strstr(e.text, "libtiff") && !strstr(e.text, "not supported by this build"))
                fail_msg("%s: %s", kinds[i].name, e.text);
            free(file.bytes);
            ey_budget_release(budget, held.held);
            continue; /* libtiff is missing */
        }
        uint64_t taken = counted_since(before);
        printf("%-30s %5.2f bytes a pixel, charged %5.2f\n", kinds[i].name, (double)taken / PIXELS,
               (double)held.held / PIXELS);
        if (taken > held.held) fail_msg("%s: took more than charged", kinds[i].name);
#ifndef EY_SANITIZED
        if (!is_decoded_apart(i) && held.held > taken + taken / 2 + (1 << 20))
            fail_msg("%s: charged much", kinds[i].name);
#endif
        ey_budget_release(budget, held.held);
        image_free(&image);
        free(file.bytes);
    }
    ey_budget_free(&budget);
}

/* If the first scan has only one of three components, libjpeg keeps the coefficients of all. */
static void a_first_scan_of_one_component_is_charged(void **state)
{
    (void)state;
    static const uint8_t all[] = {0xff, 0xda, 0, 12, 3}, one[] = {0xff, 0xda, 0, 8, 1};
    struct encoded_file file = encode_jpeg(TJPF_RGB, TJSAMP_444);
    uint8_t *scan = memmem(file.bytes, file.n, all, sizeof(all));
    assert_non_null(scan);
    memmove(scan + 7, scan + 11, file.n - (size_t)(scan + 11 - file.bytes));
    memcpy(scan, one, sizeof(one));
    file.n -= 4;
    ey_budget *budget = ey_budget_create((uint64_t)1 << 30);
    struct image_budget held = {.from = budget};
    struct image image;
    long before = allocated_now();
    start_counting();
    image_decode_within(&image, file.bytes, file.n, "it", &held, NULL);
    uint64_t taken = counted_since(before);
    printf("%-30s %5.2f bytes a pixel, charged %5.2f\n", "JPEG of one component in three",
           (double)taken / PIXELS, (double)held.held / PIXELS);
    assert_true(taken <= held.held);
    ey_budget_release(budget, held.held);
    image_free(&image);
    free(file.bytes);
    ey_budget_free(&budget);
}

/* ---- a lossless WebP with many Huffman tables ---- */

struct bit_writer {
    uint8_t *bytes;
    size_t n_bits;
};

static void put_bits(struct bit_writer *w, uint32_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++, w->n_bits++)
        w->bytes[w->n_bits / 8] |= (uint8_t)((value >> i & 1) << w->n_bits % 8);
}

static void put_simple_code(struct bit_writer *w)
{
    put_bits(w, 1, 4); /* simple, one symbol of one bit, 0 */
}

/* A code of 256 symbols with 8 bits each: the only code length is 8 and takes no bits itself. */
static void put_flat_code(struct bit_writer *w)
{
    put_bits(w, 0, 1);
    put_bits(w, 12 - 4, 4); /* lengths of code lengths, in the order 17 18 0 1 2 3 4 5 16 6 7 8 */
    for (int i = 0; i < 12; i++)
        put_bits(w, i == 11, 3);
    put_bits(w, 1, 1);
    put_bits(w, 3, 3); /* number of lengths that follow, less 2, in 8 bits */
    put_bits(w, 256 - 2, 8);
}

static uint32_t reversed_byte(uint32_t value)
{
    uint32_t out = 0;
    for (int i = 0; i < 8; i++)
        out |= (value >> i & 1) << (7 - i);
    return out;
}

/* 1024x1024 pixels; each 4x4 block has its own five tables. */
static struct encoded_file webp_of_tables(void)
{
    enum { SIDE = 1024, GROUPS = SIDE / 4 * SIDE / 4, HEAD = 20, MOST_BYTES = 400000 };
    struct encoded_file out = {calloc(1, MOST_BYTES), 0};
    struct bit_writer w = {out.bytes + HEAD, 0};
    put_bits(&w, 0x2f, 8);
    put_bits(&w, SIDE - 1, 14);
    put_bits(&w, SIDE - 1, 14);
    put_bits(&w, 0, 1 + 3 + 1 + 1); /* no alpha, version 0, no transform, no colour cache */
    put_bits(&w, 1, 1);             /* groups by tiles of 4x4 … */
    put_bits(&w, 0, 3);
    put_bits(&w, 0, 1); /* … whose image has no colour cache */
    put_flat_code(&w);  /* green and red are a group's number */
    put_flat_code(&w);
    for (int i = 0; i < 3; i++)
        put_simple_code(&w);
    for (uint32_t group = 0; group < GROUPS; group++) {
        put_bits(&w, reversed_byte(group & 255), 8);
        put_bits(&w, reversed_byte(group >> 8), 8);
    }
    for (int i = 0; i < 5 * GROUPS; i++)
        put_simple_code(&w);
    uint32_t n = (uint32_t)((w.n_bits + 7) / 8 + 1) & ~1u, riff = n + 12;
    memcpy(out.bytes, "RIFF....WEBPVP8L", 16);
    memcpy(out.bytes + 4, &riff, 4);
    memcpy(out.bytes + 16, &n, 4);
    out.n = HEAD + n;
    return out;
}

static void tables_beyond_all_encoders_are_refused(void **state)
{
    (void)state;
    struct encoded_file file = webp_of_tables();
    struct image image;
    ey_err e;
    long before = allocated_now();
    start_counting();
    bool decoded = image_decode(&image, file.bytes, file.n, "it", &e);
#ifndef EY_SANITIZED
    assert_false(decoded);
    assert_int_equal(e.code, EY_BAD_IMAGE);
    if (!strstr(e.text, "it: this WebP: decoding it takes more than")) fail_msg("%s", e.text);
    assert_true(counted_since(before) < 8 << 20);
#else
    (void)before; /* with a sanitizer, the child has no limit of address space */
    if (decoded) image_free(&image);
#endif
    free(file.bytes);
}

int main(void)
{
    sandbox_set_helper(EY_HELPER);
    const struct CMUnitTest tests[] = {cmocka_unit_test(charges_match_allocations),
                                       cmocka_unit_test(a_first_scan_of_one_component_is_charged),
                                       cmocka_unit_test(tables_beyond_all_encoders_are_refused)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
