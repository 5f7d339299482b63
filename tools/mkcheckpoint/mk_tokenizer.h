/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json and tokenizer_config.json: a given file's copy, or a made-up vocabulary of the
 * right size. */
#ifndef MK_TOKENIZER_H
#define MK_TOKENIZER_H

#include "mk_kinds.h"
#include "mk_output.h"

/* `file` NULL: the real tokenizer where it lies next to the tree and the kind has its vocabulary,
 * else a made-up one. */
bool tokenizer_write(struct mk_output *o, const struct kind *k, const char *file, ey_err *e);

#endif
