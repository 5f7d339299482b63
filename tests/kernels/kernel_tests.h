/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel tests in the manner of checkasm: a row of the table (cases.c) names a step of the backend
 * waist, sizes, a dtype and a kind of values. prepare() makes the problem on the host, and the same
 * problem is then run by `ref`, by each variant of `cpu` in several ways of cutting it into calls,
 * and by the benchmark.
 *
 * Two demands: a variant is near `ref` (bounds in run.c), and every way of running it gives the
 * same bits. */
#ifndef EY_TESTS_KERNELS_KERNEL_TESTS_H
#define EY_TESTS_KERNELS_KERNEL_TESTS_H

#include <stdio.h>

#include "backend/backend.h"
#include "kernels/cpu/cpu_kernels.h"

enum fill {
    FILL_RANDOM,
    FILL_EXACT, /* small integers: every sum is exact in any order, so results are equal, not near;
                   signs cancel */
    FILL_ALL_VALUES, /* one-hot rows against every code of the dtype, NaN and infinities in each
                   third weight row */
    FILL_LARGE,      /* 1e18 · 1e15, every other row with one element only */
    FILL_TINY,       /* 1e-20 and denormals */
    FILL_ZERO,       /* +0 and -0 */
    FILL_HUGE_SCORES,
    FILL_EQUAL_SCORES,
};

struct op;

struct test_case {
    const struct op *op;
    enum dtype dtype; /* of the matrices; DTYPE_NONE: mixed */
    int n, k, m;      /* rows, width in, width out */
    int heads, kv_heads, dim;
    enum fill fill;
    bool other; /* an op's second flavour: biases, no head norms, grouped norm, decode instead of
                   prefill */
};

/* ---- host memory (problem.c) ---- */
enum { MAX_ALLOCATIONS = 64 };

/* Allocations that end where a page that may not be touched begins. */
struct memory {
    void *map[MAX_ALLOCATIONS];
    size_t size[MAX_ALLOCATIONS];
    int n;
};

void *memory_alloc(struct memory *m, size_t bytes, size_t before_end);
void memory_free(struct memory *m);

uint64_t random_bits(uint64_t *state);
float random_float(uint64_t *state); /* -1 .. 1 */

struct problem {
    const struct test_case *c;
    uint64_t random;
    struct memory memory;
    struct tensor w[4]; /* matrices: what moves to odd addresses, and what the benchmark keeps out
                           of the caches */
    struct tensor v[6]; /* vectors */
    uint8_t *int16[4];  /* what the cpu backend found out about FP8 matrices: CPU_INT16_* */
    float *x, *y;       /* [n, in_width], and what `out` holds before */
    int32_t *rows;
    struct text_shape text;
    struct vision_shape vision;
    struct rope rope;
    struct step step, fill; /* the rows under test; for attention, those that fill the cache */
    const int32_t *sequence_table; /* [sequences, max_blocks] blocks of the made-up sequences */
    int grid_rows, grid_cols;
    struct vision_segment segment[4];
    int n_segments;
    struct backend_limits limits;
    int first_prompt; /* rows from here on are of prompts, which counts with limits.fp8_prompts */
    int n, unit, out_width; /* rows of the output; calls are multiples of `unit` rows */
    double flops,
        bytes; /* of one call with all rows; bytes of what is read once: weights, keys and values */
    double slack;      /* times the bound of one product */
    size_t from_cache; /* elements of the result from here on went through BF16 keys and values; 0:
                          none */
    bool attends_image;
    bool needs_f32; /* activations keep 16 bits of mantissa where products are in BF16 */
    bool exact;     /* equal to ref, not near */
};

void problem_open(struct problem *p, const struct test_case *c, uint64_t seed);
void problem_close(struct problem *p);
void make_matrix(struct problem *p, int slot, int64_t rows, int64_t cols, enum dtype dtype,
                 enum fill fill);
void make_vector(struct problem *p, int slot, int64_t n, float low, float high, enum dtype dtype);
float *make_rows(struct problem *p, int n, int width, enum fill fill);
int32_t *make_ints(struct problem *p, int n, int below);
void make_rope(struct problem *p, int n_pairs, int axes);
enum dtype vector_dtype(enum dtype matrix);
/* Matrices at other addresses, odd ones where the dtype's size is odd or more than one byte. */
void move_matrices(struct problem *p);

/* ---- one backend running one problem (run.c) ---- */
enum { RUN_BUFFERS = 8 };

struct run {
    struct backend *be;
    const struct problem *p;
    struct placed *w[4]; /* its matrices, placed; NULL: there is none */
    struct placed *v[6]; /* and its vectors */
    dev buffer[RUN_BUFFERS];
    enum element kind[RUN_BUFFERS];
    size_t guarded[RUN_BUFFERS]; /* elements between the canaries; 0: none */
    int n;
    dev in, out, other;
    struct kv_cache kv;
};

struct op {
    const char *name;
    void (*prepare)(struct problem *p);
    void (*begin)(struct run *r);
    void (*call)(struct run *r, int first, int n);
    void (*fetch)(struct run *r, float *out);
};

extern const struct op op_project_add, op_gate_up, op_lm_head, op_embed, op_rope, op_add_features;
extern const struct op op_qkv, op_qkv_bias, op_attention, op_attention_window;
extern const struct op op_patch_embed, op_vision_qkv, op_vision_attention,
    op_vision_attention_images, op_vision_mlp, op_merge;

dev run_input(struct run *r, enum element kind, const float *x, size_t n);
dev run_output(struct run *r, enum element kind, size_t n); /* between canaries, filled with them */
dev run_at(const struct run *r, dev p, enum element kind, int row, int width);
void run_fetch_residual(struct run *r, float *out);
void run_fetch_activation(struct run *r, float *out);
void run_fetch_rope(struct run *r, float *out);
void run_fetch_feature(struct run *r, float *out);
void run_start(struct run *r, struct backend *be, const struct problem *p);
bool run_stop(struct run *r); /* false: a canary is gone */

/* Calls of sizes[i % n_sizes] units, in an order that is not the natural one. */
struct cut {
    const char *name;
    int sizes[8], n_sizes;
};
bool run_all(float *out, struct backend *be, const struct problem *p, const struct cut *cut);

void case_name(char *out, size_t size, const struct test_case *c);
/* Whether its matrices share scales in groups and are multiplied in int16. */
bool case_in_int16_groups(const struct test_case *c, const struct cpu_kernels *k);
double case_bound(const struct problem *p, const struct cpu_kernels *k, bool from_cache);
/* got[n] against want[n]: NaN where NaN, the error's power below `bound` times the power of want,
 * and no single element far outside of that. Says what is wrong on standard output. */
bool check_near(const char *name, const char *variant, const float *got, const float *want,
                size_t n, int width, double bound, double floor);
bool check_same(const char *name, const char *variant, const char *how, const float *got,
                const float *want, size_t n, int width);

/* ---- the table (cases.c) ---- */
typedef void case_fn(void *context, const struct test_case *c);
void each_test_case(case_fn *fn, void *context);
void each_bench_case(case_fn *fn, void *context);

/* Ends a check that fails, saying what was wrong. */
#define REQUIRE(condition, ...)                                            \
    do {                                                                   \
        if (!(condition)) return printf(__VA_ARGS__), printf("\n"), false; \
    } while (0)

/* ---- the kernel sets (run_problem.c) ---- */
enum { KERNEL_SETS = 6 };
extern const char *const kernel_masks[KERNEL_SETS]; /* as --cpu-mask names them */
/* Set i; NULL: this machine has it not. */
const struct cpu_kernels *usable_kernels(int i);

/* ---- the kernel table itself (direct.c, direct_attend.c) ---- */
struct direct_test {
    const char *name;
    bool (*check)(const struct cpu_kernels *k, uint64_t seed);
};
extern const struct direct_test direct_tests[], attention_tests[], int16_tests[],
    groups_tests[]; /* ended by a NULL name */

/* ---- the table on a GPU (cases_on_gpu.c) ---- */
/* Every row, or with a `sample` above 1 each so manyth, and none of the large ones: a GPU that is
 * emulated takes long. */
int gpu_main(struct backend *gpu, struct backend *ref, const char *filter, uint64_t seed,
             int sample);

/* ---- benchmark (bench.c) ---- */
int bench_main(const char *filter, int threads, uint64_t seed);

#endif
