/* SPDX-License-Identifier: Apache-2.0 */
/* Plan items as JSON, shared by `eyelet plan --json` and the server's /eyelet/plan. */
#ifndef EY_SERVER_PLAN_JSON_H
#define EY_SERVER_PLAN_JSON_H

#include "base/text/json_writer.h"
#include "eyelet/plan.h"

/* {"name", "device", "bytes", "life"} */
void write_plan_item(struct json_writer *w, const ey_plan_item *item);

#endif
