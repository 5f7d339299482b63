/* SPDX-License-Identifier: Apache-2.0 */
/* POST /eyelet/preview: JPEG previews of images and documents that a browser cannot show. */
#ifndef EY_SERVER_PREVIEW_ROUTE_H
#define EY_SERVER_PREVIEW_ROUTE_H

#include "server/server_context.h"

/* Takes {"url": "data:…" or an address that the media rules allow}, replies with a JPEG of at most
 * 1,600 pixels a side. The header Image-Size is the original's "WIDTHxHEIGHT". For a PDF or a TIFF
 * of several pages, "page" selects one, and the header Document-Pages tells their number. */
route_fn route_preview;

#endif
