/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a request as the JSON of POST /v1/chat/completions. */
#ifndef EY_CLIENT_REQUEST_JSON_H
#define EY_CLIENT_REQUEST_JSON_H

#include "base/buf.h"
#include "client/remote.h"

/* Settings that are sent with the request. */
struct request_settings {
    const char *model;
    int max_tokens;                  /* in place of request->max_tokens */
    const ey_loop_guard *loop_guard; /* NULL keeps the server's default */
};

/* Appends the JSON, which requests a streamed answer with usage. `format` may be NULL. Fails if the
 * JSON exceeds the limit of `out`. */
bool request_json(struct buf *out, const ey_request *request,
                  const struct remote_response_format *format,
                  const struct request_settings *settings, ey_err *e);

/* Returns the media type of an image, by its first bytes. */
const char *request_media_type(const ey_part *part);

#endif
