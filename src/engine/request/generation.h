/* SPDX-License-Identifier: Apache-2.0 */
/* One answer in progress. The caller's thread polls it for text; the scheduler's thread owns what
 * makes it. What both touch is under scheduler.lock and marked so. */
#ifndef EY_ENGINE_TICKET_H
#define EY_ENGINE_TICKET_H

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
    ey_prompt *prompt; /* held */

    /* what the request said of the answer; copies in the answer's arena */
    ey_sampling sampling;
    const char **stop;
    size_t n_stop;
    int *stop_ids;
    size_t n_stop_ids;
    ey_logit_bias *bias;
    size_t n_bias;
    int *
        ends; /* ids that end the answer, but for its grammar's; only where there is a min_tokens */
    size_t n_ends;
    int min_tokens;
    bool ignore_eos, no_prefix_cache;

    ey_answer answer;
    struct pooled_answer *pooled; /* in the answer's memory; NULL: it is a text */
    struct output_tokens output;
    struct prompt_scores prompt_scores;
    struct detok detok;
    struct buf token_text; /* text that the last token completed */
    struct stop_matcher stop_matcher;
    size_t n_unstoppable;    /* bytes of text that came before min_tokens were out */
    struct matcher *matcher; /* NULL: the answer is free */
    bool grammar_complete;   /* nothing may follow in its grammar */
    struct thought thought;
    struct loop_guard loop_guard; /* answer.repetition: what it found */

    /* ---- under the lock ---- */
    enum generation_state state;
    bool cancelled, failed;
    ey_err error;                /* failed */
    struct buf unread_text;      /* text that was not fetched yet */
    struct buf event_text;       /* text of the last event */
    size_t unread_thought;       /* bytes at the front of unread_text that are of the thought */
    size_t event_left;           /* bytes at the end of event_text that the next event is */
    int event_text_first;        /* thought.text_first as of the last event */
    int n_tokens, unread_tokens; /* published so far; of them, since the last event was fetched */
    double unread_since;         /* when it became too much; 0: it is not */
    ey_phase phase;
    int done, total; /* of the phase */
    bool phase_changed;
    pthread_cond_t changed;
    ey_generation *next; /* in the queue */

    /* ---- the scheduler's ---- */
    struct request_slot *slot;        /* while running */
    int n_computed;                   /* rows whose keys and values are in the cache */
    int n_blocks;                     /* of slot->blocks */
    int n_published;                  /* full blocks of known contents */
    struct digest prefix_digest;      /* key of the last of them */
    struct image_entry **image_entry; /* [prompt->n_images] pinned; NULL: not needed */
    bool admitted_before;
    double start_time, admit_time, first_token_time;
};

/* Tokens that are known: prompt and answer. All but the last were, or can be, computed. */
static inline int generation_known_tokens(const ey_generation *gen)
{
    return (int)gen->prompt->ids.n + gen->output.n;
}

static inline int32_t generation_token_at(const ey_generation *gen, int row)
{
    int n = (int)gen->prompt->ids.n;
    return row < n ? gen->prompt->ids.id[row] : gen->output.id[row - n];
}

/* The next token has to keep to the grammar, whose mask is made. */
static inline bool generation_is_constrained(const ey_generation *gen)
{
    return gen->matcher && thought_is_over(&gen->thought);
}

/* Too much text lies there unfetched. Under the lock. */
bool generation_is_unread_full(const ey_generation *gen);
/* Under the lock. */
void generation_progress(ey_generation *gen, ey_phase phase, int done, int total);
void generation_end(ey_generation *gen, const ey_err *error);

#endif
