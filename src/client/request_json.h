/* SPDX-License-Identifier: Apache-2.0 */
/* A request as the JSON of POST /v1/chat/completions. */
#ifndef EY_CLIENT_REQUEST_JSON_H
#define EY_CLIENT_REQUEST_JSON_H

#include "base/buf.h"
#include "client/remote.h"

/* Appends it; the answer is to be streamed, with its usage. max_tokens stands in for the request's;
 * `form` may be NULL. */
bool request_json(struct buf *out, const ey_request *request,
                  const struct remote_response_format *format, const char *model, int max_tokens,
                  ey_err *e);

#endif
