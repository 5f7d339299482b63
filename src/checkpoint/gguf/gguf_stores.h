/* SPDX-License-Identifier: Apache-2.0 */
/* Models that Ollama and LM Studio keep, read where they are. */
#ifndef EY_CHECKPOINT_GGUF_STORES_H
#define EY_CHECKPOINT_GGUF_STORES_H

#include "base/err.h"

/* Whether the path is a manifest in Ollama's store. */
bool ollama_is_manifest(const char *path);
/* The files that a manifest names, in EY_MAX_PATH bytes each; projector[0] is 0 where there is
 * none. False with a message. */
bool ollama_read_manifest(const char *path, char *model, char *projector, ey_err *e);
/* The manifest of "qwen3-vl:4b", "hf.co/OWNER/REPO:TAG" or any other name that Ollama takes; false:
 * its store has no such model. */
bool ollama_find(char *out, const char *name);
/* The file of "publisher/model", of this tag (NULL: the usual one), in LM Studio's folder; false:
 * there is none. */
bool lmstudio_find(char *out, const char *name, const char *tag);

/* Calls `fn` for each model of both: its name, as --model takes it, and its manifest or file. */
typedef bool gguf_store_fn(void *user, const char *name, const char *path);
bool gguf_stores_each(gguf_store_fn *fn, void *user);

#endif
