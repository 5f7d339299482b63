/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: all memory that an engine will allocate, computed from the model's shapes, the
 * limits, the backend's sizes and the device info. Planning is pure and touches no device; the
 * engine then allocates exactly the plan.
 *
 * plan.c sizes everything for given choices, weight_sizes.c the weights; fit.c chooses (on a GPU
 * within a budget); suggestions.c finds options that would fit; multi_model.c plans several
 * models. */
#ifndef EY_PLAN_MEMORY_PLAN_H
#define EY_PLAN_MEMORY_PLAN_H

#include "backend/backend.h"
#include "eyelet/plan.h"
#include "models/vision_model.h"
#include "plan/device_info.h"

/* Memory knobs: ways to need less GPU memory at some price. A knob that is AUTO is turned if the
 * plan needs it. On the host all stay AUTO, except an lm_head that the caller chose. */
enum plan_kv_dtype { PLAN_KV_AUTO, PLAN_KV_BF16, PLAN_KV_FP8 };
enum plan_lm_head { LM_HEAD_AUTO, LM_HEAD_BF16, LM_HEAD_8BIT }; /* BF16 means as stored */
enum plan_vision { VISION_AUTO, VISION_RESIDENT, VISION_STREAMED, VISION_HOST };
/* Who reads the BF16 rows that an 8-bit head leaves in the file: the GPU from pinned pages, or the
 * host once per token. */
enum plan_head_rows { HEAD_ROWS_AUTO, HEAD_ROWS_PINNED, HEAD_ROWS_HOST };

struct plan_knobs {
    enum plan_kv_dtype kv;
    enum plan_lm_head lm_head;
    enum plan_vision vision;
    enum plan_head_rows lm_head_rows;
};

enum { PLAN_LAYERS_AUTO = -1 };

/* The caller's limits; 0 means the default. plan_make() checks them. */
struct plan_limits {
    int max_model_len, kv_tokens, max_num_seqs, max_num_batched_tokens, max_images;
    uint64_t max_pixels; /* most pixels of an image */
    int gpu_layers;     /* text layers on the GPU, the last ones; 0 for all; PLAN_LAYERS_AUTO for as
                           many as fit */
    uint64_t cpu_bytes; /* most memory of the layers on the CPU, weights included; 0 for no limit */
    bool serving;       /* many clients: on the host the KV pool has at least 8,192 tokens */
    bool fp8_prompts; /* quantize prompt rows (struct backend_limits), if GPU and model allow it */
    struct plan_knobs knobs;
    double utilization;    /* share of GPU memory that this process may use */
    uint64_t device_bytes; /* the share in bytes, instead of utilization */
};

enum plan_row {
    PLAN_CONTEXT,      /* the CUDA context */
    PLAN_WEIGHTS,      /* on the host: mapped from the file */
    PLAN_TEXT_WEIGHTS, /* on a GPU: the weights by use */
    PLAN_LM_HEAD,      /* includes the embedding */
    PLAN_VISION_WEIGHTS,
    PLAN_KV,
    PLAN_IMAGE_CACHE,      /* merged features and DeepStack levels */
    PLAN_SHARED_WORKSPACE, /* for the vision encoder or a prefill chunk, which never run together */
    PLAN_DECODE_WORKSPACE, /* separate, since decode steps run between vision tiles */
    PLAN_LOGITS,
    PLAN_SCRATCH,      /* the backend's */
    PLAN_UPLOAD_RING,  /* pinned memory through which weights are uploaded to a GPU */
    PLAN_QUANTIZED,    /* weights quantized while loading; with a GPU, a buffer for one matrix, and
                          the matrices of CPU layers */
    PLAN_HOST_BUFFERS, /* pixels, sampling, tables */
    PLAN_CPU_VISION_WORKSPACE, /* with a GPU: for a vision encoder on the CPU */
    PLAN_CPU_SCRATCH,          /* with a GPU: CPU kernels' scratch for a vision encoder or layers */
    PLAN_CPU_KV,               /* with a GPU: KV cache of layers on the CPU */
    PLAN_CPU_WORKSPACE,        /* with a GPU: workspace of layers on the CPU */
    PLAN_PINNED_ROWS,          /* with a GPU: pinned pages of the file, which it reads */
    PLAN_FILE_WEIGHTS,         /* weights without a lasting copy on the GPU */
    PLAN_ROWS
};

/* The bytes that may be allocated on the device, and which of two rules limits them. */
struct plan_budget {
    uint64_t bytes;
    uint64_t free, margin, share; /* the budget is the smaller of free - margin and share */
    double utilization;           /* 0 if the share was given in bytes */
    enum { BUDGET_BY_FREE, BUDGET_BY_SHARE } by;
};

/* The upload ring, one half filled while the other is copied. Streamed weights need as much staging
 * on the GPU. */
enum { PLAN_UPLOAD_RING_BYTES = 2 * (16 << 20) };

enum { PLAN_CHOICES = 8, PLAN_CHOICE_BYTES = 160 };

struct plan {
    const struct device_info *device; /* borrowed */
    int max_model_len;                /* tokens of one request */
    int kv_tokens;                    /* of all requests */
    int max_num_seqs, max_images;
    int max_logits;           /* rows of a step whose logits are computed together */
    int max_blocks;           /* KV blocks of one request */
    int max_rows;             /* of a prefill chunk */
    int vision_rows;          /* of a vision tile */
    int decode_rows;          /* of a decode step between vision tiles */
    int max_image_tokens;     /* of one request */
    int max_tokens_per_image; /* of one image */
    int max_patches;          /* of one image */
    int feature_rows;         /* of the image cache */
    struct plan_knobs knobs;  /* on a GPU, only lm_head_rows may be AUTO: without an 8-bit head */
    int n_layers;             /* of the text model */
    int cpu_layers;           /* the first ones, on the CPU next to a GPU */
    struct kv_shape kv;
    struct kv_shape cpu_kv; /* of the CPU layers */
    struct backend_limits limits;
    struct backend_limits cpu_limits; /* of the CPU next to a GPU, if it runs anything */
    uint64_t bytes[PLAN_ROWS];
    uint64_t allocated; /* on the budget's device: includes the context, excludes mapped weights */
    uint64_t arena_bytes; /* on a GPU: allocated without the context */
    uint64_t
        cpu_layers_bytes; /* on the host: weights, KV cache and workspace of layers on the CPU */
    double tokens_per_second; /* predicted for one request from the bytes that a token reads; 0 if
                                 unknown */
    struct plan_budget budget;
    bool fits;                                    /* within the budget, and cpu_bytes if limited */
    char choice[PLAN_CHOICES][PLAN_CHOICE_BYTES]; /* choices made to fit, and their prices */
    int n_choices;
};

/* The share of memory bandwidth that a step with layers on GPU and CPU is assumed to reach. This
 * machine's share is not measured: tests/gpu/cpu_layers.sh checks the assumption, and eyelet bench
 * shows the real speed. */
#define PLAN_BANDWIDTH_SHARE 0.85

/* Makes the plan. Fails if a limit is out of range. A plan that does not fit is no failure: see
 * plan->fits. */
bool plan_make(struct plan *plan, const struct model *model, const struct backend *be,
               const struct device_info *device, const struct plan_limits *limits, ey_err *e);

/* Fills the plan's rows that apply to this device; returns their number. */
int plan_items(const struct plan *plan, ey_plan_item out[PLAN_ROWS]);

/* Writes the budget as text: "6720 MiB: 7000 free less a margin of 280; 0.92 of all memory
 * (--gpu-memory-utilization) is more". */
void plan_budget_text(const struct plan_budget *budget, char *out, size_t size);

/* ---- what would fit ---- */

/* Returns the longest context whose plan fits, a multiple of a KV block; 0 if none does. If limits
 * set kv_tokens, the pool shrinks with the context. */
int plan_longest_context(const struct model *model, const struct backend *be,
                         const struct device_info *device, const struct plan_limits *limits);

struct plan_suggestion {
    char options[96];
    uint64_t total;
    bool fits;
};

enum { PLAN_SUGGESTIONS = 13 };

/* Finds options that need less memory than a plan that does not fit, with the resulting totals.
 * Returns their number. */
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
    bool resident; /* out: loaded at start and kept; otherwise it takes turns and has the device to
                      itself */
};

/* Plans n <= PLAN_MEMBERS models together. In their order, each model stays resident if its minimum
 * still fits: all open knobs turned, and a context of 4,096 tokens unless one was given. The
 * remaining memory is divided in proportion to the memory that each would take alone beyond its
 * minimum. On the host nothing is divided, and mapped weights count too. */
bool plan_multi_model(struct plan_member *member, size_t n, const struct backend *be,
                      const struct device_info *device, ey_err *e);

/* Returns the member's device bytes without the CUDA context, which all share. */
uint64_t plan_member_bytes(const struct plan_member *member);

/* ---- what the engine lays out ---- */

struct placements plan_placements(const struct plan *plan);

/* Whether the text model is on a GPU and the vision encoder on the CPU with a workspace of its
 * own. */
bool plan_vision_on_cpu(const struct plan *plan);

/* Whether features are computed on one device and read on another. */
bool plan_features_cross_devices(const struct plan *plan);

/* Elements of the workspaces' buffers, each aligned, in memory order. */
enum { STEP_X, STEP_Q, STEP_O, STEP_H, STEP_ROPE, STEP_BUFFERS };
enum { VISION_X, VISION_QKV, VISION_O, VISION_H, VISION_ROPE, VISION_FEATURES, VISION_BUFFERS };
void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *shape, int rows);
extern const enum element plan_step_element[STEP_BUFFERS], plan_vision_element[VISION_BUFFERS];
/* cross_devices: includes a block for features in transfer to the other device. */
void plan_vision_elements(size_t out[VISION_BUFFERS], const struct vision_shape *shape, int rows,
                          int patches, bool cross_devices);

#endif
