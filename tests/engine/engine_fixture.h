/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the engine: engines, images and questions. Any failure fails the test. */
#ifndef EY_TESTS_ENGINE_ENGINE_FIXTURE_H
#define EY_TESTS_ENGINE_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_internal.h"

/* The devices on which tests run. `ref` takes minutes with sanitizers; the goldens and test_kernels
 * cover it there. */
#ifdef EY_SANITIZED
#define ENGINE_DEVICES "cpu"
enum { N_ENGINE_DEVICES = 1 };
#else
#define ENGINE_DEVICES "ref", "cpu"
enum { N_ENGINE_DEVICES = 2 };
#endif

/* The directory of this run's checkpoints, which engine_fixture_close removes. */
const char *fixture_dir(void);
int engine_fixture_open(void **state);
int engine_fixture_close(void **state);

/* Opens a checkpoint: a kind of mkcheckpoint, made at the first use, or a directory that begins
 * with '/'. */
ey_engine *engine_open(const char *kind, const char *device, int threads, int max_model_len);
bool engine_try(ey_engine **engine, const char *kind, const char *device, int threads,
                int max_model_len, ey_err *e);
/* The same with these options, whose model is set from `kind`. */
ey_engine *engine_open_with(const char *kind, ey_engine_options options);

/* ---- idle engines: no request is running ---- */

/* Fails unless the engine is idle and holds no block, slot or image. */
void assert_at_rest(ey_engine *engine);
/* Between these two calls the test may use the backend; the scheduler's thread, which otherwise
 * copies weights into huge pages when idle, does not. */
void backend_take(ey_engine *engine);
void backend_give_back(ey_engine *engine);
/* Limits text model steps to `rows` rows and tiles of the vision encoder to `tile` patches. */
void engine_set_rows(ey_engine *engine, int rows, int tile);
/* Shuffles the order in which free KV and feature blocks are allocated, and forgets their contents.
 */
void engine_shuffle(ey_engine *engine, unsigned seed);
/* Empties all caches. */
void engine_forget(ey_engine *engine);
/* The cached features of an image, or NULL. */
const struct image_entry *engine_features(ey_engine *engine, const struct digest *image);
/* The row of ws.features with the image's visual token `token`. */
int feature_row(const struct image_entry *entry, int token);

/* A PNG of gradients and noise; kept until engine_fixture_close. */
ey_part test_image(int width, int height, unsigned seed);

enum { MAX_TURNS = 8, MAX_TURN_PARTS = 80 };
struct question {
    ey_part parts[MAX_TURNS][MAX_TURN_PARTS];
    ey_message messages[MAX_TURNS];
    ey_request request; /* greedy, ignores stop tokens */
};
/* Starts an empty conversation. Do not move the struct afterwards. */
void question_start(struct question *q, int max_tokens);
void question_turn(struct question *q, const char *role);
/* Adds text to the last turn. */
void question_text(struct question *q, const char *text);
void question_part(struct question *q, ey_part part);
/* One user turn: n_images images of odd sizes, then the text. */
void question_simple(struct question *q, int n_images, const char *text, int max_tokens);

/* Runs the request; a failure fails the test. The caller frees the answer. */
ey_answer ask(ey_engine *engine, const struct question *q);

/* The result of a request for bitwise comparison: ids and the last logits. */
struct outcome {
    int ids[256], n, prompt_tokens, image_tokens, vocabulary;
    float *logits;
    char *text;
};
struct outcome outcome_of(ey_engine *engine, const struct question *q);
void outcome_free(struct outcome *o);
void assert_same_outcome(const struct outcome *a, const struct outcome *b, const char *what);

#endif
