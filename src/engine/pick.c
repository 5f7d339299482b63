/* SPDX-License-Identifier: Apache-2.0 */
/* From a step's logits to a token. Backends with memory of their own say the best few of a row,
 * which is nearly always enough: the whole row comes over only when what is asked cannot be known
 * from them (a grammar that allows too few of them, a nucleus without top_k, a bias). With an 8-bit
 * head the best few are scored again from the rows as stored, here or by the device. */
#include "backend/exact.h"
#include "constrain/constrain.h"
#include "engine/engine_internal.h"
#include "engine/ticket.h"

/* ---- exact logits of a few ---- */

/* RMSNorm of the row of x that the logits were made of. */
static void normed_row(const ey_engine *engine, float *out, dev x, int row)
{
    const struct model *m = &engine->model;
    size_t hidden = (size_t)m->text.hidden;
    engine->be->ops->read(
        engine->be, out, engine->be->ops->at(engine->be, x, ELEMENT_RESIDUAL, (size_t)row * hidden),
        ELEMENT_RESIDUAL, hidden);
    exact_norm(out, out, engine->host.exact_norm, hidden, m->text.norm_eps);
}

static float stored_logit(const ey_engine *engine, const float *normed, int32_t id)
{
    const struct weight *head = &engine->exact_head;
    return exact_logit(normed, (const char *)head->data + (size_t)id * weight_row_bytes(head),
                       (size_t)head->cols);
}

static bool comes_before(struct scored_token a, struct scored_token b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void compute_again(const ey_engine *engine, struct best_logits *best, dev x, int row)
{
    float *normed = engine->host.normed;
    normed_row(engine, normed, x, row);
    for (int i = 0; i < BEST_LOGITS && best->token[i].id >= 0; i++) {
        struct scored_token t = {stored_logit(engine, normed, best->token[i].id),
                                 best->token[i].id};
        int at = i;
        for (; at && comes_before(t, best->token[at - 1]); at--)
            best->token[at] = best->token[at - 1];
        best->token[at] = t;
    }
}

/* ---- a row ---- */

static void score_best(const struct best_logits *best, int32_t chosen, int top,
                       struct scored *out_chosen, struct scored *out_top)
{
    for (int i = 0; i < BEST_LOGITS && best->token[i].id >= 0; i++) {
        struct scored s = {best->token[i].id, best->token[i].logit - best->log_sum};
        if (s.id == chosen) *out_chosen = s;
        if (i < top) out_top[i] = s;
    }
}

/* What its grammar allows; the mask was made beside the step. */
static struct allowed allowed_next(const ey_engine *engine, const ey_ticket *t)
{
    const struct model *m = &engine->model;
    return (struct allowed){constraint_mask(t->constraint), m->eos,
                            constraint_may_end(t->constraint) ? m->n_eos : 0};
}

static bool pick_from_best(ey_engine *engine, ey_ticket *t, const struct row_of_step *row,
                           const struct allowed *allowed, int32_t *id)
{
    struct generation *g = &t->generation;
    struct best_logits best;
    if (!engine->be->ops->best) return false;
    engine->be->ops->best(engine->be, &best, row->out);
    if (engine->scores_again) compute_again(engine, &best, row->x, row->at);
    if (!sampler_pick_best(&t->slot->sampler, &best, allowed, engine->exact_head.data != NULL, id))
        return false;
    if (g->scored)
        score_best(&best, *id, g->n_top, &g->chosen[g->n],
                   g->top + (size_t)g->n * (size_t)g->n_top);
    return true;
}

/* Beside an 8-bit head: with exact logits in place of those that count. */
static int32_t pick_again(ey_engine *engine, ey_ticket *t, const struct row_of_step *row,
                          float *logits, const struct allowed *allowed)
{
    int32_t ids[BEST_LOGITS];
    int n = sampler_best_ids(&t->slot->sampler, logits, allowed, ids, BEST_LOGITS);
    normed_row(engine, engine->host.normed, row->x, row->at);
    for (int i = 0; i < n; i++)
        logits[ids[i]] = stored_logit(engine, engine->host.normed, ids[i]);
    t->answer.approximate |= !sampler_is_exact_from(&t->sampling, BEST_LOGITS / 2);
    return sampler_pick_again(&t->slot->sampler, logits, ids, n);
}

static int32_t pick_from_all(ey_engine *engine, ey_ticket *t, const struct row_of_step *row,
                             const struct allowed *allowed)
{
    const struct model *m = &engine->model;
    struct generation *g = &t->generation;
    size_t vocabulary = (size_t)m->text.vocabulary;
    float *logits = engine->host.logits;
    engine->be->ops->read_logits(engine->be, logits, engine->logits + (size_t)row->out * vocabulary,
                                 vocabulary);
    int32_t id = engine->exact_head.data ? pick_again(engine, t, row, logits, allowed)
                                         : sampler_pick(&t->slot->sampler, logits, allowed);
    if (g->scored)
        logits_score(logits, m->text.vocabulary, id, g->n_top, &g->chosen[g->n],
                     g->top + (size_t)g->n * (size_t)g->n_top);
    return id;
}

int32_t pick_token(ey_engine *engine, ey_ticket *t, const struct row_of_step *row)
{
    struct allowed some, *allowed = NULL;
    int32_t id;
    if (t->constraint) {
        some = allowed_next(engine, t);
        allowed = &some;
    }
    return pick_from_best(engine, t, row, allowed, &id) ? id
                                                        : pick_from_all(engine, t, row, allowed);
}
