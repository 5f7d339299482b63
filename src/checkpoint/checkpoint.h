/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint: a directory or a GGUF file with its configuration, and one sorted table of the
 * tensors of all its files. Nothing here depends on the model. */
#ifndef EY_CHECKPOINT_H
#define EY_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct checkpoint;
/* Opens a GGUF file, one of Ollama's manifests, or a directory. In a directory it reads
 * model.safetensors, or else all tensors of all shards that model.safetensors.index.json names,
 * even tensors that the index assigns to another shard or does not list. An index that names a file
 * with '/' or ".." is an error; symbolic links are followed. */
bool checkpoint_open(struct checkpoint **ckpt, const char *directory, ey_err *e);
void checkpoint_close(struct checkpoint *ckpt);
/* The directory, or the path of the GGUF file or manifest. */
const char *checkpoint_directory(const struct checkpoint *ckpt);
/* Whether the tensors come from a GGUF file. The JSON files are then generated from its metadata.
 */
bool checkpoint_is_gguf(const struct checkpoint *ckpt);
/* Writes the path that error messages show for a JSON file to out[EY_MAX_PATH]: DIRECTORY/NAME, or
 * the GGUF file itself. */
bool checkpoint_json_path(char *out, const struct checkpoint *ckpt, const char *name, ey_err *e);
/* Returns the equivalent of tokenizer.json for a GGUF file, or NULL on failure. The caller releases
 * it with json_object_put(). */
json_object *checkpoint_tokenizer(const struct checkpoint *ckpt, ey_err *e);
size_t checkpoint_count(const struct checkpoint *ckpt);
const struct tensor_view *checkpoint_at(const struct checkpoint *ckpt, size_t i);
const struct tensor_view *checkpoint_find(const struct checkpoint *ckpt, const char *name);
/* Returns the total size of all tensors in bytes. */
uint64_t checkpoint_bytes(const struct checkpoint *ckpt);
/* The parsed config.json, owned by the checkpoint. */
const json_object *checkpoint_config(const struct checkpoint *ckpt);
/* Sets *out to another parsed JSON file (generation_config.json, preprocessor_config.json ...),
 * owned by the checkpoint, or to NULL if it is absent. Fails if the file is damaged. */
bool checkpoint_json(struct checkpoint *ckpt, const char *name, const json_object **out, ey_err *e);

#endif
