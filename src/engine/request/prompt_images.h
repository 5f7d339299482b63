/* SPDX-License-Identifier: Apache-2.0 */
/* The images of a request: decoded, scaled to the budget, ready to be cut in patches. */
#ifndef EY_ENGINE_PICTURES_H
#define EY_ENGINE_PICTURES_H

#include "engine/engine_internal.h"
#include "engine/request/prompt.h"

/* Decodes and scales each image of the request into the prompt and frees the original before it
 * reads the next. What it holds of the engine's budget is the prompt's to release, also on failure.
 */
bool prompt_images_open(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                        ey_err *e);

/* Pixels that a detail stands for. */
uint64_t detail_pixels(ey_detail detail);

#endif
