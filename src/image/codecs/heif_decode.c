/* SPDX-License-Identifier: Apache-2.0 */
/* HEIC and AVIF by libheif, which is opened when the first such file comes: most installations
 * never need its codecs. It turns and mirrors by the file's own properties (irot, imir), so EXIF
 * orientation, which repeats them, is not applied again. Its codecs write a line to stderr about
 * some damaged files (libde265, and dav1d for alpha planes), and libheif offers no way to stop
 * them. */
#include "image/codecs/codecs.h"
#include "image/codecs/heif_refs.h"
#include "image/pixels.h"

#ifdef EY_HAVE_HEIF

#include <dlfcn.h>
#include <libheif/heif.h>
#include <stdio.h>
#include <string.h>

/* Every function of libheif that we call. */
#define HEIF_FUNCTIONS(X)                         \
    X(heif_context_alloc)                         \
    X(heif_context_free)                          \
    X(heif_context_read_from_memory_without_copy) \
    X(heif_context_get_primary_image_handle)      \
    X(heif_image_handle_get_width)                \
    X(heif_image_handle_get_height)               \
    X(heif_image_handle_has_alpha_channel)        \
    X(heif_image_handle_release)                  \
    X(heif_decoding_options_alloc)                \
    X(heif_decoding_options_free)                 \
    X(heif_decode_image)                          \
    X(heif_image_get_width)                       \
    X(heif_image_get_height)                      \
    X(heif_image_get_plane_readonly)              \
    X(heif_image_release)

struct heif_library {
#define HEIF_FIELD(function) __typeof__(&function) function;
    HEIF_FUNCTIONS(HEIF_FIELD)
#undef HEIF_FIELD
};

/* The library stays loaded once it is: dlopen again is then only a count. */
static bool open_libheif(struct heif_library *lib, const struct image_file *f, const char *format,
                         ey_err *e)
{
    void *handle = dlopen("libheif.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return ey_fail(e, EY_BAD_IMAGE,
                       "%s: reading %s needs libheif, which is not installed; install the package "
                       "libheif1 (Debian, Ubuntu) or libheif (Fedora, Arch), or convert the image "
                       "to JPEG or PNG",
                       f->name, format);
#define HEIF_LOOKUP(function)                            \
    *(void **)&lib->function = dlsym(handle, #function); \
    if (!lib->function)                                  \
        return ey_fail(e, EY_BAD_IMAGE, "%s: the libheif here lacks " #function, f->name);
    HEIF_FUNCTIONS(HEIF_LOOKUP)
#undef HEIF_LOOKUP
    return true;
}

struct heif_job {
    struct heif_library lib;
    const struct image_file *file;
    struct heif_source source;
    const char *format;
    const char *quiet_decoder; /* libheif's name of the codec to try first, or NULL */
    struct heif_context *context;
    struct heif_image_handle *handle;
    struct heif_image *image;
    bool alpha;
};

/* The file may be sound, but this libheif has no codec for it. */
static bool lacks_decoder(struct heif_error error)
{
    return error.code == heif_error_Unsupported_filetype ||
           error.code == heif_error_Unsupported_feature ||
           error.code == heif_error_Plugin_loading_error;
}

static bool check_heif_error(const struct heif_job *job, struct heif_error error, ey_err *e)
{
    if (error.code == heif_error_Ok) return true;
    char detail[128]; /* its messages may end in a newline */
    snprintf(detail, sizeof(detail), "%.*s", (int)strcspn(error.message, "\n"), error.message);
    if (!lacks_decoder(error)) return fail_damaged(job->file, job->format, detail, e);
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: the libheif installed here cannot read this %s (%s); convert the image "
                   "to JPEG or PNG",
                   job->file->name, job->format, detail);
}

static bool read_heif_header(struct heif_job *job, ey_err *e)
{
    const struct image_file *f = job->file;
    if (!heif_read_references(&job->source, f, e)) return false;
    job->context = job->lib.heif_context_alloc();
    if (!job->context) return ey_fail_memory(e, "the HEIF decoder", 0);
    if (!check_heif_error(job,
                          job->lib.heif_context_read_from_memory_without_copy(
                              job->context, job->source.bytes, job->source.n, NULL),
                          e) ||
        !check_heif_error(
            job, job->lib.heif_context_get_primary_image_handle(job->context, &job->handle), e))
        return false;
    int width = job->lib.heif_image_handle_get_width(job->handle);
    int height = job->lib.heif_image_handle_get_height(job->handle);
    job->alpha = job->lib.heif_image_handle_has_alpha_channel(job->handle);
    return size_allowed(f, width > 0 ? (uint64_t)width : 0, height > 0 ? (uint64_t)height : 0, e);
}

/* For AV1, libaom where libheif has it (else libheif takes what it has): dav1d, its own first
 * choice, writes to stderr about damaged files. */
static bool decode_heif_pixels(struct heif_job *job, ey_err *e)
{
    struct heif_decoding_options *options = job->lib.heif_decoding_options_alloc();
    if (!options) return ey_fail_memory(e, "the HEIF decoder", 0);
    options->convert_hdr_to_8bit = 1;
#if LIBHEIF_NUMERIC_VERSION >= 0x010f0000 /* 1.15 */
    if (options->version >= 4) options->decoder_id = job->quiet_decoder;
#endif
    enum heif_chroma layout = job->alpha ? heif_chroma_interleaved_RGBA
                                         : heif_chroma_interleaved_RGB;
    struct heif_error error = job->lib.heif_decode_image(job->handle, &job->image,
                                                         heif_colorspace_RGB, layout, options);
    job->lib.heif_decoding_options_free(options);
    return check_heif_error(job, error, e);
}

/* The decoded image's own size counts: a header may have said another one. */
static bool copy_heif_pixels(struct image *out, const struct heif_job *job, ey_err *e)
{
    int width = job->lib.heif_image_get_width(job->image, heif_channel_interleaved);
    int height = job->lib.heif_image_get_height(job->image, heif_channel_interleaved);
    int channels = job->alpha ? 4 : 3, stride = 0;
    const uint8_t *plane = job->lib.heif_image_get_plane_readonly(
        job->image, heif_channel_interleaved, &stride);
    if (!plane || width <= 0 || height <= 0 || stride < width * channels)
        return fail_damaged(job->file, job->format, NULL, e);
    if (!size_allowed(job->file, (uint64_t)width, (uint64_t)height, e)) return false;
    uint8_t *pixels = pixels_alloc(width, height, channels, e);
    if (!pixels) return false;
    size_t row = (size_t)width * (size_t)channels;
    for (int y = 0; y < height; y++)
        memcpy(pixels + (size_t)y * row, plane + (size_t)y * (size_t)stride, row);
    if (job->alpha && job->source.premultiplied)
        image_from_premultiplied(out, pixels, width, height);
    else if (job->alpha)
        image_from_rgba(out, pixels, width, height);
    else
        *out = (struct image){width, height, pixels};
    return true;
}

static bool decode_heif(struct image *out, const struct image_file *f, const char *format,
                        const char *quiet_decoder, ey_err *e)
{
    struct heif_job job = {.file = f, .format = format, .quiet_decoder = quiet_decoder};
    if (!open_libheif(&job.lib, f, format, e)) return false;
    bool ok = read_heif_header(&job, e) && decode_heif_pixels(&job, e) &&
              copy_heif_pixels(out, &job, e);
    if (job.image) job.lib.heif_image_release(job.image);
    if (job.handle) job.lib.heif_image_handle_release(job.handle);
    if (job.context) job.lib.heif_context_free(job.context);
    buf_free(&job.source.rewritten);
    return ok;
}

#else

static bool decode_heif(struct image *out, const struct image_file *f, const char *format,
                        const char *quiet_decoder, ey_err *e)
{
    (void)out, (void)quiet_decoder;
    return ey_fail(e, EY_BAD_IMAGE,
                   "%s: %s is not supported by this build of eyelet; convert it to JPEG or PNG",
                   f->name, format);
}

#endif

bool heic_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    return decode_heif(out, f, "HEIC", NULL, e);
}

bool avif_decode(struct image *out, const struct image_file *f, ey_err *e)
{
    return decode_heif(out, f, "AVIF", "aom", e);
}
