/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel tests in the style of checkasm. A row of the table (kernel_cases.c) names an operation of
 * the backend, sizes, a dtype and a kind of values. prepare() makes the problem on the host. Then
 * `ref`, each kernel set of `cpu` with several cuts into calls, and the benchmark run it.
 * A kernel set must be close to `ref` (bounds in run_problem.c), and every cut must give the same
 * bits. */
#ifndef EY_TESTS_KERNELS_KERNEL_TESTS_H
#define EY_TESTS_KERNELS_KERNEL_TESTS_H

#include <stdio.h>

#include "backend/backend.h"
#include "kernels/cpu/cpu_kernels.h"

enum fill {
    FILL_RANDOM,
    /* small integers with both signs: every sum is exact in any order, so results are equal */
    FILL_EXACT,
    /* one-hot rows select every value of the dtype; every third weight row has NaN and infinities
     */
    FILL_ALL_VALUES,
    FILL_LARGE, /* 1e18 · 1e15; every other row has only one element */
    FILL_TINY,  /* 1e-20 and denormals */
    FILL_ZERO,  /* +0 and -0 */
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
    /* an op's second flavour: biases, no head norms, grouped norm, or decode instead of prefill */
    bool other;
};

/* ---- host memory (problem.c) ---- */
enum { MAX_ALLOCATIONS = 64 };

/* Allocations that end at a guard page. */
struct memory {
    void *map[MAX_ALLOCATIONS];
    size_t size[MAX_ALLOCATIONS];
    int n;
};

void *memory_alloc(struct memory *m, size_t bytes, size_t before_end);
void memory_free(struct memory *m);

uint64_t random_bits(uint64_t *state);
float random_float(uint64_t *state); /* -1 to 1 */

struct problem {
    const struct test_case *c;
    uint64_t random;
    struct memory memory;
    /* matrices, which may be moved to odd addresses and which the benchmark keeps out of caches */
    struct tensor w[4];
    struct tensor v[6]; /* vectors */
    uint8_t *int16[4];  /* eligibility of FP8 matrices in the cpu backend: CPU_INT16_* */
    float *x, *y;       /* [n, in_width], and the initial contents of `out` */
    int32_t *rows;
    struct text_shape text;
    struct vision_shape vision;
    struct rope rope;
    struct step step, fill; /* the tested rows; for attention, the rows that fill the cache */
    const int32_t *sequence_table; /* [sequences, max_blocks] KV blocks */
    int grid_rows, grid_cols;
    struct vision_segment segment[4];
    int n_segments;
    struct backend_limits limits;
    int first_prompt;       /* rows from here on belong to prompts; used with limits.fp8_prompts */
    int n, unit, out_width; /* rows of the output; calls are multiples of `unit` rows */
    double flops,
        bytes;    /* for one call with all rows; bytes: weights, keys and values, each read once */
    double slack; /* factor on the bound of a single matmul */
    /* elements of the result from here on depend on BF16 keys and values; 0: none */
    size_t from_cache;
    bool attends_image;
    bool needs_f32; /* activations need 16 bits of mantissa in BF16 matmuls */
    bool exact;     /* must equal ref */
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
/* Moves matrices to other addresses, odd ones if the element size allows it. */
void move_matrices(struct problem *p);

/* ---- a backend runs a problem (run_problem.c) ---- */
enum { RUN_BUFFERS = 8 };

struct run {
    struct backend *be;
    const struct problem *p;
    struct placed *w[4]; /* placed matrices; NULL: none */
    struct placed *v[6]; /* placed vectors */
    dev buffer[RUN_BUFFERS];
    enum element kind[RUN_BUFFERS];
    size_t guarded[RUN_BUFFERS]; /* elements between canaries; 0: no canaries */
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
/* filled with canaries, and between more of them */
dev run_output(struct run *r, enum element kind, size_t n);
dev run_at(const struct run *r, dev p, enum element kind, int row, int width);
void run_fetch_residual(struct run *r, float *out);
void run_fetch_activation(struct run *r, float *out);
void run_fetch_rope(struct run *r, float *out);
void run_fetch_feature(struct run *r, float *out);
void run_start(struct run *r, struct backend *be, const struct problem *p);
bool run_stop(struct run *r); /* false: a canary was overwritten */

/* Calls of sizes[i % n_sizes] units, out of order. */
struct cut {
    const char *name;
    int sizes[8], n_sizes;
};
bool run_all(float *out, struct backend *be, const struct problem *p, const struct cut *cut);

void case_name(char *out, size_t size, const struct test_case *c);
/* Whether the case's matrices have group scales and are multiplied in int16. */
bool case_in_int16_groups(const struct test_case *c, const struct cpu_kernels *k);
double case_bound(const struct problem *p, const struct cpu_kernels *k, bool from_cache);
/* Compares got[n] with want[n]: NaNs must match, the error's power must be below `bound` times the
 * power of want, and no element may be far outside. Prints failures. */
bool check_near(const char *name, const char *variant, const float *got, const float *want,
                size_t n, int width, double bound, double floor);
bool check_same(const char *name, const char *variant, const char *how, const float *got,
                const float *want, size_t n, int width);

/* ---- the table (kernel_cases.c) ---- */
typedef void case_fn(void *context, const struct test_case *c);
void each_test_case(case_fn *fn, void *context);
void each_bench_case(case_fn *fn, void *context);

/* Fails a check with a message. */
#define REQUIRE(condition, ...)                                            \
    do {                                                                   \
        if (!(condition)) return printf(__VA_ARGS__), printf("\n"), false; \
    } while (0)

/* ---- the kernel sets (run_problem.c) ---- */
enum { KERNEL_SETS = 6 };
extern const char *const kernel_masks[KERNEL_SETS]; /* names of --cpu-mask */
/* Kernel set i; NULL if this machine lacks its instructions. */
const struct cpu_kernels *usable_kernels(int i);

/* ---- direct tests of kernels (direct_rows.c, direct_attention.c, direct_int16.c, direct_groups.c)
 * ---- */
struct direct_test {
    const char *name;
    bool (*check)(const struct cpu_kernels *k, uint64_t seed);
};
extern const struct direct_test direct_tests[], attention_tests[], int16_tests[],
    groups_tests[]; /* end with a NULL name */

/* ---- the table on a GPU (cases_on_gpu.c) ---- */
/* Runs all rows or, with `sample` above 1, every n-th that is not large, since the emulated GPU is
 * slow. */
int gpu_main(struct backend *gpu, struct backend *ref, const char *filter, uint64_t seed,
             int sample);

/* ---- benchmark (bench_kernels.c) ---- */
int bench_main(const char *filter, int threads, uint64_t seed);

#endif
