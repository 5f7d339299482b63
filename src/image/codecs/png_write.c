/* SPDX-License-Identifier: Apache-2.0 */
/* Writes PNG files, such as the drawings of `eyelet detect`. */
#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"

struct png_output {
    png_structp png;
    png_infop info;
    FILE *file;
};

static void on_png_write_error(png_structp png, png_const_charp message)
{
    (void)message; /* a failed write; errno has the reason */
    longjmp(png_jmpbuf(png), 1);
}

static void on_png_write_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static bool write_png_rows(struct png_output *o, const struct image *image)
{
    if (setjmp(png_jmpbuf(o->png))) return false;
    png_init_io(o->png, o->file);
    png_set_IHDR(o->png, o->info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(o->png, o->info);
    for (int y = 0; y < image->height; y++)
        png_write_row(o->png, image->rgb + 3 * (size_t)y * (size_t)image->width);
    png_write_end(o->png, o->info);
    return true;
}

bool image_write_png(const struct image *image, const char *path, ey_err *e)
{
    struct png_output o = {.file = fopen(path, "wbe")};
    if (!o.file) return ey_fail(e, EY_IO, "%s: %s", path, strerror(errno));
    o.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_png_write_error,
                                    on_png_write_warning);
    o.info = o.png ? png_create_info_struct(o.png) : NULL;
    bool ok = o.info ? true : ey_fail_memory(e, "the PNG encoder", 0);
    bool written = ok && write_png_rows(&o, image);
    int reason = errno;
    struct stat st;
    bool regular = fstat(fileno(o.file), &st) == 0 && S_ISREG(st.st_mode);
    if (fclose(o.file) != 0 && written) {
        written = false;
        reason = errno;
    }
    if (ok && !written) ok = ey_fail(e, EY_IO, "%s: not written: %s", path, strerror(reason));
    if (!ok && regular) unlink(path); /* removes half an image, but never a device */
    png_destroy_write_struct(&o.png, &o.info);
    return ok;
}
