/* SPDX-License-Identifier: Apache-2.0 */
/* The table of Anthropic's dialects, one per kind of request. */
#include "server/api/anthropic/anthropic_dialect.h"

#define ANTHROPIC_DIALECT(the_kind)                                     \
    [the_kind] = {.kind = the_kind,                                     \
                  .id_prefix = "msg_",                                  \
                  .call_prefix = "toolu_",                              \
                  .json_type = "application/json",                      \
                  .stream_type = "text/event-stream; charset=utf-8",    \
                  .clips = true,                                        \
                  .keeps_answer = true,                                 \
                  .state_bytes = sizeof(struct anthropic_state),        \
                  .read = anthropic_read,                               \
                  .write_whole = anthropic_write_whole,                 \
                  .write_event = anthropic_write_event,                 \
                  .write_unknown_model = anthropic_write_unknown_model, \
                  .close_state = anthropic_close_state}

const struct api_dialect anthropic_dialects[] = {ANTHROPIC_DIALECT(ANTHROPIC_MESSAGES),
                                                 ANTHROPIC_DIALECT(ANTHROPIC_COUNT)};
