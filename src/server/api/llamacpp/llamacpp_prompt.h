/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of /completion: text, token ids, text with images, or a list of these. */
#ifndef EY_SERVER_LLAMACPP_PROMPT_H
#define EY_SERVER_LLAMACPP_PROMPT_H

#include "server/api/common/api_parser.h"

/* Reads `prompt` with its images. Images of multimodal_data replace the texts API_MEDIA_MARKER in
 * order; images of image_data, an older field of the request, replace the texts [img-ID]. */
api_field_fn read_llamacpp_prompt;

#endif
