/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of a request: decoded, scaled to the budget, ready to be cut in patches. */
#ifndef EY_ENGINE_PICTURES_H
#define EY_ENGINE_PICTURES_H

#include "engine/engine_internal.h"
#include "engine/request/prompt.h"

/* Decodes and scales every picture of the request into the prompt; each original is let go before
 * the next is read. What is held of the engine's budget is the prompt's to give back, also after an
 * error. */
bool prompt_images_open(ey_prompt *prompt, const ey_engine *engine, const ey_request *request,
                        ey_err *e);

/* Pixels that a detail stands for. */
uint64_t detail_pixels(ey_detail detail);

#endif
