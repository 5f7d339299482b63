/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: what a caller does with an answer under way, and how a token becomes text for it. */
#include "engine/ticket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "constrain/constrain.h"
#include "engine/engine_internal.h"

enum {
    READY_BYTES = 64 << 10, /* room for text that is not fetched */
    FULL_BYTES = READY_BYTES - 5 * EY_MAX_TOKEN_BYTES -
                 EY_MAX_STOP_BYTES, /* what one token may still add fits behind */
    MOST_BIAS = 100,                /* as in the OpenAI API */
};

/* ---- start ---- */

static bool check_request(const ey_request *request, const ey_engine *engine, ey_err *e)
{
    if (request->max_tokens < 0)
        return ey_fail(e, EY_BAD_REQUEST, "max_tokens is %d; it must be at least 1",
                       request->max_tokens);
    if (!sampling_check(&request->sampling, e)) return false;
    if (request->top_logprobs > EY_MAX_TOP_LOGPROBS)
        return ey_fail(e, EY_BAD_REQUEST, "top_logprobs is %d; at most %d are given",
                       request->top_logprobs, EY_MAX_TOP_LOGPROBS);
    if (request->n_stop_ids > EY_MAX_STOP_IDS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu stop tokens; at most %d are possible",
                       request->n_stop_ids, EY_MAX_STOP_IDS);
    if (request->n_logit_bias > EY_MAX_LOGIT_BIAS)
        return ey_fail(e, EY_BAD_REQUEST, "%zu logit biases; at most %d are possible",
                       request->n_logit_bias, EY_MAX_LOGIT_BIAS);
    for (size_t i = 0; i < request->n_logit_bias; i++) {
        const ey_logit_bias *b = &request->logit_bias[i];
        if (b->id < 0 || b->id >= engine->model.text.vocabulary)
            return ey_fail(e, EY_BAD_REQUEST,
                           "logit bias of token %d, which is not in the vocabulary of %d", b->id,
                           engine->model.text.vocabulary);
        if (!(b->bias >= -MOST_BIAS && b->bias <= MOST_BIAS))
            return ey_fail(e, EY_BAD_REQUEST, "logit bias %g of token %d; it must be from %d to %d",
                           (double)b->bias, b->id, -MOST_BIAS, MOST_BIAS);
    }
    return true;
}

static void *copy_array(struct arena *arena, const void *from, size_t n, size_t size)
{
    void *to = arena_array(arena, n + 1, size);
    if (to && n) memcpy(to, from, n * size);
    return to;
}

/* What the request points to may be gone before the answer is over. */
static bool copy_request(ey_ticket *t, const ey_request *request, ey_err *e)
{
    struct arena *arena = answer_arena(&t->answer);
    if (!arena) return ey_fail_memory(e, "the answer", sizeof(*arena));
    t->sampling = request->sampling;
    t->ignore_eos = request->ignore_eos;
    t->fresh = request->fresh;
    t->stop = arena_array(arena, request->n_stop + 1, sizeof(*t->stop));
    t->n_stop = request->n_stop;
    t->stop_ids = copy_array(arena, request->stop_ids, request->n_stop_ids, sizeof(*t->stop_ids));
    t->n_stop_ids = request->n_stop_ids;
    t->bias = copy_array(arena, request->logit_bias, request->n_logit_bias, sizeof(*t->bias));
    t->n_bias = request->n_logit_bias;
    t->answer.images = copy_array(arena, t->prompt->usage, t->prompt->n_pictures,
                                  sizeof(*t->answer.images));
    t->entry = arena_array(arena, t->prompt->n_pictures + 1, sizeof(*t->entry));
    if (!t->stop || !t->stop_ids || !t->bias || !t->answer.images || !t->entry)
        return ey_fail_memory(e, "the answer", arena->used);
    for (size_t i = 0; i < request->n_stop; i++) {
        t->stop[i] = request->stop[i]
                         ? arena_copy_text(arena, request->stop[i], strlen(request->stop[i]))
                         : NULL;
        if (request->stop[i] && !t->stop[i])
            return ey_fail_memory(e, "stop texts", strlen(request->stop[i]));
    }
    return true;
}

static bool open_text(ey_ticket *t, ey_err *e)
{
    t->detok = detok_start(t->engine->tok);
    t->piece = buf_with_max(EY_MAX_TOKEN_BYTES * 4);
    t->ready = buf_with_max(READY_BYTES + 64);
    t->taken = buf_with_max(READY_BYTES + 64);
    return (buf_reserve(&t->piece, EY_MAX_TOKEN_BYTES * 3) && buf_reserve(&t->ready, READY_BYTES) &&
            buf_reserve(&t->taken, READY_BYTES)) ||
           ey_fail_memory(e, "the answer's text", 2 * READY_BYTES);
}

static bool open_constraint(ey_ticket *t, ey_grammar *grammar, ey_err *e)
{
    if (!grammar) return true;
    const struct vocabulary *v = engine_vocabulary(t->engine, e);
    return v && constraint_open(&t->constraint, grammar, v, e);
}

static bool fill_ticket(ey_ticket *t, const ey_request *request, ey_err *e)
{
    int room = t->engine->max_model_len - (int)t->prompt->ids.n, wanted = request->max_tokens;
    t->answer.n_images = t->prompt->n_pictures;
    t->answer.prompt_tokens = (int)t->prompt->ids.n;
    t->answer.image_tokens = t->prompt->image_tokens;
    t->answer.seed = request->sampling.seed;
    t->answer.stop_id = -1;
    return check_request(request, t->engine, e) &&
           stopper_open(&t->stopper, request->stop, request->n_stop, e) &&
           copy_request(t, request, e) &&
           generation_open(&t->generation, answer_arena(&t->answer),
                           wanted > 0 && wanted < room ? wanted : room, request->top_logprobs, e) &&
           open_text(t, e) && open_constraint(t, request->grammar, e);
}

static void free_ticket(ey_ticket *t)
{
    ey_prompt_free(&t->prompt);
    buf_free(&t->piece);
    buf_free(&t->ready);
    buf_free(&t->taken);
    stopper_close(&t->stopper);
    constraint_close(&t->constraint);
    ey_answer_free(&t->answer);
    pthread_cond_destroy(&t->news);
    free(t);
}

/* Under the lock. Those who will run at once do not count as waiting. */
static bool enqueue(ey_engine *engine, ey_ticket *t, ey_err *e)
{
    if (engine->closing) return ey_fail(e, EY_BUSY, "the engine is being closed");
    if (engine->queue.n >= engine->max_num_queued + engine->max_num_seqs - engine->n_running)
        return ey_fail(e, EY_BUSY,
                       "%d requests wait already, which is all that may; try again later",
                       engine->queue.n);
    queue_push(&engine->queue, t);
    pthread_cond_signal(&engine->work);
    return true;
}

bool ey_start(ey_engine *engine, ey_prompt *prompt, const ey_request *request, ey_ticket **out,
              ey_err *e)
{
    *out = NULL;
    ey_ticket *t = calloc(1, sizeof(*t));
    if (!t) return ey_fail_memory(e, "the answer", sizeof(*t));
    t->engine = engine;
    t->prompt = prompt;
    t->started = seconds_now();
    prompt_hold(prompt);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool ok = fill_ticket(t, request, e);
    t->stopper.stop = t->stop;
    if (ok) {
        pthread_mutex_lock(&engine->lock);
        ok = enqueue(engine, t, e);
        pthread_mutex_unlock(&engine->lock);
    }
    if (ok)
        *out = t;
    else
        free_ticket(t);
    return ok;
}

/* ---- the caller's side ---- */

static void fetched(ey_ticket *t)
{
    if (t->unread_since > 0) pthread_cond_signal(&t->engine->work);
    t->unread = 0;
    t->unread_since = 0;
}

/* Under the lock: the next event, if there is one. */
static bool fetch(ey_ticket *t, ey_event *event)
{
    *event = (ey_event){.type = EY_EVENT_NONE,
                        .phase = t->phase ? t->phase : "queue",
                        .done = t->done,
                        .total = t->total ? t->total : 1,
                        .n_tokens = t->n_tokens};
    if (t->ready.size) {
        struct buf swap = t->taken;
        t->taken = t->ready;
        t->ready = swap;
        buf_clear(&t->ready);
        event->type = EY_EVENT_TEXT;
        event->text = t->taken.data;
        event->n_text = t->taken.size;
    } else if (t->state == TICKET_DONE) {
        event->type = EY_EVENT_DONE;
    } else if (t->phase_news) {
        event->type = EY_EVENT_PHASE;
        t->phase_news = false;
    } else {
        return false;
    }
    fetched(t);
    return true;
}

static struct timespec after(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

void ey_next(ey_ticket *t, int timeout_ms, ey_event *event)
{
    struct timespec end = after(timeout_ms);
    int status = 0;
    pthread_mutex_lock(&t->engine->lock);
    while (!fetch(t, event) && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&t->news, &t->engine->lock, &end);
    pthread_mutex_unlock(&t->engine->lock);
}

ey_token_logprobs ey_ticket_logprobs(const ey_ticket *t, int i, ey_candidate *top)
{
    const struct generation *g = &t->generation;
    ey_token_logprobs out = {.top = top};
    if (!g->scored || i < 0) return out;
    out.chosen = candidate_of(t->engine, g->chosen[i]);
    for (out.n_top = 0; out.n_top < (size_t)g->n_top; out.n_top++)
        top[out.n_top] = candidate_of(t->engine, g->top[(size_t)i * (size_t)g->n_top + out.n_top]);
    return out;
}

void ey_cancel(ey_ticket *t)
{
    pthread_mutex_lock(&t->engine->lock);
    t->cancelled = true;
    pthread_cond_signal(&t->engine->work);
    pthread_mutex_unlock(&t->engine->lock);
}

bool ey_collect(ey_ticket **out, ey_answer *answer, ey_err *e)
{
    ey_ticket *t = *out;
    ey_event event;
    do
        ey_next(t, 1000, &event);
    while (event.type != EY_EVENT_DONE);
    bool ok = !t->failed;
    if (!ok && e) *e = t->error;
    ok = ok && answer_fill(&t->answer, t->engine, &t->generation, e);
    if (ok) answer_cut_at_stop(&t->answer, t->stop, t->n_stop);
    *answer = t->answer;
    t->answer = (ey_answer){0};
    free_ticket(t);
    *out = NULL;
    return ok;
}

/* ---- the scheduler's side ---- */

bool ticket_is_full(const ey_ticket *t)
{
    return t->ready.size > FULL_BYTES || t->unread >= t->engine->max_unread;
}

void ticket_progress(ey_ticket *t, const char *phase, int done, int total)
{
    t->phase = phase;
    t->done = done;
    t->total = total;
    t->phase_news = true;
    pthread_cond_signal(&t->news);
}

static const char *finish_reason(const ey_ticket *t)
{
    if (t->generation.stopped || t->stopper.stopped || t->complete) return "stop";
    return t->generation.n == t->generation.max_tokens ? "length" : "cancelled";
}

void ticket_end(ey_ticket *t, const ey_err *error)
{
    double now = seconds_now();
    t->answer.finish_reason = finish_reason(t);
    if (t->first_token > 0) t->answer.decode_seconds = now - t->first_token;
    t->state = TICKET_DONE;
    if (error) {
        t->failed = true;
        t->error = *error;
    }
    pthread_cond_signal(&t->news);
}

static bool is_stop_id(const ey_ticket *t, int32_t id)
{
    if ((!t->ignore_eos || t->constraint) && model_is_eos(&t->engine->model, id)) return true;
    for (size_t i = 0; i < t->n_stop_ids; i++)
        if (t->stop_ids[i] == id) return true;
    return false;
}

/* Publishes what the piece completed, but for what may become a stop text. Under the lock. */
static void publish_piece(ey_ticket *t)
{
    size_t n = stopper_add(&t->stopper, t->piece.data ? t->piece.data : "", t->piece.size);
    buf_add(&t->ready, t->stopper.pending.data, n);
    stopper_take(&t->stopper, n);
}

/* The last token may have left an incomplete character, and what was held back is no stop text
 * after all. */
static void publish_rest(ey_ticket *t)
{
    buf_clear(&t->piece);
    if (t->stopper.stopped || !detok_finish(&t->detok, &t->piece)) return;
    publish_piece(t);
    if (!t->stopper.stopped) buf_add(&t->ready, t->stopper.pending.data, t->stopper.pending.size);
}

bool ticket_take_token(ey_ticket *t, const struct row_of_step *row)
{
    struct generation *g = &t->generation;
    int32_t id = pick_token(t->engine, t, row);
    g->id[g->n++] = id;
    g->stopped = is_stop_id(t, id);
    if (g->stopped) t->answer.stop_id = id;
    if (t->constraint && !g->stopped)
        t->complete = !constraint_accept(t->constraint, id) || constraint_must_end(t->constraint);
    buf_clear(&t->piece);
    bool more = !g->stopped && detok_push(&t->detok, id, &t->piece);
    pthread_mutex_lock(&t->engine->lock);
    if (more) publish_piece(t);
    bool over = g->stopped || t->stopper.stopped || t->complete || g->n == g->max_tokens;
    if (over) publish_rest(t);
    t->n_tokens = g->n;
    t->unread++;
    ticket_progress(t, "decode", g->n, g->max_tokens);
    pthread_mutex_unlock(&t->engine->lock);
    return over;
}
