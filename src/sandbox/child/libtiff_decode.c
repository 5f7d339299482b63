/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/libtiff_decode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef EY_HAVE_TIFF

#include <dlfcn.h>
#include <tiffio.h>

/* Every function of libtiff that we call. */
#define TIFF_FUNCTIONS(X)        \
    X(TIFFClientOpen)            \
    X(TIFFClose)                 \
    X(TIFFGetField)              \
    X(TIFFGetFieldDefaulted)     \
    X(TIFFRGBAImageOK)           \
    X(TIFFReadRGBAImageOriented) \
    X(TIFFSetErrorHandler)       \
    X(TIFFSetWarningHandler)

static struct tiff_library {
#define TIFF_FIELD(function) __typeof__(&function) function;
    TIFF_FUNCTIONS(TIFF_FIELD)
#undef TIFF_FIELD
    char problem[MAX_REPLY_TEXT + 1]; /* why libtiff cannot be used, or "" */
} tiff;

static char first_error[MAX_REPLY_TEXT + 1]; /* libtiff's first message in this job */

__attribute__((format(printf, 2, 0))) static void on_tiff_error(const char *module,
                                                                const char *format, va_list values)
{
    (void)module;
    if (!first_error[0]) vsnprintf(first_error, sizeof(first_error), format, values);
}

/* The functions that we call are the same in versions 5 and 6. */
static void *open_libtiff(void)
{
    void *handle = dlopen("libtiff.so.6", RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("libtiff.so.5", RTLD_NOW | RTLD_LOCAL);
}

void libtiff_load(void)
{
    void *handle = open_libtiff();
    if (!handle) {
        snprintf(tiff.problem, sizeof(tiff.problem),
                 "needs libtiff, which is not installed; install the package libtiff6 or libtiff5 "
                 "(Debian, Ubuntu) or libtiff (Fedora, Arch), or convert the image to PNG");
        return;
    }
#define TIFF_LOOKUP(function)                                                                \
    *(void **)&tiff.function = dlsym(handle, #function);                                     \
    if (!tiff.function) {                                                                    \
        snprintf(tiff.problem, sizeof(tiff.problem), "needs a libtiff that has " #function); \
        return;                                                                              \
    }
    TIFF_FUNCTIONS(TIFF_LOOKUP)
#undef TIFF_LOOKUP
    tiff.TIFFSetErrorHandler(on_tiff_error);
    tiff.TIFFSetWarningHandler(NULL);
}

/* ---- the callbacks with which libtiff reads its input ---- */

struct tiff_input {
    const uint8_t *bytes;
    size_t n, at;
};

static tmsize_t read_input(thandle_t handle, void *to, tmsize_t n)
{
    struct tiff_input *input = handle;
    size_t left = input->at < input->n ? input->n - input->at : 0;
    size_t take = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
    if (take) memcpy(to, input->bytes + input->at, take);
    input->at += take;
    return (tmsize_t)take;
}

static tmsize_t refuse_write(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle;
    (void)from;
    (void)n;
    return -1;
}

static toff_t seek_input(thandle_t handle, toff_t offset, int whence)
{
    struct tiff_input *input = handle;
    toff_t from = whence == SEEK_CUR ? input->at : whence == SEEK_END ? input->n : 0;
    input->at = (size_t)(from + offset);
    return input->at;
}

static int close_input(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of_input(thandle_t handle)
{
    return ((struct tiff_input *)handle)->n;
}

/* The cast drops `const`: libtiff does not write to a mapping. */
static int map_input(thandle_t handle, void **base, toff_t *n)
{
    struct tiff_input *input = handle;
    *base = (void *)(uintptr_t)input->bytes;
    *n = input->n;
    return 1;
}

static void unmap_input(thandle_t handle, void *base, toff_t n)
{
    (void)handle;
    (void)base;
    (void)n;
}

/* ---- pixels ---- */

/* libtiff may report a failed allocation as damage; errno shows which it was. */
static void reply_tiff_damage(struct reply_message *reply)
{
    decoder_reply(reply, errno == ENOMEM ? REPLY_NO_MEMORY : REPLY_DAMAGED, first_error);
}

/* Requests the file's own orientation, so that libtiff does not rotate the image. Each pixel is a
 * number whose bytes are R, G, B, A in memory on little-endian processors. */
static bool read_tiff_pixels(TIFF *image, const struct bitmap_header *header, uint8_t *pixels)
{
    uint16_t orientation = ORIENTATION_TOPLEFT;
    tiff.TIFFGetFieldDefaulted(image, TIFFTAG_ORIENTATION, &orientation);
    return tiff.TIFFReadRGBAImageOriented(image, header->width, header->height,
                                          (uint32_t *)(void *)pixels, orientation, 1) == 1;
}

static void decode_first_page(TIFF *image, struct reply_message *reply,
                              const struct decoder_output *output)
{
    char why[1024] = "";
    struct bitmap_header header = {.channels = 4};
    if (!tiff.TIFFGetField(image, TIFFTAG_IMAGEWIDTH, &header.width) ||
        !tiff.TIFFGetField(image, TIFFTAG_IMAGELENGTH, &header.height)) {
        decoder_reply(reply, REPLY_DAMAGED, "no size");
        return;
    }
    if (!tiff.TIFFRGBAImageOK(image, why)) {
        decoder_reply(reply, REPLY_UNSUPPORTED, why);
        return;
    }
    struct open_bitmap bitmap;
    uint8_t *pixels = bitmap_open(&bitmap, output, &header, 4 * (size_t)header.width, reply);
    if (!pixels) return;
    if (read_tiff_pixels(image, &header, pixels)) {
        bitmap_finish(&bitmap, output, reply);
    } else {
        bitmap_abandon(&bitmap);
        reply_tiff_damage(reply);
    }
}

void libtiff_decode(struct reply_message *reply, const uint8_t *input, size_t n,
                    const struct decoder_output *output)
{
    struct tiff_input file = {input, n, 0};
    if (tiff.problem[0]) {
        decoder_reply(reply, REPLY_NO_DECODER, tiff.problem);
        return;
    }
    first_error[0] = 0;
    errno = 0;
    TIFF *image = tiff.TIFFClientOpen("image", "r", &file, read_input, refuse_write, seek_input,
                                      close_input, size_of_input, map_input, unmap_input);
    if (!image) {
        reply_tiff_damage(reply);
        return;
    }
    decode_first_page(image, reply, output);
    tiff.TIFFClose(image);
}

#else

void libtiff_load(void)
{
}

void libtiff_decode(struct reply_message *reply, const uint8_t *input, size_t n,
                    const struct decoder_output *output)
{
    (void)input, (void)n, (void)output;
    decoder_reply(reply, REPLY_NO_DECODER,
                  "is not supported by this build of eyelet; convert it to JPEG or PNG");
}

#endif
