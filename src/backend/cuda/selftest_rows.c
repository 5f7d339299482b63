/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test of kernels other than matmuls and attention: the embedding, top-k logits, and
 * rescoring. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/selftest.h"

/* ---- the embedding ---- */

enum { EMBEDDED = 5 };

/* Tests embeddings of the packed BF16 matrix and of features, which are then added once more. */
static void compare_embeddings(struct selftest *t)
{
    static const int32_t token[EMBEDDED] = {3, -1, SELFTEST_ROWS - 1, 0, -1},
                         feature[EMBEDDED] = {-1, 2, -1, -1, 7}, zero[EMBEDDED] = {0},
                         slot[EMBEDDED] = {0, 1, 2, 3, 4};
    static const struct step_seq seq = {0, EMBEDDED, 0, STAGE_DECODE};
    const struct step step = {.n_rows = EMBEDDED,
                              .n_seqs = 1,
                              .max_blocks = 1,
                              .token = token,
                              .feature = feature,
                              .seq = &seq,
                              .row_seq = zero,
                              .row_slot = slot,
                              .block_table = zero};
    float *result[SELFTEST_SIDES] = {NULL};
    selftest_spoil(t, t->buffers[ON_GPU].x, EMBEDDED * SELFTEST_COLS * sizeof(float));
    for (int side = 0; side < SELFTEST_SIDES; side++) {
        struct backend *be = t->side[side];
        const struct selftest_buffers *b = &t->buffers[side];
        const struct compute_ops *compute = be->ops->compute;
        if (!(result[side] = selftest_alloc(t, EMBEDDED * SELFTEST_COLS * sizeof(float)))) return;
        be->ops->memory->write(be, b->features, t->x, ELEMENT_FEATURE, 8 * SELFTEST_COLS);
        compute->embed(be, b->x, t->model[side].text[OF_BF16].mlp.down, b->features, &step);
        compute->add_features(be, b->x, b->features, &step, SELFTEST_COLS);
        selftest_finish(t, (enum selftest_side)side);
        be->ops->memory->read(be, result[side], b->x, ELEMENT_RESIDUAL, EMBEDDED * SELFTEST_COLS);
    }
    selftest_judge(t, FAMILY_EMBED, result[ON_GPU], result[ON_REFERENCE], EMBEDDED * SELFTEST_COLS);
}

/* ---- top-k logits ---- */

enum { LOGIT_ROWS = 2 };

static const int32_t logit_row[LOGIT_ROWS] = {4, 1};

static int higher_logit_first(const void *a, const void *b)
{
    const struct scored_token *x = a, *y = b;
    if (x->logit < y->logit || x->logit > y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Computes the logits of LOGIT_ROWS rows of x on one side. */
static float *head_logits(struct selftest *t, enum selftest_side side, const struct placed *head,
                          int cols, int vocabulary)
{
    struct backend *be = t->side[side];
    const struct selftest_buffers *b = &t->buffers[side];
    const struct selftest_model *m = &t->model[side];
    const struct text_shape shape = {.hidden = cols, .vocab_size = vocabulary, .norm_eps = 1e-6f};
    size_t n = (size_t)(LOGIT_ROWS * vocabulary);
    float *logits = selftest_alloc(t, n * sizeof(float));
    if (!logits) return NULL;
    be->ops->memory->write(be, b->x, t->x, ELEMENT_RESIDUAL, (size_t)(8 * cols));
    be->ops->compute->lm_head(be, b->logits, b->x, logit_row, LOGIT_ROWS,
                              cols == SELFTEST_NARROW ? m->attention[0].input_norm
                                                      : m->text[OF_BF16].attention.input_norm,
                              head, &shape);
    if (be->ops->graph) be->ops->graph->end_step(be);
    selftest_finish(t, side);
    be->ops->memory->read_logits(be, logits, b->logits, n);
    return logits;
}

/* Judges top-k logits against the sorted logits; a wrong id is judged as an infinite error. */
static void judge_topk(struct selftest *t, const float *logits, const struct topk_logits *got)
{
    enum { N = 2 * TOPK_LOGITS + 1 };
    struct scored_token *all = selftest_alloc(t, SELFTEST_VOCABULARY * sizeof(*all));
    float got_numbers[N], want[N];
    double sum = 0;
    if (!all) return;
    for (int i = 0; i < SELFTEST_VOCABULARY; i++) {
        all[i] = (struct scored_token){logits[i], i};
        sum += exp((double)logits[i]);
    }
    qsort(all, SELFTEST_VOCABULARY, sizeof(*all), higher_logit_first);
    for (int i = 0; i < TOPK_LOGITS; i++) {
        got_numbers[2 * i] = got->token[i].logit;
        want[2 * i] = all[i].logit;
        got_numbers[2 * i + 1] = got->token[i].id == all[i].id ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    got_numbers[N - 1] = got->logsumexp;
    want[N - 1] = (float)log(sum);
    selftest_judge(t, FAMILY_TOPK, got_numbers, want, N);
}

static void compare_topk(struct selftest *t)
{
    struct backend *be = t->side[ON_GPU];
    struct topk_logits got;
    selftest_spoil_scratch(t);
    const float *logits = head_logits(t, ON_GPU, t->model[ON_GPU].long_head, SELFTEST_NARROW,
                                      SELFTEST_VOCABULARY);
    for (int row = 0; logits && row < LOGIT_ROWS; row++) {
        be->ops->compute->topk(be, &got, row);
        judge_topk(t, logits + row * SELFTEST_VOCABULARY, &got);
    }
}

/* ---- rescored top-k logits ---- */

/* Judges rescored logits: the 8-bit head selects the tokens, and the reference has the logits of
 * the BF16 head. */
static void judge_rescored(struct selftest *t, const float *logits, const struct topk_logits *got)
{
    float got_numbers[2 * TOPK_LOGITS], want[2 * TOPK_LOGITS];
    bool seen[SELFTEST_ROWS] = {false};
    for (int i = 0; i < TOPK_LOGITS; i++) {
        const struct scored_token *token = &got->token[i];
        bool good = token->id >= 0 && token->id < SELFTEST_ROWS && !seen[token->id] &&
                    (!i || higher_logit_first(token - 1, token) < 0);
        if (good) seen[token->id] = true;
        got_numbers[2 * i] = token->logit;
        want[2 * i] = good ? logits[token->id] : 0;
        got_numbers[2 * i + 1] = good ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    selftest_judge(t, FAMILY_RESCORE, got_numbers, want, 2 * TOPK_LOGITS);
}

/* A copy on the GPU replaces the file's pinned rows. */
static void compare_rescored(struct selftest *t)
{
    struct backend *be = t->side[ON_GPU];
    struct topk_logits got;
    const float *want = head_logits(t, ON_REFERENCE, t->model[ON_REFERENCE].head[OF_INT8],
                                    SELFTEST_COLS, SELFTEST_ROWS);
    selftest_spoil_scratch(t);
    t->c->pinned_range[0] = (struct pinned_range){t->int8_head.data, t->int8_head_rows,
                                                  SELFTEST_ROWS * SELFTEST_COLS * sizeof(bf16)};
    t->c->n_pinned_ranges = 1;
    const float *logits = head_logits(t, ON_GPU, t->model[ON_GPU].head[OF_INT8], SELFTEST_COLS,
                                      SELFTEST_ROWS);
    t->c->n_pinned_ranges = 0;
    for (int row = 0; want && logits && row < LOGIT_ROWS; row++) {
        be->ops->compute->topk(be, &got, row);
        judge_rescored(t, want + row * SELFTEST_ROWS, &got);
    }
}

/* ---- all ---- */

bool selftest_rows(struct selftest *t)
{
    if (selftest_begin(t, FAMILY_EMBED) && (compare_embeddings(t), !selftest_end(t, FAMILY_EMBED)))
        return false;
    if (selftest_begin(t, FAMILY_TOPK) && (compare_topk(t), !selftest_end(t, FAMILY_TOPK)))
        return false;
    return !selftest_begin(t, FAMILY_RESCORE) ||
           (compare_rescored(t), selftest_end(t, FAMILY_RESCORE));
}
