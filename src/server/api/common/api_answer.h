/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as the engine gives them to a dialect: whole choices, or events of a stream. */
#ifndef EY_SERVER_API_ANSWER_H
#define EY_SERVER_API_ANSWER_H

#include "base/text/json_writer.h"
#include "server/api/common/api_request.h"
#include "server/api/common/api_usage.h"

/* The facts of one exchange that its whole answer and its events need. */
struct api_reply {
    int kind;                          /* defined by the dialect */
    const struct api_request *request; /* prompts are already freed */
    char id[48];                       /* the dialect's prefix and 32 digits */
    int64_t created;                   /* seconds since 1970 */
    const char *model;                 /* the served name */
    int64_t prompt_tokens;             /* known before the first token */
    double requested_at;               /* when the request came; seconds_now() */
    double load_seconds;               /* time spent waiting for the model */
    void *state;                       /* the dialect's, of size state_bytes; zeroed at first */
    const struct api_prompt_logprobs
        *prompt_logprobs; /* sent with the fields common to all choices, or NULL */
};

struct api_tool_call {
    char id[48]; /* the dialect's prefix and 32 digits */
    const char *name, *arguments;
    size_t n_arguments;
};

/* How an answer ended. */
struct api_end {
    ey_finish finish;
    bool called;              /* stopped after tool calls; some dialects report this reason */
    const char *stop_text;    /* the matched stop text of the request, or NULL */
    int stop_id;              /* the matched stop_token_ids entry, or -1 */
    ey_repetition repetition; /* copies is 0 unless a loop ended the answer */
    bool repetition_asked;    /* the client enabled loop detection */
};

/* Log-probabilities of tokens[n]; NULL if not requested. *offset is the text_offset of tokens[0];
 * the writer of completions advances it. */
struct api_logprobs {
    const ey_token_logprobs *tokens;
    size_t n;
    size_t *offset;
};

/* Log-probabilities and ranks of the prompt's tokens; NULL if not requested. */
struct api_prompt_logprobs {
    const ey_token_logprobs *tokens; /* [n]; the first has no values */
    const int *ranks;
    size_t n;
};

struct api_choice {
    int index;
    const char *thinking; /* the thought before the text */
    size_t n_thinking;
    const char *text; /* content */
    size_t n_text;
    const struct api_tool_call *calls;
    size_t n_calls;
    struct api_logprobs logprobs;
    struct api_end end;
    struct api_usage usage; /* of this answer alone: its tokens and times */
    struct api_prompt_logprobs prompt_logprobs;
    ey_pooled pooled; /* result of a pooling request, which has none of the above */
};

/* Upper bounds, in bytes, of the JSON in a reply. */
uint64_t api_logprobs_bytes(const struct api_logprobs *logprobs);
uint64_t api_choice_bytes(const struct api_choice *choice);

/* Events of a stream, in this order: OPEN; for each choice START, then THINKING, TEXT and CALL as
 * they come, and END; FINISH after all choices. SILENCE may come anywhere before FINISH, ERROR
 * replaces FINISH. */
enum api_event_type {
    API_EVENT_OPEN,     /* before anything is computed */
    API_EVENT_START,    /* a choice begins; chat sends its role */
    API_EVENT_THINKING, /* text[n_text] */
    API_EVENT_TEXT,     /* text[n_text]; logprobs */
    API_EVENT_CALL,     /* a complete call, number call_index of its choice */
    API_EVENT_END,      /* end; logprobs of remaining tokens */
    API_EVENT_FINISH,   /* usage */
    API_EVENT_ERROR,    /* error; replaces FINISH */
    API_EVENT_SILENCE   /* a long pause: text says what the server is doing */
};

struct api_event {
    enum api_event_type type;
    int index; /* of the choice */
    const char *text;
    size_t n_text;
    int n_tokens; /* tokens generated so far; set for THINKING, TEXT and END */
    int call_index;
    const struct api_tool_call *call;
    const struct api_logprobs *logprobs; /* may be NULL */
    const struct api_end *end;
    const struct api_usage *usage;
    const struct api_error *error;
};

/* Writes the prefix and 32 random hexadecimal digits. */
void api_random_id(char out[48], const char *prefix);
struct api_reply api_reply_start(const struct api_dialect *dialect, const char *model);

/* Whether a text has only white space, which models write between tool calls. */
bool api_text_is_white(const char *text, size_t n);

/* Writes a log-probability with nine digits, which restore the same float. JSON has no infinity:
 * -inf becomes -9999, as in vLLM, and NaN becomes null. */
void api_write_logprob(struct json_writer *w, float logprob);
/* Adds the members "token", "logprob" and "bytes" to an open object. */
void api_add_token_logprob(struct json_writer *w, const ey_logprob *candidate);
/* Writes an answer's token as an object: the three members above for the chosen token, and the
 * alternatives as the list "top_logprobs". An empty list is written only if `lists_none`. */
void api_write_answer_token(struct json_writer *w, const ey_token_logprobs *at, bool lists_none);
/* Adds a member about the loop that ended the answer, if one did. */
void api_add_repetition(struct json_writer *w, const ey_repetition *repetition);

#endif
