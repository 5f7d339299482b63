/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and scores: models that embed texts and images, or say how well a document fits a query,
 * instead of answering.
 *
 *     ey_part part = ey_text_part("a red bicycle");
 *     ey_pooling_input input = EY_ZEROS;
 *     input.parts = &part;
 *     input.n_parts = 1;
 *     ey_request request = ey_request_defaults();
 *     request.pool = true;
 *     request.input = &input;
 *     ey_answer answer = EY_ZEROS;
 *     if (ey_ask(engine, &request, &answer, &err)) {
 *         ey_pooled pooled = ey_answer_pooled(&answer);
 *         use(pooled.vector, pooled.n_vector);
 *     }
 *     ey_answer_free(&answer);
 *
 * Requests of several threads, and generations that were started one after the other, run in one
 * batch, as answers do. */
#ifndef EYELET_POOLING_H
#define EYELET_POOLING_H

#include "eyelet/request.h"

EY_BEGIN_DECLS

/* What a model does: it answers, returns a vector for each input, or scores a document for a query.
 */
typedef enum { EY_TASK_GENERATE, EY_TASK_EMBED, EY_TASK_RERANK } ey_task;

EY_API ey_task ey_engine_task(const ey_engine *engine);
/* Returns the length of an uncut vector. */
EY_API int ey_engine_dimensions(const ey_engine *engine);

/* The least length to which a vector may be cut (request.dimensions). */
enum { EY_MIN_DIMENSIONS = 64 };

/* The input of a vector or a score. The model's own prompt is written around it, with images before
 * texts, whatever their order. Images are scaled to 4,096 to 1,843,200 pixels unless their part
 * says otherwise. */
struct ey_pooling_input {
    const char *instruction; /* [n_instruction] what the vector is for; NULL: the default */
    size_t n_instruction;
    const ey_part *parts; /* what is embedded or scored; may be empty */
    size_t n_parts;
    const ey_part *query; /* RERANK: what the parts are scored for */
    size_t n_query;
};

typedef struct {
    const float *vector; /* [n_vector] EMBED; lives as long as the answer */
    size_t n_vector;
    double score; /* RERANK: 0 to 1 */
} ey_pooled;

/* Returns the vector or the score of an answer to a request with `pool`. */
EY_API ey_pooled ey_answer_pooled(const ey_answer *answer);

EY_END_DECLS

#endif
