/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the table on a GPU: `cuda` against `ref`. Inputs, outputs and intermediate results are BF16
 * there, which sets the bounds. The kernel depends on the number of rows, so bits may differ
 * between cuts. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "kernels/kernel_tests.h"

enum { MAX_NAME = 160, LARGE = 1 << 20 }; /* multiply-adds of a large case */

struct gpu_suite {
    struct backend *ref, *gpu;
    const char *filter;
    uint64_t seed;
    int sample, n_rows, passed, failed;
};

static bool is_left_out(struct gpu_suite *s, const struct test_case *c)
{
    return s->sample > 1 && (s->n_rows++ % s->sample || (int64_t)c->n * c->k * c->m > LARGE);
}

/* The GPU converts F16 matrices to BF16, which cannot represent all values. */
static bool is_exact(const struct problem *p)
{
    return p->exact && p->c->op != &op_embed && p->c->op != &op_add_features &&
           !(p->c->dtype == DTYPE_F16 && p->c->fill == FILL_ALL_VALUES);
}

/* F32 activations and results are rounded to BF16, with independent errors of at most 2^-9; scores
 * of attention have relative errors of that size. */
static double gpu_bound(const struct problem *p)
{
    const struct op *op = p->c->op;
    if (op == &op_rope) return 1e-11;
    if (is_exact(p)) return 0;
    double f32 = FLT_EPSILON * FLT_EPSILON * (32 + p->c->k / 8.0),
           scores = op == &op_vision_qkv || op == &op_vision_attention ||
                            op == &op_vision_attention_images
                        ? 8
                        : 1; /* both operands are rounded */
    return scores * (p->slack > 1 ? p->slack : 1) * (0x1p-18 + f32) * (p->from_cache ? 4 : 1) +
           0x1p-18;
}

/* ---- FP8 prefill ---- */

static bool runs_prompts(const struct gpu_suite *s, const struct test_case *c)
{
    bool slow;
    return c->dtype == DTYPE_F8_E4M3 &&
           ((c->op == &op_project_add && !c->other) || c->op == &op_gate_up) &&
           (c->fill == FILL_RANDOM || c->fill == FILL_ZERO) && c->k % 16 == 0 &&
           s->gpu->ops->compute->supports_fp8_prompts(s->gpu, &slow, NULL);
}

/* Bound against ref with the same rounding. The tensor cores add 32 products at a time and truncate
 * each about 13 bits below the largest: at most 2^-13 of a partial sum, and there are as many
 * partial sums as sums of 32, so about 2^-24 of the power; 2^-20 leaves room. If the norm comes
 * first, the GPU rounds BF16 values to e4m3, and ref F32: one value in 32 (2^-9 of 2^-4) is rounded
 * the other way and is off by 2^-4 to 2^-3, a power of 2^-5 · 2^-7. */
static double prompt_bound(const struct problem *p)
{
    if (p->c->op == &op_project_add) return 0x1p-20;
    return p->slack * (0x1p-12 + 0x1p-18);
}

/* Bound against ref without rounding: e4m3 has a step of 2^-3 of a value's power of two, so errors
 * are at most 2^-4 of it, a power of 2^-8 / 3. */
static double rounding_bound(const struct problem *p)
{
    return (p->slack > 1 ? p->slack : 1) * 0x1p-8 / 3;
}

/* First all rows belong to prompts: one call and several give the same bits. Then all rows but the
 * first third do, in one call. */
static bool check_prompts(const struct gpu_suite *s, struct problem *p, const char *name,
                          const float *exact)
{
    static const struct cut whole = {"prompts", {0}, 0}, many = {"prompts cut in 1 2 3 4 5 7 8 17",
                                                                 {1, 2, 3, 4, 5, 7, 8, 17},
                                                                 8};
    const struct cut *const cuts[] = {&whole, &many, &whole};
    const size_t n = (size_t)p->n * (size_t)p->out_width;
    const double floor = 2 * (double)FLT_MIN * (p->c->k + 1);
    float *want = malloc(n * sizeof(float)), *got = malloc(n * sizeof(float)),
          *first = malloc(n * sizeof(float));
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        p->first_prompt = i == 2 ? p->n / 3 : 0;
        p->limits.fp8_prompts = true;
        memset(got, 0xff, n * sizeof(float));
        const bool ran = run_all(want, s->ref, p, &whole) && run_all(got, s->gpu, p, cuts[i]);
        if (!ran)
            printf("FAIL %s, %s: wrote outside its output, or the GPU failed\n", name,
                   cuts[i]->name);
        ok = check_near(name, cuts[i]->name, got, want, n, p->out_width, prompt_bound(p), floor) &&
             check_near(name, "prompts, as if nothing were rounded", got, exact, n, p->out_width,
                        rounding_bound(p), floor) &&
             ran && ok;
        if (i == 0) memcpy(first, got, n * sizeof(float));
        if (i == 1)
            ok = check_same(name, "prompts", cuts[i]->name, got, first, n, p->out_width) && ok;
    }
    free(want);
    free(got);
    free(first);
    return ok;
}

/* ---- all ---- */

static void check_gpu_case(void *context, const struct test_case *c)
{
    static const struct cut whole = {"whole", {0}, 0},
                            many = {"cut in 1 2 3 4 5 7 8 17", {1, 2, 3, 4, 5, 7, 8, 17}, 8};
    const struct cut *const cuts[] = {&whole, &many};
    struct gpu_suite *s = context;
    struct problem p;
    char name[MAX_NAME];
    case_name(name, sizeof(name), c);
    if ((s->filter && !strstr(name, s->filter)) || is_left_out(s, c)) return;
    problem_open(&p, c, s->seed);
    p.limits.text = p.text;
    p.limits.vision = p.vision;
    p.limits.max_seqs = p.step.n_seqs > p.fill.n_seqs ? p.step.n_seqs : p.fill.n_seqs;
    p.limits.max_blocks = p.step.max_blocks;
    /* the GPU rounds this input to BF16, so ref gets it rounded, too */
    if (c->op == &op_project_add)
        for (size_t i = 0; i < (size_t)c->n * (size_t)c->k; i++)
            p.x[i] = bf16_to_f32(f32_to_bf16(p.x[i]));
    size_t n = (size_t)p.n * (size_t)p.out_width;
    float *want = malloc(n * sizeof(float)), *got = malloc(n * sizeof(float));
    double floor = 2 * (double)FLT_MIN * (c->k + 1);
    bool ok = run_all(want, s->ref, &p, &whole);
    for (int i = 0; i < 2; i++) {
        memset(got, 0xff, n * sizeof(float));
        bool near = run_all(got, s->gpu, &p, cuts[i]);
        if (!near)
            printf("FAIL %s, %s: wrote outside its output, or the GPU failed\n", name,
                   cuts[i]->name);
        ok = check_near(name, cuts[i]->name, got, want, n, p.out_width, gpu_bound(&p), floor) &&
             near && ok;
    }
    if (runs_prompts(s, c)) ok = check_prompts(s, &p, name, want) && ok;
    free(want);
    free(got);
    problem_close(&p);
    *(ok ? &s->passed : &s->failed) += 1;
}

int gpu_main(struct backend *gpu, struct backend *ref, const char *filter, uint64_t seed,
             int sample)
{
    struct gpu_suite s = {.ref = ref, .gpu = gpu, .filter = filter, .seed = seed, .sample = sample};
    printf("%s, seed %llu\n", gpu->ops->detail(gpu), (unsigned long long)seed);
    each_test_case(check_gpu_case, &s);
    printf("%d passed, %d failed\n", s.passed, s.failed);
    return s.failed || !s.passed;
}
