/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-3's chat format (spec 7.3, the revision of July 2024). */
#ifndef EY_PHI3_H
#define EY_PHI3_H

#include "eyelet/request.h"
#include "models/chat/prompt_pieces.h"

/* Like chatml_prompt(). */
bool phi3_prompt(struct prompt *out, const ey_request *request, ey_err *e);

#endif
