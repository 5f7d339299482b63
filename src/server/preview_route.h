/* SPDX-License-Identifier: Apache-2.0 */
/* POST /eyelet/preview: the page's way to show what a browser cannot. */
#ifndef EY_SERVER_PREVIEW_ROUTE_H
#define EY_SERVER_PREVIEW_ROUTE_H

#include "server/server_context.h"

/* {"url": "data:…" or an address that the media rules allow} → a JPEG of at most 1,600 pixels a
 * side. The header Image-Size has the original's "WIDTHxHEIGHT". */
route_fn route_preview;

#endif
