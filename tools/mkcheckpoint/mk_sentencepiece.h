/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer of Llama-2 and Phi-3 kinds: SentencePiece's BPE in the form of tokenizer.json
 * (spec 6.2). */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_SENTENCEPIECE_H
#define EY_TOOLS_MKCHECKPOINT_MK_SENTENCEPIECE_H

#include "base/json.h"
#include "mk_kinds.h"
#include "mk_output.h"

/* Returns the path of the real tokenizer.json if the kind has its vocabulary and the file exists,
 * else NULL. */
const char *sentencepiece_real(const struct kind *k);
/* Fails unless a given tokenizer has the ids that config.json will name. `file` is for messages. */
bool sentencepiece_check(const json_object *tokenizer, const struct kind *k, const char *file,
                         ey_err *e);
/* Writes tokenizer.json with a made-up vocabulary: three special tokens, 256 bytes, printable
 * ASCII, and merged tokens of printable ASCII. */
bool sentencepiece_write(struct mk_output *o, const struct kind *k, ey_err *e);
bool sentencepiece_write_config(struct mk_output *o, const struct kind *k, ey_err *e);

#endif
