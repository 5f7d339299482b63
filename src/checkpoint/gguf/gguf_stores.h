/* SPDX-License-Identifier: Apache-2.0 */
/* Finds models in the stores of Ollama and LM Studio, where they are read in place. */
#ifndef EY_CHECKPOINT_GGUF_STORES_H
#define EY_CHECKPOINT_GGUF_STORES_H

#include "base/err.h"

/* Returns whether the path is a manifest in Ollama's store. */
bool ollama_is_manifest(const char *path);
/* Writes the paths of the model and of its vision encoder to model[EY_MAX_PATH] and
 * projector[EY_MAX_PATH]. The latter is "" if the manifest has none. */
bool ollama_read_manifest(const char *path, char *model, char *projector, ey_err *e);
/* Writes the manifest's path for "qwen3-vl:4b", "hf.co/OWNER/REPO:TAG" or any other name that
 * Ollama accepts. Returns false if the store has no such model. */
bool ollama_find(char *out, const char *name);
/* Writes the path of the file that LM Studio has for "publisher/model" and a tag. Without a tag
 * (NULL), prefers Q4_K_M, then Q8_0, then the first file. Returns false if there is none. */
bool lmstudio_find(char *out, const char *name, const char *tag);

/* Calls `fn` for each model of both stores, with its name for --model and the path of its manifest
 * or file. Stops and returns false when `fn` returns false. */
typedef bool gguf_store_fn(void *user, const char *name, const char *path);
bool gguf_stores_each(gguf_store_fn *fn, void *user);

#endif
