/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a GPU's kernels: small random steps of models, computed by this backend and by a
 * reference through the same operations. While a family is tested, all others that can be replaced
 * are switched off, so a wrong result is due to that family. */
#ifndef EY_CUDA_SELFTEST_H
#define EY_CUDA_SELFTEST_H

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "base/buf.h"

enum selftest_side { ON_GPU, ON_REFERENCE, SELFTEST_SIDES };

/* Sizes are irregular on purpose: more than one tile, partial tiles at the ends, keys over several
 * KV blocks. */
enum {
    SELFTEST_ROWS = 272, /* rows of most matrices */
    SELFTEST_COLS = 320, /* columns of most matrices: the text model's width */
    SELFTEST_TOKENS = 144,
    SELFTEST_FEW = 29, /* nearly fills matmul_small's kernel for 32 tokens */
    SELFTEST_HEADS = 4,
    SELFTEST_KV_HEADS = 2,
    SELFTEST_BLOCKS = 3, /* KV blocks of a sequence */
    SELFTEST_SEQS = 3,
    SELFTEST_VOCABULARY = 5003,
    SELFTEST_NARROW = 32, /* columns of matrices with many rows */
    SELFTEST_VISION_HEADS = 2,
    SELFTEST_MOST_ROWS = 240,  /* rows of buffers */
    SELFTEST_WIDTH = 640,      /* columns of buffers */
    SELFTEST_PLAIN_BF16 = 300, /* columns of matrices that stay row-major */
    SELFTEST_PLAIN_FP8 = 312,
    SELFTEST_GGUF_TYPES = DTYPE_GGUF_NVFP4 - DTYPE_Q4_0 + 1,
    SELFTEST_GGUF_COLS = 256 /* one block of the larger types */
};

/* Dtypes of the text layers. OF_GGUF has q, k and v of three types. */
enum selftest_dtype { OF_FP8, OF_BF16, OF_INT4, OF_INT8, OF_F32, OF_GGUF, SELFTEST_DTYPES };

/* The weights on one side. */
struct selftest_model {
    struct text_layer text[SELFTEST_DTYPES]; /* down: [ROWS, COLS] */
    struct placed *head[SELFTEST_DTYPES], *long_head;
    struct vision_block vision[OF_INT4];
    struct merger merger[OF_INT4], deepstack;
    struct attention attention[2];     /* heads of 64, 128; only what qkv() takes */
    struct vision_block narrow_vision; /* heads of 64; only what vision_qkv() takes */
    struct placed *plain_fp8, *plain_bf16;
    struct placed *gguf[SELFTEST_GGUF_TYPES]; /* of each type: [ROWS, GGUF_COLS] */
};

struct selftest_buffers {
    dev x, in, out, q, rope, features;
    float *logits;
    struct kv_cache kv;
};

struct selftest {
    struct cuda *c; /* separate backend over the same context and kernels */
    struct backend *side[SELFTEST_SIDES];
    struct selftest_model model[SELFTEST_SIDES];
    struct selftest_buffers buffers[SELFTEST_SIDES];
    struct tensor int8_head; /* as in a file */
    char *int8_head_rows;    /* those rows on the GPU */
    float *x, *in, *start;   /* host rows: inputs of norms, matmuls, sums */
    struct arena host;       /* tensors and results; freed with the self-test */
    uint64_t random;
    struct selftest_report *report;
    uint64_t todo;      /* families to test */
    uint64_t helping;   /* passed families that stay on while others are tested */
    bool out_of_memory; /* functions accept the resulting NULLs */
};

/* Tests the families not yet run according to the report. Fails without memory, or if the GPU
 * stopped working; the report names the family then. */
bool cuda_selftest_run(struct cuda *c, struct backend *reference, struct selftest_report *report,
                       ey_err *e);

/* ---- selftest_model.c ---- */
float *selftest_random_floats(struct selftest *t, size_t n, float low, float high);
void *selftest_alloc(struct selftest *t, size_t bytes);
/* Places all weights and reserves memory for steps on both sides. */
bool selftest_open_model(struct selftest *t, ey_err *e);

/* ---- selftest.c ---- */
/* Switches the family on and all others off; returns false if it is not to be tested. */
bool selftest_begin(struct selftest *t, enum gpu_family family);
/* Records the error of got[n] against want[n], the worst of several calls; a single element far off
 * counts as a failure. */
void selftest_judge(struct selftest *t, enum gpu_family family, const float *got, const float *want,
                    size_t n);
/* Ends the test of a family; a launch error counts as its failure. Returns false if the GPU stopped
 * working, or if nothing can replace the family. */
bool selftest_end(struct selftest *t, enum gpu_family family);
/* Fills GPU memory (a buffer, or everything that steps write) with NaN, to detect reads before
 * writes and results that are not written. */
void selftest_spoil(struct selftest *t, dev p, size_t bytes);
void selftest_spoil_scratch(struct selftest *t);
/* Waits; errors are left for selftest_end(). */
void selftest_finish(struct selftest *t, enum selftest_side side);

/* ---- the parts; they return what selftest_end() does ---- */
bool selftest_basic_matmuls(struct selftest *t);
bool selftest_fast_matmuls(struct selftest *t);
bool selftest_rows(struct selftest *t);
bool selftest_text_attention(struct selftest *t);
bool selftest_vision_attention(struct selftest *t);

/* See struct device_ops (selftest_cache.c). */
bool cuda_selftest(struct backend *be, struct backend *reference, bool again,
                   struct selftest_report *out, ey_err *e);

#endif
