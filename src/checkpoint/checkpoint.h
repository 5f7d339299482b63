/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint directory, or a GGUF file: its configuration, and one sorted table of the tensors of
 * all of its files. Knows no model: only names, dtypes, shapes and bytes. */
#ifndef EY_CHECKPOINT_H
#define EY_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct checkpoint;
/* Opens model.safetensors, else the shards that model.safetensors.index.json names, with every
 * tensor that is in them, wherever the index puts it. Names in the index with '/' or ".." are
 * errors; symbolic links are followed. */
bool checkpoint_open(struct checkpoint **ckpt, const char *directory, ey_err *e);
void checkpoint_close(struct checkpoint *ckpt);
/* Of a GGUF file: its path. */
const char *checkpoint_directory(const struct checkpoint *ckpt);
/* Whether it is a GGUF file, whose JSON files are made of its metadata. */
bool checkpoint_is_gguf(const struct checkpoint *ckpt);
/* What a message calls a JSON file of it: DIRECTORY/NAME, or the GGUF file's path. */
bool checkpoint_json_path(char *out, const struct checkpoint *ckpt, const char *name, ey_err *e);
/* Of a GGUF file what tokenizer.json would say; the caller puts it. NULL with a message. */
json_object *checkpoint_tokenizer(const struct checkpoint *ckpt, ey_err *e);
size_t checkpoint_count(const struct checkpoint *ckpt);
const struct tensor_view *checkpoint_at(const struct checkpoint *ckpt, size_t i);
const struct tensor_view *checkpoint_find(const struct checkpoint *ckpt, const char *name);
/* Bytes of all tensors. */
uint64_t checkpoint_bytes(const struct checkpoint *ckpt);
/* config.json, parsed; borrowed from the checkpoint. */
const json_object *checkpoint_config(const struct checkpoint *ckpt);
/* generation_config.json, preprocessor_config.json …: borrowed, NULL when the file is absent; a
 * damaged one is an error, which returns false. */
bool checkpoint_json(struct checkpoint *ckpt, const char *name, const json_object **out, ey_err *e);

#endif
