/* SPDX-License-Identifier: Apache-2.0 */
/* config.json, tokenizer.json and their like as a GGUF file's metadata. Private to src/convert. */
#ifndef EY_GGUF_METADATA_H
#define EY_GGUF_METADATA_H

#include "checkpoint/gguf/gguf_arch.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "convert/convert_model.h"

/* Keys of the text model: numbers, sampling, template. `file_type`: general.file_type. */
bool gguf_put_model(struct gguf_writer *w, const struct convert_source *source,
                    const struct gguf_arch *arch, uint32_t file_type, ey_err *e);
/* Keys of the vision encoder's file. */
bool gguf_put_vision(struct gguf_writer *w, const struct convert_source *source, ey_err *e);
/* Tokens, merges or scores. A tokenizer that GGUF cannot say is an error. */
bool gguf_put_tokenizer(struct gguf_writer *w, const struct convert_source *source,
                        const json_object *tokenizer, ey_err *e);
/* Whether two say the same, as far as texts are cut and joined by it. False: *e says what differs.
 */
bool tokenizers_agree(const json_object *was, const json_object *is, const char *path, ey_err *e);

#endif
