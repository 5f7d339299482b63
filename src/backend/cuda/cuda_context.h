/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the CUDA backend: one GPU, one stream, one arena. Steps enqueue launches; the first
 * call that fails is remembered and returned by finish(). Nothing is allocated after reserve(). */
#ifndef EY_CUDA_CONTEXT_H
#define EY_CUDA_CONTEXT_H

#include "backend/cuda/cuda_driver.h"
#include "kernels/cuda/common/launch.h"
#include "backend/cuda/cuda_sizes.h"
#include "base/buf.h"
#include "base/pool.h"

enum { FP8_CAPABILITY = 89 }; /* the first whose matrix unit takes e4m3 */
enum { MAX_MODULES = 32, MAX_GROUPS = 64, MAX_GRAPHS = SMALL_ROWS, MAX_PINNED_RANGES = 2 };

/* A step on the GPU, and its copy in pinned host memory. */
struct step_region {
    struct step_layout layout;
    int32_t *device;
    int32_t *host; /* the twin */
    int rows;
    struct step copied; /* what lies there; n_rows 0: nothing that can be trusted */
};

/* struct placed of this backend. */
struct cuda_weight {
    struct dev_matrix matrix; /* as kernels see it; vectors are float32 */
    int group;                /* 0: always there; else 1 + the streamed group that it comes with */
    bool in_file;             /* matrix.data is the file's: host_embedding */
};

static inline struct cuda_weight *cuda_weight_of(const struct placed *w)
{
    return (struct cuda_weight *)(uintptr_t)w;
}

/* The values of a vector on the GPU; NULL: there is none. */
static inline const float *cuda_vector(const struct placed *w)
{
    return w ? (const float *)cuda_weight_of(w)->matrix.data : NULL;
}

static inline int cuda_cols(const struct placed *w)
{
    return cuda_weight_of(w)->matrix.cols;
}

static inline int cuda_rows(const struct placed *w)
{
    return cuda_weight_of(w)->matrix.rows;
}

/* A matrix that is uploaded when its group is needed. */
struct streamed_weight {
    struct tensor from;     /* in the file */
    struct cuda_weight *to; /* its place in the slot */
};

/* An uploaded FP8 matrix, kept until loading ends: if it holds NaN it is uploaded again,
 * row-major. */
struct packed_fp8 {
    struct cuda_weight *out;
    struct tensor from;
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
    bool has_gemm_sm90;       /* the kernels of gemm_wgmma_sm90.cu are there */
    bool has_small_sm90;      /* those of matmul_small_sm90.cu */
    bool has_vision_sm90;     /* attention_vision_sm90.cu's */
    bool has_gemm_w8a8;       /* those of gemm_w8a8_sm89.cu */
    bool sees_pinned;         /* kernels may use pinned memory of the host by its address */
    bool dependent_launch;    /* kernels may start before the one before has ended … */
    bool weights_changed;     /* … but not the next one: they read weights before they wait */
    char detail[160];

    CUmodule module[MAX_MODULES];
    int n_modules;
    CUfunction function[GPU_KERNELS]; /* NULL: this kind of GPU, or this build, lacks the kernel */

    ey_err error; /* of the first step that failed since finish() */

    /* memory */
    char *arena; /* NULL: each allocation for itself */
    size_t arena_size, arena_used;
    bool loading;  /* the arena's end is staging */
    void *staging; /* [LOAD_STAGING] on the GPU */
    bool staging_own;
    char *upload_buffer[UPLOAD_BUFFERS];
    CUevent upload_done[UPLOAD_BUFFERS]; /* what was in it has left it */
    int next_upload_buffer;
    uint32_t *nan_found; /* on the GPU, [max_packed] while loading */
    struct packed_fp8 *packed;
    int n_packed, max_packed;

    /* streamed weights */
    struct streamed_weight *streamed;
    int n_streamed, max_streamed, n_groups;
    char *group_buffer[2]; /* on the GPU */
    size_t group_size, group_used;
    int group_in_buffer[2]; /* which group lies there; -1: none */

    /* reserved */
    struct backend_limits limits;
    char *scratch[SCRATCH_BUFFERS];
    char *scratch_memory;
    size_t parts_bytes; /* of SCRATCH_PARTS */
    struct step_region small, large;
    struct arena placed;          /* the weights */
    struct tensor host_embedding; /* data NULL: it does not stay in the file */
    struct tensor
        bf16_head;        /* rows of an 8-bit head in the file; data NULL: the head is as stored */
    struct pinned_range { /* the file's pages with these in them, where the GPU reads them itself */
        const char *host; /* page-aligned */
        const char *device; /* their address there */
        size_t bytes;
    } pinned_range[MAX_PINNED_RANGES];
    int n_pinned_ranges;           /* 0: the host looks rows up, and rescores the top-k logits */
    char pinned_rows_problem[160]; /* why the GPU does not read them, where it was to */
    /* Two, used in turn: a step may be enqueued behind one whose results were not read yet. */
    struct step_output {
        int32_t *small;  /* pinned: the small region's twin of this turn */
        char *results;   /* pinned: struct step_output_layout of it */
        CUevent done;    /* when they have come */
        int n_committed; /* rows of a step that was put behind and then taken; 0: it was none */
        int32_t committed[SMALL_ROWS]; /* the tokens that it should have gone on with */
    } step_output[2];
    int turn;                 /* whose results come next */
    int shown;                /* whose results best() shows */
    char *pinned_step_memory; /* what all of this lies in */

    CUevent read_timer[2];      /* cuda_bandwidth.c: before and after a read */
    bool launched[GPU_KERNELS]; /* since the self-test looked */
    uint64_t failed_families;   /* that are not used: a bit an enum gpu_family */

    /* Sums that a matmul left as parts. They belong to x, and whoever launches a kernel next adds
     * them up. */
    struct pending_parts {
        float *x; /* [n, width]; NULL: there are none */
        int n, width, splits, tokens;
    } pending;

    /* captured steps */
    struct captured_step {
        struct step_shape shape;
        CUgraphExec graph;
    } captured[MAX_GRAPHS];
    int n_captured;
    bool capturing; /* the launches of captured[n_captured] */
    bool eager;
};

static inline struct cuda *cuda_of(struct backend *be)
{
    return (struct cuda *)be;
}

/* ---- cuda_context.c ---- */
/* Opens the device, its context and stream, and loads all kernels. */
bool cuda_context_open(struct cuda *c, ey_err *e);
bool cuda_check_call(struct cuda *c, CUresult result,
                     const char *what); /* remembers the first failure */
bool cuda_take_error(struct cuda *c,
                     ey_err *e); /* false: there was one since this was asked last */
void cuda_launch(struct cuda *c, const struct launch *l, const void *args);
/* Adds up what is pending. Before anything but a launch uses what the kernels made. */
void cuda_add_pending(struct cuda *c);
/* What make_planes needs to do it, on the way; nothing is pending any more. */
struct planes_args cuda_take_pending(struct cuda *c);
/* On the GPU; from the arena when there is one. */
void *cuda_alloc(struct cuda *c, size_t bytes, const char *what, ey_err *e);

/* Waits for all that was enqueued; false: one of it failed. */
bool cuda_finish(struct backend *be, ey_err *e);

/* Bytes of SCRATCH_WIDE. */
size_t cuda_wide_bytes(const struct cuda *c);

/* ---- cuda_bandwidth.c ---- */
/* As struct device_ops says. */
size_t cuda_arena_bytes(const struct backend *be);
bool cuda_time_read(struct backend *be, size_t first, size_t bytes, double *seconds, ey_err *e);
void cuda_read_timer_close(struct cuda *c);
/* Bytes a second by the memory's clock and width; 0: the driver does not say. */
double cuda_rated_bandwidth(const struct cuda *c);

/* ---- cuda_upload.c ---- */
bool cuda_upload_open(struct cuda *c, ey_err *e);
void cuda_upload_close(struct cuda *c);
/* Host memory → GPU, through the pinned ring; the source may change when this returns. */
void cuda_upload(struct cuda *c, void *to, const void *from, size_t bytes);

#endif
