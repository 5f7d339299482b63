/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the conversation of a chat request: messages with their parts, and tools. */
#ifndef EY_SERVER_API_MESSAGES_H
#define EY_SERVER_API_MESSAGES_H

#include "server/api/common/answer_grammar.h"
#include "server/api/common/image_refs.h"

bool messages_read(const struct api_reading *r, struct image_refs *images, json_object *value);
bool tools_read(const struct api_reading *r, struct api_tools *tools, json_object *value);

#endif
