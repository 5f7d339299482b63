/* SPDX-License-Identifier: Apache-2.0 */
/* Error values: a code and a message for a person, on the caller's stack. */
#ifndef EY_BASE_ERR_H
#define EY_BASE_ERR_H

#include "eyelet/error.h"

/* Fills *e (may be NULL) and returns false, so that a check is one line:
 *     if (n > limit) return ey_fail(e, EY_BAD_MODEL, "%s: %zu is more than %zu", path, n, limit);
 * Control characters and malformed UTF-8 in the result are shown as \xNN. */
bool ey_fail(ey_err *e, ey_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Copies another error to *e (may be NULL). Returns false. */
bool ey_fail_as(ey_err *e, const ey_err *why);

/* Reports a failed allocation of `bytes` (0: unknown) for `what`. Returns false. */
bool ey_fail_memory(ey_err *e, const char *what, size_t bytes);

/* Prefixes the message in *e with "PREFIX: " and keeps its item. Returns false. */
bool ey_fail_within(ey_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Records which item of the request the error in *e is about. Returns false. `name` is what the
 * message begins with, before ": ", or NULL if the message does not name the item. */
bool ey_fail_item(ey_err *e, ey_item_kind kind, size_t item, const char *name);

#endif
