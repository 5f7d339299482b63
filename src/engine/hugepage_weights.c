/* SPDX-License-Identifier: Apache-2.0 */
/* Copies weights that every step reads from the mapped file into huge pages, some between steps, by
 * all threads. Each matrix begins at a page: in files it begins anywhere, and on some machines long
 * streams that enter a page within a row are read a sixth slower. BF16 matrices become bf12, a
 * quarter smaller without loss, where the kernels take it (tensor/bf12.h). The vision encoder stays
 * in the file's pages, as it is read once per image, and so does what a GPU holds a copy of. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hugepages.h"
#include "base/memory.h"
#include "engine/hugepage_weights.h"

#define COPY_DELAY_SECONDS 10.0
enum {
    PAGE = 4096,
    HUGEPAGE_MIN_BYTES = 64 << 10,  /* of a matrix, or of the scales of one */
    COPY_BYTES_PER_STEP = 64 << 20, /* bytes between two steps, unless a matrix has more */
    COPY_CHUNK_BYTES = 32 << 20     /* of a matrix, that is in memory twice while it is copied */
};

struct weight_copy {
    const void **ref, **second_ref;   /* what points to it, or will; the second may be NULL */
    const struct weight *bf12_source; /* the matrix, where the copy is its form of twelve bits a
                                         weight; NULL: bytes as they are */
    const uint8_t *from;
    uint8_t *to;
    size_t size;
};

struct hugepage_weights {
    struct weight_copy *copy;
    size_t n;
    void *memory;
    size_t memory_bytes;
    bool eager;        /* requests do not keep it waiting */
    double start_time; /* when it began */
    double next_time;  /* before that, steps are not kept waiting once more: finding pages may take
                          long */
    /* under the engine's lock */
    size_t n_done;
    uint64_t bytes;                    /* of those */
    atomic_uint_least64_t saved_bytes; /* than they take in the file */
    pthread_cond_t done;
};

/* ---- which ---- */

static bool is_file_mapped(const ey_engine *engine, const void *data)
{
    for (size_t i = 0; i < checkpoint_count(engine->ckpt); i++) {
        const struct tensor_view *t = checkpoint_at(engine->ckpt, i);
        if ((const uint8_t *)data >= t->data && (const uint8_t *)data < t->data + t->size)
            return true;
    }
    return false;
}

/* The backend that reads weights in host memory. */
static const struct backend *host_backend(const ey_engine *engine)
{
    return engine->cpu ? engine->cpu : engine->be;
}

static size_t round_up_to_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Skips small weights, and those that are not in the file. */
static void add_copy(struct hugepage_weights *m, const ey_engine *engine, const void *from,
                     struct weight_copy copy)
{
    if (!from || copy.size < HUGEPAGE_MIN_BYTES || !is_file_mapped(engine, from)) return;
    copy.from = from;
    m->copy[m->n++] = copy;
    m->memory_bytes += round_up_to_pages(copy.size);
}

enum { WEIGHT_PARTS = 3 };

static void add_weight_copies(struct hugepage_weights *m, const ey_engine *engine, struct weight *w)
{
    if (!w->data) return;
    const struct backend *be = host_backend(engine);
    const size_t bf12_bytes = be->ops->memory->bf12_bytes ? be->ops->memory->bf12_bytes(be, w) : 0;
    if (bf12_bytes)
        add_copy(m, engine, w->data,
                 (struct weight_copy){.ref = &w->bf12, .bf12_source = w, .size = bf12_bytes});
    else
        add_copy(
            m, engine, w->data,
            (struct weight_copy){.ref = &w->data, .size = (size_t)w->rows * weight_row_bytes(w)});
    if (w->dtype != DTYPE_INT4) return;
    add_copy(m, engine, w->group_scale,
             (struct weight_copy){.ref = &w->group_scale, .size = weight_group_scale_bytes(w)});
    add_copy(m, engine, w->group_zero,
             (struct weight_copy){.ref = &w->group_zero, .size = weight_group_zero_bytes(w)});
}

/* Number of layers on the host: all, or the first ones. */
static int count_host_layers(const ey_engine *engine)
{
    const struct backend *be = engine->be;
    return be->ops->memory->weight_bytes(be, &engine->model.layers[0].gate, PLACE_RESIDENT)
               ? engine->plan.cpu_layers
               : engine->model.text.n_layers;
}

static void list_copies(struct hugepage_weights *m, ey_engine *engine, int n_layers)
{
    struct model *model = &engine->model;
    if (n_layers == model->text.n_layers)
        add_weight_copies(
            m, engine,
            &model->head); /* the largest comes first: mostly before there are requests */
    if (m->n &&
        model->embed.data == model->head.data) /* or its pages would come back, token by token */
        m->copy[0].second_ref = m->copy[0].bf12_source ? &model->embed.bf12 : &model->embed.data;
    for (int i = 0; i < n_layers; i++) {
        struct weight *w = (struct weight *)&engine->model.layers[i];
        for (size_t j = 0; j < LAYER_WEIGHTS; j++)
            add_weight_copies(m, engine, &w[j]);
    }
}

/* The file's own pages count as available; an eighth stays free. */
static bool hugepage_memory_available(size_t bytes)
{
    return bytes >= HUGEPAGE_BYTES && bytes + bytes / 8 <= memory_available();
}

static void allocate_copies(struct hugepage_weights *m)
{
    uint8_t *to = m->memory = hugepages_available() && hugepage_memory_available(m->memory_bytes)
                                  ? hugepages_alloc(m->memory_bytes)
                                  : NULL;
    for (size_t i = 0; to && i < m->n; to += round_up_to_pages(m->copy[i].size), i++)
        m->copy[i].to = to;
    if (!to) m->n = 0;
}

void engine_hugepages_start(ey_engine *engine, bool eager)
{
    int n_layers = engine->model.quantized_bytes
                       ? 0
                       : count_host_layers(engine); /* quantized weights have memory of their own */
    struct hugepage_weights *m = n_layers ? calloc(1, sizeof(*m)) : NULL;
    if (!m) return;
    m->eager = eager;
    m->start_time = seconds_now();
    m->copy = calloc((size_t)n_layers * LAYER_WEIGHTS * WEIGHT_PARTS + WEIGHT_PARTS,
                     sizeof(*m->copy));
    if (m->copy) list_copies(m, engine, n_layers);
    allocate_copies(m);
    pthread_cond_init(&m->done, NULL);
    engine->hugepage_weights = m;
}

void engine_hugepages_end(ey_engine *engine)
{
    struct hugepage_weights *m = engine->hugepage_weights;
    if (!m) return;
    hugepages_free(m->memory, m->memory_bytes);
    pthread_cond_destroy(&m->done);
    free(m->copy);
    free(m);
    engine->hugepage_weights = NULL;
}

/* ---- copies ---- */

static bool has_copies_left(const struct hugepage_weights *m)
{
    return m && m->n_done < m->n;
}

/* Servers spend a third of their time copying until done; later requests gain. One-shot commands
 * copy when idle: their first request may be the last. */
bool engine_hugepages_may_copy(const ey_engine *engine, bool has_work)
{
    const struct hugepage_weights *m = engine->hugepage_weights;
    const double now = has_copies_left(m) && has_work ? seconds_now() : 0;
    return has_copies_left(m) &&
           (!has_work ||
            (now >= m->next_time && (m->eager || now - m->start_time > COPY_DELAY_SECONDS)));
}

struct copy_chunk {
    uint8_t *to;
    const uint8_t *from;
    size_t size;
};

static void copy_pages(void *context, size_t begin, size_t end, int thread)
{
    const struct copy_chunk *p = context;
    size_t first = begin * HUGEPAGE_BYTES,
           last = end * HUGEPAGE_BYTES < p->size ? end * HUGEPAGE_BYTES : p->size;
    (void)thread;
    memcpy(p->to + first, p->from + first, last - first);
}

static void copy_plain(const struct weight_copy *c, struct pool *pool)
{
    for (size_t at = 0; at < c->size; at += COPY_CHUNK_BYTES) {
        struct copy_chunk p = {c->to + at, c->from + at,
                               c->size - at < COPY_CHUNK_BYTES ? c->size - at : COPY_CHUNK_BYTES};
        pool_run(pool, (p.size + HUGEPAGE_BYTES - 1) / HUGEPAGE_BYTES, 1, copy_pages, &p);
        file_map_release_pages(p.from, p.size);
    }
}

struct bf12_job {
    const struct weight_copy *copy;
    const struct backend *be;
    size_t first_block;
};

static void encode_bf12_blocks(void *context, size_t begin, size_t end, int thread)
{
    const struct bf12_job *s = context;
    (void)thread;
    s->be->ops->memory->write_bf12(s->be, s->copy->to, s->copy->bf12_source, s->first_block + begin,
                                   s->first_block + end);
}

static void copy_as_bf12(const struct weight_copy *c, const struct backend *be, struct pool *pool)
{
    const struct weight *w = c->bf12_source;
    const size_t block_bytes = BF12_ROWS * weight_row_bytes(w),
                 bytes = (size_t)w->rows * weight_row_bytes(w), n = weight_bf12_blocks(w),
                 step = COPY_CHUNK_BYTES / block_bytes + 1;
    for (size_t first = 0; first < n; first += step) {
        struct bf12_job s = {c, be, first};
        const size_t count = n - first < step ? n - first : step, at = first * block_bytes;
        pool_run(pool, count, HUGEPAGE_BYTES / block_bytes + 1, encode_bf12_blocks, &s);
        file_map_release_pages(c->from + at,
                               bytes - at < count * block_bytes ? bytes - at : count * block_bytes);
    }
}

/* Drops the file's pages from memory as their copies replace them. */
static void copy_weight(const struct weight_copy *c, ey_engine *engine)
{
    const struct weight *w = c->bf12_source;
    if (w) {
        copy_as_bf12(c, host_backend(engine), engine->pool);
        atomic_fetch_add(&engine->hugepage_weights->saved_bytes,
                         (size_t)w->rows * weight_row_bytes(w) - c->size);
    } else
        copy_plain(c, engine->pool);
    *c->ref = c->to;
    if (c->second_ref) *c->second_ref = c->to;
}

void engine_hugepages_copy_some(ey_engine *engine)
{
    struct hugepage_weights *m = engine->hugepage_weights;
    const double start = seconds_now();
    size_t bytes = 0, i = m->n_done; /* no other thread changes it */
    for (; i < m->n && bytes < COPY_BYTES_PER_STEP; bytes += m->copy[i++].size)
        copy_weight(&m->copy[i], engine);
    const double end = seconds_now();
    pthread_mutex_lock(&engine->lock);
    m->n_done = i;
    m->bytes += bytes;
    m->next_time = end + 2 * (end - start);
    if (!has_copies_left(m)) pthread_cond_broadcast(&m->done);
    pthread_mutex_unlock(&engine->lock);
}

uint64_t engine_bytes_saved(const ey_engine *engine)
{
    return engine->hugepage_weights ? atomic_load(&engine->hugepage_weights->saved_bytes) : 0;
}

uint64_t ey_engine_wait_huge_pages(ey_engine *engine)
{
    struct hugepage_weights *m = engine->hugepage_weights;
    if (!m) return 0;
    pthread_mutex_lock(&engine->lock);
    while (has_copies_left(m))
        pthread_cond_wait(&m->done, &engine->lock);
    uint64_t bytes = m->bytes;
    pthread_mutex_unlock(&engine->lock);
    return bytes;
}
