/* Raw logits → the next token: penalties, temperature, top-k, top-p, min-p, then a draw (spec 1.5). Works in
 * memory that is planned for the vocabulary; a step allocates nothing. */
#ifndef EY_ENGINE_SAMPLER_H
#define EY_ENGINE_SAMPLER_H

#include "base/buf.h"
#include "eyelet.h"

struct candidate_token {
    float score;
    int32_t id;
};

struct sampler {
    ey_sampling options;
    int vocabulary;
    float *scores;                   /* [vocabulary] the logits after penalties */
    struct candidate_token *heap;    /* [vocabulary] */
    double *probability;             /* [vocabulary] of the kept candidates, most likely first */
    int32_t *count;                  /* [vocabulary] times in the answer */
    uint8_t *in_prompt;              /* [vocabulary] */
    uint64_t step;                   /* tokens drawn so far; with the seed it makes the random number */
};

bool sampler_open(struct sampler *s, struct arena *arena, int vocabulary, ey_err *e);
/* Starts a request: forgets the last one, remembers the prompt's ids. */
void sampler_start(struct sampler *s, const ey_sampling *options, const int32_t *prompt, size_t n_prompt);
/* The next id; `logits` is not changed. Temperature 0 takes the best, the lower id among equals. */
int32_t sampler_pick(struct sampler *s, const float *logits);

/* Options that cannot be: named with their value and range. */
bool sampling_check(const ey_sampling *options, ey_err *e);

#endif
