/* SPDX-License-Identifier: Apache-2.0 */
/* A model in GGUF files: one file or the parts of a split one, and perhaps a vision encoder. It
 * looks like the model's safetensors repository: tensors have the repository's names, and its JSON
 * files are made from metadata. */
#ifndef EY_CHECKPOINT_GGUF_MODEL_H
#define EY_CHECKPOINT_GGUF_MODEL_H

#include "base/json.h"
#include "checkpoint/gguf/gguf.h"

struct gguf_model;
/* Opens the model at `path`, which may be any part of a split one. `mmproj` is the vision encoder's
 * file; NULL looks for one in the same folder. */
bool gguf_model_open(struct gguf_model **model, const char *path, const char *mmproj, ey_err *e);
/* Makes a model of one open file (for tests and fuzzing). Takes ownership of the file, even if it
 * fails. */
bool gguf_model_of(struct gguf_model **model, struct gguf *file, ey_err *e);
void gguf_model_close(struct gguf_model *model);

size_t gguf_model_n_tensors(const struct gguf_model *model);
const struct tensor_view *gguf_model_tensor_at(const struct gguf_model *model, size_t i);
/* Returns the equivalent of config.json, generation_config.json, preprocessor_config.json or
 * tokenizer_config.json, owned by the model, or NULL if the repository would have no such file. */
json_object *gguf_model_json(const struct gguf_model *model, const char *name);
/* Returns the value of tokenizer.ggml.pre for the pre-tokenizer of a byte-level tokenizer.json, or
 * NULL if GGUF has no name for it. */
const char *gguf_pre_of(const json_object *tokenizer);
/* Makes the equivalent of tokenizer.json, which the caller releases with json_object_put(). Fails
 * with NULL. */
json_object *gguf_model_tokenizer(const struct gguf_model *model, ey_err *e);

#endif
