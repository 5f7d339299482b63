/* SPDX-License-Identifier: Apache-2.0 */
/* Error values: a code and a sentence for a person, on the caller's stack. */
#ifndef EY_BASE_ERR_H
#define EY_BASE_ERR_H

#include "eyelet/error.h"

/* Fills *e (which may be NULL) and returns false, so that a checked path is one line:
 *     if (n > limit) return ey_fail(e, EY_BAD_MODEL, "%s: %zu is more than %zu", path, n, limit);
 * Bytes of `fmt`'s result that are not UTF-8 or are control characters are shown as \xNN. */
bool ey_fail(ey_err *e, ey_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ey_fail for memory that could not be had; `what` names it. */
bool ey_fail_memory(ey_err *e, const char *what, size_t bytes);

/* Puts "prefix: " before the message already in *e, which stays about the same item; returns false.
 */
bool ey_fail_within(ey_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Says which item the error already in *e is about; returns false. `name`: what its message begins
 * with, before ": "; NULL: the message does not name it. */
bool ey_fail_item(ey_err *e, ey_item_kind kind, size_t item, const char *name);

#endif
