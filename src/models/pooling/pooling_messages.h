/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation that an input becomes for a model that embeds or reranks, as Qwen's own code for
 * these models writes it. */
#ifndef EY_MODELS_POOLING_MESSAGES_H
#define EY_MODELS_POOLING_MESSAGES_H

#include "base/buf.h"
#include "eyelet/pooling.h"

enum { POOLING_MESSAGES = 2 }; /* of the system, of the user */

/* Writes messages whose texts and parts lie in `arena` or are the input's. */
bool pooling_messages(ey_message out[POOLING_MESSAGES], const ey_pooling_input *input, ey_task task,
                      struct arena *arena, ey_err *e);

#endif
