/* Options → engine and requests; events → standard output and the progress line. */
#include "cli/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cancel.h"
#include "cli/model_default.h"

_Static_assert(sizeof(((struct session *)0)->model) == EY_MAX_PATH, "session.model holds any path");

void session_open(struct session *s, const struct options *options)
{
    *s = (struct session){.options = options, .out = term_stdout(), .progress = progress_start(options->quiet)};
}

static void show_loading(void *user, const char *phase, uint64_t done, uint64_t total)
{
    progress_phase(user, phase, done, total);
}

bool session_load(struct session *s, ey_err *e)
{
    const struct options *o = s->options;
    if (s->engine) return true;
    progress_clear(&s->progress);
    if (!model_choose(s->model, o->model, o->quiet, e)) return false;
    ey_engine_options engine = ey_engine_defaults();
    engine.model = s->model;
    engine.threads = (int)o->threads;
    engine.max_model_len = (int)o->max_model_len;
    if (o->device) engine.device = o->device;
    engine.cpu_mask = o->cpu_mask;
    s->seed = o->seed >= 0 ? (uint64_t)o->seed : ey_random_seed();
    engine.progress = show_loading, engine.progress_user = &s->progress;
    bool ok = ey_engine_open(&s->engine, &engine, e);
    progress_clear(&s->progress);
    return ok;
}

void session_close(struct session *s)
{
    progress_clear(&s->progress);
    /* for a person who wants that answer again; programs read it in --json */
    if (s->sampled && s->options->seed < 0 && !s->options->quiet && !s->options->json && isatty(STDERR_FILENO))
        fprintf(stderr, "eyelet: seed %llu\n", (unsigned long long)s->seed);
    ey_engine_close(&s->engine);
}

/* ---- one question ---- */

static ey_detail detail_of(const struct options *o)
{
    if (o->max_pixels == MAX_PIXELS_NATIVE) return EY_DETAIL_NATIVE;
    if (strcmp(o->detail, "low") == 0) return EY_DETAIL_LOW;
    return strcmp(o->detail, "high") == 0 ? EY_DETAIL_HIGH : EY_DETAIL_AUTO;
}

ey_part session_picture(const struct session *s, const struct input *picture)
{
    const struct options *o = s->options;
    ey_part part = ey_image_part(picture->bytes, picture->size);
    part.detail = detail_of(o);
    part.max_pixels = o->max_pixels > 0 ? (uint64_t)o->max_pixels : 0;
    return part;
}

/* Returns whether to go on. */
static bool hear(void *user, const ey_event *event)
{
    const struct listener *listener = user;
    struct session *s = listener->session;
    bool shows_itself = listener->stream && event->phase && strcmp(event->phase, "decode") == 0;
    if (event->type == EY_EVENT_PHASE) {
        if (!shows_itself) progress_phase(&s->progress, event->phase, (uint64_t)event->done, (uint64_t)event->total);
    } else if (listener->stream) {
        progress_clear(&s->progress);
        term_write(&s->out, event->text, event->n_text);
    }
    return !cancel_asked() && !s->out.closed;
}

/* The engine knows pictures by number ("picture 2: …", or "the picture: …"); a person knows them by name. */
static void name_picture(ey_err *e, const struct question *question)
{
    size_t at = 1;
    int length = 0;
    if (question->n_pictures == 1 && strncmp(e->text, "the picture:", 12) == 0) length = 11;
    else if (sscanf(e->text, "picture %zu%n", &at, &length) != 1 || e->text[length] != ':') return;
    if (!at || at > question->n_pictures) return;
    ey_err numbered = *e;
    ey_fail(e, e->code, "%s%s", question->pictures[at - 1].name, numbered.text + length);
}

static void override(float *field, double given)
{
    if (!isnan(given)) *field = (float)given;
}

ey_sampling session_sampling(const struct session *s, bool greedy)
{
    const struct options *o = s->options;
    ey_sampling x = greedy ? ey_sampling_greedy() : ey_model_sampling(s->engine);
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

ey_request session_request(struct session *s, const ey_message *messages, size_t n, bool greedy, struct listener *listener)
{
    const struct options *o = s->options;
    ey_request request = ey_request_defaults();
    request.messages = messages, request.n_messages = n;
    request.max_tokens = (int)o->max_tokens;
    request.top_logprobs = (int)o->logprobs;
    request.parse_special_tokens = o->parse_special;
    request.ignore_eos = s->ignore_eos, request.fresh = s->ignore_eos;
    request.sampling = session_sampling(s, greedy);
    request.stop = o->stop.item, request.n_stop = o->stop.n;
    request.on_event = hear, request.event_user = listener;
    s->sampled = s->sampled || request.sampling.temperature > 0;
    return request;
}

bool session_ask(struct session *s, const struct question *question, ey_answer *answer, ey_err *e)
{
    size_t n = question->n_pictures;
    *answer = (ey_answer){0};
    ey_part *parts = calloc(n + 1, sizeof(*parts));
    if (!parts) return ey_fail_memory(e, "the question", (n + 1) * sizeof(*parts));
    for (size_t i = 0; i < n; i++) parts[i] = session_picture(s, &question->pictures[i]);
    parts[n] = ey_text_part(question->text);
    ey_message message = {.role = "user", .parts = parts, .n_parts = n + 1};
    struct listener listener = {s, question->stream};
    ey_request request = session_request(s, &message, 1, question->greedy, &listener);
    cancel_watch();
    bool ok = ey_ask(s->engine, &request, answer, e);
    cancel_unwatch();
    if (!ok) name_picture(e, question);
    free(parts);
    return ok;
}
