/* A picture's attention with scores in float32; a part of kernels for pictures whose values are narrower. Scores are sharp: a softmax of large ones would turn what narrow numbers lose
 * into answers.
 *
 * A block is CPU_KEYS patches; its keys are [dim, CPU_KEYS] float32. */
#include "backend/cpu/body_softmax.h"

enum { SHARE = 4 }; /* queries that share a load of keys */

static size_t key_bytes(int dim)
{
    return (size_t)dim * sizeof(float);
}

static void store_key(void *keys, size_t patch, const float *key, int dim)
{
    float *block = (float *)keys + patch / CPU_KEYS * CPU_KEYS * (size_t)dim + patch % CPU_KEYS;
    for (size_t d = 0; d < (size_t)dim; d++) block[d * CPU_KEYS] = key[d];
}

/* scores[rows][CPU_KEYS] = q · keys, rows of q one after the other. */
INLINE void score_rows(float (*scores)[CPU_KEYS], const float *q, const float *keys, int dim, int rows)
{
    vf acc[SHARE][KEY_VECTORS];
    UNROLL
    for (int i = 0; i < KEY_VECTORS * rows; i++) acc[i / KEY_VECTORS][i % KEY_VECTORS] = (vf){0};
    for (int d = 0; d < dim; d++, keys += CPU_KEYS) {
        vf k[KEY_VECTORS];
        UNROLL
        for (size_t u = 0; u < KEY_VECTORS; u++) k[u] = load(keys + u * LANES);
        UNROLL
        for (int i = 0; i < KEY_VECTORS * rows; i++) acc[i / KEY_VECTORS][i % KEY_VECTORS] += q[i / KEY_VECTORS * dim + d] * k[i % KEY_VECTORS];
    }
    UNROLL
    for (int i = 0; i < KEY_VECTORS * rows; i++) store(scores[i / KEY_VECTORS] + i % KEY_VECTORS * LANES, acc[i / KEY_VECTORS][i % KEY_VECTORS]);
}

/* Sums and running softmax of a tile's queries before its first block. */
INLINE void start_rows(struct attend_tile *state, float *o, size_t o_stride, const struct picture_tile *t)
{
    memset(o, 0, (size_t)t->n_rows * o_stride * sizeof(float));
    *state = (struct attend_tile){.n_rows = t->n_rows, .dim = t->dim, .o = o, .o_stride = o_stride};
    for (int r = 0; r < t->n_rows; r++) state->max[r] = -1e30f;
}

/* Patches of the block that begins with `key`. */
INLINE int patches_of_block(const struct picture_tile *t, int key)
{
    return t->n_keys - key < CPU_KEYS ? t->n_keys - key : CPU_KEYS;
}

INLINE void finish_rows(const struct picture_tile *t, const struct attend_tile *state)
{
    for (int r = 0; r < t->n_rows; r++)
        for (int d = 0; d < t->dim; d++) t->o[(size_t)r * t->o_stride + (size_t)d] = state->o[(size_t)r * state->o_stride + (size_t)d] / state->sum[r];
}
