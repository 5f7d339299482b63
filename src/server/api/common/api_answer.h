/* SPDX-License-Identifier: Apache-2.0 */
/* An answer between the engine and a dialect: whole, as choices, or as the events of a stream. */
#ifndef EY_SERVER_API_ANSWER_H
#define EY_SERVER_API_ANSWER_H

#include "base/text/json_writer.h"
#include "server/api/common/api_request.h"
#include "server/api/common/api_usage.h"

/* What all that is written of one exchange has in common. */
struct api_reply {
    int kind;                          /* the dialect's own */
    const struct api_request *request; /* its prompts are gone */
    char id[48];                       /* the dialect's prefix and 32 digits */
    int64_t created;                   /* seconds since 1970 */
    const char *model;                 /* as the server calls it */
    int64_t prompt_tokens;             /* known before the first token */
    double requested_at;               /* when the request came; seconds_now() */
    double load_seconds;               /* how long it waited for the model */
    void *state;                       /* the dialect's own, of state_bytes, zero at first */
    const struct api_prompt_logprobs *prompt_logprobs; /* told with what all choices share, or NULL
                                                        */
};

struct api_tool_call {
    char id[48]; /* the dialect's prefix and 32 digits */
    const char *name, *arguments;
    size_t n_arguments;
};

/* How an answer ended. */
struct api_end {
    ey_finish finish;
    bool called;              /* it stopped after tool calls, which some dialects tell apart */
    const char *stop_text;    /* NULL: none of the request's stop texts */
    int stop_id;              /* -1: none of its stop_token_ids */
    ey_repetition repetition; /* copies 0: no loop ended it */
    bool repetition_asked;    /* it was looked for at the client's wish */
};

/* Log-probabilities of tokens[n]; those of a completion count characters from *offset on. NULL
 * tokens: none were requested. */
struct api_logprobs {
    const ey_token_logprobs *tokens;
    size_t n;
    size_t *offset;
};

/* The same of the prompt, with ranks; an answer's own. NULL tokens: none were requested. */
struct api_prompt_logprobs {
    const ey_token_logprobs *tokens; /* [n]; of the first nothing is known */
    const int *ranks;
    size_t n;
};

struct api_choice {
    int index;
    const char *thinking; /* what came before it */
    size_t n_thinking;
    const char *text; /* content */
    size_t n_text;
    const struct api_tool_call *calls;
    size_t n_calls;
    struct api_logprobs logprobs;
    struct api_end end;
    struct api_prompt_logprobs prompt_logprobs;
    ey_pooled pooled; /* of a request for vectors or scores, which has none of the above */
};

/* Bytes that they take in a reply, at most. */
uint64_t api_logprobs_bytes(const struct api_logprobs *logprobs);
uint64_t api_choice_bytes(const struct api_choice *choice);

/* What a stream is told, in this order: OPEN; of each choice START, then THINKING, TEXT and CALL as
 * they come, and END; FINISH when all choices have ended. SILENCE may come anywhere before, ERROR
 * in the place of FINISH. */
enum api_event_type {
    API_EVENT_OPEN,     /* nothing was computed yet */
    API_EVENT_START,    /* a choice begins: the role */
    API_EVENT_THINKING, /* text[n_text] */
    API_EVENT_TEXT,     /* text[n_text]; logprobs */
    API_EVENT_CALL,     /* a whole call, number call_index of its choice */
    API_EVENT_END,      /* end; logprobs of tokens that came without text */
    API_EVENT_FINISH,   /* usage */
    API_EVENT_ERROR,    /* the last event, too */
    API_EVENT_SILENCE   /* nothing for long: text says what the server does */
};

struct api_event {
    enum api_event_type type;
    int index; /* of the choice */
    const char *text;
    size_t n_text;
    int call_index;
    const struct api_tool_call *call;
    const struct api_logprobs *logprobs; /* NULL: none */
    const struct api_end *end;
    const struct api_usage *usage;
    const struct api_error *error;
};

/* prefix and 32 random hexadecimal digits. */
void api_random_id(char out[48], const char *prefix);
struct api_reply api_reply_start(const struct api_dialect *dialect, const char *model);

/* JSON has no infinity; vLLM puts -9999 in its place. NaN becomes null. Nine digits give back the
 * same float. */
void api_write_logprob(struct json_writer *w, float logprob);
/* Members of an object that is open: "token", "logprob" and "bytes". */
void api_add_token_logprob(struct json_writer *w, const ey_logprob *candidate);
/* A member of an object that is open: what a loop that ended the answer was, if one did. */
void api_add_repetition(struct json_writer *w, const ey_repetition *repetition);

#endif
