/* SPDX-License-Identifier: Apache-2.0 */
/* Scales within blocks of GGUF files: looked at once, before a model answers. */
#ifndef EY_MODELS_BLOCK_CHECK_H
#define EY_MODELS_BLOCK_CHECK_H

#include "models/model.h"

/* False with a message that names the matrix: a scale is no number. Reads a part of every page of
 * these weights, which the first token does as well. */
bool model_check_blocks(struct model *model, struct pool *pool, ey_err *e);

#endif
