/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a vector or a score instead of an answer. */
#ifndef EY_ENGINE_POOLED_H
#define EY_ENGINE_POOLED_H

#include "engine/request/prompt.h"
#include "eyelet/pooling.h"

/* In an answer's memory. */
struct pooled_answer {
    float *vector; /* [hidden], of which n are the result */
    size_t n;
    double score;
    bool scores; /* rather than the vector */
    bool raw;    /* its length stays what it is */
    bool done;
};

/* Whether the model can do what a prompt is for. */
bool pooled_check_task(const ey_request *request, ey_task task, ey_err *e);
/* Whether a prompt of this sort may be answered by the model. */
bool pooled_check_answer(bool pools, ey_task task, ey_err *e);
/* Makes room for the result in the answer's memory, which there is. */
bool pooled_open(struct pooled_answer **out, ey_answer *answer, const ey_request *request,
                 const struct model *model, ey_err *e);
/* Cuts the end of the last text off, so that the closing turns stay, if the request allows it; else
 * a prompt that is too long fails. Before positions are made. */
bool pooled_fit_prompt(ey_prompt *p, const ey_engine *engine, const ey_request *request, ey_err *e);

#endif
