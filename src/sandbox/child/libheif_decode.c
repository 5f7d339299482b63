/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes HEIC and AVIF with libheif, which applies the file's rotation and mirroring (irot, imir).
 * The EXIF orientation repeats them and is ignored. The worker's memory is limited: an allocation
 * beyond the limit fails or aborts. */
#include "sandbox/child/libheif_decode.h"

#include <stdio.h>
#include <string.h>

#ifdef EY_HAVE_HEIF

#include <dlfcn.h>
#include <libheif/heif.h>

/* Every function of libheif that we call. */
#define HEIF_FUNCTIONS(X)                         \
    X(heif_context_alloc)                         \
    X(heif_context_free)                          \
    X(heif_context_read_from_memory_without_copy) \
    X(heif_context_get_primary_image_handle)      \
    X(heif_image_handle_has_alpha_channel)        \
    X(heif_image_handle_release)                  \
    X(heif_decoding_options_alloc)                \
    X(heif_decoding_options_free)                 \
    X(heif_decode_image)                          \
    X(heif_image_get_width)                       \
    X(heif_image_get_height)                      \
    X(heif_image_get_plane_readonly)              \
    X(heif_image_release)

static struct heif_library {
#define HEIF_FIELD(function) __typeof__(&function) function;
    HEIF_FUNCTIONS(HEIF_FIELD)
#undef HEIF_FIELD
    char problem[MAX_REPLY_TEXT + 1]; /* why libheif cannot be used, or "" */
} heif;

/* heif_init() loads plug-ins since libheif 1.14; earlier versions have none. */
static void load_heif_plugins(void *handle)
{
    struct heif_error (*init)(void *) = NULL;
    *(void **)&init = dlsym(handle, "heif_init");
    if (init) init(NULL);
}

void libheif_load(void)
{
    void *handle = dlopen("libheif.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(heif.problem, sizeof(heif.problem),
                 "needs libheif, which is not installed; install the package libheif1 (Debian, "
                 "Ubuntu) or libheif (Fedora, Arch), or convert the image to JPEG or PNG");
        return;
    }
#define HEIF_LOOKUP(function)                                                                \
    *(void **)&heif.function = dlsym(handle, #function);                                     \
    if (!heif.function) {                                                                    \
        snprintf(heif.problem, sizeof(heif.problem), "needs a libheif that has " #function); \
        return;                                                                              \
    }
    HEIF_FUNCTIONS(HEIF_LOOKUP)
#undef HEIF_LOOKUP
    load_heif_plugins(handle);
}

struct heif_job {
    const uint8_t *input;
    size_t n;
    bool av1;
    struct heif_context *context;
    struct heif_image_handle *handle;
    struct heif_image *image;
    bool alpha;
};

static enum reply_status status_of(struct heif_error error)
{
    switch (error.code) {
    case heif_error_Ok: return REPLY_DONE;
    /* the file may be valid, but this libheif has no codec for it */
    case heif_error_Unsupported_filetype:
    case heif_error_Unsupported_feature:
    case heif_error_Plugin_loading_error: return REPLY_UNSUPPORTED;
    case heif_error_Memory_allocation_error: return REPLY_NO_MEMORY;
    default: return REPLY_DAMAGED;
    }
}

static bool check_heif_error(struct reply_message *reply, struct heif_error error)
{
    if (error.code == heif_error_Ok) return true;
    decoder_reply(reply, status_of(error), error.message ? error.message : "");
    return false;
}

static bool fail_heif_memory(struct reply_message *reply)
{
    decoder_reply(reply, REPLY_NO_MEMORY, "");
    return false;
}

static bool read_heif_header(struct heif_job *job, struct reply_message *reply)
{
    job->context = heif.heif_context_alloc();
    if (!job->context) return fail_heif_memory(reply);
    if (!check_heif_error(reply, heif.heif_context_read_from_memory_without_copy(
                                     job->context, job->input, job->n, NULL)) ||
        !check_heif_error(reply,
                          heif.heif_context_get_primary_image_handle(job->context, &job->handle)))
        return false;
    job->alpha = heif.heif_image_handle_has_alpha_channel(job->handle);
    return true;
}

/* Decodes AV1 with libaom if libheif has it, else with libheif's default. */
static bool decode_heif_pixels(struct heif_job *job, struct reply_message *reply)
{
    struct heif_decoding_options *options = heif.heif_decoding_options_alloc();
    if (!options) return fail_heif_memory(reply);
    options->convert_hdr_to_8bit = 1;
#if LIBHEIF_NUMERIC_VERSION >= 0x010f0000 /* 1.15 */
    if (options->version >= 4) options->decoder_id = job->av1 ? "aom" : NULL;
#endif
    enum heif_chroma layout = job->alpha ? heif_chroma_interleaved_RGBA
                                         : heif_chroma_interleaved_RGB;
    struct heif_error error = heif.heif_decode_image(job->handle, &job->image, heif_colorspace_RGB,
                                                     layout, options);
    heif.heif_decoding_options_free(options);
    return check_heif_error(reply, error);
}

static void copy_plane_rows(uint8_t *to, const uint8_t *plane, int stride, size_t row, int rows)
{
    for (int y = 0; y < rows; y++)
        memcpy(to + (size_t)y * row, plane + (size_t)y * (size_t)stride, row);
}

/* Uses the size of the decoded image, because the file's header may claim another size. */
static void write_bitmap(const struct heif_job *job, const struct decoder_output *output,
                         struct reply_message *reply)
{
    int width = heif.heif_image_get_width(job->image, heif_channel_interleaved);
    int height = heif.heif_image_get_height(job->image, heif_channel_interleaved);
    int channels = job->alpha ? 4 : 3, stride = 0;
    const uint8_t *plane = heif.heif_image_get_plane_readonly(job->image, heif_channel_interleaved,
                                                              &stride);
    if (!plane || width <= 0 || height <= 0 || stride < width * channels) {
        decoder_reply(reply, REPLY_DAMAGED, "no pixels");
        return;
    }
    const struct bitmap_header header = {(uint32_t)width, (uint32_t)height, (uint32_t)channels};
    struct open_bitmap bitmap;
    uint8_t *to = bitmap_open(&bitmap, output, &header, 0, reply);
    if (!to) return;
    copy_plane_rows(to, plane, stride, (size_t)width * (size_t)channels, height);
    bitmap_finish(&bitmap, output, reply);
}

void libheif_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output)
{
    struct heif_job job = {.input = input, .n = n, .av1 = kind == JOB_AVIF};
    if (heif.problem[0]) {
        decoder_reply(reply, REPLY_NO_DECODER, heif.problem);
        return;
    }
    if (read_heif_header(&job, reply) && decode_heif_pixels(&job, reply))
        write_bitmap(&job, output, reply);
    if (job.image) heif.heif_image_release(job.image);
    if (job.handle) heif.heif_image_handle_release(job.handle);
    if (job.context) heif.heif_context_free(job.context);
}

#else

void libheif_load(void)
{
}

void libheif_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output)
{
    (void)kind, (void)input, (void)n, (void)output;
    decoder_reply(reply, REPLY_NO_DECODER,
                  "is not supported by this build of eyelet; convert it to JPEG or PNG");
}

#endif
