/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: what an engine will allocate, from the model's shapes, the limits, what the
 * backend says of sizes and what is known of the device. A pure function: it allocates nothing and
 * touches no device; the engine then allocates exactly this.
 *
 * plan.c has the sizes of everything for given choices, weights.c those of weights, fit.c makes the
 * choices (on a card: by its budget), changes.c says what else would fit, together.c does it for
 * several models. */
#ifndef EY_PLAN_H
#define EY_PLAN_H

#include "backend/backend.h"
#include "models/vision_model.h"
#include "plan/device_info.h"

/* Ways to need less of a card, at some price. AUTO: the first that the plan needs. On the host all
 * stay AUTO. */
enum plan_kv_dtype { PLAN_KV_AUTO, PLAN_KV_BF16, PLAN_KV_FP8 };
enum plan_lm_head { LM_HEAD_AUTO, LM_HEAD_BF16, LM_HEAD_8BIT }; /* BF16: as stored */
enum plan_vision { VISION_AUTO, VISION_RESIDENT, VISION_STREAMED, VISION_HOST };
/* Who reads the rows that an 8-bit head leaves in the file: the card, from pages that are pinned
 * for it, or the host, once a token. */
enum plan_head_rows { HEAD_ROWS_AUTO, HEAD_ROWS_PINNED, HEAD_ROWS_HOST };

struct plan_knobs {
    enum plan_kv_dtype kv;
    enum plan_lm_head lm_head;
    enum plan_vision vision;
    enum plan_head_rows lm_head_rows;
};

enum { PLAN_LAYERS_AUTO = -1 };

/* What the caller may say; 0: the default. Checked here. */
struct plan_limits {
    int max_model_len, kv_tokens, max_num_seqs, max_num_batched_tokens, max_images;
    uint64_t max_pixels; /* of the largest picture */
    int gpu_layers; /* of the decoder, the last so many on the card; 0: all; PLAN_LAYERS_AUTO: as
                       many as fit */
    uint64_t cpu_bytes; /* what layers on the CPU may take of the host's memory, their weights
                           counted in; 0: no limit */
    bool serving; /* many will ask: on the host the KV pool is then no smaller than 8,192 tokens */
    bool fp8_prompts; /* rows of prompts are quantised (struct backend_limits); of a card and a
                         model that can */
    struct plan_knobs knobs;
    double utilization;    /* share of a card's memory that this process may have */
    uint64_t device_bytes; /* the same in bytes */
};

enum plan_row {
    PLAN_CONTEXT,      /* what the driver takes */
    PLAN_WEIGHTS,      /* on the host: mapped from the file */
    PLAN_TEXT_WEIGHTS, /* on a card: the weights, by what they are for */
    PLAN_LM_HEAD,      /* with the embedding */
    PLAN_VISION_WEIGHTS,
    PLAN_KV,
    PLAN_IMAGE_CACHE,      /* merged features and DeepStack levels */
    PLAN_SHARED_WORKSPACE, /* workspace of the tower or of a prefill chunk: they never run at the
                              same time */
    PLAN_DECODE_WORKSPACE, /* workspace of decode, which goes on beside a tower */
    PLAN_LOGITS,
    PLAN_SCRATCH,     /* the kernels' own */
    PLAN_UPLOAD_RING, /* pinned memory that weights go to a card through */
    PLAN_QUANTIZED, /* weights that are quantised while loading; with a card, the one that is on its
                  way, and those of layers on the CPU */
    PLAN_HOST_BUFFERS,         /* pixels, sampling, tables */
    PLAN_CPU_VISION_WORKSPACE, /* beside a card: workspace of a tower on the CPU */
    PLAN_CPU_SCRATCH,   /* beside a card: of kernels on the CPU, for a tower or layers there */
    PLAN_CPU_KV,        /* beside a card: of the layers on the CPU, their keys and values, */
    PLAN_CPU_WORKSPACE, /* and their workspace */
    PLAN_PINNED_ROWS,  /* beside a card: pages of the file that it reads itself, and that the system
                     therefore keeps in memory */
    PLAN_FILE_WEIGHTS, /* weights of which a card has no copy of its own, or none that stays */
    PLAN_ROWS
};

/* What may be allocated on the device, and which of two rules says so. */
struct plan_budget {
    uint64_t bytes;
    uint64_t free, margin, share; /* free - margin, or share: the smaller */
    double utilization;           /* 0: the share was given in bytes */
    enum { BUDGET_BY_FREE, BUDGET_BY_SHARE } by;
};

/* Of the upload ring, one half filled while the other is copied; and of staging on the card where
 * weights are streamed. */
enum { PLAN_UPLOAD_RING_BYTES = 2 * (16 << 20) };

enum { PLAN_CHOICES = 8, PLAN_CHOICE_BYTES = 160 };

struct plan {
    const struct device_info *device; /* the caller's */
    int max_model_len;                /* tokens of one request */
    int kv_tokens;                    /* of all requests */
    int max_num_seqs, max_images;
    int max_blocks;             /* KV blocks of one request */
    int max_rows;               /* of a prefill chunk */
    int vision_rows;            /* of a vision tile */
    int decode_rows;            /* of a decode step beside a tower */
    int max_image_tokens;       /* visual tokens of one request */
    int max_tokens_per_image;   /* of one picture */
    int max_patches;            /* of one picture */
    int feature_rows;           /* of the image cache */
    struct plan_knobs knobs;    /* none is AUTO on a card */
    int cpu_layers;             /* of the decoder, on the CPU beside a card */
    struct kv_shape kv, cpu_kv; /* the latter of those */
    struct backend_limits limits,
        cpu_limits; /* the latter of the CPU beside a card, where the tower or layers are on it */
    uint64_t bytes[PLAN_ROWS];
    uint64_t allocated; /* on the device that the budget is of; the context too, the mapped weights
                           not */
    uint64_t arena_bytes;      /* of a card: allocated but the context */
    uint64_t cpu_layers_bytes; /* of the host, by the layers on the CPU: weights, keys and values,
                             workspace */
    double tokens_per_second;  /* that one request can have at most, by what is read for a token and
                                  how fast that is; 0: not known */
    struct plan_budget budget;
    bool fits; /* the budget, and the host what layers on the CPU need, where that is limited */
    char choice[PLAN_CHOICES][PLAN_CHOICE_BYTES]; /* what nobody asked for and the plan did to fit,
                                                     as options and their price */
    int n_choices;
};

/* Of what memory can be read, what the steps of a divided decoder are taken to reach. An
 * assumption, the same for both sides, and not measured: tests/gpu/cpu_layers.sh holds it against a
 * card, eyelet bench against the machine at hand. */
#define PLAN_BANDWIDTH_SHARE 0.85

/* False: a limit that cannot be, with its range. That a plan does not fit is no error. */
bool plan_make(struct plan *plan, const struct model *model, const struct backend *be,
               const struct device_info *device, const struct plan_limits *limits, ey_err *e);

/* The rows that this device has; returns how many. */
int plan_items(const struct plan *plan, ey_plan_item out[PLAN_ROWS]);

/* "6720 MiB: 7000 free less a margin of 280 (0.92 of 8151 is more)" */
void plan_budget_text(const struct plan_budget *budget, char *out, size_t size);

/* ---- what would fit ---- */

/* The longest context, a multiple of a KV block, whose plan fits; 0: none. */
int plan_longest_context(const struct model *model, const struct backend *be,
                         const struct device_info *device, const struct plan_limits *limits);

struct plan_suggestion {
    char options[96];
    uint64_t total;
    bool fits;
};

enum { PLAN_SUGGESTIONS = 13 };

/* For a plan that does not fit: options that would take less, with what would then be allocated;
 * returns how many. */
int plan_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS], const struct plan *plan,
                     const struct model *model, const struct backend *be,
                     const struct plan_limits *limits);

/* ---- several models on one device (together.c) ---- */

enum { PLAN_MEMBERS = 16 };

struct plan_member {
    const char *name; /* for errors */
    const struct model *model;
    const struct plan_limits *limits;
    struct plan plan; /* out */
    bool resident; /* out: loaded at the start, beside the others that stay; false: it takes turns,
                   with all of the device for it */
};

/* One plan over n <= PLAN_MEMBERS models. In their order those stay whose least needs fit together:
 * every lever that was left to the plan pulled, and a context of 4,096 tokens unless it was given.
 * They have that for certain, and of the rest a share in proportion to what more each would take
 * alone. On the host a model needs room for its weights too. */
bool plan_multi_model(struct plan_member *member, size_t n, const struct backend *be,
                      const struct device_info *device, ey_err *e);

/* What a member takes of the device beside others, all but a card's context, which they have
 * together. */
uint64_t plan_member_bytes(const struct plan_member *member);

/* ---- what the engine lays out ---- */

struct placements plan_placements(const struct plan *plan);

/* The decoder is on a card and the tower on the CPU, with a workspace of its own. */
bool plan_vision_on_cpu(const struct plan *plan);

/* The tower's features are made on one backend and read on another. */
bool plan_features_cross_devices(const struct plan *plan);

/* Elements of the workspaces' buffers, each aligned, in the order in which they lie. */
enum { STEP_X, STEP_Q, STEP_O, STEP_H, STEP_ROPE, STEP_BUFFERS };
enum { VISION_X, VISION_QKV, VISION_O, VISION_H, VISION_ROPE, VISION_FEATURES, VISION_BUFFERS };
void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *shape, int rows);
extern const enum element plan_step_element[STEP_BUFFERS], plan_vision_element[VISION_BUFFERS];
/* cross: with a block of features on their way to the other backend */
void plan_vision_elements(size_t out[VISION_BUFFERS], const struct vision_shape *shape, int rows,
                          int patches, bool cross_devices);

#endif
