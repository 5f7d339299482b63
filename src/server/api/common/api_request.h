/* SPDX-License-Identifier: Apache-2.0 */
/* The internal request, into which every dialect's JSON is read (api_dialect.h). Reading turns
 * text into structs and needs neither HTTP nor sockets, so it can be tested and fuzzed alone. */
#ifndef EY_SERVER_API_REQUEST_H
#define EY_SERVER_API_REQUEST_H

#include <json-c/json.h>

#include "base/buf.h"
#include "eyelet/pooling.h"
#include "eyelet/tool_calls.h"
#include "media/media.h"
#include "server/http/error_form.h"

struct api_dialect;
struct image_ref;

/* A prompt without a conversation: text, token ids, parts, or an input of a pooling model. */
struct api_prompt {
    const char *text; /* NULL for ids */
    size_t n_text;
    const int *ids;
    size_t n_ids;
    const ey_part *parts; /* [n_parts] texts and images, not rendered; NULL: one of the above */
    size_t n_parts;
    const ey_pooling_input *input; /* for a vector or a score; NULL: one of the above */
    bool finished;                 /* a rendered prompt: its special tokens are parsed */
    size_t first_image;            /* index of the input's first image among the request's images */
    size_t first_query_image, n_query_images; /* the same for the query's images */
};

/* The part of the budget that a request holds, in bytes. */
struct api_charge {
    ey_budget *from; /* NULL for no limit */
    uint64_t held;
};

struct api_request {
    const struct api_dialect *dialect;
    int kind;            /* defined by the dialect: the route */
    ey_request request;  /* messages and settings; everything that it points to, the grammar
                            included, is owned by this struct */
    const char *model;   /* as named by the client; "" if it was not */
    int n;               /* answers per prompt */
    bool drops_messages; /* may drop the oldest messages if the prompt does not fit the context */
    size_t n_dropped_images;
    bool stream, include_usage, echo;
    bool only_echo;             /* only the prompt is returned; one token is computed, not sent */
    bool tools_given;           /* parse tool calls in the answer's text */
    bool single_call;           /* send only the first call (parallel_tool_calls false) */
    bool seed_given;            /* the client set request.sampling.seed */
    bool length_given;          /* the client set request.max_tokens */
    bool hides_thinking;        /* thoughts are counted but not sent */
    bool loops_asked;           /* the client set request.loop_guard */
    bool token_strings;         /* tokenize: also return the list of the tokens' texts */
    bool token_pieces;          /* tokenize: return each id with its text */
    struct api_prompt *prompts; /* [n_prompts] of a completion or tokenization, or the ids to
                                   detokenize; chats have messages instead */
    size_t n_prompts;
    const char *prompts_name; /* the field of the prompts; NULL: "prompt" */
    const char *instruction;  /* default instruction of inputs; NULL: none */
    size_t n_instruction;
    struct buf unknown; /* names of unknown fields, separated by ", ", for a Warning header */
    struct buf
        notes; /* sentences on how the answer deviates from the request, for another such header */
    struct media *media; /* [n_media] the image files */
    const struct image_ref *
        *image_refs; /* [n_media] the reference to each file; freed with the prompts */
    size_t n_media;
    struct api_charge grammar; /* charge of the request's grammar */
    void *own;                 /* what the dialect's reader keeps for its answer; lasting memory */
    size_t kept_bytes;         /* size of the request's texts in `own` */
    void *memory;              /* the arenas of all of the above */
};

struct api_limits {
    ey_request defaults; /* values for absent fields; sampling is the model's */
    int max_images;      /* per request */
    uint64_t max_pixels; /* pixel limit of an image for which the request sets neither a limit nor a
                            detail; 0: the default */
    int vocab_size, max_model_len;
    ey_task task;
    int dimensions;       /* of an untruncated vector */
    int turn_start;       /* first token of a rendered prompt; -1: none */
    bool thinks;          /* the model can think */
    ey_thinking thinking; /* default for requests */
    bool keeps_answer;    /* api_dialect.keeps_answer for all dialects */
    bool effort_budgets;  /* effort levels limit thoughts */
    int loop_tokens;      /* tokens of repetition that end an answer if the request sets no loop
                             guard; 0: never */
    bool strict;          /* unknown fields are errors */
    const struct media_policy *media;
    ey_grammar_cache *grammars;        /* NULL: grammars are not cached */
    const ey_tool_format *tool_format; /* NULL if the model has no tools */
};

/* Returns an upper bound of the memory that the parsed body[n] takes in addition to the body, until
 * api_request_drop_prompts(). Each value counts with its size in json-c, each string twice. */
uint64_t api_json_bytes(const char *body, size_t n);
/* Parses body[n] and reads the model's name, which determines the limits of other fields. Fails
 * with the field's path. Free *out in any case. */
bool api_open(struct api_request *out, const struct api_dialect *dialect, const char *body,
              size_t n, struct api_error *error);
/* Reads the model's name from another field, unless that is absent or "". */
bool api_read_model_name(struct api_request *out, const char *field, struct api_error *error);
/* Reads the other fields with the model's limits, and fetches the images. */
bool api_read(struct api_request *out, const struct api_limits *limits, struct api_error *error);
/* Calls api_open() and api_read(), for callers that know the model's limits in advance. */
bool api_parse(struct api_request *out, const struct api_dialect *dialect, const char *body,
               size_t n, const struct api_limits *limits, struct api_error *error);
/* The parsed object; valid until the prompts are dropped. */
json_object *api_request_json(const struct api_request *request);
/* Drops the oldest `wanted` messages, or a few more, because the results of a dropped call are
 * dropped too. System messages and the last message stay. Returns the number of dropped messages,
 * which is 0 if none may be dropped. */
size_t api_request_drop_oldest(struct api_request *request, size_t wanted);
/* Adds a sentence to the Warning header: how the answer deviates from the request. */
void api_request_note(struct api_request *request, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Frees messages, prompts and images, which can be large. Call it after ey_prompt_prepare(). */
void api_request_drop_prompts(struct api_request *request);
void api_request_free(struct api_request *request);

#endif
