/* SPDX-License-Identifier: Apache-2.0 */
/* What a general.architecture of GGUF files stands for, and how its tensors are called in the
 * model's own files. */
#ifndef EY_CHECKPOINT_GGUF_ARCH_H
#define EY_CHECKPOINT_GGUF_ARCH_H

#include "checkpoint/gguf/gguf.h"

struct gguf_arch {
    const char *name;                      /* general.architecture */
    const char *architecture, *model_type; /* config.json's */
    const char *prefix;                    /* of the text model's tensors */
    bool qkv_bias, head_norms;
    bool fused;       /* attn_qkv, and ffn_up has gate and up */
    bool paired_rows; /* rows of attn_q and attn_k lie in pairs */
    bool images;      /* its vision encoder is in a second file, mmproj */
    bool nfc;         /* texts are composed before they are cut */
};

/* NULL with a message that lists those known. */
const struct gguf_arch *gguf_arch_of(const struct gguf *file, ey_err *e);

/* The same model without its vision encoder. */
const struct gguf_arch *gguf_text_arch(const struct gguf_arch *arch);

enum { GGUF_NAME_BYTES = 256 };
/* The name of a tensor in the model's own files; false: a model of this architecture has no such
 * tensor. */
bool gguf_model_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
/* The same of a vision encoder's tensor; `deepstack`: layers whose features are tapped, ascending,
 * n of them. */
bool gguf_vision_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack, int n);

/* ---- the other way ---- */

/* By the model_type of config.json; NULL: it has none. */
const struct gguf_arch *gguf_arch_of_model(const char *model_type);
/* The names in files of a text model's tensor and of a vision encoder's; false: there is none. */
bool gguf_file_name(char out[GGUF_NAME_BYTES], const struct gguf_arch *arch, const char *name);
bool gguf_vision_file_name(char out[GGUF_NAME_BYTES], const char *name, const int *deepstack,
                           int n);

#endif
