/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities of prompt tokens, from the logits of rows whose next token is already known.
 * Logits are computed in the step's logits buffer, at most SCORED_ROWS rows at a time. */
#include "base/clock.h"
#include "engine/schedule/schedule_internal.h"

enum { SCORED_ROWS = 64 }; /* most rows at a time */

/* A batch of rows to score. */
struct scored_rows {
    ey_engine *engine;
    dev x;      /* the step's activations */
    int n_rows; /* rows of x */
    int32_t row[SCORED_ROWS];
    ey_generation *gen[SCORED_ROWS];
    int token[SCORED_ROWS]; /* index in the prompt */
    int n, max;
};

/* Finds the chunk's rows whose next token has no score yet: *first to *end - 1, counted from the
 * chunk's first row. */
static void unscored_rows(const struct scheduled_chunk *chunk, int *first, int *end)
{
    const struct prompt_scores *scores = &chunk->gen->prompt_scores;
    const int last = scores->n - 1 - chunk->first, begin = scores->n_done - 1 - chunk->first;
    *end = chunk->n < last ? chunk->n : last;
    *first = begin > 0 ? begin : 0;
}

bool chunks_score_prompts(const struct scheduled_chunk *chunk, int n)
{
    for (int i = 0; i < n; i++) {
        int first, end;
        unscored_rows(&chunk[i], &first, &end);
        if (first < end) return true;
    }
    return false;
}

static void enqueue_logits(const struct scored_rows *s, const int32_t *rows, int n)
{
    ey_engine *engine = s->engine;
    text_model_logits(&engine->devices.model, &engine->buffers.ws, s->n_rows, rows, n,
                      engine->buffers.logits);
}

static bool wait_for_logits(const struct scored_rows *s, ey_err *e)
{
    struct backend *be = s->engine->devices.be;
    return be->ops->compute->finish(be, e);
}

/* Computes the logits from which the step's tokens are sampled. A step that scores no prompts
 * computes them itself. */
static bool compute_step_logits(const struct scored_rows *s, int n, ey_err *e)
{
    ey_engine *engine = s->engine;
    struct backend *be = engine->devices.be;
    if (!n) return true;
    enqueue_logits(s, engine->buffers.host.logits_row, n);
    if (be->ops->graph) engine->scheduler.step = be->ops->graph->end_step(be);
    return wait_for_logits(s, e);
}

/* Whether the request still runs: checked between batches, because scoring may take long. */
static bool still_wanted(struct scheduler *scheduler, const ey_generation *gen)
{
    pthread_mutex_lock(&scheduler->lock);
    const bool wanted = !gen->cancelled && !scheduler->closing;
    scheduler->last_heartbeat = seconds_now();
    pthread_mutex_unlock(&scheduler->lock);
    return wanted;
}

static bool score_collected(struct scored_rows *s, ey_err *e)
{
    if (!s->n) return true;
    enqueue_logits(s, s->row, s->n);
    if (!wait_for_logits(s, e)) return false;
    for (int i = 0; i < s->n; i++) {
        struct prompt_scores *scores = &s->gen[i]->prompt_scores;
        const struct step_row row = {i, s->x, s->row[i]};
        const int at = s->token[i];
        const struct token_score score = score_known_token(
            s->engine, &row, scores->token[at].id, scores->n_top,
            scores->top + (size_t)at * (size_t)scores->n_top);
        scores->token[at] = score.token;
        scores->rank[at] = score.rank;
        scores->n_done = at + 1;
    }
    s->n = 0;
    return true;
}

static bool score_chunk(struct scored_rows *s, const struct scheduled_chunk *chunk, int first_row,
                        ey_err *e)
{
    int first, end;
    unscored_rows(chunk, &first, &end);
    for (int i = first; i < end; i++) {
        if (s->n == s->max && !score_collected(s, e)) return false;
        if (!s->n && !still_wanted(&s->engine->scheduler, chunk->gen)) return true;
        s->row[s->n] = first_row + i;
        s->gen[s->n] = chunk->gen;
        s->token[s->n++] = chunk->first + i + 1;
    }
    return true;
}

bool score_prompts(ey_engine *engine, int n_chunks, dev x, ey_err *e)
{
    const struct scheduler *scheduler = &engine->scheduler;
    const struct host_buffers *host = &engine->buffers.host;
    const int max = engine->buffers.plan.max_logits;
    struct scored_rows s = {.engine = engine, .x = x, .max = max < SCORED_ROWS ? max : SCORED_ROWS};
    int n_logits = 0;
    for (int i = 0; i < n_chunks; i++) {
        s.n_rows += scheduler->chunk[i].n;
        n_logits += scheduler->chunk[i].wants_logits;
    }
    for (int i = 0; i < n_chunks; i++)
        if (!score_chunk(&s, &scheduler->chunk[i], host->seq[i].first_row, e)) return false;
    return score_collected(&s, e) && compute_step_logits(&s, n_logits, e);
}
