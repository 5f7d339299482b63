/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a vector or a score instead of a text. */
#ifndef EY_ENGINE_POOLED_H
#define EY_ENGINE_POOLED_H

#include "engine/request/prompt.h"
#include "eyelet/pooling.h"

/* The result of such a request, stored in the answer's memory. */
struct pooled_answer {
    float *vector; /* [hidden], the first n are the result */
    size_t n;
    double score;
    bool scores; /* the result is a score, not the vector */
    bool raw;    /* the vector is not normalized */
    bool done;
};

/* Checks that a model of this task can do what the request wants. */
bool pooled_check_task(const ey_request *request, ey_task task, ey_err *e);
/* Checks that a prompt for pooling (`pools`) or generation suits the model's task. */
bool pooled_check_answer(bool pools, ey_task task, ey_err *e);
/* Allocates the result in the answer's arena, which must exist. */
bool pooled_open(struct pooled_answer **out, ey_answer *answer, const ey_request *request,
                 const struct model *model, ey_err *e);
/* Truncates a prompt that is too long if the request allows it, and fails otherwise. Cuts the end
 * of the last text, so that the closing turns stay. Called before positions are computed. */
bool pooled_fit_prompt(ey_prompt *p, const ey_engine *engine, const ey_request *request, ey_err *e);

#endif
