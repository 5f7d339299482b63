/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes GIF with giflib: the first frame on its canvas, transparency on white. The canvas
 * around the frame has the transparent color, or color 0 if there is none, as in Pillow. */
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

#include "image/codecs/codecs.h"
#include "image/pixels.h"

/* A 12-bit LZW code stands for at most 4,096 pixels. */
enum { PIXELS_PER_BYTE = 4096 * 8 / 12 + 1 };
/* An upper bound of giflib's own allocations. */
enum { GIFLIB_BYTES = 64 << 10 };

struct gif_job {
    const struct image_file *file;
    size_t at; /* bytes read */
    GifFileType *gif;
    int transparent; /* color index or NO_TRANSPARENT_COLOR */
    uint8_t palette[256][3];
    int width, height; /* canvas */
    uint8_t *rgb;
    GifPixelType *line;
};

static int on_gif_read(GifFileType *gif, GifByteType *to, int n)
{
    struct gif_job *job = gif->UserData;
    size_t left = job->file->n - job->at, take = (size_t)n < left ? (size_t)n : left;
    if (take) memcpy(to, job->file->bytes + job->at, take);
    job->at += take;
    return (int)take;
}

static bool fail_gif(const struct gif_job *job, ey_err *e)
{
    return fail_damaged(job->file, "GIF", job->gif ? GifErrorString(job->gif->Error) : NULL, e);
}

static bool read_extension(struct gif_job *job)
{
    int code;
    GifByteType *block; /* a length, then the bytes */
    if (DGifGetExtension(job->gif, &code, &block) == GIF_ERROR) return false;
    while (block) {
        GraphicsControlBlock control;
        if (code == GRAPHICS_EXT_FUNC_CODE &&
            DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
            control.TransparentColor != NO_TRANSPARENT_COLOR)
            job->transparent = control.TransparentColor;
        if (DGifGetExtensionNext(job->gif, &block) == GIF_ERROR) return false;
    }
    return true;
}

/* Skips to the first image descriptor. */
static bool find_frame(struct gif_job *job, ey_err *e)
{
    for (;;) {
        GifRecordType type;
        if (DGifGetRecordType(job->gif, &type) == GIF_ERROR) return fail_gif(job, e);
        if (type == TERMINATE_RECORD_TYPE)
            return fail_damaged(job->file, "GIF", "it has no image", e);
        if (type == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(job->gif) == GIF_OK || fail_gif(job, e);
        if (type == EXTENSION_RECORD_TYPE && !read_extension(job)) return fail_gif(job, e);
    }
}

static int larger_of(int a, int b)
{
    return a > b ? a : b;
}

/* A frame that exceeds the logical screen enlarges it, as in Pillow and browsers. */
static bool check_sizes(struct gif_job *job, ey_err *e)
{
    const GifImageDesc *frame = &job->gif->Image;
    if (frame->Left < 0 || frame->Top < 0 || frame->Width <= 0 || frame->Height <= 0)
        return fail_damaged(job->file, "GIF", "an empty frame", e);
    job->width = larger_of(job->gif->SWidth, frame->Left + frame->Width);
    job->height = larger_of(job->gif->SHeight, frame->Top + frame->Height);
    uint64_t covered = (uint64_t)frame->Width * (uint64_t)frame->Height;
    return size_allowed(job->file, (uint64_t)job->width, (uint64_t)job->height, e) &&
           canvas_plausible(job->file, (uint64_t)job->width * (uint64_t)job->height, covered, e) &&
           size_plausible(job->file, "GIF", covered, PIXELS_PER_BYTE, e) &&
           decoding_allowed(job->file, (uint64_t)job->width, (uint64_t)job->height,
                            GIFLIB_BYTES + (uint64_t)job->width * (uint64_t)job->height * 3 +
                                (uint64_t)frame->Width,
                            e);
}

/* Without color tables, indices are shades of gray, as in Pillow. */
static void read_palette(struct gif_job *job)
{
    const ColorMapObject *map = job->gif->Image.ColorMap ? job->gif->Image.ColorMap
                                                         : job->gif->SColorMap;
    for (int i = 0; i < 256; i++) {
        if (map && i < map->ColorCount) {
            const GifColorType *color = &map->Colors[i];
            job->palette[i][0] = color->Red;
            job->palette[i][1] = color->Green;
            job->palette[i][2] = color->Blue;
        } else {
            memset(job->palette[i], map ? 0 : i, 3);
        }
    }
    if (job->transparent != NO_TRANSPARENT_COLOR)
        memset(job->palette[job->transparent & 255], 255, 3);
}

static void fill_canvas(const struct gif_job *job)
{
    const uint8_t *color =
        job->palette[job->transparent != NO_TRANSPARENT_COLOR ? job->transparent & 255 : 0];
    size_t n = (size_t)job->width * (size_t)job->height;
    for (size_t i = 0; i < n; i++)
        memcpy(job->rgb + 3 * i, color, 3);
}

static bool read_gif_line(struct gif_job *job, int y)
{
    const GifImageDesc *frame = &job->gif->Image;
    if (DGifGetLine(job->gif, job->line, frame->Width) == GIF_ERROR) return false;
    uint8_t *to = job->rgb +
                  3 * ((size_t)(frame->Top + y) * (size_t)job->width + (size_t)frame->Left);
    for (int x = 0; x < frame->Width; x++, to += 3)
        memcpy(to, job->palette[job->line[x]], 3);
    return true;
}

/* Lines are sequential, or interlaced in four passes. */
static bool read_gif_lines(struct gif_job *job)
{
    static const struct {
        int start, step;
    } straight[] = {{0, 1}}, interlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    bool passes = job->gif->Image.Interlace;
    for (int pass = 0; pass < (passes ? 4 : 1); pass++) {
        int start = passes ? interlaced[pass].start : straight[0].start;
        int step = passes ? interlaced[pass].step : straight[0].step;
        for (int y = start; y < job->gif->Image.Height; y += step)
            if (!read_gif_line(job, y)) return false;
    }
    return true;
}

static bool read_gif_frame(struct gif_job *job, ey_err *e)
{
    if (!job->gif) return fail_gif(job, e);
    if (!find_frame(job, e) || !check_sizes(job, e)) return false;
    read_palette(job);
    if (!(job->rgb = pixels_alloc(job->width, job->height, 3, e))) return false;
    if (!(job->line = pixels_alloc(job->gif->Image.Width, 1, 1, e))) return false;
    fill_canvas(job);
    return read_gif_lines(job) || fail_gif(job, e);
}

bool gif_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    struct gif_job job = {.file = f, .transparent = NO_TRANSPARENT_COLOR};
    job.gif = DGifOpen(&job, on_gif_read, NULL);
    bool ok = read_gif_frame(&job, e);
    if (ok)
        *out = (struct image){.width = job.width, .height = job.height, .rgb = job.rgb};
    else
        free(job.rgb);
    free(job.line);
    DGifCloseFile(job.gif, NULL);
    return ok;
}
