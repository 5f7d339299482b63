/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child/libwebp_decode.h"

#include <errno.h>
#include <webp/decode.h>

/* libwebp reports a failed allocation of its tables as damage; errno shows which it was. */
static void reply_webp_status(struct reply_message *reply, VP8StatusCode status)
{
    if (status == VP8_STATUS_OUT_OF_MEMORY || errno == ENOMEM)
        decoder_reply(reply, REPLY_NO_MEMORY, "");
    else
        decoder_reply(reply, REPLY_DAMAGED, "");
}

/* Decodes into the bitmap without a copy. */
static VP8StatusCode decode_webp_pixels(WebPDecoderConfig *config, const uint8_t *input, size_t n,
                                        const struct bitmap_header *header, uint8_t *pixels)
{
    size_t stride = (size_t)header->width * header->channels;
    config->output.colorspace = header->channels == 4 ? MODE_RGBA : MODE_RGB;
    config->output.is_external_memory = 1;
    config->output.u.RGBA.rgba = pixels;
    config->output.u.RGBA.stride = (int)stride;
    config->output.u.RGBA.size = stride * header->height;
    return WebPDecode(input, n, config);
}

void libwebp_decode(struct reply_message *reply, enum job_kind kind, const uint8_t *input, size_t n,
                    const struct decoder_output *output)
{
    WebPDecoderConfig config;
    VP8StatusCode status = VP8_STATUS_INVALID_PARAM;
    errno = 0;
    if (WebPInitDecoderConfig(&config)) status = WebPGetFeatures(input, n, &config.input);
    if (status != VP8_STATUS_OK) {
        reply_webp_status(reply, status);
        return;
    }
    const struct bitmap_header header = {
        (uint32_t)config.input.width, (uint32_t)config.input.height, kind == JOB_WEBP_RGBA ? 4 : 3};
    struct open_bitmap bitmap;
    uint8_t *pixels = bitmap_open(&bitmap, output, &header,
                                  4 * (size_t)header.width * header.height, reply);
    if (!pixels) return;
    status = decode_webp_pixels(&config, input, n, &header, pixels);
    if (status == VP8_STATUS_OK) {
        bitmap_finish(&bitmap, output, reply);
    } else {
        bitmap_abandon(&bitmap);
        reply_webp_status(reply, status);
    }
}
