/* SPDX-License-Identifier: Apache-2.0 */
/* One answer under way. The caller's thread holds the ticket and fetches text; the scheduler's
 * thread owns what makes it. What both touch is under the engine's lock and marked so. */
#ifndef EY_ENGINE_TICKET_H
#define EY_ENGINE_TICKET_H

#include <pthread.h>

#include "engine/answer.h"
#include "engine/image_cache.h"
#include "engine/ready_prompt.h"
#include "engine/stop.h"

enum ticket_state { TICKET_WAITING, TICKET_RUNNING, TICKET_DONE };

struct slot;

struct ey_ticket {
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
    bool ignore_eos, fresh;

    ey_answer answer;
    struct generation generation;
    struct detok detok;
    struct buf piece; /* text that the last token completed */
    struct stopper stopper;
    struct constraint *constraint; /* NULL: the answer is free */
    bool complete;                 /* nothing may follow in its grammar */

    /* ---- under the lock ---- */
    enum ticket_state state;
    bool cancelled, failed;
    ey_err error;         /* failed */
    struct buf ready;     /* text that was not fetched yet */
    struct buf taken;     /* text of the last event */
    int n_tokens, unread; /* published so far; of them, since the last event was fetched */
    double unread_since;  /* when it became too much; 0: it is not */
    const char *phase;
    int done, total; /* of the phase */
    bool phase_news;
    pthread_cond_t news;
    ey_ticket *next; /* in the queue */

    /* ---- the scheduler's ---- */
    struct slot *slot;          /* while running */
    int computed;               /* rows whose keys and values are in the cache */
    int n_blocks;               /* of slot->blocks */
    int n_published;            /* full blocks of known contents */
    struct digest chain;        /* key of the last of them */
    struct image_entry **entry; /* [prompt->n_pictures] pinned; NULL: not needed */
    bool admitted_before;
    double started, admitted, first_token;
};

/* Tokens that are known: prompt and answer. All but the last were, or can be, computed. */
static inline int ticket_known(const ey_ticket *t)
{
    return (int)t->prompt->ids.n + t->generation.n;
}

static inline int32_t ticket_token(const ey_ticket *t, int row)
{
    int n = (int)t->prompt->ids.n;
    return row < n ? t->prompt->ids.id[row] : t->generation.id[row - n];
}

/* A row of the last step that a token is taken from. */
struct row_of_step {
    int out; /* which of the step's rows of logits */
    dev x;   /* the step's residual stream … */
    int at;  /* … and the row in it */
};
/* The next token, by the ticket's sampling and grammar; notes log-probabilities where they are
 * wanted. */
int32_t pick_token(ey_engine *engine, ey_ticket *t, const struct row_of_step *row);
/* Takes the next token and publishes the text that it completes. True: the answer is over. */
bool ticket_take_token(ey_ticket *t, const struct row_of_step *row);
/* Too much text lies there unfetched. Under the lock. */
bool ticket_is_full(const ey_ticket *t);
/* Under the lock. */
void ticket_progress(ey_ticket *t, const char *phase, int done, int total);
void ticket_end(ey_ticket *t, const ey_err *error);

#endif
