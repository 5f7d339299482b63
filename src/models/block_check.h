/* SPDX-License-Identifier: Apache-2.0 */
/* Checks once that all scales inside a model's GGUF blocks are finite, so that no answer is
 * computed from a damaged file. The check reads all of these weights, so it runs while the rest of
 * the start goes on. */
#ifndef EY_MODELS_BLOCK_CHECK_H
#define EY_MODELS_BLOCK_CHECK_H

#include "models/model.h"

struct block_check;

/* Lists the matrices of GGUF blocks and starts to check them on at most `threads` threads. The
 * mapped weights must outlive the check; the model may change. */
bool block_check_start(struct block_check **check, const struct model *model, int threads,
                       ey_err *e);
/* Checks the remaining rows together with the other threads and waits for them. Fails, naming the
 * first damaged layer, if a scale is not finite. */
bool block_check_finish(struct block_check *check, ey_err *e);
/* Stops the threads and frees the check, finished or not. NULL is allowed. */
void block_check_close(struct block_check **check);

#endif
