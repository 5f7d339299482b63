/* SPDX-License-Identifier: Apache-2.0 */
/* Charges the memory of an answer to the budget of all requests (--host-memory). */
#ifndef EY_SERVER_API_CHARGE_H
#define EY_SERVER_API_CHARGE_H

#include "server/api/common/api_request.h"

/* Takes n more bytes from the budget. Waits a few seconds for them, or until the request's gone()
 * returns true. Fails with 503 if other requests hold them, and with 400 if the budget is too small
 * for them and the bytes that the request already holds. */
bool api_charge_take(struct api_charge *charge, uint64_t n, const ey_request *request,
                     struct api_error *error);
/* Releases all but `kept` bytes. */
void api_charge_keep(struct api_charge *charge, uint64_t kept);

/* Upper bound of a text's size as a JSON literal, in bytes. */
uint64_t api_json_text_bytes(const char *text, size_t n);

#endif
