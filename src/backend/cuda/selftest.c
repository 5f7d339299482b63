/* SPDX-License-Identifier: Apache-2.0 */
/* Tests every kernel of the GPU on small random problems against double-precision loops on the
 * host, in a few milliseconds. Runs before anything else is on the GPU, in one allocation that it
 * gives back.
 *
 * Sizes are odd on purpose: more than one tile, ends that do not fill one, keys over several KV
 * blocks. */
#include "backend/cuda/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "kernels/cuda/sampling/rescore_launch.h"
#include "kernels/cuda/sampling/topk_launch.h"
#include "kernels/cuda/rows/norm_rope_embed_launch.h"
#include "backend/rescore.h"

/* ---- numbers ---- */

uint32_t selftest_random_bits(struct selftest *t)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 33);
}

static float selftest_random_float(struct selftest *t) /* -1 .. 1 */
{
    return (float)selftest_random_bits(t) * 0x1p-30f - 1.0f;
}

/* ---- memory ---- */

void *selftest_host_alloc(struct selftest *t, size_t bytes)
{
    void *p = arena_alloc(&t->host, bytes);
    t->out_of_memory |= !p;
    return p;
}

void *selftest_gpu_alloc(struct selftest *t, size_t bytes)
{
    size_t size = cuda_aligned(bytes);
    if (size > SELFTEST_BYTES - t->used) {
        t->out_of_memory = true;
        return NULL;
    }
    void *p = t->device + t->used;
    t->used += size;
    cuda_check_call(t->c,
                    t->c->driver.set_bytes((CUdeviceptr)(uintptr_t)p, 0xff, size, t->c->stream),
                    "the self-test");
    return p;
}

void *selftest_put(struct selftest *t, const void *from, size_t bytes)
{
    void *p = selftest_gpu_alloc(t, bytes);
    if (p) cuda_upload(t->c, p, from, bytes);
    return p;
}

void *selftest_get(struct selftest *t, const void *from, size_t bytes)
{
    void *p = selftest_host_alloc(t, bytes);
    if (p)
        cuda_check_call(t->c,
                        t->c->driver.to_host(p, (CUdeviceptr)(uintptr_t)from, bytes, t->c->stream),
                        "the self-test");
    cuda_check_call(t->c, t->c->driver.stream_sync(t->c->stream), "the self-test");
    return p;
}

float *selftest_random_floats(struct selftest *t, size_t n, float low, float high)
{
    float *p = selftest_host_alloc(t, n * sizeof(float));
    for (size_t i = 0; p && i < n; i++)
        p[i] = low + (high - low) * (0.5f + 0.5f * selftest_random_float(t));
    return p;
}

bf16 *selftest_put_bf16(struct selftest *t, float *values, size_t n)
{
    bf16 *rounded = selftest_host_alloc(t, n * sizeof(bf16));
    for (size_t i = 0; rounded && i < n; i++) {
        rounded[i] = f32_to_bf16(values[i]);
        values[i] = bf16_to_f32(rounded[i]);
    }
    return rounded ? selftest_put(t, rounded, n * sizeof(bf16)) : NULL;
}

float *selftest_get_bf16(struct selftest *t, const bf16 *from, size_t n)
{
    const bf16 *got = selftest_get(t, from, n * sizeof(bf16));
    float *p = selftest_host_alloc(t, n * sizeof(float));
    for (size_t i = 0; p && got && i < n; i++)
        p[i] = bf16_to_f32(got[i]);
    return p;
}

/* ---- verdicts ---- */

#define MAX_ERROR                                                                               \
    1e-2f /* relative, root mean square: several times what BF16 results have, far below what a \
             wrong element makes */

void selftest_judge(struct selftest *t, enum gpu_family family, const float *got,
                    const double *want, size_t n)
{
    struct selftest_result *v = &t->report->kernel[family];
    double power = 0, error = 0;
    bool far = false;
    if (!got || !want) return; /* no memory, which is not its fault */
    for (size_t i = 0; i < n; i++) {
        power += want[i] * want[i];
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
    }
    double typical = sqrt(power / (double)n);
    for (size_t i = 0; !far && i < n; i++)
        far = !(fabs((double)got[i] - want[i]) <= 0.06 * typical + 0.03 * fabs(want[i]));
    float relative = far && !(error >= 0) ? INFINITY : (float)sqrt(error / (power > 0 ? power : 1));
    if (!(relative <= v->error)) v->error = relative;
    v->failed |= far || !(relative < MAX_ERROR);
}

bool selftest_begin(const struct selftest *t, enum gpu_family family)
{
    return !t->report->kernel[family].was_run && !t->report->kernel[family].absent &&
           t->c->error.code == EY_OK && !t->out_of_memory;
}

bool selftest_end(struct selftest *t, enum gpu_family family)
{
    struct selftest_result *v = &t->report->kernel[family];
    if (t->out_of_memory) return true;
    cuda_check_call(t->c, t->c->driver.stream_sync(t->c->stream), v->name);
    v->was_run = true;
    if (t->c->error.code == EY_OK) return true;
    v->failed = true;
    v->error = INFINITY;
    if (t->c->driver.stream_sync(t->c->stream) != CUDA_SUCCESS) return false;
    t->c->error = (ey_err){0}; /* a launch that was refused, no more */
    return true;
}

/* ---- rows ---- */

enum {
    NORM_WIDTH = 1000,
    NORM_ROWS = 3,
    GROUP = 4,
    GROUP_WIDTH = 250,
    VOCABULARY = 5003,
    LOGIT_ROWS = 2
};

/* One row; `centered` with a bias: LayerNorm. */
static void selftest_host_norm(double *out, const float *x, const float *w, const float *b,
                               int width, bool centered)
{
    double mean = 0, squares = 0;
    for (int i = 0; centered && i < width; i++)
        mean += (double)x[i] / width;
    for (int i = 0; i < width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int i = 0; i < width; i++)
        out[i] = ((double)x[i] - mean) / sqrt(squares / width + (double)SELFTEST_EPS) *
                     (double)w[i] +
                 (centered ? (double)b[i] : 0);
}

/* Rows of NORM_WIDTH, as they are or as GROUP rows that are one token's. */
struct norm_selftest {
    float *x, *w, *b;
    const float *device_x, *device_w, *device_b;
};

static struct norm_selftest selftest_make_norm(struct selftest *t)
{
    struct norm_selftest m = {selftest_random_floats(t, NORM_ROWS * NORM_WIDTH, -1, 3),
                              selftest_random_floats(t, NORM_WIDTH, 0.5f, 1.5f),
                              selftest_random_floats(t, NORM_WIDTH, -1, 1),
                              NULL,
                              NULL,
                              NULL};
    if (t->out_of_memory) return m;
    m.device_x = selftest_put(t, m.x, NORM_ROWS * NORM_WIDTH * sizeof(float));
    m.device_w = selftest_put(t, m.w, NORM_WIDTH * sizeof(float));
    m.device_b = selftest_put(t, m.b, NORM_WIDTH * sizeof(float));
    return m;
}

static void selftest_norm(struct selftest *t, bool layer)
{
    struct norm_selftest m = selftest_make_norm(t);
    bf16 *y = selftest_gpu_alloc(t, NORM_ROWS * NORM_WIDTH * sizeof(bf16));
    double *want = selftest_host_alloc(t, NORM_ROWS * NORM_WIDTH * sizeof(double));
    if (t->out_of_memory) return;
    struct norm_args a = {y,         m.device_x, m.device_w, layer ? m.device_b : NULL,
                          NORM_ROWS, NORM_WIDTH, layer,      SELFTEST_EPS};
    struct launch l = norm_launch(&a);
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < NORM_ROWS; i++)
        selftest_host_norm(want + i * NORM_WIDTH, m.x + i * NORM_WIDTH, m.w, m.b, NORM_WIDTH,
                           layer);
    selftest_judge(t, FAMILY_NORM, selftest_get_bf16(t, y, NORM_ROWS * NORM_WIDTH), want,
                   NORM_ROWS * NORM_WIDTH);
}

_Static_assert((int)(GROUP *GROUP_WIDTH) == (int)NORM_WIDTH, "a token's rows are as wide as a row");

static void selftest_merge_norm(struct selftest *t, bool grouped)
{
    struct norm_selftest m = selftest_make_norm(t);
    bf16 *y = selftest_gpu_alloc(t, NORM_ROWS * NORM_WIDTH * sizeof(bf16));
    double *want = selftest_host_alloc(t, NORM_ROWS * NORM_WIDTH * sizeof(double));
    if (t->out_of_memory) return;
    struct merge_norm_args a = {y,           m.device_x, m.device_w, m.device_b,  NORM_ROWS,
                                GROUP_WIDTH, GROUP,      grouped,    SELFTEST_EPS};
    struct launch l = merge_norm_launch(&a);
    cuda_launch(t->c, &l, &a);
    int width = grouped ? NORM_WIDTH : GROUP_WIDTH;
    for (int i = 0; i < NORM_ROWS * NORM_WIDTH; i += width)
        selftest_host_norm(want + i, m.x + i, m.w, m.b, width, true);
    selftest_judge(t, FAMILY_MERGE_NORM, selftest_get_bf16(t, y, NORM_ROWS * NORM_WIDTH), want,
                   NORM_ROWS * NORM_WIDTH);
}

static int higher_logit_first(const void *a, const void *b)
{
    const struct topk_logit *x = a, *y = b;
    if (x->logit < y->logit || x->logit > y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Ids are compared as numbers: a wrong one is far off. */
static void judge_topk(struct selftest *t, const float *logits, const struct topk_logit *best,
                       const float *log_sum)
{
    struct topk_logit *all = selftest_host_alloc(t, VOCABULARY * sizeof(*all));
    float got[2 * TOPK + 1];
    double want[2 * TOPK + 1], sum = 0;
    if (!all || !best || !log_sum) return;
    for (int i = 0; i < VOCABULARY; i++) {
        all[i] = (struct topk_logit){logits[i], i};
        sum += exp((double)logits[i]);
    }
    qsort(all, VOCABULARY, sizeof(*all), higher_logit_first);
    for (int i = 0; i < TOPK; i++) {
        got[2 * i] = best[i].logit;
        want[2 * i] = (double)all[i].logit;
        got[2 * i + 1] = best[i].id == all[i].id ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    got[2 * TOPK] = *log_sum;
    want[2 * TOPK] = log(sum);
    selftest_judge(t, FAMILY_TOPK, got, want, 2 * TOPK + 1);
}

static void selftest_topk(struct selftest *t)
{
    float *logits = selftest_random_floats(t, LOGIT_ROWS * VOCABULARY, -9, 9);
    for (int i = 0; logits && i < LOGIT_ROWS * VOCABULARY; i++)
        logits[i] = nearbyintf(logits[i] * 32) / 32; /* many are equal */
    if (!logits) return;
    struct topk_args a = {
        selftest_put(t, logits, LOGIT_ROWS * VOCABULARY * sizeof(float)),
        selftest_gpu_alloc(t, LOGIT_ROWS * TOPK_PARTS * TOPK * sizeof(struct topk_logit)),
        selftest_gpu_alloc(t, LOGIT_ROWS * TOPK_PARTS * 2 * sizeof(float)),
        selftest_gpu_alloc(t, LOGIT_ROWS * TOPK * sizeof(struct topk_logit)),
        selftest_gpu_alloc(t, LOGIT_ROWS * sizeof(float)),
        LOGIT_ROWS,
        VOCABULARY,
        TOPK_PARTS};
    struct launch part = topk_part_launch(&a), merge = topk_merge_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &part, &a);
    cuda_launch(t->c, &merge, &a);
    const struct topk_logit *best = selftest_get(t, a.best, LOGIT_ROWS * TOPK * sizeof(*best));
    const float *log_sum = selftest_get(t, a.log_sum, LOGIT_ROWS * sizeof(float));
    for (int i = 0; best && log_sum && i < LOGIT_ROWS; i++)
        judge_topk(t, logits + i * VOCABULARY, best + i * TOPK, log_sum + i);
}

/* ---- rescored top-k logits ---- */

enum { RESCORE_ROWS = 100, RESCORE_COLS = 464, RESCORE_N = 3 };

/* In order by what the host makes of them, which is to be the same bits: an id in another place is
 * far off. */
static void judge_rescore(struct selftest *t, const struct topk_logit *got_best,
                          struct topk_logit *want_best)
{
    float got[2 * TOPK];
    double want[2 * TOPK];
    qsort(want_best, TOPK, sizeof(*want_best), higher_logit_first);
    for (int i = 0; i < TOPK; i++) {
        got[2 * i] = got_best[i].logit;
        want[2 * i] = (double)want_best[i].logit;
        got[2 * i + 1] = got_best[i].id == want_best[i].id ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    selftest_judge(t, FAMILY_RESCORE, got, want, 2 * TOPK);
}

/* Gathers every third row of x; the top-k logits come in no order. */
static void selftest_rescore(struct selftest *t)
{
    static const int32_t gather[RESCORE_N] = {6, 0, 3};
    float *x = selftest_random_floats(t, 3 * RESCORE_N * RESCORE_COLS, -2, 2),
          *norm = selftest_random_floats(t, RESCORE_COLS, 0.5f, 1.5f);
    float *rows = selftest_random_floats(t, RESCORE_ROWS * RESCORE_COLS, -1, 1);
    struct topk_logit *best = selftest_host_alloc(t, RESCORE_N * TOPK * sizeof(*best));
    bf16 *bf16_rows = selftest_host_alloc(t, RESCORE_ROWS * RESCORE_COLS * sizeof(bf16));
    uint32_t none[RESCORE_N] = {0};
    if (t->out_of_memory) return;
    for (int i = 0; i < RESCORE_ROWS * RESCORE_COLS; i++)
        bf16_rows[i] = f32_to_bf16(rows[i]);
    for (int i = 0; i < RESCORE_N * TOPK; i++)
        best[i] = (struct topk_logit){0, i * 37 % RESCORE_ROWS};
    struct rescore_args a = {selftest_put(t, best, RESCORE_N * TOPK * sizeof(*best)),
                             selftest_put(t, none, sizeof(none)),
                             selftest_put(t, bf16_rows, RESCORE_ROWS * RESCORE_COLS * sizeof(bf16)),
                             selftest_put(t, x, 3 * RESCORE_N * RESCORE_COLS * sizeof(float)),
                             selftest_put(t, norm, RESCORE_COLS * sizeof(float)),
                             selftest_put(t, gather, sizeof(gather)),
                             RESCORE_N,
                             RESCORE_COLS,
                             SELFTEST_EPS};
    struct launch l = rescore_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    const struct topk_logit *got = selftest_get(t, a.best, RESCORE_N * TOPK * sizeof(*got));
    for (int i = 0; got && i < RESCORE_N; i++) {
        float normed[RESCORE_COLS];
        struct topk_logit *want = best + i * TOPK;
        rescore_norm(normed, x + gather[i] * RESCORE_COLS, norm, RESCORE_COLS, SELFTEST_EPS);
        for (int k = 0; k < TOPK; k++)
            want[k].logit = rescore_dot(normed, bf16_rows + want[k].id * RESCORE_COLS,
                                        RESCORE_COLS);
        judge_rescore(t, got + i * TOPK, want);
    }
}

/* ---- all ---- */

static bool selftest_rows(struct selftest *t)
{
    if (selftest_begin(t, FAMILY_NORM) &&
        (selftest_norm(t, false), selftest_norm(t, true), !selftest_end(t, FAMILY_NORM)))
        return false;
    if (selftest_begin(t, FAMILY_MERGE_NORM) &&
        (selftest_merge_norm(t, false), selftest_merge_norm(t, true),
         !selftest_end(t, FAMILY_MERGE_NORM)))
        return false;
    if (selftest_begin(t, FAMILY_TOPK) && (selftest_topk(t), !selftest_end(t, FAMILY_TOPK)))
        return false;
    return !selftest_begin(t, FAMILY_RESCORE) ||
           (selftest_rescore(t), selftest_end(t, FAMILY_RESCORE));
}

/* Memory of one part is free for the next. */
static bool selftest_parts(struct selftest *t)
{
    bool alive = true;
    for (int part = 0; alive && !t->out_of_memory && part < 7; part++) {
        if (part == 0)
            alive = selftest_rows(t);
        else if (part == 1)
            alive = selftest_attention_vision(t);
        else if (part == 2)
            alive = selftest_matmul(t);
        else
            alive = selftest_attention_text(t, part % 2 ? 64 : 128, part > 4);
        arena_free(&t->host);
        t->used = 0;
    }
    return alive;
}

bool cuda_selftest_run(struct cuda *c, struct selftest_report *report, ey_err *e)
{
    CUdeviceptr p = 0;
    struct selftest t = {.c = c, .random = 1, .report = report};
    if (!cuda_ok(&c->driver, c->driver.memory_alloc(&p, SELFTEST_BYTES), "memory for the self-test",
                 e))
        return false;
    t.device = (char *)(uintptr_t)p;
    bool alive = selftest_parts(&t);
    arena_free(&t.host);
    if (alive) c->driver.memory_free(p);
    if (!alive && e) *e = c->error;
    c->error = (ey_err){0};
    return alive &&
           (!t.out_of_memory || ey_fail_memory(e, "the self-test of the kernels", SELFTEST_BYTES));
}
