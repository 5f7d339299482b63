/* The memory plan: what an engine will allocate, from the model's shapes, the limits and what the backend says of sizes.
 * A pure function: it allocates nothing and touches no device; the engine then allocates exactly this. */
#ifndef EY_PLAN_H
#define EY_PLAN_H

#include "backend/backend.h"
#include "models/vision.h"

/* What the caller may say; 0: the default. Checked here. */
struct plan_limits {
    int max_model_len, kv_tokens, max_num_seqs, max_num_batched_tokens, max_images;
};

enum plan_row {
    PLAN_WEIGHTS,  /* mapped from the file */
    PLAN_KV,
    PLAN_IMAGES,   /* merged features and DeepStack levels */
    PLAN_SHARED,   /* workspace of the tower or of a prefill chunk: they never run at the same time */
    PLAN_STEP,     /* workspace of decode, which goes on beside a tower */
    PLAN_LOGITS,
    PLAN_SCRATCH,  /* the kernels' own */
    PLAN_HOST,     /* pixels, sampling, tables */
    PLAN_ROWS
};

struct plan {
    int max_model_len; /* tokens of one request */
    int kv_tokens;     /* of all requests */
    int max_num_seqs, max_images;
    int max_blocks;    /* KV blocks of one request */
    int max_rows;      /* of a prefill chunk or a vision tile */
    int step_rows;     /* of a decode step beside a tower */
    int max_visual;    /* visual tokens of one request */
    int max_patches;   /* of one picture */
    int feature_rows;  /* of the image cache */
    struct kv_shape kv;
    struct backend_limits limits;
    uint64_t bytes[PLAN_ROWS];
    uint64_t allocated; /* all but the mapped weights */
};

/* False: a limit that cannot be, with its range. */
bool plan_make(struct plan *plan, const struct model *model, const struct backend *be, const struct plan_limits *limits, ey_err *e);

ey_plan_item plan_item(const struct plan *plan, enum plan_row row);

/* The longest context, a multiple of a KV block, whose plan takes at most `budget` bytes; 0: none. */
int plan_longest_context(const struct model *model, const struct backend *be, const struct plan_limits *limits, uint64_t budget);

/* Elements of the workspaces' buffers, each aligned, in the order in which they lie. */
enum { STEP_X, STEP_Q, STEP_O, STEP_H, STEP_ROPE, STEP_BUFFERS };
enum { TOWER_X, TOWER_QKV, TOWER_O, TOWER_H, TOWER_ROPE, TOWER_BUFFERS };
void plan_step_elements(size_t out[STEP_BUFFERS], const struct text_shape *shape, int rows);
void plan_tower_elements(size_t out[TOWER_BUFFERS], const struct vision_shape *shape, int rows, int patches);

#endif
