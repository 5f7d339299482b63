/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that run at once, and what each of them must answer. */
#ifndef CROWD_H
#define CROWD_H

#include "engine/engine_fixture.h"
#include "engine/ticket.h"

/* One request under way, and the text heard of it so far. */
struct member {
    ey_request request; /* what it points to is the test's */
    ey_ticket *ticket;
    ey_answer answer; /* after member_collect */
    char heard[16384];
    size_t n_heard;
    int n_tokens;
    bool over;
};

/* Queues an answer to member->request; a failure fails the test. */
void member_start(struct member *m, ey_engine *engine);
/* The same from a prompt that is there. */
void member_start_from(struct member *m, ey_engine *engine, ey_prompt *prompt);
/* Waits for one event. True: the answer is over. */
bool member_listen(struct member *m, int timeout_ms);
/* Listens to the end and takes the answer, which must have the text that was heard. */
void member_collect(struct member *m);
void member_free(struct member *m);

/* Starts all, listens to each in turn, and takes all answers. */
void crowd_run(struct member *members, int n, ey_engine *engine);
void crowd_free(struct member *members, int n);

/* Compares everything that does not tell of time or caches, bit for bit; any thread may. True:
 * `how` says what differs. */
bool answers_differ(const ey_answer *a, const ey_answer *b, char *how, size_t room);
void assert_same_answer(const ey_answer *a, const ey_answer *b, const char *what);
/* Greedy answers with the two best of each token, of a card: equal as far as `a` was sure. Other
 * rows beside one's own, or a prompt in other chunks, go through other kernels there, which sum in
 * another order; what is nearly a tie may then turn round, and what follows is another text. */
void assert_near_answer(const ey_answer *a, const ey_answer *b, const char *what);

/* ---- requests of all sorts ---- */

enum { SORTS = 8 };
struct sorts {
    struct question question[SORTS];
    ey_answer
        alone[SORTS]; /* each as the engine gave it with nothing beside it and nothing cached */
    char stop[64];
    const char *stops[1];
    int stop_ids[1];
    ey_logit_bias bias[2];
};
/* Text and pictures, greedy and drawn, penalties, log-probabilities, a stop text and a stop token
 * in the midst of an answer, biases, a prompt of several blocks, one without messages. Prompts of
 * at most 256 tokens, answers of at most 110. The struct must not move; the engine must stay open
 * until it is closed. */
void sorts_open(struct sorts *s, ey_engine *engine);
void sorts_close(struct sorts *s);

#endif
