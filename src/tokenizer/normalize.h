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
/* A quick check: true if `text` surely is in NFC, false if it may not be. */
bool text_nfc_quick_check(const char *text, size_t n);
/* Appends a space and `text` with each U+2581 as a space, as SentencePiece's add_dummy_prefix does.
 * Appends nothing for an empty text. */
bool text_add_dummy_prefix(struct buf *out, const char *text, size_t n);

#endif
