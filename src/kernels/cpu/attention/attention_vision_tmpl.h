/* SPDX-License-Identifier: Apache-2.0 */
/* Image attention of a tile of queries. Values are [words, padded_dim()], where a word holds one
 * column of PATCHES_PER_WORD patches. A word of weights holds those of the same patches. The
 * including file defines FMA_VALUES(), which adds a vector of values times a word of weights, and
 * STORE_WEIGHTS(), which makes words of a block's weights. */

/* ---- a tile ---- */

struct vision_state {
    float o[CPU_Q_ROWS * (CPU_VISION_MAX_DIM + LANES)];
    float weights[ROWS_PER_LOAD][CPU_KEY_BLOCK / PATCHES_PER_WORD]; /* words */
    struct vision_queries queries;
} __attribute__((aligned(64)));

static size_t vision_state_bytes(void)
{
    return sizeof(struct vision_state);
}

/* o[rows] += n words of weights times `width` vectors of values, `stride` apart. */
INLINE void vision_add_values(float *o, const float *v, size_t stride,
                              const float (*weights)[CPU_KEY_BLOCK / PATCHES_PER_WORD], int n,
                              int rows, int width)
{
    vf acc[ROWS_PER_LOAD][VECTORS_AT_ONCE];
    UNROLL
    for (int i = 0; i < width * rows; i++)
        acc[i / width][i % width] = load_vf(o + (size_t)(i / width) * stride + i % width * LANES);
    for (int j = 0; j < n; j++, v += stride) {
        vf row[VECTORS_AT_ONCE];
        UNROLL
        for (int u = 0; u < width; u++)
            row[u] = load_vf(v + u * LANES);
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
        for (int u = 0; u < width; u++)
            acc[r][u] = FMA_VALUES(acc[r][u], row[u], &weights[r][j]);
    }
    UNROLL
    for (int i = 0; i < width * rows; i++)
        store_vf(o + (size_t)(i / width) * stride + i % width * LANES, acc[i / width][i % width]);
}

/* Computes queries first .. first+rows-1 against a block of n patches. */
INLINE void vision_attention_rows(struct vision_state *state, const struct vision_attention_tile *t,
                                  const void *keys, const float *values, int n, int first, int rows)
{
    const size_t padded = padded_dim(t->dim);
    const int words = (n + PATCHES_PER_WORD - 1) / PATCHES_PER_WORD;
    vf scores[ROWS_PER_LOAD][KEY_BLOCK_VECTORS];
    vision_scores(scores, &state->queries, keys, t->dim, n, first, rows);
    UNROLL
    for (int r = 0; r < rows; r++) {
        softmax_vision_row(&state->queries, first + r, scores[r]);
        STORE_WEIGHTS(state->weights[r], scores[r]);
    }
    for (size_t d = 0; d < padded; d += VECTORS_AT_ONCE * LANES) {
        float *o = state->o + (size_t)first * padded + d;
        switch ((padded - d) / LANES) {
        case 1: vision_add_values(o, values + d, padded, state->weights, words, rows, 1); break;
        case 2: vision_add_values(o, values + d, padded, state->weights, words, rows, 2); break;
        case 3: vision_add_values(o, values + d, padded, state->weights, words, rows, 3); break;
        default:
            vision_add_values(o, values + d, padded, state->weights, words, rows, VECTORS_AT_ONCE);
        }
    }
}

static void vision_attention_of_tile(const struct vision_attention_tile *t, void *scratch)
{
    struct vision_state *state = scratch;
    const size_t padded = padded_dim(t->dim);
    start_vision_rows(&state->queries, state->o, padded, t);
    for (int key = 0; key < t->n_keys; key += CPU_KEY_BLOCK) {
        const uint8_t *keys = (const uint8_t *)t->keys + (size_t)key * vision_key_bytes(t->dim);
        const float *values = (const float *)t->values + (size_t)key / PATCHES_PER_WORD * padded;
        const int n = patches_of_block(t, key);
        int r = 0;
        for (; r + ROWS_PER_LOAD <= t->n_rows; r += ROWS_PER_LOAD)
            vision_attention_rows(state, t, keys, values, n, r, ROWS_PER_LOAD);
        for (; r < t->n_rows; r++)
            vision_attention_rows(state, t, keys, values, n, r, 1);
    }
    finish_vision_rows(t, &state->queries);
}
