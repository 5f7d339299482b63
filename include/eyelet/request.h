/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers.
 *
 * ey_ask answers one request and blocks until it is done. Programs that serve many requests call
 * the steps of ey_ask: ey_prompt_prepare, ey_generation_start, ey_generation_next and
 * ey_generation_collect. Requests of several threads to one engine run in one batch. */
#ifndef EYELET_REQUEST_H
#define EYELET_REQUEST_H

#include "eyelet/engine.h"
#include "eyelet/grammar.h"

EY_BEGIN_DECLS

/* ---- messages -------------------------------------------------------------------------------- */

typedef enum { EY_PART_TEXT, EY_PART_IMAGE } ey_part_type;

/* The most pixels that an image keeps: AUTO 1,310,720, LOW 262,144, HIGH 4,194,304, NATIVE the
 * checkpoint's own limit (what the reference implementation uses). Never more than the checkpoint's
 * limit, nor than the image's share of half the context; an image that cannot be made that small is
 * refused. */
typedef enum { EY_DETAIL_AUTO, EY_DETAIL_LOW, EY_DETAIL_HIGH, EY_DETAIL_NATIVE } ey_detail;

typedef struct {
    ey_part_type type;
    const void *bytes; /* text: UTF-8; image: a file: JPEG, PNG, WebP, GIF, HEIC, AVIF, TIFF, BMP or
                          PNM */
    size_t n_bytes;
    ey_detail detail;    /* images */
    uint64_t max_pixels; /* images: if not 0, replaces the limit of `detail` */
    uint64_t min_pixels; /* images: if not 0, smaller ones are enlarged to this many pixels */
} ey_part;

/* Parts that borrow the text (NUL-terminated) or the file's bytes, with default sizes. */
EY_API ey_part ey_text_part(const char *text);
EY_API ey_part ey_image_part(const void *bytes, size_t n_bytes);

typedef struct {
    const char *name;
    const char *arguments; /* JSON, passed to the model unchanged */
} ey_tool_call;

typedef struct {
    const char *role; /* "system", "user", "assistant" or "tool" */
    const ey_part *parts;
    size_t n_parts;
    const ey_tool_call *tool_calls; /* assistant */
    size_t n_tool_calls;
    const char *thought; /* assistant: [n_thought] its thought before the answer, or NULL */
    size_t n_thought;
} ey_message;

/* ---- sampling -------------------------------------------------------------------------------- */

/* Applied in this order: penalties, temperature, top_k, top_p, min_p, then the draw. */
typedef struct {
    float temperature;        /* 0: greedy */
    int top_k;                /* keep the k most likely (ties included); 0: all */
    float top_p;              /* keep the fewest whose probabilities sum to this; 1: all, 0: one */
    float min_p;              /* keep those with this share of the best one's probability; 0: all */
    float repetition_penalty; /* of ids in prompt or answer: logit / r if > 0, else r * logit */
    float presence_penalty;   /* subtracted once from ids in the answer */
    float frequency_penalty;  /* subtracted for each occurrence in the answer */
    uint64_t seed;            /* same seed, request and model: same answer */
} ey_sampling;

static inline ey_sampling ey_sampling_greedy(void)
{
    ey_sampling sampling = EY_ZEROS;
    sampling.top_p = 1;
    sampling.repetition_penalty = 1;
    return sampling;
}
/* The recommendation of the model's generation_config.json, with seed 0. */
EY_API ey_sampling ey_model_sampling(const ey_engine *engine);
/* A seed from the system's random number generator. */
EY_API uint64_t ey_random_seed(void);

typedef struct {
    int id;
    float bias; /* added to the token's logit, after penalties */
} ey_logit_bias;

/* ---- thoughts and loops -----------------------------------------------------------------------
 */

/* Whether the model thinks before it answers a conversation. AUTO leaves it to the chat template.
 * ON needs a model that can think (ey_engine_info.thinks). */
typedef enum { EY_THINKING_AUTO, EY_THINKING_ON, EY_THINKING_OFF } ey_thinking;

/* EY_KEEP_ANSWER, a value of request.thinking_budget, reserves a quarter of max_tokens, at most
 * 1024 tokens, for what follows the thought. */
enum { EY_KEEP_ANSWER = -1, EY_MAX_THINKING_END = 1024 };

/* Ends an answer that repeats itself: its last tokens are `min_count` copies of a pattern of
 * min_pattern to max_pattern tokens, and at least min_tokens together. Within a thought it ends the
 * thought only. */
typedef struct {
    int min_pattern; /* 0 means 1 */
    int max_pattern; /* at most 2048; 0 turns the guard off */
    int min_count;   /* at least 2 */
    int min_tokens;
} ey_loop_guard;

/* Returns a guard that tables, forms and dotted lines do not trigger: 8 copies of a pattern of at
 * most 512 tokens, and at least min_tokens together. */
static inline ey_loop_guard ey_loop_guard_cautious(int min_tokens)
{
    ey_loop_guard guard = EY_ZEROS;
    guard.min_pattern = 1;
    guard.max_pattern = 512;
    guard.min_count = 8;
    guard.min_tokens = min_tokens;
    return guard;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct ey_event ey_event;
/* Called while the answer is generated, on the thread that called ey_ask. Returning false cancels
 * the request within one step; ey_ask then succeeds with finish_reason EY_FINISH_CANCELLED and the
 * text so far. */
typedef bool ey_event_fn(void *user, const ey_event *event);

typedef struct ey_pooling_input ey_pooling_input; /* pooling.h */

/* Start from ey_request_defaults(). */
typedef struct {
    size_t size; /* of this struct */

    /* The prompt: messages, a text, token ids, or parts (below). If several are given, messages
     * are used before text and ids, and parts last. Text and ids cannot have image tokens. */
    const ey_message *messages;
    size_t n_messages;
    const char *text;
    size_t n_text;
    const int *ids;
    size_t n_ids;

    /* Called while images are decoded or wait for memory. Returning true ends the request with
     * EY_CANCELLED. May be NULL. */
    bool (*gone)(void *user);
    void *gone_user;
    ey_budget *budget;    /* limits images: a part of the engine's budget, or NULL for the whole */
    uint64_t budget_held; /* bytes of the engine's budget that the caller holds for this request */

    const char *const *tools; /* JSON objects, one per tool */
    size_t n_tools;
    bool add_vision_id;        /* "Picture 1: " before each image, as the chat template has it */
    bool add_bos;              /* before `text`: the tokenizer's BOS token, if it has one */
    bool parse_special_tokens; /* text that spells a special token becomes that token */
    int max_tokens;            /* of the answer; 0: as many as the context holds */
    bool no_prefix_cache;      /* compute the whole prompt even if its KV blocks are cached */
    bool ignore_eos;           /* continue after a stop token (benchmarks) */
    int min_tokens;          /* least tokens of the answer; a complete grammar may end it earlier */
    ey_sampling sampling;    /* ey_request_defaults: greedy */
    const char *const *stop; /* texts that end the answer and are not part of it */
    size_t n_stop;           /* at most 16, each of at most 1024 bytes */
    const int *stop_ids;     /* tokens that end the answer, in addition to the model's own */
    size_t n_stop_ids;       /* at most 64 */
    const ey_logit_bias *logit_bias;
    size_t n_logit_bias; /* at most 1024 */
    ey_grammar *grammar; /* constrains the answer, which keeps a reference; may be NULL */
    int top_logprobs;    /* < 0: none; else the chosen token's and this many alternatives (<= 20) */
    ey_event_fn *on_event;
    void *event_user;
    ey_thinking thinking;     /* for messages; a prompt of text, ids or parts opens no thought */
    int thinking_budget;      /* tokens of a thought, after which its end is forced; 0: no limit */
    ey_loop_guard loop_guard; /* ey_request_defaults: off */
    bool prompt_logprobs;     /* score the prompt's tokens too; none of them is read from a cache */
    int top_prompt_logprobs;  /* alternatives of each of them (<= 20) */

    /* Return a vector or a score instead of an answer (pooling.h), of `input` or of a prompt given
     * as text or ids. */
    bool pool;
    const ey_pooling_input *input;
    bool truncate;         /* cut the last text of a prompt that is too long */
    int max_prompt_tokens; /* longest prompt; 0: what the context holds */
    int dimensions;        /* keep this many numbers of the vector and normalize it again; 0: all */
    bool raw_vector;       /* do not normalize the vector to length 1 */

    /* Text that ends a thought whose budget is spent: at most EY_MAX_THINKING_END bytes with one
     * </think>. What precedes it belongs to the thought; only the model reads what follows it.
     * NULL is "\n</think>\n\n". */
    const char *thinking_end;
    /* The answer continues the last message, which is text of the assistant, without a thought. */
    bool continue_answer;
    /* A complete prompt of texts and images, in place of `text`. */
    const ey_part *parts;
    size_t n_parts;
} ey_request;

/* A greedy request without a prompt. */
static inline ey_request ey_request_defaults(void)
{
    ey_request request = EY_ZEROS;
    request.size = sizeof(request);
    request.add_bos = true;
    request.sampling = ey_sampling_greedy();
    request.top_logprobs = -1;
    return request;
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct {
    int id;
    const char *token; /* its text; bytes that are not UTF-8 by themselves become U+FFFD */
    float logprob;     /* from the raw logits, before penalties and temperature */
    /* Its bytes [n_bytes], which may end within a character; the bytes of an answer's tokens
     * together are its text. */
    const char *bytes;
    size_t n_bytes;
} ey_logprob;

typedef struct {
    ey_logprob chosen;
    const ey_logprob *top; /* [n_top], most likely first */
    size_t n_top;
} ey_token_logprobs;

struct ey_event {
    enum { EY_EVENT_NONE, EY_EVENT_PHASE, EY_EVENT_TEXT, EY_EVENT_DONE, EY_EVENT_THOUGHT } type;
    ey_phase phase; /* PHASE: what the request is doing */
    int done;       /* PHASE: progress, of `total` */
    int total;
    /* TEXT and THOUGHT (which precedes TEXT): whole characters, valid until the callback returns or
     * ey_generation_next is called again. */
    const char *text;
    size_t n_text;
    int n_tokens; /* of the answer so far, including those of this text */
};

typedef struct {
    int width; /* of the upright original */
    int height;
    int used_width; /* of what the model saw */
    int used_height;
    int tokens;
    bool cached; /* its features, or the KV blocks of all of its tokens, were cached */
} ey_image_usage;

/* The loop that ended an answer; copies 0: none did. */
typedef struct {
    int pattern_tokens;
    int copies;
} ey_repetition;

typedef struct {
    char *text;
    size_t n_text;
    bool approximate; /* a token had more candidates than are rescored for an 8-bit LM head */
    ey_finish finish_reason;
    uint64_t seed; /* as requested */
    int *tokens;   /* ids of thought and answer, without the stop token */
    int n_tokens;
    int prompt_tokens;
    int completion_tokens;
    int image_tokens;
    int cached_tokens; /* of the prompt, found in the KV cache */
    ey_image_usage *images;
    size_t n_images;
    ey_token_logprobs *logprobs; /* [n_logprobs], one per token of the answer and the stop token */
    size_t n_logprobs;           /* those of a thought are left out */
    const char *stop_text;       /* the text of request.stop that ended the answer, or NULL */
    int stop_id;                 /* the token that ended the answer, or -1 */
    double queue_seconds;
    double vision_seconds;
    double prefill_seconds;
    double decode_seconds;
    char *thought; /* [n_thought] what came before the text; "": nothing */
    size_t n_thought;
    int thought_tokens;       /* tokens of the thought and of its end */
    ey_repetition repetition; /* why finish_reason is EY_FINISH_LENGTH before max_tokens */
    ey_token_logprobs *prompt_logprobs; /* [n_prompt_logprobs], one per token of the prompt, if
                                           requested; the first token, which nothing precedes, has
                                           NaN and no alternatives */
    int *prompt_ranks; /* rank of each prompt token: 1 for the likeliest; 0 for the first token of
                          the prompt */
    size_t n_prompt_logprobs;
    void *owner; /* memory of everything above */
} ey_answer;

/* Answers one request and blocks until it is done. The caller frees the answer, also after an
 * error. Thread-safe. */
EY_API bool ey_ask(ey_engine *engine, const ey_request *request, ey_answer *answer, ey_err *err);
/* Frees what the answer holds and makes it empty; accepts an empty one. */
EY_API void ey_answer_free(ey_answer *answer);

/* ---- in steps --------------------------------------------------------------------------------
 *
 * ey_prompt_prepare decodes images and tokenizes the prompt on the caller's thread, without the
 * device. ey_generation_start queues an answer to it, ey_generation_next waits for its events, and
 * ey_generation_collect ends it. Only one thread at a time may use a generation, except that
 * ey_generation_cancel may be called from any. */

typedef struct ey_prompt ey_prompt;
typedef struct ey_generation ey_generation;

typedef struct {
    const int *ids; /* [n_ids] */
    size_t n_ids;
    const ey_image_usage *images; /* [n_images] */
    size_t n_images;
    int image_tokens;
    uint64_t kv_bytes; /* of the KV cache that the prompt takes */
} ey_prompt_info;

/* Makes a prompt, which the caller frees, from the request's messages, text, ids, parts or input.
 * Fields that concern only the answer are ignored. Fails with EY_TOO_LONG if the prompt can never
 * fit the context; errors about an image or a tool say which (error.h). */
EY_API bool ey_prompt_prepare(ey_engine *engine, const ey_request *request, ey_prompt **prompt,
                              ey_err *err);
EY_API ey_prompt_info ey_prompt_describe(const ey_prompt *prompt); /* valid as long as the prompt */
/* Sets *prompt to NULL; accepts NULL. Generations of it keep what they need. */
EY_API void ey_prompt_free(ey_prompt **prompt);

/* Queues one answer to the prompt, which may be freed afterwards or used for further choices.
 * Uses the fields of the request that concern the answer (max_tokens, sampling, stop, ...)
 * and copies what they point to. Fails with EY_BUSY if the queue is full. *generation is the
 * caller's until ey_generation_collect. */
EY_API bool ey_generation_start(ey_engine *engine, ey_prompt *prompt, const ey_request *request,
                                ey_generation **generation, ey_err *err);
/* Waits up to timeout_ms for the next event: NONE after a timeout, DONE once the answer is
 * complete. A generation whose text is not fetched for long is paused; the others continue. */
EY_API void ey_generation_next(ey_generation *generation, int timeout_ms, ey_event *event);
/* Log-probabilities of token i < event.n_tokens; `top` has space for top_logprobs. chosen.id
 * of a thought's token is -1. */
EY_API ey_token_logprobs ey_generation_logprobs(const ey_generation *generation, int i,
                                                ey_logprob *top);
/* The same for token i of the prompt, after the first event with text; `top` has space for
 * top_prompt_logprobs. */
EY_API ey_token_logprobs ey_generation_prompt_logprobs(const ey_generation *generation, int i,
                                                       ey_logprob *top);
/* Ends the generation within one step; the answer is the text so far. */
EY_API void ey_generation_cancel(ey_generation *generation);
/* Waits for the end, returns the answer as ey_ask does, and frees the generation. */
EY_API bool ey_generation_collect(ey_generation **generation, ey_answer *answer, ey_err *err);

EY_END_DECLS

#endif
