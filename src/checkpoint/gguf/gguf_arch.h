/* SPDX-License-Identifier: Apache-2.0 */
/* The supported architectures of GGUF files (general.architecture), and the mapping between the
 * tensor names of GGUF files and those of the model's Hugging Face repository. */
#ifndef EY_CHECKPOINT_GGUF_ARCH_H
#define EY_CHECKPOINT_GGUF_ARCH_H

#include "checkpoint/gguf/gguf.h"

struct gguf_arch {
    const char *name;                      /* general.architecture */
    const char *architecture, *model_type; /* as in config.json */
    const char *prefix;                    /* of the text model's tensors in the repository */
    bool qkv_bias;
    bool head_norms;  /* has a norm for the query heads and one for the key heads */
    bool fused;       /* one tensor holds query, key and value, another gate and up */
    bool paired_rows; /* rows of attn_q and attn_k are interleaved for rotary pairs */
    bool images;      /* accepts images; the vision encoder is in a second file (mmproj), except in
                         Ollama's layout */
    bool nfc;         /* the tokenizer normalizes text to NFC */
};

/* Looks up the file's architecture. Fails with NULL and an error that lists the supported ones. */
const struct gguf_arch *gguf_arch_of(const struct gguf *file, ey_err *e);

/* Returns the architecture of the same model without its vision encoder. */
const struct gguf_arch *gguf_text_arch(const struct gguf_arch *arch);

enum { GGUF_NAME_BYTES = 256 };
/* Converts the name of a text model's tensor to that in the repository. Returns false if the
 * architecture has no such tensor. */
bool gguf_model_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
/* Like gguf_model_name(), for the vision encoder. deepstack[n]: the numbers of the DeepStack
 * layers, ascending. */
bool gguf_vision_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack, int n);

/* Converts the name of a part: with folder "blocks.3." and {"ln1", "norm1"} in names[n], `rest`
 * "ln1.weight" becomes "model.visual.blocks.3.norm1.weight". Returns false if `names` lacks the
 * part or `rest` ends with neither ".weight" nor ".bias". */
bool gguf_vision_part(char out[GGUF_NAME_BYTES], const char *folder, const char *rest,
                      const char *const (*names)[2], size_t n);

/* Parses a layer number: for the prefix "blk." and the name "blk.7.attn_q.weight", sets *number to
 * 7 and returns "attn_q.weight". Returns NULL if the name does not begin like that. */
const char *gguf_after_number(const char *name, const char *prefix, int *number);

/* ---- from the repository's names ---- */

/* Looks up an architecture by config.json's model_type. Returns NULL if there is none. */
const struct gguf_arch *gguf_arch_of_model(const char *model_type);
/* Convert a repository's tensor name to the GGUF name, for the text model and for the vision
 * encoder. Return false if GGUF has no name for it. */
bool gguf_file_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
bool gguf_vision_file_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack,
                           int n);

#endif
