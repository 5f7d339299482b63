/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the conversation for an input to embed or rerank, as Qwen's code for these models does. */
#ifndef EY_MODELS_POOLING_MESSAGES_H
#define EY_MODELS_POOLING_MESSAGES_H

#include "base/buf.h"
#include "eyelet/pooling.h"

enum { POOLING_MESSAGES = 2 }; /* the system's and the user's */

/* Fills out[]; texts and parts lie in `arena` or belong to the input. */
bool pooling_messages(ey_message out[POOLING_MESSAGES], const ey_pooling_input *input, ey_task task,
                      struct arena *arena, ey_err *e);

#endif
