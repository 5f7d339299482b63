/* A request as the JSON of POST /v1/chat/completions. */
#ifndef EY_CLIENT_REQUEST_JSON_H
#define EY_CLIENT_REQUEST_JSON_H

#include "base/buf.h"

/* Appends it; the answer is to be streamed, with its usage. max_tokens stands in for the request's. */
bool request_json(struct buf *out, const ey_request *request, const char *model, int max_tokens, ey_err *e);

#endif
