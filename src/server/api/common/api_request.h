/* SPDX-License-Identifier: Apache-2.0 */
/* The internal request, which every dialect's JSON becomes (api_dialect.h). Nothing here knows of
 * HTTP or sockets: text in, structs out, and the other way round, so that all of it can be tested
 * and fuzzed alone. */
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

/* A prompt of a completion: text as it stands, or token ids. */
struct api_prompt {
    const char *text; /* NULL: ids */
    size_t n_text;
    const int *ids;
    size_t n_ids;
    const ey_pooling_input *input; /* for a vector or a score; NULL: one of the above */
    bool finished;                 /* its special tokens count */
    size_t first_image;            /* of the request's images, the input's first */
    size_t first_query_image, n_query_images;
};

/* What a request holds of the budget. */
struct api_charge {
    ey_budget *from; /* NULL: there is no limit */
    uint64_t held;
};

struct api_request {
    const struct api_dialect *dialect;
    int kind;            /* the dialect's own: which of its routes it came by */
    ey_request request;  /* messages and all that is said of the answer; what it points to, the
                            grammar too, is this struct's */
    const char *model;   /* as the client named it; "" when it did not */
    int n;               /* answers to each prompt */
    bool drops_messages; /* the oldest ones, where the prompt does not fit the context */
    size_t n_dropped_images;
    bool stream, include_usage, echo;
    bool only_echo;             /* the answer is to have no token: one is computed, not told */
    bool tools_given;           /* tool calls in the answer's text are taken apart */
    bool single_call;           /* only the first of them (parallel_tool_calls false) */
    bool seed_given;            /* request.sampling.seed is the client's */
    bool length_given;          /* request.max_tokens is */
    bool hides_thinking;        /* thoughts are counted and not told */
    bool loops_asked;           /* request.loop_guard is the client's */
    bool token_strings;         /* of a tokenization: the tokens' texts too */
    bool token_pieces;          /* or with each id */
    struct api_prompt *prompts; /* [n_prompts] of a completion or tokenization; its messages
                                   otherwise. Of what is to be detokenized: the ids */
    size_t n_prompts;
    const char *prompts_name; /* the field that they came in; NULL: "prompt" */
    const char *instruction;  /* of all inputs that have none of their own; NULL: none */
    size_t n_instruction;
    struct buf
        unknown; /* names of fields that were not understood, ", " between; for a Warning header */
    struct buf notes;    /* sentences for another Warning header: what was not done as asked */
    struct media *media; /* [n_media] the image files */
    const struct image_ref
        *image_refs; /* [n_media] where they were named; as long as the prompts */
    size_t n_media;
    struct api_charge grammar; /* for the request's grammar */
    void *own;                 /* what the dialect's reader leaves for its answer; lasting memory */
    size_t kept_bytes;         /* of texts of the request that are kept for that */
    void *memory;              /* what all of the above lies in */
};

struct api_limits {
    ey_request
        defaults; /* what a request has that does not say otherwise; its sampling is the model's */
    int max_images;      /* of one request */
    uint64_t max_pixels; /* of an image whose request has no budget; 0: as its detail says */
    int vocab_size, max_model_len;
    ey_task task;
    int dimensions;       /* of a whole vector */
    int turn_start;       /* the token that a finished prompt begins with; -1: none */
    bool thinks;          /* the model's template opens a thought */
    ey_thinking thinking; /* where the request says nothing */
    bool keeps_answer;    /* as api_dialect.keeps_answer, of all dialects */
    bool effort_budgets;  /* words of effort limit thoughts */
    int loop_tokens;      /* of the cautious guard; 0: loops are not looked for */
    bool strict;          /* fields that are not known are refused */
    const struct media_policy *media;
    ey_grammar_cache *grammars;        /* NULL: each is compiled */
    const ey_tool_format *tool_format; /* the model's; NULL: it knows no tools */
};

/* The most memory that body[n] takes besides itself while it is parsed, and until
 * api_request_drop_prompts: what json-c makes of each kind of value, strings twice. */
uint64_t api_json_bytes(const char *body, size_t n);
/* Parses body[n], and reads of it which model is asked. False: *error says why, with the field's
 * path. Free it in both cases. */
bool api_open(struct api_request *out, const struct api_dialect *dialect, const char *body,
              size_t n, struct api_error *error);
/* Reads the rest of what was opened, by that model's limits, and gets its images. */
bool api_read(struct api_request *out, const struct api_limits *limits, struct api_error *error);
/* Both, where the model is known beforehand. */
bool api_parse(struct api_request *out, const struct api_dialect *dialect, const char *body,
               size_t n, const struct api_limits *limits, struct api_error *error);
/* The object that was opened, until the prompts are dropped. */
json_object *api_request_json(const struct api_request *request);
/* Leaves out the oldest messages, `wanted` of them or some more: a call goes with its results.
 * System messages and the last one stay. Returns how many went, 0 where none can. */
size_t api_request_drop_oldest(struct api_request *request, size_t wanted);
/* Something is not done as asked: a sentence for the Warning header. */
void api_request_note(struct api_request *request, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Frees messages, prompts and images, which can be large: ey_prompt_prepare has made of them
 * what it needs. */
void api_request_drop_prompts(struct api_request *request);
void api_request_free(struct api_request *request);

#endif
