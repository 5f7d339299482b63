/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: what an engine will allocate, computed from the model's shapes, the limits, the
 * backend's sizes and what is known of the device. A pure function that touches no device; the
 * engine then allocates exactly this.
 *
 * plan.c sizes everything for given choices, weight_sizes.c the weights; fit.c chooses (on a GPU
 * within a budget); suggestions.c says what else would fit; multi_model.c plans several models. */
#ifndef EY_PLAN_H
#define EY_PLAN_H

#include "backend/backend.h"
#include "eyelet/plan.h"
#include "models/vision_model.h"
#include "plan/device_info.h"

/* Memory knobs: ways to need less GPU memory at some price. AUTO: turned if the plan needs it. On
 * the host all stay AUTO. */
enum plan_kv_dtype { PLAN_KV_AUTO, PLAN_KV_BF16, PLAN_KV_FP8 };
enum plan_lm_head { LM_HEAD_AUTO, LM_HEAD_BF16, LM_HEAD_8BIT }; /* BF16: as stored */
enum plan_vision { VISION_AUTO, VISION_RESIDENT, VISION_STREAMED, VISION_HOST };
/* Who reads the BF16 rows that an 8-bit head leaves in the file: the GPU, from pinned pages, or the
 * host, once per token. */
enum plan_head_rows { HEAD_ROWS_AUTO, HEAD_ROWS_PINNED, HEAD_ROWS_HOST };

struct plan_knobs {
    enum plan_kv_dtype kv;
    enum plan_lm_head lm_head;
    enum plan_vision vision;
    enum plan_head_rows lm_head_rows;
};

enum { PLAN_LAYERS_AUTO = -1 };

/* The caller's limits; 0: the default. Checked here. */
struct plan_limits {
    int max_model_len, kv_tokens, max_num_seqs, max_num_batched_tokens, max_images;
    uint64_t max_pixels; /* of the largest image */
    int gpu_layers;      /* the last n text layers; 0: all; PLAN_LAYERS_AUTO: as many as fit */
    uint64_t cpu_bytes;  /* for layers on the CPU, their weights included; 0: no limit */
    bool serving;        /* many clients: on the host the KV pool has at least 8,192 tokens */
    bool
        fp8_prompts; /* quantize prompt rows (struct backend_limits); GPU and model must allow it */
    struct plan_knobs knobs;
    double utilization;    /* share of GPU memory that this process may have */
    uint64_t device_bytes; /* the same in bytes */
};

enum plan_row {
    PLAN_CONTEXT,      /* the driver's */
    PLAN_WEIGHTS,      /* host: mapped from the file */
    PLAN_TEXT_WEIGHTS, /* GPU: the weights, by use */
    PLAN_LM_HEAD,      /* with the embedding */
    PLAN_VISION_WEIGHTS,
    PLAN_KV,
    PLAN_IMAGE_CACHE,      /* merged features and DeepStack levels */
    PLAN_SHARED_WORKSPACE, /* of the vision encoder or a prefill chunk: they never run together */
    PLAN_DECODE_WORKSPACE, /* decode runs between vision tiles */
    PLAN_LOGITS,
    PLAN_SCRATCH,      /* the kernels' own */
    PLAN_UPLOAD_RING,  /* pinned memory through which weights reach a GPU */
    PLAN_QUANTIZED,    /* on-load quantized weights; with a GPU, one matrix and CPU layers */
    PLAN_HOST_BUFFERS, /* pixels, sampling, tables */
    PLAN_CPU_VISION_WORKSPACE, /* with a GPU: of a vision encoder on the CPU */
    PLAN_CPU_SCRATCH,          /* with a GPU: of CPU kernels, for a vision encoder or layers */
    PLAN_CPU_KV,               /* with a GPU: keys and values of layers on the CPU */
    PLAN_CPU_WORKSPACE,        /* with a GPU: workspace of layers on the CPU */
    PLAN_PINNED_ROWS,          /* with a GPU: pages of the file that it reads, kept in memory */
    PLAN_FILE_WEIGHTS,         /* weights without a lasting copy on the GPU */
    PLAN_ROWS
};

/* What may be allocated on the device, and which of two rules says so. */
struct plan_budget {
    uint64_t bytes;
    uint64_t free, margin, share; /* free - margin, or share: the smaller */
    double utilization;           /* 0: the share was given in bytes */
    enum { BUDGET_BY_FREE, BUDGET_BY_SHARE } by;
};

/* Of the upload ring, one half filled while the other is copied; and of staging on the GPU where
 * weights are streamed. */
enum { PLAN_UPLOAD_RING_BYTES = 2 * (16 << 20) };

enum { PLAN_CHOICES = 8, PLAN_CHOICE_BYTES = 160 };

struct plan {
    const struct device_info *device; /* the caller's */
    int max_model_len;                /* tokens of one request */
    int kv_tokens;                    /* of all requests */
    int max_num_seqs, max_images;
    int max_logits;           /* rows of a step whose logits are computed at once */
    int max_blocks;           /* KV blocks of one request */
    int max_rows;             /* of a prefill chunk */
    int vision_rows;          /* of a vision tile */
    int decode_rows;          /* of a decode step between vision tiles */
    int max_image_tokens;     /* of one request */
    int max_tokens_per_image; /* of one image */
    int max_patches;          /* of one image */
    int feature_rows;         /* of the image cache */
    struct plan_knobs knobs;  /* none is AUTO on a GPU */
    int n_layers;             /* of the text model */
    int cpu_layers;           /* the first of them, on the CPU next to a GPU */
    struct kv_shape kv;
    struct kv_shape cpu_kv; /* of these layers */
    struct backend_limits limits;
    struct backend_limits cpu_limits; /* of the CPU next to a GPU, if it runs anything */
    uint64_t bytes[PLAN_ROWS];
    uint64_t allocated;        /* on the budget's device: the context too, mapped weights not */
    uint64_t arena_bytes;      /* on a GPU: allocated less the context */
    uint64_t cpu_layers_bytes; /* on the host: weights, KV and workspace of layers on the CPU */
    double tokens_per_second;  /* bound for one request by bytes read per token; 0: unknown */
    struct plan_budget budget;
    bool fits;                                    /* the budget, and cpu_bytes if that is limited */
    char choice[PLAN_CHOICES][PLAN_CHOICE_BYTES]; /* what the plan chose to fit, and its price */
    int n_choices;
};

/* The share of memory bandwidth that steps with layers on both sides are assumed to reach. Not
 * measured: tests/gpu/cpu_layers.sh checks it on a GPU, eyelet bench on the machine at hand. */
#define PLAN_BANDWIDTH_SHARE 0.85

/* Fails if a limit is out of range. A plan that does not fit is no error: see plan->fits. */
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

/* For a plan that does not fit: options that need less, with the resulting total. Returns how many.
 */
int plan_suggestions(struct plan_suggestion out[PLAN_SUGGESTIONS], const struct plan *plan,
                     const struct model *model, const struct backend *be,
                     const struct plan_limits *limits);

/* ---- several models on one device (multi_model.c) ---- */

enum { PLAN_MEMBERS = 16 };

struct plan_member {
    const char *name; /* for errors */
    const struct model *model;
    const struct plan_limits *limits;
    struct plan plan; /* out */
    bool
        resident; /* out: loaded at start and kept; false: takes turns, with the device to itself */
};

/* One plan over n <= PLAN_MEMBERS models. In order, models stay resident while their minimums fit
 * together: all open knobs turned, and a context of 4,096 tokens unless one was given. The rest of
 * memory is shared in proportion to what more each would take alone. On the host weights count too.
 */
bool plan_multi_model(struct plan_member *member, size_t n, const struct backend *be,
                      const struct device_info *device, ey_err *e);

/* Bytes of the device for this member, without the GPU's context, which all share. */
uint64_t plan_member_bytes(const struct plan_member *member);

/* ---- what the engine lays out ---- */

struct placements plan_placements(const struct plan *plan);

/* The text model is on a GPU, the vision encoder on the CPU with a workspace of its own. */
bool plan_vision_on_cpu(const struct plan *plan);

/* Features are computed on one device and read on another. */
bool plan_features_cross_devices(const struct plan *plan);

/* Elements of the workspaces' buffers, each aligned, in the order in which they lie. */
enum { STEP_X, STEP_Q, STEP_O, STEP_H, STEP_ROPE, STEP_BUFFERS };
enum { VISION_X, VISION_QKV, VISION_O, VISION_H, VISION_ROPE, VISION_FEATURES, VISION_BUFFERS };
void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *shape, int rows);
extern const enum element plan_step_element[STEP_BUFFERS], plan_vision_element[VISION_BUFFERS];
/* cross_devices: with a block of features on its way to the other device */
void plan_vision_elements(size_t out[VISION_BUFFERS], const struct vision_shape *shape, int rows,
                          int patches, bool cross_devices);

#endif
