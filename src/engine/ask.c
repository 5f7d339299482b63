/* One request from messages to answer: pictures, prompt, ids and positions, vision, prefill, decode. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/answer.h"
#include "engine/pictures.h"
#include "engine/stop.h"
#include "models/qwen3vl/positions.h"
#include "models/vision.h"

struct ask {
    ey_engine *engine;
    const ey_request *request;
    ey_answer *answer;
    struct pictures pictures;
    struct prompt template; /* before pictures have their sizes */
    struct ids prompt;
    struct visual_run runs[EY_MAX_IMAGES];
    uint8_t digest[EY_MAX_IMAGES][DIGEST_BYTES];
    size_t reused;         /* rows of the prompt that are in the KV cache already */
    int32_t next_position; /* of the first generated token */
    struct generation generation;
    struct detok detok;
    struct buf piece; /* text that the last token completed */
    struct stopper stopper;
    const char *phase;
    int done, total; /* of the phase, in rows or blocks before the current call */
    bool cancelled;
};

/* ---- events ---- */

static bool emit(struct ask *a, const ey_event *event)
{
    if (a->request->on_event && !a->request->on_event(a->request->event_user, event)) a->cancelled = true;
    return !a->cancelled;
}

/* The backend's progress within one call, as progress of the whole phase. */
static bool watch_phase(void *user, int done, int total)
{
    struct ask *a = user;
    ey_event event = {.type = EY_EVENT_PHASE, .phase = a->phase, .done = a->done * total + done, .total = a->total * total};
    return emit(a, &event);
}

static bool emit_bytes(struct ask *a, const char *text, size_t n)
{
    if (!n || a->cancelled) return !a->cancelled;
    ey_event event = {.type = EY_EVENT_TEXT, .text = text, .n_text = n};
    return emit(a, &event);
}

/* Gives away what the last token completed, but for what may become a stop text. */
static void emit_piece(struct ask *a)
{
    size_t n = stopper_add(&a->stopper, a->piece.data ? a->piece.data : "", a->piece.size);
    emit_bytes(a, a->stopper.pending.data, n);
    stopper_take(&a->stopper, n);
}

/* The last token may have left an incomplete character, and what was held back is no stop text after all. */
static void emit_rest(struct ask *a)
{
    buf_clear(&a->piece);
    if (a->stopper.stopped || !detok_finish(&a->detok, &a->piece)) return;
    emit_piece(a);
    if (!a->stopper.stopped) emit_bytes(a, a->stopper.pending.data, a->stopper.pending.size);
}

/* ---- the prompt ---- */

static bool make_prompt(struct ask *a, ey_err *e)
{
    ey_engine *engine = a->engine;
    int tokens[EY_MAX_IMAGES];
    struct vision_span spans[EY_MAX_IMAGES];
    const struct patch_spec *spec = &engine->model.patch_spec;
    for (size_t i = 0; i < a->pictures.n; i++) tokens[i] = a->pictures.item[i].tokens;
    bool ok = prompt_tokens(&a->prompt, spans, &a->template, engine->model.family->vision_marks, engine->tok, tokens,
                            a->request->parse_special_tokens, e);
    for (size_t i = 0; ok && i < a->pictures.n; i++)
        a->runs[i] = (struct visual_run){spans[i].first, a->pictures.item[i].rows / spec->merge, a->pictures.item[i].cols / spec->merge};
    return ok;
}

/* Room for the answer after the prompt. */
static bool plan_answer(struct ask *a, ey_err *e)
{
    int context = a->engine->max_model_len;
    if (a->prompt.n >= (size_t)context)
        return ey_fail(e, EY_TOO_LONG, "the prompt has %zu tokens; the context of %d leaves no room for an answer: use smaller pictures or a larger --max-model-len",
                       a->prompt.n, context);
    int room = context - (int)a->prompt.n, wanted = a->request->max_tokens;
    return generation_open(&a->generation, answer_arena(a->answer), wanted > 0 && wanted < room ? wanted : room,
                           a->request->top_logprobs, e);
}

static void mark_pictures(struct host_buffers *h, const struct visual_run *runs, size_t n_runs, size_t n)
{
    int32_t next = 0;
    for (size_t i = 0; i < n; i++) h->feature[i] = -1, h->picture[i] = -1;
    for (size_t r = 0; r < n_runs; r++)
        for (size_t i = runs[r].first, end = i + (size_t)(runs[r].rows * runs[r].cols); i < end; i++)
            h->feature[i] = next++, h->picture[i] = (int16_t)r;
}

static void lay_out_rows(struct ask *a)
{
    struct host_buffers *h = &a->engine->host;
    for (size_t i = 0; i < a->prompt.n; i++) h->token[i] = a->prompt.id[i], h->index[i] = (int32_t)i, h->seq[i] = 0;
    mark_pictures(h, a->runs, a->pictures.n, a->prompt.n);
    a->next_position = mrope_positions(h->position, a->prompt.n, a->runs, a->pictures.n);
}

/* Takes over what the last request left, but for the last row, whose logits are wanted. */
static void reuse_rows(struct ask *a)
{
    struct kv_record *record = &a->engine->record;
    const struct host_buffers *h = &a->engine->host;
    size_t most = a->request->fresh ? 0 : a->prompt.n - 1;
    a->reused = kv_record_match(record, h->token, h->picture, most, (const uint8_t(*)[DIGEST_BYTES])a->digest);
    memcpy(record->digest, a->digest, sizeof(record->digest));
    a->answer->cached_tokens = (int)a->reused;
}

static size_t run_end(const struct visual_run *run)
{
    return run->first + (size_t)run->rows * (size_t)run->cols;
}

/* ---- forward passes ---- */

static bool encode_pictures(struct ask *a)
{
    ey_engine *engine = a->engine;
    a->phase = "vision", a->total = (int)a->pictures.n;
    for (size_t i = 0; i < a->pictures.n && !a->cancelled; i++) {
        struct picture *p = &a->pictures.item[i];
        struct watch watch = {watch_phase, a};
        a->done = (int)i;
        if (run_end(&a->runs[i]) <= a->reused) continue; /* all of its rows are in the KV cache */
        image_patchify(engine->host.pixels, &p->pixels, &engine->model.patch_spec);
        vision_encode(&engine->model, engine->be, &engine->ws, engine->host.pixels, p->rows, p->cols,
                      engine->host.feature[a->runs[i].first], engine->host.patch_positions, &watch);
    }
    return !a->cancelled;
}

static struct batch batch_of(const ey_engine *engine, int first, int n)
{
    const struct host_buffers *h = &engine->host;
    return (struct batch){.n_rows = n, .n_seqs = 1, .max_blocks = engine->kv.shape.n_blocks, .token = h->token + first,
                          .feature = h->feature + first, .position = h->position + 3 * (size_t)first, .seq = h->seq + first,
                          .index = h->index + first, .block_table = h->block_table};
}

/* Runs rows first .. first+n-1; the last row's logits are wanted when `last` is true. */
static bool run_rows(struct ask *a, int first, int n, bool last, const struct watch *watch)
{
    ey_engine *engine = a->engine;
    struct batch batch = batch_of(engine, first, n);
    int32_t out_row = n - 1;
    bool done = decoder_step(&engine->model, engine->be, &engine->ws, &engine->kv, &batch, &out_row, last ? 1 : 0, engine->logits, watch);
    if (done) kv_record_add(&engine->record, engine->host.token, engine->host.picture, (size_t)first, (size_t)n);
    return done;
}

static bool prefill(struct ask *a)
{
    int n = (int)a->prompt.n, reused = (int)a->reused, chunk = a->engine->ws.max_rows;
    a->phase = "prefill", a->total = (n - reused + chunk - 1) / chunk;
    for (int first = reused; first < n && !a->cancelled; first += chunk) {
        struct watch watch = {watch_phase, a};
        int rows = n - first < chunk ? n - first : chunk;
        a->done = (first - reused) / chunk;
        if (!run_rows(a, first, rows, first + rows == n, &watch)) break;
    }
    return !a->cancelled;
}

/* Takes the next token from the logits into the generation. Log-probabilities are of the raw logits. */
static bool pick_token(struct ask *a, ey_err *e)
{
    ey_engine *engine = a->engine;
    struct generation *g = &a->generation;
    int vocabulary = engine->model.text.vocabulary;
    if (!engine->be->ops->finish(engine->be, e)) return false;
    engine->be->ops->read_logits(engine->be, engine->host.logits, engine->logits, (size_t)vocabulary);
    int32_t id = sampler_pick(&engine->sampler, engine->host.logits);
    if (g->scored) logits_score(engine->host.logits, vocabulary, id, g->n_top, &g->chosen[g->n], g->top + (size_t)g->n * (size_t)g->n_top);
    g->id[g->n++] = id;
    g->stopped = !a->request->ignore_eos && model_is_eos(&engine->model, id);
    return true;
}

/* Also asks whether to go on where a token completes no text. */
static bool emit_step(struct ask *a)
{
    ey_event event = {.type = EY_EVENT_PHASE, .phase = "decode", .done = a->generation.n, .total = a->generation.max_tokens};
    return emit(a, &event);
}

/* Puts the last token into the row after everything so far and runs it. */
static void step(struct ask *a)
{
    struct host_buffers *h = &a->engine->host;
    struct generation *g = &a->generation;
    int at = (int)a->prompt.n + g->n - 1;
    int32_t position = a->next_position + g->n - 1;
    h->token[at] = g->id[g->n - 1], h->feature[at] = -1, h->picture[at] = -1, h->seq[at] = 0, h->index[at] = at;
    h->position[3 * at] = h->position[3 * at + 1] = h->position[3 * at + 2] = position;
    run_rows(a, at, 1, true, NULL);
}

/* Text of the last token, to the stop texts and the caller. */
static void take_text(struct ask *a)
{
    struct generation *g = &a->generation;
    buf_clear(&a->piece);
    if (!g->stopped && detok_push(&a->detok, g->id[g->n - 1], &a->piece)) emit_piece(a);
}

static bool is_over(const struct ask *a)
{
    return a->generation.stopped || a->stopper.stopped || a->cancelled || a->generation.n == a->generation.max_tokens;
}

/* No heap here: everything was planned by prepare() and engine_buffers_open(). */
static bool decode(struct ask *a, ey_err *e)
{
    sampler_start(&a->engine->sampler, &a->request->sampling, a->prompt.id, a->prompt.n);
    for (;;) {
        if (!pick_token(a, e)) return false;
        take_text(a);
        if (is_over(a) || !emit_step(a)) break;
        step(a);
    }
    emit_rest(a);
    return true;
}

static bool generate(struct ask *a, ey_err *e)
{
    double start = seconds_now(), vision, prefilled;
    bool going = encode_pictures(a);
    vision = seconds_now();
    going = going && prefill(a);
    prefilled = seconds_now();
    if (going && !decode(a, e)) return false;
    a->answer->vision_seconds = vision - start;
    a->answer->prefill_seconds = prefilled - vision;
    a->answer->decode_seconds = seconds_now() - prefilled;
    return true;
}

/* ---- the whole ---- */

static bool check_request(const ey_request *request, ey_err *e)
{
    if (request->max_tokens < 0) return ey_fail(e, EY_BAD_REQUEST, "max_tokens is %d; it must be at least 1", request->max_tokens);
    if (!sampling_check(&request->sampling, e)) return false;
    if (request->top_logprobs > EY_MAX_TOP_LOGPROBS)
        return ey_fail(e, EY_BAD_REQUEST, "top_logprobs is %d; at most %d are given", request->top_logprobs, EY_MAX_TOP_LOGPROBS);
    return true;
}

static bool prepare(struct ask *a, ey_err *e)
{
    ey_answer *answer = a->answer;
    struct arena *arena = answer_arena(answer);
    if (!arena) return ey_fail_memory(e, "the answer", sizeof(*arena));
    if (!check_request(a->request, e) || !stopper_open(&a->stopper, a->request->stop, a->request->n_stop, e) ||
        !a->engine->model.family->prompt(&a->template, a->request, e) || !pictures_open(&a->pictures, &answer->images, arena, a->engine, a->request, e) ||
        !make_prompt(a, e) || !plan_answer(a, e))
        return false;
    a->detok = detok_start(a->engine->tok);
    a->piece = buf_with_max(EY_MAX_TOKEN_BYTES * 4);
    if (!buf_reserve(&a->piece, EY_MAX_TOKEN_BYTES * 3)) return ey_fail_memory(e, "a token's text", EY_MAX_TOKEN_BYTES * 3);
    for (size_t i = 0; i < a->pictures.n; i++) picture_digest(a->digest[i], &a->pictures.item[i].pixels);
    answer->n_images = a->pictures.n;
    answer->prompt_tokens = (int)a->prompt.n;
    for (size_t i = 0; i < a->pictures.n; i++) answer->image_tokens += a->pictures.item[i].tokens;
    return true;
}

static void cut_at_stop(ey_answer *answer, const ey_request *request)
{
    answer->n_text = stop_find(request->stop, request->n_stop, answer->text, answer->n_text);
    answer->text[answer->n_text] = 0;
}

static void ask_close(struct ask *a)
{
    pictures_close(&a->pictures);
    prompt_free(&a->template);
    ids_free(&a->prompt);
    buf_free(&a->piece);
    stopper_close(&a->stopper);
}

bool ey_ask(ey_engine *engine, const ey_request *request, ey_answer *answer, ey_err *e)
{
    struct ask a = {.engine = engine, .request = request, .answer = answer};
    *answer = (ey_answer){0};
    bool ok = prepare(&a, e);
    if (ok) {
        pthread_mutex_lock(&engine->lock);
        lay_out_rows(&a);
        reuse_rows(&a);
        ok = generate(&a, e);
        if (!ok) engine->record.n = 0; /* what a failed pass left is unknown */
        pthread_mutex_unlock(&engine->lock);
    }
    ok = ok && answer_fill(answer, engine, &a.generation, e);
    if (ok) cut_at_stop(answer, request);
    answer->finish_reason = a.cancelled ? "cancelled" : a.generation.stopped || a.stopper.stopped ? "stop" : "length";
    answer->seed = request->sampling.seed;
    ask_close(&a);
    return ok;
}
