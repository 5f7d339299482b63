/* SPDX-License-Identifier: Apache-2.0 */
/* The models mkcheckpoint can make: shapes of the official checkpoints, and small ones of awkward
 * shape. */
#ifndef MK_KINDS_H
#define MK_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum {
    MK_HEAD_DIM = 128,
    MK_ADDED_TOKENS = 26,
    MK_REAL_VOCABULARY = 151936,
    MK_REAL_FIRST_ADDED = 151643
};

/* What the checkpoint is one of; all but the first are text only. */
enum mk_architecture { MK_QWEN3VL, MK_QWEN2, MK_QWEN3, MK_PHI3, MK_LLAMA };

/* How the matrices of decoder layers are stored: as `scales` says, or as other programs quantise.
 */
enum mk_layout {
    MK_USUAL,
    MK_FP8_ROWS, /* compressed-tensors' float-quantized, a BF16 scale a row */
    MK_PACKED8,  /* its pack-quantized of eight bits, groups of 32 */
    MK_NVFP4,    /* its nvfp4-pack-quantized */
    MK_AWQ,      /* AutoAWQ's gemm, groups of 64 */
    MK_GPTQ      /* its first version, four bits, groups of 64, columns in another order */
};

/* What it does with its last hidden state. */
enum mk_task { MK_ANSWERS, MK_EMBEDS, MK_RERANKS };

struct kind {
    const char *name, *summary;
    const char *family; /* values depend on it and not on the dtype: kinds of one family share their
                           BF16 tensors */
    enum mk_architecture architecture;
    enum mk_task task;
    /* text */
    int hidden, layers, heads, kv_heads, mlp;
    int head_dim;                /* 0: MK_HEAD_DIM */
    int max_position, window;    /* text only; window 0: none */
    int vocabulary, first_added; /* rows of the embedding; id of <|endoftext|>, which all special
                                    ids follow (Llama has none) */
    long theta;                  /* 0: not in the file, as in Llama-2's */
    bool tied;
    bool head_stored; /* lm_head.weight is in the file: untied, or a copy of the embedding */
    bool tied_in_text_config;
    /* vision */
    int v_hidden, v_mlp, v_depth, v_heads, v_positions, deepstack[3];
    long min_pixels, max_pixels;
    /* files */
    enum dtype plain;  /* of everything that is not block FP8 */
    enum dtype scales; /* DTYPE_NONE: nothing is FP8 */
    enum mk_layout layout;
    int shards;
    bool old_layout; /* tensor names without "language_model", config.json as transformers 5 saves
                        it */
};

/* NULL: no such kind. */
const struct kind *kind_find(const char *name);
/* The i-th kind; NULL past the last. */
const struct kind *kind_at(int i);
/* Id of one of the special tokens by its number in the real Qwen vocabulary (151643…). */
int kind_token(const struct kind *k, int real_id);
/* The vocabulary is SentencePiece's, with byte fallback, and not a byte-level one. */
bool kind_sentencepiece(const struct kind *k);
int kind_head_dim(const struct kind *k);

#endif
