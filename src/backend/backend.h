/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between models and devices: everything that a model's forward pass needs, one
 * function per fused step.
 *
 * A family's forward pass (src/models) is written once against these tables. `ref` (plain C in
 * float32) is the reference of all tests; `cpu` and `cuda` are the fast implementations. Work is
 * enqueued in order; finish() waits for it and returns whether it succeeded. Buffers are allocated
 * before the first step, never afterwards, and a `dev` pointer is only passed to the backend that
 * made it. An optional entry is NULL if the backend lacks it. Shapes in comments are row-major. The
 * [n] rows of a call are independent: on `ref` and `cpu` a row's bits do not depend on the other
 * rows of the call; on a GPU the number of rows selects the kernels, and so affects rounding. */
#ifndef EY_BACKEND_H
#define EY_BACKEND_H

#include "backend/model_shape.h"
#include "backend/step.h"
#include "tensor/tensor.h"
#include "base/err.h"
#include "base/pool.h"

typedef void *dev; /* activations on the device */

/* Kinds of buffers. Each backend has its own element type for each kind. */
enum element { ELEMENT_RESIDUAL, ELEMENT_ACTIVATION, ELEMENT_ROPE, ELEMENT_FEATURE, ELEMENT_KINDS };

/* Where and how a weight is stored. Backends in host memory use the file's bytes for all placements
 * but PLACE_EIGHT_BIT. */
enum placement {
    PLACE_RESIDENT,  /* on the device */
    PLACE_EIGHT_BIT, /* on the device as int8 rows with a scale each: a head whose top candidates
                        are rescored from the file's BF16 rows (reads_pinned_rows()) */
    PLACE_HOST,      /* in the file: an embedding whose rows are looked up by the host, or read from
                        there by the device (reads_pinned_rows()) */
    PLACE_STREAMED,  /* uploaded when its group (open_group()) is needed, into one of two buffers */
};

/* The use of a weight. */
enum weight_role {
    ROLE_EMBED,
    ROLE_TEXT,      /* a text model's layers and final norm */
    ROLE_ATTENTION, /* q, k and v, which need precision because softmax amplifies errors */
    ROLE_HEAD,      /* the LM head */
    ROLE_VISION     /* read once per image */
};

/* A placed weight. Opaque to everyone but its backend, and valid as long as the backend exists. */
struct placed;

/* Weights of a model are pairs of structs with the same members in the same order: the file's
 * tensors (`*_tensors`, of struct tensor), and the placed weights (of struct placed *). */
/* clang-format off */
#define ATTENTION_MEMBERS(X)                                        \
    X(input_norm) X(q) X(k) X(v) X(q_bias) X(k_bias) X(v_bias)      \
    X(q_norm) X(k_norm) X(o)
#define MLP_MEMBERS(X) X(post_norm) X(gate) X(up) X(down)
/* clang-format on */
#define TENSOR_MEMBER(name) struct tensor name;
#define PLACED_MEMBER(name) struct placed *name;

/* Biases of q, k and v, and norms of their heads: without data, or NULL, if the family has none. */
struct attention_tensors {
    ATTENTION_MEMBERS(TENSOR_MEMBER)
};
struct attention {
    ATTENTION_MEMBERS(PLACED_MEMBER)
};

struct mlp_tensors {
    MLP_MEMBERS(TENSOR_MEMBER)
};
struct mlp {
    MLP_MEMBERS(PLACED_MEMBER)
};

/* How a layer mixes tokens. Each kind has its own weight struct, operations and cache, whose layers
 * are counted by kind (kv_cache is that of full attention). */
enum layer_kind { LAYER_FULL_ATTENTION, LAYER_KINDS };

struct text_layer_tensors {
    enum layer_kind kind;
    struct attention_tensors attention;
    struct mlp_tensors mlp;
};
struct text_layer {
    enum layer_kind kind;
    struct attention attention;
    struct mlp mlp;
};

/* Pass a struct of weights only as an array: its first member, and the number of members. */
#define TENSORS_OF(s) (struct tensor *)&(s), sizeof(s) / sizeof(struct tensor)

struct affine_tensors { /* y = x · Wᵀ + b */
    struct tensor w, b;
};
struct affine {
    struct placed *w, *b;
};

struct layer_norm_tensors {
    struct tensor w, b;
};
struct layer_norm {
    struct placed *w, *b;
};

struct vision_block_tensors {
    struct layer_norm_tensors norm1, norm2;
    struct affine_tensors qkv, proj, fc1, fc2;
};
struct vision_block {
    struct layer_norm norm1, norm2;
    struct affine qkv, proj, fc1, fc2;
};

struct merger_tensors {
    struct layer_norm_tensors norm;
    struct affine_tensors fc1, fc2;
    bool norm_grouped; /* the norm is over a token's 4 patches together (DeepStack), not over each
                          patch */
};
struct merger {
    struct layer_norm norm;
    struct affine fc1, fc2;
    bool norm_grouped;
};

/* Angles of a rotary embedding: pair j of row i is rotated by position[i, axis[j]] * frequency[j]
 * (float32). */
struct rope {
    const float *frequency; /* [n_pairs] */
    const uint8_t *axis;    /* [n_pairs] 0..2 */
    int n_pairs;
};

/* An image at the model's input size, as bytes, before it is cut into patches. */
struct rgb_image {
    const uint8_t *rgb;    /* [rows · patch, cols · patch, 3] */
    int rows, cols;        /* patches */
    float mean[3], std[3]; /* of values in 0..1 */
};

struct kv_shape {
    int n_layers, n_kv_heads, head_dim, n_blocks;
    bool fp8; /* e4m3 instead of the backend's own type */
};

struct kv_cache {
    dev data; /* [kv_bytes(shape)] */
    struct kv_shape shape;
};

struct backend_limits {
    int max_rows;    /* rows of one call, text step or vision tile */
    int max_seqs;    /* sequences of one step */
    int max_logits;  /* rows of one lm_head() */
    int decode_rows; /* rows of a decode step; 0 for max_rows */
    int max_blocks;  /* KV blocks of one sequence */
    int max_keys;    /* keys an attention row may see */
    int max_width;   /* widest row of any intermediate */
    int max_patches; /* of one image; a multiple of KV_BLOCK */
    bool int4; /* some matrices must be converted to BF16 on a GPU: those in groups, FP8 with row
                  scales, GGUF types */
    bool reordered;        /* columns of some matrices are reordered (tensor.place) */
    bool read_pinned_rows; /* the device should read the embedding and head rows that stay in the
                              file, if it can (reads_pinned_rows()) */
    bool fp8_prompts; /* prompt rows are quantized to e4m3, with a scale per row and 128 columns,
                         for products with block-FP8 matrices without row scales */
    struct text_shape text;
    struct vision_shape vision;
};

struct backend;

/* The number of top-k logits of a row. */
enum { TOPK_LOGITS = 64 };

struct scored_token {
    float logit;
    int32_t id; /* -1 if there are fewer tokens */
};

/* How the device samples a row's next token: the sampler options that it supports, and seed and
 * step for the random number. */
struct token_sampling {
    uint64_t seed, step;
    float temperature, top_p, min_p; /* temperature 0 takes the best */
    int top_k;                       /* 1 .. TOPK_LOGITS */
};

struct topk_logits {
    struct scored_token token[TOPK_LOGITS]; /* best first, the lower id first among equals */
    float logsumexp;                        /* log of the sum of exp of all logits */
};

/* Measured limits of a device. */
struct device_roofline {
    double bandwidth;    /* bytes a second */
    double flops;        /* FLOP/s of multiply-adds with the best instruction in use */
    double vector_flops; /* the same for vectors if the best instruction uses tiles; otherwise 0 */
};

/* A GPU and its memory. */
struct gpu_info {
    char name[160];
    char bus[32]; /* PCI bus id; empty if unknown */
    uint64_t total, free;
    int sm_count, capability;
    double rated_reads; /* bytes a second by memory clock and bus width; 0 if unknown */
};

/* The self-test of a GPU's kernels, family by family, against a reference backend. */
enum { SELFTEST_MAX_KERNELS = 64 };

struct selftest_result {
    char name[32];
    float error; /* relative RMS error; infinite if the kernel gave no result */
    bool absent; /* this kind of GPU has no such kernel */
    bool was_run, failed;
    const char *fallback; /* kernel used instead if it failed; NULL if there is none */
};

struct selftest_report {
    struct selftest_result kernel[SELFTEST_MAX_KERNELS];
    int n, n_failed;
    bool cached;    /* from an earlier run of this build on this kind of GPU */
    double seconds; /* duration */
};

/* ---- what a backend does, in four parts ---- */

/* The math of a forward pass. All entries but the optional ones are required. */
struct compute_ops {
    /* Optional. Fails if the kernels do not support models of this shape. */
    bool (*check_shapes)(const struct text_shape *text, const struct vision_shape *vision,
                         ey_err *e);
    /* Optional. Whether limits.fp8_prompts is possible. If not, *why has the reason, worded to
     * follow "because". *slow: whether prompts are slower with it. */
    bool (*supports_fp8_prompts)(const struct backend *be, bool *slow, ey_err *why);
    /* Waits for all steps; fails if one of them failed. */
    bool (*finish)(struct backend *be, ey_err *e);

    /* ---- text model (spec 3) ---- */
    /* x[n, hidden] = rows of the table, or for visual rows of features[*, hidden]
     * (step->feature) */
    void (*embed)(struct backend *be, dev x, const struct placed *table, dev features,
                  const struct step *step);
    /* table[n, n_pairs, 2] = cos, sin of position[n, 3] */
    void (*rope_table)(struct backend *be, dev table, const struct rope *rope,
                       const int32_t *position, int n);
    /* a = RMSNorm(x); q, k, v = a · Wᵀ (+ bias); each head of q and k is normed (if there are
     * norms) and rotated. k and v go into the cache at each row's slot, q to q[n,
     * n_heads·head_dim] */
    void (*qkv)(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
                const struct attention *w, const struct text_shape *shape, dev rope,
                const struct step *step);
    /* o[n, n_heads·head_dim]: causal attention of each row over slots text_first_key()..index of
     * its sequence */
    void (*attention)(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                      const struct text_shape *shape, const struct step *step);
    /* Optional. qkv() and attention() in one call; q is scratch. */
    void (*qkv_attention)(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                          const struct attention *w, const struct text_shape *shape, dev rope,
                          const struct step *step);
    /* x[n, rows(w)] += in · wᵀ. Here and below, the last n_prompt rows are prompt rows
     * (step_prompt_rows()) */
    void (*project_add)(struct backend *be, dev x, dev in, const struct placed *w, int n,
                        int n_prompt);
    /* h[n, mlp] = silu(a · gateᵀ) ⊙ (a · upᵀ), a = RMSNorm(x; post_norm) */
    void (*gate_up)(struct backend *be, dev h, dev x, const struct mlp *w,
                    const struct text_shape *shape, int n, int n_prompt);
    /* x[i] += features[step->feature[i]] for visual rows */
    void (*add_features)(struct backend *be, dev x, dev features, const struct step *step,
                         int hidden);
    /* logits[n, vocabulary] (device, float32) = RMSNorm(x[rows[i]]) · headᵀ */
    void (*lm_head)(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                    const struct placed *norm, const struct placed *head,
                    const struct text_shape *shape);
    /* Optional. Returns the top-k logits of row `row` of the last lm_head(), after finish().
     * Without it the host reads all logits. */
    void (*topk)(struct backend *be, struct topk_logits *out, int row);

    /* ---- vision encoder (spec 4): rows in merge-block order, n a multiple of a token's patches */
    /* x[n, hidden] = pixels[n, patch_width] · wᵀ + b + the position table, interpolated bilinearly
     * with aligned corners, for patches first .. first+n-1 of an image of rows x cols patches */
    void (*patch_embed)(struct backend *be, dev x, const float *pixels, const struct affine *w,
                        const struct placed *table, const struct vision_shape *shape, int rows,
                        int cols, int first, int n);
    /* Optional. Embeds patches from an image's bytes. Without it the host makes pixels. */
    void (*patch_embed_rgb)(struct backend *be, dev x, const struct rgb_image *image,
                            const struct affine *w, const struct placed *table,
                            const struct vision_shape *shape, int first, int n);
    /* Rows first .. first+n-1 of qkv = LN(x[n, hidden]) · wᵀ + b, with q and k rotated. qkv has
     * room for max_patches rows of 3·hidden; its layout is the backend's choice. */
    void (*vision_qkv)(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                       const struct vision_shape *shape, dev rope, int first, int n);
    /* o[n, hidden]: full attention of rows first .. first+n-1 over all rows of qkv of the same
     * segment. Rows outside of segments are not written. */
    void (*vision_attention)(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                             const struct vision_segment *segments, int n_segments, int first,
                             int n);
    /* h[n, mlp] = gelu_tanh(LN(x; norm2) · fc1ᵀ + b) */
    void (*vision_mlp)(struct backend *be, dev h, dev x, const struct vision_block *w,
                       const struct vision_shape *shape, int n);
    /* x[n, rows(w)] += in · wᵀ + b, for patches */
    void (*vision_project_add)(struct backend *be, dev x, dev in, const struct affine *w, int n);
    /* out[n, out_hidden] = fc2(gelu_erf(fc1(LN and grouping of x[n·4, hidden]))), n tokens */
    void (*merge)(struct backend *be, dev out, dev x, const struct merger *w,
                  const struct vision_shape *shape, int n);
};

/* Progress of refine(). */
struct refine_progress {
    uint64_t bytes;       /* bytes of weights copied so far */
    uint64_t saved_bytes; /* bytes that a step no longer reads, compared with the checkpoint */
};

/* Buffers, weights and the KV cache. All entries but the optional ones are required. */
struct memory_ops {
    size_t element_size[ELEMENT_KINDS]; /* bytes */
    /* reserve() allocates the backend's scratch; scratch_bytes() returns its size. */
    size_t (*scratch_bytes)(const struct backend *be, const struct backend_limits *limits);
    bool (*reserve)(struct backend *be, const struct backend_limits *limits, ey_err *e);
    dev (*alloc)(struct backend *be, size_t bytes, ey_err *e);
    void (*release)(struct backend *be, dev p);
    size_t (*kv_bytes)(const struct backend *be, const struct kv_shape *shape);
    /* Returns the device bytes that place() takes; 0 on backends that use the file's bytes in
     * place. */
    size_t (*weight_bytes)(const struct backend *be, const struct tensor *w,
                           enum placement placement);
    /* Optional. Allocates at once what place(), alloc() and reserve() will need. Without it each
     * call allocates separately. */
    bool (*open_arena)(struct backend *be, uint64_t bytes, ey_err *e);
    /* Makes a weight of the checkpoint, or of a recipe's result, usable by kernels. The placed
     * weight may point into the file, which outlives the backend. The data of a recipe's result is
     * freed after this call if weight_bytes() is not 0. */
    bool (*place)(struct backend *be, struct placed **out, const struct tensor *in,
                  enum weight_role role, enum placement placement, ey_err *e);
    /* Optional. Works for about `seconds` on converting placed weights, whose values stay the same,
     * to a form that steps read faster; 0 only lists the work. Returns false if none is left.
     * Called between steps by the thread that runs them. */
    bool (*refine)(struct backend *be, double seconds, struct refine_progress *progress);
    /* Optional, for streaming. Begins a new group: weights placed as streamed from here on belong
     * together. `bytes` is the size of a group's buffer, that of the largest group. */
    bool (*open_group)(struct backend *be, size_t bytes, ey_err *e);
    /* read() copies n elements as float32, after finish(); write() is the reverse. */
    void (*read)(struct backend *be, float *out, dev in, enum element kind, size_t n);
    void (*write)(struct backend *be, dev out, const float *in, enum element kind, size_t n);
    /* Copies n float32 logits, after finish(). */
    void (*read_logits)(struct backend *be, float *out, const float *in, size_t n);
    /* Returns the address of element n of a buffer. */
    dev (*at)(struct backend *be, dev p, enum element kind, size_t n);
    /* Optional, after reserve(). Whether the device itself reads the rows that PLACE_HOST and
     * PLACE_EIGHT_BIT left in the file. If so, topk() rescores an 8-bit head (backend/rescore.h),
     * and the host looks nothing up. If not, the caller must rescore, and *why_not has the reason
     * if reading pinned rows was requested. */
    bool (*reads_pinned_rows)(const struct backend *be, const char **why_not);
};

/* Captured and speculative steps. Without this table every step is enqueued op by op, and its
 * results are valid after finish(). At most two steps are in flight. */
struct graph_ops {
    /* Capture a step of this shape, with the logits of each row, as a graph instead of running it.
     * capture_begin() returns false if a graph would not be faster. */
    bool (*capture_begin)(struct backend *be, const struct step_shape *shape);
    bool (*capture_end)(struct backend *be, ey_err *e);
    /* Launches the graph of the step's shape. Returns 0 if there is none, or if it does not match
     * the step. */
    step_handle (*launch)(struct backend *be, const struct step *step);
    /* Ends a step that was enqueued op by op; its results are copied to the host. */
    step_handle (*end_step)(struct backend *be);
    /* Launches the next step of the same sequences behind the running one. Each sequence continues
     * with a token that the device samples from the running step's logits (step->token is ignored).
     * The host samples too, and uses this step's results only if both agree. Returns 0 if it is not
     * possible. */
    step_handle (*enqueue_speculative)(struct backend *be, const struct step *step,
                                       const struct token_sampling *sampling);
    /* Waits for this step, not for a step enqueued behind it. */
    bool (*wait)(struct backend *be, step_handle step, ey_err *e);
    /* Makes a speculative step the running one: topk() returns its logits. token[n]: the tokens
     * that the host sampled, which verify() compares. */
    void (*commit)(struct backend *be, step_handle step, const int32_t *token, int n);
    /* Whether the device continued with the committed tokens. Call it after the step's end; true
     * for a step that was not speculative. */
    bool (*verify)(struct backend *be, step_handle step);
    /* Waits for a speculative step and discards it with any error. */
    void (*drop)(struct backend *be, step_handle step);
};

/* A device with memory of its own. Backends in host memory lack this table. */
struct device_ops {
    /* Makes the calling thread the user of the backend; only one thread uses it at a time. The
     * thread that created the backend need not call this. */
    void (*attach)(struct backend *be);
    /* Returns the device and its current memory, including this process's context. */
    bool (*info)(const struct backend *be, struct gpu_info *out, ey_err *e);
    /* Whether the device could read these tensors where they are mapped. Tries it by pinning a page
     * of the head; nothing stays pinned. */
    bool (*can_pin_rows)(struct backend *be, const struct tensor *head, const struct tensor *embed);
    /* Returns the bytes of the arena. */
    size_t (*arena_bytes)(const struct backend *be);
    /* Measures the time to read a slice of the arena. Slows a running step, but does not affect its
     * results. */
    bool (*time_read)(struct backend *be, size_t first, size_t bytes, double *seconds, ey_err *e);
    /* Tests the kernels one by one before anything is allocated; failed ones are not used
     * afterwards. `reference` computes the expected results and must have no weights placed.
     * `again` ignores cached results. Fails if the device cannot be used. */
    bool (*selftest)(struct backend *be, struct backend *reference, bool again,
                     struct selftest_report *out, ey_err *e);
};

struct backend_ops {
    const char *name;                                /* "ref", "cpu" or "cuda" */
    const char *(*detail)(const struct backend *be); /* describes the kernels in use */
    bool (*measure_roofline)(struct backend *be, struct device_roofline *roofline, ey_err *e);
    void (*destroy)(struct backend *be);
    const struct compute_ops *compute;
    const struct memory_ops *memory;
    const struct graph_ops *graph;   /* or NULL */
    const struct device_ops *device; /* or NULL */
};

struct backend {
    const struct backend_ops *ops;
};

#endif
