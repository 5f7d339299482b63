/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of fields about thinking and loop detection, for all dialects. */
#ifndef EY_SERVER_API_THINKING_FIELDS_H
#define EY_SERVER_API_THINKING_FIELDS_H

#include "server/api/common/api_parser.h"

/* Records an explicit on/off setting (not one implied by an effort level). */
void thinking_ask(struct api_parser *p, const char *path, bool wanted);

api_field_fn read_enable_thinking;      /* true or false */
api_field_fn read_reasoning_effort;     /* "none" disables thinking */
api_field_fn read_thinking_budget;      /* tokens; -1: unlimited, 0: off */
api_field_fn read_include_reasoning;    /* false: thoughts are counted but not sent */
api_field_fn read_template_options;     /* chat_template_kwargs; other keys have no effect */
api_field_fn read_repetition_detection; /* as in vLLM */

/* Resolves the settings after all fields are read: the request's override the server's, and the
 * server's override the template's. */
bool thinking_settle(struct api_parser *p);

#endif
