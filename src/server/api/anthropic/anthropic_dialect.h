/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's Messages API and its token counting. */
#ifndef EY_SERVER_ANTHROPIC_DIALECT_H
#define EY_SERVER_ANTHROPIC_DIALECT_H

#include "server/api/common/api_dialect.h"
#include "server/api/common/message_list.h"

/* Kinds of requests, one per route. */
enum anthropic_kind { ANTHROPIC_MESSAGES, ANTHROPIC_COUNT };

extern const struct api_dialect anthropic_dialects[]; /* by kind */

/* What the reader keeps for the answer (api_request.own). */
struct anthropic_request {
    bool omits_thoughts; /* thinking blocks are sent empty */
};

/* The state of a stream between events. */
struct anthropic_state {
    enum { ANTHROPIC_CLOSED, ANTHROPIC_TEXT, ANTHROPIC_THINKING } open;
    int index; /* of the open block, or of the next one if none is open */
    bool called;
    struct api_end end;  /* how the answer ended; written when the stream finishes */
    struct buf thinking; /* the thought so far, for its signature */
};

bool anthropic_read(struct api_parser *p);
/* Reads `system` and all messages. */
bool anthropic_read_conversation(struct api_parser *p);
/* Reads the content of a message or of a block. The content is a text or an array of blocks. */
bool anthropic_read_blocks(struct api_parser *p, struct message_list *list,
                           const struct field_path *path, json_object *blocks);
bool anthropic_read_tools(struct api_parser *p, const char *path, json_object *value);
bool anthropic_read_tool_choice(struct api_parser *p, const char *path, json_object *value);

void anthropic_write_whole(struct buf *out, struct api_reply *reply,
                           const struct api_choice *choices, size_t n,
                           const struct api_usage *usage);
void anthropic_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event);
void anthropic_close_state(void *state);
void anthropic_write_unknown_model(char *out, size_t size, const char *asked, const char *names);

error_form_fn write_anthropic_error; /* {"type": "error", "error": {"type", "message"}} */

#endif
