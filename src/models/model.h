/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded model: its shapes, its weights bound to the checkpoint's tensors, and its family. */
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

/* A family of models. A checkpoint's family is the one with the same architecture as
 * config.json's architectures[0] or, if that is missing, with the same model_type. */
struct family {
    const char *architecture, *model_type;
    /* Words in the chat template that identify this family among others of the same architecture;
     * NULL for the default family. */
    const char *template_words;
    /* Fills shapes, weights and stop tokens from the checkpoint, which must outlive the model. */
    bool (*open)(struct model *model, struct checkpoint *ckpt, ey_err *e);
    /* Turns messages into prompt pieces. */
    bool (*prompt)(struct prompt *out, const ey_request *request, ey_err *e);
    /* The format of tool calls, which prompt() uses, too; NULL if the family refuses tools. */
    const struct tool_call_format *tool_calls;
    /* NULL-terminated list of special tokens that prompt() writes, except those of images. */
    const char *tokens[6];
    /* The token that ends a turn, and so an answer, whatever the configuration says. */
    const char *turn_end;
    /* The chat format's default system prompt (or NULL), the text after the last turn, and a
     * NULL-terminated list of the SHA-256 hashes of the templates that the format implements. */
    const char *default_system, *tail, *templates[4];
    /* The tail for a checkpoint that thinks, as prompt() writes it; NULL if the family cannot. */
    const char *thinking_tail;
    /* The tokens around and in place of an image; NULL for a family without images. */
    const struct vision_marks *vision_marks;
    /* Whether some checkpoints of the family embed or rerank (models/pooling). */
    bool pools;
};

struct vision_tensors {
    struct affine_tensors patch;
    struct tensor position;              /* [position_side², hidden] */
    struct vision_block_tensors *blocks; /* [depth] */
    struct merger_tensors merger, deepstack[EY_MAX_DEEPSTACK];
};

/* The vision tensors after placing. */
struct vision_weights {
    struct affine patch;
    struct placed *position;
    struct vision_block *blocks;
    struct merger merger, deepstack[EY_MAX_DEEPSTACK];
};

/* A model's weights as placed by the backends. */
struct placed_model {
    struct placed *embed, *final_norm, *head;
    struct text_layer *layers; /* [n_layers] */
    struct vision_weights vision;
};

/* Sentences for the user about parts of a checkpoint that are ignored. */
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
    bool thinks;                /* the template always starts an answer with thinking */
    int64_t image_token_id;     /* config.json's image_token_id; -1 if absent */
    ey_sampling sampling;       /* recommended by generation_config.json */
    uint64_t weight_bytes;      /* bytes of the tensors that are used as stored */
    uint64_t quantized_bytes;   /* bytes of the tensors that recipes make while loading */
    bool int4;                  /* value for the backend's limits.int4 */
    bool reordered;             /* value for the backend's limits.reordered */
    size_t max_quantized_bytes; /* the largest result of a recipe */
    struct arena
        arena; /* layers, blocks, scales, rope tables, recipes, weights quantized in host memory */
};

/* Adds a remark; more than MAX_REMARKS are dropped. */
void model_remark(struct model *model, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Finds the model's family, whose open() fills the model. An unknown architecture is an error that
 * lists the supported ones. `task`: see pooling_task_find(). */
bool model_open(struct model *model, struct checkpoint *ckpt, const char *task, ey_err *e);
void model_close(struct model *model);
enum { MAX_LAYER_RANGES = 2 };

/* The device of each range of layers, and the placements of the embedding, the LM head and the
 * vision encoder. The embedding belongs to the first range, final norm and head to the last. */
struct placements {
    enum placement embed, lm_head, vision;
    struct placed_range {
        int first, end;
        bool on_cpu; /* the CPU next to a GPU */
    } range[MAX_LAYER_RANGES];
    int n_ranges;
};
/* Places every weight: `vision_be` runs the vision encoder, `cpu` runs the ranges on the CPU, and
 * `be` runs the other ranges; usually all three are the same backend. The threads of `pool`
 * quantize the weights with a recipe, into the model's memory if the backend uses that memory in
 * place, otherwise through one buffer. */
bool model_place(struct model *model, struct backend *be, struct backend *vision_be,
                 struct backend *cpu, const struct placements *where, struct pool *pool, ey_err *e);
/* Returns the device bytes of the largest group of a streamed vision encoder. */
size_t model_streamed_group_bytes(const struct model *model, const struct backend *be);
/* Returns the number of layers of one kind among first .. end-1, which is the size of that kind's
 * cache. */
int model_layers_of_kind(const struct model *model, enum layer_kind kind, int first, int end);
bool model_is_eos(const struct model *model, int id);

/* Checks that the tokenizer has the chat format's special tokens and that its ids fit the
 * embedding. */
bool model_check_tokenizer(const struct model *model, const struct tokenizer *tok, ey_err *e);
/* Adds the end of a turn to the ids that end an answer. */
void model_end_at_turn(struct model *model, const struct tokenizer *tok);

extern const struct family family_qwen3vl, family_qwen2, family_qwen3, family_phi3, family_smollm,
    family_llama_chatml, family_llama;

#endif
