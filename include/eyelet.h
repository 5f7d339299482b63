/* SPDX-License-Identifier: Apache-2.0 */
/* eyelet: pictures and text in, text out.
 *
 * The whole of what a program (the command line, the server, the bench) needs to know. Tensors,
 * tokens and devices stay behind this header.
 *
 *     ey_err err;
 *     ey_engine_options options = ey_engine_defaults();
 *     options.model = "/models/Qwen3-VL-2B-Instruct-FP8";
 *     ey_engine *engine = NULL;
 *     if (!ey_engine_open(&engine, &options, &err)) { fprintf(stderr, "%s\n", err.text); return 1;
 * }
 *
 *     ey_part parts[] = { ey_image_part(bytes, n_bytes), ey_text_part("What is this?") };
 *     ey_message message = { .role = "user", .parts = parts, .n_parts = 2 };
 *     ey_request request = ey_request_defaults();
 *     request.messages = &message, request.n_messages = 1;
 *     ey_answer answer = {0};
 *     if (ey_ask(engine, &request, &answer, &err)) puts(answer.text);
 *     ey_answer_free(&answer);
 *     ey_engine_close(&engine);
 *
 * Strings are UTF-8. A call that returns false has filled *err with a sentence a person can act on.
 */
#ifndef EYELET_H
#define EYELET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors
 * -------------------------------------------------------------------------------------- */

/* name, HTTP status, exit status of a command */
#define EY_CODES(X)                                                                               \
    X(EY_OK, 200, 0)          /* no error */                                                      \
    X(EY_BAD_REQUEST, 400, 2) /* the caller asked for something that cannot be */                 \
    X(EY_BAD_IMAGE, 400, 1)   /* a picture that cannot be read */                                 \
    X(EY_TOO_LONG, 400, 1)    /* prompt and answer do not fit the context */                      \
    X(EY_NOT_FOUND, 404, 1)   /* no such model or file */                                         \
    X(EY_BAD_MODEL, 500, 1) /* a checkpoint or tokenizer file that is damaged or not supported */ \
    X(EY_NO_MEMORY, 503, 1) /* memory could not be had */                                         \
    X(EY_NO_DEVICE, 503, 1) /* no card that can be used */                                        \
    X(EY_BUSY, 503, 1)      /* too many wait already: the same later may be done */               \
    X(EY_CANCELLED, 499, 1) /* the caller stopped it */                                           \
    X(EY_IO, 500, 1)        /* the system refused to read or write */                             \
    X(EY_INTERNAL, 500, 1)  /* a bug of ours */

typedef enum {
#define EY_CODE_ENUM(name, http, status) name,
    EY_CODES(EY_CODE_ENUM)
#undef EY_CODE_ENUM
} ey_code;

typedef struct {
    ey_code code;
    char text[768]; /* what was wrong, with which value, and what to do; never cut inside a
                       character */
} ey_err;

/* Exit status of a command that ends with this code. */
int ey_code_exit_status(ey_code code);
/* HTTP status of a reply that carries this code. */
int ey_code_http_status(ey_code code);

/* ---- budget
 * -------------------------------------------------------------------------------------- */

/* Bytes that several threads share, so that what is in flight together stays within a plan. */
typedef struct ey_budget ey_budget;

ey_budget *ey_budget_create(uint64_t bytes); /* NULL: no memory */
void ey_budget_free(ey_budget **budget);
/* Waits until n bytes are free, at most timeout_ms. False: they were not, or n is more than there
 * will ever be. */
bool ey_budget_acquire(ey_budget *budget, uint64_t n, int timeout_ms);
void ey_budget_release(ey_budget *budget, uint64_t n);
uint64_t ey_budget_total(const ey_budget *budget);
uint64_t ey_budget_used(ey_budget *budget);

/* ---- engine
 * -------------------------------------------------------------------------------------- */

typedef struct ey_engine ey_engine; /* one loaded model */

/* Progress of opening a model: `phase` is a static string ("loading"). Requests tell theirs in
 * events. */
typedef void ey_progress_fn(void *user, const char *phase, uint64_t done, uint64_t total);

typedef struct ey_plan ey_plan;
/* Told once while a model is opened: what will be allocated, before anything is; also when that
 * does not fit. */
typedef void ey_planned_fn(void *user, const ey_plan *plan);

/* Something that the user of an engine should know and that is no error, in one sentence. */
typedef void ey_notice_fn(void *user, const char *text);

enum { EY_LAYERS_AUTO = -1 }; /* as many as fit */

typedef struct {
    const char
        *model; /* checkpoint directory, or a repository name found in the Hugging Face cache */
    const char *device;   /* "auto", "cuda", "cpu" or "ref" */
    const char *cpu_mask; /* best instruction set that may be used: "generic", "avx2", "avxvnni",
                             "avx512vbmi", "avx512", "amx"; NULL: the fastest */
    int threads;          /* 0: as many as the processors this process may use */
    bool no_huge_pages;   /* weights that the CPU reads stay in the file's pages, which processes of
                             the same model share */
    int max_model_len; /* tokens of context of one request; 0: min(8,192, what the model allows), on
                          a card min(16,384, what fits) */
    int kv_tokens;     /* tokens of the KV pool that all requests share; 0: max_model_len, on a card
                          what fits of max_num_seqs as long */
    int max_num_seqs;  /* requests that run at once; 0: 1, on a card 4 */
    int max_num_queued;         /* requests that may wait for their turn; 0: 64 */
    int max_num_batched_tokens; /* rows of one step, 64 to 4,096; 0: 512, on a card the most of
                                   2,048, 1,024, 512 that fits */
    int max_images;             /* pictures of one request; 0: 16 */
    uint64_t max_pixels; /* of the largest picture, where that is to be more than the 4,194,304 that
                            a card has room for by default */
    bool serving; /* a server: the KV pool is at least 8,192 tokens where kv_tokens is 0, and what
                    makes later requests faster does not wait for the first ones */
    const char *quantize; /* the decoder's matrices while loading: "fp8" or "int4"
                             (docs/guides/quantization.md); NULL or "none": as stored */
    int group_size;       /* of int4: 32, 64 or 128; 0: 128 */
    /* of a card; NULL or "auto": what the plan needs (docs/guides/memory.md) */
    const char *kv_cache_dtype; /* "bf16" or "fp8" */
    const char *lm_head;        /* "bf16" or "8bit" */
    const char *lm_head_rows;   /* beside "8bit": who reads the stored rows, the card from "pinned"
                                pages   of the file or the "host" */
    const char *vision_weights; /* "resident", "streamed" or "host" */
    int gpu_layers; /* the last so many layers of the decoder on the card, the first on the CPU; 0:
                       all, or EY_LAYERS_AUTO */
    uint64_t cpu_memory; /* what layers on the CPU may take of its memory, their weights counted in;
                            0: what there is */
    const char *prefill_math;      /* how prompts are multiplied with block-FP8 matrices: "bf16", or
                                      "fp8", which rounds activations too; NULL: bf16 */
    bool enforce_eager;            /* steps are not recorded beforehand */
    double gpu_memory_utilization; /* share of all the card's memory that this process may use; 0:
                                      0.92 */
    uint64_t gpu_memory;           /* the same in bytes; 0: as the share says */
    /* of ey_plan_make alone: a card that need not be here */
    uint64_t vram,
        vram_used; /* all of its memory (0: the card that is here), and what others use */
    int sm_count;  /* its multiprocessors */
    ey_budget
        *budget; /* host bytes of pictures in flight come out of it (borrowed); NULL: no limit */
    ey_progress_fn *progress;
    void *progress_user;
    ey_planned_fn *planned;
    void *planned_user;
    ey_notice_fn *notice; /* while the model is opened */
    void *notice_user;
} ey_engine_options;

ey_engine_options ey_engine_defaults(void);

/* Opens a model. Its files are mapped: they must not be changed in place until it is closed
 * (replacing them is fine). On success *engine is the caller's, to be closed. Borrows nothing of
 * `options` afterwards. */
bool ey_engine_open(ey_engine **engine, const ey_engine_options *options, ey_err *err);
/* Frees all and sets *engine to NULL; takes NULL and half-built engines. */
void ey_engine_close(ey_engine **engine);

typedef struct {
    const char *directory;    /* where the checkpoint was found */
    const char *architecture; /* as config.json names it */
    const char *device;
    const char *device_detail; /* instruction set */
    int threads;
    int max_model_len;
    int kv_tokens, max_num_seqs;
    int vocab_size;    /* token ids are below it */
    bool reads_images; /* false: it reads text only, and a request with a picture is refused */
    uint64_t weight_bytes, kv_bytes, workspace_bytes;
    double load_seconds; /* all of opening … */
    double
        device_seconds; /* … of which the device took, for itself: a card's context and kernels */
    uint64_t device_bytes; /* planned on a card, its context counted in; 0: there is none */
    int n_layers,
        gpu_layers; /* of the decoder; those on the card where they are divided, else all */
    const char *lm_head_rows; /* of an 8-bit head: who reads its stored rows, the card ("pinned") or
                              the "host"; NULL: the head is as stored */
    double
        tokens_per_second; /* where they are: as the plan expects it of one request; 0: not known */
} ey_engine_info;

/* One row of the memory plan. */
typedef struct {
    const char *name;   /* "weights", "KV cache", … */
    const char *device; /* "file", "host", "cuda:0" */
    uint64_t bytes;
    const char *lifetime; /* "always", "vision", "prefill", "loading" */
} ey_plan_item;

/* What the engine's memory is spent on: rows that live as long as the engine, their number in *n.
 */
const ey_plan_item *ey_engine_plan(const ey_engine *engine, size_t *n);

enum { EY_PLAN_ITEMS = 20, EY_PLAN_SUGGESTIONS = 16, EY_PLAN_CHOICES = 8 };

struct ey_plan {
    char directory[4096]; /* where the checkpoint was found */
    const char *device;   /* "cuda", "cpu" or "ref" */
    ey_plan_item items[EY_PLAN_ITEMS];
    size_t n_items;
    uint64_t file_bytes;   /* weights that are used where the file is mapped */
    uint64_t total_bytes;  /* what is allocated on the device (on a CPU: beside the weights) */
    uint64_t budget_bytes; /* what may be */
    char budget_rule[160]; /* "6720 MiB: …": by which rule */
    bool fits;
    char choices[EY_PLAN_CHOICES][160]; /* what the plan chose by itself to fit, each as the option
                                           that asks for it and its price */
    size_t n_choices;
    int max_model_len, kv_tokens, max_num_seqs;
    int n_layers,
        gpu_layers; /* of the decoder; those on the card: all but where they are divided */
    double tokens_per_second; /* that one request has then, as the two memories' speeds let one
                                 expect; 0: not divided, or not known */
    uint64_t max_pixels;      /* of a picture with detail "auto" */
    struct {
        char options[96];
        uint64_t total_bytes;
        bool fits;
    } suggestions[EY_PLAN_SUGGESTIONS]; /* where it does not fit: what would change that */
    size_t n_suggestions;
    uint64_t shared_bytes; /* of several models: what this one takes of what they share
                              (ey_multi_model_plan) */
    bool resident; /* of several models: loaded at the start, beside the others that are; false: it
                      takes turns */
};

/* What an engine with these options would allocate, from the checkpoint's headers alone: no weight
 * is read, nothing is allocated. That it does not fit is no error. */
bool ey_plan_make(const ey_engine_options *options, ey_plan *plan, ey_err *err);

/* What ey_quantize() did. */
typedef struct {
    int n_made, n_kept; /* matrices that were quantised, and that would have lost too much */
    uint64_t bytes_before, bytes;   /* of all tensors */
    double mean_error, worst_error; /* relative, of samples of what was quantised; of int4 alone */
    char kept[512];                 /* names of those that were not, as far as there is room */
} ey_quantize_report;

/* Writes the model as options->quantize makes it while loading to the new directory `out`, as a
 * checkpoint that loads to the same bits. Of the options model, quantize, group_size, threads and
 * progress count. What was written is removed when it fails. */
bool ey_quantize(const ey_engine_options *options, const char *out, ey_quantize_report *report,
                 ey_err *err);
enum { EY_MAX_MODELS = 16 };

/* Several models on one device: on a card what its budget leaves beside the context, which they
 * have together; else the host's available memory, in which their mapped weights are to have room.
 */
typedef struct {
    uint64_t room_bytes;  /* for the models' shared_bytes that are loaded at the same time */
    uint64_t taken_bytes; /* of it, by those that are resident */
    bool together;        /* all are */
} ey_multi_model_plan;

/* One plan over n models, 1 to EY_MAX_MODELS: options[n] differ in the model alone. Each plans[i]
 * is what ey_engine_open would make of the model with gpu_memory = total_bytes. Those that fit
 * together, in their order, are resident and divide the card among themselves; each of the others
 * is planned with all of it, for when those that are idle have given way. */
bool ey_multi_model_plan_make(const ey_engine_options *options, size_t n, ey_plan *plans,
                              ey_multi_model_plan *out, ey_err *err);

/* A card's memory in use now, by everybody, and all of it; false: the engine has no card. */
bool ey_gpu_memory_usage(ey_engine *engine, uint64_t *used, uint64_t *total);

/* What was seen of the card's memory. Under Windows the system may move parts of it to the
 * computer's own, now or later and without a word: then all is well but slow. */
typedef struct {
    bool known;   /* false: never looked at, or no card; all else is 0 */
    bool spilled; /* some of it is far slower to read than the card's own memory */
    uint64_t planned_bytes, budget_bytes;
    uint64_t total_bytes, free_bytes; /* of the card, by all who use it */
    uint64_t held_bytes,
        spilled_bytes;               /* by the engine, beside its context; and what of it is slow */
    double bytes_per_second;         /* reads: the usual slice; */
    double spilled_bytes_per_second; /* those that are slow; */
    double usual_bytes_per_second,
        start_bytes_per_second;    /* what they were held against; after loading; */
    double rated_bytes_per_second; /* and by the memory's clock and width, 0 where they are not
                                      known */
    double age_seconds;
} ey_gpu_memory;

/* Looks now: reads all of it once, in slices between which requests go on. Any thread may call;
 * true without a card, with nothing known. */
bool ey_probe_gpu_memory(ey_engine *engine, ey_gpu_memory *out, ey_err *err);
/* What was seen last: after loading, or by the last call of ey_probe_gpu_memory. */
ey_gpu_memory ey_last_gpu_memory(ey_engine *engine);
/* The sentence that says that memory has spilled, and what to do; false: it has not. */
bool ey_gpu_memory_warning(const ey_gpu_memory *memory, char *text, size_t size);

/* Waits until weights that the CPU reads in every step lie in huge pages, which a thread of the
 * engine's begins to copy them to when it is opened; bytes of those that do. Requests need not wait
 * for it. Any thread may call. */
uint64_t ey_engine_wait_huge_pages(ey_engine *engine);

/* Facts of an open engine; the strings live as long as the engine. */
ey_engine_info ey_engine_describe(const ey_engine *engine);

/* ---- doctor
 * -------------------------------------------------------------------------------------- */

typedef enum {
    EY_FINDING_GOOD,
    EY_FINDING_NOTE,
    EY_FINDING_WARNING,
    EY_FINDING_BAD
} ey_finding_level;

typedef struct {
    char name[32]; /* "gpu_memory": for programs */
    ey_finding_level level;
    char text[512];   /* what was found */
    char remedy[256]; /* what helps; "": nothing needs to */
    double value;     /* the number in it … */
    const char *unit; /* … "bytes", "bytes/s"; "": none */
} ey_finding;

enum { EY_MAX_FINDINGS = 128 };

typedef struct {
    ey_finding findings[EY_MAX_FINDINGS];
    size_t n;
    bool usable; /* something can be run: the model of the options where they name one */
} ey_diagnosis;

/* What this machine has for running models, what is wrong and what helps: the card, who holds its
 * memory and how fast that is, the processor, memory, disks. Of the options count the model (NULL:
 * none is planned) and the device. `kernels`: the card's kernels are tried again, and each is told.
 */
void ey_diagnose(ey_diagnosis *out, const ey_engine_options *options, bool kernels);

/* ---- grammars
 * ------------------------------------------------------------------------------------ */

/* What an answer's text may be; at each step only tokens that keep it a prefix of that are drawn.
 * Compiled once, for any number of answers of any engine, from any thread. EY_BAD_REQUEST names
 * what is not supported, and where. */
typedef struct grammar ey_grammar;

/* The values of a JSON schema (docs/guides/structured.md has the subset). */
bool ey_grammar_of_schema(ey_grammar **grammar, const char *json, size_t n, ey_err *err);
/* Any JSON object. */
bool ey_grammar_of_json_object(ey_grammar **grammar, ey_err *err);
/* The texts that a regular expression matches from end to end; without look-around and
 * back-references. */
bool ey_grammar_of_regex(ey_grammar **grammar, const char *pattern, size_t n, ey_err *err);
/* One of the texts. */
bool ey_grammar_of_choices(ey_grammar **grammar, const char *const *choices, size_t n, ey_err *err);

typedef struct {
    const char *name;
    const char *schema; /* JSON of its arguments; NULL: any object */
} ey_tool;
/* A call of one of the tools, or several one after the other, as the model writes them. */
bool ey_grammar_of_tool_calls(ey_grammar **grammar, const ey_tool *tools, size_t n, bool parallel,
                              ey_err *err);

/* A request that uses it may go on. */
void ey_grammar_free(ey_grammar **grammar);

/* Grammars that were made before, for those who meet the same again: neither is it compiled again,
 * nor are its masks made again. The key says all that the grammar was made of. Used by any threads.
 * At most so many entries and bytes; what was not used for longest is forgotten. */
typedef struct ey_grammar_cache ey_grammar_cache;
enum { EY_GRAMMAR_CACHE_ENTRIES = 64 };
bool ey_grammar_cache_open(ey_grammar_cache **cache, size_t max_bytes, ey_err *err);
void ey_grammar_cache_close(ey_grammar_cache **cache);
/* The caller's, to be freed; NULL: it is not there. */
ey_grammar *ey_grammar_cache_find(ey_grammar_cache *cache, const char *key, size_t n);
/* The grammar stays the caller's too. Too large a one is not kept. */
void ey_grammar_cache_put(ey_grammar_cache *cache, const char *key, size_t n, ey_grammar *grammar);

/* ---- requests
 * ------------------------------------------------------------------------------------ */

typedef enum { EY_PART_TEXT, EY_PART_IMAGE } ey_part_type;

/* How large a picture may become: AUTO 1,310,720 pixels, LOW 262,144, HIGH 4,194,304, NATIVE the
 * checkpoint's own budget (what the reference uses). Never more than the checkpoint's, nor than the
 * picture's share of half the context; a picture that cannot be made so small is refused. */
typedef enum { EY_DETAIL_AUTO, EY_DETAIL_LOW, EY_DETAIL_HIGH, EY_DETAIL_NATIVE } ey_detail;

typedef struct {
    ey_part_type type;
    const void
        *bytes; /* text: UTF-8; picture: the file as it is (JPEG, PNG, WebP, GIF, HEIC, AVIF) */
    size_t n_bytes;
    ey_detail detail;    /* pictures */
    uint64_t max_pixels; /* pictures: when not 0, this budget instead of detail's */
    uint64_t min_pixels; /* pictures: when not 0, smaller ones are enlarged to this instead of the
                            checkpoint's least */
} ey_part;

ey_part ey_text_part(const char *text);
ey_part ey_image_part(const void *bytes, size_t n_bytes);

typedef struct {
    const char *name;
    const char *arguments; /* JSON text, given to the model as it stands */
} ey_tool_call;

typedef struct {
    const char *role; /* "system", "user", "assistant" or "tool" */
    const ey_part *parts;
    size_t n_parts;
    const ey_tool_call *tool_calls; /* assistant */
    size_t n_tool_calls;
} ey_message;

/* How the next token is chosen: penalties, then temperature, top_k, top_p, min_p, then a draw. */
typedef struct {
    float temperature;        /* 0: the most likely token */
    int top_k;                /* the k most likely (ties kept); 0: all */
    float top_p;              /* the fewest whose probabilities reach this; 1: all */
    float min_p;              /* at least this share of the best one's probability; 0: all */
    float repetition_penalty; /* of ids in prompt or answer: logit / r when positive, else · r; 1:
                                 none */
    float presence_penalty;   /* subtracted once from ids in the answer */
    float frequency_penalty;  /* subtracted for each time an id is in the answer */
    uint64_t seed;            /* the same seed, request and model give the same answer */
} ey_sampling;

ey_sampling ey_sampling_greedy(void);
/* What the model's generation_config.json recommends; its seed is 0. */
ey_sampling ey_model_sampling(const ey_engine *engine);
/* A seed from the system. */
uint64_t ey_random_seed(void);

typedef struct ey_event ey_event;
/* Called as the answer grows, on the thread that called ey_ask. Returning false cancels the request
 * within one step; ey_ask then succeeds with finish "cancelled" and the text so far. */
typedef bool ey_event_fn(void *user, const ey_event *event);

typedef struct {
    int id;
    float bias; /* added to the token's logit, after penalties */
} ey_logit_bias;

typedef struct {
    const ey_message *messages;
    size_t n_messages;
    const char *text; /* where there are no messages: the prompt as it stands … */
    size_t n_text;
    const int *ids; /* … or its token ids; a picture's tokens are refused in both */
    size_t n_ids;
    const char *const *tools; /* JSON objects as text, one a tool */
    size_t n_tools;
    bool add_vision_id; /* "Picture 1: " before each picture */
    bool add_bos;       /* before `text`: the token that the tokenizer begins prompts with, if
                                   there is one (Llama's <s>) */
    bool parse_special_tokens; /* false: text that spells a special token stays text */
    int max_tokens;            /* of the answer; 0: as many as the context holds */
    bool no_prefix_cache; /* compute all of it, also what the last request left in the KV cache */
    bool ignore_eos;      /* go on after a stop token (benchmarks) */
    ey_sampling sampling; /* ey_request_defaults: greedy */
    const char *const *stop; /* texts that end the answer and are not part of it */
    size_t n_stop;           /* at most 16, each of at most 1,024 bytes */
    const int *stop_ids;     /* tokens that end the answer beside the model's own */
    size_t n_stop_ids;       /* at most 64 */
    const ey_logit_bias *logit_bias;
    size_t n_logit_bias; /* at most 1,024 */
    ey_grammar *grammar; /* that the answer keeps to; NULL: it is free. Held while the answer is
                            under way */
    int top_logprobs; /* < 0: none; else the chosen token's and this many alternatives (≤ 20) */
    ey_event_fn *on_event;
    void *event_user;
} ey_request;

ey_request ey_request_defaults(void);

typedef struct {
    int id;
    const char *token; /* its text; bytes that are not UTF-8 alone appear as U+FFFD */
    float logprob;     /* of the raw logits, before penalties and temperature */
} ey_logprob;

typedef struct {
    ey_logprob chosen;
    const ey_logprob *top; /* [n_top], most likely first */
    size_t n_top;
} ey_token_logprobs;

struct ey_event {
    enum { EY_EVENT_NONE, EY_EVENT_PHASE, EY_EVENT_TEXT, EY_EVENT_DONE } type;
    const char *phase; /* PHASE: "queue", "vision", "prefill", "decode" */
    int done, total;   /* PHASE */
    const char *text;  /* TEXT: whole characters only; lives until the callback returns or
                          ey_generation_next is  called again */
    size_t n_text;
    int n_tokens; /* of the answer so far, the ones that made this text included */
};

typedef struct {
    int width, height;           /* upright original */
    int used_width, used_height; /* what the model saw */
    int tokens;
    bool cached; /* it did not go through the tower: its features, or the KV of all of its tokens,
                    were there */
} ey_image_usage;

typedef struct {
    char *text;
    size_t n_text;
    bool approximate; /* some token came from more candidates than an 8-bit head makes exact */
    const char *finish_reason; /* "stop" (a stop token or text), "length" or "cancelled" */
    uint64_t seed;             /* as requested */
    int *tokens;               /* ids of the answer, the stop token not among them */
    int n_tokens;
    int prompt_tokens, completion_tokens, image_tokens;
    int cached_tokens; /* of the prompt, whose keys and values were in the KV cache */
    ey_image_usage *images;
    size_t n_images;
    ey_token_logprobs
        *logprobs; /* [n_logprobs], one a token of the answer (a stop token has one too) */
    size_t n_logprobs;
    const char *stop_text; /* the text of request.stop that ended it; NULL */
    int stop_id;           /* the token that ended it, or -1 */
    double queue_seconds, vision_seconds, prefill_seconds, decode_seconds;
    void *owner; /* memory of all of the above */
} ey_answer;

/* Answers one request; blocks until it is done. The answer is the caller's, to be freed also after
 * an error. Requests of several threads to one engine run together. */
bool ey_ask(ey_engine *engine, const ey_request *request, ey_answer *answer, ey_err *err);
void ey_answer_free(ey_answer *answer);

/* ---- many at once
 * ---------------------------------------------------------------------------------
 *
 * ey_ask in steps, for programs that serve: ey_prompt_prepare does what needs no device (pictures
 * are decoded, the prompt becomes ids) on the caller's thread; ey_generation_start queues an answer
 * to it; ey_generation_next waits for what comes; ey_generation_collect ends it. One thread at a
 * time handles a ticket (ey_generation_cancel may come from any); tickets do not know each other.
 */

typedef struct ey_prompt ey_prompt;
typedef struct ey_generation ey_generation;

typedef struct {
    const int *ids; /* [n_ids] */
    size_t n_ids;
    const ey_image_usage *images; /* [n_images] */
    size_t n_images;
    int image_tokens;
    uint64_t kv_bytes; /* that the prompt takes of the pool */
} ey_prompt_info;

/* Messages, text or ids of the request → a prompt that answers can be started from; what the
 * request says of the answer is not looked at. What can never fit the context is an error with the
 * numbers. */
bool ey_prompt_prepare(ey_engine *engine, const ey_request *request, ey_prompt **prompt,
                       ey_err *err);
ey_prompt_info ey_prompt_describe(const ey_prompt *prompt); /* lives as long as the prompt */
void ey_prompt_free(ey_prompt **prompt);

/* Queues one answer to the prompt (which may be freed then, or started from again: n answers). Of
 * the request counts what it says of the answer (max_tokens, sampling, stop …); it and what it
 * points to is copied. EY_BUSY: the queue is full. */
bool ey_generation_start(ey_engine *engine, ey_prompt *prompt, const ey_request *request,
                         ey_generation **generation, ey_err *err);
/* Waits for the next event, at most timeout_ms: NONE says that none came, DONE that the answer is
 * over. Text that is not fetched for long makes its sequence pause, not the others. */
void ey_generation_next(ey_generation *generation, int timeout_ms, ey_event *event);
/* Token i < event.n_tokens of an answer with log-probabilities; `top` has room for top_logprobs. */
ey_token_logprobs ey_generation_logprobs(const ey_generation *generation, int i, ey_logprob *top);
/* Asks for an end within one step; the answer is what there is. */
void ey_generation_cancel(ey_generation *generation);
/* Waits for the end, gives the answer (as ey_ask does) and frees the ticket. */
bool ey_generation_collect(ey_generation **generation, ey_answer *answer, ey_err *err);

typedef struct {
    int running, waiting, paused; /* requests; paused ones run, but nobody fetches their text */
    int kv_blocks, kv_blocks_used,
        kv_blocks_cached; /* of 64 tokens; cached ones are free for others */
    int image_cache_tokens, image_cache_tokens_used; /* visual tokens that the image cache holds */
    uint64_t image_cache_bytes;                      /* of the image cache in all */
    /* since the start */
    uint64_t prompt_tokens, cached_tokens, generated_tokens, preemptions, steps;
    uint64_t async_steps; /* of them, those that were enqueued before the tokens of the one before
                             were known */
    uint64_t images, images_cached, encoder_runs;
    uint64_t finished_stop, finished_length, finished_cancelled, failed;
    double vision_seconds, step_seconds; /* the device was busy for */
    double
        heartbeat_age; /* seconds since the engine last made a step; 0 when it has nothing to do */
} ey_stats;

ey_stats ey_engine_stats(const ey_engine *engine);

/* What masks of answers that keep to a grammar took, each; by steps of time, of which step i ends
 * at EY_MASK_FIRST_US * 2^(i / EY_MASK_BUCKETS_PER_OCTAVE) microseconds and the last one never. */
enum { EY_MASK_BUCKETS = 72, EY_MASK_BUCKETS_PER_OCTAVE = 4 };
#define EY_MASK_FIRST_US 0.25
typedef struct {
    uint64_t count, steps[EY_MASK_BUCKETS];
    double step_wait_seconds; /* that steps were done and had to wait for masks */
} ey_mask_stats;
ey_mask_stats ey_engine_mask_stats(const ey_engine *engine);
/* Seconds that this share (0 .. 1) of the masks took at most: the end of a step of time. */
double ey_mask_percentile(const ey_mask_stats *stats, double share);

/* Token ids of a text as the model's tokenizer gives them, in *ids (the caller frees) and *n. */
bool ey_tokenize(const ey_engine *engine, const char *text, size_t n_text, bool parse_special,
                 int **ids, size_t *n, ey_err *err);
/* The text of token ids, in *text (the caller frees; NUL-terminated) and *n; bytes that are not
 * UTF-8 become U+FFFD. Ids outside the vocabulary are an error. */
bool ey_detokenize(const ey_engine *engine, const int *ids, size_t n_ids, char **text, size_t *n,
                   ey_err *err);
/* The text of one token, as ey_logprob gives it; lives as long as the engine. */
const char *ey_token_text(const ey_engine *engine, int id);

/* ---- what it costs (for benchmarks)
 * --------------------------------------------------------------- */

typedef struct {
    double vision_flops;  /* tower and mergers of one picture, attention included */
    double prefill_flops; /* decoder's products and attention for the prompt; the head once */
    double decode_bytes;  /* weights and KV read for one token after the prompt */
} ey_cost_estimate;

/* The least that a request with one picture of width x height (of no account to a model that reads
 * text only) (as the model sees it) and prompt_tokens needs. */
ey_cost_estimate ey_estimate_cost(const ey_engine *engine, int width, int height,
                                  int prompt_tokens);

typedef struct {
    double read_bytes_per_second; /* plain reads of 1 GiB by all threads */
    double flops_per_second; /* multiply-adds from registers with the best instruction in use */
    double vector_flops_per_second; /* the same with vectors, where the best one multiplies tiles;
                                       0: it does not */
} ey_roofline;

/* Measures the device for about a second. */
bool ey_measure_roofline(ey_engine *engine, ey_roofline *limits, ey_err *err);

const char *ey_version(void);

#endif
