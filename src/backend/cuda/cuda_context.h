/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the CUDA backend: one GPU, one stream, one arena. Steps enqueue launches; the first
 * failed call is recorded and returned by finish(). Nothing is allocated after reserve(). */
#ifndef EY_CUDA_CONTEXT_H
#define EY_CUDA_CONTEXT_H

#include "backend/cuda/cuda_driver.h"
#include "kernels/cuda/common/launch.h"
#include "backend/cuda/cuda_sizes.h"
#include "base/buf.h"
#include "base/pool.h"

enum { FP8_CAPABILITY = 89 }; /* first capability with e4m3 matmuls */
enum { MAX_MODULES = 32, MAX_GROUPS = 64, MAX_GRAPHS = SMALL_ROWS, MAX_PINNED_RANGES = 2 };

/* A step's inputs on the GPU, and their copy in pinned host memory. */
struct step_region {
    struct step_layout layout;
    int32_t *device;
    int32_t *host; /* the pinned copy */
    int rows;
    struct step copied; /* the step that it holds; n_rows is 0 if that is unknown */
};

/* This backend's struct placed. */
struct cuda_weight {
    struct dev_matrix matrix; /* as passed to kernels; vectors are float32 */
    int group;                /* 0 if resident, otherwise 1 + its streamed group */
    bool in_file;             /* matrix.data is in the file: see host_embedding */
};

static inline struct cuda_weight *cuda_weight_of(const struct placed *w)
{
    return (struct cuda_weight *)(uintptr_t)w;
}

/* Returns the values of a vector on the GPU, or NULL if there is none. */
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
    struct cuda_weight *to; /* its address in the group's buffer */
};

/* An uploaded FP8 matrix, remembered until loading ends: if it holds NaN it is uploaded again,
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
    int sm_count, capability; /* capability is 90 for 9.0 */
    int sm_shared;            /* bytes of shared memory per SM */
    bool has_gemm_sm90;       /* kernels of gemm_wgmma_sm90.cu are loaded */
    bool has_small_sm90;      /* those of matmul_small_sm90.cu */
    bool has_vision_sm90;     /* those of attention_vision_sm90.cu */
    bool has_gemm_w8a8;       /* those of gemm_w8a8_sm89.cu */
    bool sees_pinned;         /* kernels can address pinned host memory */
    bool dependent_launch;    /* kernels may start before the previous one has ended */
    bool weights_changed;     /* the next kernel must not start early: it reads weights first */
    char detail[160];

    CUmodule module[MAX_MODULES];
    int n_modules;
    CUfunction
        function[GPU_KERNELS]; /* NULL if this kind of GPU, or this build, lacks the kernel */

    ey_err error; /* first failure since finish() */

    /* memory */
    char *arena; /* NULL if allocations are separate */
    size_t arena_size, arena_used;
    bool loading;  /* the end of the arena is staging */
    void *staging; /* [LOAD_STAGING] on the GPU */
    bool staging_own;
    char *upload_buffer[UPLOAD_BUFFERS];
    CUevent upload_done[UPLOAD_BUFFERS]; /* signals that a buffer's contents were copied */
    int next_upload_buffer;
    uint32_t *nan_found; /* on the GPU, [MAX_FP8_MATRICES]: a flag for each of `packed` */
    struct packed_fp8 *packed;
    int n_packed, max_packed;

    /* streamed weights */
    struct streamed_weight *streamed;
    int n_streamed, max_streamed, n_groups;
    char *group_buffer[2]; /* on the GPU */
    size_t group_size, group_used;
    int group_in_buffer[2]; /* group in each buffer, or -1 */

    /* reserved */
    struct backend_limits limits;
    char *scratch[SCRATCH_BUFFERS];
    char *scratch_memory;
    size_t parts_bytes; /* bytes of SCRATCH_PARTS */
    struct step_region small, large;
    struct arena placed;          /* the weights */
    struct tensor host_embedding; /* data is NULL unless it stays in the file */
    struct tensor
        bf16_head;        /* an 8-bit head's BF16 rows in the file; data is NULL for other heads */
    struct pinned_range { /* the file's pages with host_embedding and bf16_head, if the GPU reads
                             them itself */
        const char *host; /* page-aligned */
        const char *device; /* their address on the GPU */
        size_t bytes;
    } pinned_range[MAX_PINNED_RANGES];
    int n_pinned_ranges;           /* 0 if the host looks up rows and rescores the top-k logits */
    char pinned_rows_problem[160]; /* why the GPU does not read them although it should */
    /* Two, used alternately: a step may be enqueued behind one whose results were not read yet. */
    struct step_output {
        int32_t *small;                /* pinned: copy of the small region */
        char *results;                 /* pinned: results, see struct step_output_layout */
        CUevent done;                  /* signals that results are complete */
        int n_committed;               /* rows of a committed speculative step; 0 for other steps */
        int32_t committed[SMALL_ROWS]; /* tokens with which it should have continued */
    } step_output[2];
    int turn;                 /* output of the next step */
    int shown;                /* output that topk() reads */
    char *pinned_step_memory; /* backs step_output and the regions' host copies */

    CUevent read_timer[2];      /* before and after a read (cuda_bandwidth.c) */
    bool launched[GPU_KERNELS]; /* since the self-test last reset it */
    uint64_t failed_families;   /* families not used, one bit per enum gpu_family */

    /* Partial sums left by a matmul. They belong to x, and the next launch of a kernel adds them
     * up. */
    struct pending_parts {
        float *x; /* [n, width]; NULL if none are pending */
        int n, width, splits, tokens;
    } pending;

    /* captured steps */
    struct captured_step {
        struct step_shape shape;
        CUgraphExec graph;
    } captured[MAX_GRAPHS];
    int n_captured;
    bool capturing; /* launches are captured into captured[n_captured] */
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
                     const char *what); /* records the first failure */
bool cuda_take_error(struct cuda *c,
                     ey_err *e); /* fails with an error recorded since the last call */
void cuda_launch(struct cuda *c, const struct launch *l, const void *args);
/* Adds up pending sums. cuda_launch() calls it; call it also before a copy or a wait that needs the
 * results of kernels. */
void cuda_add_pending(struct cuda *c);
/* Returns the arguments with which make_planes adds up the pending sums; nothing is pending
 * afterwards. */
struct planes_args cuda_take_pending(struct cuda *c);
/* Allocates GPU memory, from the arena if there is one. */
void *cuda_alloc(struct cuda *c, size_t bytes, const char *what, ey_err *e);

/* Waits for all enqueued work; fails if any of it failed. */
bool cuda_finish(struct backend *be, ey_err *e);

/* Returns the bytes of SCRATCH_WIDE. */
size_t cuda_wide_bytes(const struct cuda *c);

/* ---- cuda_bandwidth.c ---- */
/* See struct device_ops. */
size_t cuda_arena_bytes(const struct backend *be);
bool cuda_time_read(struct backend *be, size_t first, size_t bytes, double *seconds, ey_err *e);
void cuda_read_timer_close(struct cuda *c);
/* Returns bytes per second from memory clock and bus width; 0 if the driver does not tell them. */
double cuda_rated_bandwidth(const struct cuda *c);

/* ---- cuda_upload.c ---- */
bool cuda_upload_open(struct cuda *c, ey_err *e);
void cuda_upload_close(struct cuda *c);
/* Copies host memory to the GPU through the pinned ring; the source may change after this call. */
void cuda_upload(struct cuda *c, void *to, const void *from, size_t bytes);

/* A callback that sees whole blocks of `block` bytes while an upload has them in a cache; several
 * threads call it at once. */
struct upload_viewer {
    size_t block;
    void (*view)(void *context, const void *blocks, size_t bytes);
    void *context;
};

/* Uploads like cuda_upload(), and shows the bytes to `viewer` unless it is NULL. For a viewer they
 * must be whole blocks, at most UPLOAD_BYTES. */
void cuda_upload_viewed(struct cuda *c, void *to, const void *from, size_t bytes,
                        const struct upload_viewer *viewer);

#endif
