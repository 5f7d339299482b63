/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's Responses API and its token counting. */
#ifndef EY_SERVER_RESPONSES_DIALECT_H
#define EY_SERVER_RESPONSES_DIALECT_H

#include "server/api/common/api_dialect.h"
#include "server/api/common/message_list.h"
#include "server/api/openai_responses/responses_store.h"

/* The code of the error for an unknown previous_response_id. Until the error is written, it is kept
 * in api_error.type. */
#define RESPONSES_PREVIOUS_GONE "previous_response_not_found"

/* The message for a reference to an unknown item. */
#define RESPONSES_ITEM_GONE                                                                   \
    "Item with id '%.60s' not found. Items are kept for a while only; send the item itself, " \
    "as many clients do if store is false."

/* Kinds of requests, one per route. */
enum responses_kind { RESPONSES_CREATE, RESPONSES_COUNT };

extern const struct api_dialect responses_dialects[]; /* by kind */

/* What the reader keeps for the answer (api_request.own). */
struct responses_request {
    const char *repeated; /* JSON members of the request that the answer repeats, each after ',' */
    const char *input;    /* JSON array of the input items for the store; NULL: not stored */
    bool encrypted_thoughts;
};

/* The state of an answer between events. Whole answers are built from the same events. */
struct responses_state {
    struct responses_store *store; /* NULL: nothing is stored */
    unsigned char owner[RESPONSES_OWNER_BYTES];
    char previous_id[RESPONSES_ID_BYTES]; /* "": none */
    int64_t sequence;
    enum { RESPONSES_CLOSED, RESPONSES_THOUGHT, RESPONSES_MESSAGE } open;
    char item_id[48];
    int n_items;
    bool called, any_text;
    struct buf items;    /* finished items, separated by ',' */
    struct buf text;     /* text of the open item */
    struct buf logprobs; /* log-probabilities of its tokens, separated by ',' */
    struct api_end end;
};

bool responses_read(struct api_parser *p);
/* Reads `instructions`, `previous_response_id` and `input`. The route has replaced
 * `previous_response_id` by an array of that conversation's items. */
bool responses_read_input(struct api_parser *p);
bool responses_read_tools(struct api_parser *p, const char *path, json_object *value);
bool responses_read_tool_choice(struct api_parser *p, const char *path, json_object *value);
/* Copies the members of the request that the answer repeats and, if `store` is set, the input. */
bool responses_keep_request(struct api_parser *p, bool store);

void responses_write_whole(struct buf *out, struct api_reply *reply,
                           const struct api_choice *choices, size_t n,
                           const struct api_usage *usage);
void responses_write_event(struct buf *out, struct api_reply *reply, const struct api_event *event);
void responses_close_state(void *state);

/* Append an item of an answer with its status. */
void responses_add_thought(struct buf *items, const char *id, const char *text, size_t n,
                           bool encrypted, const char *status);
void responses_add_message(struct buf *items, const char *id, const struct buf *text,
                           const struct buf *logprobs, const char *status);
void responses_add_call(struct buf *items, const char *id, const struct api_tool_call *call,
                        bool with_arguments, const char *status);
struct json_writer;
void responses_write_text_part(struct json_writer *w, const struct buf *text,
                               const struct buf *logprobs);
void responses_add_logprobs(struct json_writer *w, const struct buf *logprobs);
/* Appends log-probability items, separated by ','. */
void responses_write_logprobs(struct buf *out, const struct api_logprobs *logprobs);
const char *responses_error_code(const struct api_error *error); /* NULL: none */

error_form_fn write_responses_error; /* like chat's, but `code` is a text or null */

#endif
