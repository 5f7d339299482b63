/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test of attention: of the text model over a paged cache that kv_append fills, and of the
 * vision encoder. */
#include <math.h>
#include <string.h>

#include "tensor/dequantize.h"
#include "kernels/cuda/attention/attention_launch.h"
#include "backend/cuda/selftest.h"

/* ---- attention of the text model ---- */

/* The nearest value of an FP8 cache. */
static float round_to_e4m3(float v)
{
    float step = ldexpf(1, (fabsf(v) < 0x1p-6f ? -6 : ilogbf(v)) - 3),
          r = nearbyintf(v / step) * step;
    return r > 448 ? 448 : r < -448 ? -448 : r;
}

enum {
    SEQS = 3,
    BODY = 232,
    TEXT_ROWS = BODY + SEQS,
    HEADS = 4,
    KV_HEADS = 2,
    BLOCKS = 3,
    SPLITS = 4
};
static const int lengths[SEQS] = {
    150, 65, 20}; /* the last token of each is decoded, the BODY before goes through attend */

struct text_selftest {
    int dim, width; /* of a head; of a row of raw q, k and v */
    bool fp8;
    int32_t seq[TEXT_ROWS], index[TEXT_ROWS], table[SEQS * BLOCKS], tile[16];
    int n_tiles;
    float *raw, *q_norm, *k_norm, *rope;
    float *head; /* [TEXT_ROWS, HEADS + 2 KV_HEADS, dim] normed and rotated, keys and values as the
                    cache holds them */
    double *o;   /* [TEXT_ROWS, HEADS, dim] */
    int row_of[SEQS][160];
    struct kv_layer kv;
    struct dev_batch batch;
    const int32_t *device_tile;
    const float *device_raw, *device_q_norm, *device_k_norm, *device_rope;
    bf16 *q;
};

static void selftest_lay_out_rows(struct text_selftest *x)
{
    int body = 0;
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; i < lengths[s]; i++) {
            int row = i == lengths[s] - 1 ? BODY + s : body++;
            x->seq[row] = s;
            x->index[row] = i;
            x->row_of[s][i] = row;
        }
    for (int first = 0, n; first < BODY; first += n) {
        for (n = 1; n < ATTENTION_ROWS && first + n < BODY && x->seq[first + n] == x->seq[first];
             n++) {}
        x->tile[2 * x->n_tiles] = first;
        x->tile[2 * x->n_tiles + 1] = n;
        x->n_tiles++;
    }
    for (int i = 0; i < SEQS * BLOCKS; i++)
        x->table[i] = (5 * i + 1) % (SEQS * BLOCKS);
}

static void selftest_norm_rope(const struct text_selftest *x, float *head, const float *norm,
                               const float *rope)
{
    double squares = 0, v[128];
    int half = x->dim / 2;
    for (int i = 0; i < x->dim; i++)
        squares += (double)head[i] * (double)head[i];
    for (int i = 0; i < x->dim; i++)
        v[i] = (double)head[i] * (double)norm[i] / sqrt(squares / x->dim + (double)SELFTEST_EPS);
    for (int j = 0; j < half; j++) {
        double cosine = (double)rope[2 * j], sine = (double)rope[2 * j + 1];
        head[j] = (float)(v[j] * cosine - v[j + half] * sine);
        head[j + half] = (float)(v[j + half] * cosine + v[j] * sine);
    }
}

static void selftest_finish_heads(struct text_selftest *x)
{
    for (int row = 0; row < TEXT_ROWS; row++)
        for (int h = 0; h < HEADS + 2 * KV_HEADS; h++) {
            float *head = x->head + row * x->width + h * x->dim;
            if (h < HEADS + KV_HEADS)
                selftest_norm_rope(x, head, h < HEADS ? x->q_norm : x->k_norm,
                                   x->rope + row * x->dim);
            for (int i = 0; i < x->dim; i++)
                head[i] = h >= HEADS && x->fp8 ? round_to_e4m3(head[i])
                                               : bf16_to_f32(f32_to_bf16(head[i]));
        }
}

static double selftest_dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void selftest_host_attention(struct text_selftest *x, int row, int h)
{
    const int *row_of = x->row_of[x->seq[row]];
    int key = (HEADS + h / (HEADS / KV_HEADS)) * x->dim, value = key + KV_HEADS * x->dim;
    double *o = x->o + (row * HEADS + h) * x->dim, most = -INFINITY, sum = 0, score[160];
    for (int i = 0; i <= x->index[row]; i++) {
        score[i] = selftest_dot(x->head + row * x->width + h * x->dim,
                                x->head + row_of[i] * x->width + key, x->dim) /
                   sqrt(x->dim);
        most = score[i] > most ? score[i] : most;
    }
    for (int i = 0; i <= x->index[row]; i++) {
        double weight = exp(score[i] - most);
        sum += weight;
        for (int d = 0; d < x->dim; d++)
            o[d] += weight * (double)x->head[row_of[i] * x->width + value + d];
    }
    for (int d = 0; d < x->dim; d++)
        o[d] /= sum;
}

static void selftest_put_text(struct selftest *t, struct text_selftest *x)
{
    size_t raw = TEXT_ROWS * (size_t)x->width * sizeof(float);
    size_t cache = (size_t)(SEQS * BLOCKS * KV_HEADS * 2 * KV_TOKENS * x->dim) *
                   (x->fp8 ? 1 : sizeof(bf16));
    x->kv = (struct kv_layer){selftest_gpu_alloc(t, cache), KV_HEADS, x->dim, x->fp8};
    x->batch = (struct dev_batch){selftest_put(t, x->seq, sizeof(x->seq)),
                                  selftest_put(t, x->index, sizeof(x->index)),
                                  selftest_put(t, x->table, sizeof(x->table)), BODY, BLOCKS};
    x->device_tile = selftest_put(t, x->tile, sizeof(x->tile));
    x->device_raw = selftest_put(t, x->raw, raw);
    x->device_q_norm = selftest_put(t, x->q_norm, (size_t)x->dim * sizeof(float));
    x->device_k_norm = selftest_put(t, x->k_norm, (size_t)x->dim * sizeof(float));
    x->device_rope = selftest_put(t, x->rope, TEXT_ROWS * (size_t)x->dim * sizeof(float));
    x->q = selftest_gpu_alloc(t, TEXT_ROWS * (size_t)(HEADS * x->dim) * sizeof(bf16));
}

static struct text_selftest *selftest_make_text(struct selftest *t, int dim, bool fp8)
{
    struct text_selftest *x = selftest_host_alloc(t, sizeof(*x));
    size_t width = (size_t)((HEADS + 2 * KV_HEADS) * dim), n = TEXT_ROWS * width;
    float *angle = selftest_random_floats(t, TEXT_ROWS * (size_t)dim / 2, -3, 3);
    if (!x || !angle) return NULL;
    x->dim = dim;
    x->width = (int)width;
    x->fp8 = fp8;
    x->raw = selftest_random_floats(t, n, -2, 2);
    x->q_norm = selftest_random_floats(t, (size_t)dim, 0.5f, 1.5f);
    x->k_norm = selftest_random_floats(t, (size_t)dim, 0.5f, 1.5f);
    x->rope = selftest_host_alloc(t, TEXT_ROWS * (size_t)dim * sizeof(float));
    x->head = selftest_host_alloc(t, n * sizeof(float));
    x->o = selftest_host_alloc(t, TEXT_ROWS * (size_t)(HEADS * dim) * sizeof(double));
    if (t->out_of_memory) return NULL;
    for (int i = 0; i < TEXT_ROWS * dim / 2; i++) {
        x->rope[2 * i] = cosf(angle[i]);
        x->rope[2 * i + 1] = sinf(angle[i]);
    }
    selftest_lay_out_rows(x);
    memcpy(x->head, x->raw, n * sizeof(float));
    selftest_finish_heads(x);
    for (int row = 0; row < TEXT_ROWS; row++)
        for (int h = 0; h < HEADS; h++)
            selftest_host_attention(x, row, h);
    selftest_put_text(t, x);
    return t->out_of_memory ? NULL : x;
}

/* Fills the cache; of what append makes, q is judged here, keys and values by what is attended to.
 */
static void selftest_kv_append(struct selftest *t, struct text_selftest *x)
{
    size_t q_width = (size_t)(HEADS * x->dim);
    struct kv_append_args a = {x->q,           x->device_raw, x->device_q_norm, x->device_k_norm,
                               x->device_rope, x->kv,         x->batch,         HEADS,
                               SELFTEST_EPS};
    struct launch l = kv_append_launch(&a);
    double *want = selftest_host_alloc(t, BODY * q_width * sizeof(double));
    cuda_launch(t->c, &l, &a);
    for (size_t i = 0; want && i < BODY * q_width; i++)
        want[i] = (double)x->head[i / q_width * (size_t)x->width + i % q_width];
    selftest_judge(t, FAMILY_KV_APPEND, selftest_get_bf16(t, x->q, BODY * q_width), want,
                   BODY * q_width);
}

static void selftest_attention(struct selftest *t, const struct text_selftest *x, bool fallback)
{
    size_t n = BODY * (size_t)(HEADS * x->dim);
    struct attention_args a = {selftest_gpu_alloc(t, n * sizeof(bf16)),
                               x->q,
                               x->kv,
                               x->batch,
                               x->device_tile,
                               x->n_tiles,
                               HEADS,
                               1 / sqrtf((float)x->dim),
                               0};
    struct launch l = fallback ? attention_fallback_launch(&a) : attention_launch(&a);
    if (a.o) cuda_launch(t->c, &l, &a);
    selftest_judge(t, fallback ? FAMILY_ATTENTION_FALLBACK : cuda_attention_family(&x->kv),
                   a.o ? selftest_get_bf16(t, a.o, n) : NULL, x->o, n);
}

static void selftest_attention_decode(struct selftest *t, const struct text_selftest *x)
{
    size_t n = SEQS * (size_t)(HEADS * x->dim);
    struct dev_batch last = {x->batch.seq + BODY, x->batch.index + BODY, x->batch.block_table, SEQS,
                             BLOCKS};
    static const uint32_t none[SEQS * KV_HEADS];
    struct attention_decode_args a = {
        selftest_gpu_alloc(t, n * sizeof(bf16)),
        x->device_raw + BODY * x->width,
        x->device_q_norm,
        x->device_k_norm,
        x->device_rope + BODY * x->dim,
        x->kv,
        last,
        selftest_gpu_alloc(t, SEQS * HEADS * SPLITS * (size_t)(x->dim + 2) * sizeof(float)),
        selftest_put(t, none, sizeof(none)),
        HEADS,
        SPLITS,
        1 / sqrtf((float)x->dim),
        SELFTEST_EPS};
    struct launch l = attention_decode_launch(&a);
    if (!t->out_of_memory) cuda_launch(t->c, &l, &a);
    selftest_judge(t, cuda_attention_decode_family(&x->kv),
                   t->out_of_memory ? NULL : selftest_get_bf16(t, a.o, n),
                   x->o + BODY * HEADS * x->dim, n);
}

/* ---- attention of the vision encoder ---- */

enum { VISION_FIRST = 10, VISION_N = 130, VISION_KEYS = 150, VISION_HEADS = 2 };

static double *selftest_host_vision(struct selftest *t, const float *qkv, int dim)
{
    double *out = selftest_host_alloc(t, VISION_N * (size_t)(VISION_HEADS * dim) * sizeof(double)),
           weight[VISION_KEYS];
    int width = VISION_HEADS * dim;
    for (int i = 0; out && i < VISION_N * VISION_HEADS; i++) {
        const float *q = qkv + (VISION_FIRST + i / VISION_HEADS) * 3 * width +
                         i % VISION_HEADS * dim,
                    *k = qkv + width + i % VISION_HEADS * dim;
        double sum = 0;
        for (int key = 0; key < VISION_KEYS; key++)
            sum += weight[key] = exp(selftest_dot(q, k + key * 3 * width, dim) /
                                     sqrt(dim)); /* small: no maximum is needed */
        for (int key = 0; key < VISION_KEYS; key++)
            for (int d = 0; d < dim; d++)
                out[i * dim + d] += weight[key] / sum * (double)k[key * 3 * width + width + d];
    }
    return out;
}

static void selftest_vision(struct selftest *t, int dim, bool fallback)
{
    size_t n = VISION_N * (size_t)(VISION_HEADS * dim),
           all = VISION_KEYS * 3 * (size_t)(VISION_HEADS * dim);
    float *qkv = selftest_random_floats(t, all, -2, 2);
    if (!qkv) return;
    struct attention_vision_args a = {selftest_gpu_alloc(t, n * sizeof(bf16)),
                                      selftest_put_bf16(t, qkv, all),
                                      VISION_FIRST,
                                      VISION_N,
                                      VISION_KEYS,
                                      VISION_HEADS,
                                      dim,
                                      1 / sqrtf((float)dim)};
    struct launch l = fallback ? attention_vision_fallback_launch(&a) : attention_vision_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    selftest_judge(t,
                   fallback ? FAMILY_ATTENTION_VISION_FALLBACK : cuda_attention_vision_family(dim),
                   selftest_get_bf16(t, a.o, n), selftest_host_vision(t, qkv, dim), n);
}

/* ---- all ---- */

bool selftest_attention_text(struct selftest *t, int dim, bool fp8)
{
    struct text_selftest *x = selftest_make_text(t, dim, fp8);
    if (!x) return true;
    t->report->kernel[FAMILY_KV_APPEND].was_run =
        t->report->kernel[FAMILY_ATTENTION_FALLBACK].was_run =
            false; /* tested once more with each kind of cache */
    if (selftest_begin(t, FAMILY_KV_APPEND) &&
        (selftest_kv_append(t, x), !selftest_end(t, FAMILY_KV_APPEND)))
        return false;
    if (selftest_begin(t, FAMILY_ATTENTION_FALLBACK) &&
        (selftest_attention(t, x, true), !selftest_end(t, FAMILY_ATTENTION_FALLBACK)))
        return false;
    enum gpu_family attend = cuda_attention_family(&x->kv),
                    decode = cuda_attention_decode_family(&x->kv);
    if (selftest_begin(t, attend) && (selftest_attention(t, x, false), !selftest_end(t, attend)))
        return false;
    return !selftest_begin(t, decode) || (selftest_attention_decode(t, x), selftest_end(t, decode));
}

bool selftest_attention_vision(struct selftest *t)
{
    if (selftest_begin(t, FAMILY_ATTENTION_VISION_FALLBACK) &&
        (selftest_vision(t, 72, true), !selftest_end(t, FAMILY_ATTENTION_VISION_FALLBACK)))
        return false;
    if (selftest_begin(t, FAMILY_ATTENTION_VISION_64) &&
        (selftest_vision(t, 64, false), !selftest_end(t, FAMILY_ATTENTION_VISION_64)))
        return false;
    return !selftest_begin(t, FAMILY_ATTENTION_VISION_80) ||
           (selftest_vision(t, 72, false), selftest_end(t, FAMILY_ATTENTION_VISION_80));
}
