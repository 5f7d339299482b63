/* SPDX-License-Identifier: Apache-2.0 */
/* The narrow waist: everything a model's forward pass asks of a device, one function a fused step.
 *
 * A family's forward pass (src/models) is written once against this table; `ref` (plain C in
 * float32, kept as the truth of every test) and `cpu` implement it. Work is enqueued in order;
 * finish() waits and says whether all went well. Buffers are made by alloc() before the first step,
 * never afterwards; a `dev` pointer is only ever handed back to the backend that made it. Shapes in
 * comments are row-major; [n] rows of a call are independent. On `ref` and `cpu` a row's bits do
 * not depend on which other rows are in the call; on a GPU its kernels, and so its rounding, depend
 * on how many there are. */
#ifndef EY_BACKEND_H
#define EY_BACKEND_H

#include "backend/model_shape.h"
#include "backend/step.h"
#include "tensor/tensor.h"
#include "base/err.h"
#include "base/pool.h"

typedef void *dev; /* activations on the device */

/* What a buffer holds. A backend has a type of its own for each. */
enum element { ELEMENT_RESIDUAL, ELEMENT_ACTIVATION, ELEMENT_ROPE, ELEMENT_FEATURE, ELEMENT_KINDS };

/* Where and how a weight lies. Backends in host memory use the file's bytes whatever is said here.
 */
enum placement {
    PLACE_RESIDENT,  /* on the device */
    PLACE_EIGHT_BIT, /* on the device as int8 rows with a scale each: a head whose best candidates
                        are scored again from the file's rows (reads_pinned_rows()) */
    PLACE_HOST,     /* stays in the file: an embedding whose rows are looked up by the host, or read
                       there by the device (reads_pinned_rows()) */
    PLACE_STREAMED, /* comes to the device when its group (open_group()) is needed, into one of two
                       places */
};

/* What a weight is for. */
enum weight_role {
    ROLE_EMBED,
    ROLE_TEXT,      /* a text model's layers and final norm */
    ROLE_ATTENTION, /* q, k and v: what attention's softmax is sharp on */
    ROLE_HEAD,      /* the LM head */
    ROLE_VISION     /* read once per image */
};

/* What a backend made of a weight when it was placed: the backend's own, opaque to everyone else,
 * and there for as long as the backend is. */
struct placed;

/* Weights of a model come in pairs of structs with the same members in the same order: what the
 * file says (`*_tensors`, of struct tensor), and what the backend made of it (of struct placed *).
 */
/* clang-format off */
#define ATTENTION_MEMBERS(X)                                        \
    X(input_norm) X(q) X(k) X(v) X(q_bias) X(k_bias) X(v_bias)      \
    X(q_norm) X(k_norm) X(o)
#define MLP_MEMBERS(X) X(post_norm) X(gate) X(up) X(down)
/* clang-format on */
#define TENSOR_MEMBER(name) struct tensor name;
#define PLACED_MEMBER(name) struct placed *name;

/* Without data, or NULL, where a family has none of them: biases of q, k and v, norms of their
 * heads. */
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

/* How a layer mixes tokens. Each kind has a weight struct and operations of its own, and a cache
 * whose layers are counted by kind (kv_cache: full attention's). */
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

/* A struct that holds nothing but weights as an array: its first, and how many there are. */
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
    bool norm_grouped; /* the norm is over the 4 patches of a token together (DeepStack), not patch
                          by patch */
};
struct merger {
    struct layer_norm norm;
    struct affine fc1, fc2;
    bool norm_grouped;
};

/* Angles of a rotary embedding: row i, pair j turns by position[i, axis[j]] * frequency[j]
 * (float32). */
struct rope {
    const float *frequency; /* [n_pairs] */
    const uint8_t *axis;    /* [n_pairs] 0..2 */
    int n_pairs;
};

/* An image of the model's size, as bytes: what patches are cut from. */
struct rgb_image {
    const uint8_t *rgb;    /* [rows · patch, cols · patch, 3] */
    int rows, cols;        /* patches */
    float mean[3], std[3]; /* of values 0..1 */
};

struct kv_shape {
    int n_layers, n_kv_heads, head_dim, n_blocks;
    bool fp8; /* e4m3 instead of the backend's own type */
};

struct kv_cache {
    dev data; /* ref_kv_bytes() of it */
    struct kv_shape shape;
};

struct backend_limits {
    int max_rows;          /* rows of one call, text step or vision tile */
    int max_seqs;          /* sequences of one step */
    int max_logits;        /* rows of one lm_head() */
    int decode_rows;       /* rows of one step of a token a sequence; 0: as max_rows */
    int max_blocks;        /* KV blocks of one sequence */
    int max_keys;          /* keys an attention row may see */
    int max_width;         /* widest row of any intermediate */
    int max_patches;       /* of one image; a multiple of KV_BLOCK */
    bool int4;             /* among the weights are matrices that a GPU makes BF16 of: in groups,
                              FP8 with a scale for each row, or GGUF's */
    bool reordered;        /* columns of some lie in another order (tensor.place) */
    bool read_pinned_rows; /* the device is to read what stays of embedding and head in the file
                         itself, where it can (reads_pinned_rows()) */
    bool fp8_prompts; /* rows of prompts are quantised to e4m3, by rows and blocks of 128 columns,
                         where they meet block-FP8 matrices */
    struct text_shape text;
    struct vision_shape vision;
};

struct backend;

/* The best of a row of logits. */
enum { TOPK_LOGITS = 64 };

struct scored_token {
    float logit;
    int32_t id; /* -1: there are fewer tokens */
};

/* How a row's next token is drawn: the sampler's options that the device knows, and its random
 * number. */
struct token_sampling {
    uint64_t seed, step;
    float temperature, top_p, min_p; /* temperature 0: the best */
    int top_k;                       /* 1 .. TOPK_LOGITS */
};

struct topk_logits {
    struct scored_token token[TOPK_LOGITS]; /* the best first, the lower id first among equals */
    float logsumexp;                        /* log of the sum of exp of all logits */
};

/* What a device can do at most now, measured. */
struct device_roofline {
    double bandwidth;    /* bytes a second */
    double flops;        /* of multiply-adds, a second, with the best instruction in use */
    double vector_flops; /* the same of vectors where the best is of tiles; 0: it is not */
};

/* A GPU and its memory. */
struct gpu_info {
    char name[160];
    char bus[32]; /* where it is plugged in; "": not known */
    uint64_t total, free;
    int sm_count, capability;
    double rated_reads; /* bytes a second by its clock and width; 0: not known */
};

/* The self-test of a GPU's kernels, family by family, against a reference. */
enum { SELFTEST_MAX_KERNELS = 64 };

struct selftest_result {
    char name[32];
    float error; /* relative, root mean square; infinite if the kernel returned none */
    bool absent; /* this kind of GPU has no such kernel */
    bool was_run, failed;
    const char *fallback; /* what is used where it failed; NULL: nothing can be */
};

struct selftest_report {
    struct selftest_result kernel[SELFTEST_MAX_KERNELS];
    int n, n_failed;
    bool cached;    /* from an earlier run of this build on this kind of GPU */
    double seconds; /* that it took */
};

/* ---- what a backend does, in four parts ---- */

/* The math of a forward pass. Required, but for entries marked optional. */
struct compute_ops {
    /* Optional; NULL: the kernels take models of any shape. False: they don't, and *e says why. */
    bool (*check_shapes)(const struct text_shape *text, const struct vision_shape *vision,
                         ey_err *e);
    /* Optional; NULL: limits.fp8_prompts is not possible. False: *why has the reason, as behind
     * "because". *slow: it costs time there. */
    bool (*supports_fp8_prompts)(const struct backend *be, bool *slow, ey_err *why);
    /* Waits for all steps; false: one of them failed. */
    bool (*finish)(struct backend *be, ey_err *e);

    /* ---- text model (spec 3) ---- */
    /* x[n, hidden] = rows of the table, or of features[*, hidden] where step->feature says so */
    void (*embed)(struct backend *be, dev x, const struct placed *table, dev features,
                  const struct step *step);
    /* table[n, n_pairs, 2] = cos, sin of position[n, 3] */
    void (*rope_table)(struct backend *be, dev table, const struct rope *rope,
                       const int32_t *position, int n);
    /* a = RMSNorm(x); q, k, v = a · Wᵀ (+ bias); q, k per head normed (where there are norms) and
     * turned; k, v into the cache at each row's slot; q[n, n_heads·head_dim] */
    void (*qkv)(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
                const struct attention *w, const struct text_shape *shape, dev rope,
                const struct step *step);
    /* o[n, n_heads·head_dim]: causal attention of each row over slots text_first_key()..index of
     * its sequence */
    void (*attention)(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                      const struct text_shape *shape, const struct step *step);
    /* Optional; NULL: qkv() and attention() are called. q is scratch. */
    void (*qkv_attention)(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                          const struct attention *w, const struct text_shape *shape, dev rope,
                          const struct step *step);
    /* x[n, rows(w)] += in · wᵀ. The last n_prompt rows are of prompts (step_prompt_rows()), also
     * below */
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
    /* Optional; NULL: the host reads all logits. The top-k logits of row `row` of the last
     * lm_head(); after finish(). */
    void (*topk)(struct backend *be, struct topk_logits *out, int row);

    /* ---- vision encoder (spec 4); rows in merge-block order, n a multiple of a token's patches
     * ----
     */
    /* x[n, hidden] = pixels[n, patch_width] · wᵀ + b + the position table, bilinear with aligned
     * corners, at the patches first .. first+n-1 of an image of rows x cols patches */
    void (*patch_embed)(struct backend *be, dev x, const float *pixels, const struct affine *w,
                        const struct placed *table, const struct vision_shape *shape, int rows,
                        int cols, int first, int n);
    /* Optional; NULL: the host makes pixels of it. The same from the image itself. */
    void (*patch_embed_rgb)(struct backend *be, dev x, const struct rgb_image *image,
                            const struct affine *w, const struct placed *table,
                            const struct vision_shape *shape, int first, int n);
    /* Rows first .. first+n-1 of qkv = LN(x[n, hidden]) · wᵀ + b, q and k turned. How queries, keys
     * and values lie in qkv, which has room for max_patches rows of 3·hidden, is the backend's
     * affair. */
    void (*vision_qkv)(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                       const struct vision_shape *shape, dev rope, int first, int n);
    /* o[n, hidden]: full attention of rows first .. first+n-1 over all rows of qkv of the same
     * segment. Rows of none get anything. */
    void (*vision_attention)(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                             const struct vision_segment *segments, int n_segments, int first,
                             int n);
    /* h[n, mlp] = gelu_tanh(LN(x; norm2) · fc1ᵀ + b) */
    void (*vision_mlp)(struct backend *be, dev h, dev x, const struct vision_block *w,
                       const struct vision_shape *shape, int n);
    /* x[n, rows(w)] += in · wᵀ + b, of patches */
    void (*vision_project_add)(struct backend *be, dev x, dev in, const struct affine *w, int n);
    /* out[n, out_hidden] = fc2(gelu_erf(fc1(LN and grouping of x[n·4, hidden]))), n tokens */
    void (*merge)(struct backend *be, dev out, dev x, const struct merger *w,
                  const struct vision_shape *shape, int n);
};

/* What refine() has done so far. */
struct refine_progress {
    uint64_t bytes;       /* of weights that were copied */
    uint64_t saved_bytes; /* that a step reads less than the checkpoint stores */
};

/* Buffers, weights and the KV cache. Required, but for entries marked optional. */
struct memory_ops {
    size_t element_size[ELEMENT_KINDS]; /* bytes */
    /* Scratch of the backend's own; scratch_bytes() says how much reserve() will take. */
    size_t (*scratch_bytes)(const struct backend *be, const struct backend_limits *limits);
    bool (*reserve)(struct backend *be, const struct backend_limits *limits, ey_err *e);
    dev (*alloc)(struct backend *be, size_t bytes, ey_err *e);
    void (*release)(struct backend *be, dev p);
    size_t (*kv_bytes)(const struct backend *be, const struct kv_shape *shape);
    /* What place() takes of the device's memory; 0 on backends that use the file's bytes where they
     * are. */
    size_t (*weight_bytes)(const struct backend *be, const struct tensor *w,
                           enum placement placement);
    /* Optional; NULL: each call takes its own. All that place(), alloc() and reserve() will take,
     * at once. */
    bool (*open_arena)(struct backend *be, uint64_t bytes, ey_err *e);
    /* Makes a weight of the checkpoint, or of a recipe's result, usable by kernels. The result may
     * point into the file, which outlives the backend; one that was made by a recipe is not there
     * any more when a backend with weight_bytes() of its own returns. */
    bool (*place)(struct backend *be, struct placed **out, const struct tensor *in,
                  enum weight_role role, enum placement placement, ey_err *e);
    /* Optional; NULL: placed weights stay as they are. Works for about `seconds` (0: finds out what
     * there is to do) on the form in which steps read placed weights, which keep their values.
     * False: nothing is left. Called between steps, by the thread that runs them. */
    bool (*refine)(struct backend *be, double seconds, struct refine_progress *progress);
    /* Optional; NULL: nothing streams. Weights placed as streamed from here on belong together; the
     * place of a group has `bytes`, the largest group's. */
    bool (*open_group)(struct backend *be, size_t bytes, ey_err *e);
    /* After finish(): n elements as float32. */
    void (*read)(struct backend *be, float *out, dev in, enum element kind, size_t n);
    void (*write)(struct backend *be, dev out, const float *in, enum element kind, size_t n);
    /* After finish(): float32 as it is. */
    void (*read_logits)(struct backend *be, float *out, const float *in, size_t n);
    /* The address of element n of a buffer. */
    dev (*at)(struct backend *be, dev p, enum element kind, size_t n);
    /* Optional; NULL: never. Whether the device reads the rows that PLACE_HOST and PLACE_EIGHT_BIT
     * left in the file itself; after reserve(). Then topk() of an 8-bit head is scored again
     * (backend/rescore.h) and nothing is looked up by the host; otherwise the former is the
     * caller's affair, and *why_not says why if it was requested. */
    bool (*reads_pinned_rows)(const struct backend *be, const char **why_not);
};

/* Captured and speculative steps. Optional as a whole; NULL: every step is enqueued op by op, and
 * its results are there after finish(). At most two steps are under way. */
struct graph_ops {
    /* Captures a step of this shape, with the logits of each row, as a graph instead of running
     * it. begin returns false if the step is not worth a graph. */
    bool (*capture_begin)(struct backend *be, const struct step_shape *shape);
    bool (*capture_end)(struct backend *be, ey_err *e);
    /* Launches the graph of the step's shape. 0: there is none, or it does something else. */
    step_handle (*launch)(struct backend *be, const struct step *step);
    /* Ends a step that was enqueued op by op; its results go to the host. */
    step_handle (*end_step)(struct backend *be);
    /* Launches the next step of the same sequences behind the running one. Each continues with a
     * token that the device samples from the running step's logits (step->token is ignored). The
     * host samples too and uses this step's results only where both agree. 0: not possible. */
    step_handle (*enqueue_speculative)(struct backend *be, const struct step *step,
                                       const struct token_sampling *sampling);
    /* Waits for a step, but for none behind it. */
    bool (*wait)(struct backend *be, step_handle step, ey_err *e);
    /* A speculative step is the running one from here on: topk() returns its logits. `token` [n]:
     * what the host sampled, checked by verify(). */
    void (*commit)(struct backend *be, step_handle step, const int32_t *token, int n);
    /* Whether the device continued with the tokens that were committed; after the step's end. Also
     * true of a step that was not speculative. */
    bool (*verify)(struct backend *be, step_handle step);
    /* Waits for a speculative step and forgets it, and an error of its own. */
    void (*drop)(struct backend *be, step_handle step);
};

/* A device with memory of its own. Optional as a whole; NULL: the host. */
struct device_ops {
    /* The calling thread will use the backend; one at a time does. The one that made it need not
     * call this. */
    void (*attach)(struct backend *be);
    /* The device and its memory now, this process's context included. */
    bool (*info)(const struct backend *be, struct gpu_info *out, ey_err *e);
    /* Whether the device could read these where they are mapped. Pins a page of each to find out;
     * nothing stays pinned. */
    bool (*can_pin_rows)(struct backend *be, const struct tensor *head, const struct tensor *embed);
    /* Bytes of the arena. */
    size_t (*arena_bytes)(const struct backend *be);
    /* The time to read a slice of the arena. A running step is slowed, not disturbed. */
    bool (*time_read)(struct backend *be, size_t first, size_t bytes, double *seconds, ey_err *e);
    /* Tests the kernels one by one, before anything is allocated: those that fail are not used from
     * here on. `reference`, on which nothing is placed yet, says what is right. `again` ignores
     * cached results. False: the device cannot be used. */
    bool (*selftest)(struct backend *be, struct backend *reference, bool again,
                     struct selftest_report *out, ey_err *e);
};

struct backend_ops {
    const char *name;                                /* "ref", "cpu" or "cuda" */
    const char *(*detail)(const struct backend *be); /* which kernels */
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
