/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the engine share: engines, images and questions. Whatever fails here fails the
 * test. */
#ifndef EY_TESTS_ENGINE_ENGINE_FIXTURE_H
#define EY_TESTS_ENGINE_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_internal.h"

/* What tests that are for every device run on. With sanitizers `ref` takes minutes, and goldens and
 * test_kernels see it there. */
#ifdef EY_SANITIZED
#define ENGINE_DEVICES "cpu"
enum { N_ENGINE_DEVICES = 1 };
#else
#define ENGINE_DEVICES "ref", "cpu"
enum { N_ENGINE_DEVICES = 2 };
#endif

/* The directory of this run's checkpoints; engine_fixture_close removes it. */
const char *fixture_dir(void);
int engine_fixture_open(void **state);
int engine_fixture_close(void **state);

/* An engine of a kind of mkcheckpoint (made on first use) or of a directory (starting with '/'). */
ey_engine *engine_open(const char *kind, const char *device, int threads, int max_model_len);
bool engine_try(ey_engine **engine, const char *kind, const char *device, int threads,
                int max_model_len, ey_err *e);
/* The same with any options, of which model is taken from `kind`. */
ey_engine *engine_open_with(const char *kind, ey_engine_options options);

/* ---- an engine at rest: no request is under way ---- */

/* Fails unless it is, and holds no block, slot or image for anybody. */
void assert_at_rest(ey_engine *engine);
/* Between these two the test may use the backend itself: the scheduler's thread, which copies
 * weights into huge pages meanwhile, does not. */
void backend_take(ey_engine *engine);
void backend_give_back(ey_engine *engine);
/* Decoder steps of at most so many rows, that many patches of a tile. */
void engine_set_rows(ey_engine *engine, int rows, int tile);
/* The KV and feature blocks that nobody holds are handed out in another order from now on; their
 * contents are forgotten. */
void engine_shuffle(ey_engine *engine, unsigned seed);
/* Nothing is cached any more. */
void engine_forget(ey_engine *engine);
/* The features of an image; NULL: they are not there. */
const struct image_entry *engine_features(ey_engine *engine, const struct digest *image);
/* Row of ws.features that has the image's visual token `token`. */
int feature_row(const struct image_entry *entry, int token);

/* A PNG of width x height made-up pixels; kept until the end. */
ey_part test_image(int width, int height, unsigned seed);

enum { MAX_TURNS = 8, MAX_TURN_PARTS = 80 };
struct question {
    ey_part parts[MAX_TURNS][MAX_TURN_PARTS];
    ey_message messages[MAX_TURNS];
    ey_request request; /* greedy, ignores stop tokens */
};
/* An empty conversation; the struct must not move afterwards. */
void question_start(struct question *q, int max_tokens);
void question_turn(struct question *q, const char *role);
/* Adds to the last turn. */
void question_text(struct question *q, const char *text);
void question_part(struct question *q, ey_part part);
/* One user turn: n_images images of awkward sizes, then the text. */
void question_simple(struct question *q, int n_images, const char *text, int max_tokens);

/* Asks; a failure fails the test. The answer is the caller's. */
ey_answer ask(ey_engine *engine, const struct question *q);

/* What a request leaves behind, for comparing bits: ids and the last logits. */
struct outcome {
    int ids[256], n, prompt_tokens, image_tokens, vocabulary;
    float *logits;
    char *text;
};
struct outcome outcome_of(ey_engine *engine, const struct question *q);
void outcome_free(struct outcome *o);
void assert_same_outcome(const struct outcome *a, const struct outcome *b, const char *what);

#endif
