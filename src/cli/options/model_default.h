/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the model that a command uses. */
#ifndef EY_CLI_MODEL_DEFAULT_H
#define EY_CLI_MODEL_DEFAULT_H

#include "base/err.h"

/* Writes the name or path of the model to out[EY_MAX_PATH]: `asked` itself, the repository that a
 * short name stands for, or the bundled model for "demo". If `asked` is NULL, it is the largest
 * Qwen3-VL in the Hugging Face cache, or else the demo model, with a note on standard error unless
 * `quiet`. */
bool model_choose(char *out, const char *asked, bool quiet, ey_err *e);

/* Chooses an embedding model in the same way, but there is no demo model to fall back on. */
bool model_choose_embedding(char *out, const char *asked, bool quiet, ey_err *e);

/* Writes to `out` the repository that a short name (qwen3-vl:2b) stands for. If it stands for
 * several, this is the first that is in the cache, or else the first of all. Other names, and a
 * short name that only Ollama has, are copied unchanged. */
bool model_name_expand(char *out, const char *asked, ey_err *e);

#endif
