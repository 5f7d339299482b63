/* SPDX-License-Identifier: Apache-2.0 */
/* Writes config.json, tokenizer.json and similar files as GGUF metadata. Private to src/convert. */
#ifndef EY_GGUF_METADATA_H
#define EY_GGUF_METADATA_H

#include "checkpoint/gguf/gguf_arch.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "convert/convert_model.h"

/* Writes the text model's keys: hyperparameters, sampling, chat template. `file_type`:
 * general.file_type. */
bool gguf_put_model(struct gguf_writer *w, const struct convert_source *source,
                    const struct gguf_arch *arch, uint32_t file_type, ey_err *e);
/* Writes the keys of the vision encoder's file. */
bool gguf_put_vision(struct gguf_writer *w, const struct convert_source *source, ey_err *e);
/* Writes the tokens with their merges or scores. Fails if GGUF cannot represent the tokenizer. */
bool gguf_put_tokenizer(struct gguf_writer *w, const struct convert_source *source,
                        const json_object *tokenizer, ey_err *e);
/* Fails, naming the difference, unless two tokenizers (`was` and `is`, as in tokenizer.json) encode
 * and decode all texts alike. `path`: the checkpoint, for the error. */
bool tokenizers_agree(const json_object *was, const json_object *is, const char *path, ey_err *e);

#endif
