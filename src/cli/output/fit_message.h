/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says in a line. */
#ifndef EY_CLI_VERDICT_H
#define EY_CLI_VERDICT_H

#include "base/buf.h"
#include "eyelet/plan.h"

/* "fits; may be used: …", or by how much it does not; and whether the weights have room too, where
 * they are read from files. */
void add_fit_message(struct buf *out, const ey_plan *plan);

#endif
