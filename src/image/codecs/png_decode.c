/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes PNG with libpng's classic interface: every color type and depth to 8-bit RGB or RGBA,
 * ignoring gamma. 16-bit samples keep their high byte (Pillow clips 16-bit gray instead, which
 * turns such images white). Ancillary chunks are skipped; png_metadata.c finds the orientation. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "image/codecs/codecs.h"
#include "image/codecs/png_metadata.h"
#include "image/orient.h"
#include "image/pixels.h"

enum {
    DEFLATE_MOST = 1032,       /* deflate's best ratio of output to input bytes */
    MAX_CHUNK_BYTES = 1 << 20, /* palettes and transparency need less than 1 KiB */
    LIBPNG_BYTES = 256 << 10,  /* allocations of libpng and zlib, without rows */
    ROWS = 4,                  /* rows that libpng holds, of up to 8 bytes per pixel */
};

struct png_job {
    const struct image_file *file;
    size_t at; /* read position */
    png_structp png;
    png_infop info;
    int width, height, channels, orientation;
    uint8_t *pixels;
    char message[128];
};

static void on_png_read_error(png_structp png, png_const_charp message)
{
    struct png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof(job->message), "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_png_read_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_png_read(png_structp png, png_bytep to, size_t n)
{
    struct png_job *job = png_get_io_ptr(png);
    if (n > job->file->n - job->at) png_error(png, "unexpected end of file");
    memcpy(to, job->file->bytes + job->at, n);
    job->at += n;
}

static bool open_png_reader(struct png_job *job, ey_err *e)
{
    job->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, job, on_png_read_error,
                                      on_png_read_warning);
    job->info = job->png ? png_create_info_struct(job->png) : NULL;
    return job->info || ey_fail_memory(e, "the PNG decoder", 0);
}

/* Returns the larger of two peaks: RGBA pixels, or RGB pixels before and after rotation. */
static uint64_t png_decoding_bytes(const struct png_job *job, uint64_t width, uint64_t height)
{
    bool alpha = png_get_color_type(job->png, job->info) & PNG_COLOR_MASK_ALPHA ||
                 png_get_valid(job->png, job->info, PNG_INFO_tRNS);
    uint64_t each = job->orientation > 1 ? 6 : alpha ? 4 : 3;
    return LIBPNG_BYTES + width * 8 * ROWS + width * height * each;
}

static bool check_png_header(const struct png_job *job, ey_err *e)
{
    uint64_t width = png_get_image_width(job->png, job->info),
             height = png_get_image_height(job->png, job->info);
    if (!size_allowed(job->file, width, height, e)) return false;
    return size_plausible(job->file, "PNG", height * (png_get_rowbytes(job->png, job->info) + 1),
                          DEFLATE_MOST, e) &&
           decoding_allowed(job->file, width, height, png_decoding_bytes(job, width, height), e);
}

static void set_transforms(struct png_job *job)
{
    png_set_expand(job->png); /* palettes, gray below 8 bits, transparent colors */
    png_set_strip_16(job->png);
    png_set_gray_to_rgb(job->png);
    png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    job->width = (int)png_get_image_width(job->png, job->info);
    job->height = (int)png_get_image_height(job->png, job->info);
    job->channels = png_get_channels(job->png, job->info);
}

static void read_png_rows(struct png_job *job)
{
    size_t stride = (size_t)job->width * (size_t)job->channels;
    int passes = png_set_interlace_handling(job->png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < job->height; y++)
            png_read_row(job->png, job->pixels + (size_t)y * stride, NULL);
}

/* libpng's errors jump to setjmp(), so variables that are used afterwards are in *job. */
static bool read_png_pixels(struct png_job *job, ey_err *e)
{
    if (setjmp(png_jmpbuf(job->png))) return fail_damaged(job->file, "PNG", job->message, e);
    png_set_read_fn(job->png, job, on_png_read);
    /* our own limits give better messages */
    png_set_user_limits(job->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(job->png, MAX_CHUNK_BYTES);
    /* skip ancillary chunks, which pixels do not need */
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    /* As lenient as Pillow: the zlib header may announce a window that is too small, and checksums
     * are checked only in the chunks before the pixels. */
    png_set_option(job->png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
    png_read_info(job->png, job->info);
    png_set_crc_action(job->png, PNG_CRC_QUIET_USE, PNG_CRC_NO_CHANGE);
    if (!check_png_header(job, e)) return false;
    set_transforms(job);
    job->pixels = pixels_alloc(job->width, job->height, job->channels, e);
    if (!job->pixels) return false;
    read_png_rows(job);
    return true;
}

bool png_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    bool ok = false;
    struct png_job job = {.file = f};
    if (!png_orientation(f, &job.orientation, e) || !open_png_reader(&job, e) ||
        !read_png_pixels(&job, e))
        goto done;
    if (job.channels == 4)
        image_from_rgba(out, job.pixels, job.width, job.height);
    else
        *out = (struct image){.width = job.width, .height = job.height, .rgb = job.pixels};
    job.pixels = NULL;
    ok = image_turn_upright(out, job.orientation, e);
    if (!ok) image_free(out);
done:
    free(job.pixels);
    png_destroy_read_struct(&job.png, &job.info, NULL);
    return ok;
}
