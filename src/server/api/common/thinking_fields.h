/* SPDX-License-Identifier: Apache-2.0 */
/* What requests say of thoughts and of loops, in the words of all APIs. */
#ifndef EY_SERVER_API_THINKING_FIELDS_H
#define EY_SERVER_API_THINKING_FIELDS_H

#include "server/api/common/api_parser.h"

/* It says by itself, not by an effort, whether the model is to think. */
void thinking_ask(struct api_parser *p, const char *path, bool wanted);

api_field_fn read_enable_thinking;      /* true or false */
api_field_fn read_reasoning_effort;     /* "none" is off */
api_field_fn read_thinking_budget;      /* tokens; -1: no limit; 0: off */
api_field_fn read_include_reasoning;    /* false: the thought is counted and not told */
api_field_fn read_template_options;     /* chat_template_kwargs: others change nothing there */
api_field_fn read_repetition_detection; /* as in vLLM */

/* When all is read: the first that says something decides, the request before the server and the
 * server before the template. */
bool thinking_settle(struct api_parser *p);

#endif
