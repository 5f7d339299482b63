/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tokenizer.json and tokenizer_config.json: a copy of a given file, or a made-up vocabulary
 * of the right size. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_TOKENIZER_H
#define EY_TOOLS_MKCHECKPOINT_MK_TOKENIZER_H

#include "mk_kinds.h"
#include "mk_output.h"

/* `file`: the tokenizer.json to copy. NULL: the real one if the kind has its vocabulary and the
 * file exists next to the source tree, else a made-up one. */
bool tokenizer_write(struct mk_output *o, const struct kind *k, const char *file, ey_err *e);

#endif
