/* SPDX-License-Identifier: Apache-2.0 */
/* Concurrent requests and their expected answers. */
#ifndef EY_TESTS_ENGINE_CONCURRENT_REQUESTS_H
#define EY_TESTS_ENGINE_CONCURRENT_REQUESTS_H

#include "engine/engine_fixture.h"
#include "engine/request/generation.h"

/* A running request and the text of its events so far. */
struct concurrent_request {
    ey_request request; /* the test owns what it points to */
    ey_generation *gen;
    ey_answer answer; /* valid after concurrent_request_collect */
    char text[16384];
    size_t n_text;
    int n_tokens;
    bool done;
};

/* Starts m->request; a failure fails the test. */
void concurrent_request_start(struct concurrent_request *m, ey_engine *engine);
/* Starts the request with a prepared prompt. */
void concurrent_request_start_from(struct concurrent_request *m, ey_engine *engine,
                                   ey_prompt *prompt);
/* Waits for one event. Returns true when the answer is complete. */
bool concurrent_request_poll(struct concurrent_request *m, int timeout_ms);
/* Reads all events and collects the answer, whose text must equal that of the events. */
void concurrent_request_collect(struct concurrent_request *m);
void concurrent_request_free(struct concurrent_request *m);

/* Starts all requests, polls them in turn and collects all answers. */
void concurrent_requests_run(struct concurrent_request *members, int n, ey_engine *engine);
void concurrent_requests_free(struct concurrent_request *members, int n);

/* Compares all but times and cache counts bit for bit. Returns whether they differ, with the
 * difference in `how`. Thread-safe. */
bool answers_differ(const ey_answer *a, const ey_answer *b, char *how, size_t room);
void assert_same_answer(const ey_answer *a, const ey_answer *b, const char *what);
/* Compares greedy answers of a GPU that have top-2 log-probabilities. They may differ from the
 * first near-tie of `a` on: other batches and chunks use kernels that sum in another order, which
 * may reverse a near-tie. */
void assert_near_answer(const ey_answer *a, const ey_answer *b, const char *what);

/* ---- requests of all kinds ---- */

enum { N_REQUEST_KINDS = 8 };
struct request_kinds {
    struct question question[N_REQUEST_KINDS];
    ey_answer expected[N_REQUEST_KINDS]; /* each answered alone, with empty caches */
    char stop[64];
    const char *stops[1];
    int stop_ids[1];
    ey_logit_bias bias[2];
};
/* Text and images, greedy and random, penalties, log-probabilities, stop text, stop token, logit
 * biases, a prompt of several blocks, a raw prompt. Prompts have at most 256 tokens and answers
 * 110. Do not move the struct; keep the engine open until request_kinds_close. */
void request_kinds_open(struct request_kinds *s, ey_engine *engine);
void request_kinds_close(struct request_kinds *s);

#endif
