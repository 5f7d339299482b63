/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the CUDA backend: one card, one stream, one arena. Steps enqueue launches; the
 * first call that fails is remembered and told by finish(). Nothing is allocated after reserve().
 */
#ifndef EY_CUDA_CUDA_H
#define EY_CUDA_CUDA_H

#include "backend/cuda/driver.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/sizes.h"
#include "base/pool.h"

enum { FP8_CAPABILITY = 89 }; /* the first whose matrix unit takes e4m3 */
enum {
    MAX_KERNELS = 256,
    MAX_IMAGES = 32,
    MAX_GROUPS = 64,
    MAX_GRAPHS = SMALL_ROWS + 1,
    MAX_REGISTERED = 2
};

/* A step's batch on the card, and its twin in pinned memory. */
struct batch_region {
    struct batch_layout layout;
    int32_t *card;
    int32_t *host; /* the twin */
    int rows;
    struct batch copied; /* what lies there; n_rows 0: nothing that can be trusted */
    int n_tiles;
};

/* A matrix that comes to the card when it is needed. */
struct streamed {
    struct weight from; /* in the file */
    struct weight to;   /* its place in the slot */
    int group;
};

/* A placed matrix whose codes may turn out to hold NaN: then it is placed again, row-major. */
struct packed_fp8 {
    struct weight *out;
    struct weight from;
};

struct cuda {
    struct backend base;
    struct cuda_driver driver;
    struct pool *pool;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    int sm_count, capability; /* 90: 9.0 */
    int sm_shared;            /* bytes of shared memory that an SM has */
    bool wide_gemm;           /* the kernels of gemm_sm90.cu are there */
    bool e4m3_gemm;           /* those of gemm_sm89.cu */
    bool sees_pinned;         /* kernels may use pinned memory of the host by its address */
    bool dependent_launch;    /* kernels may start before the one before has ended … */
    bool weights_changed;     /* … but not the next one: they read weights before they wait */
    char detail[160];

    CUmodule module[MAX_IMAGES];
    int n_modules;
    struct {
        const char *name;
        CUfunction function;
    } kernel[MAX_KERNELS]; /* sorted by name */
    int n_kernels;

    ey_err error; /* of the first step that failed since finish() */

    /* memory */
    char *arena; /* NULL: each allocation for itself */
    size_t arena_size, arena_used;
    bool loading;  /* the arena's end is staging */
    void *staging; /* [LOAD_STAGING] on the card */
    bool staging_own;
    char *pinned[UPLOAD_PLACES];
    CUevent pinned_free[UPLOAD_PLACES]; /* what was in it has left it */
    int next_pinned;
    uint32_t *nan_found; /* on the card, [max_packed] while loading */
    struct packed_fp8 *packed;
    int n_packed, max_packed;

    /* streamed weights */
    struct streamed *streamed;
    int n_streamed, max_streamed, n_groups;
    char *group_place[2]; /* on the card */
    size_t group_size, group_used;
    int group_held[2]; /* which group lies there; -1: none */

    /* reserved */
    struct backend_limits limits;
    char *scratch[SCRATCH_BUFFERS];
    char *scratch_memory;
    struct batch_region small, large;
    const struct weight *host_table; /* the embedding's, where it stays in the file */
    struct weight
        stored_head;    /* rows of an 8-bit head in the file; data NULL: the head is as stored */
    struct registered { /* the file's pages with these in them, where the card reads them itself */
        const char *host; /* page-aligned */
        const char *card; /* their address there */
        size_t bytes;
    } registered[MAX_REGISTERED];
    int n_registered;       /* 0: the host looks rows up, and scores candidates again */
    char rows_problem[160]; /* why the card does not read them, where it was to */
    /* Two of each by turns, because a step may be put behind one whose results were not looked at
     * yet. */
    struct outcome {
        int32_t *small; /* pinned: the small region's twin of this turn */
        char *results;  /* pinned: struct outcome_layout of it */
        CUevent done;   /* when they have come */
        int n_taken;    /* rows of a step that was put behind and then taken; 0: it was none */
        int32_t taken[SMALL_ROWS]; /* the tokens that it should have gone on with */
    } outcome[2];
    int turn;           /* whose results come next */
    int shown;          /* whose results best() shows */
    char *pinned_small; /* what all of this lies in */

    CUevent probe[2];         /* probe.c: before and after a read */
    uint64_t failed_families; /* kernels that are not used: a bit an enum cuda_family (check.h) */

    /* recorded steps */
    CUgraphExec graph[MAX_GRAPHS];
    int recording; /* sequences of the step being written down; 0: none */
    bool eager;
};

static inline struct cuda *cuda_of(struct backend *be)
{
    return (struct cuda *)be;
}

/* ---- cuda.c ---- */
/* On a driver that is open already; it is the backend's from here on. */
bool backend_cuda_create_on(struct backend **be, const struct cuda_driver *driver,
                            struct pool *pool, bool eager, ey_err *e);
bool cuda_check(struct cuda *c, CUresult result,
                const char *what); /* remembers the first failure */
bool cuda_take_error(struct cuda *c,
                     ey_err *e); /* false: there was one since this was asked last */
void cuda_launch(struct cuda *c, const struct launch *l, const void *args);
/* On the card; from the arena when there is one. */
void *cuda_alloc(struct cuda *c, size_t bytes, const char *what, ey_err *e);

/* Room of SCRATCH_WIDE. */
size_t cuda_wide_bytes(const struct cuda *c);

/* ---- probe.c ---- */
void cuda_probe_close(struct cuda *c);
/* Bytes a second by the memory's clock and width; 0: the driver does not say. */
double cuda_rated_reads(const struct cuda *c);

/* ---- upload.c ---- */
bool cuda_upload_open(struct cuda *c, ey_err *e);
void cuda_upload_close(struct cuda *c);
/* Host memory → card, through the pinned ring; the source is free again when this returns. */
void cuda_upload(struct cuda *c, void *to, const void *from, size_t bytes);

/* ---- stored.c ---- */
/* Lets the card read the rows that stay in the file, where it can; all of them, or c->rows_problem
 * says why none. */
void cuda_register_rows(struct cuda *c);
void cuda_unregister_rows(struct cuda *c);
/* The card's address of a registered row, or of anything else in those pages; NULL: it is in none.
 */
const void *cuda_registered(const struct cuda *c, const void *host);
bool cuda_reads_stored(const struct backend *be, const char **why_not);

/* ---- place.c ---- */
bool cuda_place(struct backend *be, struct weight *out, const struct weight *in,
                enum placement placement, ey_err *e);
bool cuda_open_group(struct backend *be, size_t bytes, ey_err *e);
/* cuda_multiplier_bytes() of an int4 matrix in host memory, as kernels.h describes them; returns
 * their unit. */
float cuda_make_multipliers(uint16_t *out, const struct weight *w);
bool cuda_finish_loading(struct cuda *c, ey_err *e);
/* The matrix as kernels see it; a streamed one is brought. */
struct dev_matrix cuda_matrix(struct cuda *c, const struct weight *w);

/* ---- batch.c ---- */
bool cuda_batches_open(struct cuda *c, ey_err *e);
/* The batch on the card. */
const struct batch_region *cuda_batch(struct cuda *c, const struct batch *batch);
struct dev_batch cuda_rows(const struct batch_region *r, const struct batch *batch);
/* One row each of n sequences, in order, few enough for the decode kernels. */
bool cuda_is_decode(const struct batch *batch);
bool cuda_record_begin(struct backend *be, int n_seqs);
bool cuda_record_end(struct backend *be, ey_err *e);
bool cuda_replay(struct backend *be, const struct batch *batch, int n_out);
bool cuda_replay_next(struct backend *be, const struct batch *batch,
                      const struct token_draw *draws);
bool cuda_finish_one(struct backend *be, ey_err *e);
void cuda_take_next(struct backend *be, const int32_t *token, int n);
/* Sends the step's outcome to the host, as this turn's. */
void cuda_send_outcome(struct cuda *c);
bool cuda_was_right(struct backend *be);

/* ---- linear.c ---- */
/* y = product of x bf16[n, k] (with the norm's: of RMSNorm(x f32[n, k])) and the segments'
 * matrices. */
struct product {
    const struct weight *w[MAX_SEGMENTS];
    const struct weight *bias[MAX_SEGMENTS];
    void *y[MAX_SEGMENTS];
    int n_segments;
    enum linear_out out;
    const void *x;
    int n, k, ldy;             /* ldy: elements from row to row of every y; 0: the matrix's rows */
    const struct weight *norm; /* NULL: x is bf16 as it is */
    float eps;
    const int32_t *gather; /* on the card */
    int n_prompt;          /* the last so many rows are of prompts */
};
void cuda_multiply(struct cuda *c, const struct product *p);
/* y bf16[n, width] = LayerNorm(x f32[n, width]) */
void cuda_layer_norm(struct cuda *c, void *y, const void *x, const struct layer_norm *norm, int n,
                     float eps);

/* ---- text.c ---- */
void cuda_look_up(struct cuda *c, const struct batch *batch);
void cuda_embed(struct backend *be, dev x, const struct weight *table, dev features,
                const struct batch *batch);
void cuda_rope_table(struct backend *be, dev table, const struct rope *rope,
                     const int32_t *position, int n);
void cuda_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
              const struct decoder_layer *w, const struct text_shape *shape, dev rope,
              const struct batch *batch);
void cuda_attend(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                 const struct text_shape *shape, const struct batch *batch);
void cuda_qkv_attend(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                     const struct decoder_layer *w, const struct text_shape *shape, dev rope,
                     const struct batch *batch);
void cuda_project_add(struct backend *be, dev x, dev in, const struct weight *w, int n,
                      int n_prompt);
void cuda_gate_up(struct backend *be, dev h, dev x, const struct decoder_layer *w,
                  const struct text_shape *shape, int n, int n_prompt);
void cuda_add_features(struct backend *be, dev x, dev features, const struct batch *batch,
                       int hidden);
void cuda_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
               const struct weight *norm, const struct weight *head,
               const struct text_shape *shape);
void cuda_best(struct backend *be, struct best_logits *out, int row);

/* ---- vision.c ---- */
void cuda_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                      const struct weight *table, const struct vision_shape *shape, int rows,
                      int cols, int first, int n);
void cuda_patch_embed_rgb(struct backend *be, dev x, const struct rgb_picture *picture,
                          const struct affine *w, const struct weight *table,
                          const struct vision_shape *shape, int first, int n);
void cuda_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                     const struct vision_shape *shape, dev rope, int first, int n);
void cuda_vision_attend(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                        int first, int n, int n_keys);
void cuda_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                     const struct vision_shape *shape, int n);
void cuda_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n);
void cuda_merge(struct backend *be, dev out, dev x, const struct merger *w,
                const struct vision_shape *shape, int n);

#endif
