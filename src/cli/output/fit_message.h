/* SPDX-License-Identifier: Apache-2.0 */
/* A memory plan in one line. */
#ifndef EY_CLI_VERDICT_H
#define EY_CLI_VERDICT_H

#include "base/buf.h"
#include "eyelet/plan.h"

/* Appends "fits; may be used: …", or by how much the plan does not fit. If weights are read from
 * files, also says whether host memory can hold them. */
void add_fit_message(struct buf *out, const ey_plan *plan);

#endif
