/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on trial: of the decoder over a cache of blocks that append fills, and of the vision
 * tower. */
#include <math.h>
#include <string.h>

#include "backend/convert.h"
#include "backend/cuda/attention_shape.h"
#include "backend/cuda/trial.h"

/* ---- attention of the decoder ---- */

/* The nearest value of an FP8 cache. */
static float rounded_e4m3(float v)
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

struct text {
    int dim, width; /* of a head; of a row of raw products */
    bool fp8;
    int32_t seq[TEXT_ROWS], index[TEXT_ROWS], table[SEQS * BLOCKS], tile[16];
    int n_tiles;
    float *raw, *q_norm, *k_norm, *rope;
    float *head; /* [TEXT_ROWS, HEADS + 2 KV_HEADS, dim] normed and turned, keys and values as the
                    cache holds them */
    double *o;   /* [TEXT_ROWS, HEADS, dim] */
    int row_of[SEQS][160];
    struct kv_layer kv;
    struct dev_batch batch;
    const int32_t *card_tile;
    const float *card_raw, *card_q_norm, *card_k_norm, *card_rope;
    bf16 *q;
};

static void lay_out_rows(struct text *x)
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
        for (n = 1; n < ATTEND_ROWS && first + n < BODY && x->seq[first + n] == x->seq[first];
             n++) {}
        x->tile[2 * x->n_tiles] = first;
        x->tile[2 * x->n_tiles + 1] = n;
        x->n_tiles++;
    }
    for (int i = 0; i < SEQS * BLOCKS; i++)
        x->table[i] = (5 * i + 1) % (SEQS * BLOCKS);
}

static void norm_and_turn(const struct text *x, float *head, const float *norm, const float *rope)
{
    double squares = 0, v[128];
    int half = x->dim / 2;
    for (int i = 0; i < x->dim; i++)
        squares += (double)head[i] * (double)head[i];
    for (int i = 0; i < x->dim; i++)
        v[i] = (double)head[i] * (double)norm[i] / sqrt(squares / x->dim + (double)TRIAL_EPS);
    for (int j = 0; j < half; j++) {
        double cosine = (double)rope[2 * j], sine = (double)rope[2 * j + 1];
        head[j] = (float)(v[j] * cosine - v[j + half] * sine);
        head[j + half] = (float)(v[j + half] * cosine + v[j] * sine);
    }
}

static void finish_heads(struct text *x)
{
    for (int row = 0; row < TEXT_ROWS; row++)
        for (int h = 0; h < HEADS + 2 * KV_HEADS; h++) {
            float *head = x->head + row * x->width + h * x->dim;
            if (h < HEADS + KV_HEADS)
                norm_and_turn(x, head, h < HEADS ? x->q_norm : x->k_norm, x->rope + row * x->dim);
            for (int i = 0; i < x->dim; i++)
                head[i] = h >= HEADS && x->fp8 ? rounded_e4m3(head[i])
                                               : bf16_float(nearest_bf16(head[i]));
        }
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void attend_on_host(struct text *x, int row, int h)
{
    const int *row_of = x->row_of[x->seq[row]];
    int key = (HEADS + h / (HEADS / KV_HEADS)) * x->dim, value = key + KV_HEADS * x->dim;
    double *o = x->o + (row * HEADS + h) * x->dim, most = -INFINITY, sum = 0, score[160];
    for (int i = 0; i <= x->index[row]; i++) {
        score[i] = dot(x->head + row * x->width + h * x->dim, x->head + row_of[i] * x->width + key,
                       x->dim) /
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

static void put_text(struct trial *t, struct text *x)
{
    size_t raw = TEXT_ROWS * (size_t)x->width * sizeof(float);
    size_t cache = (size_t)(SEQS * BLOCKS * KV_HEADS * 2 * KV_TOKENS * x->dim) *
                   (x->fp8 ? 1 : sizeof(bf16));
    x->kv = (struct kv_layer){trial_card_room(t, cache), KV_HEADS, x->dim, x->fp8};
    x->batch = (struct dev_batch){trial_put(t, x->seq, sizeof(x->seq)),
                                  trial_put(t, x->index, sizeof(x->index)),
                                  trial_put(t, x->table, sizeof(x->table)), BODY, BLOCKS};
    x->card_tile = trial_put(t, x->tile, sizeof(x->tile));
    x->card_raw = trial_put(t, x->raw, raw);
    x->card_q_norm = trial_put(t, x->q_norm, (size_t)x->dim * sizeof(float));
    x->card_k_norm = trial_put(t, x->k_norm, (size_t)x->dim * sizeof(float));
    x->card_rope = trial_put(t, x->rope, TEXT_ROWS * (size_t)x->dim * sizeof(float));
    x->q = trial_card_room(t, TEXT_ROWS * (size_t)(HEADS * x->dim) * sizeof(bf16));
}

static struct text *make_text(struct trial *t, int dim, bool fp8)
{
    struct text *x = trial_host_room(t, sizeof(*x));
    size_t width = (size_t)((HEADS + 2 * KV_HEADS) * dim), n = TEXT_ROWS * width;
    float *angle = trial_random_floats(t, TEXT_ROWS * (size_t)dim / 2, -3, 3);
    if (!x || !angle) return NULL;
    x->dim = dim;
    x->width = (int)width;
    x->fp8 = fp8;
    x->raw = trial_random_floats(t, n, -2, 2);
    x->q_norm = trial_random_floats(t, (size_t)dim, 0.5f, 1.5f);
    x->k_norm = trial_random_floats(t, (size_t)dim, 0.5f, 1.5f);
    x->rope = trial_host_room(t, TEXT_ROWS * (size_t)dim * sizeof(float));
    x->head = trial_host_room(t, n * sizeof(float));
    x->o = trial_host_room(t, TEXT_ROWS * (size_t)(HEADS * dim) * sizeof(double));
    if (t->out_of_memory) return NULL;
    for (int i = 0; i < TEXT_ROWS * dim / 2; i++) {
        x->rope[2 * i] = cosf(angle[i]);
        x->rope[2 * i + 1] = sinf(angle[i]);
    }
    lay_out_rows(x);
    memcpy(x->head, x->raw, n * sizeof(float));
    finish_heads(x);
    for (int row = 0; row < TEXT_ROWS; row++)
        for (int h = 0; h < HEADS; h++)
            attend_on_host(x, row, h);
    put_text(t, x);
    return t->out_of_memory ? NULL : x;
}

/* Fills the cache; of what append makes, q is judged here, keys and values by what is attended to.
 */
static void try_append(struct trial *t, struct text *x)
{
    size_t q_width = (size_t)(HEADS * x->dim);
    struct append_args a = {x->q,  x->card_raw, x->card_q_norm, x->card_k_norm, x->card_rope,
                            x->kv, x->batch,    HEADS,          TRIAL_EPS};
    struct launch l = append_launch(&a);
    double *want = trial_host_room(t, BODY * q_width * sizeof(double));
    cuda_launch(t->c, &l, &a);
    for (size_t i = 0; want && i < BODY * q_width; i++)
        want[i] = (double)x->head[i / q_width * (size_t)x->width + i % q_width];
    trial_judge(t, FAMILY_APPEND, trial_get_bf16(t, x->q, BODY * q_width), want, BODY * q_width);
}

static void try_attend(struct trial *t, const struct text *x, bool plain)
{
    size_t n = BODY * (size_t)(HEADS * x->dim);
    struct attend_args a = {trial_card_room(t, n * sizeof(bf16)),
                            x->q,
                            x->kv,
                            x->batch,
                            x->card_tile,
                            x->n_tiles,
                            HEADS,
                            1 / sqrtf((float)x->dim),
                            0};
    struct launch l = plain ? attend_plain_launch(&a) : attend_launch(&a);
    if (a.o) cuda_launch(t->c, &l, &a);
    trial_judge(t, plain ? FAMILY_ATTEND_PLAIN : cuda_family_of_attend(&x->kv),
                a.o ? trial_get_bf16(t, a.o, n) : NULL, x->o, n);
}

static void try_decode(struct trial *t, const struct text *x)
{
    size_t n = SEQS * (size_t)(HEADS * x->dim);
    struct dev_batch last = {x->batch.seq + BODY, x->batch.index + BODY, x->batch.block_table, SEQS,
                             BLOCKS};
    static const uint32_t none[SEQS * KV_HEADS];
    struct decode_args a = {
        trial_card_room(t, n * sizeof(bf16)),
        x->card_raw + BODY * x->width,
        x->card_q_norm,
        x->card_k_norm,
        x->card_rope + BODY * x->dim,
        x->kv,
        last,
        trial_card_room(t, SEQS * HEADS * SPLITS * (size_t)(x->dim + 2) * sizeof(float)),
        trial_put(t, none, sizeof(none)),
        HEADS,
        SPLITS,
        1 / sqrtf((float)x->dim),
        TRIAL_EPS};
    struct launch l = decode_launch(&a);
    if (!t->out_of_memory) cuda_launch(t->c, &l, &a);
    trial_judge(t, cuda_family_of_decode(&x->kv),
                t->out_of_memory ? NULL : trial_get_bf16(t, a.o, n), x->o + BODY * HEADS * x->dim,
                n);
}

/* ---- attention of the tower ---- */

enum { VISION_FIRST = 10, VISION_N = 130, VISION_KEYS = 150, VISION_HEADS = 2 };

static double *vision_on_host(struct trial *t, const float *qkv, int dim)
{
    double *out = trial_host_room(t, VISION_N * (size_t)(VISION_HEADS * dim) * sizeof(double)),
           weight[VISION_KEYS];
    int width = VISION_HEADS * dim;
    for (int i = 0; out && i < VISION_N * VISION_HEADS; i++) {
        const float *q = qkv + (VISION_FIRST + i / VISION_HEADS) * 3 * width +
                         i % VISION_HEADS * dim,
                    *k = qkv + width + i % VISION_HEADS * dim;
        double sum = 0;
        for (int key = 0; key < VISION_KEYS; key++)
            sum += weight[key] = exp(dot(q, k + key * 3 * width, dim) /
                                     sqrt(dim)); /* small: no maximum is needed */
        for (int key = 0; key < VISION_KEYS; key++)
            for (int d = 0; d < dim; d++)
                out[i * dim + d] += weight[key] / sum * (double)k[key * 3 * width + width + d];
    }
    return out;
}

static void try_vision(struct trial *t, int dim, bool plain)
{
    size_t n = VISION_N * (size_t)(VISION_HEADS * dim),
           all = VISION_KEYS * 3 * (size_t)(VISION_HEADS * dim);
    float *qkv = trial_random_floats(t, all, -2, 2);
    if (!qkv) return;
    struct vision_attend_args a = {trial_card_room(t, n * sizeof(bf16)),
                                   trial_put_bf16(t, qkv, all),
                                   VISION_FIRST,
                                   VISION_N,
                                   VISION_KEYS,
                                   VISION_HEADS,
                                   dim,
                                   1 / sqrtf((float)dim)};
    struct launch l = plain ? vision_attend_plain_launch(&a) : vision_attend_launch(&a);
    if (t->out_of_memory) return;
    cuda_launch(t->c, &l, &a);
    trial_judge(t, plain ? FAMILY_VISION_PLAIN : cuda_family_of_vision(dim),
                trial_get_bf16(t, a.o, n), vision_on_host(t, qkv, dim), n);
}

/* ---- all ---- */

bool trial_of_text(struct trial *t, int dim, bool fp8)
{
    struct text *x = make_text(t, dim, fp8);
    if (!x) return true;
    t->report->family[FAMILY_APPEND].tried = t->report->family[FAMILY_ATTEND_PLAIN].tried =
        false; /* each cache is one more trial of theirs */
    if (trial_begins(t, FAMILY_APPEND) && (try_append(t, x), !trial_ends(t, FAMILY_APPEND)))
        return false;
    if (trial_begins(t, FAMILY_ATTEND_PLAIN) &&
        (try_attend(t, x, true), !trial_ends(t, FAMILY_ATTEND_PLAIN)))
        return false;
    int attend = cuda_family_of_attend(&x->kv), decode = cuda_family_of_decode(&x->kv);
    if (trial_begins(t, attend) && (try_attend(t, x, false), !trial_ends(t, attend))) return false;
    return !trial_begins(t, decode) || (try_decode(t, x), trial_ends(t, decode));
}

bool trial_of_tower(struct trial *t)
{
    if (trial_begins(t, FAMILY_VISION_PLAIN) &&
        (try_vision(t, 72, true), !trial_ends(t, FAMILY_VISION_PLAIN)))
        return false;
    if (trial_begins(t, FAMILY_VISION) && (try_vision(t, 64, false), !trial_ends(t, FAMILY_VISION)))
        return false;
    return !trial_begins(t, FAMILY_VISION + 1) ||
           (try_vision(t, 72, false), trial_ends(t, FAMILY_VISION + 1));
}
