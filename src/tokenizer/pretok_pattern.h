/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's pre-tokenisation pattern, written for Oniguruma, as PCRE2 must read it. */
#ifndef EY_TOKENIZER_PRETOK_PATTERN_H
#define EY_TOKENIZER_PRETOK_PATTERN_H

#include "base/buf.h"

/* Appends to `out` the PCRE2 pattern that matches what Oniguruma matches by `pattern`. Constructs
 * that the two read differently and that no known tokenizer needs are errors; `what` names the
 * file. */
bool pretok_pattern_translate(struct buf *out, const char *pattern, size_t n, const char *what,
                              ey_err *e);

#endif
