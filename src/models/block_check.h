/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the scales inside quantized blocks of GGUF files once, before a model answers. */
#ifndef EY_MODELS_BLOCK_CHECK_H
#define EY_MODELS_BLOCK_CHECK_H

#include "models/model.h"

/* Fails, naming the matrix, if a scale is not finite. Reads a part of every page of these weights,
 * as the first token does too. */
bool model_check_blocks(struct model *model, struct pool *pool, ey_err *e);

#endif
