/* SPDX-License-Identifier: Apache-2.0 */
/* Threads take chunks of rows from a shared counter. They are not the pool's threads, which do
 * other startup work at the same time. */
#include "models/block_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "tensor/gguf_blocks.h"

enum {
    CHUNK_BYTES = 1 << 20,
    MIN_THREAD_BYTES = 16 << 20 /* least bytes for which a thread is started */
};

enum part { PART_EMBED, PART_LAYER, PART_VISION_BLOCK, PART_VISION };

struct checked_matrix {
    struct tensor w;
    enum part part;
    int index;          /* of the layer or block */
    size_t first_chunk; /* counted over all matrices */
};

struct block_check {
    struct checked_matrix *matrices; /* [n] */
    size_t n, n_chunks;
    uint64_t bytes;
    atomic_size_t next_chunk, first_bad; /* first_bad: a matrix; n if there is none */
    pthread_t threads[EY_MAX_THREADS];
    int n_started;
};

/* ---- the matrices to check ---- */

static int64_t rows_of_chunk(const struct tensor *w)
{
    const int64_t rows = CHUNK_BYTES / (int64_t)weight_row_bytes(w);
    return rows > 1 ? rows : 1;
}

static void add_matrices(struct block_check *c, const struct tensor *w, size_t n, enum part part,
                         int index)
{
    for (size_t i = 0; i < n; i++) {
        if (!w[i].data || w[i].recipe || !dtype_is_gguf(w[i].dtype)) continue;
        c->matrices[c->n++] = (struct checked_matrix){w[i], part, index, c->n_chunks};
        c->n_chunks += (size_t)((w[i].rows + rows_of_chunk(&w[i]) - 1) / rows_of_chunk(&w[i]));
        c->bytes += weight_data_bytes(&w[i]);
    }
}

static void add_merger_matrices(struct block_check *c, struct merger_tensors *m)
{
    add_matrices(c, TENSORS_OF(m->fc1), PART_VISION, 0);
    add_matrices(c, TENSORS_OF(m->fc2), PART_VISION, 0);
}

static void add_vision_matrices(struct block_check *c, const struct model *m)
{
    const struct vision_tensors *v = &m->vision_tensors;
    add_matrices(c, &v->patch.w, 1, PART_VISION, 0);
    add_matrices(c, &v->position, 1, PART_VISION, 0);
    for (int i = 0; i < m->vision.depth; i++)
        add_matrices(c, TENSORS_OF(v->blocks[i]), PART_VISION_BLOCK, i);
    if (m->vision.depth) add_merger_matrices(c, (struct merger_tensors *)&v->merger);
    for (int i = 0; i < m->vision.n_deepstack; i++)
        add_merger_matrices(c, (struct merger_tensors *)&v->deepstack[i]);
}

static void add_model(struct block_check *c, const struct model *m)
{
    add_matrices(c, &m->embed, 1, PART_EMBED, 0);
    if (m->head.data != m->embed.data) add_matrices(c, &m->head, 1, PART_EMBED, 0);
    for (int i = 0; i < m->text.n_layers; i++) {
        add_matrices(c, TENSORS_OF(m->layers[i].attention), PART_LAYER, i);
        add_matrices(c, TENSORS_OF(m->layers[i].mlp), PART_LAYER, i);
    }
    add_vision_matrices(c, m);
}

/* Returns the most matrices that add_model() may find. */
static size_t most_matrices(const struct model *m)
{
    const size_t layer = sizeof(*m->layers) / sizeof(struct tensor),
                 block = sizeof(struct vision_block_tensors) / sizeof(struct tensor),
                 others = 2 + (sizeof(m->vision_tensors) / sizeof(struct tensor));
    return (size_t)m->text.n_layers * layer + (size_t)m->vision.depth * block + others;
}

/* ---- the threads ---- */

static void note_bad(struct block_check *c, size_t matrix)
{
    size_t first = atomic_load(&c->first_bad);
    while (matrix < first && !atomic_compare_exchange_weak(&c->first_bad, &first, matrix))
        ;
}

static void check_chunk(struct block_check *c, size_t matrix, size_t chunk)
{
    const struct checked_matrix *m = &c->matrices[matrix];
    const int64_t rows = rows_of_chunk(&m->w), first = (int64_t)(chunk - m->first_chunk) * rows,
                  left = m->w.rows - first;
    if (!gguf_rows_are_finite(&m->w, first, left < rows ? left : rows)) note_bad(c, matrix);
}

/* A thread's chunks ascend, so it walks through the matrices once. */
static void *check_chunks(void *argument)
{
    struct block_check *c = argument;
    size_t chunk, matrix = 0;
    while ((chunk = atomic_fetch_add(&c->next_chunk, 1)) < c->n_chunks) {
        while (matrix + 1 < c->n && chunk >= c->matrices[matrix + 1].first_chunk)
            matrix++;
        check_chunk(c, matrix, chunk);
    }
    return NULL;
}

/* If a thread cannot be started, block_check_finish() does its share. */
static void start_check_threads(struct block_check *c, int threads)
{
    const uint64_t useful = c->bytes / MIN_THREAD_BYTES;
    while (c->n_started < threads && c->n_started < EY_MAX_THREADS &&
           (uint64_t)c->n_started < useful &&
           pthread_create(&c->threads[c->n_started], NULL, check_chunks, c) == 0)
        c->n_started++;
}

static void join_check_threads(struct block_check *c)
{
    while (c->n_started > 0)
        pthread_join(c->threads[--c->n_started], NULL);
}

bool block_check_start(struct block_check **out, const struct model *model, int threads, ey_err *e)
{
    const size_t most = most_matrices(model);
    struct block_check *c = *out = calloc(1, sizeof(*c));
    if (c) c->matrices = calloc(most, sizeof(*c->matrices));
    if (!c || !c->matrices) {
        block_check_close(out);
        return ey_fail_memory(e, "the check of scales", most * sizeof(*c->matrices));
    }
    add_model(c, model);
    atomic_store(&c->first_bad, c->n);
    start_check_threads(c, threads);
    return true;
}

static bool fail_matrix(const struct checked_matrix *m, ey_err *e)
{
    static const char *const names[] = {
        [PART_EMBED] = "the embedding or the head",
        [PART_LAYER] = "the weights of layer",
        [PART_VISION_BLOCK] = "the weights of the vision encoder's block",
        [PART_VISION] = "the vision encoder outside its blocks",
    };
    char index[16] = "";
    if (m->part == PART_LAYER || m->part == PART_VISION_BLOCK)
        snprintf(index, sizeof(index), " %d", m->index);
    return ey_fail(e, EY_BAD_MODEL,
                   "a scale in %s%s is not a finite number; the file is damaged: download it again",
                   names[m->part], index);
}

bool block_check_finish(struct block_check *c, ey_err *e)
{
    check_chunks(c);
    join_check_threads(c);
    const size_t bad = atomic_load(&c->first_bad);
    return bad == c->n || fail_matrix(&c->matrices[bad], e);
}

void block_check_close(struct block_check **out)
{
    struct block_check *c = *out;
    if (!c) return;
    atomic_store(&c->next_chunk, c->n_chunks);
    join_check_threads(c);
    free(c->matrices);
    free(c);
    *out = NULL;
}
