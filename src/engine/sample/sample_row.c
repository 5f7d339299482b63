/* SPDX-License-Identifier: Apache-2.0 */
/* Samples a token from a step's logits. A GPU backend returns the top-k logits of a row, which
 * nearly always decide the token; the whole row is copied only if they do not (a grammar that
 * allows too few of them, a nucleus without top_k, a bias). With an 8-bit head the top-k are
 * rescored from the BF16 head rows, by the device or here. */
#include "backend/rescore.h"
#include "constrain/constrain.h"
#include "engine/sample/logprobs.h"
#include "engine/sample/sample_row.h"

/* ---- exact logits of a few tokens ---- */

void read_normed_row(const ey_engine *engine, float *out, dev x, int row)
{
    const struct model *m = &engine->devices.model;
    size_t hidden = (size_t)m->text.hidden;
    engine->devices.be->ops->memory->read(engine->devices.be, out,
                                          engine->devices.be->ops->memory->at(engine->devices.be, x,
                                                                              ELEMENT_RESIDUAL,
                                                                              (size_t)row * hidden),
                                          ELEMENT_RESIDUAL, hidden);
    rescore_norm(out, out, engine->buffers.host.rescore_norm, hidden, m->text.norm_eps);
}

static float bf16_head_logit(const struct engine_buffers *buffers, const float *normed, int32_t id)
{
    const struct tensor *head = &buffers->bf16_head;
    return rescore_dot(normed, (const char *)head->data + (size_t)id * weight_row_bytes(head),
                       (size_t)head->cols);
}

static bool logit_ranks_before(struct scored_token a, struct scored_token b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void rescore_topk(const ey_engine *engine, struct topk_logits *topk, dev x, int row)
{
    float *normed = engine->buffers.host.normed;
    read_normed_row(engine, normed, x, row);
    for (int i = 0; i < TOPK_LOGITS && topk->token[i].id >= 0; i++) {
        const int32_t id = topk->token[i].id;
        struct scored_token rescored = {bf16_head_logit(&engine->buffers, normed, id), id};
        int at = i;
        for (; at && logit_ranks_before(rescored, topk->token[at - 1]); at--)
            topk->token[at] = topk->token[at - 1];
        topk->token[at] = rescored;
    }
}

/* ---- a row ---- */

static void topk_logprobs(const struct topk_logits *topk, int32_t chosen, int top,
                          struct token_logprob *out_chosen, struct token_logprob *out_top)
{
    for (int i = 0; i < TOPK_LOGITS && topk->token[i].id >= 0; i++) {
        struct token_logprob s = {topk->token[i].id, topk->token[i].logit - topk->logsumexp};
        if (s.id == chosen) *out_chosen = s;
        if (i < top) out_top[i] = s;
    }
}

/* Returns the tokens that the grammar allows; the mask was computed during the step. While
 * min_tokens is not reached, ends are left out. */
static struct allowed allowed_tokens(const struct engine_devices *devices, const ey_generation *gen)
{
    const struct model *m = &devices->model;
    const bool may_end = matcher_may_end(gen->matcher) && gen->output.n >= gen->min_tokens;
    return (struct allowed){matcher_mask(gen->matcher), m->eos, may_end ? m->n_eos : 0};
}

static bool sample_from_topk(ey_engine *engine, ey_generation *gen, const struct step_row *row,
                             const struct allowed *allowed, int32_t *id)
{
    struct output_tokens *output = &gen->output;
    struct topk_logits topk;
    if (!engine->devices.be->ops->compute->topk) return false;
    engine->devices.be->ops->compute->topk(engine->devices.be, &topk, row->logits_row);
    if (engine->buffers.rescores_on_host) rescore_topk(engine, &topk, row->x, row->x_row);
    if (!sampler_sample_topk(&gen->slot->sampler, &topk, allowed,
                             engine->buffers.bf16_head.data != NULL, id))
        return false;
    if (output->wants_logprobs)
        topk_logprobs(&topk, *id, output->n_top, &output->logprob[output->n],
                      output->top_logprobs + (size_t)output->n * (size_t)output->n_top);
    return true;
}

/* Samples with an 8-bit head: the best logits are replaced by rescored ones first. */
static int32_t sample_rescored(ey_engine *engine, ey_generation *gen, const struct step_row *row,
                               float *logits, const struct allowed *allowed)
{
    int32_t ids[TOPK_LOGITS];
    int n = sampler_topk_ids(&gen->slot->sampler, logits, allowed, ids, TOPK_LOGITS);
    read_normed_row(engine, engine->buffers.host.normed, row->x, row->x_row);
    for (int i = 0; i < n; i++)
        logits[ids[i]] = bf16_head_logit(&engine->buffers, engine->buffers.host.normed, ids[i]);
    gen->answer.approximate |= !sampler_needs_only_topk(&gen->sampling, TOPK_LOGITS / 2);
    return sampler_sample_rescored(&gen->slot->sampler, logits, ids, n);
}

/* Returns all logits of a row in host memory, valid until the next call. */
static float *read_row_logits(ey_engine *engine, const struct step_row *row)
{
    const size_t vocabulary = (size_t)engine->devices.model.text.vocab_size;
    engine->devices.be->ops->memory->read_logits(
        engine->devices.be, engine->buffers.host.logits,
        engine->buffers.logits + (size_t)row->logits_row * vocabulary, vocabulary);
    return engine->buffers.host.logits;
}

static int32_t sample_from_logits(ey_engine *engine, ey_generation *gen, const struct step_row *row,
                                  const struct allowed *allowed)
{
    const struct model *m = &engine->devices.model;
    struct output_tokens *output = &gen->output;
    float *logits = read_row_logits(engine, row);
    int32_t id = engine->buffers.bf16_head.data
                     ? sample_rescored(engine, gen, row, logits, allowed)
                     : sampler_sample(&gen->slot->sampler, logits, allowed);
    if (output->wants_logprobs)
        logits_score(logits, m->text.vocab_size, id, output->n_top, &output->logprob[output->n],
                     output->top_logprobs + (size_t)output->n * (size_t)output->n_top);
    return id;
}

int32_t sample_row(ey_engine *engine, ey_generation *gen, const struct step_row *row)
{
    struct allowed mask, *allowed = NULL;
    int32_t id;
    if (generation_is_constrained(gen)) {
        mask = allowed_tokens(&engine->devices, gen);
        allowed = &mask;
    }
    return sample_from_topk(engine, gen, row, allowed, &id)
               ? id
               : sample_from_logits(engine, gen, row, allowed);
}

/* ---- a token that is already known ---- */

/* With an 8-bit head, replaces the best logits and that of `id` by rescored ones. */
static void rescore_logits(ey_engine *engine, const struct step_row *row, float *logits, int32_t id)
{
    struct token_logprob best[TOPK_LOGITS], given;
    const int n = engine->devices.model.text.vocab_size, n_best = n < TOPK_LOGITS ? n : TOPK_LOGITS;
    float *normed = engine->buffers.host.normed;
    logits_score(logits, n, id, n_best, &given, best);
    read_normed_row(engine, normed, row->x, row->x_row);
    for (int i = 0; i < n_best; i++)
        logits[best[i].id] = bf16_head_logit(&engine->buffers, normed, best[i].id);
    logits[id] = bf16_head_logit(&engine->buffers, normed, id);
}

struct token_score score_known_token(ey_engine *engine, const struct step_row *row, int32_t id,
                                     int top, struct token_logprob *out_top)
{
    const int n = engine->devices.model.text.vocab_size;
    struct token_score out;
    float *logits = read_row_logits(engine, row);
    if (engine->buffers.bf16_head.data) rescore_logits(engine, row, logits, id);
    logits_score(logits, n, id, top, &out.token, out_top);
    out.rank = logits_rank(logits, n, id);
    return out;
}
