/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that answering a request takes, out of the budget of all requests (--host-memory). */
#ifndef EY_SERVER_API_CHARGE_H
#define EY_SERVER_API_CHARGE_H

#include "server/api/common/api_request.h"

/* Takes n more bytes: waits for them a few seconds, or until the request's gone() says true. False
 * with *error: 503 where others hold them, 400 where they are more than there is beside what the
 * request holds. */
bool api_charge_take(struct api_charge *charge, uint64_t n, const ey_request *request,
                     struct api_error *error);
/* Gives back all but so many. */
void api_charge_keep(struct api_charge *charge, uint64_t kept);

/* Bytes of a text as a JSON literal, at most. */
uint64_t api_json_text_bytes(const char *text, size_t n);

#endif
