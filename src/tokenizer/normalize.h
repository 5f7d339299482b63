/* SPDX-License-Identifier: Apache-2.0 */
/* Text normalization: UTF-8 repair, NFC and SentencePiece's spaces. */
#ifndef EY_TOKENIZER_NORMALIZE_H
#define EY_TOKENIZER_NORMALIZE_H

#include "base/buf.h"

/* Appends `text` with each maximal subpart of ill-formed bytes replaced by U+FFFD. */
bool text_repair(struct buf *out, const char *text, size_t n);
/* Appends the NFC form of well-formed `text` in linear time, for any number of combining marks. */
bool text_nfc(struct buf *out, const char *text, size_t n);
/* Quick check: true if `text` is in NFC, false if it may not be. */
bool text_nfc_quick_check(const char *text, size_t n);
/* Appends a space and `text` with U+2581 replaced by spaces, as SentencePiece's add_dummy_prefix
 * does. Appends nothing for an empty text. */
bool text_add_dummy_prefix(struct buf *out, const char *text, size_t n);

#endif
