/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that run at once, and what each of them must answer. */
#ifndef EY_TESTS_ENGINE_CONCURRENT_REQUESTS_H
#define EY_TESTS_ENGINE_CONCURRENT_REQUESTS_H

#include "engine/engine_fixture.h"
#include "engine/request/generation.h"

/* One request under way, and the text heard of it so far. */
struct concurrent_request {
    ey_request request; /* what it points to is the test's */
    ey_generation *gen;
    ey_answer answer; /* after concurrent_request_collect */
    char text[16384];
    size_t n_text;
    int n_tokens;
    bool done;
};

/* Queues an answer to member->request; a failure fails the test. */
void concurrent_request_start(struct concurrent_request *m, ey_engine *engine);
/* The same from a prompt that is there. */
void concurrent_request_start_from(struct concurrent_request *m, ey_engine *engine,
                                   ey_prompt *prompt);
/* Waits for one event. True: the answer is over. */
bool concurrent_request_poll(struct concurrent_request *m, int timeout_ms);
/* Listens to the end and takes the answer, which must have the text that was heard. */
void concurrent_request_collect(struct concurrent_request *m);
void concurrent_request_free(struct concurrent_request *m);

/* Starts all, listens to each in turn, and takes all answers. */
void concurrent_requests_run(struct concurrent_request *members, int n, ey_engine *engine);
void concurrent_requests_free(struct concurrent_request *members, int n);

/* Compares everything that does not tell of time or caches, bit for bit; any thread may. True:
 * `how` says what differs. */
bool answers_differ(const ey_answer *a, const ey_answer *b, char *how, size_t room);
void assert_same_answer(const ey_answer *a, const ey_answer *b, const char *what);
/* Greedy answers with the two best of each token, of a GPU: equal as far as `a` was sure. Other
 * rows beside one's own, or a prompt in other chunks, go through other kernels there, which sum in
 * another order; what is nearly a tie may then turn round, and what follows is another text. */
void assert_near_answer(const ey_answer *a, const ey_answer *b, const char *what);

/* ---- requests of all sorts ---- */

enum { N_REQUEST_KINDS = 8 };
struct request_kinds {
    struct question question[N_REQUEST_KINDS];
    ey_answer expected[N_REQUEST_KINDS]; /* each as the engine gave it with nothing beside it and
                                            nothing cached */
    char stop[64];
    const char *stops[1];
    int stop_ids[1];
    ey_logit_bias bias[2];
};
/* Text and images, greedy and drawn, penalties, log-probabilities, a stop text and a stop token
 * in the midst of an answer, biases, a prompt of several blocks, one without messages. Prompts of
 * at most 256 tokens, answers of at most 110. The struct must not move; the engine must stay open
 * until it is closed. */
void request_kinds_open(struct request_kinds *s, ey_engine *engine);
void request_kinds_close(struct request_kinds *s);

#endif
