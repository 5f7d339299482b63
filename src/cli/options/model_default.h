/* SPDX-License-Identifier: Apache-2.0 */
/* Which model a command uses. */
#ifndef EY_CLI_MODEL_DEFAULT_H
#define EY_CLI_MODEL_DEFAULT_H

#include "base/err.h"

/* Writes to out[EY_MAX_PATH] what to open: `asked` as it is or as a
 * short name means it, the bundled demo for "demo"; when
 * nothing is asked, the largest Qwen3-VL of the Hugging Face cache, else the demo with a remark on
 * standard error unless `quiet`. */
bool model_choose(char *out, const char *asked, bool quiet, ey_err *e);

/* The same for a model that embeds; there is no demo of one. */
bool model_choose_embedding(char *out, const char *asked, bool quiet, ey_err *e);

/* The repository that a short name (qwen3-vl:2b) means: the first of them that is in the cache,
 * else the first. Anything else stays as it is. */
bool model_name_expand(char *out, const char *asked, ey_err *e);

#endif
