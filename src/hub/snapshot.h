/* SPDX-License-Identifier: Apache-2.0 */
/* The names under which blobs are found: a snapshot's links, and the reference to it. */
#ifndef EY_HUB_SNAPSHOT_H
#define EY_HUB_SNAPSHOT_H

#include "hub/hub.h"

/* All blobs are there. Links first, the reference last: what refs/REVISION leads to is whole at any
 * moment. */
bool snapshot_write(const struct hub_model *model, ey_err *e);

#endif
