/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of /completion: text, token ids, text with images, or a list of these. */
#ifndef EY_SERVER_LLAMACPP_PROMPT_H
#define EY_SERVER_LLAMACPP_PROMPT_H

#include "server/api/common/api_parser.h"

/* Reads `prompt` with its images: those of multimodal_data replace API_MEDIA_MARKER in order; those
 * of the request's image_data, the older form, replace [img-ID]. */
api_field_fn read_llamacpp_prompt;

#endif
