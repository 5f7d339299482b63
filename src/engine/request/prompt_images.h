/* SPDX-License-Identifier: Apache-2.0 */
/* The images of a request, decoded and scaled to their pixel budget. */
#ifndef EY_ENGINE_REQUEST_PROMPT_IMAGES_H
#define EY_ENGINE_REQUEST_PROMPT_IMAGES_H

#include "engine/engine_internal.h"
#include "engine/request/prompt.h"

/* Decodes and scales each image of the request into the prompt and frees the original before
 * reading the next. prompt->budget_bytes counts what the images take from prompt->budget, even
 * after a failure; ey_prompt_free releases it. */
bool prompt_images_open(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                        ey_err *e);

/* Returns the pixel budget of a detail level. */
uint64_t detail_pixels(ey_detail detail);

#endif
