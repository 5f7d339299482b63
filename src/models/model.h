/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded model: its shapes, its weights bound to the checkpoint's tensors, and what its family
 * knows. */
#ifndef EY_MODELS_MODEL_H
#define EY_MODELS_MODEL_H

#include "backend/backend.h"
#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "eyelet/pooling.h"
#include "image/image.h"
#include "models/chat/tool_call_format.h"
#include "tokenizer/tokenizer.h"

struct model;

/* What a family of models brings: a folder each, found by config.json's architectures[0], or where
 * it names none by its model_type. */
struct family {
    const char *architecture, *model_type;
    /* Words by which the checkpoint's chat template says that it is this family and no other of the
     * architecture; NULL: the one that is left. */
    const char *template_words;
    /* Fills shapes, weights and stop tokens from the checkpoint, which outlives the model. */
    bool (*open)(struct model *model, struct checkpoint *ckpt, ey_err *e);
    /* Messages → prompt pieces. */
    bool (*prompt)(struct prompt *out, const ey_request *request, ey_err *e);
    /* How it calls tools, as prompt() writes them too; NULL: it knows none, and refuses them. */
    const struct tool_call_format *tool_calls;
    /* Special tokens that prompt() writes, apart from those of images; NULL after the last. */
    const char *tokens[6];
    /* The one of them that ends a turn, and so an answer, whatever the configuration says. */
    const char *turn_end;
    /* Of the chat format: the system prompt where messages have none (NULL: none), and what follows
     * the last turn; SHA-256 of the templates that it stands for, NULL after the last. */
    const char *default_system, *tail, *templates[4];
    /* How the tail of a checkpoint that thinks goes on, which prompt() can write; NULL: it cannot.
     */
    const char *thinking_tail;
    /* Contents of the tokens around and in place of an image; NULL: a family without images. */
    const struct vision_marks *vision_marks;
    /* It has checkpoints that embed or rerank (models/pooling). */
    bool pools;
};

struct vision_tensors {
    struct affine_tensors patch;
    struct tensor position;              /* [position_side², hidden] */
    struct vision_block_tensors *blocks; /* [depth] */
    struct merger_tensors merger, deepstack[EY_MAX_DEEPSTACK];
};

/* The same, placed. */
struct vision_weights {
    struct affine patch;
    struct placed *position;
    struct vision_block *blocks;
    struct merger merger, deepstack[EY_MAX_DEEPSTACK];
};

/* What backends made of a model's weights. */
struct placed_model {
    struct placed *embed, *final_norm, *head;
    struct text_layer *layers; /* [n_layers] */
    struct vision_weights vision;
};

/* What of a checkpoint was passed over, as sentences for whoever loads it. */
enum { MAX_REMARKS = 8, REMARK_BYTES = 480 };
struct remarks {
    char text[MAX_REMARKS][REMARK_BYTES];
    int n;
};

struct model {
    const struct family *family;
    ey_task task;
    struct remarks remarks;
    struct text_shape text;
    struct vision_shape vision;
    struct patch_spec patch_spec;
    struct tensor embed, final_norm, head;
    struct text_layer_tensors *layers; /* [n_layers] */
    struct vision_tensors vision_tensors;
    struct placed_model placed; /* after model_place() */
    struct rope text_rope, vision_rope;
    int eos[EY_MAX_EOS], n_eos;
    bool thinks;              /* the checkpoint's template opens a thought */
    int64_t image_token_id;   /* config.json's id of the image's pad; -1: it names none */
    ey_sampling sampling;     /* what generation_config.json recommends */
    uint64_t weight_bytes;    /* of all bound tensors, as stored; not those that are quantized while
                                 loading (on_load_quantization.h) */
    uint64_t quantized_bytes; /* of what those become */
    bool int4;                /* limits.int4 of some matrices, as they are or will be */
    bool reordered;           /* limits.reordered */
    size_t max_quantized_bytes; /* the largest of them */
    struct arena
        arena; /* layers, blocks, scales, rope tables, recipes, quantized weights in host memory */
};

/* Adds a remark; those beyond MAX_REMARKS are dropped. */
void model_remark(struct model *model, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reads what model this is and fills it by its family. An architecture that no family knows is an
 * error that names it and those that are known. `task`: as pooling_task_find() has it. */
bool model_open(struct model *model, struct checkpoint *ckpt, const char *task, ey_err *e);
void model_close(struct model *model);
enum { MAX_LAYER_RANGES = 2 };

/* Which device has which layers, and where what need not be on it as a whole lies. The embedding is
 * with the first range, final norm and head are with the last. */
struct placements {
    enum placement embed, lm_head, vision;
    struct placed_range {
        int first, end;
        bool on_cpu; /* next to a GPU */
    } range[MAX_LAYER_RANGES];
    int n_ranges;
};
/* Places every weight: `vision_be` runs the vision encoder, `cpu` the ranges that are on it, `be`
 * the others; usually they are one. Weights with a recipe are quantized by `pool`, in
 * memory of the model's if the backend uses it in place, else through one buffer. */
bool model_place(struct model *model, struct backend *be, struct backend *vision_be,
                 struct backend *cpu, const struct placements *where, struct pool *pool, ey_err *e);
/* Device bytes of the largest group of a streamed vision encoder. */
size_t model_streamed_group_bytes(const struct model *model, const struct backend *be);
/* Layers of one kind among first .. end-1: as many layers a cache of that kind has. */
int model_layers_of_kind(const struct model *model, enum layer_kind kind, int first, int end);
bool model_is_eos(const struct model *model, int id);

/* Special ids of the chat format must exist in this tokenizer and ids fit the embedding. */
bool model_check_tokenizer(const struct model *model, const struct tokenizer *tok, ey_err *e);
/* Makes the end of a turn one of the ids that end an answer. */
void model_end_at_turn(struct model *model, const struct tokenizer *tok);

extern const struct family family_qwen3vl, family_qwen2, family_qwen3, family_phi3, family_smollm,
    family_llama_chatml, family_llama;

#endif
