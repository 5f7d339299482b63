/* SPDX-License-Identifier: Apache-2.0 */
/* Architectures of GGUF files (general.architecture), and the mapping between tensor names of GGUF
 * files and those of the model's own repository. */
#ifndef EY_CHECKPOINT_GGUF_ARCH_H
#define EY_CHECKPOINT_GGUF_ARCH_H

#include "checkpoint/gguf/gguf.h"

struct gguf_arch {
    const char *name;                      /* general.architecture */
    const char *architecture, *model_type; /* as in config.json */
    const char *prefix; /* prefix of the text model's tensors in the repository */
    bool qkv_bias, head_norms;
    bool fused;       /* has attn_qkv, and ffn_up holds gate and up */
    bool paired_rows; /* rows of attn_q and attn_k are interleaved for rotary pairs */
    bool images;      /* takes images; the vision encoder is in a second file, mmproj, except in
                         Ollama's layout */
    bool nfc;         /* the tokenizer normalizes texts to NFC */
};

/* Looks up the file's architecture. Fails with NULL and an error that lists the supported ones. */
const struct gguf_arch *gguf_arch_of(const struct gguf *file, ey_err *e);

/* The same model without its vision encoder. */
const struct gguf_arch *gguf_text_arch(const struct gguf_arch *arch);

enum { GGUF_NAME_BYTES = 256 };
/* Converts a tensor name to the repository's. Returns false if a model of this architecture has no
 * such tensor. */
bool gguf_model_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
/* Like gguf_model_name(), for the vision encoder. deepstack[n]: the layers whose features are
 * tapped, ascending. */
bool gguf_vision_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack, int n);

/* Writes "model.visual.FOLDERpart.weight", or ".bias", for `rest`, the same with the file's part.
 * names[n]: the file's parts, each with the repository's. Returns false if it is none of them. */
bool gguf_vision_part(char out[GGUF_NAME_BYTES], const char *folder, const char *rest,
                      const char *const (*names)[2], size_t n);

/* Parses "PREFIX.N." and returns the rest. Returns NULL if the name is different. */
const char *gguf_after_number(const char *name, const char *prefix, int *number);

/* ---- from the repository's names ---- */

/* Looks up an architecture by config.json's model_type. Returns NULL if there is none. */
const struct gguf_arch *gguf_arch_of_model(const char *model_type);
/* Convert a repository's tensor name to the GGUF name, for the text model and the vision encoder.
 * Return false if there is none. */
bool gguf_file_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
bool gguf_vision_file_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack,
                           int n);

#endif
