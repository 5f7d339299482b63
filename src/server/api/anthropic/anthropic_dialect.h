/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's Messages, and the count of their tokens. */
#ifndef EY_SERVER_ANTHROPIC_DIALECT_H
#define EY_SERVER_ANTHROPIC_DIALECT_H

#include "server/api/common/api_dialect.h"
#include "server/api/common/message_list.h"

/* The kinds: which route a request came by. */
enum anthropic_kind { ANTHROPIC_MESSAGES, ANTHROPIC_COUNT };

extern const struct api_dialect anthropic_dialects[]; /* by kind */

/* What the reader leaves for the answer (api_request.own). */
struct anthropic_request {
    bool omits_thoughts; /* their blocks are empty */
};

/* A stream between its events. */
struct anthropic_state {
    enum { ANTHROPIC_CLOSED, ANTHROPIC_TEXT, ANTHROPIC_THINKING } open;
    int index; /* of the block that is open, or comes next */
    bool called;
    struct api_end end;  /* of the answer, which is said behind it */
    struct buf thinking; /* what its signature is of */
};

bool anthropic_read(struct api_parser *p);
/* `system` and all messages. */
bool anthropic_read_conversation(struct api_parser *p);
/* The blocks of messages[i].content and of what holds blocks itself. */
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
