/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a checkpoint's task: to generate, embed or rerank. */
#ifndef EY_MODELS_POOLING_TASK_H
#define EY_MODELS_POOLING_TASK_H

#include "checkpoint/checkpoint.h"
#include "eyelet/pooling.h"

/* `wanted`: "generate", "embed" or "rerank"; the last two need a family that pools (`pools`). If it
 * is NULL or "auto": rerank if the name of the folder or repository says so, else embed if the name
 * or files of Sentence Transformers say so. Any pooling but the last token's is an error. */
bool pooling_task_find(ey_task *out, struct checkpoint *ckpt, const char *wanted, bool pools,
                       ey_err *e);

#endif
