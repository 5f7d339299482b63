/* SPDX-License-Identifier: Apache-2.0 */
/* Attention kernels in the emulator against loops in double precision. Caches, rows after the last
 * and shared memory begin as NaN, and unused entries of block tables are invalid, so that reads of
 * too much are found. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/attention_launch.h"
#include "cuda/emulated.h"

enum { NOWHERE = 1 << 28 };

static const float eps = 1e-6f;

/* ---- random numbers ---- */

static double uniform(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / (double)(1 << 24);
}

static double normal(void)
{
    return sqrt(-2 * log(uniform() + 1e-9)) * cos(6.283185307179586 * uniform());
}

static bf16 bf16_from(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (bf16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static double bf16_value(bf16 v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return (double)f;
}

static double e4m3_value(uint8_t v)
{
    int exponent = v >> 3 & 15, fraction = v & 7;
    double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    if ((v & 0x7f) == 0x7f) return (double)NAN;
    return v & 0x80 ? -size : size;
}

static uint8_t nearest_e4m3(double v)
{
    int best = 0;
    for (int code = 1; code < 0x7f; code++) {
        double closer = fabs(fabs(v) - e4m3_value((uint8_t)best)) -
                        fabs(fabs(v) - e4m3_value((uint8_t)code));
        if (closer > 0 || (closer >= 0 && code % 2 == 0)) best = code;
    }
    return (uint8_t)(best | (signbit(v) ? 0x80 : 0));
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    assert_non_null(p);
    memset(p, 0xff, bytes);
    return p;
}

static void run(struct launch l, const void *args)
{
    assert_true(emulator_launch(gpu_kernel_name(l.kernel), args, l.grid,
                                (const unsigned[3]){l.block, 1, 1}, l.shared));
}

/* ---- sequences and their cache ---- */

struct shape {
    int dim, heads, kv_heads, fp8, normed;
    double spread; /* standard deviation of queries before the norm */
};

enum { MAX_SEQS = 8 };

struct text {
    struct shape shape;
    int n_seqs, n[MAX_SEQS]; /* tokens in the cache */
    int max_blocks, n_blocks;
    int32_t *table;
    struct kv_layer kv;
    float *q_norm, *k_norm;
};

/* The rows of a call. */
struct rows {
    int n, n_tiles;
    int32_t *seq, *index, *tile;
    float *raw, *rope;
    bf16 *q, *o;
};

static int width(const struct shape *s)
{
    return (s->heads + 2 * s->kv_heads) * s->dim;
}

static struct text make_text(struct shape s, int n_seqs, int max_blocks)
{
    struct text t = {.shape = s,
                     .n_seqs = n_seqs,
                     .max_blocks = max_blocks,
                     .n_blocks = n_seqs * max_blocks + 3};
    t.table = malloc(sizeof(int32_t) * (size_t)(n_seqs * max_blocks));
    for (int i = 0; i < n_seqs * max_blocks; i++)
        t.table[i] = NOWHERE;
    t.kv = (struct kv_layer){
        room((size_t)t.n_blocks * (size_t)(s.kv_heads * 2 * KV_TOKENS * s.dim) * (s.fp8 ? 1 : 2)),
        s.kv_heads, s.dim, s.fp8};
    if (!s.normed) return t;
    t.q_norm = room(sizeof(float) * (size_t)s.dim);
    t.k_norm = room(sizeof(float) * (size_t)s.dim);
    for (int i = 0; i < s.dim; i++) {
        t.q_norm[i] = (float)(0.5 + uniform());
        t.k_norm[i] = (float)(0.5 + uniform());
    }
    return t;
}

static void free_text(struct text *t)
{
    free(t->table);
    free(t->kv.data);
    free(t->q_norm);
    free(t->k_norm);
}

/* Allocates the k-th block of a sequence, in scrambled order. */
static void give_block(struct text *t, int seq, int k)
{
    t->table[seq * t->max_blocks + k] = (7 * (k * t->n_seqs + seq) + 2) % t->n_blocks;
}

/* Rows for add[s] new tokens of each sequence s, in tiles of up to ATTENTION_ROWS. */
static struct rows make_rows(struct text *t, const int *add)
{
    struct rows r = {0};
    for (int s = 0; s < t->n_seqs; s++)
        r.n += add[s];
    size_t n = (size_t)r.n, wide = (size_t)width(&t->shape),
           q_wide = (size_t)(t->shape.heads * t->shape.dim);
    r.seq = malloc(n * 4);
    r.index = malloc(n * 4);
    r.tile = malloc(n * 8);
    r.raw = room(n * wide * sizeof(float));
    r.rope = room(n * (size_t)t->shape.dim * sizeof(float));
    r.q = room(n * q_wide * sizeof(bf16));
    r.o = room(n * q_wide * sizeof(bf16));
    int row = 0;
    for (int s = 0; s < t->n_seqs; s++) {
        for (int i = 0; i < add[s]; i++, row++) {
            if (i % ATTENTION_ROWS == 0) {
                r.tile[2 * r.n_tiles++] = row;
                r.tile[2 * r.n_tiles - 1] = 0;
            }
            r.tile[2 * r.n_tiles - 1]++;
            r.seq[row] = s;
            r.index[row] = t->n[s]++;
            if (r.index[row] % KV_TOKENS == 0) give_block(t, s, r.index[row] / KV_TOKENS);
        }
    }
    for (size_t i = 0; i < n * wide; i++) {
        double v = normal() * (i % wide < q_wide ? t->shape.spread : 1);
        r.raw[i] = (float)v;
    }
    for (size_t i = 0; i < n * (size_t)t->shape.dim / 2; i++) {
        double angle = uniform() * 6;
        r.rope[2 * i] = (float)cos(angle);
        r.rope[2 * i + 1] = (float)sin(angle);
    }
    return r;
}

static void free_rows(struct rows *r)
{
    free(r->seq);
    free(r->index);
    free(r->tile);
    free(r->raw);
    free(r->rope);
    free(r->q);
    free(r->o);
}

static struct dev_batch batch_of(const struct text *t, const struct rows *r)
{
    return (struct dev_batch){r->seq, r->index, t->table, r->n, t->max_blocks};
}

static size_t cache_at(const struct text *t, int seq, int slot, int head, int which)
{
    size_t block = (size_t)t->table[seq * t->max_blocks + slot / KV_TOKENS];
    return (((block * (size_t)t->kv.n_kv_heads + (size_t)head) * 2 + (size_t)which) * KV_TOKENS +
            (size_t)(slot % KV_TOKENS)) *
           (size_t)t->kv.head_dim;
}

static double cached(const struct text *t, size_t i)
{
    return t->kv.fp8 ? e4m3_value(((const uint8_t *)t->kv.data)[i])
                     : bf16_value(((const bf16 *)t->kv.data)[i]);
}

/* The expected head after norm and rotation of q and k; v is unchanged. */
static void expected_head(double *out, const struct text *t, const struct rows *r, int row,
                          int head)
{
    const struct shape *s = &t->shape;
    int half = s->dim / 2;
    bool is_v = head >= s->heads + s->kv_heads;
    const float *norm = is_v              ? NULL
                        : head < s->heads ? t->q_norm
                                          : t->k_norm,
                *rope = r->rope + row * s->dim;
    size_t at = (size_t)row * (size_t)width(s) + (size_t)(head * s->dim);
    double squares = 0;
    for (int i = 0; i < s->dim; i++) {
        out[i] = (double)r->raw[at + (size_t)i];
        squares += out[i] * out[i];
    }
    if (norm)
        for (int i = 0; i < s->dim; i++)
            out[i] *= (double)norm[i] / sqrt(squares / s->dim + (double)eps);
    for (int i = 0; i < half && !is_v; i++) {
        double x = out[i], y = out[half + i], c = (double)rope[2 * i],
               sine = (double)rope[2 * i + 1];
        out[i] = x * c - y * sine;
        out[half + i] = y * c + x * sine;
    }
}

static void assert_near(double got, double want, double relative, double absolute, const char *what,
                        int a, int b, int c)
{
    if (fabs(got - want) <= relative * fabs(want) + absolute) return;
    fail_msg("%s [%d, %d, %d]: %g, not %g", what, a, b, c, got, want);
}

/* Checks the keys and values of the rows in the cache. */
static void check_cache(const struct text *t, const struct rows *r)
{
    const struct shape *s = &t->shape;
    double want[HEAD_DIM_MAX];
    for (int row = 0; row < r->n; row++) {
        for (int head = 0; head < 2 * s->kv_heads; head++) {
            int which = head / s->kv_heads;
            size_t at = cache_at(t, r->seq[row], r->index[row], head % s->kv_heads, which);
            expected_head(want, t, r, row, s->heads + head);
            for (int i = 0; i < s->dim; i++) {
                assert_near(cached(t, at + (size_t)i), want[i], s->fp8 ? 0x1p-4 : 0x1.1p-8,
                            s->fp8 ? 0x1p-9 : 1e-5, "cache", row, head, i);
                if (s->fp8 && which)
                    assert_int_equal(((uint8_t *)t->kv.data)[at + (size_t)i] & 0x7f,
                                     nearest_e4m3(want[i]) & 0x7f);
            }
        }
    }
}

static void check_queries(const struct text *t, const struct rows *r)
{
    const struct shape *s = &t->shape;
    double want[HEAD_DIM_MAX];
    for (int row = 0; row < r->n; row++) {
        for (int head = 0; head < s->heads; head++) {
            expected_head(want, t, r, row, head);
            for (int i = 0; i < s->dim; i++)
                assert_near(bf16_value(r->q[(row * s->heads + head) * s->dim + i]), want[i],
                            0x1.1p-8, 1e-4, "q", row, head, i);
        }
    }
}

/* A weighted mean of rows. squares: the size without cancellation, to which the error is compared.
 */
struct mean {
    double sum_of_weights, value[HEAD_DIM_MAX], squares;
};

static void add_weighted(struct mean *m, double weight, const double *value, int dim)
{
    m->sum_of_weights += weight;
    for (int i = 0; i < dim; i++) {
        m->value[i] += weight * value[i];
        m->squares += weight * weight * value[i] * value[i];
    }
}

static void divide(struct mean *m, int dim)
{
    for (int i = 0; i < dim; i++)
        m->value[i] /= m->sum_of_weights;
    m->squares /= m->sum_of_weights * m->sum_of_weights;
}

/* The expected attention of one row of a head over the cache. */
static struct mean expected_attention(const struct text *t, const double *q, int seq, int n_keys,
                                      int kv_head)
{
    int dim = t->shape.dim;
    double *score = malloc(sizeof(double) * (size_t)n_keys), best = -(double)INFINITY,
           value[HEAD_DIM_MAX];
    struct mean m = {0};
    for (int j = 0; j < n_keys; j++) {
        size_t key = cache_at(t, seq, j, kv_head, 0);
        score[j] = 0;
        for (int i = 0; i < dim; i++)
            score[j] += q[i] * cached(t, key + (size_t)i) / sqrt((double)dim);
        best = fmax(best, score[j]);
    }
    for (int j = 0; j < n_keys; j++) {
        size_t at = cache_at(t, seq, j, kv_head, 1);
        for (int i = 0; i < dim; i++)
            value[i] = cached(t, at + (size_t)i);
        add_weighted(&m, exp(score[j] - best), value, dim);
    }
    divide(&m, dim);
    free(score);
    return m;
}

/* Weights and results are BF16: the error is at most 0.5 % of the size. */
static void check_row(const bf16 *got, const struct mean *want, int dim, const char *what, int a,
                      int b)
{
    double error = 0, size = want->squares;
    for (int i = 0; i < dim; i++) {
        double d = bf16_value(got[i]) - want->value[i];
        error += d * d;
        size += want->value[i] * want->value[i];
    }
    if (!(error <= 25e-6 * size))
        fail_msg("%s [%d, %d]: error %g of %g; begins %g %g, not %g %g", what, a, b, sqrt(error),
                 sqrt(size), bf16_value(got[0]), bf16_value(got[1]), want->value[0],
                 want->value[1]);
}

static void check_attention(const struct text *t, const struct rows *r)
{
    const struct shape *s = &t->shape;
    double q[HEAD_DIM_MAX];
    for (int row = 0; row < r->n; row++) {
        for (int head = 0; head < s->heads; head++) {
            size_t at = (size_t)((row * s->heads + head) * s->dim);
            for (int i = 0; i < s->dim; i++)
                q[i] = bf16_value(r->q[at + (size_t)i]);
            struct mean want = expected_attention(t, q, r->seq[row], r->index[row] + 1,
                                                  head / (s->heads / s->kv_heads));
            check_row(r->o + at, &want, s->dim, "attention", row, head);
        }
    }
}

/* Adds tokens like a chunk of a prompt; checks everything if `attends`. */
static void add_chunk(struct text *t, const int *add, bool attends, bool fallback)
{
    struct rows r = make_rows(t, add);
    struct kv_append_args append = {r.q,   r.raw,           t->q_norm,      t->k_norm, r.rope,
                                    t->kv, batch_of(t, &r), t->shape.heads, eps};
    run(kv_append_launch(&append), &append);
    if (attends) {
        struct attention_args a = {
            r.o,    r.q,       t->kv,          append.batch,
            r.tile, r.n_tiles, t->shape.heads, (float)(1 / sqrt(t->shape.dim)),
            0};
        check_queries(t, &r);
        check_cache(t, &r);
        run(fallback ? warp_launch(GPU_attention_fallback, (int64_t)r.n * t->shape.heads)
                     : attention_launch(&a),
            &a);
        check_attention(t, &r);
    }
    free_rows(&r);
}

/* A decode step of one token for each sequence, with `splits` thread blocks for a sequence's KV
 * head or, if `many`, in total. */
static void add_token(struct text *t, int splits, bool many)
{
    static const int one[MAX_SEQS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct shape *s = &t->shape;
    struct rows r = make_rows(t, one);
    const int parts = many ? splits * 2 * (s->heads / s->kv_heads) : r.n * s->heads * splits;
    float *partial = room(sizeof(float) * (size_t)(parts * (s->dim + 2)));
    uint32_t *arrived = calloc((size_t)(r.n * s->kv_heads), sizeof(uint32_t));
    struct attention_decode_args a = {r.o,     r.raw,    t->q_norm,       t->k_norm,
                                      r.rope,  t->kv,    batch_of(t, &r), partial,
                                      arrived, s->heads, splits,          (float)(1 / sqrt(s->dim)),
                                      eps};
    double q[HEAD_DIM_MAX];
    run(many ? decode_many_launch(&a) : attention_decode_launch(&a), &a);
    check_cache(t, &r);
    for (int i = 0; i < r.n * s->kv_heads; i++)
        assert_int_equal(arrived[i], 0);
    for (int row = 0; row < r.n; row++) {
        for (int head = 0; head < s->heads; head++) {
            expected_head(q, t, &r, row, head);
            for (int i = 0; i < s->dim; i++)
                q[i] = bf16_value(bf16_from(q[i]));
            struct mean want = expected_attention(t, q, r.seq[row], r.index[row] + 1,
                                                  head / (s->heads / s->kv_heads));
            check_row(r.o + (row * s->heads + head) * s->dim, &want, s->dim, "decode", row, head);
        }
    }
    free(partial);
    free(arrived);
    free_rows(&r);
}

/* ---- text ---- */

/* Sequences of several lengths, some with tokens before this chunk; the last is a tile of one row.
 */
static void prompts(struct shape s, bool fallback)
{
    struct text t = make_text(s, 4, 4);
    add_chunk(&t, (int[]){70, 0, 30, 64}, false, fallback);
    add_chunk(&t, (int[]){30, 1, 66, 3}, true, fallback);
    add_chunk(&t, (int[]){1, 1, 0, 62}, true, fallback);
    free_text(&t);
}

static void prompts_of_common_heads(void **state)
{
    (void)state;
    prompts((struct shape){128, 4, 2, 0, 1, 1}, false);
    prompts((struct shape){128, 2, 2, 1, 1, 1}, false);
    prompts((struct shape){64, 4, 1, 0, 0, 1}, false);
    prompts((struct shape){64, 8, 1, 1, 1, 1}, false);
}

static void prompts_of_odd_heads(void **state)
{
    (void)state;
    static const int dims[] = {8, 16, 40, 72, 96, 112};
    for (size_t i = 0; i < sizeof(dims) / sizeof(*dims); i++)
        prompts((struct shape){dims[i], 2, 1, 0, 1, 1}, false);
    prompts((struct shape){96, 2, 1, 1, 1, 1}, false);
    prompts((struct shape){16, 2, 1, 1, 1, 1}, false);
}

static void prompts_by_the_fallback(void **state)
{
    (void)state;
    prompts((struct shape){20, 2, 1, 0, 1, 1}, false);
    prompts((struct shape){20, 2, 1, 1, 1, 1}, false);
    prompts((struct shape){8, 2, 1, 1, 1, 1}, false);
    prompts((struct shape){256, 2, 2, 0, 1, 1}, false);
    prompts((struct shape){6, 1, 1, 0, 0, 1}, false);
    prompts((struct shape){128, 2, 1, 0, 1, 1}, true);
}

/* Scores up to a few hundred, so that one key has all the weight; and equal scores. */
static void prompts_of_extreme_scores(void **state)
{
    (void)state;
    prompts((struct shape){128, 2, 1, 0, 0, 100}, false);
    prompts((struct shape){64, 2, 1, 0, 0, 0}, false);
}

/* Rows give the same bits in one chunk and in several, whatever tiles they are in. */
static void rows_do_not_depend_on_their_tile(void **state)
{
    (void)state;
    struct text t = make_text((struct shape){128, 2, 1, 0, 1, 8}, 1, 3);
    struct rows r = make_rows(&t, (int[]){150});
    struct kv_append_args append = {r.q, r.raw, t.q_norm, t.k_norm, r.rope, t.kv, batch_of(&t, &r),
                                    2,   eps};
    struct attention_args a = {
        r.o, r.q, t.kv, append.batch, r.tile, r.n_tiles, 2, (float)(1 / sqrt(128)), 0};
    run(kv_append_launch(&append), &append);
    run(attention_launch(&a), &a);
    size_t bytes = (size_t)150 * 2 * 128 * sizeof(bf16);
    bf16 *whole = room(bytes);
    memcpy(whole, r.o, bytes);
    memset(r.o, 0xff, bytes);
    int32_t tiles[] = {0, 7, 7, 1, 8, 64, 72, 30, 102, 48};
    a.tile = tiles;
    a.n_tiles = 5;
    run(attention_launch(&a), &a);
    assert_memory_equal(whole, r.o, bytes);
    free(whole);
    free_rows(&r);
    free_text(&t);
}

/* Decode from an empty cache, across a block border, with all kinds of splits: parts of a sequence,
 * several sequences and KV heads in a thread block, several rounds of the warps. */
static void decode(struct shape s, bool many)
{
    struct text t = make_text(s, 4, 6);
    add_token(&t, 3, many);
    add_token(&t, 1, many);
    add_chunk(&t, (int[]){61, 12, 294, 0}, false, false);
    static const int splits[] = {1, 2, 5, 20, 3, 40};
    for (size_t i = 0; i < sizeof(splits) / sizeof(*splits); i++)
        add_token(&t, splits[i], many);
    free_text(&t);
}

static const struct shape decoded[] = {
    {128, 4, 2, 0, 1, 1}, {128, 4, 4, 0, 0, 1}, {128, 4, 1, 1, 1, 1}, {128, 8, 1, 0, 1, 1},
    {64, 6, 2, 0, 1, 1},  {64, 8, 1, 1, 1, 1},  {128, 7, 1, 0, 1, 1}, {128, 6, 2, 1, 1, 1},
};

static void one_token_of_one_sequence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(decoded) / sizeof(*decoded); i++)
        decode(decoded[i], false);
}

static void tokens_of_many(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(decoded) / sizeof(*decoded); i++)
        decode(decoded[i], true);
}

/* More parts than the last block adds in one round. */
static void tokens_of_many_parts(void **state)
{
    (void)state;
    struct text t = make_text((struct shape){64, 8, 1, 0, 0, 20}, 1, 20);
    add_chunk(&t, (int[]){1200}, false, false);
    add_token(&t, 64, false);
    add_token(&t, 64, true);
    free_text(&t);
}

static void tokens_of_extreme_scores(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        decode((struct shape){128, 2, 1, 0, 0, 60}, many);
        decode((struct shape){64, 2, 1, 0, 0, 0}, many);
    }
}

/* ---- vision ---- */

static void check_image_attention(int dim, int heads, int n_keys, int first, int n, double spread,
                                  bool fallback)
{
    int row_width = 3 * heads * dim;
    bf16 *qkv = room((size_t)(n_keys + 40) * (size_t)row_width * sizeof(bf16)),
         *o = room((size_t)(n + 1) * (size_t)(heads * dim) * sizeof(bf16));
    for (int i = 0; i < n_keys * row_width; i++)
        qkv[i] = bf16_from(normal() * (i % row_width < heads * dim ? spread : 1));
    struct attention_vision_args a = {o, qkv, first, n, n_keys, heads, dim, (float)(1 / sqrt(dim))};
    run(fallback ? warp_launch(GPU_attention_vision_fallback, (int64_t)n * heads)
                 : attention_vision_launch(&a),
        &a);
    double *score = malloc(sizeof(double) * (size_t)n_keys), value[HEAD_DIM_MAX];
    for (int row = 0; row < n; row++) {
        for (int head = 0; head < heads; head++) {
            struct mean want = {0};
            double best = -(double)INFINITY;
            for (int j = 0; j < n_keys; j++) {
                score[j] = 0;
                const bf16 *q = qkv + (first + row) * row_width + head * dim,
                           *key = qkv + j * row_width + (heads + head) * dim;
                for (int i = 0; i < dim; i++)
                    score[j] += bf16_value(q[i]) * bf16_value(key[i]) / sqrt(dim);
                best = fmax(best, score[j]);
            }
            for (int j = 0; j < n_keys; j++) {
                for (int i = 0; i < dim; i++)
                    value[i] = bf16_value(qkv[j * row_width + (2 * heads + head) * dim + i]);
                add_weighted(&want, exp(score[j] - best), value, dim);
            }
            divide(&want, dim);
            check_row(o + (row * heads + head) * dim, &want, dim, "picture", row, head);
        }
    }
    for (int i = 0; i < heads * dim; i++)
        assert_int_equal(o[n * heads * dim + i], 0xffff);
    free(score);
    free(qkv);
    free(o);
}

static void attention_of_images(void **state)
{
    (void)state;
    check_image_attention(64, 2, 256, 0, 256, 1, false);
    check_image_attention(64, 2, 200, 16, 132, 3, false);
    check_image_attention(64, 1, 4, 0, 4, 1, false);
    check_image_attention(64, 1, 33, 32, 1, 1, false);
    check_image_attention(64, 1, 31, 0, 9, 1, false);
    check_image_attention(64, 1, 150, 0, 20, 300, false);
    check_image_attention(64, 1, 150, 0, 20, 0, false);
    check_image_attention(72, 2, 130, 0, 130, 1, false);
    check_image_attention(40, 2, 70, 4, 66, 1, false);
    check_image_attention(8, 2, 65, 0, 65, 1, false);
    check_image_attention(20, 2, 70, 4, 66, 1, false);
    check_image_attention(128, 1, 40, 4, 8, 1, false);
    check_image_attention(64, 2, 40, 4, 8, 1, true);
}

static void rotated_image(int dim, int heads, int first, int n)
{
    int row_width = 3 * heads * dim, half = dim / 2;
    size_t bytes = (size_t)(first + n + 1) * (size_t)row_width * sizeof(bf16);
    bf16 *qkv = room(bytes), *before = room(bytes);
    float *rope = room(sizeof(float) * (size_t)(n * dim));
    for (int i = 0; i < (first + n + 1) * row_width; i++)
        qkv[i] = bf16_from(normal());
    for (int i = 0; i < n * half; i++) {
        double angle = uniform() * 6;
        rope[2 * i] = (float)cos(angle);
        rope[2 * i + 1] = (float)sin(angle);
    }
    memcpy(before, qkv, bytes);
    struct vision_rope_args a = {qkv, rope, first, n, heads, dim};
    run(vision_rope_launch(&a), &a);
    for (int i = 0; i < (first + n + 1) * row_width; i++) {
        int row = i / row_width - first, column = i % row_width, pair = column % dim % half;
        if (row < 0 || row >= n || column >= 2 * heads * dim) {
            assert_int_equal(qkv[i], before[i]);
            continue;
        }
        bool lower = column % dim < half;
        double c = (double)rope[(row * half + pair) * 2],
               s = (double)rope[(row * half + pair) * 2 + 1];
        double own = bf16_value(before[i]), other = bf16_value(before[lower ? i + half : i - half]);
        assert_near(bf16_value(qkv[i]), lower ? own * c - other * s : own * c + other * s, 0x1.1p-8,
                    1e-6, "turned", row, column, dim);
    }
    free(qkv);
    free(before);
    free(rope);
}

static void rotated_images(void **state)
{
    (void)state;
    rotated_image(64, 3, 5, 9);
    rotated_image(72, 2, 1, 4);
    rotated_image(20, 2, 0, 4);
    rotated_image(6, 1, 0, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_common_heads),
        cmocka_unit_test(prompts_of_odd_heads),
        cmocka_unit_test(prompts_by_the_fallback),
        cmocka_unit_test(prompts_of_extreme_scores),
        cmocka_unit_test(rows_do_not_depend_on_their_tile),
        cmocka_unit_test(one_token_of_one_sequence),
        cmocka_unit_test(tokens_of_many),
        cmocka_unit_test(tokens_of_extreme_scores),
        cmocka_unit_test(attention_of_images),
        cmocka_unit_test(rotated_images),
        cmocka_unit_test(tokens_of_many_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
