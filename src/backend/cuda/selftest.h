/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a GPU's kernels: small random steps of models, computed by this backend and by a
 * reference through the same operations. While a family is tested all others that can be replaced
 * are switched off, so what comes out wrong is its work. */
#ifndef EY_CUDA_SELFTEST_H
#define EY_CUDA_SELFTEST_H

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernel_ids.h"
#include "base/buf.h"

enum selftest_side { ON_GPU, ON_REFERENCE, SELFTEST_SIDES };

/* Sizes are odd on purpose: more than one tile, ends that do not fill one, keys over several KV
 * blocks. */
enum {
    SELFTEST_ROWS = 272, /* of most matrices, */
    SELFTEST_COLS = 320, /* and their columns: the text model's width */
    SELFTEST_TOKENS = 144,
    SELFTEST_FEW = 29, /* as many as a GEMV takes, nearly */
    SELFTEST_HEADS = 4,
    SELFTEST_KV_HEADS = 2,
    SELFTEST_BLOCKS = 3, /* of a sequence */
    SELFTEST_SEQS = 3,
    SELFTEST_VOCABULARY = 5003,
    SELFTEST_NARROW = 32, /* columns where rows are many */
    SELFTEST_VISION_HEADS = 2,
    SELFTEST_MOST_ROWS = 240,  /* of buffers, */
    SELFTEST_WIDTH = 640,      /* and their columns */
    SELFTEST_PLAIN_BF16 = 300, /* columns of matrices that are not packed */
    SELFTEST_PLAIN_FP8 = 312,
    SELFTEST_GGUF_TYPES = DTYPE_GGUF_NVFP4 - DTYPE_Q4_0 + 1,
    SELFTEST_GGUF_COLS = 256 /* a block of the larger types */
};

/* GGUF: q, k and v of three types. */
enum selftest_dtype { OF_FP8, OF_BF16, OF_INT4, OF_INT8, OF_F32, OF_GGUF, SELFTEST_DTYPES };

/* The weights, on one side. */
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
    struct cuda *c; /* the self-test's own, over the same context and kernels */
    struct backend *side[SELFTEST_SIDES];
    struct selftest_model model[SELFTEST_SIDES];
    struct selftest_buffers buffers[SELFTEST_SIDES];
    struct tensor int8_head; /* as the file has it */
    char *int8_head_rows;    /* those on the GPU */
    float *x, *in, *start;   /* rows on the host: what enters norms, matmuls, sums */
    struct arena host;       /* what the file would have, and results; gone with the self-test */
    uint64_t random;
    struct selftest_report *report;
    uint64_t todo;      /* families */
    uint64_t helping;   /* those that are on while others are tested: they have passed */
    bool out_of_memory; /* every function here takes the NULLs that come of it */
};

/* Tests the families that the report does not list as run. False: the GPU stopped working on the
 * way, and the report says in which; or there is no memory for it. */
bool cuda_selftest_run(struct cuda *c, struct backend *reference, struct selftest_report *report,
                       ey_err *e);

/* ---- selftest_model.c ---- */
float *selftest_random_floats(struct selftest *t, size_t n, float low, float high);
void *selftest_alloc(struct selftest *t, size_t bytes);
/* Places all weights and makes room for steps on both sides. */
bool selftest_open_model(struct selftest *t, ey_err *e);

/* ---- selftest.c ---- */
/* Switches the family on, all others off; false: it is not to be tested. */
bool selftest_begin(struct selftest *t, enum gpu_family family);
/* Notes how far got[n] is from want[n]; a single element far off is a failure too. The worst of
 * several calls counts. */
void selftest_judge(struct selftest *t, enum gpu_family family, const float *got, const float *want,
                    size_t n);
/* The family has been tested; a launch error counts as its failure. False: the GPU does nothing any
 * more, or nothing can be done without the family. */
bool selftest_end(struct selftest *t, enum gpu_family family);
/* GPU memory becomes NaN to whoever reads it too early, and in a result that was not written: a
 * place, or all that steps leave. */
void selftest_spoil(struct selftest *t, dev p, size_t bytes);
void selftest_spoil_scratch(struct selftest *t);
/* Waits; an error stays where selftest_end() looks. */
void selftest_finish(struct selftest *t, enum selftest_side side);

/* ---- the parts; false as selftest_end() ---- */
bool selftest_basic_matmuls(struct selftest *t);
bool selftest_fast_matmuls(struct selftest *t);
bool selftest_rows(struct selftest *t);
bool selftest_text_attention(struct selftest *t);
bool selftest_vision_attention(struct selftest *t);

/* As struct device_ops says (selftest_cache.c). */
bool cuda_selftest(struct backend *be, struct backend *reference, bool again,
                   struct selftest_report *out, ey_err *e);

#endif
