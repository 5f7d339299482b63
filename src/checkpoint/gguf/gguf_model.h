/* SPDX-License-Identifier: Apache-2.0 */
/* A model of GGUF files (one, the parts of a split one, and a vision encoder beside it) as its own
 * safetensors repository would be: tensors under the names that families use, and what its JSON
 * files would say. */
#ifndef EY_CHECKPOINT_GGUF_MODEL_H
#define EY_CHECKPOINT_GGUF_MODEL_H

#include "base/json.h"
#include "checkpoint/gguf/gguf.h"

struct gguf_model;
/* `path`: of the file, of any part of a split one. `mmproj`: the vision encoder's file; NULL: the
 * one beside it, if it has any. */
bool gguf_model_open(struct gguf_model **model, const char *path, const char *mmproj, ey_err *e);
/* Takes the one file, also after an error (tests, fuzzing). */
bool gguf_model_of(struct gguf_model **model, struct gguf *file, ey_err *e);
void gguf_model_close(struct gguf_model *model);

size_t gguf_model_n_tensors(const struct gguf_model *model);
const struct tensor_view *gguf_model_tensor_at(const struct gguf_model *model, size_t i);
/* What config.json, generation_config.json or tokenizer_config.json would say; NULL: there would be
 * no such file. Borrowed. */
json_object *gguf_model_json(const struct gguf_model *model, const char *name);
/* What tokenizer.ggml.pre says of a tokenizer.json that cuts texts in one of the ways that it has
 * names for; NULL: it does not. Of byte-level ones. */
const char *gguf_pre_of(const json_object *tokenizer);
/* What tokenizer.json would say; the caller puts it. NULL with a message. */
json_object *gguf_model_tokenizer(const struct gguf_model *model, ey_err *e);

#endif
