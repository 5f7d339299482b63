/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint answers, embeds or reranks. */
#ifndef EY_MODELS_POOLING_TASK_H
#define EY_MODELS_POOLING_TASK_H

#include "checkpoint/checkpoint.h"
#include "eyelet/pooling.h"

/* `wanted`: "generate", "embed" or "rerank", which a family must be able to (`pools`); NULL or
 * "auto": by the files of Sentence Transformers, else by the name of folder or repository. A
 * pooling that is not the last token's is an error. */
bool pooling_task_find(ey_task *out, struct checkpoint *ckpt, const char *wanted, bool pools,
                       ey_err *e);

#endif
