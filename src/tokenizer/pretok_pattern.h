/* SPDX-License-Identifier: Apache-2.0 */
/* Translates a checkpoint's pre-tokenization pattern from Oniguruma to PCRE2. */
#ifndef EY_TOKENIZER_PRETOK_PATTERN_H
#define EY_TOKENIZER_PRETOK_PATTERN_H

#include "base/buf.h"

/* Appends to `out` a PCRE2 pattern that matches the same texts as `pattern` in Oniguruma. Fails on
 * constructs with another meaning in PCRE2; no known tokenizer uses these. `what` names the file.
 */
bool pretok_pattern_translate(struct buf *out, const char *pattern, size_t n, const char *what,
                              ey_err *e);

#endif
