/* SPDX-License-Identifier: Apache-2.0 */
/* An answer in progress. The caller's thread polls it for text; the scheduler's thread computes it.
 * Fields that both touch are marked and protected by scheduler.lock. */
#ifndef EY_ENGINE_REQUEST_GENERATION_H
#define EY_ENGINE_REQUEST_GENERATION_H

#include <pthread.h>

#include "engine/request/answer.h"
#include "engine/cache/image_cache.h"
#include "engine/request/loop_guard.h"
#include "engine/request/pooled.h"
#include "engine/request/prompt.h"
#include "engine/request/prompt_scores.h"
#include "engine/request/stop_strings.h"
#include "engine/request/thought.h"

enum generation_state { GENERATION_WAITING, GENERATION_RUNNING, GENERATION_DONE };

struct request_slot;

struct ey_generation {
    ey_engine *engine;
    ey_prompt *prompt; /* referenced */

    /* the request's options for the answer; arrays are copies in the answer's arena */
    ey_sampling sampling;
    const char **stop;
    size_t n_stop;
    int *stop_ids;
    size_t n_stop_ids;
    ey_logit_bias *bias;
    size_t n_bias;
    int *ends; /* ids that end the answer; set only with min_tokens and without a grammar */
    size_t n_ends;
    int min_tokens;
    bool ignore_eos, no_prefix_cache;

    ey_answer answer;
    struct pooled_answer *pooled; /* in the answer's memory; NULL for a text answer */
    struct output_tokens output;
    struct prompt_scores prompt_scores;
    struct detok detok;
    struct buf token_text; /* text completed by the last token */
    struct stop_matcher stop_matcher;
    size_t n_unstoppable;    /* bytes of text before min_tokens was reached */
    struct matcher *matcher; /* NULL without a grammar */
    bool grammar_complete;   /* the grammar allows no further token */
    struct thought thought;
    struct loop_guard loop_guard; /* its result goes to answer.repetition */

    /* ---- under the lock ---- */
    enum generation_state state;
    bool cancelled, failed;
    ey_err error;                /* of a failed answer */
    struct buf unread_text;      /* text that was not fetched yet */
    struct buf event_text;       /* text of the last event */
    size_t unread_thought;       /* leading bytes of unread_text that belong to the thought */
    size_t event_left;           /* trailing bytes of event_text for the next event */
    int event_text_first;        /* thought.text_first as of the last event */
    int n_tokens, unread_tokens; /* tokens published: in all, and since the last fetched event */
    double unread_since;         /* when the unread text was first found too long; 0 if it is not */
    ey_phase phase;
    int done, total; /* progress of the phase */
    bool phase_changed;
    pthread_cond_t changed;
    ey_generation *next; /* in the queue */

    /* ---- used by the scheduler alone ---- */
    struct request_slot *slot;        /* while running */
    int n_computed;                   /* rows whose keys and values are in the KV cache */
    int n_blocks;                     /* used entries of slot->blocks */
    int n_published;                  /* full blocks that others may reuse */
    struct digest prefix_digest;      /* key of the last published block */
    struct image_entry **image_entry; /* [prompt->n_images] pinned; NULL when no longer needed */
    bool admitted_before;
    double start_time, admit_time, first_token_time;
};

/* Returns the number of tokens known so far: the prompt's and the answer's. */
static inline int generation_known_tokens(const ey_generation *gen)
{
    return (int)gen->prompt->ids.n + gen->output.n;
}

static inline int32_t generation_token_at(const ey_generation *gen, int row)
{
    int n = (int)gen->prompt->ids.n;
    return row < n ? gen->prompt->ids.id[row] : gen->output.id[row - n];
}

/* Whether the next token must follow the grammar, which needs a mask. */
static inline bool generation_is_constrained(const ey_generation *gen)
{
    return gen->matcher && thought_is_over(&gen->thought);
}

/* Whether too much text is unfetched. Called under the lock. */
bool generation_is_unread_full(const ey_generation *gen);
/* Publishes the phase and its progress to the reader. Called under the lock. */
void generation_progress(ey_generation *gen, ey_phase phase, int done, int total);
void generation_end(ey_generation *gen, const ey_err *error);

#endif
