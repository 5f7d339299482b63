/* SPDX-License-Identifier: Apache-2.0 */
/* Tries every kernel family of the card on small random problems, whose results loops on the host
 * compute in double precision. A few milliseconds on a card. It runs before anything else is on the
 * card, takes one allocation for itself and gives it back.
 *
 * Sizes are odd on purpose: more than one tile, ends that do not fill one, keys over several blocks
 * of the cache. */
#include "backend/cuda/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/convert.h"
#include "backend/cuda/candidates_shape.h"
#include "backend/cuda/rows_shape.h"
#include "backend/exact.h"

/* ---- numbers ---- */

uint32_t trial_random_bits(struct trial *t)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->random >> 33);
}

static float random_float(struct trial *t) /* -1 .. 1 */
{
    return (float)trial_random_bits(t) * 0x1p-30f - 1.0f;
}

/* ---- memory ---- */

void *trial_host_room(struct trial *t, size_t bytes)
{
    void *p = arena_alloc(&t->host, bytes);
    t->out_of_memory |= !p;
    return p;
}

void *trial_card_room(struct trial *t, size_t bytes)
{
    size_t size = cuda_aligned(bytes);
    if (size > TRIAL_BYTES - t->used) {
        t->out_of_memory = true;
        return NULL;
    }
    void *p = t->card + t->used;
    t->used += size;
    cuda_check(t->c, t->c->driver.set_bytes((CUdeviceptr)(uintptr_t)p, 0xff, size, t->c->stream),
               "a trial");
    return p;
}

void *trial_put(struct trial *t, const void *from, size_t bytes)
{
    void *p = trial_card_room(t, bytes);
    if (p) cuda_upload(t->c, p, from, bytes);
    return p;
}

void *trial_get(struct trial *t, const void *from, size_t bytes)
{
    void *p = trial_host_room(t, bytes);
    if (p)
        cuda_check(t->c, t->c->driver.to_host(p, (CUdeviceptr)(uintptr_t)from, bytes, t->c->stream),
                   "a trial");
    cuda_check(t->c, t->c->driver.stream_sync(t->c->stream), "a trial");
    return p;
}

float *trial_random_floats(struct trial *t, size_t n, float low, float high)
{
    float *p = trial_host_room(t, n * sizeof(float));
    for (size_t i = 0; p && i < n; i++)
        p[i] = low + (high - low) * (0.5f + 0.5f * random_float(t));
    return p;
}

bf16 *trial_put_bf16(struct trial *t, float *values, size_t n)
{
    bf16 *rounded = trial_host_room(t, n * sizeof(bf16));
    for (size_t i = 0; rounded && i < n; i++) {
        rounded[i] = nearest_bf16(values[i]);
        values[i] = bf16_float(rounded[i]);
    }
    return rounded ? trial_put(t, rounded, n * sizeof(bf16)) : NULL;
}

float *trial_get_bf16(struct trial *t, const bf16 *from, size_t n)
{
    const bf16 *got = trial_get(t, from, n * sizeof(bf16));
    float *p = trial_host_room(t, n * sizeof(float));
    for (size_t i = 0; p && got && i < n; i++)
        p[i] = bf16_float(got[i]);
    return p;
}

/* ---- verdicts ---- */

#define MAX_ERROR                                                                               \
    1e-2f /* relative, root mean square: several times what BF16 results have, far below what a \
             wrong element makes */

void trial_judge(struct trial *t, int family, const float *got, const double *want, size_t n)
{
    struct kernel_verdict *v = &t->report->family[family];
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

bool trial_begins(const struct trial *t, int family)
{
    return !t->report->family[family].tried && !t->report->family[family].absent &&
           t->c->error.code == EY_OK && !t->out_of_memory;
}

bool trial_ends(struct trial *t, int family)
{
    struct kernel_verdict *v = &t->report->family[family];
    if (t->out_of_memory) return true;
    cuda_check(t->c, t->c->driver.stream_sync(t->c->stream), v->name);
    v->tried = true;
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

/* One row; `centred` with a bias: LayerNorm. */
static void norm_on_host(double *out, const float *x, const float *w, const float *b, int width,
                         bool centred)
{
    double mean = 0, squares = 0;
    for (int i = 0; centred && i < width; i++)
        mean += (double)x[i] / width;
    for (int i = 0; i < width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int i = 0; i < width; i++)
        out[i] = ((double)x[i] - mean) / sqrt(squares / width + (double)TRIAL_EPS) * (double)w[i] +
                 (centred ? (double)b[i] : 0);
}

/* Rows of NORM_WIDTH, as they are or as GROUP rows that are one token's. */
struct norm_trial {
    float *x, *w, *b;
    const float *card_x, *card_w, *card_b;
};

static struct norm_trial make_norm(struct trial *t)
{
    struct norm_trial m = {trial_random_floats(t, NORM_ROWS * NORM_WIDTH, -1, 3),
                           trial_random_floats(t, NORM_WIDTH, 0.5f, 1.5f),
                           trial_random_floats(t, NORM_WIDTH, -1, 1),
                           NULL,
                           NULL,
                           NULL};
    if (t->out_of_memory) return m;
    m.card_x = trial_put(t, m.x, NORM_ROWS * NORM_WIDTH * sizeof(float));
    m.card_w = trial_put(t, m.w, NORM_WIDTH * sizeof(float));
    m.card_b = trial_put(t, m.b, NORM_WIDTH * sizeof(float));
    return m;
}

static void try_norm(struct trial *t, bool layer)
{
    struct norm_trial m = make_norm(t);
    bf16 *y = trial_card_room(t, NORM_ROWS * NORM_WIDTH * sizeof(bf16));
    double *want = trial_host_room(t, NORM_ROWS * NORM_WIDTH * sizeof(double));
    if (t->out_of_memory) return;
    struct norm_args a = {y,         m.card_x,   m.card_w, layer ? m.card_b : NULL,
                          NORM_ROWS, NORM_WIDTH, layer,    TRIAL_EPS};
    struct launch l = norm_launch(&a);
    cuda_launch(t->c, &l, &a);
    for (int i = 0; i < NORM_ROWS; i++)
        norm_on_host(want + i * NORM_WIDTH, m.x + i * NORM_WIDTH, m.w, m.b, NORM_WIDTH, layer);
    trial_judge(t, FAMILY_NORM, trial_get_bf16(t, y, NORM_ROWS * NORM_WIDTH), want,
                NORM_ROWS * NORM_WIDTH);
}

_Static_assert((int)(GROUP *GROUP_WIDTH) == (int)NORM_WIDTH, "a token's rows are as wide as a row");

static void try_merge_norm(struct trial *t, bool grouped)
{
    struct norm_trial m = make_norm(t);
    bf16 *y = trial_card_room(t, NORM_ROWS * NORM_WIDTH * sizeof(bf16));
    double *want = trial_host_room(t, NORM_ROWS * NORM_WIDTH * sizeof(double));
    if (t->out_of_memory) return;
    struct merge_norm_args a = {y,           m.card_x, m.card_w, m.card_b, NORM_ROWS,
                                GROUP_WIDTH, GROUP,    grouped,  TRIAL_EPS};
    struct launch l = merge_norm_launch(&a);
    cuda_launch(t->c, &l, &a);
    int width = grouped ? NORM_WIDTH : GROUP_WIDTH;
    for (int i = 0; i < NORM_ROWS * NORM_WIDTH; i += width)
        norm_on_host(want + i, m.x + i, m.w, m.b, width, true);
    trial_judge(t, FAMILY_MERGE_NORM, trial_get_bf16(t, y, NORM_ROWS * NORM_WIDTH), want,
                NORM_ROWS * NORM_WIDTH);
}

static int better_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit < y->logit || x->logit > y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Ids are compared as numbers: a wrong one is far off. */
static void judge_candidates(struct trial *t, const float *logits, const struct candidate *best,
                             const float *log_sum)
{
    struct candidate *all = trial_host_room(t, VOCABULARY * sizeof(*all));
    float got[2 * CANDIDATES + 1];
    double want[2 * CANDIDATES + 1], sum = 0;
    if (!all || !best || !log_sum) return;
    for (int i = 0; i < VOCABULARY; i++) {
        all[i] = (struct candidate){logits[i], i};
        sum += exp((double)logits[i]);
    }
    qsort(all, VOCABULARY, sizeof(*all), better_first);
    for (int i = 0; i < CANDIDATES; i++) {
        got[2 * i] = best[i].logit;
        want[2 * i] = (double)all[i].logit;
        got[2 * i + 1] = best[i].id == all[i].id ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    got[2 * CANDIDATES] = *log_sum;
    want[2 * CANDIDATES] = log(sum);
    trial_judge(t, FAMILY_CANDIDATES, got, want, 2 * CANDIDATES + 1);
}

static void try_candidates(struct trial *t)
{
    float *logits = trial_random_floats(t, LOGIT_ROWS * VOCABULARY, -9, 9);
    for (int i = 0; logits && i < LOGIT_ROWS * VOCABULARY; i++)
        logits[i] = nearbyintf(logits[i] * 32) / 32; /* many are equal */
    if (!logits) return;
    struct candidates_args a = {
        trial_put(t, logits, LOGIT_ROWS * VOCABULARY * sizeof(float)),
        trial_card_room(t, LOGIT_ROWS * CANDIDATE_PARTS * CANDIDATES * sizeof(struct candidate)),
        trial_card_room(t, LOGIT_ROWS * CANDIDATE_PARTS * 2 * sizeof(float)),
        trial_card_room(t, LOGIT_ROWS * CANDIDATES * sizeof(struct candidate)),
        trial_card_room(t, LOGIT_ROWS * sizeof(float)),
        LOGIT_ROWS,
        VOCABULARY,
        CANDIDATE_PARTS};
    struct launch part = candidates_part_launch(&a), merge = candidates_merge_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &part, &a);
    cuda_launch(t->c, &merge, &a);
    const struct candidate *best = trial_get(t, a.best, LOGIT_ROWS * CANDIDATES * sizeof(*best));
    const float *log_sum = trial_get(t, a.log_sum, LOGIT_ROWS * sizeof(float));
    for (int i = 0; best && log_sum && i < LOGIT_ROWS; i++)
        judge_candidates(t, logits + i * VOCABULARY, best + i * CANDIDATES, log_sum + i);
}

/* ---- candidates scored again ---- */

enum { EXACT_ROWS = 100, EXACT_COLS = 464, EXACT_N = 3 };

/* In order by what the host makes of them, which is to be the same bits: an id in another place is
 * far off. */
static void judge_exact(struct trial *t, const struct candidate *got_best,
                        struct candidate *want_best)
{
    float got[2 * CANDIDATES];
    double want[2 * CANDIDATES];
    qsort(want_best, CANDIDATES, sizeof(*want_best), better_first);
    for (int i = 0; i < CANDIDATES; i++) {
        got[2 * i] = got_best[i].logit;
        want[2 * i] = (double)want_best[i].logit;
        got[2 * i + 1] = got_best[i].id == want_best[i].id ? 1 : INFINITY;
        want[2 * i + 1] = 1;
    }
    trial_judge(t, FAMILY_EXACT, got, want, 2 * CANDIDATES);
}

/* Every third row of three times as many is one of x; the candidates come in no order. */
static void try_exact(struct trial *t)
{
    static const int32_t gather[EXACT_N] = {6, 0, 3};
    float *x = trial_random_floats(t, 3 * EXACT_N * EXACT_COLS, -2, 2),
          *norm = trial_random_floats(t, EXACT_COLS, 0.5f, 1.5f);
    float *rows = trial_random_floats(t, EXACT_ROWS * EXACT_COLS, -1, 1);
    struct candidate *best = trial_host_room(t, EXACT_N * CANDIDATES * sizeof(*best));
    bf16 *stored = trial_host_room(t, EXACT_ROWS * EXACT_COLS * sizeof(bf16));
    uint32_t none[EXACT_N] = {0};
    if (t->out_of_memory) return;
    for (int i = 0; i < EXACT_ROWS * EXACT_COLS; i++)
        stored[i] = nearest_bf16(rows[i]);
    for (int i = 0; i < EXACT_N * CANDIDATES; i++)
        best[i] = (struct candidate){0, i * 37 % EXACT_ROWS};
    struct exact_args a = {trial_put(t, best, EXACT_N * CANDIDATES * sizeof(*best)),
                           trial_put(t, none, sizeof(none)),
                           trial_put(t, stored, EXACT_ROWS * EXACT_COLS * sizeof(bf16)),
                           trial_put(t, x, 3 * EXACT_N * EXACT_COLS * sizeof(float)),
                           trial_put(t, norm, EXACT_COLS * sizeof(float)),
                           trial_put(t, gather, sizeof(gather)),
                           EXACT_N,
                           EXACT_COLS,
                           TRIAL_EPS};
    struct launch l = exact_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    const struct candidate *got = trial_get(t, a.best, EXACT_N * CANDIDATES * sizeof(*got));
    for (int i = 0; got && i < EXACT_N; i++) {
        float normed[EXACT_COLS];
        struct candidate *want = best + i * CANDIDATES;
        exact_norm(normed, x + gather[i] * EXACT_COLS, norm, EXACT_COLS, TRIAL_EPS);
        for (int k = 0; k < CANDIDATES; k++)
            want[k].logit = exact_logit(normed, stored + want[k].id * EXACT_COLS, EXACT_COLS);
        judge_exact(t, got + i * CANDIDATES, want);
    }
}

/* ---- all ---- */

static bool try_rows(struct trial *t)
{
    if (trial_begins(t, FAMILY_NORM) &&
        (try_norm(t, false), try_norm(t, true), !trial_ends(t, FAMILY_NORM)))
        return false;
    if (trial_begins(t, FAMILY_MERGE_NORM) &&
        (try_merge_norm(t, false), try_merge_norm(t, true), !trial_ends(t, FAMILY_MERGE_NORM)))
        return false;
    if (trial_begins(t, FAMILY_CANDIDATES) &&
        (try_candidates(t), !trial_ends(t, FAMILY_CANDIDATES)))
        return false;
    return !trial_begins(t, FAMILY_EXACT) || (try_exact(t), trial_ends(t, FAMILY_EXACT));
}

/* Memory of one part is free for the next. */
static bool try_parts(struct trial *t)
{
    bool alive = true;
    for (int part = 0; alive && !t->out_of_memory && part < 7; part++) {
        if (part == 0)
            alive = try_rows(t);
        else if (part == 1)
            alive = trial_of_tower(t);
        else if (part == 2)
            alive = trial_of_products(t);
        else
            alive = trial_of_text(t, part % 2 ? 64 : 128, part > 4);
        arena_free(&t->host);
        t->used = 0;
    }
    return alive;
}

bool cuda_try_families(struct cuda *c, struct kernel_report *report, ey_err *e)
{
    CUdeviceptr p = 0;
    struct trial t = {.c = c, .random = 1, .report = report};
    if (!cuda_ok(&c->driver, c->driver.memory_alloc(&p, TRIAL_BYTES),
                 "memory to try the kernels in", e))
        return false;
    t.card = (char *)(uintptr_t)p;
    bool alive = try_parts(&t);
    arena_free(&t.host);
    if (alive) c->driver.memory_free(p);
    if (!alive && e) *e = c->error;
    c->error = (ey_err){0};
    return alive && (!t.out_of_memory || ey_fail_memory(e, "trying the kernels", TRIAL_BYTES));
}
