/* SPDX-License-Identifier: Apache-2.0 */
/* Text as the tokenizer wants to see it: well-formed UTF-8, and as the normalizer of its file makes
 * it. */
#ifndef EY_TOKENIZER_NORMALIZE_H
#define EY_TOKENIZER_NORMALIZE_H

#include "base/buf.h"

/* Appends `text` with U+FFFD for each maximal ill-formed subpart. */
bool text_repair(struct buf *out, const char *text, size_t n);
/* Appends the NFC form of well-formed `text`; linear also for endless combining marks. */
bool text_nfc(struct buf *out, const char *text, size_t n);
/* True when it is plain to see that `text` is its own NFC form; false: it may be or not. */
bool text_nfc_quick_check(const char *text, size_t n);
/* Appends a blank and `text` with each U+2581 as a blank; nothing where there is no text. */
bool text_add_dummy_prefix(struct buf *out, const char *text, size_t n);

#endif
