/* SPDX-License-Identifier: Apache-2.0 */
/* Raw logits → the next token: penalties, temperature, top-k, top-p, min-p, then a draw (spec 1.5).
 * Works in memory that is planned for the vocabulary; a step allocates nothing. */
#ifndef EY_ENGINE_SAMPLER_H
#define EY_ENGINE_SAMPLER_H

#include "backend/backend.h"
#include "base/buf.h"
#include "eyelet.h"

struct scored_candidate {
    float score;
    int32_t id;
};

/* What one draw needs; draws of several requests share it. */
struct sampler_scratch {
    float *scores;                 /* [vocabulary] the logits after penalties */
    struct scored_candidate *heap; /* [vocabulary] */
    double *probability;           /* [vocabulary] of the kept candidates, most likely first */
};

/* What a request's draws so far have left. */
struct sampler {
    struct sampler_scratch *scratch; /* borrowed */
    ey_sampling options;
    const ey_logit_bias *bias; /* [n_bias] borrowed */
    size_t n_bias;
    const int32_t *ends; /* [n_ends] borrowed: not drawn among the first min_tokens */
    size_t n_ends;
    uint64_t min_tokens;
    int vocabulary;
    int32_t *answer_count; /* [vocabulary] times in the answer */
    uint8_t *in_prompt;    /* [vocabulary] */
    uint64_t n_drawn;      /* tokens drawn so far; with the seed it makes the random number */
};

bool sampler_scratch_open(struct sampler_scratch *s, struct arena *arena, int vocabulary,
                          ey_err *e);
bool sampler_open(struct sampler *s, struct sampler_scratch *scratch, struct arena *arena,
                  int vocabulary, ey_err *e);
/* Starts a request: forgets the last one, its bias and ends too; remembers the prompt's ids. */
void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt,
                   size_t n_prompt);
/* Takes note of a token that was drawn before (a request that starts again where it was). */
void sampler_record(struct sampler *s, int32_t id);
/* The same of a token that was not drawn: the next random number stays the next one. */
void sampler_record_forced(struct sampler *s, int32_t id);
/* Which ids may be drawn: those of the mask, and the end tokens listed. */
struct allowed {
    const uint32_t *mask; /* bit i % 32 of word i / 32 */
    const int *end;
    int n_end; /* at most EY_MAX_EOS */
};
/* The next id; `logits` is not changed. Temperature 0 takes the best, the lower id among equals.
 * NULL: all are allowed; else it is an allowed one, of which there is one at least, even where the
 * logits of all allowed ones are -infinity or NaN. */
int32_t sampler_sample(struct sampler *s, const float *logits, const struct allowed *allowed);

/* The same from a row's best alone. False: they do not decide it, ask for all. `approximate`: what
 * is not among them is no better than approximately known, so that the best decide only as far as
 * half of them. */
bool sampler_sample_topk(struct sampler *s, const struct topk_logits *best,
                         const struct allowed *allowed, bool approximate, int32_t *id);
/* Whether it would, of all ids; nothing is drawn. */
bool sampler_topk_decides(struct sampler *s, const struct topk_logits *best, bool approximate);
/* Whether the device may draw for it: temperature, top_k, top_p and min_p alone. And how it would.
 */
bool sampler_gpu_can_sample(const struct sampler *s, bool approximate);
struct token_sampling sampler_gpu_params(const struct sampler *s);
/* Ids of the best `most` scores after penalties, bias and mask, the best first; returns how many
 * there are: none that is forbidden or, without a mask, that is -infinity. */
int sampler_topk_ids(struct sampler *s, const float *logits, const struct allowed *allowed,
                     int32_t *ids, int max_ids);
/* sampler_sample() right after sampler_topk_ids(), when the logits of those ids[n], TOPK_LOGITS of
 * them unless there are no more, and only they have changed. */
int32_t sampler_sample_rescored(struct sampler *s, const float *logits, const int32_t *ids, int n);
/* Whether a draw needs only the best n. */
bool sampler_needs_only_topk(const ey_sampling *options, int n);

/* Options that cannot be: named with their value and range. */
bool sampling_check(const ey_sampling *options, ey_err *e);

#endif
