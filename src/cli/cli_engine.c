/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the engine, builds requests from the options, and prints answers on standard output and
 * phases on the progress line. */
#include "cli/cli_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/terminal/cancel.h"
#include "cli/options/thinking_options.h"
#include "cli/options/engine_options.h"
#include "cli/options/model_default.h"
#include "cli/pull_model.h"
#include "client/remote.h"

_Static_assert(sizeof(((struct cli_engine *)0)->model) == EY_MAX_PATH,
               "cli_engine.model holds any path");

void cli_engine_init(struct cli_engine *s, const struct options *options)
{
    *s = (struct cli_engine){.options = options,
                             .out = term_stdout(),
                             .progress = progress_start(options->quiet),
                             .max_images = 1};
}

static void show_loading(void *user, ey_phase phase, uint64_t done, uint64_t total)
{
    progress_phase(user, ey_phase_text(phase), done, total);
}

/* Prints the choices that make the model fit, because they may shorten the context or cost
 * accuracy. */
static void print_plan_choices(void *user, const ey_plan *plan)
{
    struct cli_engine *s = user;
    progress_clear(&s->progress);
    for (size_t i = 0; i < plan->n_choices && !s->options->quiet; i++)
        fprintf(stderr, "eyelet: %s\n", plan->choices[i]);
}

static void print_notice(void *user, const char *text)
{
    struct cli_engine *s = user;
    progress_clear(&s->progress);
    fprintf(stderr, "eyelet: %s\n", text);
}

/* Returns the engine's max_num_seqs. 0 lets the engine choose: one sequence on a CPU, several on a
 * GPU. */
static int sequences_wanted(const struct cli_engine *s)
{
    if (s->at_once) return (int)s->options->max_num_seqs;
    return (int)s->options->streams > 1 ? (int)s->options->streams : 1;
}

static bool open_engine(struct cli_engine *s, ey_err *e)
{
    const struct options *o = s->options;
    const bool chosen = s->embeds ? model_choose_embedding(s->model, o->model, o->quiet, e)
                                  : model_choose(s->model, o->model, o->quiet, e);
    if (!chosen || !pull_model_if_missing(s->model, o, e)) return false;
    ey_engine_options engine = ey_engine_defaults();
    if (!engine_options_set(&engine, o, e)) return false;
    engine.model = s->model;
    engine.max_num_seqs = sequences_wanted(s);
    engine.max_images = s->max_images;
    engine.progress = show_loading;
    engine.progress_user = &s->progress;
    engine.planned = print_plan_choices;
    engine.planned_user = s;
    engine.notice = print_notice;
    engine.notice_user = s;
    return ey_engine_open(&s->engine, &engine, e);
}

/* Fails if --server is combined with an option of the engine, which only the server can set. */
static bool check_server_options(const struct options *o, ey_err *e)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {
        {"threads", o->threads > 0},
        {"max-model-len", o->max_model_len > 0},
        {"cpu-mask", o->cpu_mask != NULL},
        {"parse-special", o->parse_special},
        {"no-huge-pages", o->no_huge_pages},
        {"device", o->device && strcmp(o->device, "auto") != 0},
        {"max-num-batched-tokens", o->max_num_batched_tokens > 0},
        {"kv-cache-dtype", o->kv_cache_dtype != NULL},
        {"head", o->lm_head != NULL},
        {"head-rows", o->lm_head_rows != NULL},
        {"vision-weights", o->vision_weights != NULL},
        {"prefill-math", o->prefill_math != NULL},
        {"gpu-memory-utilization", !isnan(o->gpu_memory_utilization)},
        {"gpu-memory", o->gpu_memory > 0},
        {"enforce-eager", o->enforce_eager},
        {"quantize", o->quantize != NULL},
        {"group-size", o->group_size > 0},
        {"gpu-layers", o->gpu_layers != NULL},
        {"cpu-memory", o->cpu_memory > 0},
        {"max-num-seqs", o->max_num_seqs > 0},
        {"task", o->task && strcmp(o->task, "auto") != 0},
    };
    const char *name = NULL;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && !name; i++)
        name = options[i].given ? options[i].name : NULL;
    return !name ||
           ey_fail(e, EY_BAD_REQUEST,
                   "--%s cannot be combined with --server %.200s: the server decides how its model "
                   "runs",
                   name, o->server);
}

/* EYELET_MODEL names a model to load here, so only --model selects one of a server's models. */
static bool open_remote(struct cli_engine *s, ey_err *e)
{
    const struct options *o = s->options;
    const char *key = o->api_key ? o->api_key : getenv("VLLM_API_KEY");
    const char *model = o->model == getenv("EYELET_MODEL") ? NULL : o->model;
    const ey_loop_guard guard = s->loop_tokens ? ey_loop_guard_cautious(s->loop_tokens)
                                               : (ey_loop_guard){0};
    const bool guard_given = options_was_given(
        o, ASK, "loop-guard"); /* all commands share this option's row */
    const struct remote_options remote = {
        .url = o->server,
        .key = key && key[0] ? key : NULL,
        .model = model,
        .loop_guard = guard_given ? &guard : NULL,
    };
    if (!check_server_options(o, e) || !remote_open(&s->remote, &remote, e)) return false;
    options_wipe_keys(o);
    snprintf(s->model, sizeof(s->model), "%.2000s at %.2000s", remote_model(s->remote), o->server);
    return true;
}

bool cli_engine_load(struct cli_engine *s, ey_err *e)
{
    if (s->engine || s->remote) return true;
    if (!option_loop_tokens(&s->loop_tokens, s->options, e)) return false;
    progress_clear(&s->progress);
    s->seed = s->options->seed >= 0 ? (uint64_t)s->options->seed : ey_random_seed();
    bool ok = s->options->server ? open_remote(s, e) : open_engine(s, e);
    progress_clear(&s->progress);
    return ok;
}

double cli_engine_load_seconds(const struct cli_engine *s)
{
    return s->engine ? ey_engine_describe(s->engine).load_seconds : 0;
}

int cli_engine_context_length(const struct cli_engine *s)
{
    return s->engine ? ey_engine_describe(s->engine).max_model_len
                     : remote_max_model_len(s->remote);
}

void cli_engine_close(struct cli_engine *s)
{
    progress_clear(&s->progress);
    /* With the seed a user can repeat the answer. Programs find it in --json. */
    if (s->sampled && s->options->seed < 0 && !s->options->quiet && !s->options->json &&
        isatty(STDERR_FILENO))
        fprintf(stderr, "eyelet: seed %llu\n", (unsigned long long)s->seed);
    ey_engine_close(&s->engine);
    remote_close(&s->remote);
}

/* ---- one question ---- */

static ey_detail detail_of(const struct options *o)
{
    if (o->max_pixels == MAX_PIXELS_NATIVE) return EY_DETAIL_NATIVE;
    if (strcmp(o->detail, "low") == 0) return EY_DETAIL_LOW;
    return strcmp(o->detail, "high") == 0 ? EY_DETAIL_HIGH : EY_DETAIL_AUTO;
}

ey_part cli_engine_image_part(const struct cli_engine *s, const struct input *image)
{
    const struct options *o = s->options;
    ey_part part = ey_image_part(image->bytes, image->size);
    part.detail = detail_of(o);
    part.max_pixels = o->max_pixels > 0 ? (uint64_t)o->max_pixels : 0;
    return part;
}

/* Shows an event. Returns whether the request should go on. */
static bool on_answer_event(void *user, const ey_event *event)
{
    const struct answer_sink *sink = user;
    struct cli_engine *s = sink->cli;
    if (s->shared) return !cancel_requested() && !s->out.closed;
    if (event->type == EY_EVENT_PHASE && event->phase == EY_PHASE_QUEUE)
        return !cancel_requested(); /* the queue has no progress to show */
    bool text_appears = sink->stream && event->phase == EY_PHASE_DECODE;
    if (event->type == EY_EVENT_PHASE) {
        if (!text_appears)
            progress_phase(&s->progress, ey_phase_text(event->phase), (uint64_t)event->done,
                           (uint64_t)event->total);
    } else if (sink->stream && event->type == EY_EVENT_TEXT) {
        progress_clear(&s->progress);
        term_write(&s->out, event->text, event->n_text);
    }
    return !cancel_requested() && !s->out.closed;
}

/* Replaces the image's number in an error message with its name. */
static void name_failed_image(ey_err *e, const struct question *question)
{
    if (e->item_kind != EY_ITEM_IMAGE || !e->detail || (size_t)e->item >= question->n_images)
        return;
    const char *name = question->images[e->item].name;
    ey_err numbered = *e;
    ey_fail(e, e->code, "%s: %s", name, numbered.text + numbered.detail);
}

static void override(float *field, double given)
{
    if (!isnan(given)) *field = (float)given;
}

static ey_sampling leave_sampling_to_server(void)
{
    return (ey_sampling){NAN, -1, NAN, NAN, NAN, NAN, NAN, 0};
}

ey_sampling cli_engine_sampling(const struct cli_engine *s, bool greedy)
{
    const struct options *o = s->options;
    ey_sampling x = greedy      ? ey_sampling_greedy()
                    : s->remote ? leave_sampling_to_server()
                                : ey_model_sampling(s->engine);
    override(&x.temperature, o->temperature);
    override(&x.top_p, o->top_p);
    override(&x.min_p, o->min_p);
    override(&x.repetition_penalty, o->repetition_penalty);
    override(&x.presence_penalty, o->presence_penalty);
    override(&x.frequency_penalty, o->frequency_penalty);
    if (o->top_k >= 0) x.top_k = (int)o->top_k;
    x.seed = s->seed;
    return x;
}

/* Stops the decoding of an image after Ctrl-C. */
static bool on_decoding(void *unused)
{
    (void)unused;
    return cancel_requested();
}

ey_request cli_engine_request(struct cli_engine *s, const ey_message *messages, size_t n,
                              bool greedy, struct answer_sink *sink)
{
    const struct options *o = s->options;
    ey_request request = ey_request_defaults();
    request.messages = messages;
    request.n_messages = n;
    request.max_tokens = (int)o->max_tokens;
    request.top_logprobs = (int)o->logprobs;
    request.parse_special_tokens = o->parse_special;
    request.ignore_eos = s->ignore_eos;
    request.no_prefix_cache = s->ignore_eos;
    request.sampling = cli_engine_sampling(s, greedy);
    request.stop = o->stop.item;
    request.n_stop = o->stop.n;
    request.thinking = option_thinking(o);
    if (request.thinking == EY_THINKING_AUTO && !s->remote) request.thinking = EY_THINKING_OFF;
    request.thinking_budget = EY_KEEP_ANSWER;
    if (s->loop_tokens && !s->ignore_eos)
        request.loop_guard = ey_loop_guard_cautious(s->loop_tokens);
    request.on_event = on_answer_event;
    request.event_user = sink;
    request.gone = on_decoding;
    /* NaN, which leaves the temperature to the server, counts as sampling. */
    if (!s->sampled && !(request.sampling.temperature <= 0)) s->sampled = true;
    return request;
}

bool cli_engine_send(struct cli_engine *s, const ey_request *request,
                     const struct cli_response_format *format, ey_answer *answer, ey_err *e)
{
    ey_request kept = *request;
    if (format) kept.grammar = format->grammar;
    if (!s->shared) cancel_watch();
    bool ok = s->remote ? remote_ask(s->remote, &kept, format ? &format->remote : NULL, answer, e)
                        : ey_ask(s->engine, &kept, answer, e);
    if (!s->shared) cancel_unwatch();
    return ok;
}

bool cli_engine_ask(struct cli_engine *s, const struct question *question, ey_answer *answer,
                    ey_err *e)
{
    size_t n = question->n_images;
    *answer = (ey_answer){0};
    ey_part *parts = calloc(n + 1, sizeof(*parts));
    if (!parts) return ey_fail_memory(e, "the question", (n + 1) * sizeof(*parts));
    for (size_t i = 0; i < n; i++)
        parts[i] = cli_engine_image_part(s, &question->images[i]);
    parts[n] = ey_text_part(question->text);
    ey_message message = {.role = "user", .parts = parts, .n_parts = n + 1};
    struct answer_sink sink = {s, question->stream};
    ey_request request = cli_engine_request(s, &message, 1, question->greedy, &sink);
    bool ok = cli_engine_send(s, &request, question->format, answer, e);
    if (!ok) name_failed_image(e, question);
    free(parts);
    return ok;
}
