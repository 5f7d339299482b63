/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes JPEG files in memory. */
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "image/image.h"

enum { JPEG_QUALITY = 85 };

bool image_encode_jpeg(const struct image *image, void **bytes, size_t *n, ey_err *e)
{
    unsigned char *coded = NULL;
    unsigned long n_coded = 0;
    tjhandle jpeg = tjInitCompress();
    bool ok = jpeg && tjCompress2(jpeg, image->rgb, image->width, 0, image->height, TJPF_RGB,
                                  &coded, &n_coded, TJSAMP_420, JPEG_QUALITY, 0) == 0;
    *bytes = ok ? malloc(n_coded) : NULL;
    *n = n_coded;
    /* a copy, because free() cannot release the library's buffer */
    if (*bytes) memcpy(*bytes, coded, n_coded);
    tjFree(coded);
    if (jpeg) tjDestroy(jpeg);
    return *bytes || ey_fail_memory(e, "the JPEG encoder", 0);
}
