/* SPDX-License-Identifier: Apache-2.0 */
/* The models that mkcheckpoint can make: some have the shapes of official checkpoints, others are
 * small and have awkward shapes. */
#ifndef EY_TOOLS_MKCHECKPOINT_MK_KINDS_H
#define EY_TOOLS_MKCHECKPOINT_MK_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum {
    MK_HEAD_DIM = 128,
    MK_ADDED_TOKENS = 26,
    MK_REAL_VOCABULARY = 151936,
    MK_REAL_FIRST_ADDED = 151643
};

/* The architectures; all but the first are text only. */
enum mk_architecture { MK_QWEN3VL, MK_QWEN2, MK_QWEN3, MK_PHI3, MK_LLAMA };

/* How the matrices of decoder layers are stored. */
enum mk_layout {
    MK_USUAL,    /* block FP8 if the kind has `scales`, else not quantized */
    MK_FP8_ROWS, /* compressed-tensors' float-quantized, a BF16 scale per row */
    MK_PACKED8,  /* compressed-tensors' pack-quantized, eight bits in groups of 32 */
    MK_NVFP4,    /* compressed-tensors' nvfp4-pack-quantized */
    MK_AWQ,      /* AutoAWQ's gemm, groups of 64 */
    MK_GPTQ      /* GPTQ's first version, four bits, groups of 64, columns reordered (act-order) */
};

/* The model's task. */
enum mk_task { MK_ANSWERS, MK_EMBEDS, MK_RERANKS };

struct kind {
    const char *name, *summary;
    const char *family; /* weights depend on it but not on the dtype: kinds of a family share their
                           BF16 tensors */
    enum mk_architecture architecture;
    enum mk_task task;
    /* text */
    int hidden, layers, heads, kv_heads, mlp;
    int head_dim;                /* 0: MK_HEAD_DIM */
    int max_position, window;    /* for text-only models; window 0: none */
    int vocabulary, first_added; /* rows of the embedding; id of <|endoftext|>, the first special
                                    token (Llama's special tokens come first) */
    long theta;                  /* 0: config.json does not have it, like Llama-2's */
    bool tied;
    bool head_stored; /* the file has lm_head.weight: untied, or a copy of the embedding */
    bool tied_in_text_config;
    /* vision */
    int v_hidden, v_mlp, v_depth, v_heads, v_positions, deepstack[3];
    long min_pixels, max_pixels;
    /* files */
    enum dtype plain;  /* of unquantized tensors */
    enum dtype scales; /* of block FP8; DTYPE_NONE: nothing is block FP8 */
    enum mk_layout layout;
    int shards;
    bool old_layout; /* tensor names lack "language_model", and config.json is as transformers 5
                        saves it */
};

/* Returns the kind of this name, or NULL. */
const struct kind *kind_find(const char *name);
/* Returns the i-th kind, or NULL after the last one. */
const struct kind *kind_at(int i);
/* Returns the id of a special token, given its id in the real Qwen vocabulary (151643…). */
int kind_token(const struct kind *k, int real_id);
/* Returns whether the vocabulary is SentencePiece's with byte fallback, and not a byte-level one.
 */
bool kind_sentencepiece(const struct kind *k);
int kind_head_dim(const struct kind *k);

#endif
