/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot's links to blobs, and the reference to it. */
#ifndef EY_HUB_SNAPSHOT_H
#define EY_HUB_SNAPSHOT_H

#include "hub/hub.h"

/* Writes the links, then the reference, so that refs/REVISION always leads to a complete snapshot.
 * All blobs must be complete. */
bool snapshot_write(const struct hub_model *model, ey_err *e);

#endif
