/* SPDX-License-Identifier: Apache-2.0 */
/* Samples the next token from raw logits: penalties, temperature, top-k, top-p, min-p, then a draw.
 * Memory is planned for the vocabulary; a step allocates nothing. */
#ifndef EY_ENGINE_SAMPLER_H
#define EY_ENGINE_SAMPLER_H

#include "backend/backend.h"
#include "base/buf.h"
#include "eyelet.h"

struct scored_candidate {
    float score;
    int32_t id;
};

/* Scratch of one draw, shared by all requests. */
struct sampler_scratch {
    float *scores;                 /* [vocabulary] the logits after penalties */
    struct scored_candidate *heap; /* [vocabulary] */
    double *probability;           /* [vocabulary] of the kept candidates, most likely first */
};

/* The sampler's state of one request. */
struct sampler {
    struct sampler_scratch *scratch; /* borrowed */
    ey_sampling options;
    const ey_logit_bias *bias; /* [n_bias] borrowed */
    size_t n_bias;
    const int32_t *ends; /* [n_ends] borrowed; forbidden among the first min_tokens */
    size_t n_ends;
    uint64_t min_tokens;
    int vocabulary;
    int32_t *answer_count; /* [vocabulary] occurrences in the answer */
    uint8_t *in_prompt;    /* [vocabulary] */
    uint64_t n_drawn;      /* tokens drawn so far; seed and n_drawn give the random number */
    uint64_t n_tokens;     /* tokens of the answer so far, drawn or forced */
};

bool sampler_scratch_open(struct sampler_scratch *s, struct arena *arena, int vocabulary,
                          ey_err *e);
bool sampler_open(struct sampler *s, struct sampler_scratch *scratch, struct arena *arena,
                  int vocabulary, ey_err *e);
/* Starts a request: resets everything, also bias and ends, and records the prompt's ids. */
void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt,
                   size_t n_prompt);
/* Records a token that was drawn before, when a preempted request resumes. */
void sampler_record(struct sampler *s, int32_t id);
/* Records a token that was not drawn; the random sequence does not advance. */
void sampler_record_forced(struct sampler *s, int32_t id);
/* The ids that may be drawn: those in the mask, and the listed end tokens. */
struct allowed {
    const uint32_t *mask; /* bit i % 32 of word i / 32 */
    const int *end;
    int n_end; /* at most EY_MAX_EOS */
};
/* Returns the next id; does not change `logits`. Temperature 0 takes the best, the lower id among
 * equals. `allowed` NULL allows all ids; otherwise at least one must be allowed, and the result is
 * one of them even if all their logits are -infinity or NaN. */
int32_t sampler_sample(struct sampler *s, const float *logits, const struct allowed *allowed);

/* Samples from a row's top-k logits alone. Returns false if they do not decide the token; all
 * logits are needed then. `approximate`: logits outside the top-k are only approximately known
 * (8-bit head), so only half of the top-k are trusted to be the best. */
bool sampler_sample_topk(struct sampler *s, const struct topk_logits *best,
                         const struct allowed *allowed, bool approximate, int32_t *id);
/* Whether sampler_sample_topk() without a mask would succeed; draws nothing. */
bool sampler_topk_decides(struct sampler *s, const struct topk_logits *best, bool approximate);
/* Whether the device can sample for this request: it knows only temperature, top_k, top_p and
 * min_p. */
bool sampler_gpu_can_sample(const struct sampler *s, bool approximate);
struct token_sampling sampler_gpu_params(const struct sampler *s);
/* Writes the ids of the best max_ids scores after penalties, bias and mask, best first, and returns
 * their number. Forbidden ids are left out; without a mask also ids with a score of -infinity. */
int sampler_topk_ids(struct sampler *s, const float *logits, const struct allowed *allowed,
                     int32_t *ids, int max_ids);
/* sampler_sample() after sampler_topk_ids(), if only the logits of those ids[n] have changed since.
 * n must be TOPK_LOGITS unless there are fewer. */
int32_t sampler_sample_rescored(struct sampler *s, const float *logits, const int32_t *ids, int n);
/* Whether a draw needs only the n best logits. */
bool sampler_needs_only_topk(const ey_sampling *options, int n);

/* Fails if an option is out of range; the error names it with its value and range. */
bool sampling_check(const ey_sampling *options, ey_err *e);

#endif
