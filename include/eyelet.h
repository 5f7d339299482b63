/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet: images and text in, text out.
 *
 * This is the whole interface for programs. Tensors, kernels and device memory are internal.
 *
 *     ey_err err;
 *     ey_engine_options options = ey_engine_defaults();
 *     options.model = "/models/Qwen3-VL-2B-Instruct-FP8";
 *     ey_engine *engine = NULL;
 *     if (!ey_engine_open(&engine, &options, &err)) {
 *         fprintf(stderr, "%s\n", err.text);
 *         return 1;
 *     }
 *
 *     ey_part parts[] = {ey_image_part(bytes, n_bytes), ey_text_part("What is this?")};
 *     ey_message message = {.role = "user", .parts = parts, .n_parts = 2};
 *     ey_request request = ey_request_defaults();
 *     request.messages = &message;
 *     request.n_messages = 1;
 *     ey_answer answer = {0};
 *     if (ey_ask(engine, &request, &answer, &err)) puts(answer.text);
 *     ey_answer_free(&answer);
 *     ey_engine_close(&engine);
 *
 * All strings are UTF-8. A function that takes an ey_err and returns false has filled *err with a
 * sentence that a person can act on. Options and requests are borrowed for the duration of the call
 * only, unless a comment says otherwise; whatever a call returns through a pointer belongs to the
 * caller. */
#ifndef EYELET_H
#define EYELET_H

#include "eyelet/api.h"
#include "eyelet/budget.h"
#include "eyelet/diagnose.h"
#include "eyelet/engine.h"
#include "eyelet/error.h"
#include "eyelet/grammar.h"
#include "eyelet/plan.h"
#include "eyelet/phase.h"
#include "eyelet/image_preview.h"
#include "eyelet/pooling.h"
#include "eyelet/request.h"
#include "eyelet/tasks.h"
#include "eyelet/tool_calls.h"

#endif
