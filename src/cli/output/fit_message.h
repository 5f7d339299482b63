/* SPDX-License-Identifier: Apache-2.0 */
/* Says in one line whether a memory plan fits. */
#ifndef EY_CLI_OUTPUT_FIT_MESSAGE_H
#define EY_CLI_OUTPUT_FIT_MESSAGE_H

#include "base/buf.h"
#include "eyelet/plan.h"

/* Appends "fits; usable memory: …", or by how much the plan exceeds it. Adds a line if a plan for
 * the CPU fits but leaves too little memory for all weights. */
void add_fit_message(struct buf *out, const ey_plan *plan);

#endif
